"""Encoders that need no weights: the mean colours of a picture's nine parts, and which letters a text has."""

from typing import Any

import numpy as np
import torch

import halfsure
from halfsure.encoders.encoder import Encoder, PictureEncoder, checked


@halfsure.register
class ToyPictures(PictureEncoder):
    """27 numbers a picture."""

    name = "toy-pictures"
    about = "pictures: mean colours"
    dimension = 27
    checksum = "colours"
    full_name = "toy-pictures"
    side = 24
    mean, std = (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)

    @classmethod
    def open(cls, argument: str, settings: Any) -> "ToyPictures":
        encoder = cls()
        encoder.side = settings.encoder_side or cls.side
        return encoder

    def encode(self, samples: torch.Tensor) -> Any:
        parts = torch.nn.functional.adaptive_avg_pool2d(samples, 3).flatten(1)
        return checked(self, parts.numpy(), len(samples))


@halfsure.register
class ToyTexts(Encoder):
    """26 numbers a text, of length one."""

    name = "toy-texts"
    about = "texts: letters"
    kind = "text"
    dimension = 26
    checksum = "letters"
    full_name = "toy-texts"

    @classmethod
    def open(cls, argument: str, settings: Any) -> "ToyTexts":
        return cls()

    def encode(self, samples: Any) -> Any:
        rows = np.array([[text.lower().count(chr(97 + k)) for k in range(26)] for text in samples], np.float32)
        return checked(self, rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1), len(samples))
