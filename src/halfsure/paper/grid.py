"""Cells → finished runs: side by side, one thread each, stopped and gone on with at any time."""

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from halfsure.data import Data
from halfsure.engine.entry import start
from halfsure.engine.many import Job, Outcome, run_many
from halfsure.paper.cells import Cell
from halfsure.paper.results import Results, row

__all__ = ["run_cell", "run_cells"]


def run_cells(
    cells: Iterable[Cell],
    *,
    runs: Path,
    results: Path,
    workers: int,
    root: str | None = None,
    console: Console | None = None,
) -> list[Outcome]:
    """Run what has no line in the results yet, in the order of the cells, and add a line for each that finishes."""
    todo = [cell for cell in cells if Results(results, cell.experiment).find(cell) is None]
    looked = {column: cell.open(root) for column, cell in {cell.column: cell for cell in todo}.items()}
    jobs = {job.out: (cell, job) for cell in todo for job in [_job(cell, looked[cell.column], runs, root)]}

    def heard(outcome: Outcome) -> None:
        if outcome.finished:
            cell, _ = jobs[outcome.job.out]
            Results(results, cell.experiment).add(row(cell, outcome))

    return run_many([job for _, job in jobs.values()], workers=workers, console=console, heard=heard)


def run_cell(cell: Cell, *, runs: Path, results: Path, root: str | None, console: Console | None) -> None:
    """Run one cell in this process, or under torchrun in all of them; the first adds its line to the results."""
    data = cell.open(root)
    job = _job(cell, data, runs, root)
    about: dict[str, Any] = {"source": job.source, "data_config": job.data_config}
    run = start(data, job.config, out=job.out, console=console, **about)
    done = Results(results, cell.experiment)
    if int(os.environ.get("RANK", "0")) == 0 and done.find(cell) is None:
        done.add(row(cell, Outcome(job, run.metrics)))


def _job(cell: Cell, data: Data, runs: Path, root: str | None) -> Job:
    """The run of a cell; of the data only shapes and names matter here, which no seed changes."""
    out = (runs / cell.protocol / cell.experiment / cell.name).resolve()
    config = replace(cell.config(data), tensorboard=False)
    return Job(out, config, None, cell.column.data, replace(cell.data_config, root=root))
