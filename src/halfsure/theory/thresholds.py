"""Which predictions a strategy acts on: the four regions (Fig. 1), Theorem 1 and Corollary 1."""

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halfsure._checks import check_number
from halfsure.theory._rows import Array, as_rows

E = math.e


class Region(IntEnum):
    """What a single probability says of its class."""

    NEGLIGIBLE = 0
    AMBIGUOUS = 1
    INFORMED = 2
    DETERMINATE = 3


@dataclass(frozen=True)
class Traits:
    """A strategy's row in Fig. 1."""

    candidates: Literal["none", "hard threshold", "soft threshold"]
    """How it picks the classes that take part."""
    activation: Literal["single", "partial", "full"]
    """How many classes its target activates."""
    acts_on: frozenset[Region]
    """The kinds of probabilities it changes."""


ALL_BUT_AMBIGUOUS = frozenset({Region.NEGLIGIBLE, Region.INFORMED, Region.DETERMINATE})

TRAITS: dict[str, Traits] = {
    "me": Traits("none", "single", ALL_BUT_AMBIGUOUS),
    "sh": Traits("none", "full", ALL_BUT_AMBIGUOUS),
    "pl": Traits("hard threshold", "single", frozenset({Region.DETERMINATE})),
    "ns": Traits("hard threshold", "partial", frozenset({Region.NEGLIGIBLE})),
    "ads": Traits("soft threshold", "partial", frozenset({Region.INFORMED})),
}
"""Fig. 1: what each strategy picks, activates and acts on."""


def regions(probs: ArrayLike, low: ArrayLike = 0.04, high: ArrayLike = 0.95, rtol: float = 1e-9) -> NDArray[np.int64]:
    """The region of every probability, as values of `Region`. (…, classes) → (…, classes).

    1/K counts as ambiguous before all else: with K > 1/low classes it would be negligible too. The limits may be
    numbers or one a sample, (…, 1), as `negligible_threshold` and `determinate_threshold` give them.

    Examples:
        >>> from halfsure.theory import Region, regions
        >>> [Region(i).name for i in regions([0.01, 0.25, 0.74, 0.0])]
        ['NEGLIGIBLE', 'AMBIGUOUS', 'INFORMED', 'NEGLIGIBLE']
    """
    probs = as_rows(probs)
    ambiguous = np.isclose(probs, 1 / probs.shape[-1], rtol=rtol, atol=0)
    if not (np.asarray(low) <= np.asarray(high)).all():
        raise ValueError(f"the lower limit must not lie above the upper one, got low = {low!r} and high = {high!r}")
    below, above = probs < np.asarray(low), probs > np.asarray(high)
    kinds = np.select(
        [ambiguous, below, above], [Region.AMBIGUOUS, Region.NEGLIGIBLE, Region.DETERMINATE], Region.INFORMED
    )
    return kinds.astype(np.int64)


def acts(strategy: str, probs: ArrayLike, threshold: float | None = None) -> NDArray[np.bool_]:
    """Which probabilities a strategy's loss takes hold of. (…, classes) → (…, classes).

    The threshold is that of `pl` (default 0.95) or `ns` (default 0.04).

    Examples:
        >>> from halfsure.theory import acts
        >>> acts("ads", [[0.9, 0.05, 0.05], [0.5, 0.45, 0.05]])
        array([[False, False, False],
               [ True,  True, False]])
    """
    probs = as_rows(probs)
    if threshold is not None and strategy not in ("pl", "ns"):
        raise ValueError(f"only pl and ns have a threshold, got {threshold!r} for {strategy!r}")
    uniform = np.isclose(probs, probs[..., :1], rtol=1e-12, atol=0).all(-1, keepdims=True)
    if strategy in ("me", "sh"):
        return np.broadcast_to(~uniform, probs.shape).copy()
    if strategy == "pl":
        best = np.arange(probs.shape[-1]) == probs.argmax(-1)[..., None]
        return np.asarray(best & (probs >= check_number("threshold", 0.95 if threshold is None else threshold, 0, 1)))
    if strategy == "ns":
        low = probs < check_number("threshold", 0.04 if threshold is None else threshold, 0, 1)
        return np.asarray(low & ~low.all(-1, keepdims=True))
    if strategy == "ads":
        return np.asarray((probs > negligible_threshold(probs)) & ~ads_vanishes(probs)[..., None])
    raise ValueError(f"strategy must be one of {', '.join(TRAITS)}, got {strategy!r}")


