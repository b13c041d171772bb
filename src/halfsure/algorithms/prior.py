"""A known class distribution of the unlabeled data, held against what the model predicts."""

from collections.abc import Sequence

import torch
from torch import Tensor, distributed, nn

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

    def forward(self, probs: Tensor) -> Tensor:
        """Take the batch into the running shares, then scale it."""
        probs = probs.detach()
        if probs.shape[-1] != len(self.prior):
            raise ValueError(f"the prior has {len(self.prior)} classes, the predictions {probs.shape[-1]}")
        sums = torch.cat([probs.sum(0), probs.new_tensor([len(probs)])])
        if distributed.is_available() and distributed.is_initialized():
            distributed.all_reduce(sums)
        # Without any sample nothing is learnt; an `if` would make the host wait for the device.
        shares, some = sums[:-1] / sums[-1].clamp(min=1), sums[-1] > 0
        self.running.lerp_(shares.to(self.running), (1 - self.momentum) * some.to(self.running))
        return self.scale(probs)

    def scale(self, probs: Tensor) -> Tensor:
        """Scale by the shares as they are. (batch, classes) → (batch, classes)."""
        scaled = probs * (self.prior / self.running.clamp(min=1e-6)).to(probs)
        return scaled / scaled.sum(-1, keepdim=True)
