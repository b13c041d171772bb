"""The kernels on the CPU: tensors in, addresses to the compiled code, several threads where there is enough to do."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halfsure.kernels import _numba

__all__ = ["ads_backward", "ads_forward", "loss_backward", "loss_forward", "probs_backward", "probs_forward"]

REAL: dict[torch.dtype, Any] = {torch.float32: np.float32, torch.float64: np.float64}
ENOUGH = 1 << 18  # numbers that are worth a second thread

Stats = NDArray[Any]
"""What is kept of each row, (n, 6), for the backward pass."""


def ads_forward(z: Tensor, *, mean: bool) -> tuple[Tensor, Stats]:
    """The ADS losses for r = 2, or their mean. (n, classes) → (n,) or scalar."""
    stats = _run(_numba.ads_forward, _stats(z), z)
    return torch.from_numpy(np.array(_numba.mean_loss(stats), stats.dtype) if mean else _losses(stats)), stats


def ads_backward(z: Tensor, stats: Stats, grad: Tensor, scale: float) -> Tensor:
    """Gradient of the losses, each times its entry of `grad`, (n,) or one number for all, times `scale`."""
    out = torch.empty_like(z)
    _run(_numba.ads_backward, stats, z, grad, out, numbers=(_stride(grad), scale))
    return out


def probs_forward(z: Tensor) -> tuple[Tensor, Stats]:
    """Sparsemax. (n, classes) → (n, classes)."""
    out = torch.empty_like(z)
    return out, _run(_numba.probs_forward, _stats(z), z, out)


def probs_backward(probs: Tensor, stats: Stats, grad: Tensor) -> Tensor:
    """Gradient through sparsemax, from its result."""
    out = torch.empty_like(probs)
    _run(_numba.probs_backward, stats, probs, grad, out)
    return out


def loss_forward(z: Tensor, target: Tensor) -> tuple[Tensor, Stats]:
    """The sparsemax losses against class indices (n,) or probabilities (n, classes). (n, classes) → (n,)."""
    kernel = _numba.label_forward if target.ndim == 1 else _numba.soft_forward
    stats = _run(kernel, _stats(z), z, target)
    return torch.from_numpy(_losses(stats)), stats


def loss_backward(z: Tensor, target: Tensor, stats: Stats, grad: Tensor) -> Tensor:
    """Gradient of the losses, each times its entry of `grad`, (n,)."""
    out = torch.empty_like(z)
    kernel = _numba.label_backward if target.ndim == 1 else _numba.soft_backward
    _run(kernel, stats, z, target, grad, out, numbers=(_stride(grad),))
    return out


def _stats(z: Tensor) -> Stats:
    # By way of NumPy, here and above, which takes a third of torch's time for something small.
    return np.empty((len(z), _numba.STATS), REAL[z.dtype])


def _losses(stats: Stats) -> NDArray[Any]:
    return stats[:, _numba.LOSS].copy()


def _stride(grad: Tensor) -> int:
    return grad.stride(0) if grad.ndim else 0


def _run(kernel: Callable[..., Any], stats: Stats, *tensors: Tensor, numbers: tuple[Any, ...] = ()) -> Stats:
    """Call a kernel on tensors with a row, or an entry, a sample; rows are independent, so threads share them."""
    rows = tensors[0]
    threads = torch.get_num_threads() if rows.numel() >= ENOUGH else 1
    if threads == 1:
        kernel(stats, rows.shape[1], *map(Tensor.data_ptr, tensors), *numbers)
        return stats
    n, classes = rows.shape
    steps = [tensor.stride(0) * tensor.element_size() if tensor.ndim else 0 for tensor in tensors]
    cuts = [n * k // threads for k in range(threads + 1)]

    def part(first: int, last: int) -> None:
        addresses = [tensor.data_ptr() + first * step for tensor, step in zip(tensors, steps, strict=True)]
        kernel(stats[first:last], classes, *addresses, *numbers)

    with ThreadPoolExecutor(threads) as pool:  # a pool a call: a kept one would be without its threads after a fork
        list(pool.map(part, cuts[:-1], cuts[1:]))
    return stats
