"""Optimiser, learning-rate schedule and averaged weights."""

import math

from torch import nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from halfsure.nets.layers import kernels_and_rest
from halfsure.training.config import Config

__all__ = ["make_optimizer", "rate"]


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
