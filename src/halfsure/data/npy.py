"""`.npy` and `.npz` files → arrays: nothing is unpickled, and a claim is checked before memory is taken for it."""

import math
import os
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfsure.data.files import DataError, inside, opened

__all__ = ["read_fields"]

Shape = tuple[int, ...]
MOST_ARRAYS = 1000
UNPACKED = 4 * 2**30
"""Bytes that a packed file may become; one that is not packed may be of any size."""
_BLOCK = 2**20


def read_fields(path: Path) -> dict[str, NDArray[Any]]:
    """Arrays of an `.npz` by name, of a folder by their files' names, or of an `.npy` as X.

    Those in `.npy` files stay on the disk.
    """
    if path.is_dir():
        files = sorted(path.glob("*.npy"))
        if len(files) > MOST_ARRAYS:
            raise DataError(f"{path} has {len(files):,} .npy files; a data set has a few")
        if out := [file for file in files if inside(path, file) is None]:
            raise DataError(f"{out[0]} leads out of its folder, or to no file; put the array itself there")
        return {file.stem: _mapped(file) for file in files}
    if path.suffix.lower() == ".npy":
        return {"X": _mapped(path)}
    with opened(path) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                members = _members(archive, os.fstat(file.fileno()).st_size)
                return {name: _unpacked(archive, member) for name, member in members.items()}
        except (zipfile.BadZipFile, RuntimeError, ValueError, struct.error, zlib.error, OverflowError) as error:
            raise DataError(f"{path} cannot be read as NumPy arrays: {error}") from None


def _mapped(path: Path) -> NDArray[Any]:
    with opened(path) as file:
        try:
            shape, fortran, dtype = _header(file)
        except ValueError as error:
            raise DataError(f"{path} cannot be read as NumPy arrays: {error}") from None
        offset, size = file.tell(), os.fstat(file.fileno()).st_size
        if math.prod(shape) * dtype.itemsize > size - offset:
            raise DataError(f"{path} is truncated: it claims {dtype} {shape} and has {size - offset:,} bytes")
        return np.memmap(path, dtype, "r", offset, shape, order="F" if fortran else "C")


def _members(archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    """The arrays in an archive by name, if all of them together are of a size that can be meant."""
    found = archive.infolist()
    if len(found) > MOST_ARRAYS:
        raise ValueError(f"it holds {len(found):,} files; a data set has a few arrays")
    if len({member.filename for member in found}) < len(found):
        raise ValueError("it holds two arrays of one name")
    total = sum(member.file_size for member in found)
    if total > max(UNPACKED, size):
        raise ValueError(
            f"it unpacks to {total:,} bytes; put arrays of that size as X.npy and y.npy into a folder, to be mapped"
        )
    return {member.filename.removesuffix(".npy"): member for member in found if member.filename.endswith(".npy")}


def _unpacked(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    # Other ways of packing are not NumPy's, and are unpacked without a limit by zipfile.
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{member.filename!r} is packed in a way that NumPy does not use")
    with archive.open(member) as file:
        shape, fortran, dtype = _header(file)
        size = math.prod(shape) * dtype.itemsize
        if size != member.file_size - file.tell():
            raise ValueError(f"{member.filename!r} claims {dtype} {shape} but has another size")
        values = np.empty(size, np.uint8)
        done = 0
        while block := file.read(_BLOCK):  # to the end, which is where the checksum is compared
            values[done : done + len(block)] = np.frombuffer(block, np.uint8)
            done += len(block)
    if done != size:
        raise ValueError(f"{member.filename!r} is truncated")
    return values.view(dtype).reshape(shape, order="F" if fortran else "C")


def _header(file: Any) -> tuple[Shape, bool, np.dtype[Any]]:
    """Shape, whether columns come first, and type of the array that a file is about to give."""
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    try:
        shape, fortran, dtype = readers[np.lib.format.read_magic(file)](file)
    except Exception as error:  # NumPy evaluates the header as a literal: whatever that can raise
        raise ValueError(f"its header makes no sense ({type(error).__name__})") from None
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which would have to be unpickled")
    if dtype.itemsize == 0 or dtype.names is not None or min(shape, default=0) < 0 or 0 in shape[1:]:
        raise ValueError(f"an array of {dtype} {shape} holds nothing that can be trained on")
    return shape, fortran, dtype
