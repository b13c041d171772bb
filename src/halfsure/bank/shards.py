"""A bank on the disk: a row of features for each sample in each view that was ever asked for.

A row is found by its key, which the sample's contents and the view decide: what was added or changed is encoded, the
rest is there. A bank is a folder for one encoder. Its shards only ever grow, by one process at a time, in groups: first
the rows are written, then their keys, and a group whose keys are not all there does not count.

A key carries a checksum of itself and of its row. A shard is checked whole when it is opened for the first time after
it has changed (by its files' sizes and times, kept in a note beside it), and after that no more: opening a bank reads
its keys, not its features. Rows that are damaged are not there, and are made again.
"""

import json
import os
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from halfsure._disk import read_json, reason, write
from halfsure.bank.mapped_rows import HALF, Rows
from halfsure.data import DataError

__all__ = ["FORMAT", "Bank", "BusyError", "Keys", "Rows", "filled", "lock_of", "records"]

FORMAT = 3
KEY = np.dtype([("key", "<u8", (2,)), ("checksum", "<u4"), ("after", "<u4"), ("view", "<u4")])
"""What the keys of a shard say of each of its rows: its key, zero if the row is damaged; a CRC-32 of the key and the
row; how many rows of its group come after it; its view, for those who count."""
LARGEST = float(np.finfo(HALF).max)
SHARD = 2**30
"""Bytes of rows after which another shard is begun."""
BLOCK = 2**24
"""Bytes of rows that are checked at a time."""
Keys = NDArray[np.uint64]
"""(n, 2): 16 bytes each."""
Records = NDArray[np.void]


def lock_of(bank: Path) -> FileLock:
    """What the process holds that writes to a bank; it is beside the folder, which may be removed."""
    return FileLock(bank.with_name(f"{bank.name}.lock"))


@contextmanager
def filled(lock: FileLock, *, wait: bool = True) -> Iterator[None]:
    """Hold a lock."""
    try:
        lock.acquire(blocking=wait)
    except Timeout:
        raise BusyError(f"the bank {Path(lock.lock_file).stem} is being filled by another process") from None
    try:
        yield
    finally:
        lock.release()


class BusyError(DataError):
    """Another process writes to the bank."""


@dataclass(frozen=True)
class _Shard:
    file: Path
    count: int


