"""`halfsure reproduce`."""

import json
import os
import re
import shlex
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import joblib
from rich.console import Console
from tyro.conf import Positional, arg

from halfsure._disk import write
from halfsure.cli.using import grid
from halfsure.data import DataError
from halfsure.data.official import cache_folder
from halfsure.paper.cells import Cell, Column
from halfsure.paper.controls import run_controls
from halfsure.paper.experiments import TABLES
from halfsure.paper.figures import FIGURES, draw
from halfsure.paper.grid import run_cell, run_cells
from halfsure.paper.results import Results
from halfsure.paper.show import Sheet, markdown, sheets, trial_sheets
from halfsure.paper.table import Table
from halfsure.paper.tuning import FAMILIES, WINNERS, Family, choose, trials, winners
from halfsure.runs.parallel import Outcome
from halfsure.training.config import parse_time
from halfsure.training.errors import StoppedError
from halfsure.training.ranks import device_of, local_device

__all__ = ["Reproduce"]

WIDE = 130
"""Letters of a line that has room for each seed."""
FOR_A_CELL = ("device", "root", "out", "results", "budget")
"""Options that mean the same for a cell by itself."""


@dataclass(frozen=True)
class Reproduce:
    """Run the experiments of the paper, or show what has been run.

    Every finished run becomes a line of EXPERIMENT.jsonl in --results with all that is needed to repeat it. The same
    command again goes on where it stopped.

        halfsure reproduce table1 --seeds 5 --budget 90m
        halfsure reproduce all --show
        halfsure reproduce table2 --protocol paper --list       # one command a cell, for a scheduler
        halfsure reproduce table1 --cell mnist@20:vat+ads:s3
    """

    what: Annotated[Positional[str], arg(metavar="EXPERIMENT")]
    """table1 to table4, svhn, robustness, parts, figure1, figure3 to figure6, tuning or all."""
    protocol: Literal["cpu", "paper"] = "cpu"
    """cpu asks the same questions on two cores, with small networks and few steps; paper needs GPUs and days."""
    column: Annotated[str | None, arg(metavar="DATA@LABELS")] = None
    """Only this column of the experiment, such as mnist@20."""
    seeds: Annotated[int | None, arg(metavar="INT")] = None
    """How many seeds; the experiment's own number if not given."""
    budget: Annotated[str | None, arg(metavar="TIME")] = None
    """Stop after a time such as 90m, saving what is running."""
    jobs: Annotated[int | None, arg(metavar="INT")] = None
    """How many runs at once, each on one core; as many as there are cores if not given."""
    cell: Annotated[str | None, arg(metavar="NAME")] = None
    """Run this cell alone, in this process; with torchrun on many. A new --out runs it again from the beginning."""
    show: bool = False
    """Show the tables of what has been run, draw their figures, and run nothing."""
    list: bool = False
    """Print the command of each cell, with the test error of those that have been run, and run nothing."""
    markdown: Annotated[Path | None, arg(metavar="FILE")] = None
    """With --show: write the tables into this file, each seed for itself."""
    device: Annotated[str, arg(metavar="NAME")] = "cpu"
    """Where to compute: cpu, cuda, cuda:1 …; only cpu has been verified."""
    root: Annotated[str | None, arg(metavar="FOLDER")] = None
    """Folder of the official sets; $HALFSURE_DATA or the user's cache folder if not given."""
    out: Annotated[Path | None, arg(metavar="FOLDER")] = None
    """Where the run folders are; a folder in the user's cache if not given."""
    results: Annotated[Path | None, arg(metavar="FOLDER")] = None
    """Where the lines of finished runs are; results in OUT if not given, and then those in ./results are shown too."""
    figures: Annotated[Path | None, arg(metavar="FOLDER")] = None
    """Where figures are drawn; the folder figures in OUT if not given."""

    def run(self, console: Console) -> int:
        """Run, or show."""
        self._check()
        shown_too = [Path("results")] if self.results is None else []
        results = Results(self._results, shown_too)
        if self.show:
            self._show(results, console)
            return 0
        if self.list:
            for cells in self._stages(self._range):
                for cell in cells:
                    _say(console, cell.command + self._carried + _error_of(cell, results))
            return 0
        failed: list[Outcome] = []
        try:
            with _budget(self.budget) as over:
                if self.cell is None:
                    self._run(results, console, failed.append)
                else:
                    self._run_one(self.cell, results, console)
        except (StoppedError, KeyboardInterrupt) as stopped:
            if not over.is_set():
                raise
            _say(console, f"the time is over: {stopped if isinstance(stopped, StoppedError) else 'all runs are saved'}")
        for outcome in failed:
            _say(console, f"{outcome.job.name} failed: {outcome.error}")
        if self.cell is None:
            self._show(results, console)
        return int(bool(failed))

    @property
    def _out(self) -> Path:
        return self.out or cache_folder() / "reproduce"

    @property
    def _results(self) -> Path:
        return self.results or self._out / "results"

    def _check(self) -> None:
        known = dict.fromkeys(["tuning", *TABLES, *FIGURES, "all"])
        if self.what not in known:
            raise DataError(f"there is no experiment {self.what!r}; there are {', '.join(known)}")
        for name in ("seeds", "jobs"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise DataError(f"--{name} must be at least 1, got {value}")
        (device_of if self.list or self.show else local_device)(self.device)
        try:
            parse_time(self.budget or "1h")
        except ValueError as error:
            raise DataError(f"--budget: {error}") from None
        if self.what == "tuning" and self.protocol == "paper":
            raise DataError(
                "only the cpu protocol is tuned; the paper's has the settings of the base methods' publications"
            )
        if self.what not in FIGURES and not (self._families or self._tables):
            what = f"column {self.column}" if self.column else "columns"
            raise DataError(f"{self.what} has no {what} in the {self.protocol} protocol")
        if self.markdown is not None and not self.show:
            raise DataError("--markdown writes what --show shows: give both")

    @property
    def _how(self) -> dict[str, Any]:
        return {"runs": self._out, "root": self.root, "device": self.device}

    @property
    def _carried(self) -> str:
        """Options that hold for each cell by itself too, as words of its command."""
        usual = {item.name: item.default for item in fields(self)}
        given = {name: getattr(self, name) for name in FOR_A_CELL if getattr(self, name) != usual[name]}
        return "".join(f" --{name} {shlex.quote(str(value))}" for name, value in given.items())

    @property
    def _range(self) -> range | None:
        return None if self.seeds is None else range(self.seeds)

    @property
    def _families(self) -> dict[str, Family]:
        """What is asked for of the tuning."""
        asked = FAMILIES if self.what in ("tuning", "all") and self.protocol == "cpu" else {}
        return {name: family for name, family in asked.items() if self.column in (None, str(family.column))}

    @property
    def _tables(self) -> Sequence[Table]:
        """The tables that are asked for, with the columns that are."""
        asked = [table for table in TABLES.values() if self.what in (table.name, "all")]
        return [replace(table, columns={self.protocol: found}) for table in asked if (found := self._columns(table))]

    def _columns(self, table: Table) -> tuple[Column, ...]:
        return tuple(column for column in table.columns[self.protocol] if self.column in (None, str(column)))

    def _stages(self, seeds: Iterable[int] | None) -> Iterator[Sequence[Cell]]:
        """The cells, experiment by experiment: those of a table are known once its methods are tuned."""
        for family in self._families.values():
            yield [*trials(family)]
        for table in self._tables:
            yield [*table.cells(self.protocol, seeds)]

    def _run(self, results: Results, console: Console, failed: Callable[[Outcome], None]) -> None:
        workers = self.jobs or joblib.cpu_count()
        for cells in self._stages(self._range):
            run_controls(cells, results, self.root)
            run_cells(cells, results, workers=workers, **self._how, console=console, failed=failed)
        if self.what == "tuning":
            self._tell_winners(results, console)

    def _run_one(self, name: str, results: Results, console: Console) -> None:
        seed = re.search(r":s(\d{1,18})$", name)
        here = replace(self, column=name.partition(":")[0])  # other columns may not be tuned yet
        cells = [cell for stage in here._stages([int(seed[1]) if seed else 0]) for cell in stage]
        named = [cell for cell in cells if cell.name == name]
        if not named:
            raise DataError(f"{self.what} has no cell {name!r}; --list shows its cells")
        line = run_cell(named[0], **self._how, console=console)
        if os.environ.get("RANK", "0") != "0":  # of many processes one speaks and writes
            return
        part = "val" if named[0].held_out else "test"
        _say(console, f"{part} error {100 * line[part]['error']:.2f} %")
        if known := results.find(named[0]):
            _say(console, f"the results have {100 * known[part]['error']:.2f} % for it, and stay as they are")
        else:
            results.add(line)

    def _tell_winners(self, results: Results, console: Console) -> None:
        chosen = choose(results)
        if chosen != winners():
            file = self._results / WINNERS.name
            file.parent.mkdir(parents=True, exist_ok=True)
            write(file, json.dumps(chosen, indent=1).encode() + b"\n")
            _say(console, f"{file} has other winners than the tables are run with: those are in {WINNERS}")

    def _show(self, results: Results, console: Console) -> None:
        """Show the tables and draw the figures that were asked for, as far as their runs are there."""
        found: list[Sheet] = []
        for table in self._tables:
            found += sheets(table, self.protocol, results)
        found += trial_sheets(results, self._families)
        for sheet in found:
            _print(sheet, console)
        if self.markdown is not None:
            protocol = "" if self.protocol == "cpu" else f" --protocol {self.protocol}"
            command = f"halfsure reproduce {self.what}{protocol} --show --markdown {self.markdown.name}"
            write(self.markdown, markdown(found, command).encode())
        for name in FIGURES:
            if self.what in (name, "all"):
                file = draw(name, results, self.figures or self._out / "figures")
                _say(console, f"{name} is {file}" if file else f"{name} needs runs that are not there yet")


def _print(sheet: Sheet, console: Console) -> None:
    console.print(f"\n{sheet.title}", style="bold", highlight=False)
    _say(console, sheet.about)
    head, rows = sheet.columns(console.width >= WIDE)
    console.print(grid([name.replace(",", ",\n") for name in head], rows))
    if sheet.again:
        _say(console, f"each again: {sheet.again}")


def _error_of(cell: Cell, results: Results) -> str:
    """What came of a cell, as a comment for the shell."""
    line = results.find(cell)
    error = (line or {}).get("test", {}).get("error")
    return "" if error is None else f"  # {100 * error:.2f} %"


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, soft_wrap=True)


@contextmanager
def _budget(text: str | None) -> Iterator[threading.Event]:
    """Ask this process to stop, as a scheduler would, when the time is over; whether that has been."""
    over = threading.Event()

    def stop() -> None:
        over.set()
        os.kill(os.getpid(), signal.SIGTERM)

    timer = None if text is None else threading.Timer(parse_time(text), stop)
    if timer is not None:
        timer.daemon = True
        timer.start()
    try:
        yield over
    finally:
        if timer is not None:
            timer.cancel()
