"""The adversarial direction: a known quadratic, samples without a gradient, and what a power step leaves alone."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from halfsure.algorithms import VAT, Context
from halfsure.algorithms.vat import unit
from halfsure.views.batch import Batch, Draws
from tests.algorithms.twins import Twin, make_batch, make_module, read_net, rows

INPUTS, CLASSES = 6, 4


def linear_model(seed: int = 0, dtype: torch.dtype = torch.float64) -> nn.Linear:
    generator = torch.Generator().manual_seed(seed)
    model = nn.Linear(INPUTS, CLASSES, dtype=dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=dtype))
    return model


def curvature(model: nn.Linear, x: Tensor) -> Tensor:
    """H of KL(p(x) ‖ p(x + d)) ≈ ½ dᵀHd for z = Wx + b: Wᵀ(diag p − ppᵀ)W. (inputs,) → (inputs, inputs)."""
    p = torch.softmax(model(x), -1)
    return model.weight.T @ (torch.diag(p) - torch.outer(p, p)) @ model.weight


def normal(*shape: int, seed: int = 1, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def direction(vat: VAT, model: nn.Module, samples: Tensor, start: Tensor) -> Tensor:
    clean: Tensor = model(samples).detach()
    return vat.direction(model, samples, clean, start)


def lengths(vectors: Tensor) -> Tensor:
    found: Tensor = torch.linalg.vector_norm(vectors.flatten(1), dim=1)
    return found


# Which direction


def test_many_power_steps_find_the_top_eigenvector() -> None:
    model, samples = linear_model(), normal(8, INPUTS)
    found = direction(VAT(xi=1e-4, power_steps=200), model, samples, normal(8, INPUTS, seed=2))
    for x, d in zip(samples, found, strict=True):
        values, vectors = torch.linalg.eigh(curvature(model, x).detach())
        assert values[-1] > 1.05 * values[-2], "the sample has no single worst direction"
        assert abs(float(vectors[:, -1] @ d)) > 0.999


def test_one_power_step_is_a_product_with_the_curvature_up_to_xi() -> None:
    model, samples, start = linear_model(), normal(8, INPUTS), normal(8, INPUTS, seed=2)
    products = [curvature(model, x).detach() @ unit(d[None])[0] for x, d in zip(samples, start, strict=True)]
    expected = unit(torch.stack(products))
    errors = [
        float(lengths(direction(VAT(xi=xi), model, samples, start) - expected).max()) for xi in (1e-2, 1e-3, 1e-4)
    ]
    assert errors[2] < 1e-3
    assert errors[0] / errors[1] == pytest.approx(10, rel=0.2)
    assert errors[1] / errors[2] == pytest.approx(10, rel=0.2)


def test_the_direction_is_worse_than_a_random_one() -> None:
    """The point of it all: the prediction moves more along it."""
    model, batch = make_module(scale=0.7), make_batch(labeled=20, unlabeled=20, views=1)
    random, adversarial = (
        VAT(power_steps=steps, epsilon=0.2, xi=1e-2).step(Context(model, batch)).consistency.detach()
        for steps in (0, 2)
    )
    assert (adversarial > random).double().mean() > 0.9
    assert adversarial.mean() > 1.5 * random.mean()


@pytest.mark.parametrize("map", ["softmax", "sparsemax"])
@pytest.mark.parametrize("power_steps", [0, 1, 3])
def test_the_direction_comes_from_the_softmax_whatever_the_map(map: str, power_steps: int) -> None:
    model, batch = make_module(), make_batch(views=1)
    samples = torch.cat([batch.labeled, batch.unlabeled[0]])
    start = torch.cat(
        [batch.draws.normal("labeled", batch.labeled), batch.draws.normal("unlabeled", batch.unlabeled[0])]
    )
    found = direction(VAT(map, power_steps=power_steps), model, samples, start)
    expected = Twin.of(f"vat@{map}", power_steps=power_steps).directions(read_net(model), batch)
    torch.testing.assert_close(torch.tensor(rows(found)), torch.tensor(expected), rtol=1e-9, atol=1e-10)


# Length, and samples where nothing changes


@pytest.mark.parametrize("shape", [(5,), (3, 4, 4)])
@pytest.mark.parametrize(
    ("dtype", "scale"),
    [(torch.float32, s) for s in (1e-42, 1e-30, 1.0, 1e30)] + [(torch.float64, s) for s in (1e-300, 1e-30, 1.0, 1e300)],
)
def test_units_have_length_one_at_any_scale(shape: tuple[int, ...], dtype: torch.dtype, scale: float) -> None:
    vectors = (normal(7, *shape) * scale).to(dtype)
    found = unit(vectors)
    torch.testing.assert_close(lengths(found), torch.ones(7, dtype=dtype), rtol=1e-6, atol=1e-6)
    exact = vectors.double() / scale  # subnormal numbers are exact in a wider type, few as their digits are
    cosines = (found.double() * exact).flatten(1).sum(1) / lengths(exact)
    torch.testing.assert_close(cosines, torch.ones(7).double(), rtol=1e-6, atol=0)


def test_a_zero_vector_has_no_unit() -> None:
    assert torch.equal(unit(torch.zeros(2, 3)), torch.zeros(2, 3))


@pytest.mark.parametrize("power_steps", [1, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_sample_without_gradient_keeps_its_random_direction(dtype: torch.dtype, power_steps: int) -> None:
    model = nn.Sequential(nn.ReLU(), linear_model(dtype=dtype))
    samples, start = normal(6, INPUTS, dtype=dtype), normal(6, INPUTS, seed=2, dtype=dtype)
    samples[::2] = -50.0  # all units are off, and stay off within ξ
    found = direction(VAT(power_steps=power_steps), model, samples, start)
    torch.testing.assert_close(found[::2], unit(start)[::2], rtol=0, atol=0)
    assert not torch.isclose(found[1::2], unit(start)[1::2]).all(1).any()
    torch.testing.assert_close(lengths(found), torch.ones(6, dtype=dtype))


@pytest.mark.parametrize("gap", [20.0, 69.0])
def test_tiny_gradients_do_not_underflow(gap: float) -> None:
    """A sure two-class prediction: p₂ ≈ e^−gap, its change moves along the second row of weights alone."""
    model = nn.Linear(INPUTS, 2)
    weight = normal(2, INPUTS, dtype=torch.float32)
    with torch.no_grad():
        model.weight.copy_(weight)
        model.bias.copy_(torch.tensor([0.0, -gap]))
    samples, start = 0.1 * normal(5, INPUTS, dtype=torch.float32), normal(5, INPUTS, seed=2, dtype=torch.float32)
    probs = torch.softmax(model(samples), -1)[:, 1]
    assert (probs < 1e-7).all()
    assert ((probs * 0.1) ** 2 == 0).all() == (gap > 50)  # the squares are lost in float32
    found = direction(VAT(), model, samples, start)
    torch.testing.assert_close((found @ unit(weight[1:])[0]).abs(), torch.ones(5), rtol=1e-4, atol=0)


def test_losses_are_finite_for_predictions_that_never_change() -> None:
    model = make_module()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    for map in ("softmax", "sparsemax"):
        losses = VAT(map, power_steps=2).step(Context(model, make_batch(views=1)))
        losses.consistency.mean().backward()
        torch.testing.assert_close(losses.consistency.detach(), torch.zeros(8).double(), rtol=0, atol=1e-12)
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in model.parameters())


# What a power step leaves alone


class WatchedProduct(torch.autograd.Function):
    """A matrix product that writes down whether the gradient of its weight is asked for."""

    asked: list[bool]

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return x @ weight.T

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor | None]:
        (grad,) = grads
        x, weight = ctx.saved_tensors
        WatchedProduct.asked.append(ctx.needs_input_grad[1])
        return grad @ weight, grad.T @ x if ctx.needs_input_grad[1] else None


class Watched(nn.Module):
    """A linear model by the watched product; every pass draws a number, and one can be told to fail."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(normal(CLASSES, 4))
        self.fixed = nn.Parameter(normal(CLASSES), requires_grad=False)
        self.norm = nn.BatchNorm1d(CLASSES).double()
        self.passes = 0
        self.fail_on = 0
        self.seen: list[bool] = []

    def forward(self, x: Tensor) -> Tensor:
        self.passes += 1
        torch.rand(())
        self.seen.append(self.weight.requires_grad)
        if self.passes == self.fail_on:
            raise RuntimeError("out of memory")
        logits: Tensor = self.norm(WatchedProduct.apply(x.flatten(1), self.weight)) + self.fixed  # type: ignore[no-untyped-call]
        return logits


