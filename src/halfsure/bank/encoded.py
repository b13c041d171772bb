"""Pictures and texts as features from the bank: plain for samples, weak and strong views for training."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from torch import Tensor

from halfsure.bank.making import banked
from halfsure.bank.shards import Rows
from halfsure.bank.view import Drawing, View
from halfsure.data import Data, Part
from halfsure.data.originals import Originals, PictureArray, Texts
from halfsure.encoders import Encoder
from halfsure.views.batch import ViewName
from halfsure.views.draws import BANKED, base_key, below, bits

__all__ = [
    "Banked",
    "EndToEnd",
    "Opener",
    "Plan",
    "PretrainedText",
    "TunedFrom",
    "encode_pictures",
    "originals_of",
    "plain_features",
    "ready",
]

PLAIN = View("plain")
IN_MEMORY = 2**29
"""Bytes of features; more stay on the disk."""


@dataclass(frozen=True)
class Opener:
    """An encoder that is opened once it is needed, in whichever process that is."""

    name: str
    """As it was asked for, or as a run names it."""
    open: Callable[[], Encoder]

    @cached_property
    def encoder(self) -> Encoder:
        """The encoder."""
        return self.open()

    def __getstate__(self) -> dict[str, Any]:
        return {"name": self.name, "open": self.open}


@dataclass(frozen=True)
class TunedFrom:
    """What an encoder was before labels tuned it, so that it can be tuned again on others."""

    opener: Opener
    """The encoder as it came."""
    seed: int
    unlabeled: int = 0
    """Unlabeled samples that took part."""


@dataclass(frozen=True)
class EndToEnd:
    """How an encoder is trained together with the classifier on its features."""

    way: Literal["last", "all"]
    """Its last blocks, or all of it."""
    rate: float
    """Its learning rate, as a part of the classifier's."""


@dataclass(frozen=True)
class Plan:
    """How many views of each sample are in the bank, and how they are drawn."""

    weak: int = 2
    strong: int = 4
    seed: int = 0
    flip: bool = True

    def views(self, name: Literal["plain", "weak", "strong"]) -> tuple[View, ...]:
        """The views of one kind."""
        if name == "plain":
            return (PLAIN,)
        return tuple(View(name, number) for number in range(self.weak if name == "weak" else self.strong))


@dataclass(frozen=True, eq=False)
class Banked:
    """Features of a row that an encoder made of pictures or texts."""

    features: slice
    """Which features of a row they are."""
    opener: Opener
    originals: Originals
    """Of the training samples."""
    plan: Plan
    tuned: TunedFrom | None = None
    """Where labels have tuned the encoder."""
    end_to_end: EndToEnd | None = None
    """Where the encoder is to be trained together with the classifier."""
    made: dict[str, Rows] = field(default_factory=dict, repr=False)
    """Views that are known to be in the bank."""

    def has(self, name: ViewName) -> bool:
        """Whether there are such views at all."""
        return bool(self.plan.views(name))

    def rows(self, name: ViewName, console: Console | None = None) -> Rows:
        """The views of all training samples, encoded if they are not in the bank yet."""
        if name not in self.made:
            wanted, how = self.plan.views(name), self.plan
            self.made[name] = banked(
                self.originals, self.opener.encoder, wanted, seed=how.seed, flip=how.flip, console=console
            )
        return self.made[name]

    def view(self, name: ViewName, seed: int) -> "BankView":
        """A function that draws one of the views of each sample."""
        return BankView(self, name, seed)

    def fresh_view(self, name: ViewName, seed: int) -> "FreshView":
        """A function that draws views as those in the bank are drawn, but a new one each time."""
        return FreshView(self, name, seed)


