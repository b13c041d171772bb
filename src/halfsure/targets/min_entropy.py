"""Minimum entropy: a loss without an explicit target."""

from torch import Tensor

from halfsure.simplex import negative_shannon
from halfsure.targets.strategy import Strategy

__all__ = ["MinEntropy"]


class MinEntropy(Strategy):
    """Minimum entropy: `−Σ p log p`. (batch, classes) → scalar.

    Examples:
        >>> import torch, halfsure
        >>> halfsure.MinEntropy().losses(torch.tensor([[0.0, 0.0], [9.0, 0.0]]))
        tensor([0.6931, 0.0012])
    """

    def _losses(self, logits: Tensor) -> Tensor:
        return 0 - negative_shannon(self.map(logits))  # a minus sign would give −0 for sure predictions
