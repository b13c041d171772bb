"""Text → rows of numbers: word vectors learnt from the texts themselves, and their weighted mean as a text's row.

Words that keep the same company get vectors that lie close together: positive pointwise mutual information of words in
the same text, reduced by a truncated SVD. That takes no labels, so all texts there are teach it. On AG News with 40
labels a linear model on these rows errs half as often as on TF-IDF (docs/choosing.md).
"""

import base64
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from halfsure.data.files import DataError
from halfsure.data.reduce import main_directions

if TYPE_CHECKING:
    from halfsure.data.dataset import Encoded

__all__ = ["TextEncoding", "TextRows", "Words", "fit_text"]

WORD = re.compile(r"\w+")
MOST_WORDS, DIMENSIONS = 20_000, 64
PIECE, MOST_PIECES = 64, 20_000
"""Company is kept within so many words, and looked for in at most so many pieces of text."""
SMOOTHING = 0.75
"""Rare words are taken as a little more common than they are: chance company of theirs would count too much."""


class TextRows(Protocol):
    """How texts become rows of numbers."""

    @property
    def width(self) -> int:
        """Numbers of a text."""
        ...

    def rows(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encode texts. → (n, width)."""
        ...

    def beside(self, first: int, texts: Sequence[str]) -> "Encoded":
        """What training keeps of texts whose rows begin with the feature `first`, to make views of them."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Everything needed to encode again."""
        ...


@dataclass(frozen=True, eq=False)
class Words:
    """The words of many texts, by their number in the vocabulary."""

    numbers: NDArray[np.int32]
    """Of all texts, one after the other."""
    ends: NDArray[np.int64]
    """(texts + 1,): text i has the numbers from ends[i] to ends[i + 1]."""

    def __len__(self) -> int:
        return len(self.ends) - 1

    def padded(self, texts: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        """Numbers of some texts, and where there are any. (n,) → (n, longest), (n, longest)."""
        starts, lengths = self.ends[texts], self.ends[texts + 1] - self.ends[texts]
        places = np.arange(max(int(lengths.max(initial=0)), 1))
        there = places < lengths[:, None]
        numbers = np.zeros(there.shape, dtype=np.int32)
        numbers[there] = self.numbers[(starts[:, None] + places)[there]]
        return numbers, there


@dataclass(frozen=True, eq=False)
class TextEncoding:
    """Words, how much each says, and the vector of each."""

    words: tuple[str, ...]
    weights: NDArray[np.float32]
    """(words,): the inverse document frequency."""
    vectors: NDArray[np.float32]
    """(words, dimensions)."""

    @property
    def width(self) -> int:
        """Numbers of a text."""
        return int(self.vectors.shape[1])

    def beside(self, first: int, texts: Sequence[str]) -> "Encoded":
        """The words of texts, for views that leave some out."""
        from halfsure.data.dataset import Text  # noqa: PLC0415 - which needs this module

        return Text(first, self, self.read(texts))

    def read(self, texts: Sequence[str]) -> Words:
        """Look the words up; those that were never seen are left out."""
        index = {word: number for number, word in enumerate(self.words)}
        found = [[index[word] for word in _words(text) if word in index] for text in texts]
        ends = np.cumsum([0, *map(len, found)], dtype=np.int64)
        return Words(np.fromiter(chain.from_iterable(found), np.int32, int(ends[-1])), ends)

    def rows(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encode texts; one without any known word becomes zeros. → (n, dimensions)."""
        words = self.read(texts)
        return self.encode(words.numbers, words.ends)

    def encode(self, numbers: NDArray[np.int32], ends: NDArray[np.int64]) -> NDArray[np.float32]:
        """Encode words by their numbers, as `Words` has them; a row depends on its own words alone."""
        weights = csr_matrix((self.weights[numbers], numbers, ends), shape=(len(ends) - 1, len(self.words)))
        return unit(np.asarray(weights @ self.vectors, dtype=np.float32))

    def to_json(self) -> dict[str, Any]:
        """Everything needed to encode again; the numbers as bytes, for there are a million of them."""
        return {"words": list(self.words), "weights": _pack(self.weights), "vectors": _pack(self.vectors)}

    @classmethod
    def from_json(cls, fields: Any) -> "TextEncoding":
        """The inverse of `to_json`; anything else is refused."""
        if not isinstance(fields, dict) or set(fields) != {"words", "weights", "vectors"}:
            raise DataError("an encoding of text must be stored as words, weights and vectors")
        words = fields["words"]
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise DataError("the words of a text encoding must be a list of strings")
        weights, vectors = _unpack(fields["weights"]), _unpack(fields["vectors"])
        if not words or len(weights) != len(words) or not len(vectors) or len(vectors) % len(words):
            raise DataError(f"an encoding of text has {len(words)} words but not a vector and a weight for each")
        if len(set(words)) < len(words):
            raise DataError("a text encoding has a word twice")
        return cls(tuple(words), weights, vectors.reshape(len(words), -1))


def fit_text(texts: Sequence[str], dimensions: int = DIMENSIONS) -> TextEncoding:
    """Learn words, weights and vectors from training texts."""
    split = [_words(text) for text in texts]
    documents = Counter(word for text in split for word in set(text))
    common = sorted(documents, key=lambda word: (-documents[word], word))[:MOST_WORDS]
    words = sorted(word for word in common if documents[word] > 1 or len(texts) < 10) or ["the"]
    weights = np.log((1 + len(texts)) / (1 + np.array([documents[word] for word in words]))) + 1
    company = _company(split, {word: number for number, word in enumerate(words)})
    vectors = company @ main_directions(company, dimensions)
    return TextEncoding(tuple(words), _short(weights), _short(vectors if vectors.size else np.ones((len(words), 1))))


def unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rows of length 1, empty ones left at zero."""
    lengths = np.sqrt(np.square(rows).sum(1, keepdims=True))
    return np.asarray(rows / np.where(lengths > 0, lengths, 1), dtype=np.float32)


def _company(texts: list[list[str]], index: dict[str, int]) -> csr_matrix:
    """Positive pointwise mutual information of two words in one piece of text. → (words, words)."""
    pieces = [text[start : start + PIECE] for text in texts for start in range(0, len(text), PIECE)]
    chosen = np.unique(np.linspace(0, len(pieces) - 1, min(len(pieces), MOST_PIECES)).astype(np.int64))
    found = [sorted({index[word] for word in pieces[i] if word in index}) for i in chosen.tolist()]
    ends = np.cumsum([0, *map(len, found)])
    occurs = csr_matrix((np.ones(ends[-1]), list(chain.from_iterable(found)), ends), shape=(len(found), len(index)))
    together = (occurs.T @ occurs).tocoo()
    totals = np.asarray(together.sum(1)).ravel()
    smoothed = totals**SMOOTHING
    information = np.log(together.data / totals[together.row] / (smoothed[together.col] / smoothed.sum()))
    kept = information > 0
    return csr_matrix((information[kept], (together.row[kept], together.col[kept])), shape=together.shape)


def _words(text: str) -> list[str]:
    return WORD.findall(text.lower())


def _short(numbers: NDArray[np.float64]) -> NDArray[np.float32]:
    """Rounded to half precision, which is how they are kept: three digits are plenty for the mean over a text."""
    return numbers.astype("<f2").astype(np.float32)


def _pack(numbers: NDArray[np.float32]) -> str:
    return base64.b64encode(numbers.astype("<f2").tobytes()).decode()


def _unpack(text: Any) -> NDArray[np.float32]:
    try:
        numbers = np.frombuffer(base64.b64decode(text, validate=True), dtype="<f2").astype(np.float32)
    except (TypeError, ValueError) as error:
        raise DataError(f"the numbers of a text encoding cannot be read: {error}") from None
    if not np.isfinite(numbers).all():
        raise DataError("the numbers of a text encoding are not all finite")
    return numbers
