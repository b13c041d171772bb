"""Official file formats → NumPy arrays: idx, CIFAR pickles and `.bin`, SVHN `.mat`, STL-10 `.bin`.

No package that halfsure depends on reads these, but for MATLAB's (see `halfsure.data._mat`) and pickles (`_pickle`).
Images come as uint8 (n, height, width, channels), C-contiguous, and labels as int64 (n,) from 0. A file is a guess
until it is checked: what its header claims is compared with what it can hold before memory is taken for it, and
whatever is wrong with it ends in a `DataError` that names the file.
"""

import gzip
import math
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from halfsure.data._mat import read_mat
from halfsure.data._pickle import PickledArray, read_pickle
from halfsure.data.files import DataError, opened

__all__ = [
    "DataError",
    "read_cifar_bin",
    "read_cifar_pickle",
    "read_idx_images",
    "read_idx_labels",
    "read_stl_folds",
    "read_stl_images",
    "read_stl_labels",
    "read_svhn",
]

Images = NDArray[np.uint8]
Labels = NDArray[np.int64]
PathLike = str | os.PathLike[str]

_GIB = 2**30
_BATCH = 2**28  # bytes; the largest CIFAR batch has 155 MB
_DEFLATE = 1032  # the most bytes that one byte of a deflate stream can stand for
_CIFAR = (3, 32, 32)
_STL = (3, 96, 96)


def read_idx_images(path: PathLike) -> Images:
    """Read MNIST-like images, gzipped or not. → (n, height, width, 1)."""
    return _read_idx(Path(path), ndim=3)[..., None]


def read_idx_labels(path: PathLike, classes: int = 10) -> Labels:
    """Read MNIST-like labels, gzipped or not. → (n,)."""
    return _as_labels(Path(path), _read_idx(Path(path), ndim=1), 0, classes - 1)


def read_cifar_pickle(path: PathLike, classes: int = 10) -> tuple[Images, Labels]:
    """Read a batch of the "python version" of CIFAR-10, or of CIFAR-100 with its 100 fine classes.

    Nothing that the file asks for is ever called, see `halfsure.data._pickle`.
    """
    path = Path(path)
    batch = _read_batch(path)
    key = "labels" if classes == 10 else "fine_labels"
    data, labels = (batch.get(k, batch.get(k.encode())) for k in ("data", key))
    pixels = data.array if isinstance(data, PickledArray) else None
    if isinstance(labels, PickledArray):
        numbers = labels.array
    else:
        whole = isinstance(labels, list) and all(type(v) is int and abs(v) < 2**31 for v in labels)
        numbers = np.array(labels, dtype=np.int64) if whole else None
    if pixels is None or numbers is None:
        raise DataError(f"{path} lacks the array 'data' or the numbers {key!r} of a batch with {classes} classes")
    if pixels.dtype != np.uint8 or pixels.ndim != 2 or pixels.shape[1] != math.prod(_CIFAR) or not len(pixels):
        raise DataError(f"{path}: images must be uint8 (n, 3072), got {pixels.dtype} {pixels.shape}")
    return _match(path, _from_planes(pixels, _CIFAR), _as_labels(path, numbers, 0, classes - 1))


def read_cifar_bin(path: PathLike) -> tuple[Images, Labels]:
    """Read a batch of the "binary version" of CIFAR-10: a label byte and three row-major planes a record."""
    path = Path(path)
    records = _read_records(path, 1 + math.prod(_CIFAR))
    return _from_planes(records[:, 1:], _CIFAR), _as_labels(path, records[:, 0], 0, 9)


def read_svhn(path: PathLike) -> tuple[Images, Labels]:
    """Read a MATLAB 5 file of SVHN's cropped digits: `X` is 32×32×3×n, `y` n×1 with 10 for the digit 0."""
    path = Path(path)
    with opened(path) as file:
        try:
            arrays = read_mat(file, os.fstat(file.fileno()).st_size, ("X", "y"), 2 * _GIB)
        except ValueError as error:
            raise DataError(f"{path} {error}") from error
    if not {"X", "y"} <= arrays.keys():
        raise DataError(f"{path} must hold numbers X and y, it holds {' and '.join(arrays) or 'neither'}")
    pixels, numbers = arrays["X"], arrays["y"]
    if pixels.ndim == 3:
        pixels = pixels[..., None]  # MATLAB drops the last axis of a single image
    if pixels.dtype != np.uint8 or pixels.shape[:-1] != (32, 32, 3) or not pixels.size:
        raise DataError(f"{path}: X must be uint8 (32, 32, 3, n), got {pixels.dtype} {pixels.shape}")
    labels = _as_labels(path, numbers.reshape(-1), 1, 10) % 10
    return _match(path, np.ascontiguousarray(pixels.transpose(3, 0, 1, 2)), labels)


def read_stl_images(path: PathLike) -> Images:
    """Read STL-10 images: three planes an image, each column by column. → (n, 96, 96, 3)."""
    return _read_records(Path(path), math.prod(_STL), lambda rows: rows.reshape(-1, *_STL).transpose(0, 3, 2, 1))


def read_stl_labels(path: PathLike) -> Labels:
    """Read STL-10 labels, which count from 1 in the file and from 0 here. → (n,)."""
    return _as_labels(Path(path), _read_records(Path(path), 1)[:, 0], 1, 10) - 1


