"""Image views in whole-batch torch operations, for images that already are on another device.

The plan is drawn on the CPU, where it is small, and tells which samples an op is for: the device is never waited for.
Pixels are int32, 0 … 255, (n, h, w, c) until the end.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halfsure.views._ops import ENHANCE, FIXED, GREY, KEEP_BITS, NAMES, SOLARIZE, affine_table
from halfsure.views.draws import FIRST_OP, LEVELS

__all__ = ["render"]

Levels = NDArray[np.int64]


def render(images: Tensor, plan: NDArray[np.int64], cutout: int, norm: NDArray[np.float32]) -> Tensor:
    """Carry a plan out, the twin of `image.render`. (n, h, w, c) → (n, c, h, w) in channels_last."""
    device = images.device
    pixels = _flip_and_shift(images.int(), torch.from_numpy(plan[:, :3]).to(device))
    for column in range(FIRST_OP, plan.shape[1], 3):
        ops, applied, levels = plan[:, column], plan[:, column + 1], plan[:, column + 2]
        for number in np.unique(ops[applied != 0]).tolist():
            chosen = np.flatnonzero((ops == number) & (applied != 0))
            rows = torch.from_numpy(chosen).to(device)
            pixels[rows] = OPERATIONS[NAMES[number]](pixels[rows], levels[chosen])
    if cutout:
        pixels = _cut(pixels, torch.from_numpy(plan[:, 3:5] - cutout // 2).to(device), cutout)
    factors = torch.tensor(norm, device=device)
    return (pixels.float() * factors[0] + factors[1]).permute(0, 3, 1, 2)


def _flip_and_shift(pixels: Tensor, plan: Tensor) -> Tensor:
    n, h, w, _ = pixels.shape
    flip, down, across = plan.T[:, :, None]
    y = torch.arange(h, device=pixels.device) + down
    x = torch.arange(w, device=pixels.device) + across
    y = h - 1 - (h - 1 - y.abs()).abs()  # a mirror at the outermost pixels
    x = w - 1 - (w - 1 - x.abs()).abs()
    x = torch.where(flip != 0, w - 1 - x, x)
    return pixels[torch.arange(n, device=pixels.device)[:, None, None], y[:, :, None], x[:, None, :]]


def _cut(pixels: Tensor, corner: Tensor, side: int) -> Tensor:
    y = torch.arange(pixels.shape[1], device=pixels.device) - corner[:, :1]
    x = torch.arange(pixels.shape[2], device=pixels.device) - corner[:, 1:]
    inside = ((y >= 0) & (y < side))[:, :, None] & ((x >= 0) & (x < side))[:, None, :]
    return pixels.masked_fill(inside[..., None], GREY)


def _gather(pixels: Tensor, levels: Levels, name: str) -> Tensor:
    n, h, w, c = pixels.shape
    affine = affine_table(h, w)[NAMES.index(name), levels + LEVELS]
    a, b, left, d, e, top = torch.from_numpy(affine).to(pixels.device).T[:, :, None, None]
    y = torch.arange(h, device=pixels.device)[:, None]
    x = torch.arange(w, device=pixels.device)
    from_x, from_y = (a * x + b * y + left) >> FIXED, (d * x + e * y + top) >> FIXED
    inside = (from_x >= 0) & (from_x < w) & (from_y >= 0) & (from_y < h)
    at = torch.where(inside, from_y * w + from_x, 0).view(n, h * w, 1).expand(n, h * w, c)
    moved = pixels.reshape(n, h * w, c).gather(1, at).view(n, h, w, c)
    return moved.masked_fill(~inside[..., None], GREY)


def _blend(start: Tensor, pixels: Tensor, levels: Levels) -> Tensor:
    """From start (factor 0) to the pixels (factor 1) and beyond, cut to whole grey levels as Pillow does."""
    factor = _per_sample(ENHANCE[abs(levels)], pixels)
    return (start + factor * (pixels - start).float()).int().clamp(0, 255)


def _per_sample(values: NDArray[np.generic], pixels: Tensor) -> Tensor:
    return torch.from_numpy(values).to(pixels.device).view(-1, 1, 1, 1)


def _luma(pixels: Tensor) -> Tensor:
    """ITU-R 601 grey, (n, h, w, 1), in Pillow's fixed point."""
    if pixels.shape[-1] == 1:
        return pixels
    red, green, blue = pixels[..., 0:1], pixels[..., 1:2], pixels[..., 2:3]
    return (red * 19595 + green * 38470 + blue * 7471 + 32768) >> 16


