"""A network of one's own as an ONNX file: pictures or texts' features by onnxruntime."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from halfsure._disk import file_digest
from halfsure.encoders.encoder import EncoderError, Features, PictureEncoder, PictureSettings, checked
from halfsure.encoders.machine import has_onnx, onnx_session
from halfsure.settings import register

__all__ = ["OnnxFile"]

LARGEST = 2**31
IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@register
class OnnxFile(PictureEncoder):
    """Pictures (n, 3, side, side), normalised as ImageNet's are → features (n, dimension)."""

    name = "onnx"
    about = "pictures: a network in an ONNX file, ImageNet's mean and deviation"
    argument = "FILE"
    Settings = PictureSettings
    mean, std = IMAGENET

    @classmethod
    def missing(cls) -> str:
        """Both packages."""
        return "" if has_onnx() else "pip install 'halfsure[onnx]'"

    @classmethod
    def open(cls, argument: str, settings: Any) -> "OnnxFile":
        """Read a file; one that keeps weights in other files is refused."""
        if missing := cls.missing():
            raise EncoderError(f"an ONNX file needs onnxruntime; run: {missing}")
        return cls(Path(argument), settings.encoder_side)

    def __init__(self, file: Path, side: int | None) -> None:
        import onnx  # noqa: PLC0415 - an extra

        if not file.is_file():
            raise EncoderError(f"there is no file {file}")
        if file.stat().st_size > LARGEST:
            raise EncoderError(f"{file.name} is over {LARGEST:,} bytes, too large for one ONNX file")
        content = file.read_bytes()
        try:
            outside = any(tensor.external_data for tensor in onnx.load_from_string(content).graph.initializer)
        except Exception as error:
            raise EncoderError(f"{file.name} is not an ONNX file: {error!s:.200}") from None
        if outside:
            raise EncoderError(f"{file.name} keeps weights in other files; save it with all weights inside")
        try:
            self._session = onnx_session(lambda: content)
        except Exception as error:  # protobuf's and onnxruntime's own
            raise EncoderError(f"{file.name} is not an ONNX network that can be run: {error!s:.200}") from None
        given = self._session.get_inputs()[0]
        fixed = given.shape[-1] if len(given.shape) == 4 and isinstance(given.shape[-1], int) else None
        if len(given.shape) != 4 or (given.shape[1] not in (3, "3", None) and not isinstance(given.shape[1], str)):
            raise EncoderError(f"{file.name} takes {given.shape}, not pictures (n, 3, side, side)")
        if side is not None and fixed is not None and side != fixed:
            raise EncoderError(f"{file.name} takes pictures of {fixed} pixels, not of {side}")
        self._input, self.side = given.name, fixed or side or 224
        self.full_name, self.checksum = f"onnx:{file.name}", file_digest(file)
        self.precision = "the file's, onnxruntime"
        self.dimension = self._run(torch.zeros(1, 3, self.side, self.side)).shape[-1]

    def _run(self, samples: Tensor) -> Any:
        found = self._session.run(None, {self._input: samples.numpy(force=True)})[0]
        if found.ndim == 4:
            found = found.mean((2, 3))
        if found.ndim != 2:
            raise EncoderError(f"{self.full_name} gives {found.shape}, not features (n, dimension)")
        return found

    def encode(self, samples: Tensor) -> Features:
        """(n, 3, side, side), normalised → (n, dimension)."""
        return checked(self, self._run(samples), len(samples))
