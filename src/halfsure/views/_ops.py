"""RandAugment's operations: their order, and how strong each is at every level.

The set and the magnitudes are those FixMatch was run with, on images of 32 × 32; `level` is 1 … 9. Geometry is
nearest-neighbour about the image's centre, and what comes in from outside is mid-grey.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from halfsure.views.draws import LEVELS

__all__ = [
    "ENHANCE",
    "GREY",
    "KEEP_BITS",
    "NAMES",
    "SOLARIZE",
    "affine_table",
]

NAMES = (
    "identity",
    "autocontrast",
    "equalize",
    "rotate",
    "solarize",
    "color",
    "contrast",
    "brightness",
    "sharpness",
    "shear_x",
    "shear_y",
    "translate_x",
    "translate_y",
    "posterize",
)

GREY = 128

# Indexed by level; level 0 is never drawn.
ENHANCE = np.array([0.1 + 0.18 * level for level in range(LEVELS + 1)], np.float32)
"""How far colour, contrast, brightness and sharpness go: 0 is none of it, 1 the image itself."""
SOLARIZE = np.array([math.ceil(256 - 25.6 * level) for level in range(LEVELS + 1)], np.int64)
"""Grey levels from here on are inverted; a whole number is below 256 − 25.6 L just when it is below its ceiling."""
KEEP_BITS = np.array([256 - 2 ** (8 - (4 - 4 * level // 10)) for level in range(LEVELS + 1)], np.uint8)
"""Posterize's mask, which keeps the 4 − ⌊.4 L⌋ highest bits."""

SIDE = 32
"""Translations are in pixels of an image of this side, and grow and shrink with others."""
FIXED = 16
"""Binary places of a source coordinate, as many as Pillow's, so that the same pixels are hit."""


@lru_cache(maxsize=32)
def affine_table(height: int, width: int) -> NDArray[np.int64]:
    """Where output pixels come from, for every op and level. → (14, 19, 6), level −9 … 9 in the middle axis.

    A row (a, b, c, d, e, f) takes pixel (x, y) from (a x + b y + c, d x + e y + f), in fixed point, pixel centres at
    halves; ops that are no geometry have zeros.
    """
    table = np.zeros((len(NAMES), 2 * LEVELS + 1, 6), np.int64)
    for signed in range(-LEVELS, LEVELS + 1):
        angle = math.radians(3 * signed)
        about_centre = {
            "rotate": (math.cos(angle), -math.sin(angle), math.sin(angle), math.cos(angle)),
            "shear_x": (1.0, 0.03 * signed, 0.0, 1.0),
            "shear_y": (1.0, 0.0, 0.03 * signed, 1.0),
            "translate_x": (1.0, 0.0, 0.0, 1.0),
            "translate_y": (1.0, 0.0, 0.0, 1.0),
        }
        for name, (a, b, d, e) in about_centre.items():
            centre_x, centre_y = width / 2, height / 2
            c = centre_x - a * centre_x - b * centre_y + _pixels(signed, width) * (name == "translate_x")
            f = centre_y - d * centre_x - e * centre_y + _pixels(signed, height) * (name == "translate_y")
            exact = (a, b, c + (a + b) / 2, d, e, f + (d + e) / 2)
            table[NAMES.index(name), signed + LEVELS] = [math.floor(v * 2**FIXED + 0.5) for v in exact]
    table.flags.writeable = False
    return table


def _pixels(level: int, side: int) -> int:
    """How far a translation goes: whole pixels, halves away from zero, so that both directions are alike."""
    return (1 if level > 0 else -1) * ((2 * abs(level) * side + SIDE) // (2 * SIDE))
