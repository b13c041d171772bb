"""MiniLM: sentences in English → 384 numbers, in which those that mean the same lie close together."""

import importlib.util
import os
from collections.abc import Sequence
from copy import copy, deepcopy
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, Self

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from halfsure._disk import file_digest, read_json
from halfsure.data.official import data_root
from halfsure.encoders._bert import Bert
from halfsure.encoders._pieces import Pieces, padded
from halfsure.encoders.encoder import Encoder, EncoderError, Features, check_weights, checked, notices_in
from halfsure.encoders.machine import fast_bfloat16
from halfsure.settings import register

__all__ = ["DIGEST", "MiniLM", "is_whole", "minilm_folder", "unknown_share"]

LONGEST = 256
"""Word pieces that the network sees at a time; a longer text is read in parts, whose mean counts."""
DIGEST = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
TUNED = 64
"""Word pieces of a text that tuning looks at: its time grows with them."""
HALF = 0.5
"""From which share of a mixture on the pieces of a text are there; a perturbation does not get that far."""


@register
class MiniLM(Encoder):
    """A small BERT that was taught by a billion pairs of sentences."""

    name = "minilm"
    about = "texts in English: 22.7 million weights, sentences of a billion pairs"
    kind = "text"
    licence = "Apache-2.0, the sentence-transformers authors"
    dimension = 384
    size = "91 MB"

    @classmethod
    def missing(cls) -> str:
        """The weights, and what cuts texts into pieces."""
        lacks = [] if importlib.util.find_spec("tokenizers") else ["pip install 'halfsure[text]'"]
        return " and ".join(lacks + ([] if _has_files(minilm_folder()) else ["halfsure encoders get minilm"]))

    @classmethod
    def open(cls, argument: str, settings: Any) -> "MiniLM":
        """Read the weights."""
        if missing := cls.missing():
            raise EncoderError(f"{cls.name} is not installed; run: {missing}")
        if settings.encoder_precision == "int8":
            raise EncoderError(f"{cls.name} has no int8: it would lose too much; give auto, float32 or bfloat16")
        folder = minilm_folder()
        check_weights(folder / "model.safetensors", DIGEST, cls.name, "run: halfsure encoders get minilm")
        return cls(folder, settings.encoder_precision)

    def __init__(self, folder: Path, precision: str) -> None:
        from tokenizers import Tokenizer  # noqa: PLC0415 - an extra

        self.full_name, self.checksum = self.name, DIGEST
        self.notices = notices_in(folder)
        try:
            self._tokenizer = Tokenizer.from_file(os.fspath(folder / "tokenizer.json"))
            self._pieces = Pieces(self._tokenizer, LONGEST)
            net = Bert(read_json(folder / "config.json")).take(load_file(folder / "model.safetensors"))
        except Exception as error:  # tokenizers raises nothing narrower
            raise EncoderError(f"{folder.name} holds no MiniLM: {error!s:.200}") from None
        half = precision == "bfloat16" or (precision == "auto" and fast_bfloat16())
        self._kind = torch.bfloat16 if half else torch.float32
        self._net = net.to(self._kind).eval().requires_grad_(False)
        self.precision = str(self._kind).removeprefix("torch.")

    def encode(self, samples: Sequence[str]) -> Features:
        """Texts → (n, 384), each of length one; an empty text is what the network makes of nothing."""
        return checked(self, self._pieces.vectors(samples, self._vectors), len(samples))

    def _vectors(self, pieces: Tensor, there: Tensor) -> Features:
        with torch.inference_mode():
            found: Features = self._net(pieces, there).float().numpy()
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
        return padded([[*ids[: min(len(ids), TUNED) - 1], ids[-1]] for ids in found])

    def last_blocks(self, net: Any) -> Sequence[nn.Module]:
        """The last third of its layers."""
        layers = net.layers.layers
        return list(layers[-(len(layers) // 3) :])

    def continuous(self, samples: Sequence[str]) -> Tensor:
        """Vectors of the first pieces of each text, and behind each vector whether there is a piece. → (n, 64, 385)."""
        pieces, there = self.inputs(samples)
        found = torch.zeros(len(pieces), TUNED, self.dimension + 1)
        with torch.inference_mode():
            found[:, : pieces.shape[1], :-1] = self._net.words(pieces).float() * there[..., None]
        found[:, : pieces.shape[1], -1] = there
        return found

    @staticmethod
    def through(net: Any, x: Tensor) -> Tensor:
        """From vectors of words on, as far as there are any."""
        there = x[..., -1] > HALF
        longest = int(there.any(0).nonzero().max()) + 1 if there.any() else 1
        found: Tensor = net.of_vectors(x[:, :longest, :-1], there[:, :longest])
        return found

    def with_network(self, net: Any) -> Self:
        """The same encoder with other weights."""
        other = copy(self)
        other._net = deepcopy(net).to(self._kind).eval().requires_grad_(False)
        return other


@cache
def _tokenizer(file: Path) -> Any:
    from tokenizers import Tokenizer  # noqa: PLC0415 - an extra

    tokenizer = Tokenizer.from_file(os.fspath(file))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def unknown_share(samples: Sequence[str]) -> float:
    """The share of words that MiniLM was not taught: those that its tokenizer breaks up, or knows nothing of.

    A word is what has a letter and no digit. Where there is none, as in texts of emoji alone, all is unknown.
    """
    strange, count = 0, 0
    found = _tokenizer(minilm_folder() / "tokenizer.json").encode_batch(list(samples), add_special_tokens=False)
    for text, cut in zip(samples, found, strict=True):
        for _, group in groupby(range(len(cut.tokens)), cut.word_ids.__getitem__):
            pieces = list(group)
            word = text[cut.offsets[pieces[0]][0] : cut.offsets[pieces[-1]][1]]
            if any(map(str.isalpha, word)) and not any(map(str.isdigit, word)):
                count += 1
                foreign = len(word) == 1 and not word.isascii()
                strange += len(pieces) > 1 or foreign or cut.tokens[pieces[0]] == "[UNK]"
    return strange / count if count else 1.0


def minilm_folder() -> Path:
    """Where its weights are kept."""
    return data_root() / "encoders" / "minilm"


def is_whole(folder: Path) -> bool:
    """Whether all files are there, and the weights the published ones."""
    return _has_files(folder) and file_digest(folder / "model.safetensors") == DIGEST


def _has_files(folder: Path) -> bool:
    return all((folder / name).is_file() for name in ("model.safetensors", "tokenizer.json", "config.json"))
