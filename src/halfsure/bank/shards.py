"""The bank: features of samples in some views, computed once and kept on the disk.

A sample is found by its contents, not by its place: one that was added or changed is encoded, the others are there. A
bank is a folder for one encoder, its weights and one kind of views. Its shards only ever grow, each by one process at
a time: first the features are written, then their keys, so that what has a key is whole.
"""

import json
import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from halfsure._disk import read_json, write
from halfsure.data import DataError

__all__ = ["Bank", "Rows", "key_of"]

FORMAT = 1
KEY = np.dtype([("sample", "V16"), ("checksum", "<u4")])
"""What stands in the keys of a shard for each of its rows: whose it is, and the CRC-32 of its bytes."""
HALF = np.dtype("<f2")
LARGEST = float(np.finfo(HALF).max)
Keys = NDArray[np.void]


def key_of(content: bytes) -> bytes:
    """What a sample is found by: 16 bytes of its hash."""
    return blake2b(content, digest_size=16).digest()


@dataclass(frozen=True)
class _Shard:
    rows: Path
    keys: Path
    count: int


class Bank:
    """Features of every sample that was ever asked for, in so many views."""

    def __init__(self, folder: Path, about: dict[str, Any], *, views: int, dimension: int) -> None:
        self.about = about | {"format": FORMAT, "views": views, "dimension": dimension}
        name = sha256(json.dumps(self.about, sort_keys=True).encode()).hexdigest()[:16]
        self.path = folder / name
        self.shape = (views, dimension)
        self._size = HALF.itemsize * views * dimension
        self._shards = list[_Shard]()
        self._places = dict[bytes, tuple[int, int]]()

    def begin(self) -> list[str]:
        """Make or open the folder. → what was wrong with it, and is made again, in sentences."""
        self.path.mkdir(parents=True, exist_ok=True)
        about, told = self.path / "bank.json", list[str]()
        try:
            same = not about.exists() or read_json(about) == self.about
        except (OSError, ValueError):
            same = False
        if not same:
            for shard in self._files():
                shard.unlink()
            told.append(f"the bank {self.path.name} was damaged, and is made again")
        write(about, json.dumps(self.about, indent=1, sort_keys=True).encode())
        return told + self.look()

    def look(self) -> list[str]:
        """Read which samples are there. → what is damaged, in sentences; it counts as not there."""
        self._shards, self._places = [], {}
        told = list[str]()
        for rows in sorted(self.path.glob("*.rows")):
            keys = rows.with_suffix(".keys")
            count = min(rows.stat().st_size // self._size, keys.stat().st_size // KEY.itemsize if keys.exists() else 0)
            number = len(self._shards)
            self._shards.append(_Shard(rows, keys, count))
            found = np.fromfile(keys, KEY, count) if count else np.empty(0, KEY)
            bad = self._damaged(self._shards[-1], found)
            if bad:
                told.append(f"{bad} of {count} rows in {rows.name} of the bank are damaged, and are made again")
            self._places |= {
                key["sample"].tobytes(): (number, row) for row, key in enumerate(found) if key["checksum"] != _DAMAGED
            }
        return told

    def _damaged(self, shard: _Shard, keys: Keys) -> int:
        """Mark the keys whose rows are not what was written."""
        bad = 0
        if shard.count:
            rows = np.memmap(shard.rows, np.uint8, "r", shape=(shard.count, self._size))
            for row, key in zip(rows, keys, strict=True):
                if _checksum(row) != key["checksum"]:
                    key["checksum"] = _DAMAGED
                    bad += 1
        return bad

    def missing(self, keys: Sequence[bytes]) -> NDArray[np.int64]:
        """Which of the samples have to be encoded, each once. → their places in the list."""
        first = dict[bytes, int]()
        for place, key in enumerate(keys):
            if key not in self._places:
                first.setdefault(key, place)
        return np.array(sorted(first.values()), np.int64)

    @contextmanager
    def writer(self) -> Iterator["Writer"]:
        """A shard that no other process writes to."""
        for number in range(10_000):
            lock = FileLock(self.path / f"{number:04}.lock")
            try:
                lock.acquire(blocking=False)
            except Timeout:
                continue
            try:
                with Writer.begun(self.path / f"{number:04}.rows", self._size) as writer:
                    yield writer
            finally:
                lock.release()
            return
        raise DataError(f"the bank {self.path} has too many writers")

    def rows(self, keys: Sequence[bytes]) -> "Rows":
        """The rows of samples that are all there."""
        places = np.array([self._places[key] for key in keys], np.int64).reshape(-1, 2)
        return Rows(tuple(shard.rows for shard in self._shards), self.shape, places)

    def _files(self) -> Iterator[Path]:
        for pattern in ("*.rows", "*.keys"):
            yield from self.path.glob(pattern)


_DAMAGED = 0
"""A checksum that is never written."""


def _checksum(row: Any) -> int:
    return zlib.crc32(row) or 1


@dataclass
class Writer:
    """Adds rows to a shard, so many at a time; what a process that was killed left unfinished is cut off first."""

    rows: Any
    keys: Any

    @classmethod
    @contextmanager
    def begun(cls, path: Path, size: int) -> Iterator["Writer"]:
        """Open a shard for appending."""
        keys = path.with_suffix(".keys")
        path.touch()
        keys.touch()
        count = min(path.stat().st_size // size, keys.stat().st_size // KEY.itemsize)
        os.truncate(path, count * size)
        os.truncate(keys, count * KEY.itemsize)
        with path.open("ab") as rows, keys.open("ab") as names:
            yield cls(rows, names)

    def add(self, keys: Sequence[bytes], features: NDArray[Any]) -> None:
        """Keep the features of samples, (n, views, dimension)."""
        if not np.isfinite(features).all() or np.abs(features).max(initial=0) > LARGEST:
            raise DataError("features must be finite and within float16's range to be kept in a bank")
        halves = np.ascontiguousarray(features, HALF)
        names = np.empty(len(keys), KEY)
        for name, key, row in zip(names, keys, halves, strict=True):
            name["sample"], name["checksum"] = np.void(key), _checksum(row.tobytes())
        for file, content in ((self.rows, halves), (self.keys, names)):
            file.write(content.tobytes())
            file.flush()
            os.fsync(file.fileno())


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a bank in the order of a data set, read from the disk when they are asked for."""

    files: tuple[Path, ...]
    whole: tuple[int, int]
    """Views of a sample, and features of a view."""
    places: NDArray[np.int64]
    """(n, 2): shard and row of each sample."""
    _open: dict[int, Any] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.places)

    def __getstate__(self) -> dict[str, Any]:
        return {"files": self.files, "whole": self.whole, "places": self.places, "_open": {}}

    def take(self, indices: Any, views: Any) -> NDArray[np.float16]:
        """A view of each of some samples. → (n, features)."""
        places = self.places[indices]
        views = np.broadcast_to(views, len(places))
        found = np.empty((len(places), self.whole[1]), HALF)
        for shard in np.unique(places[:, 0]).tolist():
            here = places[:, 0] == shard
            found[here] = self._shard(shard)[places[here, 1], views[here]]
        return found

    def _shard(self, number: int) -> Any:
        if number not in self._open:
            self._open[number] = np.memmap(self.files[number], HALF, "r").reshape(-1, *self.whole)
        return self._open[number]
