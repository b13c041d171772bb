"""Encoders and samples that the tests of the bank share, for their processes too."""

import os
import time
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halfsure.data.originals import key_of
from halfsure.encoders import Encoder, own

SIDE = 16


def some_features(pictures: Tensor) -> Tensor:
    """(n, 3, side, side) → (n, 6)."""
    return torch.cat([pictures.mean((2, 3)), pictures[:, :, 3, 5]], 1)


class Counting:
    """The same, and how many samples it has seen."""

    def __init__(self) -> None:
        self.seen = -1  # it is tried once when it is wrapped

    def __call__(self, pictures: Any) -> Any:
        self.seen += len(pictures)
        if isinstance(pictures, list):
            return np.array([[len(text), text.count("a"), 1] for text in pictures], np.float32)
        return some_features(pictures)

    def since(self) -> int:
        """What it has seen since it was last asked; one sample more than asked for, by which it is known."""
        found, self.seen = self.seen, 0
        return found - 1


def counting(kind: Any = "image") -> tuple[Encoder, Counting]:
    function = Counting()
    return own(function, kind, side=SIDE, name="counting"), function


class Logging:
    """The same, slowly, with a line in a file for each batch."""

    __name__ = "logging"

    def __init__(self, log: Path, seconds: float) -> None:
        self._log, self._seconds = log, seconds

    def __call__(self, pictures: Tensor) -> Tensor:
        time.sleep(self._seconds)
        with self._log.open("a") as file:
            file.write(f"{os.getpid()} {len(pictures)}\n")
        return some_features(pictures)


def logging(log: Path, seconds: float = 0.0) -> Encoder:
    return own(Logging(log, seconds), "image", side=SIDE)


def pictures(count: int, seed: int = 0, shape: tuple[int, ...] = (12, 20, 3)) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (count, *shape), dtype=np.uint8)


class Endless:
    """As many pictures as one likes, each made when it is asked for."""

    kind: ClassVar[Any] = "image"

    def __init__(self, rows: Any) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, i: int, /) -> NDArray[np.uint8]:
        row = int(self._rows[i])
        return np.frombuffer(row.to_bytes(4, "little") * 12, np.uint8).reshape(4, 4, 3)

    def key(self, i: int) -> bytes:
        return key_of(int(self._rows[i]).to_bytes(8, "little"))

    def take(self, rows: Any) -> "Endless":
        return Endless(np.asarray(self._rows)[rows])
