"""How far features are from what labels say of pairs: samples of one class together, of two classes apart."""

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["contrast", "cosine_regression"]


def cosine_regression(features: Tensor, labels: Tensor) -> Tensor:
    """The squared distance of each pair's cosine from 1 (one class) or 0 (two), as SetFit has it; a scalar.

    Pairs of one class and pairs of two weigh the same in total, however many there are. Features (n, d) have length
    one; labels are (n,).
    """
    same, different = _pairs(labels)
    cosines = features @ features.T
    return _mean((cosines - 1).square(), same) + _mean(cosines.square(), different)


def contrast(features: Tensor, labels: Tensor, temperature: float) -> Tensor:
    """Supervised contrast (Khosla et al. 2020, Eq. 2): each sample's own class among all others; a scalar.

    Features (n, d) have length one; labels are (n,). A sample alone in its class adds nothing.
    """
    same, different = _pairs(labels)
    logits = (features @ features.T) / temperature
    logits = logits.masked_fill(~(same | different), -torch.inf)  # a sample is not among its others
    losses = -F.log_softmax(logits, dim=1).masked_fill(~same, 0).sum(1)
    counts = same.sum(1)
    return (losses / counts.clamp(min=1)).sum() / (counts > 0).sum().clamp(min=1)


def _pairs(labels: Tensor) -> tuple[Tensor, Tensor]:
    """Which pairs are of one class, and which of two; no sample is a pair with itself. (n,) → (n, n) each."""
    equal = labels[:, None] == labels
    return equal & ~torch.eye(len(labels), dtype=torch.bool, device=labels.device), ~equal


def _mean(losses: Tensor, chosen: Tensor) -> Tensor:
    return losses[chosen].sum() / chosen.sum().clamp(min=1)
