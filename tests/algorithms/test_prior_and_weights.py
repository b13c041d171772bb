"""A prior on the class shares and weights of the classes, against twins, torch and what they are for."""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from halfsure.algorithms import Context, FixMatch, Supervised
from halfsure.algorithms.prior import Prior
from halfsure.methods import method
from halfsure.simplex import get_map
from halfsure.targets import ADS, PseudoLabel
from tests import reference
from tests.algorithms.test_steps import assert_equals_twin, batch_for, numbers_of
from tests.algorithms.twins import CLASSES, NUMBERS, RunningPrior, Twin, make_batch, make_module, rows

SHARES = [0.5, 0.25, 0.125, 0.125]  # exact in any binary type
WEIGHTS = [0.5, 2.0, 1.0, 4.0]


def simplex(*shape: int, seed: int = 0, scale: float = 2.0, map: str = "softmax") -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return get_map(map)(scale * torch.randn(*shape, generator=generator, dtype=torch.float64))


def doubled(prior: list[float], momentum: float = 0.99) -> Prior:
    return Prior(prior, momentum).double()


def taken(prior: Prior, probs: Tensor) -> Tensor:
    """What a step does: the predictions are taken in, then scaled."""
    prior.observe(probs)
    return prior.scale(probs)


def total_variation(a: Tensor, b: Tensor) -> float:
    return float((a - b).abs().sum() / 2)


# The running shares


