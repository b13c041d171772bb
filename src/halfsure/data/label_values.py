"""What a label says: a class, nothing, or something that is no label of one sample. One definition for every way in."""

import re
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfsure.data.dataset import UNLABELED
from halfsure.data.files import DataError, shown

__all__ = ["check_single", "is_unlabeled", "one_each", "read_label", "unlabeled"]

NOT_A_LABEL = {"?", "#n/a", "<na>", "n/a", "na", "nat", "none", "null", "unknown", "unlabeled", "unlabelled"}
"""Words that may mean a class or that there is none: whoever wrote them has to say."""
SEPARATORS = (";", "|", ",")
LIST = re.compile(r"""\[\s*(?P<quote>['"]).*(?P=quote)\s*,\s*(?P=quote).*(?P=quote)\s*,?\s*\]""", re.DOTALL)
DECIMAL = re.compile(r"[+-]?\d+,\d+")
LONGEST_LIST = 1000


def is_unlabeled(value: Any) -> bool:
    """Whether a label says nothing: None, NaN, NA, −1, an empty text or blanks, and −1 or NaN written as text.

    Examples:
        >>> from halfsure.data.label_values import is_unlabeled
        >>> [is_unlabeled(value) for value in (None, float("nan"), -1.0, " ", "-1", "NaN", 0, "cat")]
        [True, True, True, True, True, True, False, False]
    """
    value = _plain(value)
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return not value.strip()
    if value is None or type(value).__name__ == "NAType":  # that of pandas, which need not be here
        return True
    return bool(value != value or value == UNLABELED)  # noqa: PLR0124 - NaN alone is not itself


def unlabeled(labels: NDArray[Any]) -> NDArray[np.bool_]:
    """`is_unlabeled` of every label. (n,) → (n,)."""
    if labels.dtype.kind in "biu":
        return np.asarray(labels == UNLABELED) & (labels.dtype.kind != "b")
    if labels.dtype.kind == "f":
        return np.asarray(np.isnan(labels) | (labels == UNLABELED))
    return np.array([is_unlabeled(label) for label in labels.tolist()], dtype=bool)


def read_label(value: Any, where: str, classes: Collection[str] = ()) -> int | str | None:
    """A label as a whole number or a text, None where it means unlabeled; `classes` are names that are meant so."""
    value = _plain(value)
    if is_unlabeled(value):
        return None
    if isinstance(value, str) and value.strip().lower() in NOT_A_LABEL and value not in classes:
        raise DataError(
            f"{where}: {value!r} is no label; leave it empty or write -1 for an unlabeled sample, or give the class "
            "another name"
        )
    if isinstance(value, bool | str):
        return str(value)
    if isinstance(value, int | float):
        return int(value) if isinstance(value, int) or value.is_integer() else str(value)
    raise DataError(f"{where} has a label of type {type(value).__name__}; labels are numbers or strings")


def one_each(labels: Any, name: str) -> None:
    """Refuse a table of labels, such as one of 0 and 1 with a column for each class, and lists for labels."""
    wide = getattr(labels, "ndim", 1) > 1 and tuple(labels.shape[1:]) != (1,)
    if wide:
        raise DataError(
            f"{name} has labels of shape {tuple(labels.shape)}; each sample has one class here, so give one value a "
            "sample"
        )
    for row, value in enumerate(labels if isinstance(labels, list | tuple) else ()):
        if isinstance(value, list | tuple | dict | set | frozenset) or getattr(value, "ndim", 0) > 0:
            raise DataError(
                f"{name}: row {row} has the labels {value!s:.60}; each sample has one class here, so give one value "
                "a sample"
            )


def check_single(names: Iterable[str], name: str) -> None:
    """Refuse classes of which one is a list of others, such as `cat;dog` beside `cat` and `dog`.

    A name with a comma or semicolon in it is a name like any other, unless each of its pieces is a class too.
    """
    known = set(names)
    bare = {_bare(one) for one in known}
    for one in sorted(known):
        pieces = [{_bare(piece) for piece in one.strip("[]{}() ").split(mark)} - {""} for mark in SEPARATORS]
        several = any(len(some) > 1 and some <= bare for some in pieces) and not DECIMAL.fullmatch(one)
        if several or (len(one) < LONGEST_LIST and LIST.fullmatch(one.strip())):
            raise DataError(
                f"{name}: {shown([one])} names several classes; each sample has one class here, so keep one of them, "
                "or give what is both a name of its own"
            )


def _plain(value: Any) -> Any:
    """A scalar of NumPy or torch as Python's, bytes as text."""
    if hasattr(value, "item"):
        value = value.item()
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _bare(name: str) -> str:
    """A name without the brackets and quotes of a list."""
    return name.strip("[]{}() ").strip("'\"").strip()
