"""Right and wrong answers → accuracies, and their differences, with intervals that hold up on few samples."""

import math
from statistics import NormalDist
from typing import Any

from torch import Tensor

from halfsure._checks import check_count, check_number
from halfsure.trust._inputs import check_tensor, take_flags


def wilson(right: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval of an accuracy: `right` of n → (low, high), (0, 1) if n is 0.

    Examples:
        >>> from halfsure.trust import wilson
        >>> low, high = wilson(9, 10)
        >>> round(low, 3), round(high, 3)
        (0.596, 0.982)
    """
    n, right = check_count("n", n), check_count("right", right)
    if right > n:
        raise ValueError(f"of {n} samples no more than {n} can be right, got {right}")
    z = _quantile(confidence)
    if n == 0:
        return 0.0, 1.0
    share, spread = right / n, z * z / n
    centre = (share + spread / 2) / (1 + spread)
    margin = math.sqrt(spread * (share * (1 - share) + spread / 4)) / (1 + spread)
    # None right is never a proof against any accuracy above 0, nor all right against 1, but rounding may say so.
    return (max(0.0, centre - margin) if right else 0.0), (min(1.0, centre + margin) if right < n else 1.0)


def paired_interval(before: Tensor, after: Tensor, confidence: float = 0.95) -> dict[str, Any]:
    """Difference of two accuracies on the same samples. bool (n,), bool (n,) → mean, low, high, n.

    `mean` is accuracy after minus accuracy before. `low` and `high` are the interval of Bonett and Price (2012), which
    holds up on few samples: Wald's, with one sample added to those that only one of the two got right, on either side.
    Its centre is therefore a little nearer to 0 than `mean`. Without any sample all but `n` are None.

    Examples:
        >>> import torch
        >>> from halfsure.trust import paired_interval
        >>> before = torch.tensor([True] * 5 + [False] * 5)
        >>> after = torch.tensor([True] * 9 + [False])
        >>> {name: round(value, 3) for name, value in paired_interval(before, after).items()}
        {'mean': 0.4, 'low': -0.02, 'high': 0.686, 'n': 10}
    """
    check_tensor("before", before)
    n = before.numel()
    before, after = take_flags("before", before, n), take_flags("after", after, n)
    z = _quantile(confidence)
    if n == 0:
        return {"mean": None, "low": None, "high": None, "n": 0}
    gained, lost = int((after & ~before).sum()), int((before & ~after).sum())
    up, down = (gained + 1) / (n + 2), (lost + 1) / (n + 2)
    centre = up - down
    margin = z * math.sqrt((up + down - centre * centre) / (n + 2))
    return {"mean": (gained - lost) / n, "low": max(-1.0, centre - margin), "high": min(1.0, centre + margin), "n": n}


def _quantile(confidence: float) -> float:
    """How many standard deviations to either side hold this share of a normal distribution."""
    confidence = check_number("confidence", confidence, 0, 1)
    if confidence == 1:
        raise ValueError("confidence must be below 1: nothing short of the whole range is certain to hold an accuracy")
    return NormalDist().inv_cdf((1 + confidence) / 2)
