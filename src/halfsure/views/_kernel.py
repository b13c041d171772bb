"""Image views on the CPU: one compiled pass a sample, with nothing larger than an image in between.

Pixels lie as they do in memory, channel after channel in a pixel and pixel after pixel in a row, so that the loops over
bytes run straight. `_torch.py` does the same in whole-batch operations, and the tests hold both against Pillow.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba import types

from halfsure import _splitmix
from halfsure._splitmix import GOLDEN
from halfsure.views import _draws
from halfsure.views._draws import FIRST_OP, LEVELS
from halfsure.views._ops import ENHANCE, FIXED, GREY, KEEP_BITS, NAMES, SOLARIZE

__all__ = ["image_plan", "render"]

F = TypeVar("F", bound=Callable[..., Any])


def _compiled(signature: Any = None, inline: str = "never") -> Callable[[F], F]:
    # numba looks for changes in this file alone: after one in a module it imports, delete __pycache__/*.nb?.
    options: dict[str, Any] = {"nogil": True, "cache": True, "error_model": "numpy", "inline": inline}
    return cast(Callable[[F], F], numba.njit(signature, **options))


def _inlined(function: F) -> F:
    """Compile into the callers, whose loops can then run on vectors."""
    return _compiled(inline="always")(function)


def _fixed(dtype: Any, ndim: int) -> Any:
    """A read-only array type, which takes writable arrays too: one compilation for both."""
    return types.Array(dtype, ndim, "C", readonly=True)


mix = _compiled()(_splitmix.mix)
below = _compiled()(_draws.below)

AUTOCONTRAST, EQUALIZE = NAMES.index("autocontrast"), NAMES.index("equalize")
SOLARIZED, POSTERIZED = NAMES.index("solarize"), NAMES.index("posterize")
COLOR, CONTRAST = NAMES.index("color"), NAMES.index("contrast")
BRIGHTNESS, SHARPNESS = NAMES.index("brightness"), NAMES.index("sharpness")
GATHERED = tuple(NAMES.index(n) for n in ("rotate", "shear_y"))
SLID = tuple(NAMES.index(n) for n in ("shear_x", "translate_x", "translate_y"))

Byte, Wide, Unsigned, Real = np.uint8, np.int32, np.uint32, np.float32
At = np.uintp  # an index that cannot be negative: numba need not ask, and the loop around it runs on vectors

CHUNK = 256  # pixels that are normalised in one go


@_compiled(
    types.void(types.uint64, _fixed(types.int64, 1), _fixed(types.int64, 1), types.Array(types.int64, 2, "C")),
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


@_inlined
def _reflect(at: int, size: int) -> int:
    """The position that a mirror at the outermost pixels shows: −1 is 1, size is size − 2."""
    return size - 1 - abs(size - 1 - abs(at))


@_inlined
def _copy(source: Any, count: int, goal: Any) -> None:
    for x in range(count):  # which becomes one memory copy; numba's slices do not
        goal[x] = source[x]


@_inlined
def _pick(source: Any, places: Any, c: int, goal: Any) -> None:
    """Fill a row of pixels with those that start at the given places of the source."""
    if c == 3:  # spelled out: a loop of three costs more than its body
        for x in range(len(places)):
            at = At(places[x])
            goal[At(3 * x)] = source[at]
            goal[At(3 * x + 1)] = source[at + At(1)]
            goal[At(3 * x + 2)] = source[at + At(2)]
    else:
        for x in range(len(places)):
            for k in range(c):
                goal[At(c * x + k)] = source[At(places[x] + k)]


@_compiled()
def _flip_and_shift(image: Any, plan: Any, shape: Any, places: Any, goal: Any) -> None:
    """Mirror left to right where asked, then take each pixel from (dy, dx) further, reflecting at the borders."""
    (flip, dy, dx), (h, w, c) = (plan[0], plan[1], plan[2]), shape
    row = w * c
    for x in range(w):
        at = _reflect(x + dx, w)
        places[x] = (w - 1 - at if flip else at) * c
    first, last = max(0, -dx), min(w, w - dx)
    for y in range(h):
        source, line = image[_reflect(y + dy, h) * row :], goal[y * row : (y + 1) * row]
        if flip:
            _pick(source, places, c, line)
        else:
            _pick(source, places[:first], c, line)
            _copy(source[(first + dx) * c :], (last - first) * c, line[first * c :])
            _pick(source, places[last:], c, line[last * c :])


@_compiled()
def _gather(pixels: Any, affine: Any, shape: Any, places: Any, goal: Any) -> None:
    """Take each pixel from where a row of `affine_table` says; one more, behind the image, is the grey outside."""
    (a, b, left, d, e, top), (h, w, c) = affine, shape
    pixels[h * w * c :] = GREY
    for y in range(h):
        from_left, from_top = Wide(left + b * y), Wide(top + e * y)
        line = places[y * w : (y + 1) * w]
        for x in range(len(line)):
            from_x = Wide(Wide(from_left + Wide(a) * Wide(x)) >> Wide(FIXED))
            from_y = Wide(Wide(from_top + Wide(d) * Wide(x)) >> Wide(FIXED))
            at = Wide((from_y * w + from_x) * c)
            outside = (Unsigned(from_x) >= Unsigned(w)) | (Unsigned(from_y) >= Unsigned(h))  # below 0 is far above
            line[x] = Wide(h * w * c) if outside else at
    _pick(pixels, places, c, goal)


@_compiled()
def _slide(pixels: Any, affine: Any, shape: Any, goal: Any) -> None:
    """Do what `_gather` does for the ops that keep rows in one piece, at a fraction of the cost."""
    (_, b, left, _, e, top), (h, w, c) = affine, shape
    for at in range(h * w * c):
        goal[at] = GREY
    for y in range(h):
        from_y, dx = (top + e * y) >> FIXED, (left + b * y) >> FIXED
        first, last = max(0, -dx), min(w, w - dx)
        if 0 <= from_y < h and first < last:
            _copy(pixels[(from_y * w + first + dx) * c :], (last - first) * c, goal[(y * w + first) * c :])


@_compiled()
def _cut(pixels: Any, top: int, left: int, side: int, shape: Any) -> None:
    h, w, c = shape
    for y in range(max(0, top), min(h, top + side)):
        pixels[(y * w + max(0, left)) * c : (y * w + min(w, left + side)) * c] = GREY


@_inlined
def _blend(start: Any, value: Any, factor: Any) -> Any:
    """From start (factor 0) to value (factor 1) and beyond, cut to whole grey levels as Pillow does."""
    mixed = Wide(Real(start) + factor * (Real(value) - Real(start)))
    return Byte(min(max(mixed, Wide(0)), Wide(255)))


@_compiled()
def _sharpen(pixels: Any, factor: Any, shape: Any, goal: Any) -> None:
    """Blend between the image smoothed by (1 1 1; 1 5 1; 1 1 1) / 13 and itself; the border stays."""
    h, w, c = shape
    row, count = w * c, (h - 2) * w * c - 2 * c
    above, here, under = pixels, pixels[row:], pixels[2 * row :]
    above_c, here_c, under_c = above[c:], here[c:], under[c:]
    above_r, here_r, under_r = above_c[c:], here_c[c:], under_c[c:]
    _copy(pixels, h * row, goal)
    line = goal[row + c :]
    for x in range(count):
        ring = Wide(above[x]) + Wide(above_c[x]) + Wide(above_r[x]) + Wide(here[x]) + Wide(here_r[x])
        ring += Wide(under[x]) + Wide(under_c[x]) + Wide(under_r[x])
        # Rounded division by 13: 5042 / 2¹⁶ is a little more, too little to matter up to 13 · 255.
        smooth = Wide(Wide(ring + Wide(5) * Wide(here_c[x]) + Wide(6)) * Wide(5042)) >> Wide(16)
        line[x] = _blend(Wide(smooth), here_c[x], factor)
    for y in range(1, h - 1):  # the loop above ran over the ends of the rows
        for k in range(c):
            goal[y * row + k] = pixels[y * row + k]
            goal[(y + 1) * row - 1 - k] = pixels[(y + 1) * row - 1 - k]


@_inlined
def _luma(red: Any, green: Any, blue: Any) -> Any:
    """ITU-R 601 grey of a colour pixel, in Pillow's fixed point."""
    grey = Wide(Wide(red) * Wide(19595) + Wide(green) * Wide(38470) + Wide(blue) * Wide(7471) + Wide(32768))
    return Wide(grey >> Wide(16))


