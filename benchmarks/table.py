"""The results as a table that is read in a terminal and pasted into a document: Markdown, its columns aligned."""

import math
from collections.abc import Sequence

from benchmarks.figures import SUSTAINED, Summary
from benchmarks.results import Results
from benchmarks.rows import BY_NAME, Lead
from benchmarks.subjects import FLOOR, PEERS

COLUMNS = (
    *("row", "subject", "frames/s", "longer", "added p50", "p99", "max", "first byte p50", "p99"),
    *("CPU µs", "store's µs", "MB", "commands", "bytes", "by", "x floor", "x peer"),
)
LEADS: dict[Lead, str] = {
    "rate": "frames/s",
    "age_p50": "added p50",
    "first_p50": "first byte p50",
    "cpu": "CPU µs",
}


def table(results: Results) -> str:
    """A line for each row and subject."""
    lines: list[tuple[str, ...]] = [COLUMNS]
    for name in results.rows():
        lines += [_line(results, name, subject) for subject in results.subjects(name)]
    return aligned(lines)


def aligned(lines: Sequence[Sequence[str]], left: int = 2) -> str:
    """Cells under one another; the first so many columns to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rule = ["-" * w if at < left else "-" * (w - 1) + ":" for at, w in enumerate(widths)]
    rows = [lines[0], rule, *lines[1:]]
    return "\n".join(
        "| "
        + " | ".join(
            cell.ljust(width) if at < left else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        + " |"
        for row in rows
    )


def number(value: float, digits: int = 0) -> str:
    """A figure for people; nothing where there is none."""
    return "" if math.isnan(value) else f"{value:,.{digits}f}"


def ratio(value: float, to: float) -> str:
    """How many times the other it is; nothing where either is missing."""
    if math.isnan(value) or math.isnan(to) or to == 0:
        return ""
    times = value / to
    return f"{times:.2f}" if times < 10 else f"{times:,.0f}"


def _longer(results: Results, row: str, subject: str) -> str:
    paced = row in BY_NAME and BY_NAME[row].lead == "age_p50"
    times = results.longer(row, subject)
    if subject == FLOOR or not paced or math.isnan(times):
        return ""
    return f"{(times - 1) * 100:+.0f} %" + ("" if times <= SUSTAINED else " !")


def _line(results: Results, row: str, subject: str) -> tuple[str, ...]:
    of = results.of(row, subject)
    lead: Lead = BY_NAME[row].lead if row in BY_NAME else "rate"
    floor = getattr(results.of(row, FLOOR), lead)
    peer = next((getattr(results.of(row, one), lead) for one in PEERS), math.nan)
    mine = getattr(of, lead)
    return (
        row,
        subject,
        number(of.rate),
        _longer(results, row, subject),
        *_times(of),
        number(of.cpu, 1),
        number(of.store_cpu, 1),
        number(of.memory),
        number(of.commands, 2),
        number(of.bytes),
        LEADS[lead],
        "" if subject == FLOOR else ratio(mine, floor),
        "" if subject in PEERS else ratio(mine, peer),
    )


def _times(of: Summary) -> tuple[str, ...]:
    ages = (of.age_p50, of.age_p99, of.age_max)
    return tuple(number(value, 1) for value in (*ages, of.first_p50, of.first_p99))
