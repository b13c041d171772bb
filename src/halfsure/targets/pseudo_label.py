"""Pseudo-labels: towards the best class alone, where it is sure enough."""

import torch
from torch import Tensor

from halfsure._checks import check_number
from halfsure.simplex import SOFTMAX, Map, fenchel_young
from halfsure.targets.strategy import Strategy, Target

__all__ = ["PseudoLabel"]


class PseudoLabel(Strategy):
    """Pull p towards its best class where `max p ≥ threshold`; 0 takes every sample. (batch, classes) → scalar.

    Samples below the threshold count as 0 in the mean.

    Examples:
        >>> import torch, halfsure
        >>> strategy = halfsure.PseudoLabel(threshold=0.95)
        >>> strategy.target(torch.tensor([[0.0, 9.0], [0.0, 1.0]]))
        Target(probs=tensor([[0., 1.],
                [0., 1.]]), weight=tensor([1., 0.]))
    """

    settings = ("threshold",)

    def __init__(self, threshold: float = 0.95, map: Map | str = SOFTMAX) -> None:
        super().__init__(map)
        self.threshold = check_number("threshold", threshold, 0, 1)

    def _losses(self, logits: Tensor) -> Tensor:
        probs = self.map(logits)
        targets, weight = self._guess(probs.detach())
        return weight * fenchel_young(self.map, logits, probs, targets)

    def _guess(self, probs: Tensor) -> Target:
        best = probs.max(-1, keepdim=True)
        one_hot = (0 * probs).scatter_add(-1, best.indices, torch.ones_like(best.values))  # a NaN row stays NaN
        return Target(one_hot, (best.values.squeeze(-1) >= self.threshold).to(probs.dtype))
