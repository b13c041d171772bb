"""The measures, against naive loops, outside oracles and what they must obey whatever the predictions."""

import json
import math
import statistics
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_rel
from sklearn.calibration import calibration_curve
from sklearn.metrics import (
    accuracy_score,
    brier_score_loss,
    confusion_matrix,
    log_loss,
    precision_score,
    recall_score,
)
from torch import Tensor

from halfsure import ADS, PseudoLabel, Target, metrics
from halfsure.metrics import dead_classes, last_median, paired_difference, pseudo_labels, score
from halfsure.simplex import SOFTMAX, SPARSEMAX, Map, get_map
from tests import reference
from tests.logits import DTYPES

Row = list[float]
MAPS = [SOFTMAX, get_map("entmax1.5"), SPARSEMAX]
ALPHA = {"softmax": 1.0, "entmax1.5": 1.5, "sparsemax": 2.0}
NAN, INF = float("nan"), float("inf")
# What can be said of a sample whose label is not known.
LABEL_FREE = {"samples", "dominant", "softmax_dominant", "support", "sparse_support", "histogram", "predicted"}


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def random_labels(n: int, classes: int, seed: int = 1, lowest: int = 0) -> Tensor:
    return torch.randint(lowest, classes, (n,), generator=torch.Generator().manual_seed(seed))


@st.composite
def tables(draw: st.DrawFn, lowest: int = -1, fewest: int = 0) -> tuple[Tensor, Tensor]:
    """(logits, labels): exact ties, one-hot and flat predictions, every dtype, any share of unknown labels."""
    n, classes = draw(st.integers(fewest, 40)), draw(st.integers(1, 6))
    seed = draw(st.integers(0, 2**31))
    z = randn(n, classes, seed=seed)
    if draw(st.booleans()):
        z = z.mul(2).round().div(2)
    z = z * draw(st.sampled_from([1e-3, 0.5, 1.0, 4.0, 1e3]))
    return z.to(draw(st.sampled_from(DTYPES))), random_labels(n, classes, seed + 1, lowest)


# Naive twins: what each measure says in words, one sample after another


def mean(values: list[Any]) -> float | None:
    return sum(values) / len(values) if values else None


def first_best(row: Row) -> int:
    best = 0
    for k, value in enumerate(row):
        if value > row[best]:
            best = k
    return best


def naive_reliability(confidence: Row, right: list[bool], bins: int) -> list[dict[str, Any]]:
    table = []
    for b in range(bins):
        lower, upper = b / bins, (b + 1) / bins
        inside = [i for i, p in enumerate(confidence) if (lower < p or b == 0) and (p <= upper or b == bins - 1)]
        confidences, hits = [confidence[i] for i in inside], [right[i] for i in inside]
        row = {"lower": lower, "upper": upper, "count": len(inside)}
        table.append({**row, "confidence": mean(confidences), "accuracy": mean(hits)})
    return table


def naive_ece(confidence: Row, right: list[bool], bins: int) -> float | None:
    if not right:
        return None
    total = 0.0
    for row in naive_reliability(confidence, right, bins):
        if row["count"]:
            total += row["count"] / len(right) * abs(row["accuracy"] - row["confidence"])
    return total


def naive_equal_mass(confidence: Row, right: list[bool], bins: int) -> float | None:
    n = len(right)
    if n == 0:
        return None
    shared = [mean([right[j] for j in range(n) if confidence[j] == confidence[i]]) for i in range(n)]
    order = sorted(range(n), key=lambda i: confidence[i])
    total, start = 0.0, 0
    for b in range(bins):
        stop = start + n // bins + (1 if b < n % bins else 0)  # the first bins take what is left over
        part = order[start:stop]
        total += abs(sum((shared[i] or 0.0) - confidence[i] for i in part)) / n
        start = stop
    return total


