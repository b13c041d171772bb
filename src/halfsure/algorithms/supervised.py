"""Learning from the labels alone, or from them and a distillation loss on unlabeled predictions."""

from collections.abc import Sequence
from typing import Any

from halfsure.algorithms.algorithm import Algorithm
from halfsure.algorithms.context import Context, forward
from halfsure.algorithms.losses import Losses
from halfsure.settings import register
from halfsure.simplex import SOFTMAX, Map
from halfsure.targets import Strategy

__all__ = ["Supervised"]


@register
class Supervised(Algorithm):
    """J_S, and with added strategies β J_D: `supervised+me` is entropy minimisation as it was first proposed."""

    name = "supervised"
    about = "the labels alone"

    def __init__(self, map: Map | str = SOFTMAX, added: Sequence[Strategy] = (), **rest: Any) -> None:
        super().__init__(map, added, **rest)
        self.views = ("weak",) if added else ()

    def step(self, context: Context) -> Losses:
        """Labeled and unlabeled samples in one pass."""
        logits, *unlabeled = forward(context.model, context.batch.labeled, *context.batch.unlabeled)
        weak = unlabeled[0] if unlabeled else logits[:0]
        self.see(context, weak, logits)
        distillation, acted = self.distil(weak)
        supervised = self.supervised(logits, context.batch.labels)
        return Losses(supervised=supervised, distillation=distillation, diagnostics=acted)
