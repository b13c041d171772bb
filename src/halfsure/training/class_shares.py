"""Class weights and class shares, from what a person asked for and the labels there are."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfsure.data import Data, DataError
from halfsure.training.config import Config

__all__ = ["class_settings", "expected_shares", "label_shares", "listed"]

SHOWN = 10  # names of classes in one sentence


def label_shares(data: Data) -> NDArray[np.float64]:
    """Share of each class among the labels that are trained on. → (classes,)."""
    counts = np.bincount(data.train.labels[data.labeled], minlength=len(data.classes))
    shares: NDArray[np.float64] = counts / counts.sum()
    return shares


def expected_shares(data: Data, config: Config) -> NDArray[np.float64]:
    """Share of each class that predictions should have: a prior that was given, or that of the labels. → (classes,)."""
    if config.prior is None:
        return label_shares(data)
    return np.array(class_settings(data, config)["prior"])


def listed(names: Sequence[str]) -> str:
    """Names of classes in a sentence, the first of them where they are many."""
    left = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {left:,} more" if left > 0 else "")


def class_settings(data: Data, config: Config) -> dict[str, Any]:
    """`class_weight` and `prior` of an algorithm, where the config asks for them."""
    settings: dict[str, Any] = {}
    shares = label_shares(data)
    if config.class_weight is not None:
        weights = 1 / shares if config.class_weight == "balanced" else _given("class_weight", config.class_weight, data)
        # Scaled so that the labels weigh 1 on average: the terms of the objective keep their proportions.
        settings["class_weight"] = (weights / (shares @ weights)).tolist()
    if config.prior is not None:
        named = {"labels": shares, "uniform": np.full(len(shares), 1 / len(shares))}
        prior = named[config.prior] if isinstance(config.prior, str) else _given("prior", config.prior, data)
        settings["prior"] = (prior / prior.sum()).tolist()
    return settings


def _given(name: str, values: Any, data: Data) -> NDArray[np.float64]:
    numbers = np.array(values, dtype=np.float64)
    if numbers.shape != (len(data.classes),):
        raise DataError(f"{name} has {numbers.size} values, but {data.name} has {len(data.classes)} classes")
    if not (np.isfinite(numbers).all() and (numbers >= 0).all() and numbers.sum() > 0):
        raise DataError(f"{name} must be numbers that are not negative and not all zero, got {list(values)}")
    return numbers
