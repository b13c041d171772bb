"""Every strategy in every map, against naive twins, theorems and each other."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.nn import functional as F

import halfsure
from halfsure import ADS, MinEntropy, NegativeSampling, PseudoLabel, Sharpening, TopM
from halfsure.simplex import SOFTMAX, SPARSEMAX, Map, get_map
from halfsure.targets import Strategy, kl
from halfsure.targets.sharpening import kl_divergence
from tests import reference
from tests.codes import code
from tests.logits import DTYPES, EPS, logits
from tests.test_simplex import INF, NAN, by_rows, randn

__all__ = ["code"]

MAPS = {1.0: SOFTMAX, 1.5: get_map("entmax1.5"), 2.0: SPARSEMAX}
# name: (strategy in a map, its twin's loss, its twin's target or None), a twin taking (row, alpha)
Twin = Callable[[list[float], float], Any]
STRATEGIES: dict[str, tuple[Callable[[Map], Strategy], Twin, Twin | None]] = {
    "me": (lambda m: MinEntropy(map=m), reference.min_entropy, None),
    "sh": (
        lambda m: Sharpening(0.4, map=m),
        lambda z, a: reference.sharpening(z, a, 0.4),
        lambda z, a: (reference.sharpening_target(z, a, 0.4), 1.0),
    ),
    "pl": (
        lambda m: PseudoLabel(0.6, map=m),
        lambda z, a: reference.pseudo_label(z, a, 0.6),
        lambda z, a: reference.pseudo_label_target(z, a, 0.6),
    ),
    "naive-pl": (
        lambda m: PseudoLabel(0, map=m),
        lambda z, a: reference.pseudo_label(z, a, 0.0),
        lambda z, a: reference.pseudo_label_target(z, a, 0.0),
    ),
    "ns": (lambda m: NegativeSampling(0.1, map=m), lambda z, a: reference.negative_sampling(z, a, 0.1), None),
    "ads": (
        lambda m: ADS(map=m),
        lambda z, a: reference.ads(z, a, 2.0),
        lambda z, a: (reference.ads_target(z, a, 2.0), 1.0),
    ),
    "ads-1.3": (
        lambda m: ADS(1.3, map=m),
        lambda z, a: reference.ads(z, a, 1.3),
        lambda z, a: (reference.ads_target(z, a, 1.3), 1.0),
    ),
    "top3": (
        lambda m: TopM(3, map=m),
        lambda z, a: reference.top_m(z, a, 3, 2.0),
        lambda z, a: (reference.top_m_target(z, a, 3, 2.0), 1.0),
    ),
}
IN_ANY_MAP = pytest.mark.parametrize("alpha", MAPS)
EACH = pytest.mark.parametrize("name", STRATEGIES)


def make(name: str, alpha: float = 2.0) -> Strategy:
    return STRATEGIES[name][0](MAPS[alpha])


# Values


@EACH
@IN_ANY_MAP
@pytest.mark.parametrize("scale", [0.05, 1.0, 20.0])
def test_losses_and_targets_equal_their_naive_twins(name: str, alpha: float, scale: float) -> None:
    strategy, (_, twin, twin_target) = make(name, alpha), STRATEGIES[name]
    z = randn(40, 6) * scale
    losses = strategy.losses(z)
    torch.testing.assert_close(losses, by_rows(twin, z, alpha), rtol=1e-8, atol=1e-10)
    torch.testing.assert_close(strategy(z), losses.mean())
    if twin_target is not None:
        wanted = [twin_target(row, alpha) for row in z.tolist()]
        target = strategy.target(z)
        torch.testing.assert_close(target.probs, torch.tensor([q for q, _ in wanted], dtype=torch.float64))
        assert target.weight.tolist() == [weight for _, weight in wanted]


@EACH
@IN_ANY_MAP
def test_gradients_equal_differences_of_the_twin_with_its_target_held_fixed(name: str, alpha: float) -> None:
    strategy, (_, twin, twin_target) = make(name, alpha), STRATEGIES[name]
    z = (randn(10, 6, seed=3)).requires_grad_()
    (gradient,) = torch.autograd.grad(strategy.losses(z).sum(), z)
    for row, got in zip(z.detach().tolist(), gradient, strict=True):
        frozen = frozen_twin(name, row, alpha, twin, twin_target)
        wanted = torch.tensor(reference.numerical_gradient(frozen, row), dtype=torch.float64)
        torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-7)


def frozen_twin(
    name: str, row: list[float], alpha: float, twin: Twin, twin_target: Twin | None
) -> Callable[[list[float]], float]:
    """The twin's loss near a row, as a function that cannot move the target it was given there."""
    if twin_target is None:
        return lambda z: twin(z, alpha)
    q, weight = twin_target(row, alpha)
    if name.startswith("ads"):
        return lambda z: reference.kl(q, reference.entmax(z, alpha))
    if name == "top3":
        return lambda z: reference.fenchel_young(reference.top_m_logits(z, 3), q, alpha)
    return lambda z: weight * reference.fenchel_young(z, q, alpha)


