"""Bad input: one sentence that says what to do, and no half-fitted classifier left behind."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.exceptions import NotFittedError
from torch import nn

from halfsure import SSLClassifier
from halfsure.training.errors import RunError
from tests.estimator.samples import COUNT, TRUTH, Y, clouds, pictures, quick, texts

pd = pytest.importorskip("pandas", reason="tables need the extra halfsure[tables]")

ROWS = clouds()
SINGLE = np.where(Y == 2, -1, Y)
SINGLE[2] = 2


def broken(value: float) -> Any:
    rows = ROWS.copy()
    rows[3, 1] = value
    return rows


def frame(**changes: Any) -> Any:
    return pd.DataFrame({"age": ROWS[:, 0], "city": np.array(["Rome", "Lima", "Oslo"])[TRUTH]}).assign(**changes)


BAD_FITS: dict[str, tuple[dict[str, Any], Any, Any, str]] = {
    "no label": ({}, ROWS, np.full(COUNT, -1), "y has no label at all.*label at least two samples of each class"),
    "one class": ({}, ROWS, np.where(Y == 1, 1, -1), "y has only one class, 1; a classifier needs at least two"),
    "a class with a single label": ({"folds": 3}, ROWS, SINGLE, "'2' has a single label.*folds=0"),
    "more samples": ({}, ROWS, Y[:-1], "X has 60 samples and y has 59 labels: give one label a sample"),
    "more labels": ({}, texts()[:-1], Y, "X has 59 samples and y has 60 labels"),
    "NaN": ({}, broken(np.nan), Y, "Input X contains NaN"),
    "infinity": ({}, broken(np.inf), Y, "Input X contains infinity"),
    "too large for float32": ({}, broken(1e300), Y, "Input X contains infinity or a value too large"),
    "continuous labels": ({}, ROWS, np.linspace(0, 1, COUNT), "Unknown label type: continuous"),
    "infinite labels": ({}, ROWS, np.where(Y == 1, np.inf, Y), "Input y contains infinity, which is no class"),
    "labels of two kinds": ({}, ROWS, ["a", 1] * 30, "y mixes strings and numbers; write all labels in one way"),
    "several labels a sample": (
        {},
        ROWS,
        np.stack([Y, Y], 1),
        r"labels of shape \(60, 2\); each sample has one class",
    ),
    "no y": ({}, ROWS, None, "requires y to be passed, but the target y is None"),
    "texts with gaps": ({}, [None, *texts()[1:]], Y, "some of the texts in X are no strings: write '' where"),
    "one feature without its dimension": ({}, ROWS[:, 0], Y, "Expected 2D array, got 1D array"),
    "blocks without a network": ({}, ROWS[:, :, None], Y, "Found array with dim 3"),
    "pictures of four channels": (
        {},
        pictures(9, 9, 4),
        Y,
        r"images must be uint8.*got uint8 of shape \(60, 9, 9, 4\)",
    ),
    "pictures without pixels": ({}, pictures(0, 9), Y, "images must be uint8.*with at least one of them"),
    "columns of one name": ({}, frame().set_axis(["a", "a"], axis=1), Y, "columns of X need names, and each another"),
    "a column of nothing": ({}, frame(nothing=np.nan), Y, "the column 'nothing' holds no number at all; drop it"),
    "unknown algorithm": ({"method": "fixmach-ads"}, ROWS, Y, "no algorithm 'fixmach'; did you mean fixmatch"),
    "unknown strategy": ({"method": "vat+adz"}, ROWS, Y, "no strategy 'adz'; did you mean ads"),
    "no method": ({"method": None}, ROWS, Y, "method is the name of a method.*or 'auto', got None"),
    "method without meaning": ({"method": "fixmatch-me"}, ROWS, Y, "makes no explicit target.*fixmatch.me"),
    "no network": ({"net": 3}, ROWS, Y, "net is the name of a network, an nn.Module or None, got 3"),
    "unknown setting": ({"settings": {"lrr": 1}}, ROWS, Y, r"has no setting 'lrr'; did you mean lr\?"),
    "setting out of range": ({"settings": {"lr": -1}}, ROWS, Y, "lr must be a finite number of at least 0"),
    "setting of another method": (
        {"settings": {"epsilon": 1}},
        ROWS,
        Y,
        "has no setting 'epsilon', which belongs to the algorithm vat",
    ),
    "setting of pictures": (
        {"settings": {"shift": 1}},
        ROWS,
        Y,
        "no setting 'shift', which belongs to the views images",
    ),
    "setting of texts": (
        {"settings": {"weak_drop": 0.1}},
        ROWS,
        Y,
        "no setting 'weak_drop', which belongs to the views texts",
    ),
    "a parameter as a setting": ({"settings": {"seed": 1}}, ROWS, Y, "seed is not one of the settings.*random_state="),
    "no settings": ({"settings": 3}, ROWS, Y, "settings is a mapping of names to values, or None, got 3"),
    "norm of one's own network": (
        {"net": nn.Linear(4, 3), "settings": {"norm": "batch"}},
        ROWS,
        Y,
        "norm is for the networks of halfsure",
    ),
    "steps and time": ({"steps": 3, "time": "3s"}, ROWS, Y, "steps and time both say how long to train: give one"),
    "no steps": ({"steps": 0}, ROWS, Y, "steps must be a whole number of at least 1, got 0"),
    "time without a unit": ({"steps": None, "time": "3"}, ROWS, Y, "a time is a number with s, m, h or d"),
    "time as a number": ({"steps": None, "time": 3}, ROWS, Y, "time is a string such as '5m', or None, got 3"),
    "negative folds": ({"folds": -1}, ROWS, Y, "folds must be a whole number of at least 0, or 'auto', got -1"),
    "folds in words": ({"folds": "all"}, ROWS, Y, "folds must be a whole number of at least 0, or 'auto', got 'all'"),
    "prior of another length": ({"prior": [1, 2]}, ROWS, Y, r"a share for each of 3 classes.*got \[1, 2\]"),
    "prior that no method takes": ({"method": "supervised", "prior": [1, 2]}, ROWS, Y, "a share for each of 3 classes"),
    "negative prior": ({"prior": [1, -1, 1]}, ROWS, Y, "none of them negative"),
    "unknown prior": ({"prior": "equal"}, ROWS, Y, "prior is 'auto', 'labels', 'estimate', 'uniform' or a share"),
    "class weights of another length": ({"class_weight": [1, 2]}, ROWS, Y, "class_weight has 2 values.*3 classes"),
    "a class without a weight": ({"class_weight": {0: 1, 1: 1}}, ROWS, Y, "class_weight has no weight for the class 2"),
    "unknown class weight": ({"class_weight": "equal"}, ROWS, Y, "class_weight is balanced or a number for each class"),
    "negative seed": ({"random_state": -1}, ROWS, Y, "random_state must be a whole number of at least 0"),
    "no seed": ({"random_state": "x"}, ROWS, Y, "cannot be used to seed"),
}


@pytest.mark.parametrize("what", BAD_FITS)
def test_bad_fits_are_refused_and_leave_nothing_behind(what: str) -> None:
    parameters, samples, labels, message = BAD_FITS[what]
    model = quick(**({"steps": 3} | parameters))
    before = dict(vars(model))
    with pytest.raises(ValueError, match=message):
        model.fit(samples, labels)
    assert vars(model) == before
    with pytest.raises(NotFittedError):
        model.predict(samples)


def test_networks_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match=r"no network called 'mpl-3'; did you mean 'mlp-3'"):
        quick(net="mpl-3").fit(ROWS, Y)
    with pytest.raises(RunError, match=r"the network must return logits \(2, 3\); it returns \(2, 2\)"):
        quick(net=nn.Linear(4, 2)).fit(ROWS, Y)


def test_a_single_label_is_enough_where_nothing_is_checked() -> None:
    assert quick(folds=0, steps=2).fit(ROWS, SINGLE).classes_.tolist() == [0, 1, 2]


def test_a_fit_that_fails_leaves_the_one_before_as_it_was() -> None:
    model = quick(steps=3, folds=2).fit(frame(), Y)
    probs, before = model.predict_proba(frame()), dict(vars(model))
    late = {"class_weight": [1, 2]}  # is found out in training, after samples and labels were read
    for parameters, samples, labels in (({}, broken(np.nan), Y), ({}, ROWS, SINGLE), (late, texts(), Y)):
        model.set_params(**parameters)
        with pytest.raises(ValueError, match=r"NaN|single label|class_weight"):
            model.fit(samples, labels)
    assert vars(model) == before | late
    np.testing.assert_array_equal(model.predict_proba(frame()), probs)


FITTED: dict[str, Callable[[], SSLClassifier]] = {
    "rows": lambda: quick(steps=2).fit(ROWS, Y),
    "table": lambda: quick(steps=2).fit(frame(), Y),
    "texts": lambda: quick(steps=2).fit(texts(), Y),
    "pictures": lambda: quick(steps=2).fit(pictures(), Y),
}


@pytest.fixture(scope="module")
def fitted() -> dict[str, SSLClassifier]:
    return {kind: make() for kind, make in FITTED.items()}


@pytest.mark.parametrize(
    ("kind", "samples", "message"),
    [
        ("rows", ROWS[:, :3], "X has 3 features, but SSLClassifier is expecting 4"),
        ("rows", broken(np.nan), "Input X contains NaN"),
        ("rows", ROWS[:0], "minimum of 1 is required"),
        ("rows", texts(), "could not convert string to float"),
        ("table", frame(city="Cairo"), "'city', row 0, holds 'Cairo', which training did not have$"),
        ("table", frame()[["age"]], "no column 'city', which the model was trained on"),
        ("table", frame(more=1), "a column 'more', which the model was not trained on$"),
        ("table", frame(age="old"), "'age' holds numbers, but 'old' in row 0 is none"),
        ("table", ROWS, "X must be a DataFrame with the columns that the classifier was fitted on"),
        ("texts", ROWS, "X must be a list of strings, as the classifier was fitted on"),
        ("texts", [1, 2], "X must be a list of strings"),
        ("texts", ["sun", None], "X must be a list of strings"),
        ("texts", [], "X must be a list of strings"),
        ("texts", "sun and sea", "X must be a list of strings"),
        ("pictures", pictures(13, 9), r"images of shape \(13, 9, 1\), the classifier was fitted on \(9, 13, 1\)"),
        ("pictures", pictures(9, 13, 3), r"images of shape \(9, 13, 3\), the classifier was fitted on \(9, 13, 1\)"),
        ("pictures", pictures() / 255, "images must be uint8.*got float64"),
        ("pictures", pictures()[0], r"images must be uint8.*of shape \(9, 13\)"),
        ("pictures", ROWS, "images must be uint8"),
    ],
)
def test_samples_unlike_those_of_training_are_refused(
    kind: str, samples: Any, message: str, fitted: dict[str, SSLClassifier]
) -> None:
    for predict in (fitted[kind].predict, fitted[kind].predict_proba, fitted[kind].predict_set):
        with pytest.raises(ValueError, match=message):
            predict(samples)


def test_sparse_samples_for_dense_ones_are_refused_as_scikit_learn_does(fitted: dict[str, SSLClassifier]) -> None:
    with pytest.raises(TypeError, match="dense data is required"):
        fitted["rows"].predict(scipy.sparse.csr_matrix(ROWS))


def test_answers_that_need_held_out_labels(fitted: dict[str, SSLClassifier]) -> None:
    model = fitted["rows"]
    for ask in (lambda: model.predict_set(ROWS, coverage=0.9), lambda: model.guarantee(0.9)):
        with pytest.raises(ValueError, match="a coverage needs labels that were held out: fit with folds='auto'"):
            ask()
    with pytest.raises(ValueError, match="abstaining needs labels that were held out: fit with folds='auto'"):
        model.predict(ROWS, abstain=0.9)
    with pytest.raises(NotFittedError):
        SSLClassifier().guarantee(0.9)


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), "much"])
def test_coverage_and_abstaining_out_of_range(value: Any) -> None:
    model = quick(steps=2, folds=1).fit(ROWS, Y)
    with pytest.raises(ValueError, match="coverage must be a finite number from 0 to 1"):
        model.predict_set(ROWS, coverage=value)
    with pytest.raises(ValueError, match="coverage must be a finite number from 0 to 1"):
        model.guarantee(value)
    with pytest.raises(ValueError, match="abstain must be a finite number from 0 to 1"):
        model.predict(ROWS, abstain=value)


def test_scores_need_labels(fitted: dict[str, SSLClassifier]) -> None:
    model = fitted["rows"]
    with pytest.raises(ValueError, match="X has 60 samples and y has 5 labels"):
        model.score(ROWS, Y[:5])
    with pytest.raises(ValueError, match="y has no label to score against"):
        model.score(ROWS, np.full(COUNT, -1))
    with pytest.raises(ValueError, match="y is None"):
        model.score(ROWS, None)
