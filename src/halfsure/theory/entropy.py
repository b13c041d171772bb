"""Entropies: what ADS lowers, and what makes softmax and sparsemax (Sec. V-B)."""

import warnings
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from halfsure._checks import check_number
from halfsure.theory._rows import Array, as_rows, xlogy


def shannon_entropy(probs: ArrayLike) -> Array:
    """−Σ p ln p. (…, classes) → (…)."""
    probs = as_rows(probs)
    return np.asarray(-xlogy(probs, probs).sum(-1))


def gini_entropy(probs: ArrayLike) -> Array:
    """½ Σ p(1 − p). (…, classes) → (…)."""
    probs = as_rows(probs)
    return np.asarray((probs * (1 - probs)).sum(-1) / 2)


def renyi_entropy(probs: ArrayLike, order: float = 2.0) -> Array:
    """ln(Σ p^order)/(1 − order), and Shannon's entropy at order 1. (…, classes) → (…).

    Examples:
        >>> from halfsure.theory import renyi_entropy
        >>> renyi_entropy([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]).round(4) + 0.0
        array([0.6931, 0.    ])
    """
    order = check_number("order", order, 0)
    if order == 1:
        return shannon_entropy(probs)
    probs = as_rows(probs)
    # Σ p^order = Σ p·p^(order − 1), relative to the largest p: nothing underflows, and near order 1 no digit is lost.
    leader = probs.max(-1, keepdims=True)
    ratio = np.expm1((order - 1) * np.log(np.where(probs > 0, probs / leader, 1.0)))
    log_sum = np.log1p((probs * ratio).sum(-1)) + (order - 1) * np.log(leader[..., 0])
    return np.asarray(log_sum / (1 - order))


def ads_potential(sparse_probs: ArrayLike, r: float = 2.0) -> Array:
    """−(1/r)·ln Σ p^r of a sparsemax prediction: the function whose gradient ADS follows. (…, classes) → (…).

    It is (1 − 1/r) times the Rényi entropy of order r, half of it for r = 2.

    Examples:
        >>> from halfsure.theory import ads_potential
        >>> ads_potential([[1.0, 0.0], [0.5, 0.5]]).round(4)
        array([0.    , 0.3466])
    """
    r = check_number("r", r, 1)
    return np.asarray((1 - 1 / r) * renyi_entropy(sparse_probs, r)) + 0.0  # + 0 turns −0 into 0


def argmax_on_simplex(logits: ArrayLike, entropy: Literal["shannon", "gini"]) -> Array:
    """The maximiser of ⟨z, p⟩ + H(p) over the simplex, by a generic solver. (classes,) → (classes,).

    Shannon's entropy gives softmax and Gini's sparsemax; nothing here knows that.

    Examples:
        >>> from halfsure.theory import argmax_on_simplex
        >>> argmax_on_simplex([2.0, 1.5, -1.0], "gini").round(4) + 0.0
        array([0.75, 0.25, 0.  ])
    """
    from scipy.optimize import minimize  # noqa: PLC0415 - slow to import, and used here alone

    z = np.asarray(logits, dtype=float)
    if z.ndim != 1 or z.size == 0 or not np.isfinite(z).all():
        raise ValueError(f"logits must be one row of finite numbers, got shape {z.shape}")
    z = z - z.max()
    slopes: dict[str, tuple[Callable[[Any], Array], Callable[[Array], Array]]] = {
        "shannon": (shannon_entropy, lambda p: -np.log(p) - 1),
        "gini": (gini_entropy, lambda p: 0.5 - p),
    }
    if entropy not in slopes:
        raise ValueError(f"entropy must be one of {', '.join(slopes)}, got {entropy!r}")
    value, slope = slopes[entropy]
    with warnings.catch_warnings():
        # SciPy before 1.16 tells of every step that it had to clip to the bounds.
        warnings.filterwarnings("ignore", "Values in x were outside bounds", RuntimeWarning)
        found = minimize(
            lambda p: -(z @ p) - value(p),
            x0=np.full(z.size, 1 / z.size),
            jac=lambda p: -z - slope(p),
            bounds=[(1e-12, 1.0)] * z.size,
            constraints={"type": "eq", "fun": lambda p: p.sum() - 1, "jac": np.ones_like},
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 1000},
        )
    return np.asarray(found.x)
