"""Stochastic gradient descent."""

from dataclasses import dataclass
from typing import Any

from torch import optim
from torch.optim import Optimizer

from halfsure.settings import Size, register
from halfsure.training.optimisers.optimiser import Optimiser, OptimiserSettings

__all__ = ["SGD"]


@dataclass(frozen=True)
class _Settings(OptimiserSettings):
    momentum: Size = 0.9
    """Nesterov's momentum of sgd."""


@register
class SGD(Optimiser):
    """SGD with Nesterov's momentum."""

    name = "sgd"
    about = "stochastic gradient descent with Nesterov's momentum"
    Settings = _Settings

    @classmethod
    def over(cls, groups: list[dict[str, Any]], settings: Any) -> Optimizer:
        """Of groups of parameters."""
        momentum = settings.momentum
        return optim.SGD(groups, lr=settings.lr, momentum=momentum, nesterov=momentum > 0, fused=True)
