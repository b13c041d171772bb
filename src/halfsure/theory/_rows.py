"""Array helpers that the parts of `halfsure.theory` share."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def as_rows(probs: ArrayLike) -> Array:
    """Accept probabilities along the last axis. (…, classes) → (…, classes)."""
    probs = np.asarray(probs, dtype=float)
    if probs.ndim == 0 or probs.shape[-1] == 0:
        raise ValueError(f"probs must be (…, classes) with at least one class, got shape {probs.shape}")
    if not ((probs >= 0).all() and np.allclose(probs.sum(-1), 1, rtol=0, atol=1e-4)):
        raise ValueError("probs must be probabilities: finite, not negative and summing to 1 along the last axis")
    return probs


def xlogy(x: Array, y: Array) -> Array:
    """x·ln y, and 0 where x is 0."""
    return np.asarray(x * np.log(np.where(x > 0, y, 1.0)))