@_compiled()
def _mean_grey(pixels: Any, c: int) -> int:
    count = len(pixels) // c
    total: Any = 0
    for i in range(count):
        at = At(c * i)
        total += Wide(pixels[at]) if c == 1 else _luma(pixels[at], pixels[at + At(1)], pixels[at + At(2)])
    return int(total / count + 0.5)


@_compiled()
def _stretch(low: int, high: int, table: Any) -> None:
    """Autocontrast: the darkest level becomes 0 and the brightest 255."""
    slope = 255.0 / (high - low)
    offset = -low * slope
    for level in range(256):  # all of them, which is faster; what lies outside low … high wraps, and is not asked for
        table[level] = Byte(Wide(level * slope + offset))


@_compiled()
def _flatten(histogram: Any, low: int, high: int, table: Any) -> None:
    """Equalize: levels by rank. The brightest does not count, and nothing happens if too little is left."""
    step = (histogram.sum() - histogram[high]) // 255
    passed = step // 2
    for level in range(low, high + 1):
        # The half keeps the quotient off whole numbers, so that a product rounds down as the slow division would.
        table[level] = Byte(min(Wide((passed + 0.5) * (1.0 / step)), Wide(255))) if step else Byte(level)
        passed += histogram[level]


@_compiled()
def _by_table(pixels: Any, op: int, c: int) -> None:
    """Autocontrast or equalize, each channel by a table made from its histogram."""
    histogram, table = np.empty(256, Wide), np.empty(256, Byte)
    count = len(pixels) // c
    for k in range(c):
        histogram[:] = 0
        for i in range(count):
            histogram[pixels[At(c * i + k)]] += Wide(1)
        low, high = 0, 255
        while histogram[low] == 0:
            low += 1
        while histogram[high] == 0:
            high -= 1
        if low == high:
            continue  # a constant channel stays
        if op == AUTOCONTRAST:
            _stretch(low, high, table)
        else:
            _flatten(histogram, low, high, table)
        for i in range(count):
            pixels[At(c * i + k)] = table[pixels[At(c * i + k)]]


