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


# Names are bound once: in a small batch it is the looking up that costs.
_KINDS, _TYPES = (Tensor, nn.Parameter), (torch.float32, torch.float64)
_compiling = torch.compiler.is_compiling
try:
    _transforming, _modes = torch._C._are_functorch_transforms_active, torch._C._len_torch_dispatch_stack
    _tracing, _hooks = torch._C._get_tracing_state, torch._C._autograd._top_saved_tensors_default_hooks
    _stored, _ = torch._C._has_storage, forward_ad._current_level
    _BLIND = False
except (
    AttributeError
):  # torch promises none of them; where one is gone, nothing can be asked and plain code does it all
    _BLIND = True


class _Choice(threading.local):
    """What a thread has asked for."""

    plain = _BLIND


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
        type(z) in _KINDS
        and z.dtype in _TYPES
        and not _choice.plain
        and not _compiling()
        and not _transforming()
        and _modes() == 0
        and forward_ad._current_level < 0
        and _tracing() is None
        and _hooks(True) is None  # one may give back other tensors than it was given, and kernels take them on trust
        and z.numel() > 0
        and not z.is_neg()
        and (z.is_cpu or (z.is_cuda and _has_triton() and _gpu().fits(z.shape[-1])))
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
    loss: Tensor = (_AdsMean if mean else _AdsLoss).apply(z)
    return loss


# For a small batch most of the cost is torch's own care about a Function: they take tensors only, and keep little.


class _Sparsemax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        probs = torch.empty_like(z, memory_format=torch.contiguous_format)
        rows = (-1, z.shape[-1])
        ctx.stats = _backend(z).probs_forward(z.reshape(rows).contiguous(), probs.view(rows))
        ctx.save_for_backward(z, probs)
        return probs

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        z, probs = ctx.saved_tensors
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
        ctx.save_for_backward(z, wanted)
        return losses

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        z, wanted = ctx.saved_tensors
        if _needs_plain(grad):
            return _again("sparsemax_loss", grad, z, wanted), None
        return _backend(z).loss_backward(z.contiguous(), wanted, ctx.stats, grad), None


def _ads_function(mean: bool) -> type[torch.autograd.Function]:
    class Ads(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, z: Tensor) -> Tensor:
            ctx.save_for_backward(z)
            loss: Tensor
            loss, ctx.stats = _backend(z).ads_forward(z.contiguous(), mean=mean)
            return loss

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            (z,) = ctx.saved_tensors
            if _needs_plain(grad):
                return _again("ads_loss", grad, z, 2.0, "mean" if mean else "none")
            scale = 1 / len(z) if mean else 1.0
            gradient: Tensor = _backend(z).ads_backward(z.contiguous(), ctx.stats, grad, scale)
            return gradient

    return Ads


_AdsLoss, _AdsMean = _ads_function(mean=False), _ads_function(mean=True)


def _needs_plain(grad: Tensor) -> bool:
    """Whether this gradient is to be differentiated again, or comes from something that has to look inside."""
    return (
        torch.is_grad_enabled()
        or _compiling()
        or type(grad) is not Tensor
        or not _stored(grad)
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
