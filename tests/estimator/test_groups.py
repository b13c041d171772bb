"""Groups and columns in the classifier: no fold trains on a group that it is checked on, and odd columns are told."""

import warnings
from typing import Any

import numpy as np
import pytest

from halfsure.data import Data, DataWarning
from halfsure.estimator.classifier import SSLClassifier
from tests.estimator.samples import COUNT, Y, clouds, quick

GROUPS = np.arange(COUNT) // 2 % 6
"""Six groups with three labels each."""


def test_no_fold_trains_on_a_group_that_it_is_checked_on(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Data] = []
    train = SSLClassifier._train_fold

    def watched(self: Any, data: Data, config: Any) -> Any:
        seen.append(data)
        return train(self, data, config)

    monkeypatch.setattr(SSLClassifier, "_train_fold", watched)
    model = quick(method="supervised", folds=3).fit(clouds(), Y, groups=GROUPS)
    assert len(seen) == 3
    checked = []
    for data in seen:
        assert data.unlabeled is not None
        trained = {str(GROUPS[row]) for row in (*data.labeled, *data.unlabeled)}
        checked.append({str(group) for group in GROUPS} - trained)
        assert len(checked[-1]) == 2
    assert set.union(*checked) == set(map(str, range(6)))
    assert model.report_.folds == 3


def test_without_groups_nothing_changes() -> None:
    each = quick(folds=2).fit(clouds(), Y, groups=None).predict_proba(clouds(1))
    np.testing.assert_array_equal(each, quick(folds=2).fit(clouds(), Y).predict_proba(clouds(1)))


@pytest.mark.parametrize(
    ("groups", "folds", "message"),
    [
        (GROUPS[:9], 2, "there are 60 samples but 9 groups"),
        ([None, *GROUPS[1:]], 2, "groups: there is none in row 0; every sample needs one"),
        (GROUPS, 7, "labels of 6 groups are too few for 7 folds; ask for 6, or do without the check"),
        (["all"] * COUNT, "auto", "are in the group 'all', and a model can only be checked with labels of every class"),
    ],
)
def test_groups_that_cannot_serve_are_refused(groups: Any, folds: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        quick(folds=folds).fit(clouds(), Y, groups=groups)


def test_a_column_that_counts_is_warned_of() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(clouds(), columns=list("abcd"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quick(steps=2, method="supervised").fit(frame, Y)
    with pytest.warns(DataWarning, match=r"the column 'row' looks like an identifier.*; leave it out of X$"):
        quick(steps=2, method="supervised").fit(frame.assign(row=range(COUNT)), Y)
