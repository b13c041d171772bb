"""What a fitted classifier says: of samples, of itself, and of whether the unlabeled ones helped."""

import json
import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import halfsure
from halfsure import SSLClassifier
from halfsure.data import Data
from halfsure.estimator import FallbackWarning, Report
from halfsure.training.config import Config
from halfsure.trust import abstain_threshold, paired_interval, wilson
from halfsure.verdict.folds import Fold, deal
from tests.estimator.samples import COUNT, TRUTH, Y, clouds, quick

ROWS = clouds(apart=2)


@pytest.fixture(scope="module")
def model() -> SSLClassifier:
    return quick(folds=3, steps=40, method="fixmatch-ads").fit(ROWS, Y)


def test_predictions_are_those_of_the_run(model: SSLClassifier) -> None:
    logits = model.run_.logits(ROWS.astype(np.float32)).double()
    probs = model.run_.map(logits / model.temperature_)
    np.testing.assert_array_equal(model.predict_proba(ROWS), probs.numpy())
    assert model.predict(ROWS).tolist() == logits.argmax(-1).tolist()
    assert model.transduction_.tolist() == np.where(Y >= 0, Y, logits.argmax(-1).numpy()).tolist()
    assert model.method_ == "fixmatch-ads"
    assert model.run_.map.name == "sparsemax"
    assert model.history_ == model.run_.metrics
    assert [line["step"] for line in model.history_] == list(range(4, 41, 4))


def test_sets_without_a_coverage_are_what_has_a_probability(model: SSLClassifier) -> None:
    probs = model.predict_proba(ROWS)
    sets = model.predict_set(ROWS)
    assert len({len(some) for some in sets}) > 1
    for row, some in zip(probs, sets, strict=True):
        assert set(some) == {k for k in range(3) if row[k] > 0}
        assert some[0] == row.argmax()
        assert [row[k] for k in some] == sorted(row[row > 0], reverse=True)
        assert all(type(k) is int for k in some)


def test_sets_with_a_coverage(model: SSLClassifier) -> None:
    evidence = model.evidence_
    assert evidence is not None
    fresh = clouds(seed=9, apart=2)
    for coverage in (0.0, 0.7, 0.9):
        chosen = evidence.sets(fresh.astype(np.float32), coverage)
        logits, answers = model.run_.logits(fresh.astype(np.float32)), model.predict(fresh).tolist()
        for some, row, fit, answer in zip(model.predict_set(fresh, coverage), chosen, logits, answers, strict=True):
            assert some[0] == answer  # the answer is a candidate, and the first
            assert set(some) == {answer, *row.nonzero().flatten().tolist()}
            assert [float(fit[k]) for k in some] == sorted((float(fit[k]) for k in some), reverse=True)
    sizes = [sum(map(len, model.predict_set(fresh, coverage))) for coverage in (0.0, 0.5, 0.8, 0.9, 1.0)]
    assert sizes == sorted(sizes)
    assert sizes[0] >= COUNT  # never an empty set
    assert sizes[-1] == 3 * COUNT  # nothing short of every class is certain
    assert model.guarantee(0.9) == evidence.conformal.guarantee(0.9)
    assert "90 %" in model.guarantee(0.9).sentence


def test_abstaining_by_held_out_labels(model: SSLClassifier) -> None:
    evidence = model.evidence_
    assert evidence is not None
    plain = model.predict(ROWS)
    for precision in (0.5, 0.8, 1.0):
        threshold = abstain_threshold(evidence.confidence, evidence.right, precision)
        sure = model.predict_proba(ROWS).max(1) >= threshold
        answers = model.predict(ROWS, abstain=precision)
        assert answers.tolist() == np.where(sure, plain, -1).tolist()
    assert (model.predict(ROWS, abstain=1.0) == -1).all()  # 18 labels prove no certainty
    least = evidence.confidence.min().item()  # below it nothing is known, whatever is asked for
    surest = model.predict_proba(ROWS).max(1) >= least
    assert (model.predict(ROWS, abstain=0.0) == plain).tolist() == surest.tolist()