def _color(pixels: Tensor, levels: Levels) -> Tensor:
    return _blend(_luma(pixels), pixels, levels)


def _contrast(pixels: Tensor, levels: Levels) -> Tensor:
    count = pixels.shape[1] * pixels.shape[2]
    total = _luma(pixels).sum((1, 2, 3), keepdim=True)
    return _blend(((2 * total + count) // (2 * count)).int(), pixels, levels)


def _brightness(pixels: Tensor, levels: Levels) -> Tensor:
    return _blend(torch.zeros_like(pixels), pixels, levels)


def _sharpness(pixels: Tensor, levels: Levels) -> Tensor:
    smooth = pixels.clone()
    if min(pixels.shape[1:3]) > 2:
        across = pixels[:, :, :-2] + pixels[:, :, 1:-1] + pixels[:, :, 2:]
        total = across[:, :-2] + across[:, 1:-1] + across[:, 2:] + 4 * pixels[:, 1:-1, 1:-1]
        smooth[:, 1:-1, 1:-1] = (total + 6) // 13
    return _blend(smooth, pixels, levels)


def _solarize(pixels: Tensor, levels: Levels) -> Tensor:
    return torch.where(pixels < _per_sample(SOLARIZE[abs(levels)], pixels), pixels, 255 - pixels)


def _posterize(pixels: Tensor, levels: Levels) -> Tensor:
    return pixels & _per_sample(KEEP_BITS[abs(levels)].astype(np.int32), pixels)


def _autocontrast(pixels: Tensor, levels: Levels) -> Tensor:
    low, high = pixels.amin((1, 2), keepdim=True), pixels.amax((1, 2), keepdim=True)
    # Pillow's rounding is that of double precision, which Apple's devices lack: there a level may be off by one.
    real = torch.float32 if pixels.device.type == "mps" else torch.float64
    slope = 255 / (high - low).clamp(min=1).to(real)
    stretched = (pixels * slope - low * slope).int().clamp(0, 255)
    return torch.where(high > low, stretched, pixels)


def _equalize(pixels: Tensor, levels: Levels) -> Tensor:
    n, h, w, c = pixels.shape
    flat = pixels.view(n, h * w, c).long()
    histogram = torch.zeros(n, 256, c, dtype=torch.long, device=pixels.device)
    histogram.scatter_add_(1, flat, torch.ones_like(flat))
    brightest = histogram.gather(1, flat.amax(1, keepdim=True))
    step = (h * w - brightest) // 255
    table = (step // 2 + histogram.cumsum(1) - histogram) // step.clamp(min=1)
    moved = table.clamp(max=255).gather(1, flat)
    return torch.where(step > 0, moved, flat).int().view(n, h, w, c)


OPERATIONS: dict[str, Callable[[Tensor, Levels], Tensor]] = {
    "identity": lambda pixels, levels: pixels,
    "autocontrast": _autocontrast,
    "equalize": _equalize,
    "rotate": partial(_gather, name="rotate"),
    "solarize": _solarize,
    "color": _color,
    "contrast": _contrast,
    "brightness": _brightness,
    "sharpness": _sharpness,
    "shear_x": partial(_gather, name="shear_x"),
    "shear_y": partial(_gather, name="shear_y"),
    "translate_x": partial(_gather, name="translate_x"),
    "translate_y": partial(_gather, name="translate_y"),
    "posterize": _posterize,
}
