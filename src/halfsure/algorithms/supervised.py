"""Learning from the labels alone, or from them and a distillation loss on unlabeled predictions."""

from collections.abc import Sequence
from typing import Any

from torch import nn

from halfsure.algorithms.algorithm import Algorithm, Losses, forward
from halfsure.simplex import SOFTMAX, Map
from halfsure.targets import Strategy
from halfsure.views.batch import Batch

__all__ = ["Supervised"]


class Supervised(Algorithm):
    """J_S, and with added strategies β J_D: `supervised+me` is entropy minimisation as it was first proposed."""

    name = "supervised"

    def __init__(self, map: Map | str = SOFTMAX, added: Sequence[Strategy] = (), **rest: Any) -> None:
        super().__init__(map, added, **rest)
        self.views = ("weak",) if added else ()

    def step(self, model: nn.Module, batch: Batch) -> Losses:
        """Labeled and unlabeled samples in one pass."""
        logits, *unlabeled = forward(model, batch.labeled, *batch.unlabeled)
        distillation, acted = self.distil(unlabeled[0] if unlabeled else logits[:0])
        return Losses(self.supervised(logits, batch.labels), logits.new_zeros(0), distillation, acted)
