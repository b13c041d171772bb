"""Samples as people have them → batches for an encoder: as they are, or as weak views, a few of each class."""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from halfsure.encoders.encoder import Encoder, Features, PictureEncoder

__all__ = ["Rows", "balanced_rows", "encode_rows", "given", "weak_views"]

Rows = NDArray[np.int64]


def given(encoder: Encoder, samples: Any, rows: Rows) -> Any:
    """These samples as the encoder takes them: a list of texts, or normalised pictures (n, 3, side, side)."""
    if not isinstance(encoder, PictureEncoder):
        return [samples[row] for row in rows]
    if isinstance(samples, Tensor) and samples.is_floating_point():
        return samples[torch.from_numpy(rows)]
    pictures = torch.from_numpy(np.stack([np.asarray(samples[row]) for row in rows]))
    mean, std = torch.tensor(encoder.mean), torch.tensor(encoder.std)
    return ((pictures / 255 - mean) / std).permute(0, 3, 1, 2).contiguous()


def encode_rows(encoder: Encoder, samples: Any, rows: Rows, batch: int = 256) -> Features:
    """Features of length one of these samples, whose cosines count. → (rows, dimension)."""
    starts = range(0, len(rows), batch)
    found = [encoder.encode(given(encoder, samples, rows[first : first + batch])) for first in starts]
    features: Features = np.concatenate([np.empty((0, encoder.dimension), np.float32), *found])
    features /= np.maximum(np.linalg.norm(features, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    return features


def weak_views(pictures: Tensor, zoom: float, flip: bool, generator: np.random.Generator) -> Tensor:
    """Cut out a part of each picture's sides, `zoom` at least, and mirror every other. (n, c, h, w) → the same."""
    n = len(pictures)
    shown = generator.uniform(zoom, 1, n)
    shift = generator.uniform(-1, 1, (n, 2)) * (1 - shown)[:, None]
    mirrored = np.where((generator.random(n) < 0.5) & flip, -1, 1)
    maps = np.zeros((n, 2, 3), np.float32)
    maps[:, 0, 0], maps[:, 1, 1], maps[:, :, 2] = shown * mirrored, shown, shift
    grid = F.affine_grid(torch.from_numpy(maps), list(pictures.shape), align_corners=False)
    return F.grid_sample(pictures, grid, padding_mode="border", align_corners=False)


def balanced_rows(labels: Rows, size: int, generator: np.random.Generator) -> Rows:
    """Rows of a batch: as many of each class; two of each of some classes where there are many.

    A class of one sample gives it twice: two views of it are a pair.
    """
    classes = generator.permutation(np.unique(labels))[: max(2, size // 2)]
    chosen = []
    for value in classes:
        rows = generator.permutation(np.flatnonzero(labels == value))[: max(2, size // len(classes))]
        chosen.append(np.repeat(rows, 2) if len(rows) == 1 else rows)
    return np.concatenate(chosen)
