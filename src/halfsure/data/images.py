"""Image files → one uint8 array: every mode and orientation people have, decoded once, the bad ones named together."""

import math
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFile, ImageOps, UnidentifiedImageError

from halfsure.data.files import DataError, open_plain
from halfsure.data.mapped import begin, discard, finish

__all__ = ["SUFFIXES", "Decoded", "Heads", "decode", "decode_one", "decode_whole", "look"]

SUFFIXES = {".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"}
# Whatever a file is called, nothing else is opened: for some formats Pillow would start other programs.
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
MAX_PIXELS = 100_000_000  # a file of a few bytes can claim any size; a camera's largest pictures stay below this
MAX_SIDE = 65_535
MAX_SLOW = 4_000_000  # pixels of a picture that Pillow decodes byte by byte
LARGE = 4_000_000  # pixels of a picture that is decoded while no other is: a core each would take a gigabyte a core
LARGEST_SIZE = 4096
SMALL = 2
COMMON_SIZE = 32  # for pictures of many sizes: what small networks on a laptop take
IN_MEMORY = 4 * 2**30  # larger arrays live in a file and are mapped


@dataclass(frozen=True)
class Decoded:
    """Images and which of the paths they came from."""

    images: NDArray[np.uint8]
    """(n, height, width, channels), one channel where every picture is grey."""
    kept: NDArray[np.int64]
    """(n,): positions in the list of paths; all of them unless bad ones were skipped."""


@dataclass(frozen=True)
class Heads:
    """What the heads of picture files say."""

    kept: NDArray[np.int64]
    """(n,): positions in the list of paths; all of them unless bad ones were skipped."""
    shapes: list[tuple[int, int]]
    """Height and width of each."""
    channels: int
    """1 where every picture is grey."""


def look(paths: Sequence[Path], *, skip_bad: bool = False, whole: bool = False) -> Heads:
    """Read the heads of pictures; `whole` decodes each as well, to see whether it can be."""

    def seen(path: Path) -> tuple[tuple[int, int], bool] | str:
        head = _head(path)
        if not whole or isinstance(head, str):
            return head
        try:
            decode_one(path, (SMALL, SMALL), 3)
        except Exception as error:  # as in `decode`
            return _reason(error)
        return head

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        heads = list(pool.map(seen, paths))
    good = _sound(paths, [head if isinstance(head, str) else "" for head in heads], skip_bad)
    found = [head for head in heads if not isinstance(head, str)]
    return Heads(good, [shape for shape, _ in found], 3 if any(colour for _, colour in found) else 1)


def decode(
    paths: Sequence[Path],
    size: int | None = None,
    *,
    like: tuple[int, int, int] | None = None,
    skip_bad: bool = False,
    mapped: Path | None = None,
) -> Decoded:
    """Decode pictures to a square size, to the shape of others, or else to the shape that all of them share.

    Pictures of many sizes are cropped in the middle and scaled to 32 × 32. Transparency is laid on white, 16-bit values
    become 8-bit ones, EXIF rotations are applied. An array above 4 GiB is written to the file `mapped`.
    """
    if size is not None and not (isinstance(size, int) and 2 <= size <= LARGEST_SIZE):
        raise DataError(
            f"the size of images must be a whole number from 2 to {LARGEST_SIZE:,} pixels, got {size!r:.40}"
        )
    seen = look(paths, skip_bad=skip_bad)
    good, shapes = seen.kept, set(seen.shapes)
    common = shapes.pop() if len(shapes) == 1 else (COMMON_SIZE, COMMON_SIZE)
    height, width, channels = like or ((size, size) if size else common) + (seen.channels,)
    out: NDArray[np.uint8] = _allocate((len(good), height, width, channels), mapped)

    def fill(row: int) -> str:
        try:
            out[row] = decode_one(paths[good[row]], (height, width), channels)
        except Exception as error:  # there is nothing that Pillow's decoders do not raise for a bad file
            return _reason(error)
        return ""

    try:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            problems = list(pool.map(fill, range(len(good))))
        rows = _sound([paths[i] for i in good], problems, skip_bad)
    except BaseException:
        discard(out)
        raise
    images = finish(out, mapped)
    return Decoded(images if len(rows) == len(good) else images[rows], good[rows])


def decode_one(path: Path, shape: tuple[int, int], channels: int) -> NDArray[np.uint8]:
    """One picture as (height, width, channels), cropped in the middle and scaled if it has another shape."""
    with open_plain(path) as file, Image.open(file, formats=FORMATS) as stored, _turn(stored):
        ImageOps.exif_transpose(stored, in_place=True)
        return _fitted(_eight_bit(stored), shape, channels)


