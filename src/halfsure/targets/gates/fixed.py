"""FixMatch's gate: a fixed threshold."""

from dataclasses import dataclass

from torch import Tensor

from halfsure.settings import Fraction, Settings, register
from halfsure.targets.gate import Gate

__all__ = ["Fixed"]


@dataclass(frozen=True)
class _Settings(Settings):
    threshold: Fraction = 0.95
    """Probability of the best class from which on a sample counts; 0 takes every sample."""


@register
class Fixed(Gate):
    """A sample counts where the probability of its best class, in the method's own map, reaches the threshold.

    Examples:
        >>> import torch
        >>> from halfsure.targets.gates import Fixed
        >>> Fixed(0.9).weigh(torch.tensor([[0.95, 0.05], [0.6, 0.4]]))
        tensor([1., 0.])
    """

    name = "fixed"
    about = "counts where the best class has a probability of at least threshold"
    Settings = _Settings

    def __init__(self, threshold: float = _Settings.threshold) -> None:
        super().__init__()
        self.threshold = _Settings(threshold).threshold

    @property
    def open(self) -> bool:
        """A threshold of 0 lets every sample through."""
        return self.threshold == 0

    def weigh(self, probs: Tensor) -> Tensor:
        """1 or 0. (m, classes) → (m,)."""
        return (probs.amax(-1) >= self.threshold).to(probs.dtype)