@_compiled()
def _recolour(pixels: Any, op: int, level: int, c: int) -> None:
    """Apply a colour op in place."""
    factor = ENHANCE[level]
    if op in (AUTOCONTRAST, EQUALIZE):
        _by_table(pixels, op, c)
    elif op in (CONTRAST, BRIGHTNESS):
        start = _mean_grey(pixels, c) if op == CONTRAST else 0
        for i in range(len(pixels)):
            pixels[i] = _blend(start, pixels[i], factor)
    elif op == COLOR and c == 3:
        for i in range(len(pixels) // 3):
            r, g, b = At(3 * i), At(3 * i + 1), At(3 * i + 2)
            grey = _luma(pixels[r], pixels[g], pixels[b])
            pixels[r], pixels[g], pixels[b] = (
                _blend(grey, pixels[r], factor),
                _blend(grey, pixels[g], factor),
                _blend(grey, pixels[b], factor),
            )
    elif op == SOLARIZED:
        first = Byte(SOLARIZE[level])
        for i in range(len(pixels)):
            pixels[i] = pixels[i] if pixels[i] < first else Byte(~pixels[i])
    elif op == POSTERIZED:
        for i in range(len(pixels)):
            pixels[i] &= KEEP_BITS[level]


@_compiled(
    types.void(
        _fixed(types.uint8, 4),
        _fixed(types.int64, 2),
        _fixed(types.int64, 3),
        types.int64,
        _fixed(types.float32, 2),
        types.Array(types.float32, 4, "C"),
    ),
)
def render(images: Any, plan: Any, affine: Any, cutout: int, norm: Any, out: Any) -> None:  # noqa: PLR0917
    """Carry a plan out, (n, h, w, c) → (n, h, w, c); norm, (2, c), is the scale and the bias of each channel."""
    n, h, w, c = images.shape
    shape, size, chunk = (h, w, c), h * w * c, CHUNK * c
    pixels, spare = np.empty(size + c, Byte), np.empty(size + c, Byte)
    places = np.empty(h * w, Wide)
    scale, bias = np.empty(chunk, Real), np.empty(chunk, Real)
    for x in range(chunk):
        scale[x], bias[x] = norm[0, x % c], norm[1, x % c]
    for i in range(n):
        _flip_and_shift(images[i].reshape(size), plan[i], shape, places[:w], pixels)
        for column in range(FIRST_OP, plan.shape[1], 3):
            op, level = plan[i, column], plan[i, column + 2]
            if not plan[i, column + 1]:
                continue
            if op in SLID:
                _slide(pixels, affine[op, level + LEVELS], shape, spare)
                pixels, spare = spare, pixels
            elif op in GATHERED:
                _gather(pixels, affine[op, level + LEVELS], shape, places, spare)
                pixels, spare = spare, pixels
            elif op == SHARPNESS:
                _sharpen(pixels, ENHANCE[abs(level)], shape, spare)
                pixels, spare = spare, pixels
            else:
                _recolour(pixels[:size], op, abs(level), c)
        if cutout:
            _cut(pixels, plan[i, 3] - cutout // 2, plan[i, 4] - cutout // 2, cutout, shape)
        result = out[i].reshape(size)
        for start in range(0, size, chunk):
            source, goal = pixels[start : min(start + chunk, size)], result[start:]
            for x in range(len(source)):
                goal[x] = Real(source[x]) * scale[x] + bias[x]