def naive_score(logits: Tensor, labels: Tensor, probs: dict[str, list[Row]], alpha: float, bins: int) -> dict[str, Any]:
    """`probs` are the rows of the "map", of "softmax" and of "sparsemax"."""
    z, y, p = logits.double().tolist(), labels.tolist(), probs["map"]
    n, classes = logits.shape
    best = [first_best(row) for row in z]
    known = [i for i in range(n) if y[i] != -1]
    right = [best[i] == y[i] for i in known]
    hot = {i: [float(k == y[i]) for k in range(classes)] for i in known}
    top = [max(row) for row in p]
    soft_top = [max(row) for row in probs["softmax"]]
    histogram = [0] * 10
    for row in p:
        for value in row:
            histogram[max(tenth for tenth in range(10) if tenth / 10 <= value)] += 1
    return {
        "samples": n,
        "labeled": len(known),
        "error": mean([not hit for hit in right]),
        "brier": mean([sum((p[i][k] - hot[i][k]) ** 2 for k in range(classes)) for i in known]),
        "ece": naive_ece([top[i] for i in known], right, bins),
        "ece_equal_mass": naive_equal_mass([top[i] for i in known], right, bins),
        "loss": mean([reference.fenchel_young(reference.shift(z[i]), hot[i], alpha) for i in known]),
        "reliability": naive_reliability([top[i] for i in known], right, bins),
        "softmax_nll": mean([reference.fenchel_young(reference.shift(z[i]), hot[i], 1.0) for i in known]),
        "softmax_ece": naive_ece([soft_top[i] for i in known], right, bins),
        "dominant": mean(top),
        "dominant_right": mean([top[i] for i in known if best[i] == y[i]]),
        "dominant_wrong": mean([top[i] for i in known if best[i] != y[i]]),
        "softmax_dominant": mean(soft_top),
        "support": mean([sum(value > 0 for value in row) for row in p]),
        "top_m_accuracy": mean([p[i][y[i]] > 0 for i in known]),
        "sparse_support": mean([sum(value > 0 for value in row) for row in probs["sparsemax"]]),
        "sparse_top_m_accuracy": mean([probs["sparsemax"][i][y[i]] > 0 for i in known]),
        "histogram": histogram,
        "predicted": [best.count(k) for k in range(classes)],
        "class_error": [mean([best[i] != k for i in known if y[i] == k]) for k in range(classes)],
    }


def assert_near(got: Any, wanted: Any, where: str = "result") -> None:
    if isinstance(wanted, dict):
        assert list(got) == list(wanted), where
        for key in wanted:
            assert_near(got[key], wanted[key], f"{where}.{key}")
    elif isinstance(wanted, list):
        assert len(got) == len(wanted), where
        for i, (one, other) in enumerate(zip(got, wanted, strict=True)):
            assert_near(one, other, f"{where}[{i}]")
    elif isinstance(wanted, float):
        assert got == pytest.approx(wanted, rel=1e-9, abs=1e-10), where
    else:
        assert got == wanted, where


# Values


@given(tables(), st.sampled_from(MAPS), st.integers(1, 20))
def test_every_measure_equals_its_naive_twin(table: tuple[Tensor, Tensor], map: Map, bins: int) -> None:
    z, y = table
    # The maps' own probabilities, which other tests vouch for: a last digit decides on which side of an edge they lie.
    read = {"map": map, "softmax": SOFTMAX, "sparsemax": SPARSEMAX}
    probs = {name: one(z.double()).tolist() for name, one in read.items()}
    assert_near(score(z, y, map, bins=bins), naive_score(z, y, probs, ALPHA[map.name], bins))


