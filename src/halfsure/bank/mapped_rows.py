"""Rows of a bank in the order of a data set: an array that stays on the disk."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfsure.data import DataError

__all__ = ["HALF", "Rows"]

HALF = np.dtype("<f2")


@dataclass(frozen=True, eq=False)
class Rows:
    """Features of samples in some views, read from the disk when they are asked for.

    As an array it is the first view of every sample, (n, dimension) in float32.
    """

    files: tuple[Path, ...]
    starts: NDArray[np.int64]
    """(files + 1,): the number of each file's first row, counted through all files."""
    dimension: int
    places: NDArray[np.int32]
    """(n, views): the number of each row."""
    _open: dict[int, Any] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.places)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_open": {}}

    @property
    def views(self) -> int:
        """How many views each sample has."""
        return int(self.places.shape[1])

    def take(self, indices: Any, views: Any) -> NDArray[np.float16]:
        """A view of each of some samples, by their numbers. → (n, dimension)."""
        places = self.places[indices, views]
        files = np.searchsorted(self.starts, places, "right") - 1
        found = np.empty((len(places), self.dimension), HALF)
        for number in np.unique(files).tolist():
            here = files == number
            found[here] = self._file(number)[places[here] - self.starts[number]]
        return found

    def select(self, samples: Any) -> "Rows":
        """Some of the samples, in all their views; nothing is read."""
        return replace(self, places=self.places[samples], _open={})

    @property
    def shape(self) -> tuple[int, int]:
        """Samples and features."""
        return len(self), self.dimension

    @property
    def dtype(self) -> np.dtype[np.float32]:
        """Of what indexing gives."""
        return np.dtype(np.float32)

    @property
    def ndim(self) -> int:
        """A matrix."""
        return 2

    def __getitem__(self, key: Any) -> NDArray[np.float32]:
        """Rows of the first view by a number, a slice, numbers or a mask, as NumPy has it."""
        samples = np.arange(len(self))[key]
        found = self.take(np.atleast_1d(samples), 0).astype(np.float32)
        return found if samples.ndim else found[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("rows of a bank are on the disk: an array of them is always a copy")
        found = self[:]
        return found if dtype is None else found.astype(dtype, copy=False)

    def _file(self, number: int) -> Any:
        if number not in self._open:
            shape = (int(self.starts[number + 1] - self.starts[number]), self.dimension)
            try:
                self._open[number] = np.memmap(self.files[number], HALF, "r", shape=shape)
            except (OSError, ValueError) as error:
                bank = self.files[number].parent
                raise DataError(f"the bank {bank.name} was removed while it was used ({error}); start again") from None
        return self._open[number]
