"""FixMatch (Sohn et al., 2020): a weak view names the target, a strong view of the same sample has to meet it."""

from collections.abc import Sequence
from typing import Any

from torch import nn

from halfsure.algorithms.base import Batch, Losses, TargetedAlgorithm, acts, forward
from halfsure.algorithms.distances import distance as find_distance
from halfsure.distill import PseudoLabel, Strategy

__all__ = ["FixMatch"]


class FixMatch(TargetedAlgorithm):
    """J_S + α J_C: the strategy's target of the weak view against the prediction of the strong view.

    With PseudoLabel this is FixMatch, with ADS it is FixMatch-ADS: a sharpened sparse target and no threshold. Samples
    the strategy leaves alone count as 0. Labeled, weak and strong samples take one joint pass, which updates batch-norm
    statistics. The added strategies act on the weak logits, with their gradient.
    """

    name = "fixmatch"
    views = ("weak", "strong")
    settings = ("distance",)

    def __init__(
        self, strategy: Strategy | None = None, added: Sequence[Strategy] = (), *, distance: str = "fy", **rest: Any
    ) -> None:
        super().__init__(strategy or PseudoLabel(), added, **rest)
        self.distance = find_distance(distance)

    def step(self, model: nn.Module, batch: Batch) -> Losses:
        """One pass over everything."""
        logits, weak, strong = forward(model, batch.labeled, *batch.unlabeled)
        probs = self.map(weak.detach())
        target = self.strategy.target(weak) if self.prior is None else self.strategy.guess(self.prior(probs))
        distillation, acted = self.distil(weak)
        return Losses(
            supervised=self.supervised(logits, batch.labels),
            consistency=target.weight * self.distance(self.map, strong, target.probs),
            distillation=distillation,
            diagnostics={"used": target.weight, "sharpened": acts(target, probs), **acted},
        )
