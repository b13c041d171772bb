"""Stored samples → numbers of about unit size, as a model takes them."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halfsure.data import Data, DataError
from halfsure.data.dataset import Kind
from halfsure.views.image import Plain

__all__ = ["CHUNK", "Preprocessing", "seen_samples"]

CHUNK = 10_000


@dataclass(frozen=True)
class Preprocessing:
    """How stored samples become numbers of about unit size. It is kept with the model, as JSON."""

    kind: Kind
    shape: tuple[int, ...]
    """Of one stored sample: (height, width, channels) or (features,)."""
    mean: tuple[float, ...]
    """What is taken away, by channel or feature; of images in 0 … 1."""
    std: tuple[float, ...]
    """What is divided by afterwards."""

    @classmethod
    def of(cls, data: Data, normalise: str) -> "Preprocessing":
        """Measure it on the training samples, those held out for validation apart."""
        shape = data.train.samples.shape[1:]
        seen = seen_samples(data)
        if data.kind == "image" and normalise == "half":
            return cls("image", shape, (0.5,) * shape[-1], (0.5,) * shape[-1])
        mean, std = _moments(data.train.samples, seen, 255.0 if data.kind == "image" else 1.0)
        for text in data.texts:  # a direction's size says how much it matters: one scale for all
            std[text.features] = np.sqrt(np.mean(std[text.features] ** 2))
        constant = std <= 1e-7 * np.abs(mean)  # but for the rounding of float32
        return cls(data.kind, shape, tuple(mean.tolist()), tuple(np.where(constant, 1.0, std).tolist()))

    def __call__(self, samples: NDArray[Any]) -> Tensor:
        """Without any randomness. (n, *shape) → (n, channels, height, width) or (n, features), float32."""
        if samples.shape[1:] != self.shape:
            raise DataError(f"samples must be (n, {', '.join(map(str, self.shape))}), got {samples.shape}")
        if self.kind == "image":
            if samples.dtype != np.uint8:
                raise DataError(f"images must be uint8, as the model was trained on, got {samples.dtype}")
            return Plain(self.mean, self.std)(samples)
        with np.errstate(over="ignore"):
            scaled = ((samples - np.array(self.mean)) / np.array(self.std)).astype(np.float32)
        if not np.isfinite(scaled).all():
            raise DataError("rows must be finite numbers, also in float32: fill in what is missing first")
        return torch.from_numpy(scaled)

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Preprocessing":
        """Read what `as_json` gave."""
        shape, mean, std = (tuple(values[key]) for key in ("shape", "mean", "std"))
        return cls(values["kind"], shape, mean, std)


def seen_samples(data: Data) -> NDArray[np.int64] | range:
    """The samples that training may look at: all but those held out for validation."""
    return range(len(data.train)) if data.unlabeled is None else np.union1d(data.labeled, data.unlabeled)


def _moments(
    samples: NDArray[Any], seen: NDArray[np.int64] | range, scale: float
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
