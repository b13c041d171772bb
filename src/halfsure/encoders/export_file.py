"""A network saved by torch.export: it can run code when it is read, so its checksum must say that you trust it.

`torch.export.load` unpickles weights and constants without limits, and evaluates the file's formulas of shapes as
Python. No check before it makes that safe, and torch offers no other reader.
"""

import os
import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from halfsure._disk import file_digest, reason
from halfsure.encoders.encoder import IMAGENET, EncoderError, Features, PictureEncoder, checked
from halfsure.settings import register

__all__ = ["ExportFile"]

TRUSTED = re.compile("@[0-9a-fA-F]{64}$")


@register
class ExportFile(PictureEncoder):
    """Pictures (n, 3, side, side), normalised as ImageNet's are → features (n, dimension)."""

    name = "export"
    about = "pictures: a network in a torch.export file, which can run code: only with its checksum"
    argument = "FILE@SHA256"
    mean, std = IMAGENET
    origin = "here"

    @classmethod
    def open(cls, argument: str, settings: Any) -> "ExportFile":
        """Read a file whose checksum was given."""
        name, _, trusted = argument.rpartition("@") if TRUSTED.search(argument) else (argument, "", "")
        file = Path(os.path.expanduser(name))
        if not os.path.isfile(file):
            raise EncoderError(f"there is no file {name!r:.200}")
        if settings.encoder_precision in ("int8", "bfloat16"):
            raise EncoderError("a torch.export file has its own precision; leave encoder_precision at auto")
        digest = file_digest(file)
        if trusted.lower() != digest:
            raise EncoderError(
                f"{file.name} is a torch.export file, and reading one can run code that is hidden in it; if you know "
                f"who made it, say so by its checksum, as export:{file.name}@{digest}; an ONNX file needs no trust"
            )
        return cls(file, digest, settings.encoder_side)

    def __init__(self, file: Path, digest: str, side: int | None) -> None:
        self.full_name, self.checksum, self.side = f"export:{file.name}", digest, side or PictureEncoder.side
        try:
            self._net = torch.export.load(file).module()
            found = self._run(torch.zeros(2, 3, self.side, self.side))
        except Exception as error:  # whatever torch makes of a damaged file
            why = f"{type(error).__name__}: {reason(error):.160}"
            raise EncoderError(f"{file.name} cannot take pictures (n, 3, {self.side}, {self.side}): {why}") from None
        if found.ndim != 2:
            raise EncoderError(f"{file.name} gives {found.shape}, not features (n, dimension)")
        self.dimension = int(found.shape[1])

    def _run(self, samples: Tensor) -> Any:
        with torch.inference_mode():
            found = self._net(samples).float()
        return (found.mean((2, 3)) if found.ndim == 4 else found).numpy()

    def encode(self, samples: Tensor) -> Features:
        """(n, 3, side, side), normalised → (n, dimension)."""
        return checked(self, self._run(samples), len(samples))
