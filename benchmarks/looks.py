"""A second look at the finished runs of a table that are on this disk: a line of a file for each, once."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import halfsure
from halfsure.data import Data
from halfsure.paper.cells import Cell, Column, identity
from halfsure.paper.experiments import TABLES
from halfsure.paper.results import Line, Results
from halfsure.runs.run import Run

__all__ = ["by_row", "done", "main", "open_run", "run"]

ROOT = Path(__file__).parent.parent
Look = Callable[[Run, Data], dict[str, Any] | None]
"""A run and its data → what is seen, or nothing."""


def done(file: Path) -> list[dict[str, Any]]:
    """Every run that has been looked at."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def by_row(file: Path) -> dict[tuple[str, ...], list[dict[str, Any]]]:
    """The same by experiment, column and row of the table: a line a seed."""
    rows: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for line in done(file):
        cell = line["cell"]
        column = str(Column(**cell["column"]))
        rows.setdefault((cell["experiment"], column, f"{cell['method']} {cell['variant']}".strip()), []).append(line)
    return rows


def cell_of(line: Line) -> Cell:
    """The cell that a line of the results was run for."""
    fields = {name: line[name] for name in ("experiment", "method", "seed", "protocol", "settings", "variant")}
    return Cell(column=Column(**line["column"]), **fields)


def open_run(line: Line, runs: Path, root: str | None) -> tuple[Run, Data] | None:
    """A finished run with its data, if it is on this disk; it has to be the one that the results have."""
    cell = cell_of(line)
    folder = cell.folder(runs)
    if not folder.exists():
        return None
    found, data, known = halfsure.load(folder), cell.open(root), line["test"]["error"]
    assert data.test is not None
    error = (found.best(data.test.samples) != torch.from_numpy(data.test.labels)).double().mean().item()
    if abs(error - known) > 1e-6:
        raise SystemExit(f"{folder} is not the run that the results have: {error:.4f}, not {known:.4f}")
    return found, data


def run(name: str, file: Path, look: Look, runs: Path, root: str | None) -> None:
    """Look at the runs of a table that are finished, are on this disk, and have no line yet."""
    known = {identity(line["cell"]) for line in done(file)}
    for line in Results(ROOT / "results"):
        if line["experiment"] != name or line["protocol"] != "cpu" or identity(line) in known:
            continue
        opened = open_run(line, runs, root)
        seen = look(*opened) if opened else None
        if seen is not None:
            cell = cell_of(line)
            with file.open("a") as lines:
                lines.write(json.dumps({"cell": cell.as_json(), **seen}) + "\n")
            print(f"{cell.name}: {json.dumps(seen)}", flush=True)


def main(about: str | None, file: Path, look: Look, show: Callable[[], None]) -> None:
    """Look at a table's runs, or show what was seen."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=[*TABLES, "show"])
    parser.add_argument("--runs", type=Path, default=Path("runs/reproduce"), help="where the run folders are")
    parser.add_argument("--data", help="folder of the official sets")
    given = parser.parse_args()
    if given.what == "show":
        show()
    else:
        torch.set_num_threads(1)
        run(given.what, file, look, given.runs, given.data)