@pytest.mark.parametrize("map", MAPS, ids=lambda map: map.name)
@pytest.mark.parametrize(("n", "classes"), [(200, 2), (60, 10), (3, 1000)])
def test_score_equals_the_twin_that_knows_nothing_of_torch(map: Map, n: int, classes: int) -> None:
    z, y = randn(n, classes), random_labels(n, classes, lowest=-1)

    def read(function: Callable[[Row], Row]) -> list[Row]:
        return [function(row) for row in z.tolist()]

    alpha = ALPHA[map.name]
    probs = {
        "map": read(lambda row: reference.entmax(row, alpha)),
        "softmax": read(reference.softmax),
        "sparsemax": read(reference.sparsemax),
    }
    assert_near(score(z, y, map), naive_score(z, y, probs, alpha, 15))


@pytest.mark.parametrize("map", MAPS, ids=lambda map: map.name)
def test_score_equals_the_oracles(map: Map) -> None:
    z, y = randn(400, 4) * 2, random_labels(400, 4)
    got, probs, best = score(z, y, map), map(z).numpy(), z.argmax(-1).numpy()
    assert got["error"] == pytest.approx(1 - accuracy_score(y, best), abs=1e-12)
    assert got["softmax_nll"] == pytest.approx(log_loss(y, z.softmax(-1).numpy()), rel=1e-12)
    assert got["softmax_nll"] == pytest.approx(float(torch.nn.functional.cross_entropy(z, y)), rel=1e-12)
    assert got["loss"] == pytest.approx(float(map.loss(z, y).mean()), rel=1e-12)
    assert got["class_error"] == pytest.approx(1 - recall_score(y, best, average=None))
    assert got["histogram"] == np.histogram(probs, np.arange(11) / 10)[0].tolist()
    filled = [row for row in got["reliability"] if row["count"]]
    accuracy, confidence = calibration_curve(best == y.numpy(), probs.max(-1), n_bins=15)
    assert [row["accuracy"] for row in filled] == pytest.approx(accuracy)
    assert [row["confidence"] for row in filled] == pytest.approx(confidence)


@pytest.mark.parametrize("map", MAPS, ids=lambda map: map.name)
def test_brier_is_twice_the_oracles_in_the_binary_case(map: Map) -> None:
    z, y = randn(300, 2), random_labels(300, 2)
    wanted = 2 * brier_score_loss(y.numpy(), map(z)[:, 1].numpy())
    assert score(z, y, map)["brier"] == pytest.approx(wanted, rel=1e-12)


def test_softmax_loss_is_the_cross_entropy_and_sparse_measures_are_those_of_sparsemax() -> None:
    z, y = randn(100, 7), random_labels(100, 7)
    soft, sparse = score(z, y, SOFTMAX), score(z, y, SPARSEMAX)
    assert soft["loss"] == pytest.approx(soft["softmax_nll"], rel=1e-12)
    assert (soft["ece"], soft["dominant"]) == (soft["softmax_ece"], soft["softmax_dominant"])
    assert (soft["support"], soft["top_m_accuracy"]) == (7.0, 1.0)
    assert soft["sparse_support"] == sparse["sparse_support"] == sparse["support"] < 7
    assert soft["sparse_top_m_accuracy"] == sparse["sparse_top_m_accuracy"] == sparse["top_m_accuracy"] < 1


# Cases known in advance


def test_one_hot_predictions_that_are_all_right() -> None:
    got = score(5 * torch.eye(3), torch.arange(3), SPARSEMAX)
    assert [got[key] for key in ("error", "brier", "ece", "ece_equal_mass", "loss")] == [0, 0, 0, 0, 0]
    assert (got["dominant"], got["dominant_right"], got["dominant_wrong"]) == (1, 1, None)
    assert (got["support"], got["top_m_accuracy"], got["class_error"]) == (1, 1, [0, 0, 0])
    assert got["histogram"] == [6, 0, 0, 0, 0, 0, 0, 0, 0, 3]
    assert got["reliability"][-1] == {"lower": 14 / 15, "upper": 1.0, "count": 3, "confidence": 1.0, "accuracy": 1.0}
    assert got["softmax_ece"] > 0


