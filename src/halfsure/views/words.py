"""Views of texts: some words are left out, and what remains is encoded as a text of its own."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from halfsure._checks import check_count, check_number
from halfsure.data.text import TextEncoding, Words
from halfsure.views.draws import WORDS, base_key, bits, happens
from halfsure.views.image import check_indices

__all__ = ["TextView"]


@dataclass(frozen=True, eq=False)
class TextView:
    """Leave out words at random; a text that would lose all of them keeps them all.

    Examples:
        >>> from halfsure.data.text import fit_text
        >>> from halfsure.views import TextView
        >>> texts = ["a cat sat", "a dog ran", "the dog sat", "a cat ran"]
        >>> encoding = fit_text(texts)
        >>> TextView(encoding, encoding.read(texts), drop=0.5)(indices=[0, 2], step=7).shape[0]
        2
    """

    encoding: TextEncoding
    words: Words
    """Of all texts that a view may be asked of."""
    drop: float = 0.0
    """Probability that a word is left out."""
    seed: int = 0
    """Chooses the randomness, together with the stream, the step and the sample index."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "drop", check_number("drop", self.drop, 0, 1))
        object.__setattr__(self, "seed", check_count("seed", self.seed))

    def __call__(self, indices: ArrayLike | Tensor, step: int, stream: int = 0) -> Tensor:
        """Sample indices (n,) → rows of the texts with words left out, float32 (n, dimensions)."""
        samples = check_indices(indices, len(np.asarray(indices)))
        if samples.max(initial=-1) >= len(self.words):
            raise ValueError(f"indices go up to {samples.max()}, but there are {len(self.words)} texts")
        numbers, there = self.words.padded(samples)
        base = base_key(WORDS, self.seed, check_count("stream", stream), check_count("step", step))
        drawn = bits(base, samples, np.arange(numbers.shape[1], dtype=np.uint64))
        kept = there & ~happens(drawn >> np.uint64(40), self.drop)
        kept = np.where(kept.any(1, keepdims=True), kept, there)
        ends = np.concatenate([[0], kept.sum(1).cumsum()])
        return torch.from_numpy(self.encoding.encode(numbers[kept], ends))
