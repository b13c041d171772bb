"""Cross-validation over the labels: what a model is worth on samples it never saw, and how far it can be trusted."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halfsure.data import Data, DataError
from halfsure.data.random import keys
from halfsure.runs.evidence import Evidence, Fold
from halfsure.runs.run import Run
from halfsure.training.class_shares import label_shares
from halfsure.trust import estimate_prior, fit_temperature

__all__ = ["FEW", "Evidence", "Fold", "deal", "fold_of", "how_many", "weigh", "without"]

SALT = 0xF01D  # keeps this draw apart from others of the same seed
FEW = 500
"""Fewer labels than these are held out in five parts, one after the other; of more, a fifth once."""
MOST_SCORED = 5000
"""Unlabeled samples that class shares are estimated from, at most."""


def how_many(data: Data) -> int:
    """Five folds where labels are few, one where they are many."""
    return 5 if len(data.labeled) < FEW else 1


def deal(data: Data, folds: int, seed: int) -> list[NDArray[np.int64]]:
    """Deal the labeled samples out, each class as evenly as it goes: which each fold holds out.

    A single fold holds a fifth. Every class keeps a label to train on, so a class with a single one is refused.
    """
    labels = data.train.labels[data.labeled]
    counts = np.bincount(labels, minlength=len(data.classes))
    if (counts < 2).any():
        raise DataError(
            f"the class {data.classes[int(counts.argmin())]!r} has a single label, and a model can only be checked "
            "with two or more of every class: label another sample of it, or do without the check (folds=0, --folds 0)"
        )
    order = np.lexsort((keys(data.labeled, seed, SALT), labels))
    parts = 5 if folds == 1 else folds
    # Dealt class after class in one go: the folds' sizes differ by one at most, and so do their shares of a class.
    number = np.arange(len(order)) % parts
    dealt = [np.sort(data.labeled[order[number == part]]) for part in range(parts)]
    return [some for some in dealt[:folds] if len(some)]


def without(data: Data, held: NDArray[np.int64]) -> Data:
    """The data without some labeled samples, which then are as new to a model as any later one."""
    return replace(data, labeled=np.setdiff1d(data.labeled, held), unlabeled=np.setdiff1d(data.seen, held))


def fold_of(data: Data, held: NDArray[np.int64], run: Run) -> Fold:
    """What a model makes of samples that it was not shown."""
    return Fold(run, torch.from_numpy(data.train.labels[held]), run.logits(data.train.samples[held]))


def weigh(data: Data, folds: Sequence[Fold], prior: Sequence[float] | None) -> Tensor:
    """The data's class shares over those of the labels: shares that are given, or (None) estimated. → (classes,)."""
    shares = torch.from_numpy(label_shares(data))
    if prior is None:
        # Not what is held out for validation: shares estimated from it would be checked on what they were fitted to.
        there = np.arange(len(data.train)) if data.unlabeled is None else data.unlabeled
        unlabeled = np.setdiff1d(there, data.labeled)
        some = unlabeled[np.linspace(0, len(unlabeled) - 1, min(len(unlabeled), MOST_SCORED)).astype(np.int64)]
        if not len(some):
            return torch.ones_like(shares)
        found = []
        for fold in folds:  # each with its own temperature: EM wants calibrated probabilities
            heat = fit_temperature(fold.logits, fold.labels, fold.run.map)
            found.append(fold.run.map(fold.run.logits(data.train.samples[some]).double() / heat))
        target = estimate_prior(torch.stack(found).mean(0), shares)
    else:
        target = torch.tensor(prior, dtype=torch.float64)
        target = target / target.sum()
    return target / shares
