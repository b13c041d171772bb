"""All banks of a folder: what each holds, and how it is removed."""

import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from halfsure._disk import read_json
from halfsure.bank.mapped_rows import HALF
from halfsure.bank.shards import FORMAT, BusyError, filled, lock_of, records
from halfsure.bank.view import View
from halfsure.data import DataError

__all__ = ["Shelved", "banks", "find_bank", "remove"]


@dataclass(frozen=True)
class Shelved:
    """A bank as it is found on the disk."""

    path: Path
    problem: str
    """Why it cannot be used, and is made again when it is next asked for; empty if it can."""
    about: dict[str, Any]
    """Of the encoder."""
    views: dict[str, int]
    """Kind of a view, and how many rows there are of the kind."""
    numbers: dict[str, int]
    """Kind of a view, and how many views of the kind there are."""
    bytes: int
    changed: float
    """When rows were last added, in seconds since 1970."""
    filling: bool
    """Whether a process writes to it now."""

    @property
    def name(self) -> str:
        """The folder's."""
        return self.path.name

    @property
    def encoder(self) -> str:
        """Its name, or what can be said."""
        return str(self.about.get("name", "?"))

    @property
    def rows(self) -> int:
        """Of all views."""
        return sum(self.views.values())

    @property
    def samples(self) -> int:
        """Those of which there is a plain view, or else the most that some view has."""
        per_view = [rows // max(1, self.numbers[kind]) for kind, rows in self.views.items()]
        return self.views.get("plain", 0) or max(per_view, default=0)

    def as_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "name": self.name,
            "problem": self.problem or None,
            "encoder": self.about,
            "samples": self.samples,
            "rows": self.rows,
            "views": {kind: {"views": self.numbers[kind], "rows": rows} for kind, rows in self.views.items()},
            "bytes": self.bytes,
            "changed": self.changed,
            "filling": self.filling,
        }


def banks(folder: Path) -> list[Shelved]:
    """Every bank in a folder, the one that was last added to first."""
    found = [_looked_at(path) for path in sorted(folder.glob("*")) if path.is_dir() and not path.is_symlink()]
    return sorted(found, key=lambda bank: -bank.changed)


def find_bank(folder: Path, name: str) -> Shelved:
    """The bank of a name, or of the beginning of one."""
    found = banks(folder)
    chosen = [bank for bank in found if bank.name == name] or [bank for bank in found if bank.name.startswith(name)]
    if len(chosen) == 1:
        return chosen[0]
    if not found:
        raise DataError(f"there is no bank in {folder}")
    what = f"several banks are called {name!r:.60}…" if chosen else f"there is no bank {name!r:.60}"
    raise DataError(f"{what}; there are {', '.join(bank.name for bank in chosen or found)}")


def remove(bank: Shelved) -> None:
    """Remove a bank, unless it is being filled."""
    with filled(lock_of(bank.path), wait=False):
        shutil.rmtree(bank.path)


def _looked_at(path: Path) -> Shelved:
    files = [file for file in path.iterdir() if file.is_file()]
    stats = [file.stat() for file in files]
    about, problem = dict[str, Any](), ""
    try:
        about = read_json(path / "bank.json")
        version = about.pop("format")
        dimension = int(about["dimension"])
        if version != FORMAT:
            problem = f"from another version of halfsure (format {version}, not {FORMAT})"
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        about, dimension, problem = {}, 0, "damaged: bank.json cannot be read"
    counts = Counter[int]()
    if not problem:
        for file in path.glob("*.rows"):
            codes, rows = np.unique(records(file, HALF.itemsize * dimension)["view"], return_counts=True)
            counts.update(dict(zip(codes.tolist(), rows.tolist(), strict=True)))
    views, numbers = Counter[str](), Counter[str]()
    for code, count in counts.items():
        kind = View.coded(code).kind if code >> 24 < 3 else "unknown"
        views[kind] += count
        numbers[kind] += 1
    try:
        with filled(lock_of(path), wait=False):
            filling = False
    except BusyError:
        filling = True
    changed = max((stat.st_mtime for stat in stats), default=0.0)
    return Shelved(path, problem, about, dict(views), dict(numbers), sum(s.st_size for s in stats), changed, filling)