@dataclass(frozen=True, eq=False)
class BankView:
    """Draw one of the views in the bank: a function of seed, stream, step and sample index."""

    banked: Banked
    name: ViewName
    seed: int

    def __call__(self, indices: NDArray[np.int64], step: int, stream: int = 0) -> Tensor:
        """Sample indices (n,) → features, float32 (n, dimension)."""
        rows, count = self.banked.rows(self.name), len(self.banked.plan.views(self.name))
        drawn = bits(base_key(BANKED, self.seed, stream, step), indices, np.zeros(1, np.uint64))[:, 0]
        which = below(drawn, np.uint64(count)).astype(np.int64)
        return torch.from_numpy(rows.take(indices, which).astype(np.float32))


@dataclass(frozen=True, eq=False)
class FreshView:
    """Views of pixels and words as an encoder's network takes them: a function of seed, stream, step and sample."""

    banked: Banked
    name: ViewName
    seed: int

    def __call__(self, samples: NDArray[Any], indices: NDArray[np.int64], step: int, stream: int = 0) -> Tensor:
        """Squares (n, side, side, 3), or nothing that matters of texts, and sample indices → (n, …), float32."""
        encoder, view = self.banked.opener.encoder, View(self.name, step)
        drawing = Drawing.suited(encoder, self.seed, self.banked.plan.flip)
        if encoder.kind == "image":
            return drawing.pictures(samples, view, indices, stream)
        texts = [self.banked.originals[index] for index in indices.tolist()]
        return encoder.continuous(drawing.texts(texts, view, indices, stream))


@dataclass(frozen=True, eq=False)
class PretrainedText:
    """How an encoder makes rows of texts."""

    opener: Opener
    plan: Plan

    @property
    def width(self) -> int:
        """Numbers of a text."""
        return self.opener.encoder.dimension

    def rows(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encode texts, those that are not in the bank. → (n, width)."""
        return np.asarray(plain_features(Texts(list(texts)), self.opener.encoder), np.float32)

    def beside(self, first: int, texts: Sequence[str]) -> Banked:
        """The texts, for views of them."""
        return Banked(slice(first, first + self.width), self.opener, Texts(list(texts)), self.plan)

    def to_json(self) -> dict[str, Any]:
        """The encoder's name, checksum and licence."""
        return {"encoder": self.opener.encoder.as_json()}


def originals_of(part: Part, place: int) -> Originals:
    """The pictures or texts of a part that became the features of a place among the data's `encoded`."""
    found = part.originals if part.originals is not None else part.texts[place]
    assert found is not None
    return found


def plain_features(originals: Originals, encoder: Encoder, console: Console | None = None) -> Any:
    """Features of samples as they are, in memory if they are few. → (n, dimension)."""
    rows = banked(originals, encoder, (PLAIN,), console=console)
    return np.asarray(rows) if len(rows) * encoder.dimension * 4 <= IN_MEMORY else rows


def encode_pictures(data: Data, opener: Opener, plan: Plan, console: Console | None = None) -> Data:
    """Data of images → the same data seen through an encoder, as rows of features."""

    def part(old: Part) -> Part:
        originals = PictureArray(old.samples) if old.originals is None else old.originals
        return replace(old, samples=plain_features(originals, opener.encoder, console), originals=originals)

    train, *others = (None if old is None else part(old) for old in (data.train, data.val, data.test))
    assert train is not None and train.originals is not None  # noqa: PT018
    whole = Banked(slice(0, opener.encoder.dimension), opener, train.originals, plan)
    encoding = {"kind": "encoded", "encoder": opener.encoder.as_json(), "of": data.encoding or {"kind": "image"}}
    return replace(data, kind="array", train=train, val=others[0], test=others[1], encoding=encoding, encoded=(whole,))


def ready(data: Data, names: Iterable[ViewName], console: Console | None = None) -> None:
    """See that the bank has what training is going to ask for."""
    for name in dict.fromkeys(("weak", *names)):
        for one in data.encoded:
            if isinstance(one, Banked) and one.has(name) and one.end_to_end is None:
                one.rows(name, console)
