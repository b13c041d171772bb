"""Texts → the pieces of words that a network reads: long texts in parts, whose mean counts."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from halfsure.encoders.encoder import EncoderError, Features

__all__ = ["Pieces", "padded", "pooled"]

MOST = 64
"""Parts of one text; what comes after them is not read."""
BATCH = 64


class Pieces:
    """Cuts texts by a tokenizer of the package tokenizers, and puts what a network says of the parts together."""

    def __init__(self, tokenizer: Any, longest: int) -> None:
        self.tokenizer, self.longest = tokenizer, longest
        tokenizer.no_truncation()
        tokenizer.no_padding()  # some files ask for 128 pieces whatever the text
        self._before, self._after = _frame(tokenizer)
        self._room = longest - len(self._before) - len(self._after)
        if self._room < 1:
            raise EncoderError(f"its network reads {longest} pieces at a time, too few for a text")

    def parts(self, text: str) -> list[list[int]]:
        """The numbers of a text's pieces, `longest` at most in each part."""
        return self._parts(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def _parts(self, ids: list[int]) -> list[list[int]]:
        starts = range(0, max(1, min(len(ids), MOST * self._room)), self._room)
        return [[*self._before, *ids[first : first + self._room], *self._after] for first in starts]

    def vectors(self, samples: Sequence[str], network: Callable[[Tensor, Tensor], Features]) -> Features:
        """Texts → (n, dimension), each of length one: the mean of its parts' vectors."""
        parts, owners = list[list[int]](), list[int]()
        for number, found in enumerate(self.tokenizer.encode_batch(list(samples), add_special_tokens=False)):
            cut = self._parts(found.ids)
            parts += cut
            owners += [number] * len(cut)
        order = sorted(range(len(parts)), key=lambda part: len(parts[part]))  # those of one length cost least
        found = [network(*padded([parts[i] for i in order[at : at + BATCH]])) for at in range(0, len(order), BATCH)]
        rows = np.concatenate(found)
        sums = np.zeros((len(samples), rows.shape[1]), np.float32)
        np.add.at(sums, np.asarray(owners)[order], rows)
        norms = np.linalg.norm(sums, axis=1, keepdims=True)
        return np.asarray(sums / np.maximum(norms, np.finfo(np.float32).tiny), np.float32)


def padded(parts: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Numbers of pieces as one tensor, and which of them are there. → (n, longest) twice."""
    longest = max(map(len, parts))
    pieces, there = torch.zeros(len(parts), longest, dtype=torch.int64), torch.zeros(len(parts), longest) > 0
    for row, part in enumerate(parts):
        pieces[row, : len(part)], there[row, : len(part)] = torch.tensor(part), True
    return pieces, there


def pooled(states: Tensor, there: Tensor) -> Tensor:
    """The mean over a text's pieces, of length one. (n, length, width), (n, length) → (n, width)."""
    mean = (states * there[..., None]).sum(1) / there.sum(1, keepdim=True)
    return torch.nn.functional.normalize(mean, dim=-1)


def _frame(tokenizer: Any) -> tuple[list[int], list[int]]:
    """What a tokenizer puts before and after a text, [CLS] and [SEP] for one."""
    whole, bare = (tokenizer.encode("a", add_special_tokens=special).ids for special in (True, False))
    for first in range(len(whole) - len(bare) + 1):
        if whole[first : first + len(bare)] == bare:
            return whole[:first], whole[first + len(bare) :]
    raise EncoderError("its tokenizer changes a text where it adds its marks, and long texts could not be cut")
