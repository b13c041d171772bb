"""Optimiser, learning-rate schedule and averaged weights."""

import copy
import math

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from halfsure.engine.config import Config
from halfsure.nets.layers import kernels_and_rest

__all__ = ["Average", "make_optimizer", "rate"]


def make_optimizer(model: nn.Module, config: Config) -> Optimizer:
    """The optimiser of a config, with weight decay on kernels only."""
    kernels, rest = kernels_and_rest(model)
    groups = [{"params": kernels, "weight_decay": config.weight_decay}, {"params": rest, "weight_decay": 0.0}]
    groups = [group for group in groups if group["params"]]
    if config.optimizer == "sgd":
        return SGD(groups, lr=config.lr, momentum=config.momentum, nesterov=config.momentum > 0, fused=True)
    kind = Adam if config.optimizer == "adam" and config.weight_decay == 0 else AdamW
    return kind(groups, lr=config.lr, fused=True)


def rate(config: Config, step: int) -> float:
    """The learning rate of a step."""
    progress = step / config.steps
    factors = {
        "constant": 1.0,
        "linear": 1 - progress,
        "cosine": math.cos(7 / 16 * math.pi * progress),
        "drop": 0.2 if progress >= 0.8 else 1.0,
    }
    warmup = min(1.0, (step + 1) / (config.warmup * config.steps)) if config.warmup else 1.0
    return config.lr * warmup * factors[config.schedule]


class Average:
    """A copy of the model with exponentially averaged weights: the one that is evaluated and saved.

    Buffers, the statistics of batch norm among them, are copied. In the first steps the decay is held down to
    (1 + t)/(10 + t), or a short run would be judged by its initial weights.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.model = copy.deepcopy(model).eval().requires_grad_(False)
        self._weights: list[Tensor] = list(self.model.parameters())
        self._buffers = list(self.model.buffers())

    @torch.no_grad()
    def update(self, model: nn.Module, step: int) -> None:
        """Take the weights after a step in."""
        new: list[Tensor] = list(model.parameters())
        torch._foreach_lerp_(self._weights, new, 1 - min(self.decay, (1 + step) / (10 + step)) if self.decay else 1.0)
        for mine, current in zip(self._buffers, model.buffers(), strict=True):
            mine.copy_(current)
