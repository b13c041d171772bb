"""A step of every method against its naive twin: the losses of each sample, and the gradient in the weights."""

import re
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from halfsure.algorithms import Algorithm, Context, Losses
from halfsure.methods import catalogue, method, parse
from halfsure.views.batch import Batch
from tests.algorithms.twins import ALPHAS, NUMBERS, Terms, Twin, make_batch, make_module, mean, read_net, slope

WEIGHTS = (0.7, 0.3)
VIEWS = {"supervised": 1, "vat": 1, "mixmatch": 2, "fixmatch": 2}


def in_every_map() -> list[str]:
    """What the catalogue accepts, and pairs of strategies, written with each map that the parts can live in."""
    plain = [name for name, refused in catalogue() if not refused and "@" not in name]
    plain += ["mixmatch-pl", "supervised+me+ns", "vat+ads+ns", "vat+pl+top3+sh", "mixmatch-ads+ns", "mixmatch+me+pl"]
    plain += ["fixmatch-ads+ns", "fixmatch-sh+pl", "fixmatch-top3+me", "fixmatch+ns+sh", "fixmatch-ads+ads"]
    plain += ["mixmatch-top2+top3", "fixmatch-top2+top2", "vat+me+ns+sh"]
    return [
        re.sub(r"^[a-z]+", rf"\g<0>@{map}", name)
        for name in plain
        for map in ALPHAS
        if not (map == "softmax" and "ads" in name)
    ]


def numbers_of(name: str) -> dict[str, float]:
    """The settings of the strategies in a method, under the names that tell them apart."""
    parsed = parse(name)
    parts = {chosen.name for chosen in parsed.strategies}
    numbers = {key: value for key, value in NUMBERS.items() if key.split("_")[0] in parts}
    if name.startswith("mixmatch") and parsed.target is not None and parsed.target.name == "pl":
        numbers["pl_threshold"] = 0.0  # a mixture needs a guess of every sample
    return numbers


def build(name: str, **settings: Any) -> tuple[Algorithm, Twin]:
    numbers = numbers_of(name)
    return method(name, **numbers, **settings), Twin.of(name, numbers={**NUMBERS, **numbers}, **settings)


def batch_for(name: str, **changes: Any) -> Batch:
    return make_batch(views=VIEWS[parse(name).algorithm], **changes)


def gradient(model: nn.Module, losses: Losses) -> list[Tensor]:
    alpha, beta = WEIGHTS
    terms = [(1.0, losses.supervised), (alpha, losses.consistency), (beta, losses.distillation)]
    total = sum((weight * term.mean() for weight, term in terms if len(term)), start=torch.zeros(()))
    return list(torch.autograd.grad(total, list(model.parameters())))


