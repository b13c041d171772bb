"""Pictures and texts as an encoder's network takes them, read when they are asked for."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfsure.bank.making import least_side
from halfsure.data.originals import Originals, PictureFiles
from halfsure.encoders import Encoder
from halfsure.encoders.encoder import PictureEncoder
from halfsure.encoders.squares import square

__all__ = ["Inputs", "Shown"]

REMEMBERED = 2**29
"""Bytes of squares that are kept in memory, for pictures that are drawn again and again."""


class Shown:
    """One by one: texts as they are, pictures as squares of bytes (side, side, 3)."""

    def __init__(self, originals: Originals, encoder: Encoder) -> None:
        self.picture = encoder if isinstance(encoder, PictureEncoder) else None
        if self.picture is not None and isinstance(originals, PictureFiles):
            originals = replace(originals, least=least_side(self.picture))
        self._originals, self._squares = originals, dict[int, NDArray[np.uint8]]()
        self._most = 0 if self.picture is None else REMEMBERED // (3 * self.picture.side**2)

    def __len__(self) -> int:
        return len(self._originals)

    def __getitem__(self, row: int) -> Any:
        row, picture = int(row), self.picture
        if picture is None or row in self._squares:
            return self._originals[row] if picture is None else self._squares[row]
        found = square(self._originals[row], picture.side, picture.crop)
        if len(self._squares) < self._most:
            self._squares[row] = found
        return found


class Inputs:
    """The same as an array: squares (n, side, side, 3), or texts as tensors that can be perturbed and mixed."""

    def __init__(self, originals: Originals, encoder: Encoder) -> None:
        self.shown, self._encoder = Shown(originals, encoder), encoder
        picture = self.shown.picture
        one = (picture.side, picture.side, 3) if picture else tuple(encoder.continuous([""]).shape[1:])
        self.shape = (len(originals), *one)
        self.dtype = np.dtype(np.float32 if picture is None else np.uint8)
        self.ndim = len(self.shape)

    def __len__(self) -> int:
        return len(self.shown)

    def __getitem__(self, key: Any) -> NDArray[Any]:
        """By a slice, numbers or a mask, as NumPy has it."""
        found = [self.shown[row] for row in np.arange(len(self))[key].tolist()]
        if not found:
            return np.empty((0, *self.shape[1:]), self.dtype)
        if self.shown.picture is None:
            vectors: NDArray[np.float32] = self._encoder.continuous(found).numpy()
            return vectors
        return np.stack(found)