def decode_whole(path: Path, least: int = 0) -> NDArray[np.uint8]:
    """One picture in its own size, (height, width, 1 or 3).

    A JPEG whose shorter side has over twice `least` pixels, if that is given, is decoded at a half, a quarter or an
    eighth of its size, but to no fewer: that takes a fraction of the time.
    """
    try:
        with open_plain(path) as file, Image.open(file, formats=FORMATS) as stored:
            if claim := _too_large(stored):
                raise ValueError(claim)  # noqa: TRY301 - one of many reasons
            if least and stored.format == "JPEG":
                scale = least / min(stored.size)
                stored.draft(None, (math.ceil(stored.width * scale), math.ceil(stored.height * scale)))
            with _turn(stored):
                ImageOps.exif_transpose(stored, in_place=True)
                picture = _eight_bit(stored)
                mode = "L" if picture.mode in ("1", "L") else "RGB"
                pixels = np.asarray(picture if picture.mode == mode else picture.convert(mode), dtype=np.uint8)
    except Exception as error:  # as in `decode`
        raise DataError(f"{path}: {_reason(error)}") from None
    return pixels[..., None] if pixels.ndim == 2 else pixels


def _fitted(picture: Image.Image, shape: tuple[int, int], channels: int) -> NDArray[np.uint8]:
    mode = "L" if channels == 1 else "RGB"
    picture = picture if picture.mode == mode else picture.convert(mode)
    if (picture.height, picture.width) != shape:
        picture = ImageOps.fit(picture, (shape[1], shape[0]), Image.Resampling.BICUBIC)
    return np.asarray(picture, dtype=np.uint8).reshape(*shape, channels)


def _head(path: Path) -> tuple[tuple[int, int], bool] | str:
    """((height, width), in colour) as the file's head says, or what is wrong with it."""
    try:
        with open_plain(path) as file, Image.open(file, formats=FORMATS) as picture:
            if claim := _too_large(picture):
                return claim
            with _turn(picture):  # a PNG is decoded for it
                turned = picture.getexif().get(0x0112, 1) in (5, 6, 7, 8)
            shape = (picture.width, picture.height) if turned else (picture.height, picture.width)
            return shape, not picture.mode.startswith(("1", "L", "I", "F"))
    except Exception as error:  # as in `decode`
        return _reason(error)


def _too_large(picture: ImageFile.ImageFile) -> str:
    """What is wrong with the size that a file's head claims, empty if nothing is."""
    pixels = picture.width * picture.height
    slow = any(tile.codec_name == "bmp_rle" for tile in picture.tile)
    too_large = pixels > (MAX_SLOW if slow else MAX_PIXELS) or max(picture.size) > MAX_SIDE
    return f"it claims {picture.width} × {picture.height} pixels" if too_large else ""


_one_at_a_time = Lock()


def _turn(picture: Image.Image) -> AbstractContextManager[Any]:
    """What a large picture has to wait for."""
    return _one_at_a_time if picture.width * picture.height > LARGE else nullcontext()


def _eight_bit(picture: Image.Image) -> Image.Image:
    if picture.mode.startswith("I"):
        values = np.asarray(picture)
        if values.min() < 0 or values.max() > 65_535:
            raise ValueError("its values are neither 8-bit nor 16-bit")
        wide = picture.mode != "I" or values.max() > 255  # mode I is what 8-bit and 16-bit files of some kinds open as
        return Image.fromarray((values // 257 if wide else values).astype(np.uint8))
    if picture.mode == "F":
        raise ValueError("its values are floating point")
    if picture.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in picture.info:
        return _on_white(picture)
    return picture


def _on_white(picture: Image.Image) -> Image.Image:
    """A picture without its transparency, made in strips: a large one is not in memory four times over."""
    whole = Image.new("RGB", picture.size)
    rows = max(1, LARGE // picture.width)
    for top in range(0, picture.height, rows):
        strip = picture.crop((0, top, picture.width, min(top + rows, picture.height)))
        strip.info = picture.info  # of a palette it says which colour is none
        strip = strip.convert("RGBA")
        whole.paste(Image.alpha_composite(Image.new("RGBA", strip.size, "white"), strip).convert("RGB"), (0, top))
    return whole


def _sound(paths: Sequence[Path], problems: list[str], skip_bad: bool) -> NDArray[np.int64]:
    """Positions without a problem; the others are named in one error, or left out when asked to."""
    bad = [f"{path}: {problem}" for path, problem in zip(paths, problems, strict=True) if problem]
    if bad and not skip_bad:
        shown = "\n  ".join(bad[:10]) + (f"\n  and {len(bad) - 10} more" if len(bad) > 10 else "")
        raise DataError(
            f"{len(bad)} of {len(paths)} images cannot be read; mend or remove them, or skip them (--skip-bad):"
            f"\n  {shown}"
        )
    if len(bad) == len(paths):
        raise DataError(f"none of {len(paths)} images can be read; the first is {bad[0]}")
    return np.flatnonzero([not problem for problem in problems])


def _allocate(shape: tuple[int, ...], mapped: Path | None) -> Any:
    if int(np.prod(shape, dtype=np.int64)) <= IN_MEMORY:
        return np.empty(shape, np.uint8)
    if mapped is None:
        raise DataError(f"images of shape {shape} do not fit into memory; give a smaller size")
    return begin(mapped, shape)


def _reason(error: Exception) -> str:
    if isinstance(error, UnidentifiedImageError):
        return "it is not an image in a known format"
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
