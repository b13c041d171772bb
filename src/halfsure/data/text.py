"""Text → rows of numbers: TF-IDF reduced by a truncated SVD, kept as plain numbers and applied without scikit-learn."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

__all__ = ["TextEncoding", "fit_text"]

WORD = re.compile(r"\w+")
MOST_WORDS, DIMENSIONS = 20_000, 128


@dataclass(frozen=True)
class TextEncoding:
    """Words, their weights and the directions they are reduced to."""

    words: tuple[str, ...]
    weights: tuple[float, ...]
    """(words,): the inverse document frequency."""
    directions: tuple[tuple[float, ...], ...]
    """(dimensions, words): the right singular vectors."""

    def rows(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encode texts; words that were never seen count for nothing. → (n, dimensions)."""
        counts = _counts(texts, {word: i for i, word in enumerate(self.words)})
        reduced = _weigh(counts, np.array(self.weights)) @ np.array(self.directions).T
        return np.asarray(reduced, dtype=np.float32)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "TextEncoding":
        """The inverse of `dataclasses.asdict`."""
        return cls(tuple(fields["words"]), tuple(fields["weights"]), tuple(map(tuple, fields["directions"])))


def fit_text(texts: Sequence[str], dimensions: int = DIMENSIONS) -> TextEncoding:
    """Learn words, weights and directions from training texts."""
    from scipy.sparse.linalg import svds  # noqa: PLC0415 - slow to import, and used here alone

    documents = Counter(word for text in texts for word in set(_words(text)))
    words = sorted(word for word, count in documents.most_common(MOST_WORDS) if count > 1 or len(texts) < 10)
    words = words or ["the"]
    weights = np.log((1 + len(texts)) / (1 + np.array([documents[word] for word in words]))) + 1
    matrix = _weigh(_counts(texts, {word: i for i, word in enumerate(words)}), weights)
    rank = min(dimensions, min(matrix.shape) - 1)
    if rank < 1:
        directions = np.eye(1, len(words))
    else:
        start = np.ones(min(matrix.shape))  # a fixed start, so that the same texts give the same directions
        _, values, directions = svds(matrix, k=rank, v0=start)
        directions = directions[np.argsort(-values)]
        directions *= np.sign(directions[np.arange(len(directions)), np.abs(directions).argmax(1)])[:, None]
    kept = directions.astype(np.float32)  # seven digits are plenty, and half the size in JSON
    return TextEncoding(tuple(words), tuple(weights.tolist()), tuple(map(tuple, kept.astype(float).tolist())))


def _words(text: str) -> list[str]:
    return WORD.findall(text.lower())


def _counts(texts: Sequence[str], index: dict[str, int]) -> csr_matrix:
    columns, ends = [], [0]
    for text in texts:
        columns += [index[word] for word in _words(text) if word in index]
        ends.append(len(columns))
    matrix = csr_matrix((np.ones(len(columns)), columns, ends), shape=(len(texts), len(index)))
    matrix.sum_duplicates()
    return matrix


def _weigh(counts: csr_matrix, weights: NDArray[np.float64]) -> csr_matrix:
    """TF-IDF with rows of length 1, empty rows left at zero."""
    weighted = counts.multiply(weights).tocsr()
    lengths = np.sqrt(np.asarray(weighted.multiply(weighted).sum(axis=1)).ravel())
    return weighted.multiply(1 / np.where(lengths > 0, lengths, 1)[:, None]).tocsr()
