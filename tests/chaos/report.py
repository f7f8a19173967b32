"""What a run says: one table, and a line for each law that was broken."""

from collections import Counter
from statistics import median

from tests.chaos.fleet import fenced, repeats, takeovers
from tests.chaos.judge import Tally
from tests.chaos.stage import Stage


class Report:
    """The figures of a run that is over."""

    def __init__(self, stage: Stage, counts: Counter[str]) -> None:
        self._stage = stage
        self._traces = {
            "writes of former holders refused (FENCED)": fenced(counts),
            "takeovers": takeovers(counts),
            "repeats recognised (DUP)": repeats(counts),
        }
        missing = [f"no {trace}: nothing was tested" for trace, n in self._traces.items() if not n]
        self.broken = stage.judge.broken + missing

    def text(self) -> str:
        lines = [HEAD, RULE]
        for name, gaps in self._stage.gaps.items():
            tally = self._stage.tallies.get(name, Tally())
            lines.append(row(name, str(len(gaps)), tally, gaps))
        lines.append(row("all", "", self._stage.judge.total, []))
        lines += [f"{trace}: {amount}" for trace, amount in self._traces.items()]
        return "\n".join([*lines, *self.broken, ""])


COLUMNS = (
    *("fault", "trials", "gap p50", "gap max", "responses", "completed", "failed", "taken back"),
    *("frames", "lost", "repeated", "disordered"),
)
HEAD = "| " + " | ".join(COLUMNS) + " |"
RULE = "|" + "|".join(["---", *["--:"] * (len(COLUMNS) - 1)]) + "|"


def row(name: str, trials: str, tally: Tally, gaps: list[float]) -> str:
    seconds = (median(gaps), max(gaps)) if gaps else ()
    shown = [f"{gap * 1000:.0f} ms" for gap in seconds] or ["", ""]
    counted = [
        *(tally.responses, tally.completed, tally.failed, tally.taken_back),
        *(tally.frames, tally.lost, tally.repeated, tally.disordered),
    ]
    return "| " + " | ".join([name, trials, *shown, *(f"{n:,}" for n in counted)]) + " |"
