"""The views written slowly and plainly on Pillow, an image at a time, given the same plan.

Magnitudes are written out here from the published settings, not taken from the library.
"""

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor

from halfsure.views import StrongImage, WeakImage

Bytes = NDArray[np.uint8]
GREYS: dict[str, float | tuple[float, ...]] = {"L": 128, "RGB": (128, 128, 128)}


def affine(image: Image.Image, matrix: tuple[float, ...], dx: float = 0, dy: float = 0) -> Image.Image:
    """Take pixel (x, y), counted from the centre, from (a x + b y + dx, d x + e y + dy)."""
    (a, b, d, e), x, y = matrix, image.width / 2, image.height / 2
    whole = (a, b, x - a * x - b * y + dx, d, e, y - d * x - e * y + dy)
    return image.transform(
        image.size, Image.Transform.AFFINE, whole, Image.Resampling.NEAREST, fillcolor=GREYS[image.mode]
    )


def rotate(image: Image.Image, level: int) -> Image.Image:
    return image.rotate(3 * level, Image.Resampling.NEAREST, fillcolor=GREYS[image.mode])


def solarize(image: Image.Image, level: int) -> Image.Image:
    return ImageOps.solarize(image, 256 - 25.6 * abs(level))  # type: ignore[arg-type]


def posterize(image: Image.Image, level: int) -> Image.Image:
    return ImageOps.posterize(image, 4 - int(0.4 * abs(level)))


def enhance(enhancer: Callable[[Image.Image], Any]) -> Callable[[Image.Image, int], Image.Image]:
    return lambda image, level: enhancer(image).enhance(0.1 + 0.18 * abs(level))


def moved(level: int, side: int) -> int:
    """A level is a 32nd of the side, in whole pixels."""
    return int((Decimal(level) * side / 32).quantize(Decimal(1), ROUND_HALF_UP))  # halves away from zero


# In the order the library numbers them; a sign matters to the geometric five only.
OPS: dict[str, Callable[[Image.Image, int], Image.Image]] = {
    "identity": lambda image, level: image,
    "autocontrast": lambda image, level: ImageOps.autocontrast(image),
    "equalize": lambda image, level: ImageOps.equalize(image),
    "rotate": rotate,
    "solarize": solarize,
    "color": enhance(ImageEnhance.Color),
    "contrast": enhance(ImageEnhance.Contrast),
    "brightness": enhance(ImageEnhance.Brightness),
    "sharpness": enhance(ImageEnhance.Sharpness),
    "shear_x": lambda image, level: affine(image, (1, 0.03 * level, 0, 1)),
    "shear_y": lambda image, level: affine(image, (1, 0, 0.03 * level, 1)),
    "translate_x": lambda image, level: affine(image, (1, 0, 0, 1), dx=moved(level, image.width)),
    "translate_y": lambda image, level: affine(image, (1, 0, 0, 1), dy=moved(level, image.height)),
    "posterize": posterize,
}
GEOMETRIC = ("rotate", "shear_x", "shear_y", "translate_x", "translate_y")


def to_pillow(image: Bytes) -> Image.Image:
    return Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image)


def to_array(image: Image.Image) -> Bytes:
    pixels = np.asarray(image)
    return pixels[..., None] if pixels.ndim == 2 else pixels


def flip_and_shift(image: Image.Image, flip: int, dy: int, dx: int, shift: int) -> Image.Image:
    if flip:
        image = ImageOps.mirror(image)
    if shift == 0:
        return image
    pixels = np.asarray(image)
    padded = np.pad(pixels, [(shift, shift), (shift, shift)] + [(0, 0)] * (pixels.ndim - 2), mode="reflect")
    left, top = shift + dx, shift + dy
    return Image.fromarray(padded).crop((left, top, left + image.width, top + image.height))


def cut_out(image: Image.Image, y: int, x: int, side: int) -> Image.Image:
    image = image.copy()
    top, left = y - side // 2, x - side // 2
    square = (max(left, 0), max(top, 0), min(left + side, image.width), min(top + side, image.height))
    image.paste(GREYS[image.mode], square)
    return image


def pixels_of(image: Bytes, row: list[int], shift: int, cutout: int) -> Bytes:
    """Carry out one row of a plan. (h, w, c) → (h, w, c)."""
    flip, dy, dx, cut_y, cut_x, *ops = row
    result = flip_and_shift(to_pillow(image), flip, dy, dx, shift)
    names = list(OPS)
    for op, applied, level in zip(ops[::3], ops[1::3], ops[2::3], strict=True):
        if applied:
            result = OPS[names[op]](result, level)
    if cutout:
        result = cut_out(result, cut_y, cut_x, cutout)
    return to_array(result)


def view(images: Bytes, plan: NDArray[np.int64], settings: WeakImage | StrongImage) -> Tensor:
    """Carry out a plan, image after image. (n, h, w, c) → (n, c, h, w)."""
    mean, std = np.asarray(settings.mean, np.float32), np.asarray(settings.std, np.float32)
    results = []
    for image, row in zip(images, plan.tolist(), strict=True):
        pixels = pixels_of(image, row, settings.shift, settings.cutout)
        results.append(torch.from_numpy(((pixels / np.float32(255) - mean) / std).transpose(2, 0, 1)))
    return torch.stack(results)
