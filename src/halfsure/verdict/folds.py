"""Cross-validation over the labels: what a model is worth on samples it never saw, and how far it can be trusted."""

import math
from collections.abc import Sequence
from dataclasses import replace
from operator import mul

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from torch import Tensor

from halfsure.bank.tuned import Kept, tune_again, tuned_in
from halfsure.data import Data, DataError
from halfsure.data.random import keys
from halfsure.runs.evidence import Evidence, Fold
from halfsure.runs.run import Run
from halfsure.runs.with_encoder import as_seen_by
from halfsure.training.class_shares import label_shares
from halfsure.trust import estimate_prior, fit_temperature

__all__ = ["FEW", "Evidence", "Fold", "deal", "fold_of", "how_many", "weigh", "without"]

SALT = 0xF01D  # keeps this draw apart from others of the same seed
FEW = 500
"""Fewer labels than these are held out in five parts, one after the other; of more, a fifth once."""
ATTEMPTS = 10
"""Orders in which groups are dealt before it is given up."""
MOST_SCORED = 5000
"""Unlabeled samples that class shares are estimated from, at most."""


def how_many(data: Data) -> int:
    """Five folds where labels are few, one where they are many; no more than there are groups with a label."""
    if len(data.labeled) >= FEW:
        return 1
    return 5 if data.train.groups is None else max(2, min(5, len(set(data.train.groups[data.labeled]))))


def deal(data: Data, folds: int, seed: int) -> list[NDArray[np.int64]]:
    """Deal the labeled samples out, each class as evenly as it goes: which each fold holds out.

    A single fold holds a fifth. Every class keeps a label to train on, so a class with a single one is refused. Samples
    of one group are held out together.
    """
    labels = data.train.labels[data.labeled]
    counts = np.bincount(labels, minlength=len(data.classes))
    if (counts < 2).any():
        raise DataError(
            f"the class {data.classes[int(counts.argmin())]!r} has a single label, and a model can only be checked "
            "with two or more of every class: label another sample of it, or do without the check (folds=0, --folds 0)"
        )
    dealt = _deal_samples(data, folds, seed) if data.train.groups is None else _deal_groups(data, folds, seed)
    if tuned_in(data) is not None:
        _refuse_untunable(data, dealt)
    return dealt


def _refuse_untunable(data: Data, dealt: Sequence[NDArray[np.int64]]) -> None:
    """A fold tunes the encoder again, which takes two labels of a class."""
    for held in dealt:
        left = np.setdiff1d(data.labeled, data.train.of_groups(held))
        if np.bincount(data.train.labels[left]).max() < 2:
            raise DataError(
                "without the labels that a fold holds out each class has one, too few to tune the encoder again: label "
                "more samples, ask for more folds, take tune none, or do without the check (folds=0, --folds 0)"
            )


def _deal_samples(data: Data, folds: int, seed: int) -> list[NDArray[np.int64]]:
    """Deal single samples out."""
    labels = data.train.labels[data.labeled]
    order = np.lexsort((keys(data.labeled, seed, SALT), labels))
    parts = 5 if folds == 1 else folds
    # Dealt class after class in one go: the folds' sizes differ by one at most, and so do their shares of a class.
    number = np.arange(len(order)) % parts
    dealt = [np.sort(data.labeled[order[number == part]]) for part in range(parts)]
    return [some for some in dealt[:folds] if len(some)]


