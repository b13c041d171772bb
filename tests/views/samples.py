"""Real images for the tests, and the awkward ones that real sets have too."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits, load_sample_images

Bytes = NDArray[np.uint8]


@lru_cache
def photos(count: int, height: int, width: int) -> Bytes:
    """Crops of two photographs, every other one taken at half the resolution. → (count, height, width, 3)."""
    rng = np.random.default_rng(7)
    crops = []
    for k in range(count):
        photo = load_sample_images().images[k % 2][:: 1 + k // 2 % 2, :: 1 + k // 2 % 2]
        top, left = rng.integers(photo.shape[0] - height), rng.integers(photo.shape[1] - width)
        crops.append(photo[top : top + height, left : left + width])
    return np.stack(crops)


@lru_cache
def digits(count: int, size: int) -> Bytes:
    """Handwritten digits, enlarged to size × size. → (count, size, size, 1)."""
    small: Bytes = (load_digits().images[:count] * 255 / 16).astype(np.uint8)
    places = np.arange(size) * 8 // size
    return small[:, places][:, :, places, None]


@lru_cache
def awkward(size: int, channels: int) -> Bytes:
    """Constant, two-level, narrow-range, extreme and noisy images. → (8, size, size, channels)."""
    rng = np.random.default_rng(3)
    shape = (size, size, channels)
    two = np.zeros(shape, np.uint8)
    two[: size // 3] = 200
    nearly = np.full(shape, 90, np.uint8)
    nearly[0, 0] = 91
    return np.stack(
        [
            np.zeros(shape, np.uint8),
            np.full(shape, 255, np.uint8),
            np.full(shape, 77, np.uint8),
            two,
            nearly,
            rng.integers(100, 140, shape).astype(np.uint8),
            rng.integers(0, 256, shape).astype(np.uint8),
            rng.choice(np.array([0, 255], np.uint8), shape),
        ]
    )
