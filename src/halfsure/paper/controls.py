"""Beside the rows of every table: what the labels alone give scikit-learn's simplest classifiers.

They take seconds, and so are run with the cells of their column and seed; `results/controls.jsonl` has them.
"""

from collections.abc import Iterable

from halfsure.data import DataError
from halfsure.learners.classic import BASELINES, SETTINGS, baseline_errors
from halfsure.paper.cells import Cell, Column, Protocol
from halfsure.paper.results import Results

__all__ = ["CONTROLS", "control", "run_controls"]

CONTROLS = tuple(BASELINES)


def control(name: str, column: Column, seed: int, protocol: Protocol) -> Cell:
    """A control as a cell: it has the labels of the others of its column and seed."""
    return Cell("controls", column, name, seed, protocol)


def run_controls(cells: Iterable[Cell], results: Results, root: str | None = None) -> None:
    """Measure the controls of these cells that have no line yet."""
    for cell in {(cell.column, cell.seed): cell for cell in cells if not cell.held_out}.values():
        wanted = [control(name, cell.column, cell.seed, cell.protocol) for name in CONTROLS]
        if all(results.find(each) for each in wanted):
            continue
        data = cell.open(root)
        if data.test is None:
            raise DataError(f"{cell.column.data} has no test part to measure on")
        errors = baseline_errors(data, data.test)
        for each in wanted:
            if results.find(each) is None:
                results.add(each.as_json() | {"test": {"error": errors[each.method]}, "about": SETTINGS})
