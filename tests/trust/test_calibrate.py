"""Temperature and class prior: against grids, naive loops and data whose truth is known."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from halfsure.simplex import SOFTMAX, SPARSEMAX, Map
from halfsure.trust import estimate_prior, fit_temperature, temperature_note
from tests.trust.samples import INF, MAPS, NAN, drawn, rand, randn, tables


def mean_loss(temperature: float, logits: Tensor, labels: Tensor, map: Map, weights: Tensor) -> float:
    return float((map.loss(logits / temperature, labels) * weights).sum() / weights.sum())


@pytest.mark.parametrize("map", MAPS, ids=lambda map: map.name)
@settings(max_examples=settings().max_examples // 2)  # each takes long
@given(table=tables(fewest=1), seed=st.integers(0, 1000))
def test_no_temperature_of_a_dense_grid_is_better(map: Map, table: tuple[Tensor, Tensor], seed: int) -> None:
    logits, labels = table
    weights = rand(len(logits), seed=seed) + 0.01
    found = fit_temperature(logits, labels, map, weights)
    assert 0.1 <= found <= 10
    loss = mean_loss(found, logits, labels, map, weights)
    for step in range(25):
        temperature = 10 ** (step / 12 - 1)
        other = mean_loss(temperature, logits, labels, map, weights)
        assert loss <= other + 1e-9 * (1 + other)
        # Of equally good ones the nearest to 1: nothing strictly between 1 and the answer does as well.
        if min(1, found) * 1.05 < temperature < max(1, found) / 1.05:
            assert other > loss


@pytest.mark.parametrize("truth", [0.4, 1.0, 2.5])
def test_softmax_finds_the_temperature_that_labels_were_drawn_at(truth: float) -> None:
    logits = 2 * randn(40_000, 5)
    labels = drawn(SOFTMAX(logits / truth), seed=1)
    assert fit_temperature(logits, labels, SOFTMAX) == pytest.approx(truth, rel=0.03)


@pytest.mark.parametrize(("margin", "temperature"), [(4.0, 1.0), (1.0, 1.0), (0.5, 0.5), (0.25, 0.25), (0.02, 0.1)])
def test_right_by_a_margin_gives_sparsemax_the_nearest_to_one(margin: float, temperature: float) -> None:
    """The loss is 0 as soon as the lead over T reaches 1: for every T up to the margin."""
    logits = torch.tensor([[margin, 0.0, 0.0], [0.0, 2 * margin, 0.0]])
    assert fit_temperature(logits, torch.tensor([0, 1]), SPARSEMAX) == pytest.approx(temperature, rel=1e-6)


@pytest.mark.parametrize("map", MAPS, ids=lambda map: map.name)
def test_temperature_ends_at_its_bounds(map: Map) -> None:
    logits = torch.tensor([[0.05, 0.0], [0.0, 0.05]])
    assert fit_temperature(logits, torch.tensor([0, 1]), map) == 0.1  # right, by so little that any cold helps
    assert fit_temperature(100 * logits, torch.tensor([1, 0]), map) == 10.0  # wrong: best to say nothing


def test_nothing_to_learn_from_leaves_the_temperature_at_one() -> None:
    logits, labels = randn(3, 2), torch.tensor([0, 1, 0])
    assert fit_temperature(logits[:0], labels[:0], SOFTMAX) == 1.0
    assert fit_temperature(logits, labels, SOFTMAX, torch.zeros(3)) == 1.0
    assert fit_temperature(torch.full((3, 2), 0.1), labels, SOFTMAX) == 1.0  # every temperature gives the same
    assert fit_temperature(torch.tensor([[50.0, 50, 0]]), labels[:1], SOFTMAX) == 1.0  # and here to the last digit
    assert fit_temperature(logits[:, :1], torch.zeros(3, dtype=torch.int64), SPARSEMAX) == 1.0


def test_a_weight_is_a_number_of_copies_and_constants_change_nothing() -> None:
    logits = 3 * randn(12, 4)
    labels = drawn(SOFTMAX(logits / 2), seed=1)
    copies = torch.tensor([1, 2, 3] * 4)
    repeated = logits.repeat_interleave(copies, 0), labels.repeat_interleave(copies)
    weighted = fit_temperature(logits, labels, SOFTMAX, copies.double())
    assert weighted == pytest.approx(fit_temperature(*repeated, SOFTMAX), rel=1e-9)
    assert weighted == pytest.approx(fit_temperature(logits + 1e3, labels, SOFTMAX, 7.0 * copies), rel=1e-6)
    assert weighted != pytest.approx(fit_temperature(logits, labels, SOFTMAX), rel=1e-3)


def naive_prior(probs: list[list[float]], shares: list[float], steps: int) -> list[float]:
    """Saerens and others, Eq. 2.8 and 2.9, one sample after another."""
    old = [share / sum(shares) for share in shares]
    prior = list(old)
    for _ in range(steps):
        sums = [0.0] * len(prior)
        for row in probs:
            scaled = [p * new / before for p, new, before in zip(row, prior, old, strict=True)]
            for k, value in enumerate(scaled):
                sums[k] += value / sum(scaled)
        prior = [value / len(probs) for value in sums]
    return prior


@given(table=tables(fewest=1), steps=st.integers(0, 5), seed=st.integers(0, 1000))
def test_prior_against_naive_steps(table: tuple[Tensor, Tensor], steps: int, seed: int) -> None:
    probs = MAPS[seed % 3](table[0])
    shares = rand(probs.shape[-1], seed=seed) + 0.05
    found = estimate_prior(probs, shares, at_most=steps)
    # It may end before its steps do, where they change nothing that counts.
    naive = torch.tensor(naive_prior(probs.tolist(), shares.tolist(), steps), dtype=torch.float64)
    torch.testing.assert_close(found, naive, atol=1e-4, rtol=0)


@pytest.mark.parametrize("map", [SOFTMAX, SPARSEMAX], ids=lambda map: map.name)
def test_prior_is_the_most_likely_one(map: Map) -> None:
    probs, shares = map(2 * randn(200, 4)), torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    found = estimate_prior(probs, shares)

    def likelihood(prior: Tensor) -> float:
        return float((probs / shares @ prior).log().mean())

    for direction in torch.eye(4, dtype=torch.float64):
        assert likelihood(0.999 * found + 0.001 * direction) <= likelihood(found) + 1e-9
    assert found.sum() == pytest.approx(1)
    torch.testing.assert_close(estimate_prior(probs, 50 * shares), found)  # counts do as well


def test_prior_finds_shifted_shares() -> None:
    """Points of three classes on a line, read by the exact posterior under even shares."""
    shares, truth = torch.full((3,), 1 / 3, dtype=torch.float64), torch.tensor([0.7, 0.05, 0.25], dtype=torch.float64)
    centres = torch.tensor([0.0, 2.0, 4.0], dtype=torch.float64)
    labels = drawn(truth.expand(20_000, 3), seed=2)
    points = centres[labels] + randn(20_000, seed=3)
    probs = SOFTMAX(-(points.unsqueeze(-1) - centres).square() / 2)
    assert (probs.mean(0) - truth).abs().max() > 0.05  # what averaging would say
    torch.testing.assert_close(estimate_prior(probs, shares), truth, atol=0.02, rtol=0)


def test_prior_of_one_hot_and_of_no_predictions() -> None:
    probs = torch.eye(3)[[0, 0, 1, 0]]
    torch.testing.assert_close(estimate_prior(probs, torch.ones(3)), torch.tensor([0.75, 0.25, 0.0]).double())
    torch.testing.assert_close(
        estimate_prior(probs[:0], torch.tensor([1.0, 1, 2])), torch.tensor([0.25, 0.25, 0.5]).double()
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([[0.0, NAN]], [0]), "1 of 1 rows of logits are not finite"),
        (([[0.0, -INF]], [0]), "masked by −inf"),
        (([[0.0, 1.0]], [2]), "class indices must lie in 0 … 1"),
        (([[0.0, 1.0]], [0, 1]), r"class indices must be \(1,\)"),
        (([[0.0, 1.0]], [0], [-1.0]), "weights must be finite and at least 0"),
        (([[0.0, 1.0]], [0], [NAN]), "weights must be finite"),
        (([[0.0, 1.0]], [0], [1.0, 1.0]), r"weights must be \(1,\)"),
        (([0.0, 1.0], [0]), r"logits must be \(batch, classes\)"),
    ],
)
def test_temperature_refuses_in_words(arguments: tuple[Any, ...], words: str) -> None:
    logits, labels, *weights = map(torch.tensor, arguments)
    with pytest.raises(ValueError, match=words):
        fit_temperature(logits, labels, SOFTMAX, *weights)


def test_lists_are_told_to_become_tensors() -> None:
    with pytest.raises(TypeError, match=r"labels must be a torch\.Tensor, got list"):
        fit_temperature(torch.zeros(1, 2), [0], SOFTMAX)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("probs", "shares", "words"),
    [
        ([[0.5, 0.6]], [0.5, 0.5], "must be probabilities"),
        ([[NAN, 1.0]], [0.5, 0.5], "must be probabilities"),
        ([0.5, 0.5], [0.5, 0.5], r"must be \(n, classes\)"),
        ([[0.5, 0.5]], [0.5, 0.0], r"every class needs a label .* none of \[1\]"),
        ([[0.5, 0.5]], [0.5, -0.1], "at least 0"),
        ([[0.5, 0.5]], [1.0], r"must be \(2,\)"),
    ],
)
def test_prior_refuses_in_words(probs: Any, shares: list[float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        estimate_prior(torch.tensor(probs), torch.tensor(shares))
    with pytest.raises(ValueError, match="at_most must be a whole number"):
        estimate_prior(torch.tensor([[1.0]]), torch.ones(1), at_most=math.inf)  # type: ignore[arg-type]


def test_labels_without_rhyme_or_reason_are_told_at_the_cap() -> None:
    """Sure of itself and right by chance: a higher temperature would do better still, and the cap is named."""
    logits = torch.eye(3).repeat(20, 1) * 30
    labels = torch.arange(60) % 3
    hot = fit_temperature(logits, labels.flip(0), SOFTMAX)
    assert hot == 10.0
    assert "at its cap, 10" in temperature_note(hot)
    cold = fit_temperature(logits / 1000, labels, SOFTMAX)
    assert cold == pytest.approx(0.1)
    assert "at its lowest, 0.1" in temperature_note(cold)
    assert temperature_note(2.0) == temperature_note(9.99) == temperature_note(0.11) == ""
