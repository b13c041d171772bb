"""The numbers on the page, found again in another way."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from halfsure import report
from halfsure.metrics import score
from halfsure.report.calibration import pooled
from halfsure.report.histogram import shares
from halfsure.report.lines import curve, thin
from halfsure.report.panels import at
from halfsure.report.reading import Record, number
from halfsure.report.render import render
from halfsure.report.study import Group, read
from halfsure.report.summary import summary
from halfsure.simplex import SPARSEMAX
from tests.report.conftest import BASELINES, METHODS, SEEDS
from tests.report.helpers import comparison, logits_and_labels, made_up_run, read_page
from tests.training.helpers import lines


def last(folder: Path, method: str, *keys: str) -> np.ndarray[Any, Any]:
    """A number at the end of each seed's run, straight from metrics.jsonl."""
    found = []
    for seed in SEEDS:
        value: Any = lines(folder / f"{method}-s{seed}")[-1]
        for key in keys:
            value = value[key]
        found.append(value)
    return np.array(found)


def test_the_results_table_is_what_the_metrics_say(trained: Path, whole: Path) -> None:
    page = read_page(whole)
    head, *rows = page.tables["Results by method"]
    wanted = "method, test error, against supervised points, ECE, candidates, truth among them, seeds, steps"
    assert ", ".join(name.strip().replace(",", "") for name in head) == wanted
    table = {row[0].split()[0]: row[1:] for row in rows}  # a collapse is told behind the name
    assert list(table) == [*METHODS, "1-NN"]
    for method, own in zip(METHODS, ("sparse_", ""), strict=True):
        errors, ece = last(trained, method, "test", "error"), last(trained, method, "test", "ece")
        assert table[method][0] == f"{100 * errors.mean():.2f} ± {100 * errors.std(ddof=1):.2f} %"
        assert table[method][2] == f"{100 * ece.mean():.2f} ± {100 * ece.std(ddof=1):.2f} %"
        note = " *" if own else ""
        assert table[method][3] == f"{last(trained, method, 'test', f'{own}support').mean():.2f}{note}"
        hits = last(trained, method, "test", f"{own}top_m_accuracy")
        assert table[method][4] == f"{100 * hits.mean():.2f} %{note}"
        assert table[method][5:] == ["2", "60"]


def test_differences_are_paired_with_students_interval(trained: Path, whole: Path) -> None:
    table = read_page(whole).tables["Results by method"]
    against = {row[0].split()[0]: row[2] for row in table[1:]}
    reference = 100 * last(trained, "supervised", "test", "error")
    others = {
        "fixmatch-ads": 100 * last(trained, "fixmatch-ads", "test", "error"),
        "1-NN": 100 * np.array(list(BASELINES["1-NN"].values())),
    }
    assert against["supervised"] == "–"
    for name, errors in others.items():
        test = stats.ttest_rel(errors, reference)
        interval = test.confidence_interval(0.95)
        wanted = [float(np.mean(errors - reference)), float(interval.low), float(interval.high)]
        shown = [float(word.replace("−", "-")) for word in re.findall(r"[−+]?[\d.]+", against[name])]
        assert shown == pytest.approx(wanted, abs=0.00501)


def test_the_words_name_the_best_method_and_do_not_call_two_seeds_proof(trained: Path, whole: Path) -> None:
    text = read_page(whole).text
    means = {method: last(trained, method, "test", "error").mean() for method in METHODS}
    assert f"Lowest at the end is {min(means, key=lambda m: means[m])} with" in text
    assert "40 labels of 1,437 samples, 10 classes, seeds 0 and 1" in text


