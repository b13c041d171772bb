"""Compiled moves of pixels: flips, shifts, rotations, shears, translations, and the square that is cut out.

Images are flat, (h · w · c) bytes with `EDGE` more to spare on both sides, pixel after pixel and channel after channel.
Rows are filled from left to right and from top to bottom, so that what runs over the end of one is written over by the
next. No array is sliced on the way: a slice costs as much as a short row.
"""

from typing import Any

from halfsure._compiled import At, Byte, Unsigned, Wide, compiled, inlined
from halfsure.views._moves import EDGE, copy, move, move_mirrored, move_pixel
from halfsure.views._ops import FIXED, GREY

__all__ = ["cut", "flip_and_shift", "gather", "slide"]


@inlined
def _reflect(at: int, size: int) -> int:
    """The position that a mirror at the outermost pixels shows: −1 is 1, size is size − 2."""
    return size - 1 - abs(size - 1 - abs(at))


@inlined
def _fill(grey: Any, count: int, goal: Any, place: int) -> None:
    """Fill bytes, and some more behind them."""
    for x in range(0, count, EDGE):
        move(grey, 0, goal, place + x)


@inlined
def _copy_pixel(source: Any, at: int, c: int, goal: Any, place: int) -> None:
    """Copy a pixel; where it has three channels, also the byte behind it."""
    if c == 3:
        move_pixel(source, at, goal, place)
    else:
        for k in range(c):
            goal[At(place + k)] = source[At(at + k)]


@inlined
def _mirrored_row(image: Any, at: int, ends: Any, c: int, goal: Any, line: int) -> None:  # noqa: PLR0917
    """Fill bytes first … last of a row: byte x by the pixel at − x, from there on leftwards."""
    first, last = ends
    if c == 3:
        for x in range(first, last, 15):
            move_mirrored(image, at - 12 - x, goal, line + x)
    else:
        for x in range(first, last, c):
            _copy_pixel(image, at - x, c, goal, line + x)


@inlined
def _shifted(image: Any, plan: Any, size: Any, c: int, goal: Any) -> None:
    """Do what `flip_and_shift` says; places are in bytes, and a mirror at the last pixel shows x at 2 · end − x."""
    (flip, dy, dx), (h, w) = (plan[0], plan[1], plan[2] * c), size
    row = w * c
    first, last, end = max(0, -dx), min(row, row - dx), row - c
    for y in range(h):
        start, line = _reflect(y + dy, h) * row, y * row
        if flip:
            for x in range(0, first, c):
                _copy_pixel(image, start + end + dx + x, c, goal, line + x)
            _mirrored_row(image, start + end - dx, (first, last), c, goal, line)
            for x in range(last, row, c):
                _copy_pixel(image, start - end + dx + x, c, goal, line + x)
        else:
            for x in range(0, first, c):
                _copy_pixel(image, start - dx - x, c, goal, line + x)
            copy(image, start + dx + first, last - first, goal, line + first)
            for x in range(last, row, c):
                _copy_pixel(image, start + 2 * end - dx - x, c, goal, line + x)


@compiled
def flip_and_shift(image: Any, plan: Any, shape: Any, goal: Any) -> None:
    """Mirror left to right where asked, then take each pixel from (dy, dx) further, reflecting at the borders."""
    h, w, c = shape  # a number of channels that the compiler knows makes it twice as fast
    if c == 3:
        _shifted(image, plan, (h, w), 3, goal)
    elif c == 1:
        _shifted(image, plan, (h, w), 1, goal)
    else:
        _shifted(image, plan, (h, w), c, goal)


@compiled
def gather(pixels: Any, affine: Any, shape: Any, across: Any, places: Any, goal: Any) -> None:  # noqa: PLR0917
    """Take each pixel from where a row of `affine_table` says; one more, behind the image, is the grey outside."""
    (a, b, left, d, e, top), (h, w, c) = affine, shape
    for k in range(c):
        pixels[h * w * c + k] = GREY
    for x in range(w):  # the same for every row, and multiplications are what costs
        across[0, At(x)], across[1, At(x)] = Wide(a * x), Wide(d * x)
    wide, high, width, outside = Unsigned(w), Unsigned(h), Wide(w), Wide(h * w)
    for y in range(h):
        from_left, from_top, line = Wide(left + b * y), Wide(top + e * y), y * w
        for x in range(w):
            from_x = Wide(Wide(from_left + across[0, At(x)]) >> Wide(FIXED))
            from_y = Wide(Wide(from_top + across[1, At(x)]) >> Wide(FIXED))
            inside = (Unsigned(from_x) < wide) & (Unsigned(from_y) < high)  # what is below 0 is far above
            places[At(line + x)] = Wide(Wide(from_y * width) + from_x) if inside else outside
    if c == 3:
        for x in range(h * w):
            move_pixel(pixels, 3 * places[At(x)], goal, 3 * x)
    else:
        for x in range(h * w):
            goal[At(x)] = pixels[At(places[At(x)])]


@compiled
def slide(pixels: Any, affine: Any, shape: Any, grey: Any, goal: Any) -> None:
    """Do what `gather` does for the ops that keep rows in one piece, at a fraction of the cost."""
    (_, b, left, _, e, top), (h, w, c) = affine, shape
    for y in range(h):
        from_y, dx = (top + e * y) >> FIXED, (left + b * y) >> FIXED
        first, last = min(max(0, -dx), w), max(min(w, w - dx), 0)
        if from_y < 0 or from_y >= h:
            last = first
        line = y * w * c
        _fill(grey, first * c, goal, line)
        copy(pixels, (from_y * w + first + dx) * c, (last - first) * c, goal, line + first * c)
        _fill(grey, (w - last) * c, goal, line + last * c)


@compiled
def cut(pixels: Any, top: int, left: int, side: int, shape: Any) -> None:
    h, w, c = shape
    first, last = max(0, left), min(w, left + side)
    for y in range(max(0, top), min(h, top + side)):
        for x in range((last - first) * c):
            pixels[At((y * w + first) * c + x)] = Byte(GREY)
