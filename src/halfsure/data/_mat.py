"""MATLAB 5 files → arrays of numbers.

`scipy.io.loadmat` trusts what a file says of itself: of all single flipped bits in a small file, one in seventy ends
the process (scipy 1.17.1). Here every length is compared with what is there before it is used, and a ValueError says
what does not fit.
"""

import math
import struct
import zlib
from collections.abc import Collection
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

__all__ = ["read_mat"]

_BLOCK = 2**20
_INT8, _INT32, _UINT32, _MATRIX, _COMPRESSED = 1, 5, 6, 14, 15
_DTYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_NUMBERS = range(6, 16)  # the classes double … uint64; the rest is text, structures, sparse matrices, objects
_COMPLEX = 0x800


def read_mat(file: BinaryIO, size: int, names: Collection[str], most: int) -> dict[str, NDArray[Any]]:
    """Read the real arrays of these names from a file of this size; other variables are passed over.

    A file whose variables have more than `most` bytes when unpacked is refused.
    """
    header = file.read(128)
    order = {b"IM": "<", b"MI": ">"}.get(header[126:])
    if not header.startswith(b"MATLAB 5.0 MAT-file") or order is None:
        raise ValueError("is not a MATLAB 5 file")
    arrays = {}
    end, left = 128, most
    try:
        while end < size:
            file.seek(end)
            kind, length = struct.unpack(order + "II", file.read(8))
            end += 8 + length
            if end > size:
                raise ValueError(f"is truncated: it should go on to byte {end:,} and has {size:,}")
            if kind == _COMPRESSED:
                kind, body = _inflate(file, length, order, left)
            else:
                body = memoryview(file.read(min(length, left + 1)))
            left -= 8 + len(body)
            if left < 0:
                raise ValueError(f"is refused: it unpacks to more than {most:,} bytes")
            if kind == _MATRIX:
                name, array = _matrix(body, order)
                if array is not None and name in names:
                    arrays[name] = array
    except (struct.error, zlib.error) as error:
        raise ValueError(f"is truncated or corrupt: {error}") from error
    return arrays


def _inflate(file: BinaryIO, length: int, order: str, most: int) -> tuple[int, memoryview]:
    """Unpack one element, but no more of it than it claims to hold."""
    stream = zlib.decompressobj()
    chunk = file.read(min(length, _BLOCK))
    left = length - len(chunk)
    data = bytearray(stream.decompress(chunk, 8))
    kind, inside = struct.unpack(order + "II", data)
    wanted = 8 + inside
    if wanted > most:
        raise ValueError(f"is refused: a variable claims {wanted:,} bytes")
    chunk = stream.unconsumed_tail
    while not stream.eof:
        block = stream.decompress(chunk, wanted - len(data) + 1)
        data += block
        if len(data) > wanted or not (block or chunk or left):
            break
        chunk = stream.unconsumed_tail
        if not chunk:
            chunk = file.read(min(left, _BLOCK))
            left -= len(chunk)
    if len(data) != wanted or not stream.eof:
        raise ValueError(f"is corrupt: a variable claims {wanted:,} bytes and unpacks to others")
    return kind, memoryview(data)[8:]


def _matrix(body: memoryview, order: str) -> tuple[str, NDArray[Any] | None]:
    """Name and values of a variable; None for what is not an array of real numbers."""
    flags_kind, flags, at = _element(body, 0, order)
    dims_kind, dims, at = _element(body, at, order)
    name_kind, name, at = _element(body, at, order)
    if (flags_kind, dims_kind, name_kind) != (_UINT32, _INT32, _INT8) or len(flags) != 8 or len(dims) % 4:
        raise ValueError("is corrupt: a variable does not start with flags, size and name")
    (flag,) = struct.unpack_from(order + "I", flags)
    shape = struct.unpack(f"{order}{len(dims) // 4}i", dims)
    text = bytes(name).decode("latin1")
    if flag & 0xFF not in _NUMBERS or flag & _COMPLEX:
        return text, None
    kind, values, _ = _element(body, at, order)
    if kind not in _DTYPES or not 2 <= len(shape) <= 8 or min(shape) < 0:
        raise ValueError(f"is corrupt: the variable {text!r} is of no known type and size")
    dtype = np.dtype(order + _DTYPES[kind])
    if math.prod(shape) * dtype.itemsize != len(values):
        raise ValueError(f"is corrupt: the variable {text!r} claims {dtype} {shape} and has {len(values):,} bytes")
    return text, np.frombuffer(values, dtype).reshape(shape, order="F")


def _element(body: memoryview, at: int, order: str) -> tuple[int, memoryview, int]:
    """Type, content and end of the element at a place."""
    (first,) = struct.unpack_from(order + "I", body, at)
    if first >> 16:  # up to four bytes share the element's second word
        kind, length, start, end = first & 0xFFFF, first >> 16, at + 4, at + 8
    else:
        (length,) = struct.unpack_from(order + "I", body, at + 4)
        kind, start, end = first, at + 8, at + 8 + length + -length % 8
    if start + length > len(body) or (first >> 16 and length > 4):
        raise ValueError(f"is truncated or corrupt: an element of {length:,} bytes does not fit in its variable")
    return kind, body[start : start + length], end