@pytest.mark.parametrize("map", ["softmax", "sparsemax"])
@pytest.mark.parametrize("momentum", [0.0, 0.75, 0.99])
def test_prior_equals_its_twin_over_many_batches(map: str, momentum: float) -> None:
    ours, twin = doubled(SHARES, momentum), RunningPrior(SHARES, momentum)
    for step in range(20):
        probs = simplex(6, CLASSES, seed=step, map=map)
        scaled = taken(ours, probs)
        torch.testing.assert_close(scaled.tolist(), twin.scale(rows(probs)), rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(ours.running.tolist(), twin.shares, rtol=1e-9, atol=1e-12)


@given(st.integers(0, 2**31), st.sampled_from(["softmax", "sparsemax", "entmax1.5"]))
def test_scaled_predictions_stay_probabilities_and_zeros_stay_zero(seed: int, map: str) -> None:
    probs = simplex(5, CLASSES, seed=seed, map=map, scale=4.0)
    prior = doubled(simplex(CLASSES, seed=seed + 1).tolist(), momentum=0.5)
    for _ in range(3):
        scaled = taken(prior, probs)
        assert torch.equal(scaled == 0, probs == 0)
        assert (scaled >= 0).all()
        torch.testing.assert_close(scaled.sum(-1), torch.ones(5).double())


def test_a_prior_that_equals_the_running_shares_changes_nothing() -> None:
    probs = simplex(64, CLASSES)
    torch.testing.assert_close(taken(doubled(SHARES, momentum=1.0), probs), probs, rtol=1e-12, atol=0)
    true = probs.mean(0)
    prior = doubled(true.tolist(), momentum=0.9)
    for _ in range(5):
        torch.testing.assert_close(taken(prior, probs), probs, rtol=1e-6, atol=0)


def test_a_prior_is_normalised() -> None:
    torch.testing.assert_close(Prior([4, 2, 1, 1]).prior.tolist(), SHARES)


def test_biased_predictions_approach_the_prior() -> None:
    """All the same: the limit is the prior itself. Different ones: their mean comes much nearer."""
    goal = torch.tensor(SHARES, dtype=torch.float64)
    same = torch.tensor([[0.1, 0.1, 0.1, 0.7]], dtype=torch.float64).expand(8, 4)
    prior = doubled(SHARES, momentum=0.9)
    for _ in range(300):
        scaled = taken(prior, same)
    torch.testing.assert_close(scaled.mean(0), goal, rtol=1e-6, atol=0)

    logits = torch.randn(400, CLASSES, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    biased = torch.softmax(logits + torch.tensor([0.0, 0.0, 0.0, 2.0]), -1)
    prior = doubled(SHARES, momentum=0.9)
    distances = [total_variation(taken(prior, biased).mean(0), goal) for _ in range(300)]
    assert total_variation(biased.mean(0), goal) > 0.45
    assert distances[-1] < 0.15
    assert distances[-1] < distances[10] < distances[0]


def test_the_running_shares_are_the_only_state() -> None:
    algorithm = method("fixmatch-ads", prior=SHARES)
    for seed in range(3):
        algorithm.step(Context(make_module(seed), make_batch(seed=seed)))
    fresh = method("fixmatch-ads", prior=SHARES)
    state = algorithm.state_dict()
    assert list(state) == ["prior.running"]
    fresh.load_state_dict(state)
    one, two = (a.step(Context(make_module(), make_batch(seed=9))).consistency for a in (algorithm, fresh))
    assert torch.equal(one, two)
    untouched = method("fixmatch-ads", prior=SHARES).step(Context(make_module(), make_batch(seed=9))).consistency
    assert not torch.equal(one, untouched)


@pytest.mark.parametrize("shares", [[0.5, 0.0, 0.5], [1.0, -1.0], [float("nan"), 1.0]])
def test_a_prior_without_room_for_a_class_is_refused(shares: list[float]) -> None:
    with pytest.raises(ValueError, match="a class share of the prior"):
        Prior(shares)


def test_a_prior_of_other_classes_is_refused() -> None:
    with pytest.raises(ValueError, match="3 classes, the predictions 4"):
        FixMatch(prior=[0.5, 0.25, 0.25]).step(Context(make_module(), make_batch()))


def test_an_empty_batch_leaves_the_running_shares_alone() -> None:
    prior = Prior(SHARES)
    prior.observe(torch.zeros(0, CLASSES))
    assert torch.equal(prior.running, torch.tensor(SHARES))


# In a step


@pytest.mark.parametrize(
    "name",
    [
        "fixmatch@softmax",
        "fixmatch@sparsemax-ads",
        "fixmatch@softmax-top3",
        "mixmatch@softmax",
        "mixmatch@sparsemax-ads",
    ],
)
def test_steps_with_a_prior_and_class_weights_equal_the_naive_twin(name: str) -> None:
    algorithm = method(name, prior=SHARES, class_weight=WEIGHTS, **numbers_of(name)).double()
    twin = Twin.of(name, prior=RunningPrior(SHARES), class_weight=WEIGHTS)
    for step in range(3):
        assert_equals_twin(algorithm, twin, make_module(step), batch_for(name, seed=step), directions=1)
    assert twin.prior is not None
    assert max(abs(a - b) for a, b in zip(twin.prior.shares, SHARES, strict=True)) > 1e-3


@pytest.mark.parametrize("map", ["softmax", "sparsemax", "entmax1.5"])
@pytest.mark.parametrize("algorithm", ["supervised", "vat"])
def test_class_weights_equal_the_naive_twin(algorithm: str, map: str) -> None:
    name = f"{algorithm}@{map}+pl"
    twin = Twin.of(name, class_weight=WEIGHTS)
    ours = method(name, class_weight=WEIGHTS, pl_threshold=NUMBERS["pl_threshold"])
    assert_equals_twin(ours, twin, make_module(), batch_for(name))


# Class weights


@given(st.integers(0, 2**31), st.lists(st.floats(0, 8, width=32), min_size=CLASSES, max_size=CLASSES))
def test_weighted_supervised_loss_is_torchs_weighted_cross_entropy(seed: int, weights: list[float]) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(7, CLASSES, generator=generator, dtype=torch.float64)
    labels = torch.randint(CLASSES, (7,), generator=generator)
    ours = Supervised(class_weight=weights).supervised(logits, labels)
    theirs = F.cross_entropy(logits, labels, weight=torch.tensor(weights, dtype=torch.float64), reduction="none")
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)
    as_rows = Supervised(class_weight=weights).supervised(logits, F.one_hot(labels, CLASSES).double())
    torch.testing.assert_close(as_rows, ours, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("map", ["softmax", "sparsemax", "entmax1.5"])
def test_soft_labels_weigh_as_the_mean_of_their_classes(map: str) -> None:
    logits = 3 * torch.randn(6, CLASSES, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    targets = simplex(6, CLASSES, seed=1)
    ours = Supervised(map, class_weight=WEIGHTS).supervised(logits, targets)
    alpha = {"softmax": 1.0, "sparsemax": 2.0, "entmax1.5": 1.5}[map]
    expected = [
        sum(w * v for w, v in zip(WEIGHTS, y, strict=True)) * reference.fenchel_young(z, y, alpha)
        for z, y in zip(rows(logits), rows(targets), strict=True)
    ]
    torch.testing.assert_close(ours.tolist(), expected, rtol=1e-10, atol=1e-12)


def test_equal_class_weights_only_scale() -> None:
    model, batch = make_module(), make_batch(views=1)
    plain = Supervised().step(Context(model, batch)).supervised
    torch.testing.assert_close(
        Supervised(class_weight=[2.0] * CLASSES).step(Context(model, batch)).supervised, 2 * plain
    )


def test_class_weights_touch_the_labeled_term_alone() -> None:
    model, batch = make_module(), make_batch()
    plain, weighted = (
        FixMatch(ADS(), [PseudoLabel(0.5, map="sparsemax")], class_weight=weights).step(Context(model, batch))
        for weights in (None, WEIGHTS)
    )
    assert torch.equal(plain.consistency, weighted.consistency)
    assert torch.equal(plain.distillation, weighted.distillation)
    assert not torch.equal(plain.supervised, weighted.supervised)


@pytest.mark.parametrize("weights", [[1.0, -0.5], [float("nan"), 1.0], [float("inf"), 1.0]])
def test_bad_class_weights_are_refused(weights: list[float]) -> None:
    with pytest.raises(ValueError, match="a class weight"):
        Supervised(class_weight=weights)


@pytest.mark.parametrize("weights", [[1.0, 2.0, 3.0], [1.0] * 5])
def test_class_weights_of_other_classes_are_refused(weights: list[float]) -> None:
    """As a prior is; else a class without a weight, or one weight too many, shows up late or never."""
    logits = torch.zeros(2, CLASSES)
    with pytest.raises(ValueError, match="class"):
        Supervised(class_weight=weights).supervised(logits, torch.tensor([0, 1]))


def test_an_algorithm_can_be_copied() -> None:
    algorithm = method("fixmatch-ads+ns", prior=SHARES, class_weight=WEIGHTS)
    twin = copy.deepcopy(algorithm)
    algorithm.step(Context(make_module(), make_batch()))
    assert twin.state_dict()["prior.running"].tolist() == SHARES
