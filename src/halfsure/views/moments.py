"""Mean and deviation of samples, a chunk at a time."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfsure.data import Data

__all__ = ["CHUNK", "moments", "not_constant", "seen_samples"]

CHUNK = 10_000


def seen_samples(data: Data) -> NDArray[np.int64] | range:
    """The samples that training may look at: all but those held out for validation."""
    return data.seen if isinstance(data.seen, range) else np.union1d(data.labeled, data.seen)


def moments(
    samples: NDArray[Any], seen: NDArray[np.int64] | range, scale: float = 1.0
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and deviation of the last axis, a chunk at a time: memory-mapped samples stay on the disk."""
    count, total, squares = 0, 0.0, 0.0
    width = samples.shape[-1]
    # Around the first chunk's mean, or large means would eat the digits of small deviations.
    center = samples[seen[:CHUNK]].reshape(-1, width).mean(0, dtype=np.float64)
    for start in range(0, len(seen), CHUNK):
        chunk = samples[seen[start : start + CHUNK]].reshape(-1, width).astype(np.float64) - center
        count, total, squares = count + len(chunk), total + chunk.sum(0), squares + (chunk**2).sum(0)
    mean = total / count
    return (center + mean) / scale, np.sqrt(np.maximum(squares / count - mean**2, 0)) / scale


def not_constant(mean: NDArray[np.float64], std: NDArray[np.float64]) -> tuple[list[float], list[float]]:
    """The same with a deviation of 1 where there is none, but for the rounding of float32."""
    return mean.tolist(), np.where(std <= 1e-7 * np.abs(mean), 1.0, std).tolist()
