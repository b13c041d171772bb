"""Finished runs → the tables, with the paper's numbers beside ours."""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from halfsure.metrics import paired_difference
from halfsure.paper.cells import Column, Protocol
from halfsure.paper.table import Row, Table

__all__ = ["HEAD", "Filled", "fill", "lines"]

HEAD = ("method", "paper, %", "error, %", "by seed", "against", "difference, points", "ECE", "candidates")


@dataclass(frozen=True)
class Filled:
    """A row of a table with what is there for it."""

    row: Row
    paper: tuple[float, ...]
    runs: dict[int, dict[str, Any]]
    """By seed."""
    difference: dict[str, Any] | None
    """To the row it is held against, over the seeds that both have."""

    @property
    def errors(self) -> list[float]:
        """Test errors in %, by seed."""
        return [100 * self.runs[seed]["test"]["error"] for seed in sorted(self.runs)]

    def mean(self, name: str) -> float | None:
        """Mean of a measure on test samples."""
        return statistics.fmean(run["test"][name] for run in self.runs.values()) if self.runs else None


def fill(table: Table, column: Column, protocol: Protocol, runs: Sequence[dict[str, Any]]) -> list[Filled]:
    """The rows of one column."""
    found: dict[str, dict[int, dict[str, Any]]] = {row.name: {} for row in table.rows}
    for run in runs:
        name = " ".join(filter(None, [run["method"], run["trial"]]))
        if run["column"] == vars(column) and run["protocol"] == protocol and name in found:
            found[name][run["seed"]] = run
    paper = table.paper.get(str(column), {})
    return [
        Filled(
            row, paper.get(row.name, ()), found[row.name], _difference(found.get(row.against or ""), found[row.name])
        )
        for row in table.rows
    ]


def lines(rows: Sequence[Filled]) -> Iterator[tuple[str, ...]]:
    """The cells of each row, as text."""
    for filled in rows:
        errors, gap = filled.errors, filled.difference
        ours = f"{statistics.fmean(errors):.2f}" if errors else "–"
        ours += f" ± {statistics.stdev(errors):.2f}" if len(errors) > 1 else ""
        dead = {seed for seed, run in filled.runs.items() if run["dead"]}
        each = (f"{error:.2f}" + "*" * (seed in dead) for seed, error in zip(sorted(filled.runs), errors, strict=True))
        ece, candidates = filled.mean("ece"), filled.mean("sparse_support")
        yield (
            filled.row.name,
            " ± ".join(f"{number:.2f}" for number in filled.paper) or "–",
            ours,
            " ".join(each),
            filled.row.against or "",
            _gap(gap),
            "–" if ece is None else f"{100 * ece:.1f}",
            "–" if candidates is None else f"{candidates:.2f}",
        )


def _difference(base: dict[int, dict[str, Any]] | None, own: dict[int, dict[str, Any]]) -> dict[str, Any] | None:
    seeds = sorted(set(base or ()) & set(own))
    if not base or not seeds:
        return None
    before, after = ([100 * runs[seed]["test"]["error"] for seed in seeds] for runs in (base, own))
    return paired_difference(before, after)


def _gap(gap: dict[str, Any] | None) -> str:
    if gap is None or gap["mean"] is None:
        return ""
    around = "" if gap["low"] is None else f" [{gap['low']:+.2f}, {gap['high']:+.2f}]"
    return f"{gap['mean']:+.2f}{around}"
