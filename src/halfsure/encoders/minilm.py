"""MiniLM: sentences in English → 384 numbers, in which those that mean the same lie close together."""

import importlib.util
import os
from collections.abc import Sequence
from copy import copy, deepcopy
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from halfsure._disk import read_json
from halfsure.data.official import data_root
from halfsure.encoders._bert import Bert
from halfsure.encoders.encoder import Encoder, EncoderError, Features, check_weights, checked
from halfsure.encoders.machine import fast_bfloat16
from halfsure.settings import register

__all__ = ["MiniLM"]

LONGEST = 256
"""Word pieces that the network sees at a time; a longer text is read in parts, whose mean counts."""
MOST = 64
"""Parts of one text."""
BATCH = 64
TUNED = 64
"""Word pieces of a text that tuning looks at: its time grows with them."""


@register
class MiniLM(Encoder):
    """A small BERT that was taught by a billion pairs of sentences."""

    name = "minilm"
    about = "texts in English: 22.7 million weights, sentences of a billion pairs"
    kind = "text"
    licence = "Apache-2.0, the sentence-transformers authors"
    dimension = 384
    digest = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

    @classmethod
    def missing(cls) -> str:
        """The weights, and what cuts texts into pieces."""
        lacks = [] if importlib.util.find_spec("tokenizers") else ["pip install 'halfsure[text]'"]
        return " and ".join(lacks + ([] if _folder().is_dir() else ["halfsure encoders get minilm"]))

    @classmethod
    def open(cls, argument: str, settings: Any) -> "MiniLM":
        """Read the weights."""
        if missing := cls.missing():
            raise EncoderError(f"{cls.name} is not installed; run: {missing}")
        folder = _folder()
        check_weights(folder / "model.safetensors", cls.digest, cls.name, "run: halfsure encoders get minilm")
        return cls(folder, settings.encoder_precision)

    def __init__(self, folder: Path, precision: str) -> None:
        from tokenizers import Tokenizer  # noqa: PLC0415 - an extra

        self.full_name, self.checksum = self.name, self.digest
        try:
            self._tokenizer = Tokenizer.from_file(os.fspath(folder / "tokenizer.json"))
            net = Bert(read_json(folder / "config.json")).take(load_file(folder / "model.safetensors"))
        except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
            raise EncoderError(f"{folder.name} holds no MiniLM: {error!s:.200}") from None
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()  # the file asks for 128 pieces whatever the text
        half = precision == "bfloat16" or (precision == "auto" and fast_bfloat16())
        self._kind = torch.bfloat16 if half else torch.float32
        self._net = net.to(self._kind).eval().requires_grad_(False)
        self.precision = str(self._kind).removeprefix("torch.")

    def encode(self, samples: Sequence[str]) -> Features:
        """Texts → (n, 384), each of length one; an empty text is what the network makes of nothing."""
        parts, owners = list[list[int]](), list[int]()
        for number, found in enumerate(self._tokenizer.encode_batch(list(samples))):
            start, *pieces, end = found.ids
            for first in range(0, max(1, min(len(pieces), MOST * LONGEST)), LONGEST - 2):
                parts.append([start, *pieces[first : first + LONGEST - 2], end])
                owners.append(number)
        vectors = np.empty((len(parts), self.dimension), np.float32)
        order = sorted(range(len(parts)), key=lambda part: len(parts[part]))  # those of one length cost least
        for first in range(0, len(order), BATCH):
            chosen = order[first : first + BATCH]
            vectors[chosen] = self._vectors([parts[part] for part in chosen])
        sums = np.zeros((len(samples), self.dimension), np.float32)
        np.add.at(sums, owners, vectors)
        norms = np.linalg.norm(sums, axis=1, keepdims=True)
        return checked(self, sums / np.maximum(norms, np.finfo(np.float32).tiny), len(samples))

    def _vectors(self, parts: list[list[int]]) -> Features:
        with torch.inference_mode():
            found: Features = self._net(*_padded(parts)).float().numpy()
        return found

    def network(self) -> Bert:
        """A copy to be trained; what single words mean stays as it is."""
        net: Bert = deepcopy(self._net).float().requires_grad_(True)
        for table in (net.words, net.places, net.kinds):
            table.requires_grad_(False)
        return net

    def inputs(self, samples: Sequence[str]) -> tuple[Tensor, Tensor]:
        """The first pieces of each text; of a long one the rest is left out."""
        found = [text.ids for text in self._tokenizer.encode_batch(list(samples))]
        return _padded([[*ids[: min(len(ids), TUNED) - 1], ids[-1]] for ids in found])

    def with_network(self, net: Any) -> Self:
        """The same encoder with other weights."""
        other = copy(self)
        other._net = deepcopy(net).to(self._kind).eval().requires_grad_(False)
        return other

    def unknown(self, samples: Sequence[str]) -> float:
        """The share of pieces that it does not know: near 0 in English, high in scripts it was never taught."""
        found = [token for text in self._tokenizer.encode_batch(list(samples)) for token in text.tokens[1:-1]]
        return found.count("[UNK]") / max(1, len(found))


def _padded(parts: list[list[int]]) -> tuple[Tensor, Tensor]:
    """Numbers of pieces, and which of them are there. → (n, longest) each."""
    longest = max(map(len, parts))
    pieces, there = torch.zeros(len(parts), longest, dtype=torch.int64), torch.zeros(len(parts), longest) > 0
    for row, part in enumerate(parts):
        pieces[row, : len(part)], there[row, : len(part)] = torch.tensor(part), True
    return pieces, there


def _folder() -> Path:
    return data_root() / "encoders" / "minilm"