@pytest.mark.parametrize(("methods", "picked"), [(2, False), (3, True)])
@pytest.mark.parametrize(("errors", "sure"), [((0.1, 0.12, 0.11), True), ((0.1, 0.9, 0.1), False)])
def test_the_words_about_the_interval(
    methods: int, picked: bool, errors: tuple[float, ...], sure: bool, tmp_path: Path
) -> None:
    for place, method in enumerate(["supervised", "fixmatch", "vat"][:methods]):
        for seed, error in enumerate(errors):
            ends = {"test": {"error": error if place == 1 else 0.5 + 0.01 * seed}}
            made_up_run(tmp_path / f"{method}{seed}", method, seed, last=ends)
    study = read(sorted(path for path in tmp_path.iterdir()))
    text = render("summary.html", study=study, content=summary(study))
    assert ("it leaves out zero" in text) == sure
    assert ("chance cannot be ruled out" in text) == (not sure)
    assert ("does not know that the lowest was picked" in text) == picked


def test_one_run_is_told_in_words(trained: Path, single: Path) -> None:
    folder = trained / "fixmatch-ads-s1"
    text = read_page(single).text
    found = lines(folder)
    test = found[-1]["test"]
    median = np.median([line["test"]["error"] for line in found])
    chosen = min(found, key=lambda line: (line["val"]["error"], -line["step"]))["test"]["error"]
    assert f"Error on test samples: {100 * test['error']:.2f} % at the end" in text
    assert f"{100 * median:.2f} % median of the last 5 evaluations" in text
    assert f"{100 * chosen:.2f} % where validation was best" in text
    assert f"{test['support']:.2f} candidate classes a sample" in text
    assert "bands reach" not in text


def test_reliability_bins_of_seeds_together_are_those_of_all_their_predictions(tmp_path: Path) -> None:
    study = read([comparison(tmp_path / "c", ["fixmatch-ads"], [0, 1, 2])])
    parts = [logits_and_labels(seed, 30, 10) for seed in range(3)]
    logits, labels = (torch.cat([part[k] for part in parts]) for k in range(2))
    wanted = score(logits, labels, SPARSEMAX)["reliability"]
    for mine, theirs in zip(pooled(study.groups[0], "test"), wanted, strict=True):
        assert (mine.lower, mine.upper, mine.count) == (theirs["lower"], theirs["upper"], theirs["count"])
        if mine.count:
            assert mine.confidence == pytest.approx(theirs["confidence"])
            assert mine.accuracy == pytest.approx(theirs["accuracy"])


def test_histograms_count_every_probability(tmp_path: Path) -> None:
    folder = comparison(tmp_path / "c", ["fixmatch-ads"], [0, 1])
    group = read([folder]).groups[0]
    for step, shown in ((5, 10), (10, 10), (29, 20), (30, 30), (99, 30)):  # the last evaluation up to a step
        probs = np.concatenate([SPARSEMAX(logits_and_labels(seed, shown, 10)[0]).numpy().ravel() for seed in (0, 1)])
        counts = [((probs >= k / 10) & ((probs < (k + 1) / 10) | (k == 9))).sum() for k in range(10)]
        assert shares(group, "unlabeled", step) == pytest.approx(np.array(counts) / probs.size)
    page = read_page(report.write([folder], tmp_path / "report.html"))
    data = json.loads(page.scripts[0])
    assert data["steps"] == [10, 20, 30]
    assert data["shares"][0][1] == pytest.approx(shares(group, "unlabeled", 20), abs=1e-5)


def test_the_audit_is_the_mean_over_seeds(trained: Path, whole: Path) -> None:
    table = read_page(whole).tables["Pseudo-labels by class, fixmatch-ads"]
    assert len(table) == 11
    for k, (name, count, precision, coverage, correct, error) in enumerate(table[1:]):
        ends = [lines(trained / f"fixmatch-ads-s{seed}")[-1] for seed in SEEDS]
        by_class = [end["pseudo_labels"]["by_class"] for end in ends]
        assert name == str(k)
        assert float(count) == np.mean([found["count"][k] for found in by_class])
        for shown, key in ((precision, "precision"), (coverage, "coverage"), (correct, "correct")):
            known = [found[key][k] for found in by_class if found[key][k] is not None]
            assert shown == (f"{100 * np.mean(known):.2f} %" if known else "–")
        assert error == f"{100 * np.mean([end['test']['class_error'][k] for end in ends]):.2f} %"


