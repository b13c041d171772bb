"""FixMatch (Sohn et al., 2020): a weak view names the target, a strong view of the same sample has to meet it."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from halfsure.algorithms.algorithm import Losses, TargetedAlgorithm, acts, forward
from halfsure.algorithms.distances import distance as find_distance
from halfsure.nets.layers import frozen_statistics
from halfsure.targets import PseudoLabel, Strategy
from halfsure.views.batch import Batch

__all__ = ["FixMatch"]


class FixMatch(TargetedAlgorithm):
    """J_S + α J_C: the strategy's target of the weak view against the prediction of the strong view.

    With PseudoLabel this is FixMatch, with ADS it is FixMatch-ADS: a sharpened sparse target and no threshold. Samples
    the strategy leaves alone count as 0. Labeled, weak and strong samples take one joint pass, which updates batch-norm
    statistics. The added strategies act on the weak logits, with their gradient.

    Without `weak_grad` the weak samples take a pass of their own before the others, which keeps no gradient and leaves
    batch-norm statistics alone. The gradient is the same, for targets have none, but where samples of a pass share
    something: batch norm then takes the weak samples by themselves, and dropout draws other masks.
    """

    name = "fixmatch"
    views = ("weak", "strong")
    settings = ("distance", "weak_grad")

    def __init__(
        self,
        strategy: Strategy | None = None,
        added: Sequence[Strategy] = (),
        *,
        distance: str = "fy",
        weak_grad: bool = True,
        **rest: Any,
    ) -> None:
        super().__init__(strategy or PseudoLabel(), added, **rest)
        self.distance = find_distance(distance)
        if added and not weak_grad:
            raise ValueError(
                f"{added[0]} is added as a loss on the weak views and needs their gradient: leave weak_grad on, or "
                "leave the added strategy away"
            )
        self.weak_grad = weak_grad
        """Whether weak views take part in the joint pass; if not, they take one of their own without a gradient."""

    def step(self, model: nn.Module, batch: Batch) -> Losses:
        """One pass over everything, or one over the weak views and one over the rest."""
        logits, weak, strong = self._logits(model, batch)
        probs = self.map(weak.detach())
        target = self.strategy.target(weak) if self.prior is None else self.guess(self.prior(probs))
        distillation, acted = self.distil(weak)
        return Losses(
            supervised=self.supervised(logits, batch.labels),
            consistency=target.weight * self.distance(self.map, strong, target.probs),
            distillation=distillation,
            diagnostics={"used": target.weight, "sharpened": acts(target, probs), **acted},
        )

    def _logits(self, model: nn.Module, batch: Batch) -> tuple[Tensor, ...]:
        """Of the labeled samples, the weak views and the strong views. → (n, classes), (m, classes), (m, classes)."""
        if self.weak_grad:
            return forward(model, batch.labeled, *batch.unlabeled)
        weak_view, strong_view = batch.unlabeled
        with frozen_statistics(model), torch.no_grad():
            (weak,) = forward(model, weak_view)
        logits, strong = forward(model, batch.labeled, strong_view)
        return logits, weak, strong
