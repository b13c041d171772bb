"""Finished runs → the tables, with the paper's numbers beside ours."""

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from halfsure.metrics import paired_difference
from halfsure.paper.cells import Cell, Column, Protocol
from halfsure.paper.controls import CONTROLS, control
from halfsure.paper.results import Line, Results
from halfsure.paper.table import Row, Table
from halfsure.paper.tuning import HELD_OUT, Family, NotTunedError, choose, in_words, searched, tried

__all__ = ["Filled", "Sheet", "fill", "markdown", "sheets", "trial_sheets"]

NONE = "–"


@dataclass(frozen=True)
class Sheet:
    """A table as text."""

    title: str
    about: str
    """How it was made."""
    head: tuple[str, ...]
    rows: list[tuple[str, ...]]
    narrow: tuple[str, ...] = ()
    """The columns for a screen that is not wide; all of them if there are none."""
    again: str = ""
    """The command that runs one of its cells."""

    def columns(self, wide: bool) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Head and rows, of the columns there is room for and that are not empty."""
        chosen = self.head if wide or not self.narrow else self.narrow
        kept = [k for k, name in enumerate(self.head) if name in chosen and any(row[k] for row in self.rows)]
        return tuple(self.head[k] for k in kept), [tuple(row[k] for k in kept) for row in self.rows]


@dataclass(frozen=True)
class Filled:
    """A row of a table with what is there for it."""

    row: Row
    paper: tuple[float, ...]
    runs: Mapping[int, Line]
    """By seed."""
    difference: dict[str, Any] | None
    """To the row it is held against, over the seeds that both have."""
    beyond: dict[str, Any] | None
    """The same to its control."""

    @property
    def errors(self) -> dict[int, float]:
        """Test errors in %, by seed."""
        return _errors(self.runs)

    def mean(self, name: str) -> float | None:
        """Mean of a measure on test samples."""
        found = [run["test"][name] for run in self.runs.values() if name in run["test"]]
        return statistics.fmean(found) if found else None


def fill(table: Table, column: Column, protocol: Protocol, results: Results) -> list[Filled]:
    """The rows of one column, and below them the controls."""
    seeds = sorted({line["seed"] for line in results if line["protocol"] == protocol and not line["held_out"]})

    def found(cells: Iterable[Cell]) -> dict[int, Line]:
        return {cell.seed: line for cell in cells if (line := results.find(cell))}

    runs = {row.name: found(table.cell(protocol, column, row, seed) for seed in seeds) for row in table.rows}
    seen = sorted({seed for by_seed in runs.values() for seed in by_seed})
    controls = {name: found(control(name, column, seed, protocol) for seed in seen) for name in CONTROLS}
    rows = (*table.rows, *(Row(name) for name in controls if controls[name]))
    runs |= controls
    paper = table.paper.get(str(column), {})
    return [
        Filled(
            row,
            paper.get(row.name, ()),
            runs[row.name],
            *(_difference(runs.get(other or ""), runs[row.name]) for other in (row.against, row.control)),
        )
        for row in rows
    ]


def sheets(table: Table, protocol: Protocol, results: Results) -> Iterator[Sheet]:
    """A sheet for each column of data."""
    for column in table.columns[protocol]:
        title = f"{table.title}, {column}"
        try:
            rows = fill(table, column, protocol, results)
        except NotTunedError as error:
            yield Sheet(title, str(error), ("method",), [(row.name,) for row in table.rows])
        else:
            named = "METHOD:VARIANT" if table.matrix else "METHOD"
            some = Cell(table.name, column, named, 0, protocol).command.replace(":s0'", ":sSEED'")
            sheet = (_matrix if table.matrix else _sheet)(title, _about(rows), rows)
            yield replace(sheet, again=some)


def trial_sheets(results: Results, families: Mapping[str, Family]) -> Iterator[Sheet]:
    """What was tried to choose settings, and what was chosen: a sheet for each family of data."""
    winners = choose(results)
    for name, family in families.items():
        rows: list[tuple[str, ...]] = []
        chosen = winners.get(name, {})
        for method, space in family.spaces.items():
            errors = [found for _, found in tried(family, method, results)]
            means = " ".join(f"{100 * statistics.fmean(found):.1f}" if found else NONE for found in errors)
            names = searched(space)
            values = "; ".join(f"{key} {_values(space, key)}" for key in names)
            fixed = in_words({key: value for key, value in space[0].items() if key not in names})
            best = in_words({key: chosen[method][key] for key in names}) if method in chosen else NONE
            rows.append((method, values, fixed, means, str(sum(map(len, errors))), best))
        steps = ", ".join(f"{count:,} ({algorithm})" for algorithm, count in family.steps.items())
        about = (
            f"error on {HELD_OUT:,} validation samples in %, mean over {_listed(family.seeds)}; steps: {steps}; "
            "the six trials are all combinations, the last setting changes first"
        )
        yield Sheet(
            f"Tuning, {name}: {family.column}",
            about,
            ("method", "tried", "with", "validation", "n", "chosen"),
            rows,
            ("method", "validation", "n", "chosen"),
        )


def markdown(found: Iterable[Sheet], command: str) -> str:
    """Sheets as a document, which says how it was made."""
    return "\n".join([f"# Tables\n\nMade by `{command}` from the lines in `results/`.\n", *map(_section, found)])


def _section(sheet: Sheet) -> str:
    head, rows = sheet.columns(wide=True)
    lines = [head, ("---",) * len(head), *rows]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    again = f"\nEach again: `{sheet.again}`\n" if sheet.again else ""
    return f"## {sheet.title}\n\n{sheet.about}\n\n{table}\n{again}"


HEAD = (
    *("method", "paper", "ours", "n", "by seed", "against", "difference", "control", "beyond it"),
    *("ECE", "ECE by softmax", "confidence", "candidates"),
)
NARROW = ("method", "paper", "ours", "n", "difference", "ECE")


def _sheet(title: str, about: str, rows: Sequence[Filled]) -> Sheet:
    return Sheet(title, about, HEAD, [_cells(filled) for filled in rows], NARROW)


def _cells(filled: Filled) -> tuple[str, ...]:
    def mean(name: str, places: int, scale: int = 1) -> str:
        found = filled.mean(name)
        return "" if found is None else f"{scale * found:.{places}f}"

    return (
        filled.row.name,
        " ± ".join(f"{number:.2f}" for number in filled.paper),
        _spread(filled.errors),
        str(len(filled.runs)),
        _each(filled),
        filled.row.against or "",
        _gap(filled.difference),
        filled.row.control or "",
        _gap(filled.beyond),
        mean("ece", 1, scale=100),
        mean("softmax_ece", 1, scale=100),
        mean("dominant", 3),
        mean("sparse_support", 2),
    )


def _matrix(title: str, about: str, rows: Sequence[Filled]) -> Sheet:
    """Variants as columns: how a method fares over a grid of settings."""
    variants = list(dict.fromkeys(filled.row.variant for filled in rows if filled.row.variant))
    found = {(filled.row.method, filled.row.variant): filled for filled in rows}
    methods = list(dict.fromkeys(filled.row.method for filled in rows if filled.row.variant))
    cells = [(method, *(_each(found[method, variant]) or NONE for variant in variants)) for method in methods]
    return Sheet(title, about, ("method", *variants), cells)


def _about(rows: Sequence[Filled]) -> str:
    """How the runs of a sheet were made, as their lines tell it."""
    runs = [run for filled in rows for run in filled.runs.values() if "steps" in run]
    if not runs:
        return "not run yet"
    steps = " or ".join(f"{count:,}" for count in sorted({run["steps"] for run in runs}))
    nets = " and ".join(sorted({run["config"]["net"] for run in runs}))
    samples = " or ".join(f"{count:,}" for count in sorted({run["data"]["shape"][0] for run in runs}))
    seeds = _listed(sorted({run["seed"] for run in runs}))
    star = "; * a class died out" if any(run.get("dead") for run in runs) else ""
    return f"test error in %, {steps} steps of {nets} on {samples} training samples, {seeds}{star}"


def _errors(runs: Mapping[int, Line]) -> dict[int, float]:
    return {seed: 100 * runs[seed]["test"]["error"] for seed in sorted(runs)}


def _difference(base: Mapping[int, Line] | None, own: Mapping[int, Line]) -> dict[str, Any] | None:
    before, after = _errors(base or {}), _errors(own)
    seeds = sorted(before.keys() & after.keys())
    return paired_difference([before[s] for s in seeds], [after[s] for s in seeds]) if seeds else None


def _spread(errors: Mapping[int, float]) -> str:
    if not errors:
        return NONE
    spread = f" ± {statistics.stdev(errors.values()):.2f}" if len(errors) > 1 else ""
    return f"{statistics.fmean(errors.values()):.2f}{spread}"


def _each(filled: Filled) -> str:
    """The error of each seed; a star where a class died out."""
    return " ".join(f"{error:.2f}" + "*" * bool(filled.runs[s].get("dead")) for s, error in filled.errors.items())


def _gap(gap: Mapping[str, Any] | None) -> str:
    if gap is None:
        return ""
    return f"{gap['mean']:+.2f}" + ("" if gap["low"] is None else f" [{gap['low']:+.2f}, {gap['high']:+.2f}]")


def _listed(seeds: Sequence[int]) -> str:
    first, last = seeds[0], seeds[-1]
    if first == last:
        return f"seed {first}"
    whole = list(seeds) == list(range(first, last + 1))
    return f"seeds {first} to {last}" if whole else f"seeds {', '.join(map(str, seeds))}"


def _values(space: Sequence[Mapping[str, Any]], name: str) -> str:
    return " ".join(f"{value:g}" for value in dict.fromkeys(settings[name] for settings in space))