def _deal_groups(data: Data, folds: int, seed: int) -> list[NDArray[np.int64]]:
    """Deal whole groups out, the largest first, each to the fold that has the least of its classes."""
    assert data.train.groups is not None
    names, first, group = np.unique(data.train.groups[data.labeled], return_index=True, return_inverse=True)
    counts = np.zeros((len(names), len(data.classes)), dtype=np.int64)
    np.add.at(counts, (group, data.train.labels[data.labeled]), 1)
    instead = "or do without the check (folds=0, --folds 0)"
    for one in np.flatnonzero((counts > 0).sum(0) < 2):
        where = f"all labels of the class {data.classes[one]!r} are in the group {names[counts[:, one].argmax()]!r}"
        raise DataError(
            f"{where}, and a model can only be checked with labels of every class in two groups or more: label samples "
            f"of other groups, {instead}"
        )
    parts = min(5, len(names)) if folds == 1 else folds
    if parts > len(names):
        raise DataError(f"labels of {len(names)} groups are too few for {folds} folds; ask for {len(names)}, {instead}")
    for attempt in range(ATTEMPTS):
        order = np.lexsort((keys(first, seed, SALT, attempt), -counts.sum(1)))
        if (number := _places(counts, order, parts)) is not None:
            dealt = [np.sort(data.labeled[number[group] == part]) for part in range(parts)]
            return dealt[:folds]
    raise DataError(
        f"the {len(names)} groups with a label cannot be dealt to {parts} folds so that every class stays in training; "
        f"ask for more folds, {instead}"
    )


def _places(counts: NDArray[np.int64], order: NDArray[np.int64], parts: int) -> NDArray[np.int64] | None:
    """The fold of each group, (groups, classes) → (groups,); None if in this order a class would be held out whole."""
    place, held = np.full(len(counts), -1), np.zeros((parts, counts.shape[1]), dtype=np.int64)
    total = counts.sum(0)
    whole = math.lcm(*total.tolist())
    for group in order:
        there = np.flatnonzero(counts[group])
        weights = [whole // int(total[k]) * int(counts[group, k]) for k in there]  # a rare class counts as much
        choices = [
            (sum(map(mul, some[there].tolist(), weights)), int(some.sum()), number)
            for number, some in enumerate(held)
            if (some + counts[group] < total)[there].all()
        ]
        if not choices:
            return None
        place[group] = min(choices)[2]
        held[place[group]] += counts[group]
    return place


def without(data: Data, held: NDArray[np.int64], console: Console | None = None, *, kept: Kept | None = None) -> Data:
    """The data without some labeled samples and all others of their groups: as new to a model as any later one.

    An encoder that was tuned is tuned again without them, unless what the fold's run has `kept` of that is given.
    """
    gone = data.train.of_groups(held)
    left = replace(data, labeled=np.setdiff1d(data.labeled, gone), unlabeled=np.setdiff1d(data.seen, gone))
    return tune_again(left, console, kept)


def fold_of(data: Data, held: NDArray[np.int64], run: Run) -> Fold:
    """What a model makes of samples that it was not shown; `data` are those that `without` gave it."""
    data = as_seen_by(run, data)
    own = data.train.samples if run.is_tuned else None
    return Fold(run, torch.from_numpy(data.train.labels[held]), run.logits(data.train.samples[held]), own)


def weigh(data: Data, folds: Sequence[Fold], prior: Sequence[float] | None) -> Tensor:
    """The data's class shares over those of the labels: shares that are given, or (None) estimated. → (classes,)."""
    shares = torch.from_numpy(label_shares(data))
    if prior is None:
        # Not what is held out for validation: shares estimated from it would be checked on what they were fitted to.
        unlabeled = np.setdiff1d(data.seen, data.labeled)
        some = unlabeled[np.linspace(0, len(unlabeled) - 1, min(len(unlabeled), MOST_SCORED)).astype(np.int64)]
        if not len(some):
            return torch.ones_like(shares)
        found = []
        for fold in folds:  # each with its own temperature: EM wants calibrated probabilities
            heat = fit_temperature(fold.logits, fold.labels, fold.run.map)
            samples = data.train.samples if fold.samples is None else fold.samples
            found.append(fold.run.map(fold.run.logits(samples[some]).double() / heat))
        target = estimate_prior(torch.stack(found).mean(0), shares)
    else:
        target = torch.tensor(prior, dtype=torch.float64)
        target = target / target.sum()
    return target / shares
