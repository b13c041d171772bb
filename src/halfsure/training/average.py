"""A copy of the model whose weights are averaged over the steps."""

import copy

import torch
from torch import Tensor, nn

__all__ = ["Average"]


def _lerp_each(weights: list[Tensor], new: list[Tensor], weight: float) -> None:
    for mine, current in zip(weights, new, strict=True):
        mine.lerp_(current, weight)


_lerp = getattr(torch, "_foreach_lerp_", _lerp_each)  # a name that torch does not promise; the bits are the same


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
        _lerp(self._weights, new, 1 - min(self.decay, (1 + step) / (10 + step)) if self.decay else 1.0)
        for mine, current in zip(self._buffers, model.buffers(), strict=True):
            mine.copy_(current)