def test_one_hot_predictions_that_are_all_wrong() -> None:
    got = score(5 * torch.eye(3), torch.tensor([1, 2, 0]), SPARSEMAX)
    assert [got[key] for key in ("error", "brier", "ece", "ece_equal_mass", "loss")] == [1, 2, 1, 1, 5]
    assert (got["dominant"], got["dominant_right"], got["dominant_wrong"]) == (1, None, 1)
    assert (got["top_m_accuracy"], got["sparse_top_m_accuracy"], got["class_error"]) == (0, 0, [1, 1, 1])


def test_of_equal_logits_the_first_is_the_prediction() -> None:
    got = score(torch.zeros(4, 3), torch.tensor([0, 1, 2, 0]), SPARSEMAX)
    assert (got["predicted"], got["error"], got["top_m_accuracy"]) == ([4, 0, 0], 0.5, 1.0)


@pytest.mark.parametrize("bins", [1, 2, 4, 8, 16])
def test_a_confidence_on_an_inner_edge_belongs_to_the_bin_below(bins: int) -> None:
    edges = [edge / bins for edge in range(1, bins + 1) if edge / bins > 0.5]
    z = torch.tensor([[2 * edge - 1, 0.0] for edge in edges])  # sparsemax gives the edges themselves, to the bit
    got = score(z, torch.zeros(len(edges), dtype=torch.long), SPARSEMAX, bins=bins)
    assert [row["confidence"] for row in got["reliability"]] == [
        row["upper"] if row["upper"] in edges else None for row in got["reliability"]
    ]


def test_the_histogram_puts_an_edge_into_the_bin_above() -> None:
    got = score(torch.zeros(1, 2), torch.tensor([-1]), SOFTMAX)["histogram"]  # twice exactly .5
    assert got == [0, 0, 0, 0, 0, 2, 0, 0, 0, 0]


@given(st.lists(st.integers(9, 16), min_size=1, max_size=5), st.integers(1, 40), st.randoms(use_true_random=False))
def test_calibrated_predictions_have_no_calibration_error(levels: list[int], bins: int, random: Any) -> None:
    # Of 16 samples of confidence j/16 just j are right. Sparsemax is exact here, and so is every sum.
    rows = [([j / 8 - 1, 0.0], int(i >= j)) for j in levels for i in range(16)]
    random.shuffle(rows)
    got = score(
        torch.tensor([row for row, _ in rows]), torch.tensor([label for _, label in rows]), SPARSEMAX, bins=bins
    )
    assert got["ece"] == got["ece_equal_mass"] == 0
    assert got["error"] == pytest.approx(1 - sum(levels) / (16 * len(levels)))


def test_equal_mass_finds_what_equal_width_averages_away() -> None:
    # Two confidences share a wide bin, one too sure and one too modest: the errors cancel there and only there.
    z = torch.tensor([[0.25, 0.0]] * 8 + [[0.5, 0.0]] * 8)
    y = torch.tensor([0] * 6 + [1] * 2 + [0] * 5 + [1] * 3)
    got = score(z, y, SPARSEMAX, bins=2)
    assert got["ece"] == 0
    assert got["ece_equal_mass"] == 0.125


@pytest.mark.parametrize("map", MAPS, ids=lambda map: map.name)
@pytest.mark.parametrize("classes", [2, 1000])
def test_no_sample_and_no_label_leave_measures_undefined(map: Map, classes: int) -> None:
    empty = score(torch.zeros(0, classes), torch.zeros(0, dtype=torch.long), map)
    counts = {"samples": 0, "labeled": 0, "histogram": [0] * 10, "predicted": [0] * classes}
    lists = {"reliability": empty["reliability"], "class_error": [None] * classes}
    assert empty == dict.fromkeys(empty) | counts | lists
    assert all(row["count"] == 0 and row["accuracy"] is row["confidence"] is None for row in empty["reliability"])
    unlabeled = score(torch.zeros(1, classes), torch.tensor([-1]), map)
    assert {key for key in unlabeled if unlabeled[key] is None} == {
        key for key in empty if empty[key] is None
    } - LABEL_FREE
    assert unlabeled["labeled"] == 0
    assert unlabeled["dominant"] == pytest.approx(1 / classes)


