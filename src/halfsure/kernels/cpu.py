"""The kernels on the CPU: tensors in, addresses to the compiled code, several threads where there is enough to do."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halfsure.kernels import _numba
from halfsure.kernels._numba import LOSS, STATS

__all__ = ["ads_backward", "ads_forward", "loss_backward", "loss_forward", "probs_backward", "probs_forward"]

REAL: dict[torch.dtype, Any] = {torch.float32: np.float32, torch.float64: np.float64}
ENOUGH = 1 << 18  # numbers that are worth a second thread

Stats = NDArray[Any]
"""What is kept of each row, (n, 6), for the backward pass."""

# For small batches the calls below cost more than the work, so that they are written out: no helper in between, and
# small arrays by way of NumPy, which takes a third of torch's time.


def ads_forward(z: Tensor, *, mean: bool) -> tuple[Tensor, Stats]:
    """The ADS losses for r = 2, or their mean. (n, classes) → (n,) or scalar."""
    n, classes = z.shape
    stats = np.empty((n, STATS), REAL[z.dtype])
    if n * classes < ENOUGH:
        _numba.ads_forward(stats, classes, z.data_ptr())
    else:
        _share(_numba.ads_forward, stats, (z,))
    loss = np.array(_numba.mean_loss(stats), stats.dtype) if mean else stats[:, LOSS].copy()
    return torch.from_numpy(loss), stats


def ads_backward(z: Tensor, stats: Stats, grad: Tensor, scale: float) -> Tensor:
    """Gradient of the losses, each times its entry of `grad`, (n,) or one number for all, times `scale`."""
    out, stride = torch.empty_like(z), grad.stride(0) if grad.ndim else 0
    if z.numel() < ENOUGH:
        _numba.ads_backward(stats, z.shape[1], z.data_ptr(), grad.data_ptr(), out.data_ptr(), stride, scale)
    else:
        _share(_numba.ads_backward, stats, (z, grad, out), stride, scale)
    return out


def probs_forward(z: Tensor, out: Tensor) -> Stats:
    """Sparsemax, into `out`. (n, classes) → (n, classes)."""
    n, classes = z.shape
    stats = np.empty((n, STATS), REAL[z.dtype])
    if n * classes < ENOUGH:
        _numba.probs_forward(stats, classes, z.data_ptr(), out.data_ptr())
    else:
        _share(_numba.probs_forward, stats, (z, out))
    return stats


def probs_backward(probs: Tensor, stats: Stats, grad: Tensor) -> Tensor:
    """Gradient through sparsemax, from its result."""
    out = torch.empty_like(probs)
    if probs.numel() < ENOUGH:
        _numba.probs_backward(stats, probs.shape[1], probs.data_ptr(), grad.data_ptr(), out.data_ptr())
    else:
        _share(_numba.probs_backward, stats, (probs, grad, out))
    return out


def loss_forward(z: Tensor, target: Tensor) -> tuple[Tensor, Stats]:
    """The sparsemax losses against class indices (n,) or probabilities (n, classes). (n, classes) → (n,)."""
    n, classes = z.shape
    stats = np.empty((n, STATS), REAL[z.dtype])
    kernel = _numba.label_forward if target.ndim == 1 else _numba.soft_forward
    if n * classes < ENOUGH:
        kernel(stats, classes, z.data_ptr(), target.data_ptr())
    else:
        _share(kernel, stats, (z, target))
    return torch.from_numpy(stats[:, LOSS].copy()), stats


def loss_backward(z: Tensor, target: Tensor, stats: Stats, grad: Tensor) -> Tensor:
    """Gradient of the losses, each times its entry of `grad`, (n,)."""
    out, stride = torch.empty_like(z), grad.stride(0)
    kernel = _numba.label_backward if target.ndim == 1 else _numba.soft_backward
    if z.numel() < ENOUGH:
        kernel(stats, z.shape[1], z.data_ptr(), target.data_ptr(), grad.data_ptr(), out.data_ptr(), stride)
    else:
        _share(kernel, stats, (z, target, grad, out), stride)
    return out


def _share(kernel: Callable[..., None], stats: Stats, tensors: tuple[Tensor, ...], *numbers: float) -> None:
    """Give threads a part of the rows each, which are independent; every tensor has a row, or an entry, a sample."""
    n, classes = tensors[0].shape
    threads = min(torch.get_num_threads(), n)
    steps = [tensor.stride(0) * tensor.element_size() if tensor.ndim else 0 for tensor in tensors]
    cuts = [n * k // threads for k in range(threads + 1)]

    def part(first: int, last: int) -> None:
        addresses = [tensor.data_ptr() + first * step for tensor, step in zip(tensors, steps, strict=True)]
        kernel(stats[first:last], classes, *addresses, *numbers)

    if threads == 1:
        part(0, n)
        return
    with ThreadPoolExecutor(threads) as pool:  # a pool a call: a kept one would be without its threads after a fork
        list(pool.map(part, cuts[:-1], cuts[1:]))
