"""Labels as people write them → class indices, −1 where there is none."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from halfsure.data.dataset import UNLABELED, DataError, Labels

__all__ = ["known_labels", "read_labels"]


def read_labels(y: Any) -> tuple[Labels, NDArray[Any]]:
    """Y → class indices with −1 for unlabeled, and the classes, ascending. (n,) → (n,), (classes,)."""
    known, values = known_labels(y)
    if not len(values):
        raise DataError("y has no label at all, every entry means unlabeled; label at least two samples of each class")
    check_classification_targets(values)
    classes, indices = np.unique(values, return_inverse=True)
    if len(classes) < 2:
        raise DataError(f"y has only one class, {classes.tolist()[0]!r}; a classifier needs at least two")
    labels = np.full(len(known), UNLABELED, dtype=np.int64)
    labels[known] = indices
    return labels, classes


def known_labels(y: Any) -> tuple[NDArray[np.bool_], NDArray[Any]]:
    """Where y has a label, and these labels in a type of their own. (n,) → (n,), (known,)."""
    given = _column(y)
    known = ~_is_unlabeled(given)
    values = given[known]
    if values.dtype.kind == "O" and len(values):
        strings = [isinstance(value, str) for value in values.tolist()]
        if any(strings) and not all(strings):
            raise DataError("y mixes strings and numbers; write all labels in one way, None where there is none")
        values = values if all(strings) else np.array(values.tolist())
    if values.dtype.kind == "f" and np.isinf(values).any():
        raise DataError("Input y contains infinity, which is no class; write NaN where there is no label")
    return known, values


def _is_unlabeled(y: NDArray[Any]) -> NDArray[np.bool_]:
    """Where y says nothing: −1, None, NaN or an empty string. (n,) → (n,)."""
    if y.dtype.kind in "iu":
        return np.asarray(y == UNLABELED)
    if y.dtype.kind == "f":
        return np.asarray(np.isnan(y) | (y == UNLABELED))
    if y.dtype.kind == "b":
        return np.zeros(len(y), dtype=bool)
    if y.dtype.kind == "U":  # an array of strings holds numbers as strings, these two among them
        return np.isin(y, ["", "-1", "nan"])
    return np.array([_says_nothing(value) for value in y.tolist()], dtype=bool)


def _column(y: Any) -> NDArray[Any]:
    if y is None:
        raise ValueError("This classifier requires y to be passed, but the target y is None")
    if hasattr(y, "detach"):
        y = y.numpy(force=True)
    if hasattr(y, "isna") and getattr(y, "ndim", 2) == 1 and bool(y.isna().any()):  # pandas has many kinds of gaps
        y = [None if gone else value for value, gone in zip(y.tolist(), y.isna().tolist(), strict=True)]
    if isinstance(y, list | tuple) and len({isinstance(value, str) for value in y}) > 1:
        y = np.array(y, dtype=object)  # NumPy would write numbers beside strings as strings
    column: NDArray[Any] = column_or_1d(np.asarray(y), warn=True)
    return column


def _says_nothing(value: Any) -> bool:
    if value is None or str(value) == "<NA>":
        return True
    if isinstance(value, str):
        return value == ""
    return bool(value != value or value == UNLABELED)  # noqa: PLR0124 - NaN alone is not itself
