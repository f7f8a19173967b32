"""What a run says: one table, and a line for each law that was broken."""

from collections import Counter
from statistics import median

from tests.chaos.fleet import fenced, foreseen, repeats, takeovers
from tests.chaos.stage import CALM, Stage
from tests.chaos.tally import Tally

COLUMNS = (
    *("fault", "trials", "longest gap p50", "max"),
    *("responses", "completed", "failed", "taken back", "frames", "lost", "repeated", "disordered"),
    *("control: frames", "lost", "repeated", "disordered"),
)


class Report:
    """The figures of a run that is over."""

    def __init__(self, stage: Stage, counts: Counter[str]) -> None:
        self._stage = stage
        self._control = stage.control.tallies()
        self._traces = {
            "writes of former holders refused (FENCED)": fenced(counts),
            "takeovers": takeovers(counts),
            "repeats recognised (DUP)": repeats(counts),
            "commits that went with an append": foreseen(counts),
        }
        missing = [f"no {trace}: nothing was tested" for trace, n in self._traces.items() if not n]
        self.broken = stage.judge.broken + missing
        if not (harm := self.control.lost + self.control.repeated + self.control.disordered):
            self.broken.append(f"the control came to no harm ({harm}): nothing was tested")

    @property
    def control(self) -> Tally:
        """All that the control lost."""
        whole = Tally()
        for tally in self._control.values():
            whole.add(tally)
        return whole

    def text(self) -> str:
        stage = self._stage
        table = [COLUMNS, ("---", *["--:"] * (len(COLUMNS) - 1))]
        for name in sorted(stage.gaps):
            ours, theirs = stage.tallies.get(name, Tally()), self._control.get(name, Tally())
            table.append(row(name, stage.gaps[name], ours, theirs))
        faults = [gap for name, gaps in stage.gaps.items() if name != CALM for gap in gaps]
        table.append(row("**all**", faults, stage.judge.total, self.control))
        lines = ["| " + " | ".join(cells) + " |" for cells in table]
        traces = ", ".join(f"{trace}: {amount:,}" for trace, amount in self._traces.items())
        return "\n".join([*lines, "", traces, *self.broken, ""])


def row(name: str, gaps: list[float], ours: Tally, theirs: Tally) -> tuple[str, ...]:
    """One line of the table. A response that lived through several faults counts for each, and once for all."""
    figures = [
        *(ours.responses, ours.completed, ours.failed, ours.taken_back),
        *(ours.frames, ours.lost, ours.repeated, ours.disordered),
        *(theirs.frames, theirs.lost, theirs.repeated, theirs.disordered),
    ]
    longest = [f"{gap * 1000:,.0f} ms" for gap in (median(gaps), max(gaps))] if gaps else ["", ""]
    return (name, str(len(gaps)), *longest, *(f"{figure:,}" for figure in figures))
