"""Pictures and texts → rows of a bank: what is there is found, what is missing is encoded."""

import math
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console

from halfsure._checks import check_count
from halfsure.bank.bar import Bar, say
from halfsure.bank.encoding import Job
from halfsure.bank.shards import Bank, BusyError, Keys, Rows
from halfsure.bank.view import Drawing, View, views_wanted
from halfsure.bank.workers import all_encoded
from halfsure.data import DataError
from halfsure.data.official import data_root
from halfsure.data.originals import Originals, PictureFiles
from halfsure.encoders.encoder import Encoder, PictureEncoder

__all__ = ["CALLED", "UnreadableError", "View", "bank_folder", "banked", "least_side", "views_wanted"]

GROUP = {"image": 32, "text": 256}
"""Samples that are encoded and written at a time: as many are lost when a process dies."""
SHOWN = 10
GAP = 2
"""A large JPEG is decoded to no fewer than so many times the pixels that the encoder sees. On pieces of two photographs
features then have a cosine of 0.9998 with those of the whole picture; with half as many it was 0.975 at worst."""
CALLED = {"image": "pictures", "text": "texts"}
Numbers = NDArray[np.int64]


class UnreadableError(DataError):
    """Some samples cannot be read; the others are in the bank."""

    def __init__(self, message: str, places: Numbers) -> None:
        super().__init__(message)
        self.places = places


def least_side(encoder: PictureEncoder) -> int:
    """Pixels of a picture's shorter side that are enough."""
    return GAP * math.ceil(encoder.side / encoder.crop)


def bank_folder() -> Path:
    """Where banks are kept, unless another folder is named: `$HALFSURE_BANK`, else `bank` in the folder of all data."""
    named = os.environ.get("HALFSURE_BANK")
    return Path(named).expanduser() if named else data_root() / "bank"


def banked(
    originals: Originals,
    encoder: Encoder,
    views: Sequence[View],
    *,
    seed: int = 0,
    flip: bool = True,
    folder: Path | None = None,
    console: Console | None = None,
    workers: int | None = None,
) -> Rows:
    """The features of samples in some views: found in the bank, or encoded now and kept there.

    A view is drawn from the seed, its number and the sample's contents alone; `flip` allows mirrored pictures. As many
    processes as there are cores share the work, unless `workers` says how many. → rows (n, views).

    Examples:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import numpy as np
        >>> from halfsure.bank import banked, views_wanted
        >>> from halfsure.data.originals import PictureArray
        >>> from halfsure.encoders import own
        >>> mean_colour = own(lambda pictures: pictures.mean((2, 3)), "image", side=16)
        >>> pictures = PictureArray(np.zeros((5, 20, 30, 3), np.uint8))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     rows = banked(pictures, mean_colour, views_wanted(weak=1, strong=2), folder=Path(folder))
        >>> rows.shape, rows.views
        ((5, 3), 4)
    """
    if originals.kind != encoder.kind:
        raise DataError(f"{encoder.full_name} takes {CALLED[encoder.kind]}, and these are {CALLED[originals.kind]}")
    workers = check_count("workers", _cores() if workers is None else workers, 1)
    if isinstance(originals, PictureFiles) and isinstance(encoder, PictureEncoder):
        originals = replace(originals, least=least_side(encoder))
    drawing = Drawing.suited(encoder, seed, flip)
    notice = getattr(encoder, "notice", "") or encoder.licence
    bank = Bank(folder or bank_folder(), _about(encoder), dimension=encoder.dimension, notice=notice)
    keys = _keys(originals, workers)
    wanted = _Wanted(originals, keys, tuple(views), [drawing.digest(view) for view in views])
    for sentence in bank.begin():
        say(console, sentence, "yellow")
    places = wanted.places(bank)
    if (places < 0).any():
        with _turn(bank, console):
            for sentence in bank.begin():  # another process may have filled it, or cleared it
                say(console, sentence, "yellow")
            bad = _fill(bank, wanted, encoder, drawing, console=console, workers=workers)
            bank.look()
        places = wanted.places(bank)
        _refuse(bad, places, CALLED[encoder.kind])
    return bank.rows(places)


@dataclass(frozen=True)
class _Wanted:
    """What is asked of a bank."""

    originals: Originals
    keys: Keys
    views: tuple[View, ...]
    digests: list[NDArray[np.uint64]]

    def places(self, bank: Bank) -> NDArray[np.int32]:
        """→ (n, views), −1 where a row is missing."""
        found = np.empty((len(self.keys), len(self.views)), np.int32)
        for column, digest in enumerate(self.digests):
            found[:, column] = bank.places(self.keys ^ digest)
        return found


