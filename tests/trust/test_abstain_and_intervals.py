"""When to abstain, and intervals of accuracies: naive twins, outside oracles, and how often they hold."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest, norm
from torch import Tensor

from halfsure.trust import abstain_threshold, paired_interval, wilson
from tests.trust.samples import NAN, drawn, rand

SAMPLES = st.lists(st.tuples(st.integers(0, 8), st.booleans(), st.integers(0, 3)), max_size=40)


def corrected_rate(threshold: float, rows: list[tuple[float, bool, float]]) -> float:
    """Share of wrong ones at or above a threshold, with one more that is wrong and of mean weight."""
    mean = sum(weight for _, _, weight in rows) / len(rows)
    wrong = kept = 1.0
    for confidence, right, weight in rows:
        if confidence >= threshold:
            kept += weight / mean
            wrong += 0 if right else weight / mean
    return wrong / kept


@given(samples=SAMPLES, precision=st.sampled_from([0.0, 0.3, 0.5, 0.7, 0.8, 0.9]), weighted=st.booleans())
def test_threshold_is_the_first_that_keeps_the_rate(
    samples: list[tuple[int, bool, int]], precision: float, weighted: bool
) -> None:
    rows = [(level / 8, right, float(weight) if weighted else 1.0) for level, right, weight in samples]
    confidence, right, weights = (
        (torch.tensor(column) for column in zip(*rows, strict=True))
        if rows
        else (
            *(torch.zeros(0), torch.zeros(0, dtype=torch.bool)),
            torch.zeros(0),
        )
    )
    found = abstain_threshold(confidence, right, precision, weights if weighted else None)
    if not any(weight for _, _, weight in rows):
        assert found == math.inf
        return
    if found < math.inf:
        assert corrected_rate(found, rows) <= 1 - precision + 1e-9
    for level, _, _ in rows:
        if level < found:
            assert corrected_rate(level, rows) > 1 - precision + 1e-14


def test_one_wrong_sample_more_is_counted() -> None:
    """Nine right ones are what 90 % takes, in spite of 1 − 0.9 being a little below 1/10."""
    for n, threshold in ((8, math.inf), (9, 0.5)):
        assert abstain_threshold(torch.full((n,), 0.5), torch.ones(n, dtype=torch.bool), 0.9) == threshold
    assert abstain_threshold(torch.ones(99), torch.ones(99, dtype=torch.bool), 1.0) == math.inf


def test_a_sure_but_wrong_few_do_not_keep_the_rest_out() -> None:
    confidence = torch.linspace(0, 1, 101, dtype=torch.float64)
    right = torch.ones(101, dtype=torch.bool)
    right[-1] = False  # the surest one: from there on all are wrong, from further below few
    assert abstain_threshold(confidence, right, 0.9) == 0.0


@pytest.mark.parametrize(
    ("confidence", "right", "words"),
    [
        ([0.5, NAN], [True, True], "confidences must be finite"),
        ([0.5], [1], "right must be bool"),
        ([0.5], [True, False], r"right must be bool of shape \(1,\)"),
        ([[0.5]], [True], r"confidences must be \(1,\)"),
    ],
)
def test_abstaining_refuses_in_words(confidence: Any, right: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        abstain_threshold(torch.tensor(confidence), torch.tensor(right), 0.9)
    with pytest.raises(ValueError, match="precision must be a finite number from 0 to 1"):
        abstain_threshold(torch.ones(1), torch.ones(1, dtype=torch.bool), 1.1)


def answers(both: int, gained: int, lost: int, neither: int) -> tuple[Tensor, Tensor]:
    """(before, after) with so many samples right in both, only after, only before, in neither."""
    before = [True] * both + [False] * gained + [True] * lost + [False] * neither
    after = [True] * both + [True] * gained + [False] * lost + [False] * neither
    return torch.tensor(before, dtype=torch.bool), torch.tensor(after, dtype=torch.bool)


def test_paired_interval_as_the_authors_own_software_gives_it() -> None:
    """ci.prop.ps(.05, 12, 4, 26, 6) of Bonett's R package statpsych: 0.2548067 to 0.6251933 around 0.44."""
    result = paired_interval(*answers(both=6, gained=26, lost=4, neither=12))
    assert result["low"] == pytest.approx(0.2548067, abs=5e-8)
    assert result["high"] == pytest.approx(0.6251933, abs=5e-8)
    assert (result["mean"], result["n"]) == (pytest.approx(22 / 48), 48)


