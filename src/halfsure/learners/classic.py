"""What scikit-learn's simplest classifiers make of the same labels: a measure of what the unlabeled samples add."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfsure.data import Data, Part
from halfsure.views.preprocessing import Preprocessing

__all__ = ["BASELINES", "SETTINGS", "baseline_errors"]

SETTINGS = "scikit-learn's defaults (C = 1, at most 100 iterations), pixels from 0 to 1, rows standardised"


def _logistic_regression() -> Any:
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415 - slow to import

    return LogisticRegression()


def _nearest_neighbour() -> Any:
    from sklearn.neighbors import KNeighborsClassifier  # noqa: PLC0415 - slow to import

    return KNeighborsClassifier(n_neighbors=1)


BASELINES: dict[str, Callable[[], Any]] = {"logistic regression": _logistic_regression, "1-NN": _nearest_neighbour}


def baseline_errors(data: Data, part: Part) -> dict[str, float]:
    """Train each on the labeled samples alone; its error on a part, whose labels are all known."""
    scale = Preprocessing.of(data)
    x, y = _features(data.train.samples[data.labeled], scale), data.train.labels[data.labeled]
    features = _features(part.samples, scale)
    found = {}
    for name, make in BASELINES.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that 100 iterations were not enough: `SETTINGS` says how many there are
            predicted = make().fit(x, y).predict(features)
        found[name] = float(np.mean(predicted != part.labels))
    return found


def _features(samples: NDArray[Any], scale: Preprocessing) -> NDArray[np.float32]:
    """Numbers of about unit size. (n, …) → (n, features)."""
    if scale.kind == "image":
        return samples.reshape(len(samples), -1).astype(np.float32) / np.float32(255)
    return np.asarray(scale(samples), np.float32)
