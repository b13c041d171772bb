"""A few samples at a time through an encoder, in some views: read, drawn, encoded; the next are read meanwhile."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from halfsure.bank.shards import Keys
from halfsure.bank.view import Drawing, View
from halfsure.data import DataError
from halfsure.data.originals import Originals
from halfsure.encoders.encoder import Encoder, EncoderError, Features, checked
from halfsure.encoders.squares import square

__all__ = ["Encoded", "Job", "encoded"]

BATCH = {"image": 16, "text": 256}
"""Samples that an encoder gets at a time: of pictures so few that what they become stays in the processor's cache; of
texts so many that there are some of each length."""
T = TypeVar("T")


@dataclass(frozen=True)
class Job:
    """Some samples, and the views in which they are to be encoded."""

    originals: Originals
    keys: Keys
    views: Sequence[View]


@dataclass(frozen=True)
class Encoded:
    """What became of a job."""

    features: Features
    """(views, samples that could be read, dimension)."""
    problems: tuple[str, ...]
    """Of each sample why it could not be read, empty if it could."""


def encoded(encoder: Encoder, drawing: Drawing, job: Job) -> Encoded:
    """Encode a job; samples that cannot be read are told of."""
    samples = (job.keys[:, 0] >> np.uint64(1)).astype(np.int64)
    size = BATCH[encoder.kind]
    parts = [range(first, min(first + size, len(samples))) for first in range(0, len(samples), size)]
    features, problems = list[Features](), list[str]()
    for part, (read, wrong) in zip(parts, _ahead(lambda part: _read(encoder, job.originals, part), parts), strict=True):
        problems += wrong
        good = np.array([not problem for problem in wrong])
        if good.any():
            features.append(_views(encoder, drawing, read, job.views, samples[part.start : part.stop][good]))
    nothing = np.empty((len(job.views), 0, encoder.dimension), np.float32)
    return Encoded(np.concatenate([nothing, *features], 1), tuple(problems))


def _read(encoder: Encoder, originals: Originals, part: range) -> tuple[list[Any], list[str]]:
    """Texts, or pictures as squares; and what is wrong with each."""
    read, problems = list[Any](), list[str]()
    for number in part:
        try:
            found = originals[number]
            read.append(square(found, encoder.side, encoder.crop) if encoder.kind == "image" else found)  # type: ignore[attr-defined]
            problems.append("")
        except DataError as error:
            problems.append(str(error))
    return read, problems


def _views(
    encoder: Encoder, drawing: Drawing, read: list[Any], views: Sequence[View], samples: NDArray[np.int64]
) -> Features:
    """→ (views, n, dimension)."""
    squares = np.stack(read) if encoder.kind == "image" else None
    found = np.empty((len(views), len(read), encoder.dimension), np.float32)
    for number, view in enumerate(views):
        drawn: Any = drawing.texts(read, view, samples) if squares is None else drawing.pictures(squares, view, samples)
        try:
            found[number] = checked(encoder, encoder.encode(drawn), len(read))
        except (EncoderError, MemoryError):
            raise
        except Exception as error:  # whatever a network of one's own raises
            raise EncoderError(f"{encoder.full_name} failed: {type(error).__name__}: {error!s:.200}") from error
    return found


def _ahead(work: Callable[[range], T], parts: list[range]) -> Iterator[T]:
    """The result of each part, that of the next one in the making."""
    if len(parts) == 1:
        yield work(parts[0])
        return
    with ThreadPoolExecutor(1) as pool:
        coming = [pool.submit(work, part) for part in parts[:1]]
        for part in parts[1:]:
            found = coming.pop().result()
            coming.append(pool.submit(work, part))
            yield found
        yield coming.pop().result()
