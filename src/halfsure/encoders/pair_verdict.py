"""Whether tuning pays: labels that neither the tuning nor the classifier saw say so."""

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from halfsure.encoders.encoder import Encoder, Features
from halfsure.encoders.pair_batches import Rows, encode_rows
from halfsure.encoders.pair_tuning import Tuning, labeled_rows, logistic_regression, tune_pairs

__all__ = ["TuningVerdict", "estimate_seconds", "pays"]

TIMED = 2
"""Steps that an estimate takes."""


@dataclass(frozen=True)
class TuningVerdict:
    """What held-out labels say."""

    pays: bool
    sentence: str
    held_out: int = 0
    """Labels that were held out, each once; 0 if nothing was tried."""
    errors_frozen: int = 0
    errors_tuned: int = 0
    estimated_seconds: float = 0.0


def pays(
    encoder: Encoder,
    samples: Any,
    labels: ArrayLike,
    *,
    unlabeled: Any = None,
    folds: int = 3,
    seed: int = 0,
    tuning: Tuning | None = None,
    most_seconds: float | None = None,
) -> TuningVerdict:
    """Compare logistic regression on the features as they came and tuned, on labels held out fold by fold.

    Each fold tunes again without its held-out samples. A class with a single label is never held out. Nothing is
    tried if it would take longer than `most_seconds`, the last tuning on all labels included.
    """
    how = tuning or Tuning()
    try:
        rows, classes = labeled_rows(samples, labels)
        numbers = _folds(classes, folds, np.random.default_rng(seed))
        for fold in range(folds):
            labeled_rows(rows[numbers != fold], classes[numbers != fold])
    except ValueError as error:
        return TuningVerdict(False, f"not tuned: too few labels to hold some out ({error})")
    rounds = 1 if unlabeled is None or not len(unlabeled) else 2
    seconds = estimate_seconds(encoder, samples, labels, tuning=how) * rounds * (folds + 1)
    if most_seconds is not None and seconds > most_seconds:
        sentence = f"not tuned: trying it takes about {seconds:.0f} s, and {most_seconds:.0f} s are allowed"
        return TuningVerdict(False, sentence, estimated_seconds=seconds)
    frozen, tuned = np.zeros(len(rows), bool), np.zeros(len(rows), bool)
    features = encode_rows(encoder, samples, rows)
    for fold in range(folds):
        out = numbers == fold
        taught = np.full(len(samples), -1)
        taught[rows[~out]] = classes[~out]
        other = tune_pairs(encoder, samples, taught, unlabeled=unlabeled, seed=seed, tuning=how)
        frozen[out] = _wrong(features, classes, out)
        tuned[out] = _wrong(encode_rows(other, samples, rows), classes, out)
    return _verdict(int((numbers >= 0).sum()), int(frozen.sum()), int(tuned.sum()), seconds)


def estimate_seconds(encoder: Encoder, samples: Any, labels: ArrayLike, *, tuning: Tuning | None = None) -> float:
    """About how long a tuning takes here, from a few of its steps; a second round takes as long again."""
    how = tuning or Tuning()
    start = time.perf_counter()
    tune_pairs(encoder, samples, labels, tuning=replace(how, steps=TIMED))
    return (time.perf_counter() - start) * how.steps / TIMED


def _folds(classes: Rows, folds: int, generator: np.random.Generator) -> Rows:
    """The fold in which each label is held out, classes spread evenly; −1 for the only label of a class."""
    numbers, given = np.full(len(classes), -1), 0
    for value in np.unique(classes):
        rows = generator.permutation(np.flatnonzero(classes == value))
        if len(rows) > 1:
            numbers[rows] = (given + np.arange(len(rows))) % folds
            given += len(rows)
    return numbers


def _wrong(features: Features, classes: Rows, out: Any) -> Any:
    return logistic_regression(features[~out], classes[~out]).predict(features[out]) != classes[out]


def _verdict(count: int, frozen: int, tuned: int, seconds: float) -> TuningVerdict:
    said = "tuning pays" if tuned < frozen else "not tuned: it does not pay"
    sentence = f"{said}: of {count} held-out labels {count - tuned} are met with it and {count - frozen} without"
    return TuningVerdict(tuned < frozen, sentence, count, frozen, tuned, seconds)
