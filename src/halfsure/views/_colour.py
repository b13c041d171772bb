"""Compiled colour ops and sharpness, on flat images, (h · w · c) bytes, of one or three channels."""

from typing import Any

from halfsure._compiled import At, Byte, Real, Short, Wide, compiled, inlined
from halfsure.views._moves import copy
from halfsure.views._ops import ENHANCE, KEEP_BITS, NAMES, SOLARIZE

__all__ = ["AUTOCONTRAST", "EQUALIZE", "SPREAD", "by_table", "recolour", "sharpen"]

AUTOCONTRAST, EQUALIZE = NAMES.index("autocontrast"), NAMES.index("equalize")
SOLARIZED, POSTERIZED = NAMES.index("solarize"), NAMES.index("posterize")
COLOR, CONTRAST, BRIGHTNESS = NAMES.index("color"), NAMES.index("contrast"), NAMES.index("brightness")

BLOCK = 1 << 20  # pixels whose grey levels add up to less than 2³¹
SPREAD = 6  # histograms that take turns, a multiple of the channels: one alone waits for its own last write


@inlined
def _blend(start: Any, value: Any, factor: Any) -> Any:
    """From start (factor 0) to value (factor 1) and beyond, cut to whole grey levels as Pillow does."""
    mixed = Wide(Real(start) + factor * (Real(value) - Real(start)))
    return Byte(min(max(mixed, Wide(0)), Wide(255)))


@compiled
def sharpen(pixels: Any, factor: Any, shape: Any, sums: Any, goal: Any) -> None:
    """Blend between the image smoothed by (1 1 1; 1 5 1; 1 1 1) / 13 and itself; the border stays."""
    h, w, c = shape
    row, size = w * c, h * w * c
    for x in range(size - 2 * row):
        column = Wide(pixels[At(x)]) + Wide(pixels[At(x + row)]) + Wide(pixels[At(x + 2 * row)])
        sums[At(x)] = Short(column)
    copy(pixels, 0, row + c, goal, 0)
    for x in range(size - 2 * row - 2 * c):
        here = pixels[At(x + row + c)]
        total = Wide(sums[At(x)]) + Wide(sums[At(x + c)]) + Wide(sums[At(x + 2 * c)]) + Wide(4) * Wide(here)
        # Rounded division by 13: 5042 / 2¹⁶ is a little more, too little to matter up to 13 · 255.
        smooth = Wide(Wide(Wide(total) + Wide(6)) * Wide(5042)) >> Wide(16)
        goal[At(x + row + c)] = _blend(Wide(smooth), here, factor)
    for y in range(1, h):  # the loop above ran over the ends of the rows
        if c == 3:
            for k in range(-3, 3):
                goal[At(y * row + k)] = pixels[At(y * row + k)]
        else:
            goal[At(y * row - 1)], goal[At(y * row)] = pixels[At(y * row - 1)], pixels[At(y * row)]
    copy(pixels, size - row, row, goal, size - row)


@inlined
def _luma(red: Any, green: Any, blue: Any) -> Any:
    """ITU-R 601 grey of a colour pixel, in Pillow's fixed point."""
    grey = Wide(Wide(red) * Wide(19595) + Wide(green) * Wide(38470) + Wide(blue) * Wide(7471) + Wide(32768))
    return Wide(grey >> Wide(16))


@compiled
def _mean_grey(pixels: Any, shape: Any) -> int:
    h, w, c = shape
    total: Any = 0
    for start in range(0, h * w, BLOCK):
        part = Wide(0)
        for i in range(start, min(start + BLOCK, h * w)):
            if c == 3:
                part = Wide(part + _luma(pixels[At(3 * i)], pixels[At(3 * i + 1)], pixels[At(3 * i + 2)]))
            else:
                part = Wide(part + Wide(pixels[At(i)]))
        total += part
    return int(total / (h * w) + 0.5)


@compiled
def _ends(pixels: Any, count: int, k: int, c: int) -> Any:
    """The darkest and the brightest level of channel k."""
    low, high = Byte(255), Byte(0)
    for i in range(count):
        level = pixels[At(3 * i + k)] if c == 3 else pixels[At(i)]
        low, high = min(low, level), max(high, level)
    return Wide(low), Wide(high)


