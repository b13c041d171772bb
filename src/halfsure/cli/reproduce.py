"""`halfsure reproduce`."""

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import joblib
from rich.console import Console
from tyro.conf import Positional, arg

from halfsure.cli.using import grid
from halfsure.data import DataError
from halfsure.engine.config import parse_time
from halfsure.engine.train import StoppedError
from halfsure.paper.cells import Cell
from halfsure.paper.experiments import TABLES
from halfsure.paper.figures import FIGURES, draw
from halfsure.paper.grid import run_cell, run_cells
from halfsure.paper.results import Results, command
from halfsure.paper.show import HEAD, fill, lines
from halfsure.paper.table import Table
from halfsure.paper.tuning import FAMILIES, choose, trials

__all__ = ["Reproduce"]

WHAT = tuple(dict.fromkeys(["tuning", *TABLES, *FIGURES, "all"]))


@dataclass(frozen=True)
class Reproduce:
    """Run the experiments of the paper, or show what has been run.

    Every finished run becomes a line of results/EXPERIMENT.jsonl with all that is needed to repeat it. The same command
    again goes on where it stopped.

        halfsure reproduce table1 --seeds 5 --budget 90m
        halfsure reproduce all --show
        halfsure reproduce table2 --protocol paper --list       # one command a cell, for a scheduler
        halfsure reproduce table1 --cell mnist@20:vat+ads:s3
    """

    what: Annotated[Positional[str], arg(metavar="EXPERIMENT")]
    """table1 to table4, robustness, parts, figure1, figure3 to figure6, tuning or all."""
    protocol: Literal["cpu", "paper"] = "cpu"
    """cpu asks the same questions on two cores, with small networks and few steps; paper needs GPUs and days."""
    seeds: int | None = None
    """How many seeds; the experiment's own number if not given."""
    budget: str | None = None
    """Stop after a time such as 90m, saving what is running."""
    jobs: int | None = None
    """How many runs at once, each on one core; as many as there are cores if not given."""
    cell: str | None = None
    """Run this cell alone, in this process; with torchrun on many."""
    show: bool = False
    """Show the tables of what has been run, and run nothing."""
    list: bool = False
    """Print the command of each cell, and run nothing."""
    root: str | None = None
    """Folder of the official sets; $HALFSURE_DATA or the user's cache folder if not given."""
    out: Path = Path("runs/reproduce")
    """Where the run folders are."""
    results: Path = Path("results")
    """Where the lines of finished runs are."""
    figures: Path = Path("docs/images/paper")
    """Where figures are drawn."""

    def run(self, console: Console) -> int:
        """Run, or show."""
        if self.what not in WHAT:
            raise DataError(f"there is no experiment {self.what!r}; there are {', '.join(WHAT)}")
        tables = [table for table in TABLES.values() if self.what in (table.name, "all")]
        if self.show:
            for table in tables:
                self._show(table, console)
            self._draw(console)
            return 0
        cells = list(self._cells(tables))
        if self.list:
            for cell in cells:
                console.print(command(cell), soft_wrap=True, highlight=False, markup=False)
            return 0
        if self.cell is not None:
            named = [cell for cell in cells if cell.name == self.cell]
            if not named:
                raise DataError(f"{self.what} has no cell {self.cell!r}; --list shows them, such as {cells[0].name}")
            run_cell(named[0], runs=self.out, results=self.results, root=self.root, console=console)
            return 0
        return self._run(cells, console)

    def _cells(self, tables: Sequence[Table]) -> Iterator[Cell]:
        if self.what in ("tuning", "all"):
            for family in FAMILIES.values():
                yield from trials(family)
        for table in tables:
            yield from table.cells(self.protocol, self.seeds)

    def _run(self, cells: Sequence[Cell], console: Console) -> int:
        workers = self.jobs or joblib.cpu_count()
        began = time.monotonic()
        try:
            with _budget(self.budget):
                outcomes = run_cells(
                    cells, runs=self.out, results=self.results, workers=workers, root=self.root, console=console
                )
        except StoppedError as stopped:
            if self.budget is None or time.monotonic() - began < parse_time(self.budget):
                raise
            _say(console, f"the time is over: {stopped}")
            return 0
        if self.what == "tuning":
            choose(list(Results(self.results, "tuning")))
        for outcome in outcomes:
            if outcome.error is not None:
                _say(console, f"{outcome.job.name} failed: {outcome.error}")
        self._draw(console)
        return int(any(outcome.error is not None for outcome in outcomes))

    def _draw(self, console: Console) -> None:
        """Draw the figures that were asked for, as far as their runs are there."""
        runs = {name: list(Results(self.results, name)) for name in TABLES}
        for name in FIGURES:
            if self.what in (name, "all"):
                file = draw(name, runs, self.figures)
                _say(console, f"{name} is {file}" if file else f"{name} needs runs that are not there yet")

    def _show(self, table: Table, console: Console) -> None:
        runs = list(Results(self.results, table.name))
        for column in table.columns[self.protocol]:
            rows = fill(table, column, self.protocol, runs)
            console.print(f"\n{table.title}, {column}", style="bold", highlight=False, markup=False)
            console.print(grid(HEAD, lines(rows)))


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, soft_wrap=True, markup=False)


@contextmanager
def _budget(text: str | None) -> Iterator[None]:
    """Ask this process to stop, as a scheduler would, when the time is over."""
    timer = None if text is None else threading.Timer(parse_time(text), os.kill, (os.getpid(), signal.SIGTERM))
    if timer is not None:
        timer.daemon = True
        timer.start()
    try:
        yield
    finally:
        if timer is not None:
            timer.cancel()
