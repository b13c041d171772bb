"""Samples that a classifier learns in a few steps, a few of them labeled."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfsure import SSLClassifier

COUNT, LABELED = 60, 18
TRUTH = np.arange(COUNT) % 3
Y = np.where(np.arange(COUNT) < LABELED, TRUTH, -1)


def clouds(seed: int = 0, apart: float = 4.0) -> NDArray[np.float64]:
    """Gaussian clouds, one a class. → (60, 4)."""
    rows = np.random.default_rng(seed).normal(size=(COUNT, 4))
    rows[np.arange(COUNT), TRUTH] += apart
    return rows


def texts(seed: int = 0) -> list[str]:
    """Three topics that share no word but the filler."""
    topics = [["sun", "sea", "beach"], ["bug", "code", "patch"], ["tea", "cup", "milk"]]
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice([*topics[label], "the"], 6)) for label in TRUTH]


def pictures(height: int = 9, width: int = 13, channels: int | None = None) -> NDArray[np.uint8]:
    """Noise whose brightness tells the class."""
    shape = (COUNT, height, width) + (() if channels is None else (channels,))
    noise = np.random.default_rng(0).integers(0, 70, shape)
    return (noise + 90 * TRUTH.reshape(-1, *[1] * (len(shape) - 1))).astype(np.uint8)


def quick(**parameters: Any) -> SSLClassifier:
    """A classifier that is fitted in some hundredths of a second; it checks nothing unless asked to."""
    usual: dict[str, Any] = {"steps": 20, "folds": 0, "net": "mlp-16"}
    return SSLClassifier(**(usual | parameters))
