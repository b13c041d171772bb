"""Scores of held-out samples → candidate sets that hold the true class as often as was asked for."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from halfsure._checks import check_real
from halfsure.simplex import Map, fenchel_young
from halfsure.trust._inputs import check_tensor, take_labels, take_logits, take_numbers
from halfsure.trust.guarantee import Guarantee, miss_rate, promise, promise_weighted

LARGEST = 2**53
"""Whole numbers from here on are no labels, and no float holds them all."""


def class_scores(logits: Tensor, map: Map) -> Tensor:
    """The map's Fenchel–Young loss of every class: how badly each class fits. (n, K) → (n, K).

    It tells classes apart that a sparse map gives the same probability, 0.

    Examples:
        >>> import torch
        >>> from halfsure.simplex import SPARSEMAX
        >>> from halfsure.trust import class_scores
        >>> class_scores(torch.tensor([[3.0, 0.0, -1.0]]), SPARSEMAX)
        tensor([[0., 3., 4.]], dtype=torch.float64)
    """
    wide = take_logits(logits)
    best, leader = wide.max(-1)
    # Of the loss Ω*(z) − z_y only the logit depends on the class.
    least = fenchel_young(map, wide, map(wide), leader).clamp(min=0)
    return least.unsqueeze(-1) + (best.unsqueeze(-1) - wide)


@dataclass(frozen=True, eq=False)
class Conformal:
    """Split conformal prediction (one fold), or cross-conformal (several): a model per fold and what it never saw.

    A class is a candidate for a sample unless it fits worse than almost every held-out sample's true class fitted.
    For this a sample must be as new to the models as the held-out ones: if they took part in training without their
    labels, so must it have, and if they did not, neither must it.

    Examples:
        >>> import torch
        >>> from halfsure.trust import Conformal
        >>> held_out = torch.tensor([0.0, 0.1, 0.1, 0.2, 0.3, 0.4, 0.6, 0.9, 1.5])
        >>> conformal = Conformal((held_out,), (torch.tensor([0, 1, 0, 1, 0, 1, 0, 1, 0]),))
        >>> scores = torch.tensor([[0.2, 1.0], [0.0, 3.0]])
        >>> conformal.p_values([scores])
        tensor([[0.7000, 0.2000],
                [1.0000, 0.1000]], dtype=torch.float64)
        >>> conformal.sets([scores], coverage=0.9)
        tensor([[ True,  True],
                [ True, False]])
        >>> conformal.guarantee(0.9).level
        0.9
    """

    scores: tuple[Tensor, ...]
    """By fold: `class_scores` of the true class of the held-out samples, by that fold's model. (n_k,)."""
    labels: tuple[Tensor, ...]
    """By fold: the true classes. (n_k,)."""
    weights: Tensor | None = None
    """By class: its share of the data over its share of the labels. (K,); None: the labels are a random sample."""

    def __post_init__(self) -> None:
        if not 1 <= len(self.scores) == len(self.labels):
            raise ValueError(
                "a conformal prediction needs at least one fold, and scores and labels for each, "
                f"got {len(self.scores)} folds of scores and {len(self.labels)} of labels"
            )
        weights = self.weights
        if weights is not None:
            check_tensor("class weights", weights)
            weights = take_numbers("class weights", weights, weights.numel(), at_least=0)
        classes = None if weights is None else len(weights)
        for one in self.scores:
            check_tensor("held-out scores", one)
        sizes = [one.numel() for one in self.scores]
        scores = tuple(take_numbers("held-out scores", one, n) for one, n in zip(self.scores, sizes, strict=True))
        labels = tuple(take_labels(one, n, classes) for one, n in zip(self.labels, sizes, strict=True))
        for name, value in (("scores", scores), ("labels", labels), ("weights", weights)):
            object.__setattr__(self, name, value)

    def p_values(self, scores: Sequence[Tensor]) -> Tensor:
        """Share of samples, the new one and all held out, that fit no better than each class. By fold (n, K) → (n, K).

        With weights a sample counts by its class, the new one by the class it is tried for (Podkopaev and Ramdas 2021).
        """
        new = self._take_scores(scores)
        own = self.weights if self.weights is not None else torch.ones(new[0].shape[-1], dtype=torch.float64)
        matching = torch.zeros_like(new[0])
        for held_out, labels, some in zip(self.scores, self.labels, new, strict=True):
            ascending, order = held_out.sort()
            weight = own[labels[order]]
            from_here_on = torch.cat([weight.flip(0).cumsum(0).flip(0), weight.new_zeros(1)])
            matching += from_here_on[torch.searchsorted(ascending, some)]
        whole = own[torch.cat(self.labels)].sum() + own
        return ((matching + own) / whole).where(whole > 0, 1.0).clamp(max=1)  # no weight at all speaks against nothing

    def sets(self, scores: Sequence[Tensor], coverage: float, *, at_least_one: bool = True) -> Tensor:
        """Which classes are candidates, p > 1 − coverage. By fold (n, K) → bool (n, K).

        A set that would be empty gets the class of the largest p-value, of equal ones the one that fits best; coverage
        can only rise by it.
        """
        rate = miss_rate(coverage)
        p_values = self.p_values(scores)
        sets = p_values > rate
        if at_least_one:
            fit = sum(self._take_scores(scores), torch.zeros_like(p_values))
            best = fit.where(p_values == p_values.amax(-1, keepdim=True), torch.inf).argmin(-1, keepdim=True)
            sets = sets | (torch.zeros_like(sets).scatter(-1, best, True) & ~sets.any(-1, keepdim=True))
        return sets

    def guarantee(self, coverage: float) -> Guarantee:
        """What theory promises of `sets(…, coverage)`.

        One fold: the coverage asked for. Several: the bound of Vovk, Nouretdinov, Manokhin and Gammerman (2018), about
        `2 · coverage − 1`. Weights: nothing, since they are estimated.
        """
        if self.weights is None:
            return promise(coverage, [len(labels) for labels in self.labels])
        whole = self.weights[torch.cat(self.labels)].sum() + self.weights
        always = self.weights >= miss_rate(coverage) * whole
        return promise_weighted(coverage, int(always.sum()), len(self.weights))

    def to_json(self) -> dict[str, Any]:
        """Plain lists."""
        return {
            "scores": [scores.tolist() for scores in self.scores],
            "labels": [labels.tolist() for labels in self.labels],
            "weights": None if self.weights is None else self.weights.tolist(),
        }

    @classmethod
    def from_json(cls, values: Any) -> "Conformal":
        """Read what `to_json` gave; anything else is refused."""
        if not isinstance(values, dict) or set(values) != {"scores", "labels", "weights"}:
            raise ValueError("a conformal prediction must be stored as scores, labels and weights, and is not")
        scores, labels, weights = values["scores"], values["labels"], values["weights"]
        if not (isinstance(scores, list) and isinstance(labels, list) and len(scores) == len(labels) > 0):
            raise ValueError("scores and labels of a conformal prediction must be stored as one list a fold")
        return cls(
            tuple(_read("scores", fold, float) for fold in scores),
            tuple(_read("labels", fold, int) for fold in labels),
            None if weights is None else _read("weights", weights, float),
        )

    def _take_scores(self, scores: Sequence[Tensor]) -> list[Tensor]:
        """New scores in float64, fold by fold, once their shapes fit."""
        if len(scores) != len(self.scores):
            raise ValueError(
                f"scores must come from the model of each of the {len(self.scores)} folds, got {len(scores)}"
            )
        for one in scores:
            check_real("scores", one)
            if one.ndim != 2 or one.shape != scores[0].shape:
                raise ValueError(f"scores must be (n, classes), the same for every fold, got {tuple(one.shape)}")
            if not one.isfinite().all():
                raise ValueError("scores must be finite; those of diverged models and masked classes are not")
        classes = scores[0].shape[-1]
        if self.weights is not None and len(self.weights) != classes:
            raise ValueError(f"scores are of {classes} classes and the weights of {len(self.weights)}")
        highest = max((int(labels.max()) for labels in self.labels if len(labels)), default=0)
        if highest >= classes:
            raise ValueError(f"scores are of {classes} classes, and a held-out label is {highest}")
        return [one.detach().cpu().double().contiguous() for one in scores]


def _read(name: str, values: Any, kind: type) -> Tensor:
    """A stored list of numbers as a tensor; true and false are none."""
    allowed = (int,) if kind is int else (int, float)
    if not isinstance(values, list) or not all(type(value) in allowed for value in values):
        raise ValueError(f"{name} of a conformal prediction must be stored as a list of numbers")
    if any(abs(value) >= LARGEST for value in values if type(value) is int):
        raise ValueError(f"{name} of a conformal prediction hold a number beyond all bounds")
    return torch.tensor(values, dtype=torch.long if kind is int else torch.float64)