@pytest.mark.parametrize(
    ("names", "dtype", "nothing"),
    [
        (np.array(["a", "b", "c"]), object, None),
        (np.array([3, 4, 5], np.uint8), np.int64, -1),
        (np.array([0.5, 1.0, 1.5]) * 2, np.float64, -1.0),
    ],
)
def test_who_abstains_says_nothing_in_its_own_type(names: Any, dtype: Any, nothing: Any) -> None:
    model = quick(folds=2, steps=2, method="supervised").fit(ROWS, names[TRUTH])
    answers = model.predict(ROWS, abstain=1.0)
    assert answers.dtype == dtype
    assert answers.tolist() == [nothing] * COUNT
    willing, plain = model.predict(ROWS, abstain=0.0), model.predict(ROWS)
    assert willing.dtype == dtype
    answered = [answer != nothing for answer in willing]
    assert np.mean(answered) > 0.5
    assert willing[answered].tolist() == plain[answered].tolist()


def test_the_temperature_is_fitted_unless_it_is_not_wanted() -> None:
    one, other = (quick(folds=3, calibrate=calibrate).fit(ROWS, Y) for calibrate in (True, False))
    assert one.temperature_ != 1
    assert other.temperature_ == quick().fit(ROWS, Y).temperature_ == 1
    assert (one.predict(ROWS) == other.predict(ROWS)).all()
    assert (one.predict_proba(ROWS) != other.predict_proba(ROWS)).any()


@pytest.mark.parametrize(("folds", "held"), [(1, 4), (2, 18), (3, 18), ("auto", 18)])
def test_folds_hold_labels_out(folds: Any, held: int) -> None:
    model = quick(folds=folds, steps=2).fit(ROWS, Y)
    assert model.report_.folds == {"auto": 5}.get(folds, folds)
    assert model.evidence_ is not None
    assert len(model.evidence_.runs) == model.report_.folds
    assert len(model.evidence_.right) == held
    assert model.report_.difference is not None
    assert model.report_.difference["n"] == held


def by_hand(model: SSLClassifier, method: str, settings: dict[str, Any]) -> list[bool]:
    """Train and score every fold in a loop of its own."""
    labels = Y.copy()
    data = Data(
        "X", "array", ("0", "1", "2"), halfsure.data.Part(ROWS.astype(np.float32), labels), np.flatnonzero(Y >= 0)
    )
    right = []
    for held in deal(data, 3, model.random_state):  # type: ignore[arg-type]
        seen = np.setdiff1d(np.arange(COUNT), held)
        rest = replace(data, labeled=np.setdiff1d(data.labeled, held), unlabeled=seen)
        run = halfsure.fit(None, rest, method, steps=40, net="mlp-16", evaluations=1, **settings)
        right += [run.predict(data.train.samples[[i]]) == [str(TRUTH[i])] for i in held]
    return right


def test_the_report_against_folds_by_hand(model: SSLClassifier) -> None:
    with_unlabeled = by_hand(model, "fixmatch-ads", {"prior": "labels"})
    alone = by_hand(model, "supervised", {})
    report = model.report_
    assert (report.labels, report.unlabeled, report.folds, report.fell_back) == (18, 42, 3, False)
    assert report.accuracy == pytest.approx(np.mean(with_unlabeled))
    assert report.interval == wilson(sum(with_unlabeled), 18)
    assert report.supervised == pytest.approx(np.mean(alone))
    gained = sum(a and not b for a, b in zip(with_unlabeled, alone, strict=True))
    lost = sum(b and not a for a, b in zip(with_unlabeled, alone, strict=True))
    up, down = (gained + 1) / 20, (lost + 1) / 20
    margin = 1.959964 * math.sqrt((up + down - (up - down) ** 2) / 20)
    wanted = {"mean": (gained - lost) / 18, "low": up - down - margin, "high": up - down + margin, "n": 18}
    assert report.difference == pytest.approx(wanted, rel=1e-5)
    assert json.loads(json.dumps(report.as_json()))["helped"] == report.helped


def report(before: list[int], after: list[int], **changes: Any) -> Report:
    """A report of these right (1) and wrong (0) answers."""
    alone, right = (torch.tensor(some, dtype=torch.bool) for some in (before, after))
    accuracy = right.double().mean().item()
    made = Report(
        "vat+ads",
        "it was asked for",
        len(after),
        4000,
        5,
        accuracy,
        wilson(sum(after), len(after)),
        alone.double().mean().item(),
        paired_interval(alone, right),
        fell_back=False,
    )
    return replace(made, **changes)