# What holds whatever the predictions


@given(tables(), st.sampled_from(MAPS), st.integers(1, 20), st.integers(0, 2**31))
def test_the_order_of_samples_changes_no_bit(table: tuple[Tensor, Tensor], map: Map, bins: int, seed: int) -> None:
    z, y = table
    order = torch.randperm(len(z), generator=torch.Generator().manual_seed(seed))
    assert score(z[order], y[order], map, bins=bins) == score(z, y, map, bins=bins)


@given(tables(lowest=0, fewest=1), st.sampled_from(MAPS), st.integers(1, 20))
def test_bounds(table: tuple[Tensor, Tensor], map: Map, bins: int) -> None:
    z, y = table
    got = score(z, y, map, bins=bins)
    n, classes = z.shape
    accuracy = 1 - got["error"]
    # The error of one bin that holds all samples is the least of all ways to cut them.
    least = abs(accuracy - got["dominant"]) - 1e-12
    assert least <= got["ece"] <= 1
    assert least <= got["ece_equal_mass"] <= 1
    assert 0 <= got["brier"] <= 2 + 1e-12
    assert got["loss"] >= -1e-12
    assert got["softmax_nll"] >= 0
    assert got["top_m_accuracy"] >= accuracy - 1e-12
    assert got["sparse_top_m_accuracy"] >= accuracy - 1e-12
    assert 1 <= got["sparse_support"] <= got["support"] <= classes
    assert 1 / classes - 1e-12 <= got["softmax_dominant"] <= got["dominant"] + 1e-12
    assert got["dominant"] <= 1 + 1e-12
    assert sum(got["histogram"]) == n * classes
    assert sum(got["predicted"]) == got["samples"] == got["labeled"] == n
    assert sum(row["count"] for row in got["reliability"]) == n
    one = score(z, y, map, bins=1)
    assert one["ece"] == pytest.approx(abs(accuracy - got["dominant"]), abs=1e-12)
    assert one["ece_equal_mass"] == pytest.approx(one["ece"], abs=1e-12)


@given(tables(), st.sampled_from(MAPS))
def test_unknown_labels_are_left_out_of_what_needs_them(table: tuple[Tensor, Tensor], map: Map) -> None:
    z, y = table
    known = y >= 0
    got, of_known, of_all = score(z, y, map), score(z[known], y[known], map), score(z, y.clamp(min=0), map)
    for key, value in got.items():
        assert value == (of_all if key in LABEL_FREE else of_known)[key], key


@given(tables(), st.sampled_from(MAPS))
def test_results_are_plain_json(table: tuple[Tensor, Tensor], map: Map) -> None:
    z, y = table
    targets = Target(map(z), (z.argmax(-1) == 0).to(z.dtype))
    for got in (score(z, y, map), pseudo_labels(targets, y)):
        assert json.loads(json.dumps(got, allow_nan=False)) == got
        assert plain_types(got) <= {int, float, type(None)}


def plain_types(value: Any) -> set[type]:
    if isinstance(value, dict | list):
        inside = value.values() if isinstance(value, dict) else value
        return set().union(*(plain_types(one) for one in inside))
    return {type(value)}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("map", MAPS, ids=lambda map: map.name)
def test_precision_is_that_of_the_logits_alone(dtype: torch.dtype, map: Map) -> None:
    z, y = randn(50, 5).to(dtype), random_labels(50, 5, lowest=-1)
    wanted = score(z.double(), y, map)
    assert score(z, y, map) == wanted
    assert score(z.requires_grad_(), y.to(torch.int8), map) == wanted


