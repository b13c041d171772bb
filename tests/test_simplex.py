"""The maps and their losses, against naive twins, an outside oracle and the theory."""

import copy
import pickle
from typing import Any

import entmax as oracle
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.nn import functional as F

import halfsure
from halfsure.simplex import SOFTMAX, SPARSEMAX, Map, get_map
from tests import reference
from tests.codes import code
from tests.logits import DTYPES, EPS, logits

__all__ = ["code"]

MAPS = {1.0: SOFTMAX, 1.01: get_map("entmax1.01"), 1.5: get_map("entmax1.5"), 2.0: SPARSEMAX}
ALPHAS = st.sampled_from([1.0, 1.0 + 1e-9, 1.1, 1.5, 1.9, 2.0 - 1e-9, 2.0])
NAN, INF = float("nan"), float("inf")


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def random_targets(*shape: int, seed: int = 1) -> Tensor:
    """Points of the simplex, half of whose entries are exactly zero."""
    values = randn(*shape, seed=seed).abs()
    values = values * (values >= values.median(-1, keepdim=True).values)
    return values / values.sum(-1, keepdim=True)


def by_rows(function: Any, z: Tensor, *args: Any) -> Tensor:
    return torch.tensor([function(row, *args) for row in z.double().tolist()], dtype=torch.float64)


# Values


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("offset", [0.0, 1e4, 1e8])
@pytest.mark.parametrize(
    "scale", [1e-3, 1.0, 1e4, *(pytest.param(s, marks=pytest.mark.slow) for s in (1e-2, 1e-1, 1e1, 1e2, 1e3))]
)
def test_sparsemax_is_exact_at_any_offset_and_scale(dtype: torch.dtype, offset: float, scale: float) -> None:
    for classes in (2, 10, 100, 1000):
        z = (randn(8, classes, seed=classes) * scale + offset).to(dtype)
        wanted = by_rows(reference.sparsemax, z)
        got = halfsure.sparsemax(z)
        assert got.dtype == dtype
        assert (got.double() - wanted).abs().max() <= (1e-6 if dtype == torch.float32 else 1e-12)
        assert (got.double().sum(-1) - 1).abs().max() <= 8 * EPS[dtype]


@given(logits(), ALPHAS)
def test_maps_equal_their_naive_twins(z: Tensor, alpha: float) -> None:
    # The twin's (α − 1)·z − τ loses what α − 1 is smaller than 1.
    tolerance = 1e-10 if min(alpha - 1, 2 - alpha) in (0, 1) or 1.05 < alpha < 1.95 else 1e-6
    torch.testing.assert_close(halfsure.entmax(z, alpha), by_rows(reference.entmax, z, alpha), rtol=0, atol=tolerance)


def test_maps_equal_the_oracle() -> None:
    z = randn(64, 40) * 3
    torch.testing.assert_close(halfsure.sparsemax(z), oracle.sparsemax(z, dim=-1))
    torch.testing.assert_close(halfsure.entmax(z, 1.5), oracle.entmax15(z, dim=-1))
    torch.testing.assert_close(halfsure.entmax(z, 1.25), oracle.entmax_bisect(z, alpha=1.25, dim=-1))


def test_the_ends_of_entmax_are_softmax_and_sparsemax_to_the_bit() -> None:
    z = randn(16, 9) * 2
    assert torch.equal(halfsure.entmax(z, 1), torch.softmax(z, -1))
    assert torch.equal(halfsure.entmax(z, 2), halfsure.sparsemax(z))


def test_sparsemax_row_sums_hold_with_many_candidates() -> None:
    z = torch.full((1, 50_000), -0.9)  # the threshold is rounded at the scale of .9, the probabilities are 2e-6
    z[0, 0] = 0
    assert halfsure.sparsemax(z).double().sum() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("alpha", [1.3, 1.9, 1.999])
def test_entmax_solver_meets_classes_crowding_at_the_threshold(alpha: float) -> None:
    # Each further class sits a hair below the last, so that Newton's support changes at every step.
    z = torch.cat([torch.zeros(1), -1 / (alpha - 1) * (1 - 2.0 ** -torch.arange(1.0, 40))]).double()[None]
    torch.testing.assert_close(halfsure.entmax(z, alpha), by_rows(reference.entmax, z, alpha), rtol=0, atol=1e-10)


