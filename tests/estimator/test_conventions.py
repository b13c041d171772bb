"""The classifier among scikit-learn's tools: its own checks, pipelines, searches, clones and pickles."""

import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks
from torch import nn

from halfsure import SSLClassifier
from tests.estimator.samples import COUNT, TRUTH, Y, clouds, quick

NOT_A_CLASS = {"check_classifiers_classes": "it has −1 as a class, which here means unlabeled"}
SOME_BY_DEFAULT = {"check_fit_idempotent", "check_dict_unchanged"}


# One of them weighs a class so little that it rightly is never predicted.
@parametrize_with_checks([SSLClassifier(steps=60, folds=0)], expected_failed_checks=lambda _: NOT_A_CLASS)  # type: ignore[untyped-decorator]
def test_checks_of_scikit_learn(estimator: SSLClassifier, check: Callable[[SSLClassifier], None]) -> None:
    check(estimator)


@pytest.mark.slow
def test_some_checks_of_scikit_learn_as_it_comes() -> None:
    ran = set()
    for estimator, check in estimator_checks_generator(SSLClassifier(), expected_failed_checks=NOT_A_CLASS):
        name = getattr(check, "func", check).__name__
        if name in SOME_BY_DEFAULT:
            check(estimator)
            ran.add(name)
    assert ran == SOME_BY_DEFAULT


def test_the_one_check_that_fails_does_so_for_the_reason_that_is_given() -> None:
    with pytest.raises(ValueError, match="y has only one class, 1; a classifier needs at least two"):
        quick().fit(clouds(), np.where(TRUTH == 0, -1, 1))


def test_in_a_pipeline() -> None:
    rows = clouds() * [1, 100, 1e-3, 1] + 7
    pipeline = make_pipeline(StandardScaler(), quick(steps=40)).fit(rows, Y)
    assert pipeline.score(rows, TRUTH) > 0.8
    assert pipeline.predict_proba(rows).shape == (COUNT, 3)
    assert pipeline[-1].predict(pipeline[:-1].transform(rows)).tolist() == pipeline.predict(rows).tolist()


def test_in_a_grid_search_with_unlabeled_samples() -> None:
    """Unlabeled samples lie in every part; a part is scored on those that have a label."""
    grid = {"steps": [1, 40], "method": ["supervised", "fixmatch-ads"]}
    search = GridSearchCV(quick(), grid, cv=StratifiedKFold(2), error_score="raise").fit(clouds(apart=3), Y)
    assert search.best_params_["steps"] == 40
    assert search.best_score_ > 0.6
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert set(search.predict(clouds())) <= {0, 1, 2}


def test_cross_validation_scores_labeled_samples_alone() -> None:
    rows = clouds()
    parts = StratifiedKFold(3)
    scores = cross_val_score(quick(), rows, Y, cv=parts)
    for score, (train, test) in zip(scores, parts.split(rows, Y), strict=True):
        guessed = quick().fit(rows[train], Y[train]).predict(rows[test])
        known = Y[test] >= 0
        assert score == pytest.approx((guessed[known] == Y[test][known]).mean())


def test_scores_with_weights_and_gaps() -> None:
    model = quick(steps=3).fit(clouds(apart=1), Y)
    guessed = model.predict(clouds(apart=1))
    assert model.score(clouds(apart=1), TRUTH) == pytest.approx((guessed == TRUTH).mean())
    weights = np.arange(COUNT)
    some = np.where(np.arange(COUNT) % 2, TRUTH, -1)
    known = some >= 0
    wanted = (weights * (guessed == TRUTH))[known].sum() / weights[known].sum()
    assert model.score(clouds(apart=1), some, sample_weight=weights) == pytest.approx(wanted)
    assert model.score(clouds(apart=1), [None if k < 0 else int(k) for k in some]) == pytest.approx(
        (guessed == TRUTH)[known].mean()
    )


