"""What training needs to know of a data set, wherever it came from."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from halfsure.data.files import DataError, is_text, shown
from halfsure.data.originals import Originals
from halfsure.data.text import TextEncoding, Words

__all__ = [
    "UNLABELED",
    "Data",
    "DataError",
    "DataWarning",
    "Encoded",
    "Labels",
    "Names",
    "Part",
    "Text",
    "texts_of",
]

Labels = NDArray[np.int64]
Names = NDArray[np.object_]
"""Strings, one a sample."""
Kind = str
"""Which views and networks suit it: `image`, `array`, or that of a part of one's own."""
UNLABELED = -1
MOST_CLASSES = 100_000
"""More are no classes, but a column of numbers or names that was taken for one."""


class DataWarning(UserWarning):
    """Something in the data that probably is not meant: an identifier among the features, copies of samples."""


@dataclass(frozen=True)
class Part:
    """Samples and their labels, one row each."""

    samples: NDArray[Any]
    """uint8 images, (n, height, width, channels), or float32 rows, (n, features); may be memory-mapped."""
    labels: Labels
    """(n,): a class index, or −1 where it is not known."""
    ids: Names | None = None
    """(n,): what each sample is called, such as its file; None where they have row numbers only."""
    groups: Names | None = None
    """(n,): the patient, user or scene that each sample is of; None where each stands for itself."""
    originals: Originals | None = None
    """(n,): the pictures or texts themselves, where the samples are what an encoder makes of them."""
    texts: tuple[Originals | None, ...] = ()
    """Of each of the data's `encoded`, the texts that an encoder made features of, where one did. Each (n,)."""

    def __post_init__(self) -> None:
        if len(self.samples) != len(self.labels):
            raise DataError(f"there are {len(self.samples)} samples but {len(self.labels)} labels")
        for what, names in (("ids", self.ids), ("groups", self.groups), ("originals", self.originals)):
            if names is not None and len(names) != len(self.labels):
                raise DataError(f"there are {len(self.labels)} samples but {len(names)} {what}")

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: NDArray[Any]) -> "Part":
        """Some of the samples, with all that is known of them."""
        fields = (self.samples, self.labels, self.ids, self.groups)
        originals = None if self.originals is None else self.originals.take(rows)
        texts = tuple(None if column is None else column.take(rows) for column in self.texts)
        taken: list[Any] = [None if field is None else field[rows] for field in fields]
        samples, labels, ids, groups = taken
        return Part(samples, labels, ids, groups, originals, texts)

    def of_groups(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """These samples and all others of their groups, ascending. (n,) → (m,)."""
        if self.groups is None:
            return np.sort(rows)
        held = set(self.groups[rows])
        return np.flatnonzero([group in held for group in self.groups])


class Encoded(Protocol):
    """Features of a row that stand for a text or a picture: the size of each says how much it matters."""

    @property
    def features(self) -> slice:
        """Which features of a row they are."""
        ...


def texts_of(encoded: Iterable[Encoded]) -> tuple[Originals | None, ...]:
    """The training texts that an encoder made features of."""
    return tuple(getattr(one, "originals", None) for one in encoded)


@dataclass(frozen=True, eq=False)
class Text:
    """A text of every training sample: its words, and which features they became."""

    first: int
    """The first of the features."""
    encoding: TextEncoding
    words: Words

    @property
    def features(self) -> slice:
        """Which features of a row encode it."""
        return slice(self.first, self.first + self.encoding.width)


@dataclass(frozen=True)
class Data:
    """A data set: samples to train on, which of them are labeled, samples to test on."""

    name: str
    kind: Kind
    classes: tuple[str, ...]
    train: Part
    """Every training sample. Where a label is known but not in `labeled`, it serves for scoring only."""
    labeled: Labels
    """Which training samples may be trained on with their label, ascending."""
    unlabeled: Labels | None = None
    """Which training samples may be seen without their label, ascending; None is all, the labeled ones included."""
    test: Part | None = None
    val: Part | None = None
    encoding: dict[str, Any] | None = None
    """How columns or pixels became these arrays: what has to be kept with a model, as JSON."""
    encoded: tuple[Encoded, ...] = ()
    """The texts and pictures among the features of a row: they have one scale each, and views of their own."""
    draws: tuple[Labels, ...] = ()
    """Which samples the set's own protocol labels, draw after draw."""
    notes: tuple[str, ...] = ()
    """What became of the source, in sentences: the columns of a table, rows without a label."""

    def __post_init__(self) -> None:
        self._check_classes()
        for part in (self.train, self.val, self.test):
            if part is not None:
                self._check(part)
        known = self.train.labels[self.labeled]
        if (known == UNLABELED).any():
            raise DataError(
                f"{self.name}: sample {self.labeled[known == UNLABELED][0]} is to be labeled but has no label"
            )
        missing = sorted(set(range(len(self.classes))) - set(known.tolist()))
        if missing:
            names = ", ".join(repr(self.classes[i]) for i in missing[:5]) + (" …" if len(missing) > 5 else "")
            raise DataError(
                f"{self.name}: no labeled sample of {names}; label at least one of every class, or leave the class out"
            )

    def _check_classes(self) -> None:
        if len(self.classes) < 2:
            found = f"only the class {self.classes[0]!r}" if self.classes else "no class"
            without = f"; {self.without_label:,} samples are unlabeled: -1, NaN or empty" if self.without_label else ""
            raise DataError(f"{self.name} has {found}; a classifier needs at least two{without}")
        if len(self.classes) > MOST_CLASSES:
            some = shown([repr(name) for name in self.classes], 3)
            raise DataError(f"{self.name} has {len(self.classes):,} classes, {some}; are these labels at all?")
        for name in self.classes:
            if not is_text(name):
                raise DataError(f"{self.name}: the name of the class {name!r} cannot be written; give it another one")

    def _check(self, part: Part) -> None:
        if part.labels.size and not (part.labels.min() >= UNLABELED and part.labels.max() < len(self.classes)):
            raise DataError(f"{self.name}: a label lies outside 0 … {len(self.classes) - 1}")
        if part.samples.shape[1:] != self.train.samples.shape[1:]:
            raise DataError(
                f"{self.name}: samples of shape {part.samples.shape[1:]} beside training samples of shape "
                f"{self.train.samples.shape[1:]}"
            )

    @property
    def seen(self) -> range | Labels:
        """Which training samples may be seen without their label, ascending; all of them are not written down."""
        return range(len(self.train)) if self.unlabeled is None else self.unlabeled

    @property
    def without_label(self) -> int:
        """How many training samples have no label that anyone knows."""
        return int(np.count_nonzero(self.train.labels == UNLABELED))

    @property
    def counts(self) -> str:
        """How many samples, labels and classes there are, in words."""
        without = f", {self.without_label:,} have no label" if self.without_label else ""
        labeled = f"{len(self.train):,} samples, {len(self.labeled):,} of them labeled"
        return f"{labeled}{without}, {len(self.classes)} classes"

    def with_labels(self, labeled: Labels) -> "Data":
        """The same samples with another choice of labeled ones."""
        return replace(self, labeled=np.sort(labeled))