@given(logits(DTYPES), ALPHAS)
def test_rows_are_on_the_simplex_and_keep_the_order(z: Tensor, alpha: float) -> None:
    probs = halfsure.entmax(z, alpha)
    assert probs.dtype == z.dtype
    assert probs.shape == z.shape
    assert (probs >= 0).all()
    assert (probs.double().sum(-1) - 1).abs().max() <= EPS[z.dtype] * max(4, z.shape[-1] ** 0.5)
    assert (probs[z == -INF] == 0).all()
    ranked = probs.gather(-1, z.argsort(-1, descending=True)).double()
    assert (ranked.diff(dim=-1) <= 0).all()


@given(logits(), ALPHAS, st.integers(0, 2**31))
def test_permuting_classes_permutes_probabilities(z: Tensor, alpha: float, seed: int) -> None:
    order = torch.randperm(z.shape[-1], generator=torch.Generator().manual_seed(seed))
    torch.testing.assert_close(
        halfsure.entmax(z, alpha)[:, order], halfsure.entmax(z[:, order], alpha), rtol=0, atol=1e-13
    )


@given(logits(masks=True), ALPHAS, st.integers(-20, 20))
def test_a_shift_changes_nothing(z: Tensor, alpha: float, power: int) -> None:
    z = z.round(decimals=3).float().double()  # with 24 bits to a logit the shift below is exact
    shift = 2.0**power * (z[z > -INF].abs().max() + 1).log2().ceil().exp2()
    shifted = z + shift
    assume(torch.equal(shifted - shift, z))
    torch.testing.assert_close(halfsure.entmax(shifted, alpha), halfsure.entmax(z, alpha), rtol=0, atol=1e-13)


@pytest.mark.parametrize("map", MAPS.values(), ids=lambda m: m.name)
def test_any_dimension_and_layout(map: Map) -> None:
    z = randn(3, 4, 5, 6)
    for dim in range(-4, 4):
        wanted = map(z.movedim(dim, -1).contiguous()).movedim(-1, dim)
        torch.testing.assert_close(map(z, dim=dim), wanted)
    assert map(randn(7)).shape == (7,)
    torch.testing.assert_close(
        map(z.transpose(1, 3)[:, ::2], dim=1), map(z.transpose(1, 3)[:, ::2].contiguous(), dim=1)
    )
    assert map(torch.zeros(0, 5)).shape == (0, 5)
    assert torch.equal(map(torch.tensor([[3.0], [-7.0]])), torch.ones(2, 1))


@pytest.mark.parametrize("map", MAPS.values(), ids=lambda m: m.name)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_rounded_once(map: Map, dtype: torch.dtype) -> None:
    z = (randn(32, 50) * 2).to(dtype)
    assert torch.equal(map(z), map(z.float()).to(dtype))
    labels = torch.arange(32)
    assert torch.equal(map.loss(z, labels), map.loss(z.float(), labels).to(dtype))


@pytest.mark.parametrize("map", MAPS.values(), ids=lambda m: m.name)
@pytest.mark.parametrize("bad", [[NAN, 0, 0], [INF, 0, 0], [INF, INF, 0], [INF, -INF, 0], [-INF] * 3, [NAN] * 3])
@pytest.mark.parametrize("dtype", DTYPES)
def test_bad_rows_give_nan_and_touch_no_other(map: Map, bad: list[float], dtype: torch.dtype) -> None:
    z = torch.tensor([[1.0, 0.5, -1.0], bad, [0.0, -INF, 0.25]], dtype=dtype, requires_grad=True)
    good = z.detach()[[0, 2]].requires_grad_()
    for function in (map, lambda x: map.loss(x, torch.zeros(len(x), dtype=torch.long))):
        result, clean = function(z), function(good)
        assert result[1].isnan().all()
        assert torch.equal(result[[0, 2]], clean)
        (gradient,) = torch.autograd.grad(result.square().sum(), z)
        (expected,) = torch.autograd.grad(clean.square().sum(), good)
        assert gradient[1].isnan().all()
        assert torch.equal(gradient[[0, 2]], expected)


# Derivatives