@compiled
def _count(pixels: Any, size: int, counts: Any) -> None:
    """How often each level occurs among every sixth byte, from the first, the second … on. → (6 · 256,)."""
    for x in range(SPREAD * 256):
        counts[At(x)] = Wide(0)
    whole = size // SPREAD * SPREAD
    for i in range(0, whole, SPREAD):
        for k in range(SPREAD):
            counts[At(256 * k) + At(pixels[At(i + k)])] += Wide(1)
    for k in range(size - whole):
        counts[At(256 * k) + At(pixels[At(whole + k)])] += Wide(1)


@compiled
def _stretch(low: Any, high: Any, table: Any) -> None:
    """Autocontrast: the darkest level becomes 0 and the brightest 255."""
    slope = 255.0 / (high - low)
    offset = -low * slope
    for level in range(256):  # all of them, which is faster; what lies outside low … high wraps, and is not asked for
        table[level] = Byte(Wide(level * slope + offset))


@compiled
def _flatten(counts: Any, k: int, c: int, ends: Any, table: Any) -> None:
    """Equalize: levels by rank. The brightest does not count, and nothing happens if too little is left."""
    low, high = ends
    first, passed = 256 * k, Wide(0)
    for other in range(first + 256 * c, 256 * SPREAD, 256 * c):
        for level in range(256):
            counts[At(first + level)] += counts[At(other + level)]
    for level in range(low, high + 1):
        here = counts[At(first + level)]
        counts[At(first + level)] = passed
        passed = Wide(passed + here) if level < high else passed
    step = Wide(passed // 255)
    half = Wide(step // 2)
    for level in range(256):
        # The half keeps the quotient off whole numbers, so that a product rounds down as the slow division would.
        rank = Wide(counts[At(first + level)] + half) + 0.5
        table[At(level)] = Byte(min(Wide(rank * (1.0 / step)), Wide(255))) if step else Byte(level)


@inlined
def _look_up(pixels: Any, count: int, k: int, c: int, table: Any) -> None:
    for i in range(count):
        pixels[At(c * i + k)] = table[At(pixels[At(c * i + k)])]


@compiled
def by_table(pixels: Any, op: int, shape: Any, counts: Any, table: Any) -> None:
    """Autocontrast or equalize, each channel by a table of its own."""
    h, w, c = shape
    if op == EQUALIZE:
        _count(pixels, h * w * c, counts)
    for k in range(c):
        low, high = _ends(pixels, h * w, k, c)
        if low == high:
            continue  # a constant channel stays
        if op == AUTOCONTRAST:
            _stretch(low, high, table)
        else:
            _flatten(counts, k, c, (low, high), table)
        if c == 3:
            _look_up(pixels, h * w, k, 3, table)
        else:
            _look_up(pixels, h * w, k, 1, table)


@compiled
def recolour(pixels: Any, op: int, level: int, shape: Any) -> None:
    """Apply a colour op in place."""
    h, w, c = shape
    factor, size = ENHANCE[level], h * w * c
    if op in (CONTRAST, BRIGHTNESS):
        start = _mean_grey(pixels, shape) if op == CONTRAST else 0
        for i in range(size):
            pixels[At(i)] = _blend(start, pixels[At(i)], factor)
    elif op == COLOR and c == 3:
        for i in range(h * w):
            r, g, b = At(3 * i), At(3 * i + 1), At(3 * i + 2)
            grey = _luma(pixels[r], pixels[g], pixels[b])
            pixels[r], pixels[g], pixels[b] = (
                _blend(grey, pixels[r], factor),
                _blend(grey, pixels[g], factor),
                _blend(grey, pixels[b], factor),
            )
    elif op == SOLARIZED:
        first = Byte(SOLARIZE[level])
        for i in range(size):
            pixels[At(i)] = pixels[At(i)] if pixels[At(i)] < first else Byte(~pixels[At(i)])
    elif op == POSTERIZED:
        for i in range(size):
            pixels[At(i)] &= KEEP_BITS[level]
