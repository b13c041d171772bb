"""The paper's analysis in closed form, held against the strategies themselves and against random search."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

import halfsure
from halfsure import theory
from halfsure.targets import Strategy
from halfsure.targets.sharpening import kl_divergence
from halfsure.theory import Region

S = np.concatenate([np.linspace(0.003, 0.997, 400), [0.5, 0.04, 0.05, 0.95, 0.96]])
STRATEGIES: dict[str, Strategy] = {
    "me": halfsure.MinEntropy(),
    "sh": halfsure.Sharpening(),
    "pl": halfsure.PseudoLabel(),
    "ns": halfsure.NegativeSampling(),
    "ads": halfsure.ADS(),
}
NAMES = pytest.mark.parametrize("name", STRATEGIES)


def random_probs(rows: int, classes: int, seed: int = 0, scale: float = 1.0) -> Any:
    z = np.random.default_rng(seed).normal(size=(rows, classes)) * scale
    return np.exp(z) / np.exp(z).sum(-1, keepdims=True)


def ads_losses(probs: Any) -> Any:
    return halfsure.ads_loss(torch.from_numpy(np.log(probs)), reduction="none").numpy()


# Fig. 3


@NAMES
def test_curves_equal_the_strategies(name: str) -> None:
    curve, strategy = theory.CURVES[name](S), STRATEGIES[name]
    u = torch.logit(torch.from_numpy(S)).requires_grad_()
    z = torch.stack([u, torch.zeros_like(u)], -1)
    losses = strategy.losses(z)
    (slope,) = torch.autograd.grad(losses.sum(), u)
    clear = ~np.isin(S, [0.04, 0.05, 0.95, 0.96])  # on a threshold σ(logit(s)) may round to the other side
    np.testing.assert_allclose(slope.numpy()[clear], (curve.gradient * S * (1 - S))[clear], atol=1e-12)
    if name in ("me", "pl", "ns"):
        np.testing.assert_allclose(losses.detach()[clear], curve.loss[clear], atol=1e-12)
    else:  # the curve leaves out the target's own entropy, which has no gradient
        entropy = theory.shannon_entropy(np.stack([curve.target, 1 - curve.target], -1))
        np.testing.assert_allclose(losses.detach(), curve.loss - entropy, atol=1e-12)
        np.testing.assert_allclose(strategy.target(z).probs[:, 0], curve.target, atol=1e-12)
    if name == "pl":
        target = strategy.target(z)
        np.testing.assert_array_equal(target.weight.bool().numpy()[clear], ~np.isnan(curve.target)[clear])


@NAMES
def test_gradients_are_differences_of_the_loss_with_its_target_held_fixed(name: str) -> None:
    s, step = S[np.abs(S - 0.5) > 1e-3], 1e-7
    curve = theory.CURVES[name](s)
    probability = theory.sparse_probability if name == "ads" else np.asarray

    def loss(at: Any) -> Any:
        if name == "me":
            return theory.me_curve(at).loss
        t, p = curve.target, np.clip(probability(at), 1e-300, 1 - 1e-16)
        return np.where(np.isnan(t), 0, -t * np.log(p) - (1 - t) * np.log1p(-p))

    inside = (np.abs(s - 1 / (math.e + 1)) > 1e-3) & (np.abs(s - math.e / (math.e + 1)) > 1e-3)
    numeric = (loss(s + step) - loss(s - step)) / (2 * step)
    np.testing.assert_allclose(curve.gradient[inside], numeric[inside], rtol=1e-5, atol=1e-5)


def test_ads_target_is_appendix_as_formula() -> None:
    s = np.linspace(1 / (math.e + 1) + 1e-6, math.e / (math.e + 1) - 1e-6, 101)
    formula = 1 / (1 + (np.log(math.e * (1 - s) / s) / np.log(math.e * s / (1 - s))) ** 2)
    np.testing.assert_allclose(theory.ads_curve(s).target, formula, rtol=1e-9)


def test_ads_does_nothing_outside_its_own_thresholds() -> None:
    curve = theory.ads_curve(S)
    acting = (1 / (math.e + 1) < S) & (math.e / (math.e + 1) > S) & (S != 0.5)
    np.testing.assert_array_equal(curve.gradient != 0, acting)
    assert (curve.loss[(1 / (math.e + 1) > S) | (math.e / (math.e + 1) < S)] == 0).all()


def test_curves_are_finite_at_the_ends_but_for_min_entropys_gradient() -> None:
    ends = np.array([0.0, 1.0])
    for name, curve in theory.CURVES.items():
        result = curve(ends)
        assert np.isfinite(result.loss).all()
        assert np.isfinite(result.gradient).all() == (name != "me")


def test_pl_and_ns_are_one_loss_when_their_thresholds_complement_each_other() -> None:
    s = np.linspace(0.001, 0.999, 997)  # no value sits on 0.95, where PL acts and NS does not
    pl, ns = theory.pl_curve(s, 0.95), theory.ns_curve(s, 0.05)
    np.testing.assert_array_equal(pl.target, ns.target)
    np.testing.assert_array_equal(pl.loss, ns.loss)
    np.testing.assert_array_equal(pl.gradient, ns.gradient)


def test_min_entropys_gradient_is_unbounded_in_s_and_bounded_in_the_logit() -> None:
    s = expit(np.linspace(-700, 700, 200_001))
    with np.errstate(over="raise"):
        gradient = theory.me_curve(s[(s > 0) & (s < 1)]).gradient
    assert np.abs(gradient).max() > 36
    u = torch.linspace(-700, 700, 200_001, dtype=torch.float64).requires_grad_()
    (slope,) = torch.autograd.grad(halfsure.MinEntropy().losses(torch.stack([u, 0 * u], -1)).sum(), u)
    assert slope.abs().max().item() == pytest.approx(0.2239, abs=1e-4)


def test_sparse_and_soft_probability_differ_but_at_the_middle_and_the_ends() -> None:
    s = np.linspace(0.001, 0.999, 999)
    np.testing.assert_array_equal(np.isclose(theory.sparse_probability(s), s, atol=1e-9), np.isclose(s, 0.5))


def test_ads_target_is_symmetric_about_the_middle_and_not_odd() -> None:
    t, mirrored = theory.ads_curve(S).target, theory.ads_curve(1 - S).target
    np.testing.assert_allclose(t + mirrored, 1, atol=1e-12)
    assert (t >= 0).all()  # an odd function with values above zero has values below it


def test_ads_kl_is_zero_also_at_the_middle() -> None:
    assert halfsure.ads_loss(torch.zeros(1, 2)).item() == pytest.approx(0, abs=1e-7)


# Fig. 1


def test_regions_partition_a_prediction() -> None:
    got = theory.regions([[0.03, 0.25, 0.02, 0.70], [0.96, 0.04, 0.0, 0.0]])
    assert got.tolist() == [
        [Region.NEGLIGIBLE, Region.AMBIGUOUS, Region.NEGLIGIBLE, Region.INFORMED],
        [Region.DETERMINATE, Region.INFORMED, Region.NEGLIGIBLE, Region.NEGLIGIBLE],
    ]
    assert (theory.regions(np.full((1, 100), 0.01)) == Region.AMBIGUOUS).all()


@NAMES
def test_strategies_act_on_the_regions_of_fig_1(name: str) -> None:
    probs = np.concatenate([random_probs(3000, 4, scale=scale) for scale in (0.3, 1, 3)] + [np.full((1, 4), 0.25)])
    low, high = (theory.negligible_threshold(probs), 1.0) if name == "ads" else (0.04, 0.95)
    # Under its own threshold a class is masked; one that stands alone is determinate. Nothing is both.
    kinds = theory.regions(probs, low=low, high=high)
    if name == "ads":
        kinds[(theory.support_size(probs) == 1)[:, None] & (kinds == Region.INFORMED)] = Region.DETERMINATE
    acting = theory.acts(name, probs)
    assert {Region(kind) for kind in kinds[acting]} == theory.TRAITS[name].acts_on


@NAMES
def test_acts_is_where_the_loss_takes_hold(name: str) -> None:
    probs = np.concatenate([random_probs(300, 5, seed=2, scale=scale) for scale in (0.3, 1, 3)])
    acting = theory.acts(name, probs)
    # The loss as a function of the probabilities themselves: where has it a slope?
    identity = halfsure.Map("identity", lambda p, dim=-1: p, halfsure.simplex.negative_shannon)
    p = torch.from_numpy(probs)
    p = (halfsure.sparsemax(p.log()) if name == "ads" else p).requires_grad_()
    strategy: Strategy = {
        "me": halfsure.MinEntropy(map=identity),
        "sh": halfsure.Sharpening(map=identity, distance=kl_divergence),
        "pl": halfsure.PseudoLabel(map=identity),
        "ns": halfsure.NegativeSampling(map=identity),
        "ads": halfsure.ADS(map=identity),
    }[name]
    if name == "pl":
        target = strategy.target(p)
        held = (target.probs * target.weight[:, None] > 0).numpy()
    else:
        (slope,) = torch.autograd.grad(strategy.losses(p).sum(), p)
        held = (slope != 0).numpy()
        if name == "ads":  # a lone candidate has a slope, but no way to go
            held &= ((p > 0).sum(-1, keepdim=True) > 1).numpy()
    np.testing.assert_array_equal(acting, held)


def test_fig_1_activation_is_what_the_targets_show() -> None:
    z = torch.from_numpy(np.log(random_probs(400, 4, scale=0.6)))
    active = {name: (STRATEGIES[name].target(z).probs > 0).sum(-1) for name in ("sh", "pl", "ads")}
    assert (active["sh"] == 4).all()
    assert (active["pl"] == 1).all()
    assert active["ads"].unique().tolist() == [1, 2, 3, 4]
    assert [theory.TRAITS[name].activation for name in ("sh", "pl", "ads")] == ["full", "single", "partial"]


# Theorem 1 and Corollary 1


@given(st.integers(2, 30), st.integers(0, 2**31), st.sampled_from([0.1, 0.5, 1.0, 3.0]), st.booleans())
def test_theorem_1_both_ways(classes: int, seed: int, scale: float, ties: bool) -> None:
    probs = random_probs(20, classes, seed, scale)
    if ties:  # let a random number of classes share the lead
        for row in probs:
            leaders = np.argsort(-row)[: np.random.default_rng(seed).integers(1, classes + 1)]
            row[leaders] = row.max()
        probs /= probs.sum(-1, keepdims=True)
    vanishes = theory.ads_vanishes(probs)
    losses = ads_losses(probs)
    assert np.abs(losses[vanishes]).max(initial=0) < 1e-14
    # A loss that is not zero can be as small as the fourth power of a candidate's probability.
    clear = ~vanishes & ~theory.ads_vanishes(probs, rtol=1e-2)
    assert losses[clear].min(initial=1) > 1e-12


def test_theorem_1_at_its_edge() -> None:
    for tied in (1, 2, 3, 5):
        for factor, zero in ((1 - 1e-9, True), (1 + 1e-6, False)):
            row = np.array([1.0] * tied + [math.exp(-1 / tied) * factor])
            probs = row / row.sum()
            assert bool(theory.ads_vanishes(probs)) == zero
            assert (theory.support_size(probs) == tied) == zero


def test_theorem_1_leaves_out_ties_of_leaders() -> None:
    probs = np.array([[0.4, 0.4, 0.1, 0.1]])
    assert probs[0, 0] < math.e * probs[0, 1]  # the paper's condition fails, and the prediction is not uniform
    assert abs(ads_losses(probs)[0]) < 1e-15


@given(st.integers(2, 30), st.integers(0, 2**31), st.sampled_from([0.1, 0.5, 1.0, 3.0]))
def test_thresholds_separate_and_stay_in_their_ranges(classes: int, seed: int, scale: float) -> None:
    probs = random_probs(50, classes, seed, scale)
    sparse = halfsure.sparsemax(torch.from_numpy(np.log(probs))).numpy()
    low, high = theory.negligible_threshold(probs), theory.determinate_threshold(probs)
    size = theory.support_size(probs)
    np.testing.assert_array_equal(sparse > 0, probs > low)
    np.testing.assert_array_equal(size, (sparse > 0).sum(-1))
    np.testing.assert_array_equal(sparse.max(-1) == 1, (probs.max(-1, keepdims=True) >= high)[:, 0])
    bottom, top = theory.determinate_range(classes)
    assert ((bottom - 1e-12 <= high) & (high <= top + 1e-12)).all()
    for row, limit, support in zip(probs, low[:, 0], size, strict=True):
        bottom, top = theory.negligible_range(classes, int(support))
        assert bottom - 1e-12 <= limit <= top + 1e-12
        assert row[row <= limit].max(initial=0) <= theory.largest_masked(int(support)) + 1e-12


def test_determinate_range_is_attained() -> None:
    for classes in (2, 3, 10):
        bottom, top = theory.determinate_range(classes)
        lowest = np.array([math.e] + [1.0] * (classes - 1))
        assert theory.determinate_threshold(lowest / lowest.sum())[0] == pytest.approx(bottom)
        highest = np.array([math.e, 1.0] + [0.0] * (classes - 2))
        assert theory.determinate_threshold(highest / highest.sum())[0] == pytest.approx(top)


def test_corrected_negligible_bounds_are_attained() -> None:
    for support in (1, 2, 3, 7):
        row = np.array([math.exp(1 / support)] * support + [1.0])
        probs = row / row.sum()
        assert probs[-1] == pytest.approx(theory.largest_masked(support))
        # At the edge itself rounding decides; a hair below it the class is masked.
        row[-1] *= 1 - 1e-9
        assert theory.support_size(row / row.sum()) == support
        assert theory.negligible_threshold(np.append(row[:-1], 1e-12) / (row[:-1].sum() + 1e-12))[0] == pytest.approx(
            theory.negligible_range(support + 1, support)[1]
        )
    for classes in (2, 3, 10):
        row = np.array([math.e] + [1.0] * (classes - 1))
        assert theory.negligible_threshold(row / row.sum())[0] == pytest.approx(theory.negligible_range(classes, 1)[0])


def test_the_papers_negligible_range_is_broken_at_both_ends() -> None:
    def printed(classes: int, support: int) -> tuple[float, float]:
        power = math.exp(support)
        return power / (support + power * (classes - support)), power / (support + power)

    # Its upper end asks for a masked class above the classes that are kept.
    assert printed(10, 2)[1] > 0.5
    assert theory.largest_masked(2) < 0.25
    # Its lower end lies above thresholds that occur.
    row = np.array([math.e] + [1.0] * 9)
    assert theory.negligible_threshold(row / row.sum())[0] < printed(10, 1)[0]
    # Appendix A's own binary case: 1/(e + 1), where the printed range is the point e/(e + 1).
    assert printed(2, 1) == pytest.approx((math.e / (math.e + 1),) * 2)
    assert theory.largest_masked(1) == pytest.approx(1 / (math.e + 1))


def test_negligible_classes_stand_beside_a_determinate_one_and_may_be_missing() -> None:
    sure = theory.regions([0.9, 0.06, 0.04], low=theory.negligible_threshold([0.9, 0.06, 0.04]), high=0.8)
    assert sure.tolist() == [Region.DETERMINATE, Region.NEGLIGIBLE, Region.NEGLIGIBLE]
    assert theory.support_size([0.4, 0.35, 0.25]) == 3


# Entropies


@pytest.mark.parametrize("r", [1.0, 1.5, 2.0, 4.0])
def test_the_ads_potential_is_a_share_of_renyis_entropy_and_its_slope_is_that_of_ads(r: float) -> None:
    z = torch.randn(30, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64).requires_grad_()
    (gradient,) = torch.autograd.grad(halfsure.ads_loss(z, r, reduction="sum"), z)
    sparse = halfsure.sparsemax(z.detach()).numpy()
    np.testing.assert_allclose(theory.ads_potential(sparse, r), -np.log((sparse**r).sum(-1)) / r, atol=1e-12)
    direction, step = torch.randn(30, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64), 1e-6
    ahead, behind = (
        theory.ads_potential(halfsure.sparsemax(z.detach() + sign * step * direction), r) for sign in (1, -1)
    )
    np.testing.assert_allclose((ahead - behind) / (2 * step), (gradient * direction).sum(-1), atol=1e-7)


@pytest.mark.parametrize("order", [0.0, 0.5, 1 + 1e-15, 2.0, 400.0, 1e6])
def test_renyi_entropy_of_a_uniform_row_is_the_log_of_its_size(order: float) -> None:
    assert theory.renyi_entropy([0.1] * 10 + [0.0], order) == pytest.approx(math.log(10), rel=1e-9)


def test_half_of_renyi_2_is_the_potential_for_r_2() -> None:
    probs = random_probs(20, 5)
    np.testing.assert_allclose(theory.ads_potential(probs), theory.renyi_entropy(probs, 2.0) / 2)
    np.testing.assert_allclose(theory.renyi_entropy(probs, 1 + 1e-6), theory.shannon_entropy(probs), atol=1e-5)


@pytest.mark.parametrize("seed", range(12))
def test_a_generic_solver_finds_both_maps(seed: int) -> None:
    z = np.random.default_rng(seed).normal(size=2 + seed) * (0.5 + seed / 4)
    np.testing.assert_allclose(theory.argmax_on_simplex(z, "shannon"), halfsure.softmax(torch.from_numpy(z)), atol=1e-6)
    np.testing.assert_allclose(theory.argmax_on_simplex(z, "gini"), halfsure.sparsemax(torch.from_numpy(z)), atol=1e-6)


# Table I


def test_table_1s_margins_are_those_of_its_own_numbers() -> None:
    """A record of the paper's arithmetic: it checks the erratum, not the code."""
    second_best = {
        "mnist@20": min(23.76, 20.64, 18.45, 19.72, 19.36),
        "cifar10@4000": min(14.72, 14.34, 12.90, 14.15, 13.94),
    }
    margins = {"mnist@20": second_best["mnist@20"] - 14.52, "cifar10@4000": second_best["cifar10@4000"] - 12.40}
    assert margins == pytest.approx({"mnist@20": 3.93, "cifar10@4000": 0.50})