@contextmanager
def watching() -> Iterator[list[bool]]:
    WatchedProduct.asked = []
    yield WatchedProduct.asked


@pytest.mark.parametrize("power_steps", [1, 3])
def test_a_power_step_asks_for_no_weight_gradient(power_steps: int) -> None:
    model, batch = Watched(), make_batch(views=1)
    model.weight.grad = torch.full_like(model.weight, 7.0)
    with watching() as asked:
        losses = VAT(power_steps=power_steps).step(Context(model, batch))
        assert asked == [False] * power_steps
        assert torch.equal(model.weight.grad, torch.full_like(model.weight, 7.0))
        assert model.seen == [True, *[False] * power_steps, True]
        losses.consistency.mean().backward()
        assert any(asked[power_steps:]), "the perturbed pass is the one that teaches"
    assert (model.weight.requires_grad, model.fixed.requires_grad) == (True, False)


@pytest.mark.parametrize("fail_on", [1, 2, 3, 4])
def test_everything_is_put_back_after_an_exception(fail_on: int) -> None:
    """Passes: 1 clean, 2 and 3 power steps, 4 perturbed."""
    model, batch = Watched(), make_batch(views=1)
    model.fail_on = fail_on
    torch.manual_seed(5)
    torch.rand(())
    after_one_pass = torch.get_rng_state()
    torch.manual_seed(5)
    with watching(), pytest.raises(RuntimeError, match="out of memory"):
        VAT(power_steps=2).step(Context(model, batch))
    assert (model.weight.requires_grad, model.fixed.requires_grad) == (True, False)
    assert model.norm.track_running_stats
    assert model.norm.training
    assert torch.equal(torch.get_rng_state(), after_one_pass)


