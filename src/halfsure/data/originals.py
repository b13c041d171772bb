"""What an encoder looks at: pictures and texts as people have them, read when they are asked for."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b, file_digest
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from halfsure.data.files import DataError, opened
from halfsure.data.images import decode_whole

__all__ = ["Originals", "PictureArray", "PictureFiles", "Texts", "key_of"]

Kind = Literal["image", "text"]
Rows = NDArray[Any] | Sequence[int]
KEY_BYTES = 16


def key_of(content: bytes) -> bytes:
    """What a sample is found by: 16 bytes of its hash."""
    return blake2b(content, digest_size=KEY_BYTES).digest()


class Originals(Protocol):
    """Pictures or texts, one by one."""

    kind: ClassVar[Kind]

    def __len__(self) -> int: ...

    def __getitem__(self, i: int, /) -> Any:
        """A picture as uint8, (height, width, 1 or 3) in its own size, or a text."""
        ...

    def key(self, i: int) -> bytes:
        """16 bytes that its contents alone decide."""
        ...

    def take(self, rows: Rows) -> "Originals":
        """Some of them, in this order; nothing is read for it."""
        ...


@dataclass(frozen=True, eq=False)
class PictureFiles:
    """Pictures in files of any size, mode and orientation, decoded as `halfsure.data.images` does.

    Examples:
        >>> from halfsure.data.originals import PictureFiles
        >>> PictureFiles(["a.jpg", "b.png"]).take([1, 1, 0]).paths
        (PosixPath('b.png'), PosixPath('b.png'), PosixPath('a.jpg'))
    """

    paths: Sequence[Path]
    least: int = 0
    """Pixels of the shorter side that are enough: a much larger JPEG is decoded at a part of its size; 0 for all."""
    kind: ClassVar[Kind] = "image"

    def __post_init__(self) -> None:
        object.__setattr__(self, "paths", tuple(map(Path, self.paths)))

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, i: int, /) -> NDArray[np.uint8]:
        return decode_whole(self.paths[i], self.least)

    def key(self, i: int) -> bytes:
        """Of the file's bytes."""
        with opened(self.paths[i]) as file:
            return file_digest(file, lambda: blake2b(digest_size=KEY_BYTES)).digest()  # type: ignore[arg-type]

    def take(self, rows: Rows) -> "PictureFiles":
        """Some of the files."""
        return replace(self, paths=[self.paths[i] for i in _numbers(rows)])


class PictureArray:
    """Pictures of one size in an array (n, height, width, 1 or 3) of bytes, which may be mapped from a file.

    Examples:
        >>> import numpy as np
        >>> from halfsure.data.originals import PictureArray
        >>> digits = PictureArray(np.zeros((10, 8, 8, 1), np.uint8))
        >>> digits.take([3, 4])[0].shape
        (8, 8, 1)
    """

    kind: ClassVar[Kind] = "image"

    def __init__(self, images: NDArray[np.uint8], rows: NDArray[np.int64] | None = None) -> None:
        if images.dtype != np.uint8 or images.ndim != 4 or images.shape[3] not in (1, 3) or 0 in images.shape[1:]:
            raise DataError(f"pictures must be uint8 (n, h, w, 1 or 3), got {images.dtype} {images.shape}")
        self._images, self._rows = images, np.arange(len(images)) if rows is None else rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, i: int, /) -> NDArray[np.uint8]:
        return np.ascontiguousarray(self._images[self._rows[i]])

    def key(self, i: int) -> bytes:
        """Of its shape and its pixels."""
        picture = self[i]
        return key_of(repr(picture.shape).encode() + picture.tobytes())

    def take(self, rows: Rows) -> "PictureArray":
        """Some of the pictures, where they are."""
        return PictureArray(self._images, self._rows[_numbers(rows)])

    def __reduce__(self) -> Any:
        """Another process gets the pictures that are meant, and no others."""
        return PictureArray, (np.asarray(self._images[self._rows]),)


class Texts:
    """Texts in memory.

    Examples:
        >>> from halfsure.data.originals import Texts
        >>> Texts(["a cat", "a dog"]).take([1])[0]
        'a dog'
    """

    kind: ClassVar[Kind] = "text"

    def __init__(self, values: Sequence[str]) -> None:
        self._values = values

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, i: int, /) -> str:
        return str(self._values[i])

    def key(self, i: int) -> bytes:
        """Of its letters; halves of pairs, which are no text, count as they are."""
        return key_of(self[i].encode("utf-8", "surrogatepass"))

    def take(self, rows: Rows) -> "Texts":
        """Some of the texts."""
        return Texts([self._values[i] for i in _numbers(rows)])


def _numbers(rows: Rows) -> NDArray[np.int64]:
    """Numbers, or a mask, as numbers."""
    given = np.asarray(rows)
    return np.flatnonzero(given) if given.dtype == bool else given.astype(np.int64)
