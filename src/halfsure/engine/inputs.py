"""Stored samples → what the model takes: normalised, in the views an algorithm wants, batch after batch."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halfsure.algorithms import Algorithm, Batch, Draws
from halfsure.algorithms.base import ViewName
from halfsure.data import Data, DataError, TwoStreams
from halfsure.data.dataset import Kind
from halfsure.engine.config import Config
from halfsure.engine.ranks import Ranks
from halfsure.views import ArrayView, Plain, StrongImage, TextView, WeakImage

__all__ = ["Feed", "Preprocessing", "Views", "make_views"]

View = Callable[..., Tensor]
"""view(samples, indices, step, stream) → tensor: a function of the seed, stream, step and sample index alone."""
Views = dict[ViewName, View]

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
        seen = _seen(data)
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


def make_views(data: Data, preprocessing: Preprocessing, config: Config) -> Views:
    """The weak and strong views of a config; a strong view without any strength is left out."""
    seed, mean, std = config.seed, preprocessing.mean, preprocessing.std
    if data.kind == "image":
        views: Views = {"weak": WeakImage(config.flip, config.shift, mean=mean, std=std, seed=seed)}
        if config.ops or config.cutout:
            views["strong"] = StrongImage(
                config.ops, config.flip, config.shift, config.cutout, mean=mean, std=std, seed=seed
            )
        return views
    seen = _seen(data)
    some = np.linspace(0, len(seen) - 1, min(len(seen), CHUNK)).astype(np.int64)
    reference = preprocessing(data.train.samples[some if isinstance(seen, range) else seen[some]])
    weak = ArrayView(noise=config.weak_noise, reference=reference, seed=seed)
    views = {"weak": _Rows(preprocessing, weak, _text_views(data, config.weak_drop, seed))}
    if config.strong_noise or config.strong_swap or (data.texts and config.strong_drop):
        strong = ArrayView(noise=config.strong_noise, swap=config.strong_swap, reference=reference, seed=seed)
        # A kind of its own draws: the same stream would give weak and strong views of a sample the same noise.
        texts = _text_views(data, config.strong_drop, seed)
        views["strong"] = _Rows(preprocessing, strong, texts, stream=STRONG_STREAM)
    return views


def require_views(views: Views, algorithm: Algorithm, data: Data) -> None:
    """Refuse an algorithm that wants views which are not there."""
    for name in ("weak", *algorithm.views):
        if name not in views:
            raise DataError(
                f"{algorithm.name} needs {name} views, and {data.name} has none here; "
                + (
                    "raise ops or cutout (images), strong_noise or strong_swap (rows), strong_drop (texts), or "
                    if name == "strong"
                    else ""
                )
                + "choose a method without them, such as vat+ads or mixmatch-ads"
            )


STRONG_STREAM = 1 << 16


@dataclass(frozen=True)
class _Rows:
    """A view of stored rows, standardised: numbers get noise, texts lose words."""

    preprocessing: Preprocessing
    view: ArrayView
    texts: tuple[tuple[slice, TextView], ...] = ()
    stream: int = 0

    def __call__(self, rows: NDArray[Any], indices: NDArray[np.int64], step: int, stream: int = 0) -> Tensor:
        seen = self.view(self.preprocessing(rows), indices, step, stream + self.stream)
        for place, view in self.texts:
            mean, std = (torch.tensor(part[place]) for part in (self.preprocessing.mean, self.preprocessing.std))
            seen[:, place] = (view(indices, step, stream + self.stream) - mean) / std
        return seen


def _text_views(data: Data, drop: float, seed: int) -> tuple[tuple[slice, TextView], ...]:
    return tuple((text.features, TextView(text.encoding, text.words, drop, seed)) for text in data.texts)


class Feed:
    """Batch after batch, each a function of the config, the data and the step alone."""

    def __init__(
        self,
        data: Data,
        views: Views,
        wanted: tuple[ViewName, ...],
        config: Config,
        *,
        ranks: Ranks,
        device: torch.device,
    ) -> None:
        self._samples, self._labels = data.train.samples, data.train.labels
        self._views, self._wanted = views, wanted
        self._seed, self._rank, self._device = config.seed, ranks.rank, device
        self._dtype = torch.float64 if config.precision == "float64" else torch.float32
        batch, unlabeled = config.batch, config.unlabeled_batch
        self.streams = TwoStreams(data, batch, unlabeled, seed=config.seed, rank=ranks.rank, ranks=ranks.size)

    def next(self, step: int) -> Batch:
        """The batch of a step; steps have to be asked for in their order."""
        drawn = self.streams.next()
        unlabeled = drawn.unlabeled if self._wanted else drawn.unlabeled[:0]
        # Stream 0 is for labeled samples: one that is also drawn as unlabeled gets another view there.
        labeled = self._view("weak", drawn.labeled, step, 0)
        views = [self._view(name, unlabeled, step, stream) for stream, name in enumerate(self._wanted, 1)]
        labels = torch.from_numpy(self._labels[drawn.labeled]).to(self._device)
        return Batch(labeled, labels, tuple(views), Draws(self._seed, step, drawn.labeled, unlabeled, self._rank))

    def _view(self, name: ViewName, indices: NDArray[np.int64], step: int, stream: int) -> Tensor:
        view = self._views[name](self._samples[indices], indices, step, stream)
        return view.to(self._device, self._dtype, non_blocking=True)


def _seen(data: Data) -> NDArray[np.int64] | range:
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
