"""Views of a picture or a text before it is encoded: which there are, and how each is drawn.

What a view looks like depends on its kind and number, the seed and the sample's own contents, and on nothing else: not
on the set that the sample is in or its place there.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from halfsure._checks import check_count
from halfsure.data import DataError
from halfsure.encoders.encoder import Encoder, PictureEncoder
from halfsure.views import Plain, StrongImage, WeakImage
from halfsure.views.draws import WORDS, base_key, bits, happens

__all__ = ["STRONG_DROP", "WEAK_DROP", "Drawing", "View", "views_wanted"]

WEAK_DROP, STRONG_DROP = 0.1, 0.3
"""Probability that a word of a text is left out."""
VERSION = 1
"""Another one wherever views begin to look otherwise: features of the old ones no longer count."""
STREAMS = {"plain": 0, "weak": 1, "strong": 2}


@dataclass(frozen=True)
class View:
    """One view of each sample.

    Examples:
        >>> from halfsure.bank import View
        >>> View("strong", 3)
        View(kind='strong', number=3)
    """

    kind: Literal["plain", "weak", "strong"]
    number: int = 0
    """Which of the weak or strong ones."""

    def __post_init__(self) -> None:
        if self.kind not in STREAMS:
            raise DataError(f"a view is plain, weak or strong, not {self.kind!r:.40}")
        check_count("number", self.number)
        if self.kind == "plain" and self.number:
            raise DataError(f"there is one plain view only, number 0, not {self.number}")
        if self.number >= 2**24:
            raise DataError(f"views have numbers below {2**24:,}, not {self.number:,}")

    @property
    def code(self) -> int:
        """Kind and number as one number, by which a bank counts its rows."""
        return STREAMS[self.kind] << 24 | self.number

    @classmethod
    def coded(cls, code: int) -> "View":
        """The view that has this code."""
        return cls(list(STREAMS)[code >> 24], code & 0xFFFFFF)  # type: ignore[arg-type]


def views_wanted(weak: int, strong: int) -> tuple[View, ...]:
    """The plain view, then so many weak and strong ones.

    Examples:
        >>> from halfsure.bank import views_wanted
        >>> [f"{view.kind} {view.number}" for view in views_wanted(weak=1, strong=2)]
        ['plain 0', 'weak 0', 'strong 0', 'strong 1']
    """
    check_count("weak", weak), check_count("strong", strong)
    return (
        View("plain"),
        *(View("weak", number) for number in range(weak)),
        *(View("strong", number) for number in range(strong)),
    )


@dataclass(frozen=True)
class Drawing:
    """How views are drawn for an encoder."""

    kind: Literal["image", "text"]
    side: int = 0
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    seed: int = 0
    flip: bool = True

    @classmethod
    def suited(cls, encoder: Encoder, seed: int, flip: bool) -> "Drawing":
        """For what this encoder takes."""
        check_count("seed", seed)
        if isinstance(encoder, PictureEncoder) and encoder.kind == "image":
            return cls("image", encoder.side, tuple(encoder.mean), tuple(encoder.std), seed, flip)
        return cls(encoder.kind, seed=seed)

    def digest(self, view: View) -> NDArray[np.uint64]:
        """What stands for a view in the keys of a bank: of all that decides what it looks like. → (2,)."""
        about: dict[str, Any] = {"view": view.kind, "version": VERSION}
        if view.kind != "plain":
            about |= {"number": view.number, "seed": self.seed}
            about |= self._settings(view) if self.kind == "image" else {"drop": _drop(view)}
        content = json.dumps(about, sort_keys=True).encode()
        return np.frombuffer(blake2b(content, digest_size=16).digest(), "<u8")

    def pictures(self, squares: NDArray[np.uint8], view: View, samples: NDArray[np.int64], stream: int = 0) -> Tensor:
        """Draw a view of squares, and normalise. (n, side, side, 3), (n,) → (n, 3, side, side).

        Streams differ where one sample is drawn several times.
        """
        if view.kind == "plain":
            return Plain(self.mean, self.std)(squares)
        kind = WeakImage if view.kind == "weak" else StrongImage
        drawn: Tensor = kind(**self._settings(view), mean=self.mean, std=self.std, seed=self.seed)(
            squares, samples, view.number, stream
        )
        return drawn

    def texts(self, texts: Sequence[str], view: View, samples: NDArray[np.int64], stream: int = 0) -> list[str]:
        """Leave words out; a text that would lose all of them keeps them all."""
        if view.kind == "plain":
            return list(texts)
        base = base_key(WORDS, self.seed, STREAMS[view.kind] + len(STREAMS) * stream, view.number)
        return [_without(text, base, sample, _drop(view)) for text, sample in zip(texts, samples, strict=True)]

    def _settings(self, view: View) -> dict[str, Any]:
        weak = {"flip": self.flip, "shift": self.side // 8}
        return weak if view.kind == "weak" else weak | {"ops": 2, "cutout": self.side // 2}


def _drop(view: View) -> float:
    return WEAK_DROP if view.kind == "weak" else STRONG_DROP


def _without(text: str, base: np.uint64, sample: np.int64, drop: float) -> str:
    words = text.split()
    drawn = bits(base, np.array([sample]), np.arange(len(words), dtype=np.uint64))[0]
    kept = np.flatnonzero(~happens(drawn >> np.uint64(40), drop))
    return " ".join(words[place] for place in kept) if 0 < len(kept) < len(words) else text
