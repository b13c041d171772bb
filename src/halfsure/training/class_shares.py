"""Class weights and class shares, from what a person asked for and the labels there are."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfsure.data import Data, DataError

__all__ = ["class_weights", "label_shares", "listed", "prior_shares"]

SHOWN = 10  # names of classes in one sentence


def label_shares(data: Data) -> NDArray[np.float64]:
    """Share of each class among the labels that are trained on. → (classes,)."""
    counts = np.bincount(data.train.labels[data.labeled], minlength=len(data.classes))
    shares: NDArray[np.float64] = counts / counts.sum()
    return shares


def listed(names: Sequence[str]) -> str:
    """Names of classes in a sentence, the first of them where they are many."""
    left = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {left:,} more" if left > 0 else "")


def class_weights(data: Data, asked: Any) -> list[float] | None:
    """The weight of each class in the supervised term, for `balanced` or given ones; None for None."""
    if asked is None:
        return None
    shares = label_shares(data)
    weights = 1 / shares if isinstance(asked, str) else _given("class_weight", asked, data)
    # Scaled so that the labels weigh 1 on average: the terms of the objective keep their proportions.
    found: list[float] = (weights / (shares @ weights)).tolist()
    return found


def prior_shares(data: Data, asked: Any) -> list[float] | None:
    """The class shares that targets are held to, for `labels`, `uniform` or given ones; None for None."""
    if asked is None:
        return None
    shares = label_shares(data)
    named = {"labels": shares, "uniform": np.full(len(shares), 1 / len(shares))}
    prior = named[asked] if isinstance(asked, str) else _given("prior", asked, data)
    found: list[float] = (prior / prior.sum()).tolist()
    return found


def _given(name: str, values: Any, data: Data) -> NDArray[np.float64]:
    numbers = np.array(values, dtype=np.float64)
    if numbers.shape != (len(data.classes),):
        raise DataError(f"{name} has {numbers.size} values, but {data.name} has {len(data.classes)} classes")
    if not (np.isfinite(numbers).all() and (numbers >= 0).all() and numbers.sum() > 0):
        raise DataError(f"{name} must be numbers that are not negative and not all zero, got {list(values)}")
    return numbers
