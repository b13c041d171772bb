"""What the functions of this package accept: every refusal, in words, in one place."""

import math
from operator import index
from typing import SupportsFloat, SupportsIndex

import numpy as np
import torch
from torch import Tensor

__all__ = ["check_count", "check_labels", "check_logits", "check_number", "check_probs", "check_real"]

# How far a row's sum may be from 1 before it is taken for a mistake: wide enough for rows that were computed, mixed or
# averaged in half precision, whatever type they have now.
SIMPLEX_TOLERANCE = 1e-2


def check_number(
    name: str,
    value: SupportsFloat | str,
    at_least: float,
    at_most: float = math.inf,
    *,
    why: str = "",
    text: bool = False,
) -> float:
    """Return a setting as a float, or say which range it has to lie in; only with `text` is "2" a number."""
    other = isinstance(value, bool | bytes | bytearray) or (isinstance(value, str) and not text)
    other = other or (isinstance(value, np.generic) and not isinstance(value, np.integer | np.floating))
    try:
        number = math.nan if other else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if at_least <= number <= at_most and number < math.inf:
        return number
    # Put together only here: a compiler that traces a setting cannot trace its text.
    wanted = f"from {at_least:g} to {at_most:g}" if at_most < math.inf else f"of at least {at_least:g}"
    raise ValueError(f"{name} must be a finite number {wanted}, got {value!r:.60}" + (f"; {why}" if why else ""))


def check_count(name: str, value: SupportsIndex, at_least: int = 0) -> int:
    """Return a whole number as an int, or say that it is none or too small."""
    try:
        number = -1 if isinstance(value, bool | np.bool_) else index(value)
    except TypeError:
        number = -1
    if not at_least <= number < 2**63:
        raise ValueError(f"{name} must be a whole number of at least {at_least}, got {value!r:.60}")
    return number


def check_real(name: str, values: Tensor, dim: int = -1) -> None:
    """Accept a floating-point tensor with at least one entry along an existing dimension."""
    if not isinstance(values, Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, got {type(values).__name__}; try torch.as_tensor(...)")
    if not values.is_floating_point():
        raise ValueError(f"{name} must be floating point, got {values.dtype}; convert them with .float()")
    if not -values.ndim <= dim < values.ndim:
        raise ValueError(f"{name} of shape {tuple(values.shape)} have no dimension {dim}")
    if values.shape[dim] == 0:
        raise ValueError(f"{name} of shape {tuple(values.shape)} have no classes along dimension {dim}")


def check_logits(logits: Tensor) -> None:
    """Accept floating-point logits of shape (batch, classes)."""
    check_real("logits", logits)
    if logits.ndim != 2:
        hint = "add a batch dimension with [None]" if logits.ndim == 1 else "flatten the leading dimensions"
        raise ValueError(f"logits must be (batch, classes), got {tuple(logits.shape)}; {hint}")


def check_labels(labels: Tensor, batch: int, classes: int) -> None:
    """Accept one class index a sample, 0 … classes − 1."""
    if labels.is_floating_point() or labels.dtype == torch.bool or labels.is_complex():
        raise ValueError(f"class indices must be integers, got {labels.dtype} of shape {tuple(labels.shape)}")
    if labels.shape != (batch,):
        raise ValueError(
            f"class indices must be ({batch},), one a sample, got {tuple(labels.shape)}; "
            "one-hot targets are taken as probabilities: convert them with .float()"
        )
    labels = labels.long()  # in a small integer type the number of classes itself may wrap
    if _is_false(((labels >= 0) & (labels < classes)).all()):
        raise ValueError(
            f"class indices must lie in 0 … {classes - 1}, got {labels.min()} … {labels.max()}; "
            "leave unlabeled samples (−1) out of a supervised loss"
        )


def check_probs(name: str, probs: Tensor, dim: int = -1) -> None:
    """Accept rows of finite numbers that are not negative and sum to one."""
    check_real(name, probs, dim)
    values = probs.detach().float()
    off = (values.sum(dim) - 1).abs()
    if _is_false((values >= 0).all() & (off <= SIMPLEX_TOLERANCE).all()):
        raise ValueError(
            f"{name} must be probabilities: finite, not negative and summing to 1 along dimension {dim}; "
            f"got values from {values.min():g} to {values.max():g} and sums off by up to {off.max():g}"
        )


def _is_false(condition: Tensor) -> bool:
    """Whether a condition is known to fail.

    Values are looked at on the CPU only: elsewhere a look would make the host wait for the device, and under
    compilation or vmap there is nothing to look at yet.
    """
    if condition.device.type != "cpu" or torch.compiler.is_compiling():
        return False
    try:
        return not bool(condition)
    except RuntimeError:  # vmap has no single truth to give
        return False
