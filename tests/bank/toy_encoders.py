"""Encoders that need no weights: the mean colours of a picture's nine parts, and which letters a text has.

Two more have layers on top, which can be tuned.
"""

from copy import copy, deepcopy
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

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
        encoder.precision = settings.encoder_precision.replace("auto", "float32")
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


def layer(before: int, after: int = 12) -> nn.Linear:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Linear(before, after).requires_grad_(False)


def letters(texts: Any) -> Tensor:
    return torch.tensor([[text.lower().count(chr(97 + k)) for k in range(26)] for text in texts], dtype=torch.float32)


@halfsure.register
class TunablePictures(ToyPictures):
    """12 numbers a picture."""

    name = "toy-tunable"
    about = "pictures: layers on mean colours"
    dimension = 12
    checksum = "a layer of colours"
    full_name = "toy-tunable"

    def __init__(self) -> None:
        self.net: nn.Module = nn.Sequential(nn.AdaptiveAvgPool2d(3), nn.Flatten(), layer(27, 27), layer(27))

    def encode(self, samples: torch.Tensor) -> Any:
        return checked(self, self.net(samples).detach().numpy(), len(samples))

    def network(self) -> nn.Module:
        return deepcopy(self.net).requires_grad_(True)

    def last_blocks(self, net: nn.Module) -> list[nn.Module]:
        assert isinstance(net, nn.Sequential)
        return [net[-1]]

    def with_network(self, net: nn.Module) -> Self:
        other = copy(self)
        other.net = deepcopy(net).requires_grad_(False)
        return other


@halfsure.register
class TunableTexts(ToyTexts):
    """12 numbers a text."""

    name = "toy-tunable-texts"
    about = "texts: a layer on letters"
    dimension = 12
    checksum = "a layer of letters"
    full_name = "toy-tunable-texts"

    def __init__(self) -> None:
        self.net: nn.Module = layer(26)

    def encode(self, samples: Any) -> Any:
        return checked(self, self.net(letters(samples)).detach().numpy(), len(samples))

    def network(self) -> nn.Module:
        return deepcopy(self.net).requires_grad_(True)

    def inputs(self, samples: Any) -> tuple[Tensor]:
        return (letters(samples),)

    def continuous(self, samples: Any) -> Tensor:
        return letters(samples)

    def with_network(self, net: nn.Module) -> Self:
        other = copy(self)
        other.net = deepcopy(net).requires_grad_(False)
        return other
