"""The kernels on the GPU, in Triton: checked in its interpreter and by its compiler, their speed on a GPU unverified.

As on the CPU, a row begins with its threshold: Newton's steps from below on `f(τ) = Σ max(0, z_i − τ) − 1`, until the
candidates stay the same. A program has a row to itself and holds it in one block, so that after one read of it a step
is a sum over registers. What is beyond the row's end is −inf, which is a mask like any other.
"""

from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["ads_backward", "ads_forward", "fits", "loss_backward", "loss_forward", "probs_backward", "probs_forward"]

LARGEST = 1 << 16  # classes that a block may hold
SHARE = 512  # numbers that are worth a further warp
WARPS = 16  # more than these do not run on every GPU

STATS = 5
"""What is kept of a row, in this order: its maximum, its threshold below that, what the threshold is still off by, the
number of candidates and, of ADS, Σp². Of a bad row the maximum and the number are NaN."""
TOP, TAU, EXCESS, COUNT, SQUARES = map(tl.constexpr, range(STATS))
STRIDE = tl.constexpr(STATS)

# Each step at least quarters the product of f and its slope, which goes from 2³² at most to the rounding of 1 at least.
STEPS = tl.constexpr(64)
# Stands for a probability of 0 in p² log p: nothing beside any sum, but its square and its logarithm are finite.
TINY = tl.constexpr(1e-18)

_compiled: Callable[[Callable[..., Any]], Any] = triton.jit


def fits(classes: int) -> bool:
    """Whether a row of so many classes fits into a block; the plain code is there for longer ones."""
    return classes <= LARGEST


def ads_forward(z: Tensor, *, mean: bool) -> tuple[Tensor, Tensor]:
    """The ADS losses for r = 2, or their mean, and what the gradient needs. (n, classes) → (n,) or scalar, (n, 5)."""
    losses, stats = z.new_empty(len(z)), z.new_empty(len(z), STATS)
    _run(_ads_forward, z, losses, stats)
    return losses.mean() if mean else losses, stats


def ads_backward(z: Tensor, stats: Tensor, grad: Tensor, scale: float) -> Tensor:
    """Gradient of the losses, each times its entry of `grad`, (n,) or one number for all, times `scale`."""
    out = torch.empty_like(z)
    # Multiplied here: as an argument of a kernel `scale` would be rounded to single precision.
    grad = grad if scale == 1 else grad * scale
    _run(_ads_backward, z, stats, grad, out, _stride(grad))
    return out


def probs_forward(z: Tensor, out: Tensor) -> None:
    """Sparsemax, into `out`, whose gradient needs nothing else. (n, classes) → (n, classes)."""
    _run(_probs_forward, z, out)


def probs_backward(probs: Tensor, _: None, grad: Tensor) -> Tensor:
    """Gradient through sparsemax, from its result."""
    out = torch.empty_like(probs)
    _run(_probs_backward, probs, grad, out)
    return out


