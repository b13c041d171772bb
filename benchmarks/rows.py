"""A row of the benchmark table: a ratio of two things measured in turn, its spread, and what it is meant to reach."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = ["Row", "header", "reached", "show"]


@dataclass(frozen=True)
class Row:
    """One comparison."""

    what: str
    """Ours."""
    peer: str
    """What it is held against; the ratio says `times the peer's cost` (at most) or `times as fast` (at least)."""
    ratios: Sequence[float]
    """One a round."""
    target: float | None = None
    """None where the figure is for comparison alone."""
    bound: Literal["≤", "≥"] = "≤"
    note: str = ""

    @property
    def ratio(self) -> float:
        """The median over the rounds."""
        return statistics.median(self.ratios)

    @property
    def reached(self) -> bool | None:
        """Whether the median is on the wanted side of the target."""
        if self.target is None:
            return None
        return self.ratio <= self.target if self.bound == "≤" else self.ratio >= self.target

    def __str__(self) -> str:
        spread = f"{self.ratio:.2f} ({min(self.ratios):.2f} to {max(self.ratios):.2f})"
        answer = {True: "yes", False: "no", None: ""}[self.reached]
        target = "" if self.target is None else f"{self.bound} {self.target:g}"
        return f"{self.what:<44}{self.peer:<24}{spread:>26}{target:>8}  {answer:<4}{self.note}".rstrip()


def header() -> str:
    """The line above the rows."""
    return f"{'what':<44}{'peer':<24}{'ratio (lowest to highest)':>26}{'target':>8}  reached"


def reached(rows: Sequence[Row]) -> str:
    """How many targets were reached, and which were not."""
    aimed = [row for row in rows if row.target is not None]
    missed = [row for row in aimed if not row.reached]
    lines = [f"{len(aimed) - len(missed)} of {len(aimed)} targets reached"]
    lines += [f"  not: {row.what}, {row.ratio:.2f} × {row.peer}, {row.bound} {row.target:g}" for row in missed]
    return "\n".join(lines)


def show(rows: Iterable[Row]) -> None:
    """Print rows as they come."""
    for row in rows:
        print(row, flush=True)