def _about(encoder: Encoder) -> dict[str, Any]:
    """What features of one bank have in common."""
    about = encoder.as_json() | {"precision": encoder.precision}
    about.pop("asked", None)  # features are the same, whether their precision was asked for or chosen
    if encoder.name == "own":  # a function has a name, which others may have; so it is tried out
        generator = torch.Generator().manual_seed(0)
        side = getattr(encoder, "side", 0)
        tried: Any = torch.randn(1, 3, side, side, generator=generator) if encoder.kind == "image" else ["a B, 1!"]
        about["tried"] = sha256(encoder.encode(tried).tobytes()).hexdigest()
    return about


def _keys(originals: Originals, workers: int) -> Keys:
    """→ (n, 2)."""
    content = bytearray()
    numbers = range(len(originals))
    if isinstance(originals, PictureFiles) and workers > 1:  # reading and hashing need not wait for each other
        with ThreadPoolExecutor(workers) as pool:
            for first in range(0, len(numbers), 4096):
                content += b"".join(pool.map(originals.key, numbers[first : first + 4096]))
    else:
        for number in numbers:
            content += originals.key(number)
    return np.frombuffer(bytes(content), "<u8").reshape(-1, 2)


def _turn(bank: Bank, console: Console | None) -> Any:
    """The turn to fill the bank, which may have to be waited for."""
    try:
        with bank.filling(wait=False):
            pass
    except BusyError as busy:
        say(console, f"{busy}; this one waits for it")
    return bank.filling()


def _fill(
    bank: Bank, wanted: _Wanted, encoder: Encoder, drawing: Drawing, *, console: Console | None, workers: int
) -> dict[int, str]:
    """Encode what is missing. → places of samples that cannot be read, and why."""
    groups = _groups(wanted.keys, wanted.places(bank) < 0, GROUP[encoder.kind])
    samples, count = sum(len(rows) for rows, _ in groups), sum(len(rows) * len(views) for rows, views in groups)
    if count:
        say(console, _what(encoder, samples, count))

    def jobs() -> Iterator[tuple[int, Job]]:
        for number, (rows, columns) in enumerate(groups):
            yield number, Job(wanted.originals.take(rows), wanted.keys[rows], [wanted.views[i] for i in columns])

    bad = dict[int, str]()
    with (
        bank.writer() as writer,
        Bar(console, samples, CALLED[encoder.kind]).shown() as bar,
        closing(all_encoded(encoder, drawing, jobs(), workers, count)) as results,
    ):
        for number, result in results:
            rows, columns = groups[number]
            bad |= {row: problem for row, problem in zip(rows.tolist(), result.problems, strict=True) if problem}
            good = wanted.keys[rows[[not problem for problem in result.problems]]]
            if len(good):
                names = np.concatenate([good ^ wanted.digests[column] for column in columns])
                codes = np.repeat([wanted.views[column].code for column in columns], len(good))
                writer.add(names, result.features.reshape(-1, encoder.dimension), codes)
            bar.add(len(rows))
    return bad


def _what(encoder: Encoder, samples: int, count: int) -> str:
    """What is about to be made, in one line."""
    called = CALLED[encoder.kind] if samples > 1 else encoder.kind.replace("image", "picture")
    side = f" at {encoder.side} pixels" if isinstance(encoder, PictureEncoder) and encoder.kind == "image" else ""
    views = f"{count:,} views in all" if count % samples else f"{count // samples} view{'s' * (count > samples)} each"
    return f"{samples:,} {called} through {encoder.full_name}{side}, {views}"


def _refuse(bad: dict[int, str], places: NDArray[np.int32], called: str) -> None:
    """Name the samples that have no features."""
    missing = np.flatnonzero((places < 0).any(1))
    if not len(missing):
        return
    if not bad:
        raise DataError("the bank was damaged while it was filled; look at the disk, and start again")
    listed = "\n  ".join(list(bad.values())[:SHOWN]) + (f"\n  and {len(bad) - SHOWN} more" * (len(bad) > SHOWN))
    raise UnreadableError(
        f"{len(missing)} of {len(places)} {called} cannot be read; mend or remove them, or skip them (--skip-bad); the "
        f"others are in the bank:\n  {listed}",
        missing,
    )


def _groups(keys: Keys, missing: NDArray[np.bool_], size: int) -> list[tuple[Numbers, list[int]]]:
    """Samples that lack the same views, each once: their places, and which views.

    Groups of a run that was stopped are the same in the next: what an encoder makes of a sample may depend, in its last
    bits, on those beside it.
    """
    order = np.lexsort((keys[:, 1], keys[:, 0]))  # stable: of equal ones the first comes first
    again = np.zeros(len(keys), bool)
    again[order[1:]] = (keys[order[1:]] == keys[order[:-1]]).all(1)
    left = np.flatnonzero(missing.any(1) & ~again)
    patterns, which = np.unique(missing[left], axis=0, return_inverse=True)
    found = list[tuple[Numbers, list[int]]]()
    for number, pattern in enumerate(patterns):
        rows, columns = left[which.reshape(-1) == number], np.flatnonzero(pattern).tolist()
        found += [(rows[first : first + size], columns) for first in range(0, len(rows), size)]
    return found


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