@pytest.mark.parametrize("map", MAPS, ids=lambda map: map.name)
def test_looking_at_a_part_at_a_time_changes_nothing(map: Map, monkeypatch: pytest.MonkeyPatch) -> None:
    z, y = randn(50, 5), random_labels(50, 5, lowest=-1)
    whole = score(z, y, map)
    for entries in (1, 35, 250):
        monkeypatch.setattr(metrics, "ENTRIES", entries)
        assert score(z, y, map) == whole


def test_losses_beyond_a_float_are_undefined() -> None:
    z = torch.tensor([[1e308, -1e308]], dtype=torch.float64)
    got = score(z, torch.tensor([1]), SPARSEMAX)
    assert got["loss"] is got["softmax_nll"] is None
    assert got["brier"] == 2
    # Each loss is a float here, their sum is not.
    assert score(z.expand(9, 2) / 2, torch.ones(9, dtype=torch.long), SPARSEMAX)["loss"] is None


@pytest.mark.parametrize("bad", [NAN, INF, -INF])
def test_rows_that_are_not_finite_are_refused(bad: float) -> None:
    z = torch.zeros(5, 3)
    z[1, 2] = z[4, 0] = bad
    with pytest.raises(ValueError, match="2 of 5 rows of logits are not finite, the first is row 1;"):
        score(z, torch.full((5,), -1), SOFTMAX)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (torch.tensor([0, 3]), "must lie in −1 … 2, −1 being unknown, got 0 … 3"),
        (torch.tensor([-2, 0]), "got -2 … 0"),
        (torch.tensor([0.0, 1.0]), "must be integers, got torch.float32"),
        (torch.tensor([True, False]), "must be integers, got torch.bool"),
        (torch.tensor([0]), r"must be \(2,\), one a sample, got \(1,\)"),
    ],
)
def test_wrong_labels_are_refused_in_words(labels: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        score(torch.zeros(2, 3), labels, SOFTMAX)
    with pytest.raises(ValueError, match=message):
        pseudo_labels(Target(torch.full((2, 3), 1 / 3), torch.ones(2)), labels)


def test_other_mistakes_are_refused_in_words() -> None:
    z, y = torch.zeros(2, 3), torch.tensor([0, 1])
    with pytest.raises(TypeError, match=r"labels must be a torch\.Tensor, got list"):
        score(z, [0, 1], SOFTMAX)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"logits must be \(batch, classes\)"):
        score(z[0], y, SOFTMAX)
    with pytest.raises(ValueError, match="bins must be a whole number of at least 1, got 0"):
        score(z, y, SOFTMAX, bins=0)
    with pytest.raises(ValueError, match=r"bins must be a whole number of at least 1, got 2\.5"):
        score(z, y, SOFTMAX, bins=2.5)  # type: ignore[arg-type]


# Pseudo-labels


def naive_pseudo_labels(probs: list[Row], weight: Row, y: list[int], classes: int) -> dict[str, Any]:
    n = len(y)
    named = [first_best(row) for row in probs]
    active = [w > 0 for w in weight]
    by_class: dict[str, list[Any]] = {"count": [], "precision": [], "coverage": [], "correct": []}
    for k in range(classes):
        by_class["count"].append(sum(active[i] and named[i] == k for i in range(n)))
        by_class["precision"].append(mean([y[i] == k for i in range(n) if active[i] and named[i] == k and y[i] >= 0]))
        by_class["coverage"].append(mean([active[i] for i in range(n) if y[i] == k]))
        by_class["correct"].append(mean([active[i] and named[i] == k for i in range(n) if y[i] == k]))
    return {
        "coverage": mean(active),
        "precision": mean([named[i] == y[i] for i in range(n) if active[i] and y[i] >= 0]),
        "by_class": by_class,
    }


