"""A picture of any size → the square that an encoder sees."""

import numpy as np
from numpy.typing import NDArray
from PIL import Image

__all__ = ["square"]

Bytes = NDArray[np.uint8]


def square(picture: Bytes, side: int, crop: float) -> Bytes:
    """Scale a picture and cut the middle out. (height, width, 1 or 3) → (side, side, 3)."""
    image = Image.fromarray(picture[..., 0] if picture.shape[-1] == 1 else picture)
    part = crop * min(image.size)
    left, top = (image.width - part) / 2, (image.height - part) / 2
    box = (left, top, left + part, top + part)
    found = np.asarray(image.resize((side, side), Image.Resampling.BICUBIC, box))
    return np.repeat(found[..., None], 3, 2) if found.ndim == 2 else found
