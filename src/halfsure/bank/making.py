"""Pictures and texts → rows of a bank: what is there is found, what is missing is encoded."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from halfsure.bank.shards import Bank, Keys, Rows
from halfsure.bank.view import Drawing, View, views_wanted
from halfsure.data import DataError
from halfsure.data.official import data_root
from halfsure.data.originals import Originals, PictureFiles
from halfsure.encoders.encoder import Encoder, EncoderError, Features, PictureEncoder, checked
from halfsure.encoders.squares import square

__all__ = ["View", "banked", "views_wanted"]

GROUP = {"image": 32, "text": 256}
"""Samples that are encoded and written at a time: as many are lost when a process dies."""
BATCH = 16
"""Pictures that an encoder gets at a time: what they become stays in the processor's cache."""


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
    """The features of samples in some views, encoded now as far as they never were. → (n, views) rows."""
    if originals.kind != encoder.kind:
        raise DataError(f"{encoder.full_name} takes {encoder.kind}s, and these are {originals.kind}s")
    if isinstance(originals, PictureFiles) and isinstance(encoder, PictureEncoder):
        originals = replace(originals, least=math.ceil(encoder.side / encoder.crop))
    drawing = Drawing.suited(encoder, seed, flip)
    digests = [drawing.digest(view) for view in views]
    notice = getattr(encoder, "notice", "") or encoder.licence
    about = encoder.as_json() | {"precision": encoder.precision}
    bank = Bank(folder or data_root() / "bank", about, dimension=encoder.dimension, notice=notice)
    keys = _keys(originals)

    def places() -> NDArray[np.int32]:
        found = np.empty((len(keys), len(views)), np.int32)
        for column, digest in enumerate(digests):
            found[:, column] = bank.places(keys ^ digest)
        return found

    told = bank.begin()
    found = places()
    if (found < 0).any():
        with bank.filling():
            told += bank.begin()  # another process may have filled it
            found = places()
            with bank.writer() as writer:
                for rows, columns in _groups(keys, found < 0):
                    some = [views[column] for column in columns]
                    job = Job(originals.take(rows), keys[rows], some)
                    features = encoded(encoder, drawing, job)
                    names = np.concatenate([keys[rows] ^ digests[column] for column in columns])
                    writer.add(names, features.reshape(-1, encoder.dimension))
            bank.look()
            found = places()
    if console is not None:
        for sentence in told:
            console.print(sentence, style="yellow", highlight=False, soft_wrap=True, markup=False)
    return bank.rows(found)


def _keys(originals: Originals) -> Keys:
    """(n, 2)."""
    content = b"".join(originals.key(i) for i in range(len(originals)))
    return np.frombuffer(content, "<u8").reshape(-1, 2)


def _groups(keys: Keys, missing: NDArray[np.bool_]) -> Iterator[tuple[NDArray[np.int64], list[int]]]:
    """Samples that lack the same views, each once: their places, and which views."""
    order = np.lexsort((np.arange(len(keys)), keys[:, 1], keys[:, 0]))
    again = np.zeros(len(keys), bool)
    again[order[1:]] = (keys[order[1:]] == keys[order[:-1]]).all(1)
    left = np.flatnonzero(missing.any(1) & ~again)
    patterns, which = np.unique(missing[left], axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        rows = left[which.reshape(-1) == number]
        for first in range(0, len(rows), 32):
            yield rows[first : first + 32], np.flatnonzero(pattern).tolist()


@dataclass(frozen=True)
class Job:
    """Some samples, and the views in which they are to be encoded."""

    originals: Originals
    keys: Keys
    views: Sequence[View]


def encoded(encoder: Encoder, drawing: Drawing, job: Job) -> Features:
    """Encode a job. → (views, n, dimension)."""
    samples = (job.keys[:, 0] >> np.uint64(1)).astype(np.int64)
    found = np.empty((len(job.views), len(job.originals), encoder.dimension), np.float32)
    for first in range(0, len(samples), BATCH):
        some = slice(first, first + BATCH)
        read = [job.originals[i] for i in range(len(samples))[some]]
        if isinstance(encoder, PictureEncoder):
            squares = np.stack([square(picture, encoder.side, encoder.crop) for picture in read])
        for number, view in enumerate(job.views):
            given: Any = (
                drawing.pictures(squares, view, samples[some])
                if isinstance(encoder, PictureEncoder)
                else drawing.texts(read, view, samples[some])
            )
            found[number, some] = _asked(encoder, given, len(read))
    return found


def _asked(encoder: Encoder, given: Any, count: int) -> Features:
    try:
        return checked(encoder, encoder.encode(given), count)
    except EncoderError:
        raise
    except Exception as error:
        raise EncoderError(f"{encoder.full_name} failed: {type(error).__name__}: {error!s:.200}") from error
