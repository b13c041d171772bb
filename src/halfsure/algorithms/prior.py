"""A known class distribution of the unlabeled data, held against what the model predicts."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from halfsure._checks import check_number

__all__ = ["Prior"]


class Prior(nn.Module):
    """Scale predictions so that their class shares move towards a prior. (batch, classes) → (batch, classes).

    Each class is multiplied by its prior over its running share of the predictions, and rows are renormalised. Classes
    that a sparse prediction has left out stay out. The running shares start at the prior: at first nothing changes.
    """

    def __init__(self, prior: Sequence[float], momentum: float = 0.99) -> None:
        super().__init__()
        given = [check_number("a class share of the prior", share, 1e-6) for share in prior]
        shares = torch.tensor(given, dtype=torch.float64)  # in a float64 run no digit is lost
        self.momentum = check_number("momentum", momentum, 0, 1)
        self.prior: Tensor
        self.running: Tensor
        self.register_buffer("prior", shares / shares.sum(), persistent=False)
        self.register_buffer("running", self.prior.clone())

    def observe(self, probs: Tensor) -> None:
        """Take the predictions of a step, of all ranks, into the running shares. (batch, classes) → nothing."""
        if probs.shape[-1] != len(self.prior):
            raise ValueError(f"the prior has {len(self.prior)} classes, the predictions {probs.shape[-1]}")
        if len(probs):
            self.running.lerp_((probs.sum(0) / len(probs)).to(self.running), 1 - self.momentum)

    def scale(self, probs: Tensor) -> Tensor:
        """Scale by the shares as they are. (batch, classes) → (batch, classes)."""
        scaled = probs * (self.prior / self.running.clamp(min=1e-6)).to(probs)
        return scaled / scaled.sum(-1, keepdim=True)
