"""`.npy` and `.npz` files → arrays: nothing is unpickled, and a claim is checked before memory is taken for it.

NumPy reads headers and values; `np.load` alone would take whatever memory a header or a packed file asks for.
"""

import math
import os
import struct
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from halfsure.data.files import DataError, inside, opened, shown

__all__ = ["read_fields"]

T = TypeVar("T")
Shape = tuple[int, ...]
FIELDS = ("X", "y", "X_test", "y_test", "classes")
MOST_ARRAYS = 1000
UNPACKED = 4 * 2**30
"""Bytes that a packed file may become; one that is not packed may be of any size."""


def read_fields(path: Path, needed: Sequence[str] = ("X", "y")) -> dict[str, NDArray[Any]]:
    """The arrays of `FIELDS` in an `.npz`, by name, in a folder, by their files' names, or an `.npy` as X.

    Those in `.npy` files stay on the disk; arrays of other names are left alone.
    """
    if path.is_dir():
        files = {file.stem: file for file in islice(path.glob("*.npy"), MOST_ARRAYS)}
        chosen = _chosen(path, files, needed)
        if out := [file for file in chosen.values() if inside(path, file) is None]:
            raise DataError(f"{out[0]} leads out of its folder, or to no file; put the array itself there")
        return {name: _mapped(file) for name, file in chosen.items()}
    if path.suffix.lower() == ".npy":
        return {"X": _mapped(path)}
    with opened(path) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                members = _chosen(path, _members(archive), needed)
                _check_total(members.values(), os.fstat(file.fileno()).st_size)
                return {name: _unpacked(archive, member) for name, member in members.items()}
        except DataError:
            raise
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
        try:
            return np.memmap(path, dtype, "r", offset, shape, order="F" if fortran else "C")
        except (ValueError, OverflowError):  # none times too many values, or more axes than NumPy has
            raise DataError(f"{path} cannot be read as NumPy arrays: no array has the shape {shape!s:.60}") from None


def _chosen(path: Path, there: Mapping[str, T], needed: Sequence[str]) -> dict[str, T]:
    """Those that a data set is made of; an error says which are missing, and what there is in their place."""
    if missing := [name for name in needed if name not in there]:
        raise DataError(f"{path} has no array named {' or '.join(missing)}; it has {shown(sorted(there)) or 'nothing'}")
    return {name: there[name] for name in FIELDS if name in there}


def _members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The arrays in an archive by name."""
    found = archive.infolist()
    if len(found) > MOST_ARRAYS:
        raise ValueError(f"it holds {len(found):,} files; a data set has a few arrays")
    if len({member.filename for member in found}) < len(found):
        raise ValueError("it holds two arrays of one name")
    return {member.filename.removesuffix(".npy"): member for member in found if member.filename.endswith(".npy")}


def _check_total(members: Iterable[zipfile.ZipInfo], size: int) -> None:
    """Refuse arrays that all together are of a size that cannot be meant."""
    total = sum(member.file_size for member in members)
    if total > max(UNPACKED, size):
        raise ValueError(
            f"it unpacks to {total:,} bytes; put arrays of that size as X.npy and y.npy into a folder, to be mapped"
        )


def _unpacked(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    # Other ways of packing are not NumPy's, and are unpacked without a limit by zipfile.
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{member.filename!r} is packed in a way that NumPy does not use")
    with archive.open(member) as file:
        shape, _, dtype = _header(file)
        if math.prod(shape) * dtype.itemsize != member.file_size - file.tell():
            raise ValueError(f"{member.filename!r} claims {dtype} {shape} but has another size")
        file.seek(0)
        array: NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
        file.read()  # to the end, which is where the checksum is compared
    return array


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
