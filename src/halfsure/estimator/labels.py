"""Labels as people write them → class indices, −1 where there is none."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from halfsure.data.dataset import UNLABELED, DataError, Labels
from halfsure.data.label_values import check_single, one_each, read_label, unlabeled

__all__ = ["known_labels", "read_labels"]


def read_labels(y: Any) -> tuple[Labels, NDArray[Any]]:
    """Y → class indices with −1 for unlabeled, and the classes, ascending. (n,) → (n,), (classes,)."""
    known, values = known_labels(y)
    if not len(values):
        raise DataError("y has no label at all, every entry means unlabeled; label at least two samples of each class")
    check_classification_targets(values)
    classes, indices = np.unique(values, return_inverse=True)
    if len(classes) < 2:
        without = "" if known.all() else f"; {np.sum(~known):,} others are unlabeled: -1, NaN, None or empty"
        raise DataError(f"y has only one class, {classes.tolist()[0]!r}; a classifier needs at least two{without}")
    if classes.dtype.kind in "OU":
        check_single(map(str, classes.tolist()), "y")
    labels = np.full(len(known), UNLABELED, dtype=np.int64)
    labels[known] = indices
    return labels, classes


def known_labels(y: Any) -> tuple[NDArray[np.bool_], NDArray[Any]]:
    """Where y has a label, and these labels in a type of their own. (n,) → (n,), (known,)."""
    given = _column(y)
    known = ~unlabeled(given)
    values = given[known]
    if values.dtype.kind == "O" and len(values):
        strings = [isinstance(value, str) for value in values.tolist()]
        if any(strings) and not all(strings):
            raise DataError("y mixes strings and numbers; write all labels in one way, None where there is none")
        values = values if all(strings) else np.array(values.tolist())
    if values.dtype.kind == "f" and np.isinf(values).any():
        raise DataError("Input y contains infinity, which is no class; write NaN where there is no label")
    if values.dtype.kind in "OUS":
        for row in np.flatnonzero(known):
            read_label(given[row], f"y: row {row}")  # refuses words that may mean no label
    return known, values


def _column(y: Any) -> NDArray[Any]:
    if y is None:
        raise ValueError("This classifier requires y to be passed, but the target y is None")
    if hasattr(y, "detach"):
        y = y.numpy(force=True)
    if hasattr(y, "isna") and getattr(y, "ndim", 2) == 1 and bool(y.isna().any()):  # pandas has many kinds of gaps
        y = [None if gone else value for value, gone in zip(y.tolist(), y.isna().tolist(), strict=True)]
    y = y.tolist() if isinstance(y, np.ma.MaskedArray) else y
    one_each(y, "y")
    one_each(y.tolist() if getattr(getattr(y, "dtype", None), "kind", "") == "O" and y.ndim == 1 else (), "y")
    if isinstance(y, list | tuple) and len({isinstance(value, str) for value in y}) > 1:
        y = np.array(y, dtype=object)  # NumPy would write numbers beside strings as strings
    column: NDArray[Any] = column_or_1d(np.asarray(y), warn=True)
    return column