def test_parameters_are_kept_as_they_were_given() -> None:
    given: dict[str, Any] = {
        "method": "vat+ads",
        "encoder": "none",
        "net": nn.Linear(4, 3),
        "views": None,
        "steps": 7,
        "time": None,
        "folds": 2,
        "calibrate": False,
        "class_weight": {0: 1, 1: 2, 2: 3},
        "prior": [1, 2, 3],
        "random_state": np.random.RandomState(0),
        "n_jobs": 1,
        "out": None,
        "settings": {"lr": 1e-3},
    }
    model = SSLClassifier(**given)
    assert model.get_params(deep=False) == given
    model.fit(clouds(), Y)
    assert all(getattr(model, name) is value for name, value in given.items())
    assert model.set_params(steps=9, method="supervised") is model
    assert (model.steps, model.method) == (9, "supervised")
    copied = clone(model)
    assert copied.get_params()["settings"] == {"lr": 1e-3}
    with pytest.raises(NotFittedError):
        copied.predict(clouds())
    with pytest.raises(ValueError, match="Invalid parameter 'step'"):
        model.set_params(step=3)


def test_a_network_of_ones_own_is_not_changed() -> None:
    net = nn.Linear(4, 3)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    model = quick(net=net, folds=2).fit(clouds(), Y)
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())
    assert not torch.equal(before["weight"], next(model.run_.model.parameters()))


@pytest.mark.parametrize("folds", [0, 2])
def test_a_pickle_predicts_the_same(folds: int) -> None:
    rows = clouds(apart=2)
    model = quick(folds=folds).fit(rows, Y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(rows), model.predict_proba(rows))
    assert again.predict_set(rows) == model.predict_set(rows)
    assert str(again.report_) == str(model.report_)
    assert again.classes_.tolist() == [0, 1, 2]
    if folds:
        assert again.predict_set(rows, coverage=0.8) == model.predict_set(rows, coverage=0.8)
        assert again.guarantee(0.8) == model.guarantee(0.8)


def test_the_same_number_gives_the_same_bits() -> None:
    rows = clouds(apart=1)

    def fitted(random_state: Any) -> Any:
        return quick(random_state=random_state).fit(rows, Y).predict_proba(rows)

    one = fitted(3)
    np.testing.assert_array_equal(fitted(3), one)
    np.testing.assert_array_equal(fitted(np.int64(3)), one)
    assert (fitted(4) != one).any()
    legacy = np.random.RandomState
    np.testing.assert_array_equal(fitted(legacy(5)), fitted(legacy(5)))
    source = legacy(5)
    assert (fitted(source) != fitted(source)).any()  # it goes on
    model = quick(random_state=3).fit(clouds(seed=1), Y).fit(rows, Y)
    np.testing.assert_array_equal(model.predict_proba(rows), one)  # a fit forgets the one before


def test_fitting_leaves_torch_and_numpy_as_they_were() -> None:
    torch.manual_seed(1)
    np.random.seed(1)  # noqa: NPY002
    before = torch.get_rng_state(), np.random.get_state()[1]  # type: ignore[index]  # noqa: NPY002
    quick(folds=2).fit(clouds(), Y)
    assert torch.equal(torch.get_rng_state(), before[0])
    np.testing.assert_array_equal(np.random.get_state()[1], before[1])  # type: ignore[index]  # noqa: NPY002


@pytest.mark.slow
def test_processes_give_the_same_bits() -> None:
    rows = clouds(apart=2)
    one, two = (quick(folds=2, steps=5, n_jobs=jobs).fit(rows, Y) for jobs in (None, 2))
    np.testing.assert_array_equal(one.predict_proba(rows), two.predict_proba(rows))
    assert one.report_ == two.report_
    assert one.evidence_ is not None
    assert two.evidence_ is not None
    assert one.evidence_.to_json() == two.evidence_.to_json()
    assert one.predict_set(rows, coverage=0.8) == two.predict_set(rows, coverage=0.8)


def test_nothing_is_said_where_nothing_is_wrong(capfd: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        quick(steps=100, folds=1).fit(clouds(), Y).predict(clouds())
    assert told == []
    assert capfd.readouterr() == ("", "")