@pytest.mark.parametrize("alpha", [1.0, 1.01, 1.3, 1.5, 1.8, 2.0])
def test_first_and_second_derivatives_of_the_maps(alpha: float) -> None:
    z = (randn(4, 6) * 1.5).requires_grad_()
    assert gradcheck(lambda x: halfsure.entmax(x, alpha), z, check_forward_ad=alpha in (1, 2))
    assert gradgradcheck(lambda x: halfsure.entmax(x, alpha), z)


@given(logits(masks=True), ALPHAS, st.integers(0, 2**31))
def test_jacobians_equal_their_naive_twins(z: Tensor, alpha: float, seed: int) -> None:
    z = (z[:, :8].nan_to_num(neginf=-5.0) % 7).requires_grad_()
    upstream = randn(*z.shape, seed=seed)
    (got,) = torch.autograd.grad(halfsure.entmax(z, alpha), z, upstream)
    wanted = by_rows(reference.jacobian, z.detach(), alpha) @ upstream.unsqueeze(-1)
    # p^(2−α) magnifies the rounding of a vanishing p.
    torch.testing.assert_close(got, wanted.squeeze(-1), rtol=1e-6, atol=1e-6)


def test_gradient_at_a_logit_that_sits_on_the_threshold() -> None:
    z = torch.tensor([[1.0, 0.0], [0.5, 0.5]], dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(halfsure.sparsemax(z)[:, 0].sum(), z)
    assert torch.equal(gradient, torch.tensor([[0.0, 0.0], [0.5, -0.5]], dtype=torch.float64))


def test_an_infinite_gradient_off_the_support_stays_outside() -> None:
    z = torch.tensor([[1.0, 0.8, -9.0]], requires_grad=True)
    halfsure.sparsemax(z).backward(torch.tensor([[1.0, 2.0, INF]]))
    assert torch.equal(z.grad, torch.tensor([[-0.5, 0.5, 0.0]]))  # type: ignore[arg-type]


# Losses


@pytest.mark.parametrize("alpha", MAPS)
@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
def test_losses_equal_their_naive_twins(alpha: float, scale: float) -> None:
    map, z = MAPS[alpha], randn(20, 7) * scale
    soft, labels = random_targets(20, 7), torch.arange(20) % 7
    hard = F.one_hot(labels, 7).double()
    for targets, got in ((soft, map.loss(z, soft)), (hard, map.loss(z, hard)), (hard, map.loss(z, labels))):
        rows = zip(z.tolist(), targets.tolist(), strict=True)
        wanted = torch.tensor([reference.fenchel_young(row, y, alpha) for row, y in rows], dtype=torch.float64)
        torch.testing.assert_close(got, wanted, rtol=1e-9, atol=1e-9)


def test_losses_equal_outside_oracles() -> None:
    z, labels, soft = randn(50, 12) * 2, torch.arange(50) % 12, random_targets(50, 12)
    torch.testing.assert_close(SOFTMAX.loss(z, labels), F.cross_entropy(z, labels, reduction="none"))
    torch.testing.assert_close(SOFTMAX.loss(z, soft), F.kl_div(F.log_softmax(z, -1), soft, reduction="none").sum(-1))
    torch.testing.assert_close(halfsure.sparsemax_loss(z, labels), oracle.sparsemax_loss(z, labels))
    torch.testing.assert_close(get_map("entmax1.5").loss(z, labels), oracle.entmax15_loss(z, labels))


def test_sparsemax_loss_is_the_papers_formula() -> None:
    z, soft = randn(50, 12), random_targets(50, 12)
    literal = ((soft - z).square().sum(-1) - (halfsure.sparsemax(z) - z).square().sum(-1)) / 2
    torch.testing.assert_close(halfsure.sparsemax_loss(z, soft), literal)


@pytest.mark.parametrize("map", MAPS.values(), ids=lambda m: m.name)
def test_the_gradient_of_a_loss_is_prediction_minus_target(map: Map) -> None:
    z, labels, soft = (randn(30, 8) * 3).requires_grad_(), torch.arange(30) % 8, random_targets(30, 8)
    for targets, probs in ((soft, soft), (labels, F.one_hot(labels, 8).double())):
        (gradient,) = torch.autograd.grad(map.loss(z, targets).sum(), z)
        torch.testing.assert_close(gradient, (map(z) - probs).detach(), rtol=0, atol=1e-15)


@pytest.mark.parametrize("map", MAPS.values(), ids=lambda m: m.name)
def test_first_and_second_derivatives_of_the_losses(map: Map) -> None:
    z, labels, soft = randn(4, 5).requires_grad_(), torch.tensor([0, 3, 1, 4]), random_targets(4, 5)
    for targets in (labels, soft):
        assert gradcheck(lambda x, y=targets: map.loss(x, y), z, check_forward_ad=map in (SOFTMAX, SPARSEMAX))
        assert gradgradcheck(lambda x, y=targets: map.loss(x, y), z)
    inner = torch.softmax(randn(4, 5, seed=2), -1).requires_grad_()
    assert gradcheck(lambda y: map.loss(z.detach(), y / y.sum(-1, keepdim=True)), inner)


def test_the_gradient_in_a_soft_target_reaches_its_zeros() -> None:
    z = torch.tensor([[1.0, 0.5, -2.0]], dtype=torch.float64)
    y = torch.tensor([[0.0, 1.0, 0.0]], dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(halfsure.sparsemax_loss(z, y).sum(), y)
    torch.testing.assert_close(gradient, (y - (z - 1)).detach())


@given(logits(masks=False), ALPHAS, st.integers(0, 2**31))
def test_losses_are_not_negative_and_vanish_at_the_prediction(z: Tensor, alpha: float, seed: int) -> None:
    map = get_map(f"entmax{alpha!r}")
    z = z.clamp(-1e4, 1e4)
    targets = random_targets(*z.shape, seed=seed)
    losses, distance = map.loss(z, targets), (map(z) - targets).square().sum(-1)
    assert (losses >= -1e-10 * (1 + z.abs().amax())).all()
    assert (losses >= distance / 2 - 1e-10 * (1 + z.abs().amax())).all()  # each Ω here is 1-strongly convex
    assert map.loss(z, map(z)).abs().max() <= 1e-10


@pytest.mark.parametrize("map", MAPS.values(), ids=lambda m: m.name)
def test_masked_classes_in_a_loss(map: Map) -> None:
    z = torch.tensor([[1.0, 0.0, -INF]], dtype=torch.float64, requires_grad=True)
    for targets in (torch.tensor([1]), torch.tensor([[0.25, 0.75, 0.0]], dtype=torch.float64)):
        shorter = targets if targets.ndim == 1 else targets[:, :2]
        masked = map.loss(z, targets)
        torch.testing.assert_close(masked, map.loss(z[:, :2], shorter))
        assert torch.autograd.grad(masked.sum(), z)[0].isfinite().all()
    assert map.loss(z, torch.tensor([2])) == INF  # the true class was ruled out


@pytest.mark.parametrize("map", MAPS.values(), ids=lambda m: m.name)
def test_offsets_cost_a_loss_no_digits(map: Map) -> None:
    z, labels = randn(16, 10).mul(64).round().div(64), torch.arange(16) % 10
    torch.testing.assert_close(map.loss((z + 2**16).float(), labels), map.loss(z.float(), labels), rtol=0, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
@pytest.mark.parametrize("classes", [100, 128, 256, 65_537])
def test_labels_of_any_integer_type(dtype: torch.dtype, classes: int) -> None:
    z, labels = randn(2, classes), torch.tensor([0, 99])
    assert torch.equal(halfsure.sparsemax_loss(z, labels.to(dtype)), halfsure.sparsemax_loss(z, labels))


def test_targets_made_in_half_precision_are_taken_in_any() -> None:
    z = (randn(64, 100) / 10).bfloat16()
    for q in (halfsure.sparsemax(z), halfsure.sharpen(halfsure.softmax(z))):
        for targets in (q, q.float(), q.double()):
            assert halfsure.sparsemax_loss(z, targets).isfinite().all()
            assert halfsure.sparsemax_loss(z.float(), targets).isfinite().all()


def test_empty_batches() -> None:
    for map in MAPS.values():
        assert map.loss(torch.zeros(0, 3), torch.zeros(0, dtype=torch.long)).shape == (0,)
        assert map.loss(torch.zeros(0, 3), torch.zeros(0, 3)).shape == (0,)


# Maps as objects


def test_maps_are_found_by_name_and_survive_copying() -> None:
    assert get_map("softmax") is SOFTMAX is get_map("entmax1.0")
    assert get_map("sparsemax") is SPARSEMAX is get_map("entmax2")
    assert get_map("entmax1.50") == get_map("entmax1.5") != get_map("entmax1.500000001")
    assert get_map("entmax1.000000001").name == "entmax1.000000001"
    for map in MAPS.values():
        assert get_map(map.name) == map == pickle.loads(pickle.dumps(map)) == copy.deepcopy(map)
        assert get_map(map) is map
    z = randn(3, 4)
    assert torch.equal(get_map("entmax1.3")(z), halfsure.entmax(z, 1.3))


@pytest.mark.parametrize("name", ["", "max", "entmax", "entmax0.9", "entmax2.1", "entmaxnan", "Sparsemax", None, 1.5])
def test_unknown_maps_are_refused_in_words(name: Any) -> None:
    with pytest.raises(ValueError, match=r"map is softmax|alpha after entmax"):
        get_map(name)


# Refusals


@pytest.mark.parametrize("function", [halfsure.softmax, halfsure.sparsemax, halfsure.entmax])
def test_maps_refuse_bad_tensors(function: Any) -> None:
    with pytest.raises(ValueError, match=r"floating point, got torch.int64"):
        function(torch.ones(2, 3, dtype=torch.int64))
    with pytest.raises(ValueError, match=r"no classes along dimension -1"):
        function(torch.ones(2, 0))
    with pytest.raises(ValueError, match=r"\(2, 3\) have no dimension 2"):
        function(torch.ones(2, 3), dim=2)
    with pytest.raises(ValueError, match=r"\(\) have no dimension -1"):
        function(torch.tensor(1.0))
    with pytest.raises(TypeError, match=r"torch.Tensor, got list"):
        function([1.0, 2.0])


@pytest.mark.parametrize("alpha", [0.5, 2.5, NAN, INF, "x", None])
def test_alpha_must_lie_between_softmax_and_sparsemax(alpha: Any) -> None:
    with pytest.raises(ValueError, match=r"alpha must be a finite number from 1 to 2, got"):
        halfsure.entmax(torch.ones(2, 3), alpha)


@pytest.mark.parametrize("map", MAPS.values(), ids=lambda m: m.name)
@pytest.mark.parametrize(
    ("z", "target", "message"),
    [
        (torch.ones(3), torch.tensor([0]), r"logits must be \(batch, classes\), got \(3,\); add a batch dimension"),
        (torch.ones(2, 2, 3), torch.tensor([0]), r"got \(2, 2, 3\); flatten the leading"),
        (torch.ones(2, 3, dtype=torch.int32), torch.tensor([0, 1]), r"floating point, got torch.int32"),
        (torch.ones(2, 3), torch.tensor([0, 3]), r"must lie in 0 … 2, got 0 … 3"),
        (torch.ones(2, 3), torch.tensor([0, -1]), r"got -1 … 0; leave unlabeled"),
        (torch.ones(2, 3), torch.tensor([0]), r"must be \(2,\), one a sample, got \(1,\)"),
        (torch.ones(2, 3), torch.ones(2, 3, dtype=torch.int64), r"one-hot targets are taken as probabilities"),
        (torch.ones(2, 3), torch.tensor([True, False]), r"must be integers, got torch.bool"),
        (torch.ones(2, 3), torch.tensor([0.0, 1.0]), r"soft targets must be \(2, 3\) like the logits, got \(2,\)"),
        (torch.ones(2, 3), torch.full((2, 3), 0.3), r"sums off by up to 0.1"),
        (torch.ones(1, 3), torch.tensor([[1.5, -0.5, 0.0]]), r"values from -0.5 to 1.5"),
        (torch.ones(1, 3), torch.tensor([[1.00005, -0.00005, 0.0]]), r"not negative"),
        (torch.ones(1, 3), torch.tensor([[NAN, 0.5, 0.5]]), r"must be probabilities: finite"),
        (torch.ones(1, 3), torch.tensor([[INF, 0.5, 0.5]]), r"must be probabilities: finite"),
    ],
)
def test_losses_refuse_bad_input_in_words(map: Map, z: Tensor, target: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        map.loss(z, target)


def test_a_target_that_is_no_tensor_is_refused() -> None:
    with pytest.raises(TypeError, match=r"targets must be a torch.Tensor, got list"):
        halfsure.sparsemax_loss(torch.ones(1, 2), [0])  # type: ignore[arg-type]
