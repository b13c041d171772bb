"""What every optimiser shares: weight decay on kernels alone, and a learning rate that changes over the run."""

import math
from dataclasses import dataclass
from typing import Any, Literal

from torch import nn
from torch.optim import Optimizer

from halfsure.nets.layers import Slow, kernels_and_rest
from halfsure.settings import Fraction, Settings, Size
from halfsure.settings.registry import Part

__all__ = ["Optimiser", "OptimiserSettings", "rate"]


@dataclass(frozen=True)
class OptimiserSettings(Settings):
    """What every optimiser can be told."""

    lr: Size = 2e-3
    """Learning rate."""
    weight_decay: Size = 0.0
    """Weight decay, on kernels only: decoupled for adamw (and for adam, which then is adamw), else in the gradient."""
    schedule: Literal["cosine", "linear", "drop", "constant"] = "cosine"
    """Learning rate over the run: cosine is cos(7π/16 · progress), linear falls to 0, drop is a fifth after 80 %."""
    warmup: Fraction = 0.0
    """Part of the run over which the learning rate rises from 0."""


class Optimiser(Part):
    """A way to turn gradients into updates."""

    role = "optimizer"
    Settings = OptimiserSettings

    @classmethod
    def make(cls, model: nn.Module, settings: Any) -> Optimizer:
        """The optimiser of all that a model has to learn, with weight decay on kernels only.

        A group with a `rate` learns at that part of the learning rate.
        """
        slow = [module for module in model.modules() if isinstance(module, Slow)]
        rates = {weight: module.rate for module in slow for weight in module.parameters()}
        groups = []
        for weights, decay in zip(kernels_and_rest(model), (settings.weight_decay, 0.0), strict=True):
            groups.append({"params": [weight for weight in weights if weight not in rates], "weight_decay": decay})
            for part in dict.fromkeys(rates.values()):
                some = [weight for weight in weights if rates.get(weight) == part]
                groups.append({"params": some, "weight_decay": decay, "rate": part})
        return cls.over([group for group in groups if group["params"]], settings)

    @classmethod
    def over(cls, groups: list[dict[str, Any]], settings: Any) -> Optimizer:
        """The optimiser of groups of parameters, each with its weight decay."""
        raise NotImplementedError(f"{cls.__name__} does not say what it is")


def rate(settings: OptimiserSettings, step: int, steps: int) -> float:
    """The learning rate of a step."""
    progress = step / steps
    factors = {
        "constant": 1.0,
        "linear": 1 - progress,
        "cosine": math.cos(7 / 16 * math.pi * progress),
        "drop": 0.2 if progress >= 0.8 else 1.0,
    }
    warmup = min(1.0, (step + 1) / (settings.warmup * steps)) if settings.warmup else 1.0
    return settings.lr * warmup * factors[settings.schedule]