def test_the_report_in_words() -> None:
    helped = report([0] * 600 + [1] * 400, [1] * 900 + [0] * 100)
    assert helped.helped is True
    assert str(helped).splitlines() == [
        "vat+ads: it was asked for.",
        "Accuracy on held-out labels: 90.0 % [88.0 %, 91.7 %], from 1000 labels and 4,000 unlabeled samples.",
        "Did the unlabeled samples help? Yes: labels alone give 40.0 %, a difference of +50.0 points [+45.7, +54.1].",
    ]
    hurt = report([1] * 900 + [0] * 100, [0] * 600 + [1] * 400)
    assert hurt.helped is False
    assert "No, they hurt: labels alone give 90.0 %, a difference of -50.0 points [-54.1, -45.7]." in str(hurt)
    unsure = report([1, 0] * 4, [0, 1] * 4)
    assert unsure.helped is None
    assert "It cannot be said: labels alone give 50.0 %, a difference of +0.0 points" in str(unsure)
    assert str(unsure).endswith("; with 8 labels that interval is wide.")
    unchecked = replace(helped, accuracy=None, interval=None, supervised=None, difference=None, folds=0)
    assert str(unchecked) == "vat+ads: it was asked for.\nNothing was checked: no labels were held out."
    assert unchecked.helped is None


def test_without_unlabeled_samples_there_is_nothing_to_compare() -> None:
    model = quick(folds=2).fit(ROWS, TRUTH)
    assert model.report_.difference is None
    assert model.report_.helped is None
    assert "nothing else to learn from" in str(model.report_)
    assert "Did the unlabeled" not in str(model.report_)


def wrong(fold: Fold) -> Fold:
    """The fold of a model that takes every class for the next one."""
    return replace(fold, logits=torch.nn.functional.one_hot((fold.labels + 1) % 3, 3).float())


def right(fold: Fold) -> Fold:
    return replace(fold, logits=torch.nn.functional.one_hot(fold.labels, 3).float())


def test_where_unlabeled_data_hurt_the_supervised_model_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = SSLClassifier._cross_validate

    def cross_validate(self: SSLClassifier, data: Data, held: Any, configs: list[Config]) -> Any:
        folds, baseline = honest(self, data, held, configs)
        return list(map(wrong, folds)), list(map(right, baseline))

    monkeypatch.setattr(SSLClassifier, "_cross_validate", cross_validate)
    with pytest.warns(
        FallbackWarning, match=r"fixmatch-ads did worse .* by 100.0 points .*supervised model is kept"
    ) as told:
        model = quick(folds=3, method="fixmatch-ads").fit(ROWS, Y)
    assert told[0].filename == __file__
    assert model.report_.fell_back
    assert model.report_.helped is False
    assert model.report_.accuracy == model.report_.supervised == 1
    assert str(model.report_).startswith("supervised: fixmatch-ads was tried and hurt.")
    assert model.method_ == model.run_.settings["method"] == "supervised"
    assert model.run_.map.name == "softmax"
    assert model.evidence_ is not None
    assert model.evidence_.right.all()  # of the baseline's folds
    monkeypatch.undo()
    alone = quick(folds=0, method="supervised").fit(ROWS, Y)
    assert model.predict(ROWS).tolist() == alone.predict(ROWS).tolist()


