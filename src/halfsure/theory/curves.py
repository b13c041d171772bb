"""The binary case (Fig. 3, Appendix A): target, loss and gradient of every strategy against s."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halfsure._checks import check_number
from halfsure.theory._rows import Array, xlogy


@dataclass(frozen=True)
class Curve:
    """What a strategy does to a prediction (s, 1 − s), as functions of s."""

    s: Array
    """The softmax probability of the first class."""
    target: Array
    """What it should become; NaN where the strategy asks for nothing."""
    loss: Array
    """The part of the loss that has a gradient: with a target t held fixed, −t ln p − (1 − t) ln(1 − p)."""
    gradient: Array
    """The derivative of that part with respect to s."""


def sparse_probability(s: ArrayLike) -> Array:
    """The sparsemax probability of a class whose softmax probability is s, of two. (…) → (…).

    It is linear in the logit difference `u = ln(s/(1 − s))` while |u| ≤ 1, and 0 or 1 beyond.

    Examples:
        >>> from halfsure.theory import sparse_probability
        >>> sparse_probability([0.1, 0.5, 0.6, 0.8]).round(4)
        array([0.    , 0.5   , 0.7027, 1.    ])
    """
    return np.clip((_logit(_binary(s)) + 1) / 2, 0.0, 1.0)


def me_curve(s: ArrayLike) -> Curve:
    """Minimum entropy. Its implied target is the nearer corner, and none at ½.

    The gradient ln((1 − s)/s) is unbounded in s; in the logit u it is −u·s·(1 − s), never above 0.224.
    """
    s = _binary(s)
    target = np.where(s == 0.5, np.nan, (s > 0.5).astype(float))
    return Curve(s, target, -xlogy(s, s) - xlogy(1 - s, 1 - s), -_logit(s))


def sh_curve(s: ArrayLike, temperature: float = 0.5) -> Curve:
    """Sharpening in softmax."""
    s = _binary(s)
    r = 1 / check_number("temperature", temperature, 1e-9, 1)
    target = _sharpened(s, r)
    return Curve(s, target, *_cross_entropy(target, s))


def pl_curve(s: ArrayLike, threshold: float = 0.95) -> Curve:
    """Pseudo-labels, kept where the larger probability reaches the threshold; at ½ the first class is taken."""
    s = _binary(s)
    threshold = check_number("threshold", threshold, 0, 1)
    return _corner_curve(s, np.maximum(s, 1 - s) >= threshold)


def ns_curve(s: ArrayLike, threshold: float = 0.04) -> Curve:
    """Negative sampling: a class below the threshold is pushed down, and so the other one up.

    With `threshold = 1 − τ_PL` it is the curve of pseudo-labels. Above ½ both classes are negligible near the
    middle, and neither is preferred.
    """
    s = _binary(s)
    threshold = check_number("threshold", threshold, 0, 1)
    return _corner_curve(s, (s < threshold) != (1 - s < threshold))


def ads_curve(s: ArrayLike, r: float = 2.0) -> Curve:
    """ADaptive Sharpening: nothing below 1/(e + 1), at ½ and above e/(e + 1)."""
    s = _binary(s)
    r = check_number("r", r, 1)
    sparse = sparse_probability(s)
    target = _sharpened(sparse, r)
    loss, gradient = _cross_entropy(target, sparse)
    inside = (sparse > 0) & (sparse < 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = (1 / s + 1 / (1 - s)) / 2  # ds'/ds
        return Curve(s, target, loss, np.where(inside, gradient * slope, 0.0))


CURVES: dict[str, Callable[..., Curve]] = {
    "me": me_curve,
    "sh": sh_curve,
    "pl": pl_curve,
    "ns": ns_curve,
    "ads": ads_curve,
}
"""Fig. 3: the curve of each strategy by its name in the method notation."""


def _binary(s: ArrayLike) -> Array:
    s = np.asarray(s, dtype=float)
    if not ((s >= 0) & (s <= 1)).all():
        raise ValueError("s is a probability: every value must lie in [0, 1]")
    return s


def _logit(s: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(s) - np.log1p(-s))


def _sharpened(s: Array, r: float) -> Array:
    """s^r/(s^r + (1 − s)^r)."""
    with np.errstate(divide="ignore", over="ignore"):
        return np.asarray(1 / (1 + ((1 - s) / s) ** r))


def _cross_entropy(target: Array, probs: Array) -> tuple[Array, Array]:
    """−t ln p − (1 − t) ln(1 − p), and its derivative in p with t held fixed."""
    loss = -xlogy(target, probs) - xlogy(1 - target, 1 - probs)
    with np.errstate(divide="ignore", invalid="ignore"):
        own = np.where(target > 0, target / probs, 0.0)
        other = np.where(target < 1, (1 - target) / (1 - probs), 0.0)
    return loss, other - own


def _corner_curve(s: Array, active: NDArray[np.bool_]) -> Curve:
    """Push the larger probability to 1 where active, and ask for nothing elsewhere."""
    target = np.where(active, (s >= 0.5).astype(float), np.nan)
    loss, gradient = _cross_entropy(np.where(active, target, 0.0), s)
    return Curve(s, target, np.where(active, loss, 0.0), np.where(active, gradient, 0.0))
