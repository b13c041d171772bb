"""A network of one's own as an ONNX file: features of pictures or of texts by onnxruntime."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from halfsure._disk import file_digest, reason
from halfsure.encoders._onnx_guard import safe_graph
from halfsure.encoders._pieces import Pieces, pooled
from halfsure.encoders.encoder import (
    IMAGENET,
    Encoder,
    EncoderError,
    Features,
    PictureEncoder,
    PictureSettings,
    checked,
    notices_in,
)
from halfsure.encoders.machine import has_onnx, onnx_session
from halfsure.settings import register

__all__ = ["OnnxFile", "OnnxPictures", "OnnxTexts"]

LONGEST = 256
WIDEST = 2**16
"""Features of a sample."""
IDS, MASK, TYPES = "input_ids", "attention_mask", "token_type_ids"


@register
class OnnxFile(Encoder):
    """Pictures (n, 3, side, side), normalised as ImageNet's are, or texts with a tokenizer.json beside the file."""

    name = "onnx"
    about = "pictures or texts: a network in an ONNX file; ImageNet's mean and deviation, or a tokenizer.json beside it"
    argument = "FILE"
    kinds = ("image", "text")
    Settings = PictureSettings

    @classmethod
    def missing(cls) -> str:
        """Both packages."""
        return "" if has_onnx() else "pip install 'halfsure[onnx]'"

    @classmethod
    def open(cls, argument: str, settings: Any) -> Encoder:
        """Read a file; one that keeps weights in other files is refused."""
        if missing := cls.missing():
            raise EncoderError(f"an ONNX file needs onnxruntime; run: {missing}")
        if settings.encoder_precision in ("int8", "bfloat16"):
            raise EncoderError("an ONNX file has its own precision; leave encoder_precision at auto")
        file = Path(os.path.expanduser(argument))
        content = safe_graph(file)
        try:
            session = onnx_session(lambda: content)
        except Exception as error:  # onnxruntime's own
            raise EncoderError(f"{file.name} cannot be run by onnxruntime: {reason(error):.160}") from None
        names = [given.name for given in session.get_inputs()]
        return OnnxTexts(file, session) if IDS in names else OnnxPictures(file, session, settings.encoder_side)


class OnnxPictures(PictureEncoder):
    """A file that takes pictures."""

    name = "onnx"
    mean, std = IMAGENET
    precision = "the file's, onnxruntime"
    origin = "here"

    def __init__(self, file: Path, session: Any, side: int | None) -> None:
        self._session, inputs = session, session.get_inputs()
        self.full_name, self.checksum, self.notices = f"onnx:{file.name}", file_digest(file), notices_in(file.parent)
        batch, colours, *sides = inputs[0].shape if len(inputs) == 1 and len(inputs[0].shape) == 4 else (0, 0)
        fixed = {one for one in sides if isinstance(one, int)}
        if not sides or _is_other(colours, 3) or _is_other(batch, 1) or len(fixed) > 1:
            shapes = ", ".join(f"{one.name} {one.shape}" for one in inputs)
            raise EncoderError(
                f"{file.name} takes {shapes:.120}: neither pictures (n, 3, side, side) nor {IDS} of texts"
            )
        self.side = next(iter(fixed), side or PictureEncoder.side)
        if side not in (None, self.side):
            raise EncoderError(f"{file.name} takes pictures of {self.side} pixels, not of {side}")
        if not 1 <= self.side <= 4096:
            raise EncoderError(f"{file.name} takes pictures of {self.side} pixels, and is refused")
        self._input, self._one_by_one = inputs[0].name, isinstance(batch, int)
        self.dimension = _width(self.full_name, self._run(torch.zeros(1, 3, self.side, self.side)))

    def _run(self, samples: Tensor) -> Any:
        values = np.ascontiguousarray(samples.numpy(force=True), np.float32)
        groups = [values[i : i + 1] for i in range(len(values))] if self._one_by_one else [values]
        found = np.concatenate([_answer(self, {self._input: group}) for group in groups])
        if found.ndim == 4:
            return found.mean((2, 3))
        return found[:, 0] if found.ndim == 3 else found

    def encode(self, samples: Tensor) -> Features:
        """(n, 3, side, side), normalised → (n, dimension): the mean over a map, the first of tokens."""
        return checked(self, self._run(samples), len(samples))


class OnnxTexts(Encoder):
    """A file that takes the numbers of pieces of texts."""

    name = "onnx"
    kind = "text"
    precision = "the file's, onnxruntime"
    origin = "here"

    def __init__(self, file: Path, session: Any) -> None:
        self._session, self._inputs = session, {given.name for given in session.get_inputs()}
        self.full_name, self.checksum, self.notices = f"onnx:{file.name}", file_digest(file), notices_in(file.parent)
        if strange := self._inputs - {IDS, MASK, TYPES}:
            raise EncoderError(f"{file.name} wants {min(strange)} beside the pieces of texts, which nothing here gives")
        fixed = [side for side in session.get_inputs()[0].shape if isinstance(side, int)]
        if fixed:
            raise EncoderError(f"{file.name} takes texts of one fixed size {fixed}; export it with dynamic axes")
        self._pieces = Pieces(_tokenizer(file.with_name("tokenizer.json")), LONGEST)
        ids = torch.tensor(self._pieces.parts("one text"))
        self.dimension = _width(self.full_name, self._run(ids, torch.ones_like(ids) > 0))

    def _run(self, pieces: Tensor, there: Tensor) -> Features:
        values = {IDS: pieces, MASK: there.long(), TYPES: torch.zeros_like(pieces)}
        found = _answer(self, {name: value.numpy() for name, value in values.items() if name in self._inputs})
        if found.ndim == 3 and found.shape[:2] == tuple(pieces.shape):
            return np.asarray(pooled(torch.from_numpy(found).float(), there).numpy())
        return np.asarray(found, np.float32)

    def encode(self, samples: Sequence[str]) -> Features:
        """Texts → (n, dimension), each of length one: the mean over the pieces where the file gives them all."""
        return checked(self, self._pieces.vectors(samples, self._run), len(samples))


def _answer(encoder: Any, values: dict[str, Any]) -> Any:
    try:
        return encoder._session.run(None, values)[0]
    except Exception as error:  # onnxruntime's own, one kind for each of its codes
        raise EncoderError(f"{encoder.full_name} cannot be run: {reason(error):.160}") from None


def _width(name: str, found: Any) -> int:
    if found.ndim != 2 or len(found) != 1 or not 1 <= found.shape[1] <= WIDEST:
        raise EncoderError(f"{name} gives {found.shape} for one sample, not features (1, dimension)")
    return int(found.shape[1])


def _is_other(side: Any, wanted: int) -> bool:
    return isinstance(side, int) and side != wanted


def _tokenizer(file: Path) -> Any:
    try:
        from tokenizers import Tokenizer  # noqa: PLC0415 - an extra
    except ImportError:
        raise EncoderError("texts need tokenizers; run: pip install 'halfsure[text]'") from None
    if not file.is_file():
        raise EncoderError(f"there is no {file.name} beside the ONNX file, which says how texts are cut into pieces")
    try:
        return Tokenizer.from_file(os.fspath(file))
    except Exception as error:  # tokenizers raises nothing narrower
        raise EncoderError(f"{file.name} beside the ONNX file cannot be read: {reason(error):.120}") from None