def read_stl_folds(path: PathLike, images: int = 5000) -> list[Labels]:
    """Read STL-10's ten folds, a line of indices into the train images each."""
    path = Path(path)
    with opened(path) as file:
        text = file.read(2**20 + 1)
    if len(text) > 2**20:
        raise DataError(f"{path} is over a megabyte, too large for ten lines of indices")
    lines = [line.split() for line in text.splitlines() if line.strip()]
    if len(lines) != 10:
        raise DataError(f"{path} holds {len(lines)} lines of indices, STL-10 has ten folds")
    folds = []
    for number, line in enumerate(lines, start=1):
        if not all(word.isdigit() and len(word) < 10 for word in line):
            raise DataError(f"{path}, line {number}: indices must be whole numbers with spaces between")
        fold = np.array([int(word) for word in line], dtype=np.int64)
        if fold.max() >= images or len(np.unique(fold)) < len(fold):
            raise DataError(f"{path}, line {number}: indices must be different and below {images}, max is {fold.max()}")
        folds.append(fold)
    return folds


def _read_idx(path: Path, ndim: int) -> Images:
    with opened(path) as plain:
        size = os.fstat(plain.fileno()).st_size
        packed = plain.read(2) == b"\x1f\x8b"
        plain.seek(0)
        file: gzip.GzipFile | BinaryIO = gzip.GzipFile(fileobj=plain) if packed else plain
        header = file.read(4 + 4 * ndim)
        if header[:4] != bytes((0, 0, 8, ndim))[: len(header)]:
            raise DataError(
                f"{path} is not an idx file of unsigned bytes with {ndim} dimensions: it starts with {header[:4].hex()}"
            )
        if len(header) < 4 + 4 * ndim:
            raise DataError(f"{path} is truncated: it ends within its header")
        shape = struct.unpack(f">{ndim}I", header[4:])
        wanted = math.prod(shape)
        if wanted == 0 or wanted > min(_GIB, size * (_DEFLATE if packed else 1)):
            raise DataError(f"{path} claims to hold {shape} bytes, which no idx file of {size:,} bytes does")
        data = np.empty(wanted, dtype=np.uint8)
        done = 0
        while done < wanted and (block := file.read(min(wanted - done, 2**20))):
            data[done : done + len(block)] = np.frombuffer(block, np.uint8)
            done += len(block)
        if done < wanted:
            raise DataError(f"{path} is truncated: its header claims {wanted:,} bytes of data, it holds {done:,}")
        if file.read(1):  # in a gzip file this is also what compares the checksum
            raise DataError(f"{path} goes on after the {wanted:,} bytes its header claims")
    return data.reshape(shape)


def _read_records(path: Path, length: int, arrange: Callable[[Images], Images] = lambda rows: rows) -> Images:
    """Read a file of equal records, arranged block by block: some sets fit into memory once, not twice."""
    with opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size == 0 or size % length:
            raise DataError(f"{path} is empty or truncated: {size:,} bytes are no multiple of the record's {length:,}")
        if size > 4 * _GIB:
            raise DataError(f"{path} is too large for an official file: it has {size:,} bytes")
        result = np.empty((size // length, *arrange(np.empty((1, length), np.uint8)).shape[1:]), np.uint8)
        for start in range(0, len(result), 1000):
            block = result[start : start + 1000]
            rows = np.frombuffer(file.read(len(block) * length), np.uint8)
            if len(rows) != len(block) * length:
                raise DataError(f"{path} became shorter while it was read")
            block[:] = arrange(rows.reshape(-1, length))
    return result


def _read_batch(path: Path) -> dict[Any, Any]:
    with opened(path) as file:
        data = file.read(_BATCH + 1)
    if len(data) > _BATCH:
        raise DataError(f"{path} is over {_BATCH:,} bytes, too large for a CIFAR batch")
    try:
        batch = read_pickle(data)
    except ValueError as error:
        raise DataError(f"{path} {error}") from error
    if not isinstance(batch, dict):
        raise DataError(f"{path} holds a {type(batch).__name__}, not the dictionary of a CIFAR batch")
    return batch


def _from_planes(rows: Images, shape: tuple[int, int, int]) -> Images:
    """Row-major planes to interleaved channels. (n, c·h·w) → (n, h, w, c)."""
    return np.ascontiguousarray(rows.reshape(-1, *shape).transpose(0, 2, 3, 1))


def _as_labels(path: Path, values: NDArray[Any], low: int, high: int) -> Labels:
    if values.ndim != 1 or values.dtype.kind not in "iuf":
        raise DataError(f"{path}: labels must be numbers (n,), got {values.dtype} {values.shape}")
    wrong = np.flatnonzero(~((values >= low) & (values <= high)) | (np.floor(values) != values))
    if len(wrong):
        raise DataError(f"{path}: labels must be {low} … {high}, number {wrong[0] + 1} is {values[wrong[0]]}")
    return values.astype(np.int64)


def _match(path: Path, images: Images, labels: Labels) -> tuple[Images, Labels]:
    if len(images) != len(labels):
        raise DataError(f"{path} holds {len(images):,} images and {len(labels):,} labels")
    return images, labels
