"""Held-out confidences → from which confidence on to answer."""

import math

import torch
from torch import Tensor

from halfsure._checks import check_number
from halfsure.trust._inputs import ROUNDING, check_tensor, take_flags, take_numbers, take_weights


def abstain_threshold(confidence: Tensor, right: Tensor, precision: float, weights: Tensor | None = None) -> float:
    """Smallest confidence from which on few enough held-out samples are wrong. (n,), (n,) → a threshold, inf if none.

    Few enough: of the samples at or above it, at most 1 − precision are wrong, counting one wrong sample more than was
    seen, so that a handful of right answers proves nothing. With weights, the added one weighs as much as the mean.
    This is an estimate and not a guarantee: the threshold was chosen by the very samples that speak for it.

    Examples:
        >>> import torch
        >>> from halfsure.trust import abstain_threshold
        >>> confidence = torch.tensor([0.5, 0.6, 0.7, 0.8, 0.9])
        >>> right = torch.tensor([False, False, True, True, True])
        >>> round(abstain_threshold(confidence, right, precision=0.75), 2)  # (1 + 0) of (1 + 3) are wrong
        0.7
        >>> abstain_threshold(confidence, right, precision=0.9)
        inf
    """
    check_tensor("confidences", confidence)
    n = confidence.numel()
    values = take_numbers("confidences", confidence, n)
    wrong = ~take_flags("right", right, n)
    weight = take_weights(weights, n)
    allowed = 1 - check_number("precision", precision, 0, 1) + ROUNDING
    if not weight.sum() > 0:
        return math.inf
    weight = weight / weight.mean()

    levels, level = values.unique(return_inverse=True)  # ascending; equal confidences are kept or left together
    rate = (1 + _from_here_on(weight * wrong, level, len(levels))) / (1 + _from_here_on(weight, level, len(levels)))
    accepted = levels[rate <= allowed]
    return float(accepted[0]) if len(accepted) else math.inf


def _from_here_on(values: Tensor, level: Tensor, levels: int) -> Tensor:
    """Sum of the values at each level and all above. (n,), (n,) → (levels,)."""
    sums = torch.zeros(levels, dtype=values.dtype).index_add(0, level, values)
    return sums.flip(0).cumsum(0).flip(0)