@given(tables(), st.sampled_from([0.0, 0.4, 0.7, 1.0]), st.sampled_from(MAPS))
def test_pseudo_labels_equal_their_naive_twin(table: tuple[Tensor, Tensor], threshold: float, map: Map) -> None:
    z, y = table
    for targets in (PseudoLabel(threshold, map=map).target(z), Target(map(z), torch.linspace(0, 1, len(z)).round())):
        wanted = naive_pseudo_labels(targets.probs.tolist(), targets.weight.tolist(), y.tolist(), z.shape[1])
        assert_near(pseudo_labels(targets, y), wanted)


def test_pseudo_labels_equal_the_oracles() -> None:
    z, y = randn(300, 5), random_labels(300, 5)
    got = pseudo_labels(ADS().target(z), y)  # ADS acts on every sample
    named = z.argmax(-1).numpy()
    assert got["coverage"] == 1
    assert got["precision"] == pytest.approx(accuracy_score(y, named))
    assert got["by_class"]["count"] == confusion_matrix(y, named).sum(0).tolist()
    assert got["by_class"]["precision"] == pytest.approx(precision_score(y, named, average=None))
    assert got["by_class"]["correct"] == pytest.approx(recall_score(y, named, average=None))
    assert got["by_class"]["coverage"] == [1.0] * 5


def test_pseudo_labels_of_no_sample_are_undefined() -> None:
    got = pseudo_labels(Target(torch.zeros(0, 2), torch.zeros(0)), torch.zeros(0, dtype=torch.long))
    none = [None, None]
    by_class = {"count": [0, 0], "precision": none, "coverage": none, "correct": none}
    assert got == {"coverage": None, "precision": None, "by_class": by_class}


def test_a_broken_target_is_refused_where_it_carries_weight() -> None:
    probs, y = torch.tensor([[0.5, 0.5], [NAN, NAN]]), torch.tensor([0, 1])
    assert pseudo_labels(Target(probs, torch.tensor([1.0, 0.0])), y)["coverage"] == 0.5
    for weight in (1.0, NAN):
        with pytest.raises(ValueError, match="1 of 2 targets with a weight are not finite, the first is row 1;"):
            pseudo_labels(Target(probs, torch.tensor([1.0, weight])), y)
    with pytest.raises(ValueError, match=r"weights \(batch,\), got \(2, 2\) and \(3,\)"):
        pseudo_labels(Target(probs, torch.ones(3)), y)


# Collapse


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 50)), min_size=1, max_size=8),
    st.sampled_from([0.0, 0.05, 0.1, 0.5, 1.0]),
    st.sampled_from([1.0, 0.25, 1024.0]),
)
def test_dead_classes_equal_their_naive_twin(table: list[tuple[int, int]], share: float, scale: float) -> None:
    predicted, expected = [count for count, _ in table], [scale * value for _, value in table]
    dead = []
    for k, (count, value) in enumerate(table):
        due = sum(predicted) * value / sum(value for _, value in table)
        if due >= 5 and count < share * due:
            dead.append(k)
    assert dead_classes(predicted, expected, share) == dead


def test_a_class_is_dead_only_if_chance_cannot_explain_it() -> None:
    assert dead_classes([1000, 0], [1, 1]) == [1]
    assert dead_classes([10, 0], [0.5, 0.5]) == [1]  # five are expected
    assert dead_classes([9, 0], [0.5, 0.5]) == []
    assert dead_classes([95, 5, 0], [1, 1, 0]) == []  # a class nobody expects is not missed
    assert dead_classes([95, 5], [1, 1]) == []  # a tenth of what is due is just alive
    assert dead_classes([96, 4], [1, 1]) == [1]
    assert dead_classes([0, 0], [1, 1]) == dead_classes([], []) == []


def test_dead_classes_refuses_in_words() -> None:
    with pytest.raises(ValueError, match="got 1 counts and 2 shares"):
        dead_classes([1], [1, 1])
    with pytest.raises(ValueError, match="must not all be 0"):
        dead_classes([1, 2], [0, 0])
    with pytest.raises(ValueError, match="an expected share must be a finite number of at least 0, got nan"):
        dead_classes([1, 2], [1, NAN])
    with pytest.raises(ValueError, match="a count of predictions must be"):
        dead_classes([1, -2], [1, 1])
    with pytest.raises(ValueError, match="share must be a finite number from 0 to 1"):
        dead_classes([1, 2], [1, 1], share=10)


