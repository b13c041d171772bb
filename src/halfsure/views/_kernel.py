"""Image views on the CPU: one compiled pass a sample, with nothing larger than an image in between.

Pixels lie as they do in memory, channel after channel in a pixel and pixel after pixel in a row, so that the loops over
bytes run straight. `_geometry.py` moves them and `_colour.py` changes them; `_torch.py` does the same in whole-batch
operations, and the tests hold both against Pillow.
"""

from typing import Any

import numpy as np
from numba import types

from halfsure import _splitmix
from halfsure._compiled import At, Byte, Real, Short, Wide, cached, compiled, fixed
from halfsure._splitmix import GOLDEN
from halfsure.views import _colour, _geometry, _moves, _ops
from halfsure.views import draws as _draws
from halfsure.views._colour import AUTOCONTRAST, EQUALIZE, SPREAD, by_table, recolour, sharpen
from halfsure.views._geometry import cut, flip_and_shift, gather, slide
from halfsure.views._moves import EDGE
from halfsure.views._ops import ENHANCE, GREY, NAMES
from halfsure.views.draws import FIRST_OP, LEVELS

__all__ = ["image_plan", "render"]

mix = compiled(_splitmix.mix)
below = compiled(_draws.below)

SHARPNESS = NAMES.index("sharpness")
GATHERED = tuple(NAMES.index(n) for n in ("rotate", "shear_y"))
SLID = tuple(NAMES.index(n) for n in ("shear_x", "translate_x", "translate_y"))

CHUNK = 256  # pixels that are normalised in one go


@cached(
    types.void(types.uint64, fixed(types.int64, 1), fixed(types.int64, 1), types.Array(types.int64, 2, "C")),
    _splitmix,
    _draws,
)
def image_plan(base: Any, indices: Any, sides: Any, plan: Any) -> None:
    """Decide what happens to each sample, as `_draws.image_plan` does. Fills plan, (n, 5 + 3 ops)."""
    shown = np.empty(len(sides), np.int64)
    for i in range(len(indices)):
        state = mix(base + np.uint64(indices[i]))
        for slot in range(len(sides)):
            state += GOLDEN
            shown[slot] = np.int64(below(mix(state), np.uint64(sides[slot])))
        plan[i, :FIRST_OP] = shown[:FIRST_OP]
        plan[i, 1:3] -= sides[1] // 2
        for k in range((len(sides) - FIRST_OP) // 4):
            slot, column = FIRST_OP + 4 * k, FIRST_OP + 3 * k
            plan[i, column], plan[i, column + 1] = shown[slot], shown[slot + 1]
            plan[i, column + 2] = (1 + shown[slot + 2]) * (1 - 2 * shown[slot + 3])


@compiled
def _normalise(pixels: Any, scale: Any, bias: Any, goal: Any) -> None:
    """Pixels as numbers; scale and bias, as long as each other, are repeated."""
    for start in range(0, len(goal), len(scale)):
        for x in range(min(len(scale), len(goal) - start)):
            goal[At(start + x)] = Real(pixels[At(start + x)]) * scale[At(x)] + bias[At(x)]


@compiled
def _buffer(size: int) -> Any:
    return np.empty(size + 2 * EDGE, Byte)[EDGE:]


@cached(
    types.void(
        fixed(types.uint8, 4),
        fixed(types.int64, 2),
        fixed(types.int64, 3),
        types.int64,
        fixed(types.float32, 2),
        types.Array(types.float32, 4, "C"),
    ),
    _colour,
    _draws,
    _geometry,
    _moves,
    _ops,
)
def render(images: Any, plan: Any, affine: Any, cutout: int, norm: Any, out: Any) -> None:  # noqa: PLR0917
    """Carry a plan out, (n, h, w, c) → (n, h, w, c); norm, (2, c), is the scale and the bias of each channel."""
    n, h, w, c = images.shape
    shape, size, chunk = (h, w, c), h * w * c, CHUNK * c
    pixels, spare, grey = _buffer(size + c), _buffer(size + c), np.full(EDGE, GREY, Byte)
    across, places, sums = np.empty((2, w), Wide), np.empty(h * w, Wide), np.empty(size, Short)
    counts, table = np.empty(SPREAD * 256, Wide), np.empty(256, Byte)
    scale, bias = np.empty(chunk, Real), np.empty(chunk, Real)
    for x in range(chunk):
        scale[x], bias[x] = norm[0, x % c], norm[1, x % c]
    for i in range(n):
        image = images[i].reshape(size)
        for x in range(size):
            spare[x] = image[x]
        flip_and_shift(spare, plan[i], shape, pixels)
        for column in range(FIRST_OP, plan.shape[1], 3):
            op, level = plan[i, column], plan[i, column + 2]
            if not plan[i, column + 1]:
                continue
            if op in SLID:
                slide(pixels, affine[op, level + LEVELS], shape, grey, spare)
                pixels, spare = spare, pixels
            elif op in GATHERED:
                gather(pixels, affine[op, level + LEVELS], shape, across, places, spare)
                pixels, spare = spare, pixels
            elif op == SHARPNESS:
                sharpen(pixels, ENHANCE[abs(level)], shape, sums, spare)
                pixels, spare = spare, pixels
            elif op in (AUTOCONTRAST, EQUALIZE):
                by_table(pixels, op, shape, counts, table)
            else:
                recolour(pixels, op, abs(level), shape)
        if cutout:
            cut(pixels, plan[i, 3] - cutout // 2, plan[i, 4] - cutout // 2, cutout, shape)
        _normalise(pixels, scale, bias, out[i].reshape(size))