def random_directions(model: nn.Module, count: int, seed: int = 5) -> list[list[Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    return [
        [torch.randn(p.shape, generator=generator, dtype=p.dtype) for p in model.parameters()] for _ in range(count)
    ]


def assert_same_losses(losses: Losses, expected: Terms) -> None:
    found = {"J_S": losses.supervised, "J_C": losses.consistency, "J_D": losses.distillation}
    for (term, ours), theirs in zip(found.items(), expected, strict=True):
        assert ours.tolist() == pytest.approx(theirs, rel=1e-10, abs=1e-10), term


def assert_equals_twin(algorithm: Algorithm, twin: Twin, model: nn.Module, batch: Batch, directions: int = 2) -> Terms:
    """Losses equal, and the gradient along random directions of all weights."""
    net = read_net(model)
    losses = algorithm.step(Context(model, batch))
    shares = twin.prior and list(twin.prior.shares)
    expected = twin.losses(net, batch, twin.freeze(net, batch))
    assert_same_losses(losses, expected)
    found = gradient(model, losses)
    for by in random_directions(model, directions):
        if twin.prior and shares:
            twin.prior.shares = list(shares)
        along = sum(float((g * d).sum()) for g, d in zip(found, by, strict=True))
        assert along == pytest.approx(slope(twin, net, batch, by, WEIGHTS), rel=2e-6, abs=1e-7)
    return expected


@pytest.mark.parametrize("name", in_every_map())
def test_losses_and_gradient_equal_the_naive_twin(name: str) -> None:
    algorithm, twin = build(name)
    assert_equals_twin(algorithm, twin, make_module(), batch_for(name))


# Settings


@pytest.mark.parametrize("distance", ["fy", "l2", "kl"])
@pytest.mark.parametrize("map", ALPHAS)
@pytest.mark.parametrize("method_in", ["vat@{}", "mixmatch@{}", "mixmatch@{}-top3", "fixmatch@{}", "fixmatch@{}-sh"])
def test_every_distance_equals_the_naive_twin(method_in: str, map: str, distance: str) -> None:
    name = method_in.format(map)
    algorithm, twin = build(name, distance=distance)
    assert_equals_twin(algorithm, twin, make_module(seed=3), batch_for(name, seed=3))


@pytest.mark.parametrize("distance", ["fy", "l2", "kl"])
@pytest.mark.parametrize("map", ["sparsemax", "entmax1.5"])
def test_distances_of_sparse_targets_from_predictions_that_rule_them_out(map: str, distance: str) -> None:
    """Sure predictions: supports of target and prediction differ, and the KL needs its clamp."""
    name = f"fixmatch@{map}-ads"
    algorithm, twin = build(name, distance=distance)
    model, batch = make_module(seed=1, scale=2.0), batch_for(name, seed=4, unlabeled=16)
    _, consistency, _ = assert_equals_twin(algorithm, twin, model, batch)
    if distance == "kl":
        assert max(consistency) > 4  # −log 1e-8 is 18, times what the target puts there


@pytest.mark.parametrize(
    "settings",
    [{"epsilon": 2.0}, {"xi": 1e-3}, {"xi": 3.0}, {"power_steps": 0}, {"power_steps": 4}, {"epsilon": 0.0}],
    ids=str,
)
@pytest.mark.parametrize("name", ["vat@softmax+me", "vat@sparsemax+ads"])
def test_settings_of_vat(name: str, settings: dict[str, Any]) -> None:
    algorithm, twin = build(name, **settings)
    _, consistency, _ = assert_equals_twin(algorithm, twin, make_module(), batch_for(name))
    assert (max(consistency) < 1e-12) == (settings.get("epsilon") == 0)


@pytest.mark.parametrize("copies", [1, 2, 4])
@pytest.mark.parametrize("mixup", [0.05, 4.0])
@pytest.mark.parametrize("name", ["mixmatch@softmax+ns", "mixmatch@sparsemax-ads+me"])
def test_settings_of_mixmatch(name: str, mixup: float, copies: int) -> None:
    algorithm = method(name, copies=copies, mixup=mixup, **numbers_of(name))
    twin = Twin.of(name, mixup=mixup)
    assert algorithm.views == ("weak",) * copies
    assert_equals_twin(algorithm, twin, make_module(), make_batch(views=copies))


@pytest.mark.parametrize("settings", [{}, {"prior": [0.1, 0.2, 0.3, 0.4]}, {"distance": "l2"}], ids=str)
@pytest.mark.parametrize("name", [n for n in in_every_map() if re.fullmatch(r"fixmatch@[a-z0-9.]+(-[a-z0-9]+)?", n)])
def test_weak_views_without_a_gradient_are_the_same_mathematics(name: str, settings: dict[str, Any]) -> None:
    model, batch = make_module(seed=6), batch_for(name, seed=6)
    apart, joint = (method(name, weak_grad=on, **numbers_of(name), **settings) for on in (False, True))
    one, other = apart.step(Context(model, batch)), joint.step(Context(model, batch))
    for term in ("supervised", "consistency", "distillation"):
        torch.testing.assert_close(getattr(one, term), getattr(other, term), rtol=1e-12, atol=1e-12)
    assert one.diagnostics.keys() == other.diagnostics.keys()
    for key, values in one.diagnostics.items():
        assert torch.equal(values, other.diagnostics[key])
    torch.testing.assert_close(gradient(model, one), gradient(model, other), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["fixmatch@softmax", "fixmatch@softmax-top3", "fixmatch@sparsemax-ads"])
def test_weak_views_without_a_gradient_equal_the_naive_twin(name: str) -> None:
    _, twin = build(name)
    algorithm = method(name, weak_grad=False, **numbers_of(name))
    assert_equals_twin(algorithm, twin, make_module(seed=6), batch_for(name, seed=6))


def test_weak_views_without_a_gradient_keep_nothing_for_a_backward_pass() -> None:
    passes: list[tuple[int, bool]] = []
    model, batch = make_module(), batch_for("fixmatch", labeled=3, unlabeled=5)
    model.register_forward_hook(lambda _, __, logits: passes.append((len(logits), logits.requires_grad)))
    method("fixmatch-ads", weak_grad=False).step(Context(model, batch))
    assert passes == [(5, False), (8, True)]
    passes.clear()
    method("fixmatch-ads").step(Context(model, batch))
    assert passes == [(13, True)]


@pytest.mark.parametrize("name", ["fixmatch+me", "fixmatch-ads+ns"])
def test_added_strategies_need_the_gradient_of_weak_views(name: str) -> None:
    with pytest.raises(ValueError, match=r"is added as a loss on the weak views and needs their gradient: leave weak_"):
        method(name, weak_grad=False)


@pytest.mark.parametrize("labeled", [1, 9])
@pytest.mark.parametrize("name", ["supervised@softmax+pl", "vat@sparsemax+pl", "mixmatch@softmax", "fixmatch@softmax"])
def test_any_number_of_labeled_and_unlabeled_samples(name: str, labeled: int) -> None:
    algorithm, twin = build(name)
    assert_equals_twin(algorithm, twin, make_module(seed=2), batch_for(name, labeled=labeled, unlabeled=10 - labeled))


# Gradients, weight by weight


@pytest.mark.parametrize("name", ["vat@sparsemax+ads", "mixmatch@softmax+ns", "fixmatch@sparsemax-ads+ns"])
def test_gradient_of_every_single_weight(name: str) -> None:
    algorithm, twin = build(name)
    model, batch = make_module(seed=4), batch_for(name, labeled=2, unlabeled=3)
    net, found = read_net(model), gradient(model, algorithm.step(Context(model, batch)))
    for i, parameter in enumerate(model.parameters()):
        for position in range(parameter.numel()):
            by = [torch.zeros_like(p) for p in model.parameters()]
            by[i].view(-1)[position] = 1.0
            expected = slope(twin, net, batch, by, WEIGHTS)
            assert float(found[i].view(-1)[position]) == pytest.approx(expected, rel=2e-6, abs=1e-7)


def test_targets_let_no_gradient_through() -> None:
    """With frozen targets the slope is another than that of the whole: the twin can tell them apart."""
    name = "fixmatch@sparsemax-ads"
    algorithm, twin = build(name)
    model, batch = make_module(), batch_for(name)
    net, (by,) = read_net(model), random_directions(model, 1)

    def total(step: float) -> float:
        at = net.moved(by, step)
        supervised, consistency, _ = twin.losses(at, batch, twin.freeze(at, batch))
        return mean(supervised) + WEIGHTS[0] * mean(consistency)

    whole = (total(1e-6) - total(-1e-6)) / 2e-6
    along = sum(
        float((g * d).sum()) for g, d in zip(gradient(model, algorithm.step(Context(model, batch))), by, strict=True)
    )
    assert abs(along - whole) > 1e-2


# What the cases exercise, and what is reported


def test_the_cases_are_not_trivial() -> None:
    """Thresholds that are met and missed, predictions with one, some and all classes."""
    model, batch = make_module(), make_batch()
    net, sizes = read_net(model), set()
    weights = Twin.of("fixmatch@softmax").freeze(net, batch).goals
    assert {goal.weight for goal in weights} == {0.0, 1.0}
    for view in batch.unlabeled:
        probs = parse("vat@sparsemax").map(model(view))
        sizes |= set((probs > 0).sum(-1).tolist())
    assert len(sizes) >= 3
    for name in ("vat@softmax+ns", "vat@sparsemax+ads", "vat@softmax+pl"):
        twin = Twin.of(name)
        *_, distillation = twin.losses(net, batch, twin.freeze(net, batch))
        assert sum(value > 1e-3 for value in distillation) >= 2, name


@pytest.mark.parametrize("name", ["fixmatch@softmax", "fixmatch@sparsemax-ads", "mixmatch@sparsemax-ads+ns"])
def test_diagnostics_are_one_value_a_sample(name: str) -> None:
    algorithm, twin = build(name)
    model, batch = make_module(), batch_for(name)
    losses = algorithm.step(Context(model, batch))
    assert {len(values) for values in losses.diagnostics.values()} == {len(batch.unlabeled[0])}
    assert not any(values.requires_grad for values in losses.diagnostics.values())
    if name.startswith("fixmatch"):
        goals = twin.freeze(read_net(model), batch).goals
        assert losses.diagnostics["used"].tolist() == [goal.weight for goal in goals]
        now = [twin.probs(read_net(model).logits(u)) for u in batch.unlabeled[0].flatten(1).tolist()]
        moved = [
            float(g.weight > 0 and max(abs(a - b) for a, b in zip(g.probs, p, strict=True)) > 1e-6)
            for g, p in zip(goals, now, strict=True)
        ]
        assert losses.diagnostics["sharpened"].tolist() == moved


@pytest.mark.parametrize("name", ["supervised+me", "vat+ads", "mixmatch+ns", "fixmatch-ads"])
def test_a_step_is_repeatable_and_leaves_the_batch_alone(name: str) -> None:
    algorithm, model, batch = method(name), make_module(), batch_for(name)
    before = [batch.labeled.clone(), *(view.clone() for view in batch.unlabeled)]
    one, two = algorithm.step(Context(model, batch)), algorithm.step(Context(model, batch))
    for term in ("supervised", "consistency", "distillation"):
        assert torch.equal(getattr(one, term), getattr(two, term))
    assert all(torch.equal(a, b) for a, b in zip(before, [batch.labeled, *batch.unlabeled], strict=True))
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize("name", ["supervised+me", "mixmatch-ads", "fixmatch-ads"])
def test_half_precision_logits_give_full_precision_losses(name: str) -> None:
    batch = batch_for(name)
    half = Batch(batch.labeled.bfloat16(), batch.labels, tuple(u.bfloat16() for u in batch.unlabeled), batch.draws)
    losses = method(name).step(Context(make_module().bfloat16(), half))
    exact = method(name).step(Context(make_module(), batch))
    assert losses.supervised.dtype == torch.float32
    torch.testing.assert_close(losses.supervised.double(), exact.supervised, rtol=0.1, atol=0.1)
