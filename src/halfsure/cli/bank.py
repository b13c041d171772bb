"""`halfsure bank list | info | clear`."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from rich.console import Console
from rich.table import Table
from tyro.conf import Positional, subcommand

from halfsure._shown import duration
from halfsure.bank.making import bank_folder
from halfsure.bank.shards import BusyError
from halfsure.bank.shelf import Shelved, banks, find_bank, remove
from halfsure.cli.terminal import print_json
from halfsure.data import DataError

__all__ = ["Bank"]


@dataclass(frozen=True)
class BankList:
    """List the banks: encoder, samples, views, size and age."""

    root: Path | None = None
    """Folder of all banks; if not given $HALFSURE_BANK, else `bank` in $HALFSURE_DATA or in the user's cache folder."""
    json: bool = False
    """Print JSON."""

    def run(self, console: Console) -> int:
        """Say how much there is, then print a row for each bank."""
        folder = self.root or bank_folder()
        found = banks(folder)
        if self.json:
            print_json(console, [bank.as_json() for bank in found])
            return 0
        if not found:
            console.print(f"There is no bank in {folder}.", soft_wrap=True, highlight=False)
            return 0
        verdict = f"{_counted(len(found), 'bank')}, {_size(sum(bank.bytes for bank in found))}, in {folder}"
        console.print(verdict, soft_wrap=True, highlight=False)
        table = Table("name", "encoder", "precision", "samples", "views", "size", "age", box=None, header_style="bold")
        for bank in found:
            precision = str(bank.about.get("precision", "–"))
            views = " + ".join(f"{count} {kind}" for kind, count in bank.numbers.items()) or "–"
            table.add_row(
                bank.name, bank.encoder, precision, f"{bank.samples:,}", views, _size(bank.bytes), _age(bank.changed)
            )
        console.print(table)
        for bank in found:
            if state := _state(bank):
                console.print(f"{bank.name} is {state}", soft_wrap=True, highlight=False, style="yellow")
        console.print("\nhalfsure bank info NAME says more, halfsure bank clear NAME removes one.", style="dim")
        return 0


@dataclass(frozen=True)
class BankInfo:
    """Tell what a bank holds."""

    name: Positional[str]
    """Which bank, or the beginning of its name; `halfsure bank list` names them."""
    root: Path | None = None
    """Folder of all banks; if not given $HALFSURE_BANK, else `bank` in $HALFSURE_DATA or in the user's cache folder."""
    json: bool = False
    """Print JSON."""

    def run(self, console: Console) -> int:
        """Say how it is, then print a line for each fact; 1 if it cannot be used."""
        bank = find_bank(self.root or bank_folder(), self.name)
        if self.json:
            print_json(console, bank.as_json())
            return int(bool(bank.problem))
        console.print(f"{bank.name} is {_state(bank) or 'whole'}", soft_wrap=True, highlight=False)
        each = f", {bank.bytes / bank.samples:,.0f} bytes per sample" if bank.samples else ""
        facts = {
            "encoder": bank.encoder,
            **{key: value for key, value in bank.about.items() if key != "name"},
            "samples": f"{bank.samples:,}",
            **{kind: f"{bank.numbers[kind]:,} × {rows // bank.numbers[kind]:,}" for kind, rows in bank.views.items()},
            "size": f"{_size(bank.bytes)}{each}",
            "age": _age(bank.changed),
            "folder": bank.path,
        }
        for key, value in facts.items():
            console.print(f"{key:<10} {value}", soft_wrap=True, highlight=False)
        return int(bool(bank.problem))


@dataclass(frozen=True)
class BankClear:
    """Remove a bank, or all of them; what is needed is encoded again."""

    name: Positional[str | None] = None
    """Which bank, or the beginning of its name; `halfsure bank list` names them."""
    all: bool = False
    """Remove every bank."""
    yes: bool = False
    """Do not ask."""
    root: Path | None = None
    """Folder of all banks; if not given $HALFSURE_BANK, else `bank` in $HALFSURE_DATA or in the user's cache folder."""

    def run(self, console: Console) -> int:
        """Ask, remove, say what was removed; 1 if one is being filled, or the answer is no."""
        folder = self.root or bank_folder()
        if (self.name is None) != self.all:
            raise DataError("name the bank to remove, or give --all; halfsure bank list names them")
        chosen = banks(folder) if self.name is None else [find_bank(folder, self.name)]
        if not chosen:
            console.print(f"There is no bank in {folder}.", soft_wrap=True, highlight=False)
            return 0
        if not self.yes and not _agreed(console, chosen):
            console.print("Nothing was removed.")
            return 1
        gone, busy = list[Shelved](), list[str]()
        for bank in chosen:
            try:
                remove(bank)
                gone.append(bank)
            except BusyError as error:
                busy.append(str(error))
        if gone:
            size = _size(sum(bank.bytes for bank in gone))
            console.print(f"Removed {_counted(len(gone), 'bank')}, {size}.", highlight=False)
        for sentence in busy:
            console.print(f"Kept: {sentence}.", soft_wrap=True, highlight=False)
        return int(bool(busy))


@dataclass(frozen=True)
class Bank:
    """Banks of features that encoders have computed: list, describe and remove them."""

    action: (
        Annotated[BankList, subcommand("list")]
        | Annotated[BankInfo, subcommand("info")]
        | Annotated[BankClear, subcommand("clear")]
    )

    def run(self, console: Console) -> int:
        """Hand on to the action."""
        return self.action.run(console)


def _agreed(console: Console, chosen: list[Shelved]) -> bool:
    """Ask whoever sits there; where nobody does, `--yes` has to be given."""
    if not console.is_terminal:
        raise DataError("nobody can be asked here; add --yes to remove")
    names = ", ".join(bank.name for bank in chosen)
    size = _size(sum(bank.bytes for bank in chosen))
    return console.input(f"Remove {names} ({size})? [y/N] ").strip().lower() in ("y", "yes")


def _state(bank: Shelved) -> str:
    if bank.problem:
        return f"{bank.problem}; it is made again when it is next asked for"
    return "being filled" if bank.filling else ""


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def _size(count: int) -> str:
    size = float(count)
    for unit in ("bytes", "KB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" or size >= 10 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:,.1f} GB"


def _age(changed: float) -> str:
    seconds = max(0.0, time.time() - changed)
    return duration(seconds) if seconds < 86_400 else f"{seconds / 86_400:.0f} days"