def ads_vanishes(probs: ArrayLike, rtol: float = 1e-12) -> NDArray[np.bool_]:
    """Theorem 1, completed: whether the ADS loss is zero. (…, classes) → (…).

    It is, just when m classes tie for the lead and the next is at most e^(−1/m) of them. m = 1 is the paper's case,
    `p_(1) ≥ e·p_(2)`; m = K is the uniform prediction.

    Examples:
        >>> from halfsure.theory import ads_vanishes
        >>> ads_vanishes([[0.7, 0.2, 0.1], [0.4, 0.4, 0.2], [0.5, 0.3, 0.2]])
        array([ True,  True, False])
    """
    probs = as_rows(probs)
    leader = probs.max(-1, keepdims=True)
    tied = np.isclose(probs, leader, rtol=rtol, atol=0)
    runner_up = np.where(tied, 0.0, probs).max(-1)
    return np.asarray(runner_up <= leader[..., 0] * np.exp(-1 / tied.sum(-1)) * (1 + rtol))


def support_size(probs: ArrayLike) -> NDArray[np.int64]:
    """ρ: how many classes sparsemax keeps of a softmax prediction. (…, classes) → (…).

    Examples:
        >>> from halfsure.theory import support_size
        >>> support_size([[0.7, 0.2, 0.1], [0.4, 0.3, 0.3]])
        array([1, 3])
    """
    return np.asarray((as_rows(probs) > negligible_threshold(probs)).sum(-1))


def negligible_threshold(probs: ArrayLike) -> Array:
    """The softmax probability at and below which a class of this sample is masked out. (…, classes) → (…, 1).

    It is `exp(τ(ln p))`, that is e^(−1/ρ) times the geometric mean of the ρ classes that are kept.

    Examples:
        >>> from halfsure.theory import negligible_threshold
        >>> negligible_threshold([0.5, 0.3, 0.2]).round(4)
        array([0.2349])
    """
    ranked = -np.sort(-as_rows(probs), axis=-1)
    with np.errstate(divide="ignore"):  # a probability of zero is a logit of −inf
        needed = (np.log(ranked).cumsum(-1) - 1) / np.arange(1, ranked.shape[-1] + 1)
    return np.asarray(np.exp(needed.max(-1, keepdims=True)))


def determinate_threshold(probs: ArrayLike) -> Array:
    """The softmax probability from which the best class of this sample stands alone. (…, classes) → (…, 1).

    The other classes keep their proportions: `e/(e + (1 − p_(1))/p_(2))`.

    Examples:
        >>> from halfsure.theory import determinate_threshold
        >>> determinate_threshold([0.5, 0.3, 0.2]).round(4)
        array([0.6199])
    """
    probs = as_rows(probs)
    if probs.shape[-1] < 2:
        raise ValueError("a single class is always determinate: the threshold needs at least two classes")
    ranked = -np.sort(-probs, axis=-1)
    rest, second = ranked[..., 1:].sum(-1), ranked[..., 1]
    odds = np.divide(rest, second, out=np.ones_like(rest), where=second > 0)
    return np.asarray(E / (E + odds))[..., None]


def determinate_range(classes: int) -> tuple[float, float]:
    """Corollary 1, first range: between which values `determinate_threshold` lies, both attained.

    Examples:
        >>> from halfsure.theory import determinate_range
        >>> [round(x, 4) for x in determinate_range(10)]
        [0.232, 0.7311]
    """
    classes = _count("classes", classes, 2)
    return E / (E + classes - 1), E / (E + 1)


def negligible_range(classes: int, support: int) -> tuple[float, float]:
    """Corollary 1, second range, corrected: between which values `negligible_threshold` lies at a support size.

    The lower end is attained at support 1 and approached at others; the upper one is attained by equal candidates
    when nothing is left for the masked classes.

    Examples:
        >>> from halfsure.theory import negligible_range
        >>> [round(x, 4) for x in negligible_range(10, 2)]
        [0.0853, 0.3033]
    """
    classes, support = _count("classes", classes, 2), _count("support", support, 1)
    if support > classes:
        raise ValueError(f"a support of {support} needs at least as many classes, got {classes}")
    return 1 / (E + classes - 1), 1 / (support * math.exp(1 / support))


def largest_masked(support: int) -> float:
    """Corollary 1, corrected: the largest softmax probability that is masked out at a support size; attained.

    Examples:
        >>> from halfsure.theory import largest_masked
        >>> [round(largest_masked(support), 4) for support in (1, 2, 3)]
        [0.2689, 0.2327, 0.1928]
    """
    support = _count("support", support, 1)
    return 1 / (1 + support * math.exp(1 / support))


def _count(name: str, value: int, at_least: int) -> int:
    number = check_number(name, value, at_least)
    if number != int(number):
        raise ValueError(f"{name} must be a whole number, got {value!r}")
    return int(number)
