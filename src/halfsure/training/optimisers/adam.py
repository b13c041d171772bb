"""Adam, with or without decoupled weight decay."""

from typing import Any

from torch import optim
from torch.optim import Optimizer

from halfsure.settings import register
from halfsure.training.optimisers.optimiser import Optimiser

__all__ = ["Adam", "AdamW"]


@register
class Adam(Optimiser):
    """Adam; with weight decay it is AdamW."""

    name = "adam"
    about = "Adam; with weight decay it is AdamW"

    @classmethod
    def over(cls, groups: list[dict[str, Any]], settings: Any) -> Optimizer:
        """Of groups of parameters."""
        return (optim.AdamW if settings.weight_decay else optim.Adam)(groups, lr=settings.lr, fused=True)


@register
class AdamW(Optimiser):
    """Adam with decoupled weight decay."""

    name = "adamw"
    about = "Adam with decoupled weight decay"

    @classmethod
    def over(cls, groups: list[dict[str, Any]], settings: Any) -> Optimizer:
        """Of groups of parameters."""
        return optim.AdamW(groups, lr=settings.lr, fused=True)
