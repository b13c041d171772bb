"""Folds and labels → what theory promises of a candidate set, in a number and in a sentence."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from halfsure._checks import check_number
from halfsure.trust._inputs import ROUNDING

ON_AVERAGE = "On average over draws of labels and samples, at least"
SAME = "if labels and new samples come from the same distribution"
BLIND_FOLDS = (
    "and folds are drawn without a look at the labels (dealing them out class by class, as halfsure does, comes close)"
)


@dataclass(frozen=True)
class Guarantee:
    """What is known beforehand of how often a set holds the true class."""

    level: float | None
    """At least this often, on average over draws of labels and samples; None if nothing is certain."""
    sentence: str
    """The same in words, with its conditions."""


def miss_rate(coverage: float) -> float:
    """The rate a candidate's p-value has to exceed, safe from rounding: 1/10 is not above 1 − 0.9."""
    return 1 - check_number("coverage", coverage, 0, 1) + ROUNDING


def promise(coverage: float, sizes: Sequence[int]) -> Guarantee:
    """The guarantee of unweighted sets, from the number of held-out labels in each fold."""
    rate = miss_rate(coverage)
    n, folds = sum(sizes), sum(size > 0 for size in sizes)  # an empty fold takes no part in any p-value
    if rate * (n + 1) < 1:
        return Guarantee(float(coverage), _too_few(coverage, rate, n))
    asked = _percent(coverage)
    if folds == 1:
        return Guarantee(float(coverage), f"{ON_AVERAGE} {asked} of the sets hold the true class, {SAME}.")
    bound = cross_conformal_bound(float(coverage), n, folds)
    if bound <= 0:
        return Guarantee(
            None,
            f"About {asked} of the sets hold the true class in practice, {SAME} {BLIND_FOLDS}; "
            f"with {n} labels in {folds} folds nothing is guaranteed.",
        )
    certain = _percent(math.floor(1000 * bound + 1e-9) / 1000)  # never more than what is known
    return Guarantee(
        bound,
        f"{ON_AVERAGE} {certain} of the sets hold the true class, and about {asked} in practice "
        f"({n} labels in {folds} folds), {SAME} {BLIND_FOLDS}.",
    )


def promise_weighted(coverage: float, always: int, classes: int) -> Guarantee:
    """The same with class weights, of which so many are large enough to put their class into every set."""
    sentence = (
        f"About {_percent(coverage)} of the sets hold the true class, as far as the class shares of the new samples "
        "are right and each class looks as it does in the labels; estimated shares give no guarantee."
    )
    if always:
        some = "Every class is" if always == classes else f"{always} of {classes} classes are"
        sentence += f" {some} in every set, for want of held-out labels."
    return Guarantee(None, sentence)


def cross_conformal_bound(coverage: float, n: int, folds: int) -> float:
    """`1 − 2α − 2(1 − α)(K − 1)/(n + K)`, for α = 1 − coverage, K folds and n labels in all (Vovk et al. 2018).

    A fold of m samples gives a p-value of its own, `(1 + matches)/(m + 1)`. Their mean, weighted by m + 1, is
    `(K + all matches)/(n + K)`, and twice a mean of p-values is a p-value, however they depend on each other. Ours,
    `(1 + all matches)/(n + 1)`, is at most α just where that mean is at most `(α(n + 1) + K − 1)/(n + K)`.

    Folds may be of any size and the learner may be any. Theorem 4 of Barber et al. (2021) subtracts the smaller of
    `2(1 − 1/K)/(n/K + 1)`, the same but for the factor 1 − α, and `(1 − K/n)/(K + 1)`, which holds for our p-value too
    and helps when folds are many and small. That one asks for equal folds and a learner to which the order of samples
    is nothing. Training is not such a learner, its draws depend on a sample's place, so we do not lean on it.
    """
    return 2 * coverage - 1 - 2 * coverage * (folds - 1) / (n + folds)


def _too_few(coverage: float, rate: float, n: int) -> str:
    labels = "1 held-out label" if n == 1 else f"{n} held-out labels"
    needed = f"it takes at least {math.ceil(1 / rate) - 1}" if coverage < 1 else "no number of labels changes that"
    return f"With {labels} every set at {_percent(coverage)} holds every class and so says nothing; {needed}."


def _percent(share: float) -> str:
    return f"{100 * share:g} %"