# Refusals


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.ads_curve([0.5, 1.2]), r"every value must lie in \[0, 1\]"),
        (lambda: theory.me_curve(float("nan")), r"every value must lie in \[0, 1\]"),
        (lambda: theory.ads_curve(0.5, r=0.5), r"r must be a finite number of at least 1"),
        (lambda: theory.sh_curve(0.5, temperature=0), r"temperature must be"),
        (lambda: theory.regions([0.5, 0.6]), r"probs must be probabilities"),
        (lambda: theory.regions(0.5), r"probs must be \(…, classes\)"),
        (lambda: theory.acts("sharpening", [0.5, 0.5]), r"strategy must be one of me, sh, pl, ns, ads"),
        (lambda: theory.acts("ads", [0.5, 0.5], threshold=0.9), r"only pl and ns have a threshold, got 0.9 for 'ads'"),
        (lambda: theory.regions([0.5, 0.5], low=0.9, high=0.1), r"lower limit must not lie above"),
        (lambda: theory.determinate_range(1), r"classes must be a finite number of at least 2"),
        (lambda: theory.determinate_threshold([1.0]), r"needs at least two classes"),
        (lambda: theory.negligible_range(3, 4), r"a support of 4 needs at least as many classes"),
        (lambda: theory.largest_masked(1.5), r"support must be a whole number"),  # type: ignore[arg-type]
        (lambda: theory.argmax_on_simplex([[0.0, 1.0]], "gini"), r"one row of finite numbers"),
        (lambda: theory.argmax_on_simplex([0, 1], "renyi"), r"one of shannon, gini"),  # type: ignore[arg-type]
    ],
)
def test_bad_input_is_refused_in_words(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