class Bank:
    """Features of one encoder."""

    def __init__(self, folder: Path, about: dict[str, Any], *, dimension: int, notice: str = "") -> None:
        self.about: dict[str, Any] = json.loads(json.dumps(about | {"dimension": dimension}))
        digest = sha256(json.dumps(self.about, sort_keys=True).encode()).hexdigest()
        named = re.sub(r"[^a-z0-9.]+", "-", str(about.get("name", "bank")).lower()).strip("-.")[:40]
        self.path = folder / f"{named}-{digest[:12]}"
        self.dimension, self._notice = dimension, notice
        self._size = HALF.itemsize * dimension
        self._lock = lock_of(self.path)
        self._shards = list[_Shard]()
        self._index = _Index(np.empty((0, 2), np.uint64))

    @contextmanager
    def filling(self, *, wait: bool = True) -> Iterator[None]:
        """Be the only one who writes; a process that dies ends its turn."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with filled(self._lock, wait=wait):
            yield

    def begin(self) -> list[str]:
        """Make or open the folder. → what was wrong with it, and is made again, in sentences."""
        told = list[str]()
        if not self._sound():
            with self.filling():
                if not self._sound():
                    told += self._begin_again()
        return told + self.look()

    def _sound(self) -> bool:
        try:
            return bool(read_json(self.path / "bank.json") == self.about | {"format": FORMAT})
        except (OSError, ValueError):
            return False

    def _begin_again(self) -> list[str]:
        """Write what says whose features these are, once none are there that may be others'."""
        self.path.mkdir(parents=True, exist_ok=True)
        old = [file for pattern in ("*.rows", "*.keys", "*.checked") for file in self.path.glob(pattern)]
        for file in old:
            file.unlink()
        write(self.path / "NOTICE.txt", (self._notice.strip() + "\n").encode())
        write(self.path / "bank.json", json.dumps(self.about | {"format": FORMAT}, indent=1, sort_keys=True).encode())
        return [f"the bank {self.path.name} was damaged or of another version, and is made again"] if old else []

    def look(self) -> list[str]:
        """Read which rows are there. → what is damaged, in sentences."""
        told, files = list[str](), sorted(self.path.glob("*.rows"))
        self._shards, count = [], 0
        keys = np.empty((sum(file.stat().st_size for file in files) // self._size, 2), np.uint64)
        for file in files:
            stamp = _stamp(file)
            found = records(file, self._size)
            if stamp != _noted(file):
                bad = self._damaged(file, found)
                if len(bad):
                    told.append(
                        f"{len(bad):,} of {len(found):,} rows in {file.name} of the bank {self.path.name} are damaged, "
                        "and are made again"
                    )
                found["key"][bad] = 0
                self._note(file, bad, stamp)
            found = found[: len(keys) - count]  # another process may have added some since
            self._shards.append(_Shard(file, len(found)))
            keys[count : count + len(found)] = found["key"]
            count += len(found)
        self._index = _Index(keys[:count])
        return told

    def _damaged(self, file: Path, said: Records) -> NDArray[np.int64]:
        """Which rows, or keys of them, are not what was written."""
        bad, rows = list[int](), max(1, BLOCK // self._size)
        with file.open("rb") as opened:
            for first in range(0, len(said), rows):
                some = said[first : first + rows]
                found = _checksums(some["key"], opened.read(len(some) * self._size), self._size)
                wrong = (found != some["checksum"]) & some["key"].any(1)
                bad += (first + np.flatnonzero(wrong)).tolist()
        return np.array(bad, np.int64)

    def _note(self, file: Path, bad: NDArray[np.int64], stamp: list[int]) -> None:
        """Remember what was found, unless another process writes: then it is found again."""
        with suppress(BusyError), self.filling(wait=False):
            if _stamp(file) == stamp:
                with file.with_suffix(".keys").open("r+b") as keys:
                    for row in bad.tolist():
                        keys.seek(row * KEY.itemsize)
                        keys.write(bytes(KEY["key"].itemsize))
                _write_note(file)

    def places(self, keys: Keys) -> NDArray[np.int32]:
        """The number of each row, −1 where there is none. (n, 2) → (n,)."""
        return self._index.places(keys)

    def rows(self, places: NDArray[np.int32]) -> Rows:
        """Rows by their numbers, (n, views)."""
        starts = np.cumsum([0, *(shard.count for shard in self._shards)])
        return Rows(tuple(shard.file for shard in self._shards), starts, self.dimension, places)

    @contextmanager
    def writer(self) -> Iterator["Writer"]:
        """Add rows, while nobody else does."""
        with self.filling():
            writer = Writer(self.path, self._size)
            try:
                yield writer
            finally:
                writer.close()


class _Index:
    """Keys in ascending order of their first halves, and which row each is of."""

    def __init__(self, keys: Keys) -> None:
        order = np.argsort(keys[:, 0]).astype(np.int32)
        first = keys[order, 0]
        sound = int(np.searchsorted(first, 1))  # zeros stand for rows that are damaged
        self._order, self._first, self._second = order[sound:], first[sound:], keys[order[sound:], 1]

    def places(self, keys: Keys) -> NDArray[np.int32]:
        found = np.full(len(keys), -1, np.int32)
        order = np.argsort(keys[:, 0])  # neighbours are found near each other, many times as fast
        near = np.empty(len(keys), np.int64)
        near[order] = np.searchsorted(self._first, keys[order, 0])
        left = np.arange(len(keys))
        while len(left):  # more than once only where two keys share their first half
            left = left[near[left] < len(self._first)]
            left = left[self._first[near[left]] == keys[left, 0]]
            same = self._second[near[left]] == keys[left, 1]
            found[left[same]] = self._order[near[left[same]]]
            left = left[~same]
            near[left] += 1
        return found


class Writer:
    """Adds groups of rows to the last shard; what a process that was killed left unfinished is cut off first."""

    def __init__(self, folder: Path, size: int) -> None:
        self._folder, self._size = folder, size
        self._file: Path | None = None
        self._count = 0

    def add(self, keys: Keys, features: NDArray[Any], views: Any = 0) -> None:
        """Keep rows, all of them or none. (n, 2), (n, dimension), and the views' codes, (n,)."""
        if not np.isfinite(features).all() or np.abs(features).max(initial=0) > LARGEST:
            raise DataError(f"features must be finite and at most {LARGEST:,.0f} to be kept in a bank, in float16")
        halves = np.ascontiguousarray(features, HALF).tobytes()
        said = np.zeros(len(keys), KEY)
        said["key"], said["after"], said["view"] = keys, np.arange(len(keys))[::-1], views
        said["checksum"] = _checksums(said["key"], halves, self._size)
        file = self._shard()
        try:
            for path, content in ((file, halves), (file.with_suffix(".keys"), said.tobytes())):
                with path.open("ab", buffering=0) as opened:
                    if opened.write(content) != len(content):
                        raise OSError("the disk is full")  # noqa: TRY301
        except OSError as error:
            _cut(file, self._size, self._count)
            raise DataError(
                f"the bank {self._folder} cannot be written: {reason(error)}; what was encoded before is kept"
            ) from None
        self._count += len(keys)

    def close(self) -> None:
        """Have the rows on the disk, and note that they are whole."""
        if self._file is not None:
            with suppress(OSError):  # then they are checked when they are next opened
                for file in (self._file, self._file.with_suffix(".keys")):
                    with file.open("rb") as opened:
                        os.fsync(opened.fileno())
                _write_note(self._file)
            self._file = None

    def _shard(self) -> Path:
        if self._file is not None and self._count * self._size >= SHARD:
            self.close()
        if self._file is None:
            files = sorted(self._folder.glob("*.rows"))
            if files and files[-1].stat().st_size < SHARD:
                self._file = files[-1]
            else:
                self._file = self._folder / f"{len(files):04}.rows"
            self._file.touch()
            self._file.with_suffix(".keys").touch()
            self._count = len(records(self._file, self._size))
            _cut(self._file, self._size, self._count)
        return self._file


def records(file: Path, size: int) -> Records:
    """The keys of a shard's whole groups."""
    keys = file.with_suffix(".keys")
    count = min(file.stat().st_size // size, keys.stat().st_size // KEY.itemsize if keys.exists() else 0)
    found = np.fromfile(keys, KEY, count) if count else np.empty(0, KEY)
    ends = np.flatnonzero(found["after"] == 0)
    return found[: ends[-1] + 1 if len(ends) else 0]


def _cut(file: Path, size: int, count: int) -> None:
    os.truncate(file.with_suffix(".keys"), count * KEY.itemsize)
    os.truncate(file, count * size)


def _checksums(keys: Keys, rows: bytes, size: int) -> NDArray[np.uint32]:
    names, content = np.ascontiguousarray(keys).tobytes(), memoryview(rows)
    step = KEY["key"].itemsize
    found = (
        zlib.crc32(content[i * size : (i + 1) * size], zlib.crc32(names[i * step : (i + 1) * step]))
        for i in range(len(keys))
    )
    return np.fromiter(found, np.uint32, len(keys))


def _stamp(file: Path) -> list[int]:
    """By which a change of a shard is noticed."""
    stats = [path.stat() for path in (file, file.with_suffix(".keys")) if path.exists()]
    return [number for stat in stats for number in (stat.st_size, stat.st_mtime_ns)]


def _noted(file: Path) -> Any:
    try:
        return read_json(file.with_suffix(".checked"))
    except (OSError, ValueError):
        return None


def _write_note(file: Path) -> None:
    write(file.with_suffix(".checked"), json.dumps(_stamp(file)).encode())
