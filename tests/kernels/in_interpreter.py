"""The GPU's kernels on CPU tensors, as Triton's interpreter runs them; `test_gpu` starts these in a process of its own.

By hand: `TRITON_INTERPRET=1 python -m pytest tests/kernels/in_interpreter.py`. Programs take milliseconds a row there,
so that batches are small.
"""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor

import halfsure
from halfsure import kernels
from halfsure.kernels import gpu
from tests import reference
from tests.logits import EPS
from tests.test_simplex import by_rows, randn, random_targets

NAN, INF = float("nan"), float("inf")
BAD = [[NAN, 0, 0], [INF, 0, 0], [INF, INF, 0], [INF, -INF, 0], [-INF] * 3, [NAN] * 3]
# Beside the rounding of the results: single precision's logarithms and sums.
CLOSE = {torch.float32: 1e-6, torch.float64: 1e-12}
EACH_DTYPE = pytest.mark.parametrize("dtype", CLOSE)

Function = Callable[[Tensor], Tensor]
ads_losses = partial(halfsure.ads_loss, reduction="none")


def every_kind(classes: int) -> Tensor:
    """Logits that single precision holds exactly: peaked, flat, tied, masked, far from 0. → (5, classes)."""
    z = randn(5, classes, seed=classes).float().double()
    masked = z[3].masked_fill(randn(classes, seed=1) > 0.5, -INF)
    masked[classes // 2] = 0.5
    return torch.stack([z[0] * 8, z[1] / 128, z[2].mul(2).round() / 2, masked, z[4].mul(4).round() * 8 + 1e8])


def plain(function: Function, z: Tensor, upstream: Tensor) -> tuple[Tensor, Tensor]:
    """Value and gradient by the plain code, in double precision."""
    z = z.detach().double().clone().requires_grad_()
    with kernels.plain_code():
        value = function(z)
        return value.detach(), torch.autograd.grad(value, z, upstream.double())[0]


def assert_close(got: tuple[Tensor, Tensor], wanted: tuple[Tensor, Tensor], dtype: torch.dtype) -> None:
    for a, b in zip(got, wanted, strict=True):
        assert a.dtype == dtype
        torch.testing.assert_close(a.double(), b, rtol=CLOSE[dtype], atol=CLOSE[dtype])


def project(z: Tensor) -> Tensor:
    out = torch.empty_like(z)
    gpu.probs_forward(z, out)
    return out


def probs(z: Tensor, upstream: Tensor) -> tuple[Tensor, Tensor]:
    result = project(z)
    return result, gpu.probs_backward(result, None, upstream)


def ads(z: Tensor, upstream: Tensor) -> tuple[Tensor, Tensor]:
    losses, stats = gpu.ads_forward(z, mean=False)
    return losses, gpu.ads_backward(z, stats, upstream, 1.0)


def loss(z: Tensor, target: Tensor, upstream: Tensor) -> tuple[Tensor, Tensor]:
    losses, stats = gpu.loss_forward(z, target)
    return losses, gpu.loss_backward(z, target, stats, upstream)


@EACH_DTYPE
@pytest.mark.parametrize("classes", [1, 2, 3, 10, 33, 100, 1000])
def test_equal_to_the_plain_code(classes: int, dtype: torch.dtype) -> None:
    z = every_kind(classes).to(dtype)
    upstream, each = randn(5, classes, seed=2).to(dtype), randn(10, seed=3).to(dtype)[::2]
    assert_close(probs(z, upstream), plain(halfsure.sparsemax, z, upstream), dtype)
    assert_close(ads(z, each), plain(ads_losses, z, each), dtype)
    labels = (torch.arange(5) * 7 + classes // 2) % classes
    labels[3] = classes // 2  # the class that is never masked
    soft = random_targets(5, classes).to(dtype).double()
    soft[3] = z[3].double().softmax(-1).to(dtype).double()
    for target in (labels, soft):
        wanted = plain(partial(halfsure.sparsemax_loss, target=target), z, each)
        assert_close(loss(z, target if target.ndim == 1 else target.to(dtype), each), wanted, dtype)


@EACH_DTYPE
@pytest.mark.parametrize("offset", [0.0, 1e8])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_sparsemax_is_exact_at_any_offset_and_scale(scale: float, offset: float, dtype: torch.dtype) -> None:
    for classes in (2, 100, 1000):
        z = (randn(2, classes, seed=classes) * scale + offset).to(dtype)
        got = project(z).double()
        assert (got - by_rows(reference.sparsemax, z)).abs().max() <= CLOSE[dtype]
        assert (got.sum(-1) - 1).abs().max() <= 8 * EPS[dtype]


@EACH_DTYPE
def test_what_is_kept_of_a_row(dtype: torch.dtype) -> None:
    for classes in (3, 200):
        z = every_kind(classes).to(dtype)
        top, tau, excess, count, squares = gpu.ads_forward(z, mean=False)[1].T
        wanted = by_rows(reference.sparsemax, z)
        assert torch.equal(top, z.amax(-1))
        assert torch.equal(count, (wanted > 0).sum(-1).to(dtype))
        torch.testing.assert_close(squares.double(), wanted.square().sum(-1), rtol=CLOSE[dtype], atol=0)
        again = (z.double() - top[:, None].double() - (tau.double() + excess)[:, None]).clamp(min=0)
        torch.testing.assert_close(again, wanted, rtol=0, atol=CLOSE[dtype])


def test_classes_crowding_at_the_threshold() -> None:
    # Each further class sits a hair below the last, so that the candidates change at every step.
    for base in (2.0, 4.0, 16.0):
        crowd = -1 + base ** -torch.arange(1.0, 50, dtype=torch.float64)
        z = torch.cat([torch.zeros(1, dtype=torch.float64), crowd, crowd])[None]
        torch.testing.assert_close(project(z), by_rows(reference.sparsemax, z), rtol=0, atol=1e-12)


def test_row_sums_hold_with_many_candidates() -> None:
    z = torch.full((1, 50_000), -0.9)  # the threshold is rounded at the scale of .9, the probabilities are 2e-6
    z[0, 0] = 0
    assert project(z).double().sum() == pytest.approx(1, abs=1e-6)


def test_the_longest_row_that_fits() -> None:
    assert gpu.fits(65_536)
    assert not gpu.fits(65_537)
    z = randn(1, 65_536) * 0.2
    torch.testing.assert_close(project(z), plain(halfsure.sparsemax, z, torch.zeros_like(z))[0])


@EACH_DTYPE
def test_bad_rows_give_nan_and_touch_no_other(dtype: torch.dtype) -> None:
    good = [[1.0, 0.5, -1.0], [0.0, -INF, 0.25]]
    z, clean = torch.tensor([good[0], *BAD, good[1]], dtype=dtype), torch.tensor(good, dtype=dtype)
    rows, ends = torch.ones(8, 3, dtype=dtype), torch.ones(2, 3, dtype=dtype)
    labels, soft = torch.zeros(8, dtype=torch.long), torch.tensor([[0.75, 0.0, 0.25]], dtype=dtype)
    for results, expected in (
        (probs(z, rows), probs(clean, ends)),
        (ads(z, rows[:, 0]), ads(clean, ends[:, 0])),
        (loss(z, labels, rows[:, 0]), loss(clean, labels[:2], ends[:, 0])),
        (loss(z, soft.repeat(8, 1), rows[:, 0]), loss(clean, soft.repeat(2, 1), ends[:, 0])),
    ):
        for got, wanted in zip(results, expected, strict=True):
            assert got[1:-1].isnan().all()
            assert torch.equal(got[[0, -1]], wanted)
            assert wanted.isfinite().all()


def test_a_true_class_that_is_masked_costs_infinity_and_has_a_gradient() -> None:
    z, upstream = torch.tensor([[1.0, 0.5, -INF]]), torch.ones(1)
    for target in (torch.tensor([2]), torch.tensor([[0.5, 0.0, 0.5]])):
        losses, gradient = loss(z, target, upstream)
        assert losses == INF
        y = target if target.ndim > 1 else torch.tensor([[0.0, 0.0, 1.0]])
        assert torch.equal(gradient, torch.tensor([[0.75, 0.25, 0.0]]) - y)


@EACH_DTYPE
def test_one_gradient_for_all_and_a_scale(dtype: torch.dtype) -> None:
    z, labels = randn(3, 7).to(dtype), torch.tensor([0, 6, 2])
    one = torch.tensor(0.7, dtype=dtype)
    mean, stats = gpu.ads_forward(z, mean=True)
    assert_close((mean, gpu.ads_backward(z, stats, one, 1 / 3)), plain(halfsure.ads_loss, z, one), dtype)
    for upstream in (one, one.expand(3), torch.stack([one] * 6)[::2]):
        assert torch.equal(ads(z, upstream)[1], ads(z, one.repeat(3))[1])
        assert torch.equal(loss(z, labels, upstream)[1], loss(z, labels, one.repeat(3))[1])


def test_a_logit_on_the_threshold_and_an_infinite_gradient_off_the_support() -> None:
    upstream = torch.tensor([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 2.0, INF]])
    z = torch.tensor([[1.0, 0.0, -INF], [0.5, 0.5, -9.0], [1.0, 0.8, -9.0]])
    wanted = torch.tensor([[0.0, 0.0, 0.0], [0.5, -0.5, 0.0], [-0.5, 0.5, 0.0]])
    assert torch.equal(probs(z, upstream)[1], wanted)


def test_the_public_functions_on_these_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_backend", lambda _: gpu)
    z, soft, one = randn(6, 4, seed=5).T, random_targets(4, 6), torch.tensor(1.0, dtype=torch.float64)
    functions: list[Function] = [
        halfsure.ads_loss,
        lambda x: halfsure.sparsemax_loss(x, torch.arange(4)).mean(),
        lambda x: halfsure.sparsemax_loss(x, soft).square().sum(),
        lambda x: halfsure.sparsemax(x, dim=0).square().sum(),
    ]
    for function in functions:
        x = z.clone(memory_format=torch.preserve_format).requires_grad_()
        value = function(x)
        assert_close((value.detach(), torch.autograd.grad(value, x)[0]), plain(function, z, one), torch.float64)
