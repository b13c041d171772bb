"""A stored sample → something to look at: a small PNG inside the page, or the first values of a row."""

import base64
import io
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from halfsure.report.markup import text

__all__ = ["picture"]

TINY = 32
"""Images up to this side are shown pixel by pixel."""
LARGEST = 64
COLOURS = 64
"""Of larger images: a dozen photographs should not outweigh the page."""
VALUES = 6


def picture(sample: NDArray[Any], name: str) -> str:
    """HTML of one sample: an image (height, width, channels) or a row (features,)."""
    if sample.ndim == 1:
        shown = ", ".join(f"{value:.3g}" for value in sample[:VALUES].tolist())
        return f'<p class="values">{text(shown)}{" …" if len(sample) > VALUES else ""}</p>'
    image = _image(sample)
    kind = "tiny" if max(image.size) <= TINY else "photo"
    file = io.BytesIO()
    image.save(file, "PNG", optimize=True)
    data = base64.b64encode(file.getvalue()).decode()
    wide, high = image.size
    return f'<img class="{kind}" width="{wide}" height="{high}" alt="{text(name)}" src="data:image/png;base64,{data}">'


def _image(sample: NDArray[Any]) -> Image.Image:
    channels = sample.shape[-1]
    pixels = sample[..., :3] if channels in (3, 4) else sample[..., 0]
    image = Image.fromarray(np.ascontiguousarray(pixels))
    if max(image.size) > LARGEST:
        image.thumbnail((LARGEST, LARGEST), Image.Resampling.LANCZOS)
    if max(image.size) > TINY and image.mode == "RGB":
        image = image.quantize(COLOURS, dither=Image.Dither.FLOYDSTEINBERG)
    return image
