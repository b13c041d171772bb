"""What the functions of this folder accept, brought to float64 on the CPU."""

import torch
from torch import Tensor

from halfsure._checks import check_labels, check_logits

ROUNDING = 1e-12
"""Two rates nearer than this are the same: 1 − 0.9 is not quite 0.1."""


def take_logits(logits: Tensor) -> Tensor:
    """Accept finite logits. (n, classes) → (n, classes)."""
    check_logits(logits)
    broken = ~logits.isfinite().all(-1)
    if broken.any():
        rows = broken.nonzero().flatten()
        raise ValueError(
            f"{len(rows)} of {len(broken)} rows of logits are not finite, the first is row {int(rows[0])}; "
            "the model has diverged, or classes are masked by −inf"
        )
    return logits.detach().cpu().double()


def take_labels(labels: Tensor, n: int, classes: int | None) -> Tensor:
    """Accept one class index a sample, of any number of classes if it is not known. (n,) → (n,)."""
    check_tensor("labels", labels)
    labels = labels.detach().cpu()
    if classes is None:
        countable = labels.numel() and not (labels.is_floating_point() or labels.is_complex())
        classes = max(int(labels.max()), 0) + 1 if countable else 1
    check_labels(labels, n, classes)
    return labels.long()


def take_numbers(name: str, values: Tensor, n: int, at_least: float = -torch.inf) -> Tensor:
    """Accept finite numbers that are not too small. (n,) → (n,)."""
    check_tensor(name, values)
    if values.shape != (n,):
        raise ValueError(f"{name} must be ({n},), got {tuple(values.shape)}")
    if values.dtype == torch.bool or values.is_complex():
        raise ValueError(f"{name} must be numbers, got {values.dtype}; convert them with .float()")
    values = values.detach().cpu().double()
    if not (values.isfinite() & (values >= at_least)).all():
        wanted = "finite" if at_least == -torch.inf else f"finite and at least {at_least:g}"
        raise ValueError(f"{name} must be {wanted}, got values from {values.min():g} to {values.max():g}")
    return values


def take_weights(weights: Tensor | None, n: int) -> Tensor:
    """Accept a weight a sample, 1 each without any. (n,) → (n,)."""
    if weights is None:
        return torch.ones(n, dtype=torch.float64)
    return take_numbers("weights", weights, n, at_least=0)


def take_flags(name: str, values: Tensor, n: int) -> Tensor:
    """Accept a yes or no a sample. (n,) → (n,)."""
    check_tensor(name, values)
    if values.dtype != torch.bool or values.shape != (n,):
        raise ValueError(f"{name} must be bool of shape ({n},), got {values.dtype} of shape {tuple(values.shape)}")
    return values.detach().cpu()


def check_tensor(name: str, values: Tensor) -> None:
    """Accept a tensor."""
    if not isinstance(values, Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, got {type(values).__name__}; try torch.as_tensor(...)")