def loss_forward(z: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """The sparsemax losses against class indices (n,) or probabilities (n, classes), and what their gradient needs."""
    losses, stats = z.new_empty(len(z)), z.new_empty(len(z), STATS)
    _run(_loss_forward, z, target, losses, stats, soft=target.ndim > 1)
    return losses, stats


def loss_backward(z: Tensor, target: Tensor, stats: Tensor, grad: Tensor) -> Tensor:
    """Gradient of the losses, each times its entry of `grad`, (n,) or one number for all."""
    out = torch.empty_like(z)
    _run(_loss_backward, z, target, stats, grad, out, _stride(grad), soft=target.ndim > 1)
    return out


def _stride(grad: Tensor) -> int:
    return grad.stride(0) if grad.ndim else 0


def _run(kernel: Any, z: Tensor, *others: Tensor | int, **constants: bool) -> None:
    """Start a kernel with a program a row."""
    n, classes = z.shape
    block = max(32, triton.next_power_of_2(classes))
    warps = min(max(block // SHARE, 1), WARPS)
    with torch.cuda.device_of(z):  # Triton would take the current one
        kernel[(n,)](z, *others, classes, **constants, block=block, num_warps=warps)


@_compiled
def _row(start: tl.tensor, row: tl.tensor, classes: tl.tensor, beyond: tl.tensor, block: tl.constexpr) -> tl.tensor:
    """A row, and `beyond` after its end. → (block,)."""
    columns = tl.arange(0, block)
    return tl.load(start + row * classes + columns, mask=columns < classes, other=beyond)


@_compiled
def _put_row(start: tl.tensor, row: tl.tensor, classes: tl.tensor, values: tl.tensor, block: tl.constexpr) -> None:
    """Store a row without what is after its end."""
    columns = tl.arange(0, block)
    tl.store(start + row * classes + columns, values, mask=columns < classes)


@_compiled
def _pass(x: tl.tensor, tau: tl.tensor) -> tl.tensor:
    """What τ is off by if the candidates stay as they are, and their number."""
    above = x - tau
    count = tl.sum((above > 0).to(x.dtype), 0)
    return (tl.sum(tl.maximum(above, 0), 0) - 1) / count, count


@_compiled
def _solve(z: tl.tensor) -> tl.tensor:
    """A row below its maximum, and its stats but the last: (x, top, τ, excess, count)."""
    # Whether a maximum passes NaN on differs between machines, so that infinity stands in for it.
    top = tl.max(tl.where(z == z, z, float("inf")), 0)  # noqa: PLR0124 NaN is what differs from itself
    good = tl.abs(top) < float("inf")
    x = tl.where(good, z, 0) - tl.where(good, top, 0)
    tau, before, step = tl.full((), -1, z.dtype), tl.full((), 0, z.dtype), 0
    excess, count = _pass(x, tau)
    while (count != before) & (excess > 0) & (step < STEPS):
        before = count
        tau += excess
        excess, count = _pass(x, tau)
        step += 1
    bad = tl.where(good, 0, float("nan"))
    return x, top + bad, tau, excess, count + bad


@_compiled
def _probs(above: tl.tensor, excess: tl.tensor) -> tl.tensor:
    """Probabilities from what is above τ."""
    return tl.where(above > 0, tl.maximum(above - excess, 0), 0)


@_compiled
def _keep(
    stats: tl.tensor, row: tl.tensor, top: tl.tensor, tau: tl.tensor, excess: tl.tensor, count: tl.tensor
) -> None:
    kept = stats + row * STRIDE
    tl.store(kept + TOP, top)
    tl.store(kept + TAU, tau)
    tl.store(kept + EXCESS, excess)
    tl.store(kept + COUNT, count)


@_compiled
def _solved(z: tl.tensor, stats: tl.tensor, row: tl.tensor, classes: tl.tensor, block: tl.constexpr) -> tl.tensor:
    """What a row that is solved has above τ, its probabilities, and the number of candidates."""
    kept = stats + row * STRIDE
    above = _row(z, row, classes, -float("inf"), block) - tl.load(kept + TOP) - tl.load(kept + TAU)
    return above, _probs(above, tl.load(kept + EXCESS)), tl.load(kept + COUNT)


@_compiled
def _ads_forward(z: tl.tensor, losses: tl.tensor, stats: tl.tensor, classes: tl.tensor, block: tl.constexpr) -> None:
    """KL(q‖p) of a row, q being p² renormalised: Σp² log p / Σp² − log Σp²."""
    row = tl.program_id(0).to(tl.int64)
    x, top, tau, excess, count = _solve(_row(z, row, classes, -float("inf"), block))
    _keep(stats, row, top, tau, excess, count)
    p = tl.maximum(_probs(x - tau, excess), TINY)
    squares = tl.sum(p * p, 0)
    tl.store(stats + row * STRIDE + SQUARES, squares)
    loss = tl.sum(p * p * tl.log(count * p), 0) / squares - tl.log(count * squares)
    # A distance is not below 0; its rounding may be. A GPU's maximum drops the NaN of a bad row, which top brings back.
    tl.store(losses + row, tl.maximum(loss, 0) + 0 * top)


@_compiled
def _ads_backward(
    z: tl.tensor,
    stats: tl.tensor,
    grads: tl.tensor,
    out: tl.tensor,
    stride: tl.tensor,
    classes: tl.tensor,
    block: tl.constexpr,
) -> None:
    """Gradient of a loss: (1/m − p_i) / Σp² on the m candidates, times what comes in."""
    row = tl.program_id(0).to(tl.int64)
    above, p, count = _solved(z, stats, row, classes, block)
    slope = tl.load(grads + row * stride) / tl.load(stats + row * STRIDE + SQUARES)
    _put_row(out, row, classes, tl.where(above > 0, slope / count - slope * p, 0 * count), block)


@_compiled
def _probs_forward(z: tl.tensor, out: tl.tensor, classes: tl.tensor, block: tl.constexpr) -> None:
    """Sparsemax of a row."""
    row = tl.program_id(0).to(tl.int64)
    x, _, tau, excess, count = _solve(_row(z, row, classes, -float("inf"), block))
    _put_row(out, row, classes, _probs(x - tau, excess) + 0 * count, block)


@_compiled
def _probs_backward(
    probs: tl.tensor, grads: tl.tensor, out: tl.tensor, classes: tl.tensor, block: tl.constexpr
) -> None:
    """Gradient through sparsemax: what comes in, less its mean over the candidates, on these alone."""
    row = tl.program_id(0).to(tl.int64)
    p, grad = _row(probs, row, classes, 0, block), _row(grads, row, classes, 0, block)
    inside = p > 0
    count = tl.maximum(tl.sum(inside.to(p.dtype), 0), 1)  # a NaN row has no candidates
    mean = tl.sum(tl.where(inside, grad, 0), 0) / count
    _put_row(out, row, classes, tl.where(inside, grad - mean, 0 * p), block)


@_compiled
def _loss_forward(
    z: tl.tensor,
    target: tl.tensor,
    losses: tl.tensor,
    stats: tl.tensor,
    classes: tl.tensor,
    soft: tl.constexpr,
    block: tl.constexpr,
) -> None:
    """Sparsemax loss of a row, x being logits below their maximum: Σ p (x − p/2) + Σ y (y/2 − x)."""
    row = tl.program_id(0).to(tl.int64)
    x, top, tau, excess, count = _solve(_row(z, row, classes, -float("inf"), block))
    _keep(stats, row, top, tau, excess, count)
    p = _probs(x - tau, excess)
    best = tl.sum(p * tl.where(p > 0, x - 0.5 * p, 0), 0) + 0 * top  # 0 · −inf of a masked class would be NaN
    if soft:
        y = _row(target, row, classes, 0, block)
        loss = best + tl.sum(y * tl.where(y != 0, 0.5 * y - x, 0), 0)
    else:
        label = tl.load(target + row)
        known = (label >= 0) & (label < classes)
        right = tl.load(z + row * classes + label, mask=known, other=float("nan"))
        loss = best + 0.5 - (right - top)
    tl.store(losses + row, loss)


@_compiled
def _loss_backward(
    z: tl.tensor,
    target: tl.tensor,
    stats: tl.tensor,
    grads: tl.tensor,
    out: tl.tensor,
    stride: tl.tensor,
    classes: tl.tensor,
    soft: tl.constexpr,
    block: tl.constexpr,
) -> None:
    """Gradient of a loss: p − y."""
    row = tl.program_id(0).to(tl.int64)
    _, p, count = _solved(z, stats, row, classes, block)
    y = _row(target, row, classes, 0, block) if soft else tl.arange(0, block) == tl.load(target + row)
    _put_row(out, row, classes, tl.load(grads + row * stride) * (p - y.to(p.dtype)) + 0 * count, block)
