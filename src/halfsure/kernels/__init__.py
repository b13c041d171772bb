"""Fast twins of sparsemax, its loss and the ADS loss: numba on the CPU, Triton on the GPU.

`simplex` and `distill` hold the plain torch code, which is the reference. They come here when `usable` says so; plain
code goes on wherever torch looks inside (compilation, vmap, forward mode, tracing), and for second derivatives.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

__all__ = ["ads_loss", "plain_code", "sparsemax", "sparsemax_loss", "usable"]


class _Choice(threading.local):
    """What a thread has asked for."""

    plain = False


_choice = _Choice()


@contextmanager
def plain_code() -> Iterator[None]:
    """Inside the block this thread computes every loss by the plain torch code, as one would to compare or to debug.

    Examples:
        >>> import torch, halfsure
        >>> from halfsure.kernels import plain_code
        >>> with plain_code():
        ...     halfsure.sparsemax(torch.tensor([1.0, 0.5]))
        tensor([0.7500, 0.2500])
    """
    before, _choice.plain = _choice.plain, True
    try:
        yield
    finally:
        _choice.plain = before


def usable(z: Tensor) -> bool:
    """Whether there is a kernel for these logits, and nothing that has to look inside."""
    return (
        not _choice.plain
        and (z.is_cpu or z.is_cuda)
        and (z.dtype is torch.float32 or z.dtype is torch.float64)
        and type(z) in (Tensor, nn.Parameter)
        and not torch.compiler.is_compiling()
        and not torch._C._are_functorch_transforms_active()
        and torch._C._len_torch_dispatch_stack() == 0
        and forward_ad._current_level < 0
        and torch._C._get_tracing_state() is None
        and z.numel() > 0
        and not z.is_neg()
        and (z.is_cpu or (_has_triton() and _gpu().fits(z.shape[-1])))
    )


def sparsemax(z: Tensor) -> Tensor:
    """Sparsemax along the last dimension. (…, classes) → (…, classes)."""
    probs: Tensor = _Sparsemax.apply(z)  # type: ignore[no-untyped-call]
    return probs


def sparsemax_loss(z: Tensor, target: Tensor) -> Tensor:
    """The sparsemax loss against class indices (n,) or probabilities (n, classes). (n, classes) → (n,)."""
    losses: Tensor = _SparsemaxLoss.apply(z, target.detach())  # type: ignore[no-untyped-call]
    return losses


def ads_loss(z: Tensor, *, mean: bool) -> Tensor:
    """The ADS loss for r = 2, of each sample or their mean. (n, classes) → (n,) or scalar."""
    loss: Tensor = (_AdsMean if mean else _AdsLoss).apply(z)  # type: ignore[no-untyped-call]
    return loss


# For a small batch most of the cost is torch's own care about a Function: they take tensors only, and keep little.


class _Sparsemax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        probs = torch.empty_like(z, memory_format=torch.contiguous_format)
        rows = (-1, z.shape[-1])
        ctx.stats = _backend(z).probs_forward(z.reshape(rows).contiguous(), probs.view(rows))
        _keep(ctx, z, probs)
        return probs

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        z, probs = _kept(ctx)
        if _needs_plain(grad):
            return _again("sparsemax", grad, z)
        rows = (-1, probs.shape[-1])
        gradient: Tensor = _backend(z).probs_backward(probs.view(rows), ctx.stats, grad.reshape(rows).contiguous())
        return gradient.view(z.shape)


class _SparsemaxLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, target: Tensor) -> Tensor:
        wanted = (target.long() if target.ndim == 1 else target.to(z.dtype)).resolve_neg().contiguous()
        losses: Tensor
        losses, ctx.stats = _backend(z).loss_forward(z.contiguous(), wanted)
        _keep(ctx, z, wanted)
        return losses

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        z, wanted = _kept(ctx)
        if _needs_plain(grad):
            return _again("sparsemax_loss", grad, z, wanted), None
        return _backend(z).loss_backward(z.contiguous(), wanted, ctx.stats, grad), None


class _AdsLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        _keep(ctx, z)
        losses: Tensor
        losses, ctx.stats = _backend(z).ads_forward(z.contiguous(), mean=False)
        return losses

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (z,) = _kept(ctx)
        if _needs_plain(grad):
            return _again("ads_loss", grad, z, 2.0, "none")
        gradient: Tensor = _backend(z).ads_backward(z.contiguous(), ctx.stats, grad, 1.0)
        return gradient


class _AdsMean(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        _keep(ctx, z)
        loss: Tensor
        loss, ctx.stats = _backend(z).ads_forward(z.contiguous(), mean=True)
        return loss

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (z,) = _kept(ctx)
        if _needs_plain(grad):
            return _again("ads_loss", grad, z)
        gradient: Tensor = _backend(z).ads_backward(z.contiguous(), ctx.stats, grad, 1 / len(z))
        return gradient


def _keep(ctx: Any, *tensors: Tensor) -> None:
    """Keep tensors for the backward pass, and what they look like."""
    ctx.save_for_backward(*tensors)
    ctx.looks = [(tensor.shape, tensor.dtype, tensor.device) for tensor in tensors]


def _kept(ctx: Any) -> tuple[Tensor, ...]:
    """What was kept, if it came back as it was: kernels take addresses on trust."""
    tensors: tuple[Tensor, ...] = ctx.saved_tensors
    if [(tensor.shape, tensor.dtype, tensor.device) for tensor in tensors] != ctx.looks:
        raise RuntimeError("a saved-tensor hook gave back a tensor of another shape, type or device than it was given")
    return tensors


def _needs_plain(grad: Tensor) -> bool:
    """Whether this gradient is to be differentiated again, or comes from something that has to look inside."""
    return (
        torch.is_grad_enabled()
        or torch.compiler.is_compiling()
        or type(grad) is not Tensor
        or not torch._C._has_storage(grad)
        or grad.is_neg()
        or forward_ad._current_level >= 0
    )


def _again(name: str, grad: Tensor, z: Tensor, *others: Any) -> Tensor:
    """The gradient of a function of the package by its plain code, with its own history where one is wanted."""
    import halfsure  # noqa: PLC0415 it imports this module

    again = torch.is_grad_enabled()
    with plain_code(), torch.enable_grad():
        z = z if again else z.detach().requires_grad_()
        return torch.autograd.grad(getattr(halfsure, name)(z, *others), z, grad, create_graph=again)[0]


def _backend(z: Tensor) -> ModuleType:
    return _cpu() if z.is_cpu else _gpu()


@cache
def _cpu() -> ModuleType:
    from halfsure.kernels import cpu  # noqa: PLC0415 numba is slow to import

    return cpu


@cache
def _gpu() -> ModuleType:
    from halfsure.kernels import gpu  # noqa: PLC0415 for those with a GPU

    return gpu


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None
