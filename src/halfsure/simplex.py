"""Logits → probabilities: softmax, sparsemax and entmax, each with its Fenchel–Young loss.

Every map here is the same problem with another regulariser Ω: `p = argmax ⟨z, p⟩ − Ω(p)` over the simplex.
Softmax takes the negative Shannon entropy, sparsemax the Gini one, and entmax the Tsallis family between them.
The best value is the conjugate Ω*(z), and `L(z; y) = Ω*(z) + Ω(y) − ⟨z, y⟩` is the loss that belongs to the
map: never negative, zero just where `p = y`, with gradient `p − y`.

A `Map` carries the three parts, so that code which uses one need not know which it is.
Sparsemax and its loss have fast twins in `halfsure.kernels`, which are taken where they can be.
NaN, +inf and all-−inf rows give NaN rows, as `torch.softmax` does; single −inf entries are masks.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from halfsure import kernels
from halfsure._checks import check_labels, check_logits, check_number, check_probs, check_real

__all__ = [
    "SOFTMAX",
    "SPARSEMAX",
    "Map",
    "entmax",
    "fenchel_young",
    "get_map",
    "softmax",
    "sparsemax",
    "sparsemax_loss",
]


def softmax(logits: Tensor, dim: int = -1) -> Tensor:
    """Map logits to probabilities that are all positive. (…, classes, …) → (…, classes, …).

    Examples:
        >>> import torch, halfsure
        >>> halfsure.softmax(torch.tensor([[0.0, 0.0, -float("inf")]]))
        tensor([[0.5000, 0.5000, 0.0000]])
    """
    check_real("logits", logits, dim)
    return narrow(torch.softmax(widen(logits), dim), logits)


def sparsemax(logits: Tensor, dim: int = -1) -> Tensor:
    """Map logits to the nearest point of the simplex. (…, classes, …) → (…, classes, …).

    Classes far enough below the best get exactly zero: `p_i = max(0, z_i − τ)`, with one threshold τ a sample.

    Examples:
        >>> import torch, halfsure
        >>> halfsure.sparsemax(torch.tensor([[2.0, 1.5, -1.0], [3.0, 0.0, 0.0]]))
        tensor([[0.7500, 0.2500, 0.0000],
                [1.0000, 0.0000, 0.0000]])
    """
    return entmax(logits, alpha=2.0, dim=dim)


def entmax(logits: Tensor, alpha: float = 1.5, dim: int = -1) -> Tensor:
    """Map logits to probabilities, sparser with growing alpha. (…, classes, …) → (…, classes, …).

    Alpha 1 is softmax and 2 is sparsemax, to the bit; any value between is allowed.

    Examples:
        >>> import torch, halfsure
        >>> halfsure.entmax(torch.tensor([[2.0, 1.0, -1.0]]), alpha=1.5)
        tensor([[0.8307, 0.1693, 0.0000]])
    """
    alpha = check_number("alpha", alpha, 1, 2, why="1 is softmax and 2 is sparsemax")
    if alpha == 1:
        return softmax(logits, dim)
    check_real("logits", logits, dim)
    rows = widen(logits).movedim(dim, -1)
    if alpha == 2 and kernels.usable(rows):
        probs = kernels.sparsemax(rows)
    else:
        function = _Entmax if alpha < 2 or torch.compiler.is_compiling() else _SparsemaxBothModes
        probs = function.apply(rows, alpha)  # type: ignore[no-untyped-call]
    return narrow(probs.movedim(-1, dim), logits)


def sparsemax_loss(logits: Tensor, target: Tensor) -> Tensor:
    """Fenchel–Young loss of sparsemax, per sample. (batch, classes) → (batch,).

    The target is a class index a sample, (batch,), or a row of probabilities, (batch, classes). The loss is
    `½(‖y − z‖² − ‖p − z‖²)` with `p = sparsemax(z)`, and its gradient `p − y`: it is zero as soon as the true
    class leads by 1, where cross-entropy would go on pulling.

    Examples:
        >>> import torch, halfsure
        >>> logits = torch.tensor([[2.0, 0.0, 0.0], [0.0, 0.5, 0.0]])
        >>> halfsure.sparsemax_loss(logits, torch.tensor([0, 1]))
        tensor([0.0000, 0.0833])
        >>> halfsure.sparsemax_loss(logits, torch.tensor([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0]]))
        tensor([0.7500, 0.0833])
    """
    return SPARSEMAX.loss(logits, target)


@dataclass(frozen=True)
class Map:
    """A map from logits to probabilities, with its loss and its name.

    Call it for the probabilities, `map(logits, dim=-1)`; maps of one name are equal.

    Examples:
        >>> import torch
        >>> from halfsure.simplex import get_map
        >>> sparsemax = get_map("sparsemax")
        >>> sparsemax(torch.tensor([[1.0, 0.0]]))
        tensor([[1., 0.]])
        >>> sparsemax.loss(torch.tensor([[1.0, 0.0]]), torch.tensor([1]))
        tensor([1.])
    """

    name: str
    """How people and files name it: `softmax`, `sparsemax`, `entmax1.5`."""
    probs: Callable[..., Tensor] = field(compare=False, repr=False)
    """(logits, dim) → probabilities."""
    negentropy: Callable[[Tensor], Tensor] = field(compare=False, repr=False)
    """Ω, the regulariser, zero at the corners of the simplex. (…, classes) → (…)."""

    def __call__(self, logits: Tensor, dim: int = -1) -> Tensor:
        """Probabilities along `dim`; the shape stays."""
        return self.probs(logits, dim=dim)

    def loss(self, logits: Tensor, target: Tensor) -> Tensor:
        """Fenchel–Young loss against class indices or probabilities. (batch, classes) → (batch,)."""
        check_logits(logits)
        if not isinstance(target, Tensor):
            raise TypeError(f"targets must be a torch.Tensor, got {type(target).__name__}; try torch.as_tensor(...)")
        if target.device != logits.device:
            raise ValueError(f"targets are on {target.device}, logits on {logits.device}; move them with .to(...)")
        if target.is_floating_point() and target.shape == logits.shape:
            check_probs("targets", target)
        elif target.is_floating_point():
            raise ValueError(
                f"soft targets must be {tuple(logits.shape)} like the logits, got {tuple(target.shape)}; "
                "class indices must be integers: convert them with .long()"
            )
        else:
            check_labels(target, *logits.shape)
        return narrow(map_loss(self, widen(logits), target), logits)


def map_loss(map: Map, logits: Tensor, target: Tensor) -> Tensor:
    """A map's loss, taking shapes, precision and target on trust. (batch, classes) → (batch,)."""
    fast = map.name == SPARSEMAX.name and kernels.usable(logits) and target.device == logits.device
    if fast and type(target) is Tensor and not target.requires_grad:
        return kernels.sparsemax_loss(logits, target)
    return fenchel_young(map, logits, map(logits), target)


