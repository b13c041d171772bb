"""Cells → finished runs: side by side, one thread each, stopped and gone on with at any time."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from halfsure.data import Data
from halfsure.paper.cells import Cell
from halfsure.paper.results import Line, Results, line_of
from halfsure.runs.parallel import Job, Outcome, run_many
from halfsure.runs.start import start

__all__ = ["run_cell", "run_cells"]


def run_cells(
    cells: Sequence[Cell],
    results: Results,
    *,
    runs: Path,
    workers: int,
    root: str | None = None,
    device: str = "cpu",
    console: Console | None = None,
    failed: Callable[[Outcome], None] | None = None,
) -> None:
    """Run what has no line in the results yet, in the order of the cells, and add a line for each that finishes.

    `failed` is told of each run that fails, at once: a stop later on does not hide it.
    """
    todo = [cell for cell in cells if results.find(cell) is None]
    looked = {column: cell.open(root) for column, cell in {cell.column: cell for cell in todo}.items()}
    by_folder = {}
    for cell in todo:
        job = _job(cell, looked[cell.column], runs, root, device)
        by_folder[job.out] = cell, job

    def heard(outcome: Outcome) -> None:
        if outcome.finished:
            cell, _ = by_folder[outcome.job.out]
            results.add(line_of(cell, outcome))
        elif outcome.error is not None and failed is not None:
            failed(outcome)

    run_many([job for _, job in by_folder.values()], workers=workers, console=console, heard=heard)


def run_cell(
    cell: Cell, *, runs: Path, root: str | None = None, device: str = "cpu", console: Console | None = None
) -> Line:
    """Run one cell in this process, or under torchrun in all of them, and give its line."""
    data = cell.open(root)
    job = _job(cell, data, runs, root, device)
    about: dict[str, Any] = {"source": job.source, "data_config": job.data_config}
    run = start(data, job.config, out=job.out, console=console, **about)
    return line_of(cell, Outcome(job, run.metrics))


def _job(cell: Cell, data: Data, runs: Path, root: str | None, device: str) -> Job:
    """The run of a cell; of the data only shapes and names matter here, which no seed changes."""
    out = cell.folder(runs).resolve()
    threads = 1 if cell.protocol == "cpu" else None  # one gives the same bits alone and beside others
    config = cell.config(data).replace(tensorboard=False, threads=threads, device=device)
    return Job(out, config, None, cell.column.data, cell.data_config(root))
