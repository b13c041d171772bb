"""Minimum entropy: a loss without an explicit target."""

from torch import Tensor

from halfsure.settings import register
from halfsure.simplex import negative_shannon
from halfsure.targets.strategy import Strategy

__all__ = ["MinEntropy"]


@register
class MinEntropy(Strategy):
    """Minimum entropy: `−Σ p log p`. (batch, classes) → scalar.

    Examples:
        >>> import torch, halfsure
        >>> halfsure.MinEntropy().losses(torch.tensor([[0.0, 0.0], [9.0, 0.0]]))
        tensor([0.6931, 0.0012])
    """

    name = "me"
    about = "minimum entropy: lower the entropy of every prediction"

    def cost(self, logits: Tensor) -> Tensor:
        """The entropy. (batch, classes) → (batch,)."""
        return 0 - negative_shannon(self.map(logits))  # a minus sign would give −0 for sure predictions