def fenchel_young(map: Map, logits: Tensor, probs: Tensor, target: Tensor) -> Tensor:
    """Fenchel–Young loss of a map, given `probs = map(logits)` and taking all of it on trust. (…, classes) → (…)."""
    # The loss does not change under a shift of the logits, and only small numbers keep their digits.
    logits = logits - logits.amax(-1, keepdim=True).detach()
    # Ω*(z). Its derivative through p vanishes, p being the maximiser, and what remains is p itself.
    best = _inner(logits, probs) - map.negentropy(probs)
    if target.ndim < logits.ndim:
        return best - logits.gather(-1, target.long().unsqueeze(-1)).squeeze(-1)
    target = target.to(logits.dtype)
    return best + map.negentropy(target) - _inner(logits, target)


def negative_shannon(probs: Tensor) -> Tensor:
    """Σ p log p. (…, classes) → (…)."""
    return (probs * probs.where(probs > 0, 1).log()).sum(-1)


def negative_gini(probs: Tensor) -> Tensor:
    """½(Σ p² − 1). (…, classes) → (…)."""
    return (probs.square().sum(-1) - 1) / 2


def negative_tsallis(probs: Tensor, alpha: float) -> Tensor:
    """(Σ p^α − 1) / (α(α − 1)), for α > 1. (…, classes) → (…)."""
    # Σ p = 1 turns p^α − p into p·expm1((α − 1)·log p), which keeps its digits as α nears 1.
    return (probs * ((alpha - 1) * probs.where(probs > 0, 1).log()).expm1()).sum(-1) / (alpha * (alpha - 1))


SOFTMAX = Map("softmax", softmax, negative_shannon)
SPARSEMAX = Map("sparsemax", sparsemax, negative_gini)


def get_map(name: Map | str) -> Map:
    """Find a map by its name, the inverse of `map.name`; a map is returned as it is.

    Examples:
        >>> from halfsure.simplex import get_map
        >>> get_map("entmax1.5")
        Map(name='entmax1.5')
    """
    if isinstance(name, Map):
        return name
    ends = {1.0: SOFTMAX, 2.0: SPARSEMAX}
    for map in ends.values():
        if name == map.name:
            return map
    if not (isinstance(name, str) and name.startswith("entmax")):
        raise ValueError(f"a map is softmax, sparsemax or entmax followed by its alpha (entmax1.5), got {name!r}")
    alpha = check_number("the alpha after entmax", name.removeprefix("entmax"), 1, 2, text=True)
    return ends.get(alpha) or Map(
        f"entmax{alpha!r}", partial(entmax, alpha=alpha), partial(negative_tsallis, alpha=alpha)
    )


