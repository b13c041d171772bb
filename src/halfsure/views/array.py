"""Views of rows of features: float batches (n, d) → float32 batches (n, d) on the same device.

As with images, the view of a sample depends on (seed, stream, step, sample index) and on nothing else.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from halfsure._checks import check_count, check_number
from halfsure.views.draws import ARRAY, base_key, below, bits, happens, normal
from halfsure.views.image import check_indices

__all__ = ["ArrayView"]

Rows = NDArray[np.floating] | Tensor


@dataclass(frozen=True, eq=False)
class ArrayView:
    """Swap some features with those of other rows, add noise, and drop some features.

    Examples:
        >>> import numpy as np
        >>> from halfsure.views import ArrayView
        >>> rows = np.eye(4)
        >>> ArrayView(dropout=1.0)(rows[:2], indices=[0, 1], step=0)
        tensor([[0., 0., 0., 0.],
                [0., 0., 0., 0.]])
        >>> ArrayView(noise=0.1, swap=0.2, reference=rows)(rows, indices=range(4), step=0).shape
        torch.Size([4, 4])
    """

    noise: float = 0.0
    """Standard deviation of the Gaussian noise, in standard deviations of the feature over the reference rows."""
    dropout: float = 0.0
    """Probability that a feature becomes 0, which is its mean if features are standardised; nothing is rescaled."""
    swap: float = 0.0
    """Probability that a feature takes the value it has in a reference row, drawn anew for each feature."""
    reference: Rows | None = None
    """Rows (m, d) that swaps take from and deviations are measured on; without it every deviation counts as 1."""
    seed: int = 0
    """Chooses the randomness, together with the stream, the step and the sample index."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise", check_number("noise", self.noise, 0))
        object.__setattr__(self, "dropout", check_number("dropout", self.dropout, 0, 1))
        object.__setattr__(self, "swap", check_number("swap", self.swap, 0, 1))
        object.__setattr__(self, "seed", check_count("seed", self.seed))
        if self.reference is None:
            if self.swap > 0:
                raise ValueError("swap noise needs reference rows to take values from: give reference=rows")
            return
        reference = _as_floats("reference", self.reference)
        if len(reference) == 0 or not reference.isfinite().all():
            raise ValueError(f"reference must have rows, all finite, got {tuple(reference.shape)} with NaN or none")
        object.__setattr__(self, "reference", reference)
        object.__setattr__(self, "_std", reference.std(0, correction=0))

    def __call__(self, rows: Rows, indices: ArrayLike | Tensor, step: int, stream: int = 0) -> Tensor:
        """Rows (n, d) and sample indices (n,) → float32 (n, d)."""
        result = _as_floats("rows", rows)
        n, d = result.shape
        reference = self.reference
        if isinstance(reference, Tensor) and reference.shape[1] != d:
            raise ValueError(f"rows have {d} features, the reference rows {reference.shape[1]}")
        samples = check_indices(indices, n)
        base = base_key(ARRAY, self.seed, check_count("stream", stream), check_count("step", step))
        device = result.device
        # One slot a feature: 24 bits for swapping, 24 for dropping, 16 for the noise.
        drawn = bits(base, samples, np.arange(d, dtype=np.uint64))
        if self.swap > 0 and isinstance(reference, Tensor):
            swapped = torch.from_numpy(happens(drawn >> np.uint64(40), self.swap)).to(device)
            which = below(bits(base, samples, np.arange(d, 2 * d, dtype=np.uint64)), np.uint64(len(reference)))
            taken = reference.to(device).gather(0, torch.from_numpy(which.astype(np.int64)).to(device))
            result = torch.where(swapped, taken, result)
        if self.noise > 0:
            normals = torch.from_numpy(normal(drawn)).to(device)
            std = self._std.to(device) if isinstance(reference, Tensor) else 1.0  # type: ignore[attr-defined]
            result = result + self.noise * std * normals
        if self.dropout > 0:
            dropped = happens(drawn >> np.uint64(16) & np.uint64(0xFFFFFF), self.dropout)
            result = result.masked_fill(torch.from_numpy(dropped).to(device), 0)
        return result.clone() if result is rows else result


def _as_floats(name: str, rows: Rows) -> Tensor:
    if not isinstance(rows, np.ndarray | Tensor):
        raise TypeError(f"{name} must be a NumPy array or a torch.Tensor, got {type(rows).__name__}")
    given = torch.from_numpy(np.ascontiguousarray(rows)) if isinstance(rows, np.ndarray) else rows
    if not given.is_floating_point():
        raise ValueError(f"{name} must be floating point, got {given.dtype}; convert them first")
    if given.ndim != 2:
        raise ValueError(f"{name} must be (n, d), got {tuple(given.shape)}")
    return given.float()
