"""Views of images: mirrored and shifted, and in strong views recoloured, turned and partly covered."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from halfsure.data import Data, DataError
from halfsure.settings import Between, Count, Settings, register
from halfsure.views.batch import Views
from halfsure.views.image import Plain, StrongImage, WeakImage
from halfsure.views.maker import ViewMaker, quick_steps
from halfsure.views.moments import moments, not_constant, seen_samples
from halfsure.views.preprocessing import Preprocessing

__all__ = ["ImageViews"]

DIGITS = {"digits", "mnist", "svhn", "svhn-extra"}  # a mirrored digit is another digit, or none


@dataclass(frozen=True)
class _Settings(Settings):
    flip: bool = False
    """Weak views of images: mirror at random."""
    shift: Count = 2
    """Weak views of images: shift by up to so many pixels."""
    ops: Annotated[int, Between(0, 1000)] = 2
    """Strong views of images: how many random operations; 0 for no strong views."""
    cutout: Count = 8
    """Strong views of images: side of the grey square."""
    normalise: Literal["half", "channels"] = "half"
    """Images: pixels to −1 … 1, or by mean and deviation of each channel."""


@register
class ImageViews(ViewMaker):
    """Weak and strong views of uint8 images, (height, width, channels)."""

    name = "images"
    about = "images: flip and shift; random operations and a grey square in strong views"
    kind = "image"
    dimensions = 3
    strength = ("ops", "cutout")
    Settings = _Settings

    @classmethod
    def preset(cls, name: str, data: Data) -> dict[str, Any]:
        """Shift and cutout grow with the images; the network is larger where they are coloured."""
        side, colours = min(data.train.samples.shape[1:3]), data.train.samples.shape[3]
        views = {"flip": data.name not in DIGITS and colours == 3, "shift": max(1, side // 8), "cutout": side // 2}
        if name == "paper":
            return views | {"net": "conv7" if colours == 1 else "wrn-28-2", "norm": "batch"}
        if name == "cpu" and colours == 3:
            return views | {"net": "wrn-10-1", "norm": "batch", "steps": 3000}
        return views | {
            "net": "conv7-16",
            "norm": "none",
            "steps": {"quick": quick_steps(data, 600), "cpu": 3000}[name],
        }

    @classmethod
    def measure(cls, data: Data, settings: Any) -> tuple[Sequence[float], Sequence[float]]:
        """One half each, or mean and deviation of the channels."""
        if settings.normalise == "half":
            halves = (0.5,) * data.train.samples.shape[-1]
            return halves, halves
        return not_constant(*moments(data.train.samples, seen_samples(data), 255.0))

    @classmethod
    def tensor(cls, samples: NDArray[Any], mean: Sequence[float], std: Sequence[float]) -> Tensor:
        """(n, height, width, channels) → (n, channels, height, width)."""
        if samples.dtype != np.uint8:
            raise DataError(f"images must be uint8, as the model was trained on, got {samples.dtype}")
        return Plain(tuple(mean), tuple(std))(samples)

    @classmethod
    def make(cls, data: Data, preprocessing: Preprocessing, settings: Any, seed: int) -> Views:
        """Without operations and without cutout there is no strong view."""
        mean, std = preprocessing.mean, preprocessing.std
        flip, shift, ops, cutout = settings.flip, settings.shift, settings.ops, settings.cutout
        views: Views = {"weak": WeakImage(flip, shift, mean=mean, std=std, seed=seed)}
        if ops or cutout:
            views["strong"] = StrongImage(ops, flip, shift, cutout, mean=mean, std=std, seed=seed)
        return views