def widen(values: Tensor) -> Tensor:
    """Half precision becomes float32, the rest stays: rows of bfloat16 arithmetic sum to .97 … 1.02."""
    return values.float() if values.dtype in (torch.float16, torch.bfloat16) else values


def narrow(result: Tensor, like: Tensor) -> Tensor:
    """Give a result the precision of its input; under autocast it stays wide, as torch's own losses do on a GPU."""
    return result if result.dtype == like.dtype or autocasts(like) else result.to(like.dtype)


def autocasts(values: Tensor) -> bool:
    """Whether torch is choosing the precision of what is done with them."""
    device = values.device.type
    return device != "meta" and torch.is_autocast_enabled(device)


class _Entmax(torch.autograd.Function):
    """Entmax along the last dimension, 1 < α ≤ 2.

    Its Jacobian is `diag(s) − s sᵀ/Σs` with `s = p^(2−α)` on the support and 0 elsewhere: symmetric, so that one
    product serves backward and forward mode. It is written in differentiable operations on p, so a second
    derivative is the true one. Autograd through the threshold would be wrong where a logit sits exactly on it.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(logits: Tensor, alpha: float) -> Tensor:
        return _project(logits) if alpha == 2 else _solve_entmax(logits, alpha - 1)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, float], output: Tensor) -> None:
        ctx.alpha = inputs[1]
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return _times_jacobian(ctx.saved_tensors[0], ctx.alpha, grad), None


class _SparsemaxBothModes(_Entmax):
    """The same for α = 2 with forward mode, which torch.compile cannot trace.

    For other α there is none: torch cuts p's history before it calls `jvp`, so forward mode in forward mode would lose
    the curvature without a word. Sparsemax has none to lose.
    """

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, _: None) -> Tensor:
        return _times_jacobian(ctx.saved_tensors[0], ctx.alpha, tangent)


def _inner(logits: Tensor, probs: Tensor) -> Tensor:
    """⟨z, p⟩, in which a masked class of probability 0 adds nothing: −inf · 0 would be NaN."""
    return (probs * logits.where((probs != 0) | (logits > -torch.inf), 0)).sum(-1)


def _times_jacobian(probs: Tensor, alpha: float, vector: Tensor) -> Tensor:
    inside = probs > 0
    outside = 0 * probs  # zero off the support, NaN on NaN rows
    weight = (probs.where(inside, 1) ** (2 - alpha)).where(inside, outside)
    vector = vector.where(inside, 0)  # an infinite gradient off the support must not reach it
    mean = (weight * vector).sum(-1, keepdim=True) / weight.sum(-1, keepdim=True)
    return (weight * (vector - mean)).where(inside, outside)


def _project(logits: Tensor) -> Tensor:
    """Sparsemax along the last dimension."""
    logits = logits - logits.amax(-1, keepdim=True)
    size = torch.arange(1, logits.shape[-1] + 1, device=logits.device)
    # The threshold that a support of the k best would need is largest at the true k.
    threshold = ((logits.sort(-1, descending=True).values.cumsum(-1) - 1) / size).amax(-1, keepdim=True)
    probs = (logits - threshold).clamp(min=0)
    # The threshold is rounded at its own scale, 1; this repeats its last step at the scale of the
    # probabilities, which with 10,000 candidates are far smaller.
    inside = probs > 0
    excess = (probs.sum(-1, keepdim=True) - 1) / inside.sum(-1, keepdim=True)
    return (probs - excess).clamp(min=0).where(inside, probs)


def _solve_entmax(logits: Tensor, beta: float) -> Tensor:
    """Entmax along the last dimension, 0 < β = α − 1 < 1.

    `p = exp_β(z − c)` with the deformed exponential `exp_β(x) = max(0, 1 + βx)^(1/β)` and c such that Σp = 1. In
    this form nothing is lost as β → 0, where it becomes softmax. Σp falls in c and is convex, so Newton's steps
    from below the root never pass it.
    """

    def log_probs(shift: Tensor) -> Tensor:
        return (beta * (logits - shift)).clamp(min=-1).log1p() / beta

    logits = logits - logits.amax(-1, keepdim=True)
    below = torch.zeros_like(logits[..., :1])
    width = -math.expm1(-beta * math.log(logits.shape[-1])) / beta  # the shift of K equal classes, the largest
    for halvings in range(1, 21):
        middle = below + width * 0.5**halvings
        below = torch.where(log_probs(middle).exp().sum(-1, keepdim=True) >= 1, middle, below)
    for _ in range(4):
        log_p = log_probs(below)
        slope = ((1 - beta) * log_p).exp().sum(-1, keepdim=True)
        below = below + (log_p.exp().sum(-1, keepdim=True) - 1) / slope
    probs = log_probs(below).exp()
    return probs / probs.sum(-1, keepdim=True)
