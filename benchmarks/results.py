"""All runs of a session, by row and subject.

In: `Run`s as they come. Out: their medians, and what must never be, for the table, the targets and the ratios.
"""

from dataclasses import dataclass, field

from benchmarks.figures import Run, Summary, summary
from benchmarks.memory import Memory
from benchmarks.subjects import FLOOR, OURS


@dataclass(slots=True)
class Results:
    """What was measured; whatever was not is NaN wherever it is asked for."""

    runs: dict[tuple[str, str], list[Run]] = field(default_factory=dict)
    memory: Memory = field(default_factory=Memory)

    def add(self, row: str, subject: str, run: Run) -> None:
        """One more run."""
        self.runs.setdefault((row, subject), []).append(run)

    def of(self, row: str, subject: str) -> Summary:
        """The medians."""
        return summary(self.runs.get((row, subject), []))

    def rows(self) -> list[str]:
        """Names of the rows that there are figures for, in their order."""
        return list(dict.fromkeys(row for row, _ in self.runs))

    def subjects(self, row: str) -> list[str]:
        """Names of the subjects that a row was measured of, in their order."""
        return [subject for name, subject in self.runs if name == row]

    def longer(self, row: str, subject: str) -> float:
        """How many times the upstream's own time the runs took; it ran in the same session, or there is no saying."""
        return self.of(row, subject).wall / self.of(row, FLOOR).wall

    def faults(self) -> list[str]:
        """What must never be: frames lost, repeated or out of order, at the upstream and at the gateway."""
        return self._found((FLOOR, *OURS))

    def notes(self) -> list[str]:
        """The same of peers, which are not ours to fail for."""
        ours = {FLOOR, *OURS}
        return self._found([subject for _, subject in self.runs if subject not in ours])

    def _found(self, subjects: list[str] | tuple[str, ...]) -> list[str]:
        return [
            f"{row}, {subject}: {fault}"
            for (row, subject), runs in self.runs.items()
            if subject in subjects
            for run in runs
            for fault in run.figures.faults()
        ]