@settings(max_examples=settings().max_examples // 2)  # each takes long
@given(logits(DTYPES))
def test_every_loss_is_finite_not_negative_and_of_the_input_dtype(z: Tensor) -> None:
    z = z.requires_grad_()
    for name in STRATEGIES:
        if name == "top3" and z.shape[-1] < 3:
            continue
        for alpha in MAPS:
            losses = make(name, alpha).losses(z)
            assert losses.dtype == z.dtype
            assert losses.shape == z.shape[:1]
            assert losses.isfinite().all()
            assert (losses >= -8 * EPS[z.dtype] * z.shape[-1]).all()
            (gradient,) = torch.autograd.grad(losses.sum(), z)
            assert gradient.isfinite().all()
            assert (gradient[z == -INF] == 0).all()
            off = gradient.double().sum(-1).abs()  # a shift of the logits changes no loss
            assert (off <= 16 * EPS[z.dtype] * z.shape[-1]).all()


@EACH
@IN_ANY_MAP
@pytest.mark.parametrize("bad", [[NAN, 0, 0, 0], [INF, 0, 0, 0], [-INF] * 4])
def test_bad_rows_give_nan_and_touch_no_other(name: str, alpha: float, bad: list[float]) -> None:
    strategy = make(name, alpha)
    good = [[1.0, 0.5, -1.0, 0.1], [0.0, -INF, 0.25, 0.2]]
    z = torch.tensor([good[0], bad, good[1]])
    losses = strategy.losses(z)
    assert losses[1].isnan()
    assert torch.equal(losses[[0, 2]], strategy.losses(torch.tensor(good)))
    gradient = torch.autograd.grad(strategy.losses(z.requires_grad_()).sum(), z)[0]
    assert gradient[1].isnan().all()
    assert gradient[[0, 2]].isfinite().all()
    if STRATEGIES[name][2] is not None:
        assert strategy.target(z).probs[1].isnan().all()


@EACH
@IN_ANY_MAP
def test_half_precision_is_rounded_once(name: str, alpha: float) -> None:
    strategy, z = make(name, alpha), randn(30, 10).bfloat16()
    assert torch.equal(strategy.losses(z), strategy.losses(z.float()).bfloat16())
    assert torch.equal(strategy(z), strategy(z.float()).bfloat16())


@EACH
def test_empty_batches(name: str) -> None:
    strategy, z = make(name), torch.zeros(0, 4)
    assert strategy.losses(z).shape == (0,)
    assert strategy(z).isnan()


def test_ads_loss_reduces_like_cross_entropy_also_when_empty() -> None:
    z = randn(5, 4)
    losses = halfsure.ads_loss(z, reduction="none")
    assert torch.equal(losses, ADS().losses(z))
    assert torch.equal(halfsure.ads_loss(z), losses.mean())
    assert torch.equal(halfsure.ads_loss(z, reduction="sum"), losses.sum())
    empty, labels = torch.zeros(0, 4), torch.zeros(0, dtype=torch.long)
    for reduction in ("none", "sum", "mean"):
        ours = halfsure.ads_loss(empty, reduction=reduction)
        torch.testing.assert_close(ours, F.cross_entropy(empty, labels, reduction=reduction), equal_nan=True)


# Sharpening


@given(logits(DTYPES), st.sampled_from([1.0, 1.5, 2.0, 7.0, 60.0, 1e9]))
def test_sharpening_keeps_zeros_order_and_the_simplex(z: Tensor, r: float) -> None:
    probs = halfsure.sparsemax(z)
    sharp = halfsure.sharpen(probs, r)
    assert sharp.dtype == z.dtype
    assert (sharp[probs == 0] == 0).all()
    assert (sharp.double().sum(-1) - 1).abs().max() <= 4 * EPS[z.dtype] * max(4, z.shape[-1] ** 0.5)
    ranked = sharp.gather(-1, probs.argsort(-1, descending=True)).double()
    assert (
        ranked.diff(dim=-1) <= 2 * EPS[z.dtype] * ranked[..., 1:]
    ).all()  # torch's power is monotone but for rounding
    assert (sharp.amax(-1) >= probs.amax(-1) * (1 - 4 * EPS[z.dtype])).all()
    if r == 1:
        torch.testing.assert_close(sharp.double(), probs.double(), rtol=4 * EPS[z.dtype], atol=4 * EPS[z.dtype])


def test_sharpening_with_a_large_power_does_not_underflow() -> None:
    probs = torch.full((1, 1000), 1e-3)
    torch.testing.assert_close(halfsure.sharpen(probs, 60.0), probs)


def test_sharpening_along_another_dimension_and_its_gradient() -> None:
    probs = torch.softmax(randn(3, 4, 5), 1)
    torch.testing.assert_close(halfsure.sharpen(probs, dim=1), halfsure.sharpen(probs.movedim(1, -1)).movedim(-1, 1))
    z = randn(3, 4).requires_grad_()
    assert gradcheck(lambda x: halfsure.sharpen(torch.softmax(x, -1), 2.5), z)
    assert gradgradcheck(lambda x: halfsure.sharpen(torch.softmax(x, -1), 2.5), z)


# ADS


def test_ads_gradient_is_the_closed_form() -> None:
    z = randn(200, 10).requires_grad_()
    (gradient,) = torch.autograd.grad(halfsure.ads_loss(z, reduction="sum"), z)
    torch.testing.assert_close(gradient, by_rows(reference.ads_gradient, z.detach(), 2.0), rtol=0, atol=1e-14)
    p = halfsure.sparsemax(z.detach())
    size, squares = (p > 0).sum(-1, keepdim=True), p.square().sum(-1, keepdim=True)
    torch.testing.assert_close(gradient, ((1 / size.double() - p) / squares).where(p > 0, 0), rtol=0, atol=1e-14)


@pytest.mark.parametrize("r", [1.0, 1.5, 2.0, 5.0])
def test_ads_gradient_is_that_of_the_renyi_form(r: float) -> None:
    z = randn(200, 10).requires_grad_()
    (gradient,) = torch.autograd.grad(halfsure.ads_loss(z, r, reduction="sum"), z)
    p = halfsure.sparsemax(z)
    renyi = -p.where(p > 0, 1).pow(r).where(p > 0, 0).sum(-1).log() / r
    torch.testing.assert_close(gradient, torch.autograd.grad(renyi.sum(), z)[0], rtol=0, atol=1e-14)


@given(logits(DTYPES))
def test_ads_gradient_is_bounded(z: Tensor) -> None:
    z = z.requires_grad_()
    (gradient,) = torch.autograd.grad(halfsure.ads_loss(z, reduction="sum"), z)
    # With x = p_i − 1/m, Cauchy–Schwarz gives Σp² ≥ 1/m + x²·m/(m − 1), and |x| over that is largest, √(m − 1)/2,
    # at x = √(m − 1)/m.
    size = (halfsure.sparsemax(z) > 0).sum(-1, keepdim=True)
    assert (gradient.abs().double() <= (size - 1).double().sqrt() / 2 + 8 * EPS[z.dtype] * size.sqrt()).all()


@pytest.mark.parametrize("size", [3, 10, 100])  # with two candidates it is approached as one vanishes
def test_the_bound_on_the_ads_gradient_is_attained(size: int) -> None:
    p = torch.full((1, size), (1 - (1 + (size - 1) ** 0.5) / size) / (size - 1), dtype=torch.float64)
    p[0, 0] = (1 + (size - 1) ** 0.5) / size
    z = p.requires_grad_()  # sparsemax leaves a point of the simplex where it is
    (gradient,) = torch.autograd.grad(halfsure.ads_loss(z, reduction="sum"), z)
    assert gradient.abs().max().item() == pytest.approx((size - 1) ** 0.5 / 2, rel=1e-12)


def test_ads_derivatives_with_the_target_held_fixed() -> None:
    z = (randn(4, 5) / 2).requires_grad_()
    q = ADS().target(z).probs

    def frozen(x: Tensor) -> Tensor:
        return kl(q, halfsure.sparsemax(x))

    assert gradcheck(frozen, z)
    assert gradgradcheck(frozen, z)

    def gradient(loss: Tensor) -> Tensor:
        return torch.autograd.grad(loss, z, create_graph=True)[0]

    first, first_frozen = gradient(halfsure.ads_loss(z, reduction="sum")), gradient(frozen(z).sum())
    torch.testing.assert_close(first, first_frozen)
    direction = randn(4, 5, seed=9)
    second = gradient((first * direction).sum())
    assert second.abs().max() > 0.1
    torch.testing.assert_close(second, gradient((first_frozen * direction).sum()))


def test_kl_is_infinite_where_a_target_has_left_the_support() -> None:
    q, p = torch.tensor([[0.5, 0.5]]), torch.tensor([[1.0, 0.0]])
    assert kl(q, p) == INF
    assert halfsure.sparsemax_loss(torch.tensor([[2.0, 0.0]]), q) == 0.75


@pytest.mark.parametrize("r", [1.0, 2.0, 3.7])
def test_sharpening_in_sparsemax_with_the_kl_is_ads(r: float) -> None:
    z = randn(50, 8)
    twin = Sharpening(temperature=1 / r, map=SPARSEMAX, distance=kl_divergence)
    torch.testing.assert_close(twin.losses(z), ADS(r).losses(z), rtol=1e-12, atol=1e-15)
    torch.testing.assert_close(twin.target(z).probs, ADS(r).target(z).probs, rtol=1e-12, atol=1e-15)


def test_ads_leaves_sure_and_tied_predictions_alone() -> None:
    z = torch.tensor([[5.0, 1.0, 0.0], [2.0, 2.0, 0.0], [1.0, 1.0, 1.0], [1.0, 0.0, 0.0]], requires_grad=True)
    losses = halfsure.ads_loss(z, reduction="none")
    losses.sum().backward()
    torch.testing.assert_close(losses, torch.zeros(4), rtol=0, atol=1e-7)
    torch.testing.assert_close(z.grad, torch.zeros(4, 3), rtol=0, atol=1e-6)


def test_descending_the_ads_loss_ends_in_a_single_candidate() -> None:
    z = torch.tensor([[0.4, 0.3, 0.2, -3.0]], requires_grad=True)
    optimiser = torch.optim.SGD([z], lr=0.1)
    for _ in range(200):
        optimiser.zero_grad()
        halfsure.ads_loss(z).backward()
        optimiser.step()
    torch.testing.assert_close(halfsure.sparsemax(z.detach()), torch.tensor([[1.0, 0.0, 0.0, 0.0]]))
    assert z[0, 3] == -3  # a class that was masked out all along was never touched


# The rivals


def test_strategies_live_in_the_maps_they_are_named_for() -> None:
    softmax_ones = (MinEntropy(), Sharpening(), PseudoLabel(), NegativeSampling(), TopM(2))
    assert all(strategy.map is SOFTMAX for strategy in softmax_ones)
    assert ADS().map is SPARSEMAX
    assert MinEntropy(map="entmax1.5").map == get_map("entmax1.5")


def test_pseudo_labels_below_the_threshold_count_as_zero_in_the_mean() -> None:
    z = torch.tensor([[9.0, 0.0], [0.1, 0.0]])
    strategy = PseudoLabel(0.95)
    assert strategy.losses(z)[1] == 0
    torch.testing.assert_close(strategy(z), F.cross_entropy(z[:1], torch.tensor([0])) / 2)


def test_pseudo_labels_keep_a_sample_exactly_at_the_threshold() -> None:
    assert PseudoLabel(0.5).target(torch.zeros(1, 2)).weight == 1


def test_top_m_with_every_class_is_sharpening() -> None:
    z = randn(20, 5)
    torch.testing.assert_close(TopM(5, r=2).losses(z), Sharpening(0.5).losses(z))


def test_top_m_never_moves_the_classes_it_left_out() -> None:
    z = randn(20, 6).requires_grad_()
    for map in MAPS.values():
        (gradient,) = torch.autograd.grad(TopM(2, map=map).losses(z).sum(), z)
        assert ((gradient != 0).sum(-1) <= 2).all()
        assert (TopM(2, map=map).target(z).probs > 0).sum(-1).max() <= 2


def test_top_m_keeps_m_classes_also_among_ties() -> None:
    assert (TopM(2).target(torch.zeros(3, 5)).probs > 0).sum(-1).tolist() == [2, 2, 2]


def test_negative_sampling_leaves_a_prediction_alone_that_is_low_everywhere() -> None:
    z = (randn(3, 100) / 10).requires_grad_()
    losses = NegativeSampling(0.04).losses(z)
    losses.sum().backward()
    assert torch.equal(losses, torch.zeros(3, dtype=torch.float64))
    assert torch.equal(z.grad, torch.zeros(3, 100, dtype=torch.float64))  # type: ignore[arg-type]


@EACH
def test_targets_carry_no_gradient_and_sum_to_one(name: str) -> None:
    z = randn(5, 4).requires_grad_()
    if STRATEGIES[name][2] is None:
        with pytest.raises(ValueError, match=r"has no explicit target.*Add it as a loss.*X-Y"):
            make(name).target(z)
    else:
        target = make(name).target(z)
        assert not target.probs.requires_grad
        assert not target.weight.requires_grad
        torch.testing.assert_close(target.probs.sum(-1), torch.ones(5, dtype=torch.float64))


def test_strategies_print_their_settings_and_can_be_copied() -> None:
    assert repr(ADS()) == "ADS(r=2, map=sparsemax)"
    assert repr(TopM(3, map="sparsemax")) == "TopM(m=3, r=2, map=sparsemax)"
    assert repr(Sharpening(0.25)) == "Sharpening(temperature=0.25, map=softmax)"
    assert repr(NegativeSampling()) == "NegativeSampling(threshold=0.04, map=softmax)"
    for name in STRATEGIES:
        assert repr(copy.deepcopy(make(name))) == repr(make(name))
        assert not list(make(name).parameters())


# Refusals


@EACH
def test_strategies_refuse_bad_logits_in_words(name: str) -> None:
    strategy = make(name)
    for bad, message in (
        (torch.ones(3), r"must be \(batch, classes\), got \(3,\)"),
        (torch.ones(2, 3, 4), r"got \(2, 3, 4\)"),
        (torch.ones(2, 3, dtype=torch.long), r"must be floating point, got torch.int64"),
        (torch.ones(2, 0), r"have no classes"),
    ):
        for call in (strategy, strategy.losses, strategy.target):
            with pytest.raises(ValueError, match=message):
                call(bad)


@pytest.mark.parametrize("r", [0.99, 0, -1, NAN, INF, "2x", None])
def test_a_power_that_would_flatten_is_refused(r: Any) -> None:
    for call in (ADS, lambda x: TopM(2, r=x), lambda x: halfsure.ads_loss(torch.ones(1, 2), r=x)):
        with pytest.raises(ValueError, match=r"r must be a finite number of at least 1, got .*would flatten"):
            call(r)
    with pytest.raises(ValueError, match=r"r must be a finite number of at least 1"):
        halfsure.sharpen(torch.tensor([[0.5, 0.5]]), r)


@pytest.mark.parametrize(
    ("make_bad", "message"),
    [
        (lambda: Sharpening(0), r"temperature must be a finite number from 1e-09 to 1, got 0"),
        (lambda: Sharpening(2), r"a temperature above 1 would flatten"),
        (lambda: MinEntropy(map=[1]), r"a map is softmax, sparsemax"),  # type: ignore[arg-type]
        (lambda: PseudoLabel(1.01), r"threshold must be a finite number from 0 to 1, got 1.01"),
        (lambda: NegativeSampling(NAN), r"threshold must be a finite number from 0 to 1, got nan"),
        (lambda: TopM(0), r"m must be a whole number of at least 1"),
        (lambda: TopM(2.5), r"m must be a whole number"),  # type: ignore[arg-type]
        (lambda: TopM(4)(torch.ones(2, 3)), r"keeps 4 classes, but there are only 3"),
        (lambda: MinEntropy(map="sparsemin"), r"a map is softmax, sparsemax or entmax"),
        (lambda: halfsure.ads_loss(torch.ones(1, 2), reduction="avg"), r'"none", got .avg.'),  # type: ignore[arg-type]
        (lambda: halfsure.sharpen(torch.tensor([[0.5, 0.2]])), r"probs must be probabilities.*sums off by up to 0.3"),
        (lambda: halfsure.sharpen(torch.tensor([[1, 0]])), r"probs must be floating point"),
    ],
)
def test_bad_settings_are_refused_in_words(make_bad: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_bad()


def test_a_distance_that_is_no_function_is_refused() -> None:
    with pytest.raises(TypeError, match=r"distance must be a function.*got 'kl'"):
        Sharpening(distance="kl")  # type: ignore[arg-type]