@given(counts=st.tuples(*[st.integers(0, 12)] * 4), confidence=st.sampled_from([0.5, 0.9, 0.95, 0.999]))
def test_paired_interval_against_a_naive_twin(counts: tuple[int, int, int, int], confidence: float) -> None:
    before, after = answers(*counts)
    result = paired_interval(before, after, confidence)
    n = len(before)
    if n == 0:
        assert result == {"mean": None, "low": None, "high": None, "n": 0}
        return
    # Wald's interval of the mean of differences −1, 0, 1, once a 1 and a −1 are added to the sample.
    differences = [float(b) - float(a) for a, b in zip(before.tolist(), after.tolist(), strict=True)]
    added = [*differences, 1.0, -1.0]
    centre = sum(added) / len(added)
    variance = sum((value - centre) ** 2 for value in added) / len(added)
    margin = norm.ppf(0.5 + confidence / 2) * math.sqrt(variance / len(added))
    assert result["mean"] == pytest.approx(sum(differences) / n)
    assert result["low"] == pytest.approx(max(-1, centre - margin))
    assert result["high"] == pytest.approx(min(1, centre + margin))
    swapped = paired_interval(after, before, confidence)
    assert (swapped["low"], swapped["high"]) == pytest.approx((-result["high"], -result["low"]))


@pytest.mark.parametrize("cells", [(0.6, 0.2, 0.05, 0.15), (0.9, 0.05, 0.04, 0.01), (0.3, 0.4, 0.1, 0.2)])
def test_paired_interval_holds_up_on_twenty_samples(cells: tuple[float, ...]) -> None:
    """Cells: the chances of right in both, only after, only before, in neither."""
    draws, n = 1500, 20
    truth = cells[1] - cells[2]
    cell = drawn(torch.tensor(cells).expand(draws * n, 4), seed=5).view(draws, n)
    before, after = (cell == 0) | (cell == 2), (cell == 0) | (cell == 1)
    results = [paired_interval(b, a) for b, a in zip(before, after, strict=True)]
    held = sum(result["low"] <= truth <= result["high"] for result in results) / draws
    assert held > 0.95 - 0.025  # four standard deviations of a share over 1,500 draws


@given(n=st.integers(0, 60), part=st.floats(0, 1), confidence=st.sampled_from([0.1, 0.8, 0.95, 0.999]))
def test_wilson_against_scipy(n: int, part: float, confidence: float) -> None:
    right = round(part * n)
    low, high = wilson(right, n, confidence)
    assert 0 <= low <= high <= 1
    if n:
        oracle = binomtest(right, n).proportion_ci(confidence, method="wilson")
        assert (low, high) == pytest.approx((oracle.low, oracle.high), abs=1e-12)
        assert low <= right / n <= high
    else:
        assert (low, high) == (0.0, 1.0)


def test_wilson_holds_on_average_over_accuracies() -> None:
    """The exact chance that the interval of 15 samples holds the accuracy, by summing over what can be seen."""
    truths = rand(200, seed=3).tolist()
    intervals = [wilson(right, 15) for right in range(16)]
    held = [
        sum(binom.pmf(k, 15, truth) for k, (low, high) in enumerate(intervals) if low <= truth <= high)
        for truth in truths
    ]
    assert 0.94 < sum(held) / len(held) < 0.97


def test_intervals_refuse_in_words() -> None:
    flags = torch.ones(2, dtype=torch.bool)
    with pytest.raises(ValueError, match=r"after must be bool of shape \(2,\)"):
        paired_interval(flags, flags[:1])
    with pytest.raises(ValueError, match="before must be bool"):
        paired_interval(flags.float(), flags)
    with pytest.raises(TypeError, match=r"before must be a torch\.Tensor"):
        paired_interval([True], flags)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="confidence must be below 1"):
        paired_interval(flags, flags, 1)
    with pytest.raises(ValueError, match="no more than 3 can be right, got 4"):
        wilson(4, 3)
    with pytest.raises(ValueError, match="n must be a whole number"):
        wilson(0, -1)
