"""CIFAR's pickles → containers, numbers, text and arrays of integers, and nothing else.

A pickle is a program, and `pickle.load` runs it. Here Python's own unpickler reads it, with most opcodes taken away: a
global stays a name, and the few calls that a CIFAR batch makes stand for values of ours. No code is looked up, imported
or called. It is the unpickler written in Python: the one in C cannot be told which opcodes to run or which keys to
hash, and five bytes that number a memo can make it take 64 GiB.
"""

import io
import math
import pickle
import pickletools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfsure.data.files import shown

__all__ = ["PickledArray", "read_pickle"]

_MOST = 2_000_000  # opcodes; a batch of 50,000 images has 500,000 where Python 3 wrote it
_INTEGERS = [f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)]
_RECONSTRUCT = ["numpy.core.multiarray._reconstruct", "numpy._core.multiarray._reconstruct"]
_BYTES = ["__builtin__.bytes", "builtins.bytes"]
_NAMES = [*_RECONSTRUCT, *_BYTES, "_codecs.encode", "numpy.dtype", "numpy.ndarray"]
_CODES = {ord(opcode.code): opcode.name for opcode in pickletools.opcodes}
_ALLOWED = {
    *("PROTO", "FRAME", "STOP", "NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"),
    *("SHORT_BINSTRING", "BINSTRING", "SHORT_BINBYTES", "BINBYTES", "BINBYTES8"),
    *("SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "BINPUT", "LONG_BINPUT", "MEMOIZE", "BINGET", "LONG_BINGET"),
    *("EMPTY_TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "MARK", "TUPLE", "EMPTY_LIST", "APPEND", "APPENDS"),
    *("EMPTY_DICT", "SETITEM", "SETITEMS", "GLOBAL", "STACK_GLOBAL", "REDUCE", "BUILD"),
}


@dataclass
class PickledArray:
    """An array of integers in a pickle; None until the pickle has said what it holds."""

    array: NDArray[Any] | None = None


def read_pickle(data: bytes) -> Any:
    """Build what the pickle describes; a ValueError says what is refused or wrong.

    Examples:
        >>> import pickle
        >>> read_pickle(pickle.dumps({"labels": [3, 1], "batch_label": b"x"}))
        {'labels': [3, 1], 'batch_label': b'x'}
    """
    try:
        return _Unpickler(data).load()
    except _RefusedError:
        raise
    except Exception as error:  # an unpickler raises whatever its parts raise
        raise ValueError(f"is truncated or corrupt: {str(error)[:200] or type(error).__name__}") from error


class _RefusedError(ValueError):
    """Something that could be meant in earnest, and is not for a data file."""


@dataclass
class _DType:
    code: str
    order: str = "="


class _Dict(dict[str | bytes, Any]):
    """A dictionary of short texts: hashing a deep tuple can end the process, and long texts take long to compare."""

    def __setitem__(self, key: Any, value: Any) -> None:
        if not isinstance(key, str | bytes) or len(key) > 100:
            raise ValueError("the keys of a dictionary must be short texts")
        super().__setitem__(key, value)


class _Dispatch:
    """What each opcode does, for as many steps as a file may take."""

    steps = 0

    def __getitem__(self, code: int) -> Callable[..., None]:
        self.steps += 1
        if self.steps > _MOST:
            raise _RefusedError(f"is truncated: its pickle has no end within {_MOST:,} opcodes")
        if (name := _CODES.get(code, hex(code))) not in _ALLOWED:
            raise _RefusedError(f"is refused: no data file needs the pickle opcode {name}")
        own: Callable[..., None] = getattr(_Unpickler, pickle._Unpickler.dispatch[code].__name__)
        return own


class _Unpickler(pickle._Unpickler):
    """Python's unpickler, with nothing on its stack that can be called or that outlives the reading."""

    stack: list[Any]

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data), encoding="latin1")
        self.dispatch = _Dispatch()  # type: ignore[misc, assignment]
        self.left = len(data)
        """Bytes that texts may still become: a file holds each of them once, so no more than it has itself."""

    def find_class(self, module: str, name: str) -> str:
        if (whole := f"{module}.{name}") not in _NAMES:
            raise _RefusedError(f"is refused: it asks for {shown([whole])}, which no data file needs")
        return whole

    def load_empty_dictionary(self) -> None:
        self.stack.append(_Dict())

    def load_reduce(self) -> None:
        """Put what a call stands for in its place."""
        arguments, function = self.stack.pop(), self.stack.pop()
        match arguments:
            case _ if function in _RECONSTRUCT:
                value: Any = PickledArray()
            case () if function in _BYTES:
                value = b""
            case (str() as text, "latin1" | "latin-1") if function == "_codecs.encode":
                value = self.encode(text)
            case (str() as code, _, _) if function == "numpy.dtype" and code in _INTEGERS:
                value = _DType(code)
            case _:
                called = shown([function]) if isinstance(function, str) else type(function).__name__
                raise _RefusedError(f"is refused: it calls {called} in a way that no data file needs")
        self.stack.append(value)

    def load_build(self) -> None:
        """Give an array or its type what the pickle says of it."""
        state, target = self.stack.pop(), self.stack[-1]
        match target, state:
            case PickledArray(), (_, tuple() as shape, _DType() as dtype, fortran, str() | bytes() as data):
                raw = data if isinstance(data, bytes) else self.encode(data)
                kind = np.dtype(dtype.order + dtype.code)
                if len(shape) > 4 or not all(type(n) is int and n >= 0 for n in shape):
                    raise ValueError("the shape of an array makes no sense")
                if math.prod(shape) * kind.itemsize != len(raw):
                    raise ValueError(f"an array of {kind} {shape} does not take {len(raw):,} bytes")
                target.array = np.frombuffer(raw, kind).reshape(shape, order="F" if fortran else "C")
            case _DType(), (_, "|" | "<" | ">" | "=" as order, *_):
                target.order = order
            case _:
                raise _RefusedError(f"is refused: it sets the state of a {type(target).__name__} as no data file does")

    def encode(self, text: str) -> bytes:
        """Text as bytes; a few opcodes could otherwise ask for copies of a long one without end."""
        self.left -= len(text)
        if self.left < 0:
            raise _RefusedError("is refused: it makes more of its texts than it holds")
        return text.encode("latin1")
