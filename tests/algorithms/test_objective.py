"""J = J_S + ramp · (α J_C + β J_D), by hand."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from halfsure.algorithms import VAT, Losses, Supervised, objective, ramp
from halfsure.targets import MinEntropy

FINITE = st.floats(-100, 100)
TERMS = st.lists(FINITE, max_size=5)
NAMES = ("supervised", "consistency", "distillation")


def average(*terms: Tensor) -> list[Tensor]:
    """0 for no samples, where torch's mean is NaN."""
    return [values.sum() / max(len(values), 1) for values in terms]


def losses(supervised: list[float], consistency: list[float], distillation: list[float]) -> Losses:
    terms = [torch.tensor(v, dtype=torch.float64) for v in (supervised, consistency, distillation)]
    return Losses(supervised=terms[0], consistency=terms[1], distillation=terms[2])


@given(st.tuples(TERMS, TERMS, TERMS), st.floats(0, 100), st.floats(0, 100), st.floats(0, 1))
def test_objective_equals_the_formula(
    terms: tuple[list[float], list[float], list[float]], alpha: float, beta: float, part: float
) -> None:
    algorithm = VAT(added=[MinEntropy()], weight=alpha, distill_weight=beta)
    found = objective(losses(*terms), algorithm.weights, part, average)
    means = [sum(v) / len(v) if v else 0.0 for v in terms]
    expected = means[0] + part * (alpha * means[1] + beta * means[2])
    assert float(found.total) == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert [float(found.terms[name]) for name in NAMES] == pytest.approx(means)


def test_gradient_of_each_term() -> None:
    terms = [torch.ones(n, dtype=torch.float64, requires_grad=True) for n in (2, 4, 5)]
    weights = VAT(weight=3.0, distill_weight=0.5).weights
    made = Losses(supervised=terms[0], consistency=terms[1], distillation=terms[2])
    objective(made, weights, 0.25, average).total.backward()
    for term, slope in zip(terms, (1 / 2, 0.25 * 3 / 4, 0.25 * 0.5 / 5), strict=True):
        assert term.grad is not None
        torch.testing.assert_close(term.grad, torch.full_like(term, slope))


def test_terms_that_a_method_does_not_have_count_as_nothing() -> None:
    found = objective(losses([1.0, 3.0], [], []), Supervised().weights, 1.0, average)
    assert [float(found.total), *(float(found.terms[name]) for name in NAMES)] == [2, 2, 0, 0]


def test_the_mean_is_the_callers() -> None:
    """Over ranks a mean is more than this rank's samples; the objective asks once for all terms."""
    asked: list[list[int]] = []

    def means(*terms: Tensor) -> list[Tensor]:
        asked.append([len(values) for values in terms])
        return [values.sum() / 10 for values in terms]

    found = objective(losses([1.0], [2.0, 2.0], []), VAT(weight=2.0).weights, 1.0, means)
    assert asked == [[1, 2, 0]]
    assert float(found.total) == pytest.approx(0.1 + 2 * 0.4)


@pytest.mark.parametrize("setting", ["weight", "distill_weight"])
@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf])
def test_bad_weights_are_refused(setting: str, value: float) -> None:
    settings: dict[str, Any] = {setting: value}
    with pytest.raises(ValueError, match=f"^{setting} must be"):
        VAT(**settings)


class Turned(Supervised):
    """Has a fourth term."""

    def __init__(self, rotation_weight: float) -> None:
        super().__init__()
        self.rotation_weight = rotation_weight


def test_a_term_of_an_algorithms_own_needs_but_its_name() -> None:
    """Its weight is the attribute of that name, or 1; it is ramped as other unlabeled terms are."""
    ones, twos = torch.ones(3), torch.full((4,), 2.0)
    found = objective(Losses(supervised=ones, rotation=twos), Turned(3.0).weights, 0.5, average)
    assert float(found.total) == 1 + 0.5 * 3 * 2
    assert float(found.terms["rotation"]) == 2
    assert float(objective(Losses(supervised=ones, rotation=twos), Supervised().weights, 1.0, average).total) == 3


# Ramps


def test_linear_ramp_by_hand() -> None:
    assert [ramp(p, 0.4) for p in (0.0, 0.1, 0.2, 0.4, 0.5, 1.0)] == pytest.approx([0, 0.25, 0.5, 1, 1, 1])


def test_exponential_ramp_by_hand() -> None:
    expected = [math.exp(-5), math.exp(-5 * 0.5625), math.exp(-1.25), 1, 1]
    assert [ramp(p, 0.4, "exp") for p in (0.0, 0.1, 0.2, 0.4, 0.9)] == pytest.approx(expected)


@pytest.mark.parametrize("shape", ["linear", "exp"])
def test_without_a_length_everything_counts_from_the_start(shape: str) -> None:
    assert [ramp(p, 0.0, shape) for p in (0.0, 0.3, 1.0)] == [1.0, 1.0, 1.0]  # type: ignore[arg-type]


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1), st.sampled_from(["linear", "exp"]))
def test_ramps_rise_within_0_and_1(a: float, b: float, length: float, shape: str) -> None:
    low, high = (ramp(p, length, shape) for p in sorted((a, b)))  # type: ignore[arg-type]
    assert 0 <= low <= high <= 1
