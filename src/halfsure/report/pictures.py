"""A stored sample → something to look at: a small PNG inside the page, or the first values of a row."""

import base64
import io
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

__all__ = ["Picture", "picture"]

TINY = 32
"""Images up to this side are shown pixel by pixel."""
LARGEST = 64
COLOURS = 64
"""Of larger images: a dozen photographs should not outweigh the page."""
VALUES = 6
LETTERS = 280


@dataclass(frozen=True)
class Picture:
    """A small image."""

    kind: str
    """Its class in the style sheet."""
    width: int
    height: int
    png: str
    """The file in base64."""


def picture(sample: NDArray[Any] | str) -> Picture | str:
    """An image (height, width, channels), the beginning of a text, or the first values of anything else."""
    if isinstance(sample, str):
        return sample if len(sample) <= LETTERS else f"{sample[:LETTERS]} …"
    if sample.ndim != 3 or sample.dtype != np.uint8:
        values = sample.reshape(-1)
        shown = ", ".join(f"{value:.3g}" for value in values[:VALUES].tolist())
        return shown + (" …" if len(values) > VALUES else "")
    image = _image(sample)
    file = io.BytesIO()
    image.save(file, "PNG", optimize=True)
    kind = "tiny" if max(image.size) <= TINY else "photo"
    return Picture(kind, *image.size, base64.b64encode(file.getvalue()).decode())


def _image(sample: NDArray[Any]) -> Image.Image:
    channels = sample.shape[-1]
    pixels = sample[..., :3] if channels in (3, 4) else sample[..., 0]
    image = Image.fromarray(np.ascontiguousarray(pixels))
    if max(image.size) > LARGEST:
        image.thumbnail((LARGEST, LARGEST), Image.Resampling.LANCZOS)
    if max(image.size) > TINY and image.mode == "RGB":
        image = image.quantize(COLOURS, dither=Image.Dither.FLOYDSTEINBERG)
    return image