# Seeds and checkpoints


@pytest.mark.parametrize("n", [2, 3, 10])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_paired_difference_equals_the_oracle(n: int, confidence: float) -> None:
    a, b = randn(n).tolist(), (randn(n, seed=5) + 0.3).tolist()
    got = paired_difference(a, b, confidence)
    wanted = ttest_rel(b, a).confidence_interval(confidence)
    assert (got["low"], got["high"]) == pytest.approx((wanted.low, wanted.high), rel=1e-9)
    assert (got["mean"], got["sd"]) == pytest.approx((np.mean(np.subtract(b, a)), np.std(np.subtract(b, a), ddof=1)))
    assert list(got) == ["mean", "low", "high", "n", "sd"]
    assert got["n"] == n
    assert json.loads(json.dumps(got, allow_nan=False)) == got
    swapped = paired_difference(b, a, confidence)
    assert (swapped["mean"], swapped["low"], swapped["high"]) == (-got["mean"], -got["high"], -got["low"])


def test_paired_intervals_hold_the_mean_as_often_as_they_say() -> None:
    draws = (randn(2000, 4) + 1).tolist()
    results = [paired_difference([0.0] * 4, row, 0.8) for row in draws]
    held = statistics.fmean(result["low"] <= 1 <= result["high"] for result in results)
    assert held == pytest.approx(0.8, abs=4 * math.sqrt(0.8 * 0.2 / 2000))


def test_paired_difference_of_few_or_equal_pairs() -> None:
    assert paired_difference([1.0], [3.0]) == {"mean": 2.0, "low": None, "high": None, "n": 1, "sd": None}
    assert paired_difference([], []) == {"mean": None, "low": None, "high": None, "n": 0, "sd": None}
    assert paired_difference([1, 2], [2, 3]) == {"mean": 1.0, "low": 1.0, "high": 1.0, "n": 2, "sd": 0.0}


def test_paired_difference_refuses_in_words() -> None:
    with pytest.raises(ValueError, match="one value a seed, got 1 and 2 values"):
        paired_difference([1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="pair 1 has no finite difference: a = nan, b = 2"):
        paired_difference([1.0, NAN], [1.0, 2.0])
    with pytest.raises(ValueError, match="confidence must be below 1"):
        paired_difference([1.0, 2.0], [1.0, 2.0], confidence=1)
    with pytest.raises(ValueError, match="confidence must be a finite number from 0 to 1, got 95"):
        paired_difference([1.0, 2.0], [1.0, 2.0], confidence=95)


@given(st.lists(st.none() | st.floats(-1e6, 1e6)), st.integers(1, 8))
def test_last_median_equals_its_naive_twin(values: list[float | None], k: int) -> None:
    last: list[float] = []
    for value in reversed(values):
        if value is not None and len(last) < k:
            last.append(value)
    assert last_median(values, k) == (float(np.median(last)) if last else None)


def test_last_median_skips_gaps_and_refuses_nonsense() -> None:
    assert last_median([9.0, 1.0, None, None], k=1) == 1.0
    assert last_median([NAN, 1.0], k=1) == 1.0  # what went wrong before the last k does not matter
    assert last_median([None], k=3) is None
    with pytest.raises(ValueError, match="the last 2 values must be finite"):
        last_median([NAN, 1.0], k=2)
    with pytest.raises(ValueError, match="k must be a whole number of at least 1, got 0"):
        last_median([1.0], k=0)


@pytest.mark.slow
def test_importing_the_metrics_loads_neither_scipy_nor_sklearn() -> None:
    code = "import sys, halfsure.metrics; print({n.split('.')[0] for n in sys.modules} & {'scipy', 'sklearn'})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