def records(*values: dict[int, float]) -> Group:
    """Seeds whose test error at some steps is given."""
    made = []
    for seed, by_step in enumerate(values):
        metrics = [{"step": step, "test": {"error": value}} for step, value in sorted(by_step.items())]
        made.append(Record(Path(f"s{seed}"), {"config": {"seed": seed}}, metrics, ()))
    return Group("some", tuple(made))


errors = st.floats(0, 1)


@given(st.lists(st.lists(errors, min_size=4, max_size=4), min_size=1, max_size=5))
def test_curves_of_equal_steps_are_means_with_the_extremes_around(values: list[list[float]]) -> None:
    found = curve(records(*(dict(zip((5, 10, 15, 20), row, strict=True)) for row in values)), at("test", "error"))
    assert found is not None
    assert found.steps == [5, 10, 15, 20]
    for k, column in enumerate(zip(*values, strict=True)):
        assert found.mean[k] == pytest.approx(sum(column) / len(column))
        assert (found.low[k], found.high[k]) == (min(column), max(column))


@given(
    st.dictionaries(st.integers(1, 50), errors, min_size=1, max_size=8),
    st.dictionaries(st.integers(1, 50), errors, min_size=1, max_size=8),
)
def test_curves_of_unequal_steps_stay_where_every_seed_was(one: dict[int, float], other: dict[int, float]) -> None:
    found = curve(records(one, other), at("test", "error"))
    reached = [step for step in sorted(one) if min(other) <= step <= max(other)]
    if not reached:
        assert found is None
        return
    assert found is not None
    assert found.steps == reached
    for step, mean in zip(found.steps, found.mean, strict=True):
        before, after = max(s for s in other if s <= step), min(s for s in other if s >= step)
        part = (step - before) / (after - before) if after > before else 0
        assert mean == pytest.approx((one[step] + other[before] * (1 - part) + other[after] * part) / 2, abs=1e-12)


@given(st.integers(1, 5000))
def test_thinning_keeps_the_ends_and_the_order(count: int) -> None:
    kept = thin(count)
    assert kept == sorted(set(kept))
    assert (kept[0], kept[-1]) == (0, count - 1)
    assert len(kept) == min(count, 60)


def test_of_many_classes_the_worst_are_shown(tmp_path: Path) -> None:
    names = tuple(f"class {k}" for k in range(120))
    run = made_up_run(
        tmp_path / "run", classes=names, last={"test": {"error": 0.5, "class_error": [k / 120 for k in range(120)]}}
    )
    page = read_page(report.write([run], tmp_path / "report.html"))
    rows = page.tables["Pseudo-labels by class, fixmatch-ads"]
    assert [row[0] for row in rows[1:]] == [f"class {k}" for k in range(119, 19, -1)]
    assert "The 100 of 120 classes with the largest error." in page.text


def test_only_finite_numbers_are_numbers() -> None:
    line = {"a": {"b": 1, "c": float("nan"), "d": True, "e": "2", "f": None}}
    assert number(line, "a", "b") == 1.0
    assert [number(line, "a", key) for key in "cdefg"] == [None] * 5
    assert number(line, "a", "b", "c") is None


def test_collapsed_classes_stand_in_plain_sight(tmp_path: Path) -> None:
    made_up_run(tmp_path / "run", last={"dead": ["3", "8"]})
    page = read_page(report.write([tmp_path / "run"], tmp_path / "report.html"))
    assert "Collapsed: fixmatch-ads with seed 0 hardly predicts 3 and 8 any more" in page.text
    assert page.tables["Results by method"][1][0] == "fixmatch-ads collapsed: 3 and 8"
