"""FixMatch (Sohn et al., 2020): a weak view names the target, a strong view of the same sample has to meet it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from halfsure.algorithms.algorithm import TargetedAlgorithm, TargetedSettings, acts
from halfsure.algorithms.context import Context, forward
from halfsure.algorithms.distances import Distance, distance_of
from halfsure.algorithms.losses import Losses
from halfsure.nets.layers import frozen_statistics
from halfsure.settings import register
from halfsure.targets import PseudoLabel, Strategy
from halfsure.views.batch import Batch

__all__ = ["FixMatch"]


@dataclass(frozen=True)
class _Settings(TargetedSettings):
    distance: Distance = "fy"
    """Between prediction and target: fy the map's own loss, l2 squared differences, kl clamped."""
    weak_grad: bool | None = None
    """Weak views take part in the joint pass. Without, they take one of their own that keeps no gradient: faster, and
    the same but for batch norm, which then sees them by themselves, and dropout. If not given: off for halfsure's own
    networks that have neither, on for all others."""


@register
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
    about = "targets from weak views, met by strong views"
    built_in = PseudoLabel.name
    views = ("weak", "strong")
    Settings = _Settings

    def __init__(
        self,
        strategy: Strategy | None = None,
        added: Sequence[Strategy] = (),
        *,
        distance: Distance = _Settings.distance,
        weak_grad: bool | None = None,
        **rest: Any,
    ) -> None:
        super().__init__(strategy or PseudoLabel(), added, **rest)
        self.distance = distance_of(distance)
        if added and weak_grad is False:
            raise ValueError(
                f"{added[0]} is added as a loss on the weak views and needs their gradient: leave weak_grad on, or "
                "leave the added strategy away"
            )
        self.weak_grad = weak_grad
        """Whether weak views take part in the joint pass; None is yes, until `settle` knows the network."""

    def settle(self, separable: bool) -> None:
        """Without being told, spare the gradient of weak views where that changes nothing else."""
        if self.weak_grad is None:
            self.weak_grad = len(self.added) > 0 or not separable

    def step(self, context: Context) -> Losses:
        """One pass over everything, or one over the weak views and one over the rest."""
        batch = context.batch
        logits, weak, strong = self._logits(context.model, batch)
        probs = self.map(weak.detach())
        self.see_probs(context, probs, logits)
        target = self.strategy.target(weak) if self.prior is None else self.strategy.aim(self.aligned(context, probs))
        distillation, acted = self.distil(weak)
        return Losses(
            supervised=self.supervised(logits, batch.labels),
            consistency=target.weight * self.distance(self.map, strong, target.probs),
            distillation=distillation,
            diagnostics={"used": target.weight, "sharpened": acts(target, probs), **acted},
        )

    def _logits(self, model: nn.Module, batch: Batch) -> tuple[Tensor, ...]:
        """Of the labeled samples, the weak views and the strong views. → (n, classes), (m, classes), (m, classes)."""
        if self.weak_grad is not False:
            return forward(model, batch.labeled, *batch.unlabeled)
        weak_view, strong_view = batch.unlabeled
        with frozen_statistics(model), torch.no_grad():
            (weak,) = forward(model, weak_view)
        logits, strong = forward(model, batch.labeled, strong_view)
        return logits, weak, strong