# Where the random start comes from


def draws_of(labeled: list[int], unlabeled: list[int], **changes: Any) -> Draws:
    return Draws(**{"seed": 3, "step": 5, "labeled": np.array(labeled), "unlabeled": np.array(unlabeled), **changes})


def test_the_start_is_a_function_of_seed_step_and_sample() -> None:
    like = torch.zeros(3, 2, 2, dtype=torch.float64)
    one = draws_of([4, 9, 1], [10, 20, 30])
    other = draws_of([1, 7, 4], [30, 10, 5], rank=1)
    for stream, pairs in (("labeled", [(0, 2), (2, 0)]), ("unlabeled", [(0, 1), (2, 0)])):
        a, b = one.normal(stream, like), other.normal(stream, like)  # type: ignore[arg-type]
        assert all(torch.equal(a[i], b[j]) for i, j in pairs)
    alone = draws_of([], [20]).normal("unlabeled", like[:1])
    assert torch.equal(alone[0], one.normal("unlabeled", like)[1])
    changed = [draws_of([4, 9, 1], [10, 20, 30], seed=4), draws_of([4, 9, 1], [10, 20, 30], step=6)]
    values = torch.cat([d.normal("unlabeled", like) for d in [one, *changed]] + [one.normal("labeled", like)])
    assert len(values.flatten().unique()) == values.numel(), "no number is drawn twice"


def test_the_start_is_normal() -> None:
    values = draws_of([], list(range(4000))).normal("unlabeled", torch.zeros(4000, 5, dtype=torch.float64))
    torch.testing.assert_close(values.mean(0), torch.zeros(5).double(), rtol=0, atol=0.08)
    torch.testing.assert_close(torch.cov(values.T), torch.eye(5).double(), rtol=0, atol=0.1)


def test_losses_follow_samples_into_another_batch() -> None:
    """Without batch norm a sample's loss is its own, whatever stands beside it."""
    model, batch = make_module(), make_batch(labeled=3, unlabeled=6, views=1)
    (unlabeled,) = batch.unlabeled
    order = [4, 0, 5]
    part = Batch(
        batch.labeled[[2]],
        batch.labels[[2]],
        (unlabeled[order],),
        Draws(batch.draws.seed, batch.draws.step, batch.draws.labeled[[2]], batch.draws.unlabeled[order], rank=3),
    )
    whole, small = (VAT(power_steps=2).step(Context(model, b)).consistency for b in (batch, part))
    torch.testing.assert_close(small, whole[[2, 3 + 4, 3 + 0, 3 + 5]], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("labeled", "unlabeled"), [(0, 4), (4, 0)])
def test_one_of_the_streams_may_be_empty(labeled: int, unlabeled: int) -> None:
    losses = VAT().step(Context(make_module(), make_batch(labeled=labeled, unlabeled=unlabeled, views=1)))
    assert len(losses.supervised) == labeled
    assert len(losses.consistency) == 4
    assert losses.consistency.isfinite().all()