def test_class_weights_in_every_form() -> None:
    y = np.where((Y == 2) & (np.arange(COUNT) > 6), -1, Y)  # few of the last class
    counts = np.bincount(y[y >= 0])

    def probs(weights: Any) -> Any:
        return quick(class_weight=weights, method="supervised").fit(ROWS, y).predict_proba(ROWS)

    named, listed = probs({2: 3.0, 0: 1.0, 1: 2.0}), probs([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(named, listed)
    np.testing.assert_array_equal(probs(np.array([1.0, 2.0, 3.0])), listed)
    np.testing.assert_allclose(probs("balanced"), probs((1 / counts).tolist()), atol=1e-6)
    np.testing.assert_array_equal(probs(None), probs(None))
    assert probs([1, 1, 50])[:, 2].mean() > probs(None)[:, 2].mean() + 0.05


@pytest.mark.parametrize(
    ("prior", "wanted"),
    [("labels", None), (None, None), ("uniform", [1 / 3] * 3), ([1, 1, 2], [0.25, 0.25, 0.5]), ("estimate", ...)],
)
def test_priors_weigh_the_evidence(prior: Any, wanted: Any) -> None:
    y = np.where((Y == 2) & (np.arange(COUNT) > 9), -1, Y)
    model = quick(prior=prior, folds=2, method="fixmatch-ads").fit(ROWS, y)
    assert model.evidence_ is not None
    weights = model.evidence_.conformal.weights
    if wanted is None:
        assert weights is model.prior_ is None
        return
    shares = np.bincount(y[y >= 0]) / (y >= 0).sum()
    assert weights is not None
    assert model.prior_ == pytest.approx((weights.numpy() * shares).tolist())
    assert sum(model.prior_) == pytest.approx(1)
    if wanted is not ...:
        assert model.prior_ == pytest.approx(wanted)
    assert "no guarantee" in model.guarantee(0.8).sentence
    kept = model.run_.settings["prior"]
    assert kept == {"estimate": None, "uniform": "uniform"}.get(str(prior), [1.0, 1.0, 2.0])


def test_settings_reach_the_training_of_both_sides() -> None:
    seen: list[Config] = []

    class Watched(SSLClassifier):
        def _train(self, data: Data, config: Config, out: Any = None) -> Any:
            seen.append(config)
            return super()._train(data, config, out)

    own = {"lr": 0.007, "batch": 5, "r": 3.0, "strong_noise": 0.4, "evaluations": 2, "preset": "cpu"}
    Watched("fixmatch-ads", folds=2, steps=3, net="mlp-8", settings=own).fit(ROWS, Y)
    assert [config.method for config in seen] == ["fixmatch-ads"] * 2 + ["supervised"] * 2 + ["fixmatch-ads"]
    assert {(config.lr, config.batch, config.net, config.steps, config.preset) for config in seen} == {
        (0.007, 5, "mlp-8", 3, "cpu")
    }
    assert [config.evaluations for config in seen] == [1, 1, 1, 1, 2]
    assert [config.flat.get("r") for config in seen] == [3.0, 3.0, None, None, 3.0]
    assert {config.strong_noise for config in seen} == {0.4}


def test_a_time_is_for_the_whole_fit() -> None:
    began = time.monotonic()
    model = quick(steps=None, time="3s", folds=2).fit(ROWS, Y)
    assert time.monotonic() - began < 15  # a busy machine may be slower than it was when it was measured
    config = model.run_.settings
    assert config["time"] == "0.600s"  # five models
    assert config["steps"] >= 1
    assert model.history_[-1]["step"] == config["steps"]
    assert quick(steps=None, time="0.001s").fit(ROWS, Y).history_[-1]["step"] >= 1


def test_the_run_is_kept_in_a_folder(tmp_path: Path) -> None:
    model = quick(out=tmp_path / "run", folds=2, steps=10).fit(ROWS, Y)
    run = halfsure.load(tmp_path / "run")
    assert [int(name) for name in run.predict(ROWS.astype(np.float32))] == model.predict(ROWS).tolist()
    assert len(run.metrics) == 10


def test_a_folder_gets_the_run_and_its_report(tmp_path: Path) -> None:
    model = quick(folds=0, out=tmp_path / "run").fit(ROWS, Y)
    run = halfsure.load(tmp_path / "run")
    assert run.predict_proba(ROWS.astype(np.float32)) == pytest.approx(model.predict_proba(ROWS), abs=1e-6)
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert model.method_ in page
    assert "Most ambiguous unlabeled samples" in page  # the data were at hand


def test_a_temperature_at_its_cap_is_in_the_report(model: SSLClassifier) -> None:
    assert model.report_.temperature == model.temperature_ == model.run_.temperature
    assert "cap" not in str(replace(model.report_, temperature=2.0))
    assert "The temperature is at its cap, 10: " in str(replace(model.report_, temperature=10.0))
