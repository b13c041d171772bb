"""Pickles read without unpickling: containers, numbers, text and arrays of integers, and nothing else.

A pickle is a program, and `pickle.load` runs it. Here its opcodes are read one by one, those outside a short list are
refused by name, and the few functions that a CIFAR batch mentions stand for values of ours: no code is looked up,
imported or called, so a hostile file can do no more than be refused.
"""

import math
import pickletools
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["PickledArray", "read_pickle"]


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
        return _Machine(len(data)).run(data)
    except (TypeError, IndexError, KeyError, AttributeError, OverflowError, MemoryError) as error:
        raise ValueError(f"is truncated or corrupt: its pickle makes no sense ({type(error).__name__})") from error


@dataclass(frozen=True)
class _Name:
    """A global that a pickle mentions; only ever compared, never resolved."""

    name: str


@dataclass
class _DType:
    code: str
    order: str = "="


_INTEGERS = [f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)]
_RECONSTRUCT = [_Name(f"numpy.{core}.multiarray._reconstruct") for core in ("core", "_core")]
_ENCODE = [_Name("_codecs.encode"), _Name("codecs.encode")]
_BYTES = [_Name("__builtin__.bytes"), _Name("builtins.bytes")]
_DTYPE = _Name("numpy.dtype")
_NAMES = {*_RECONSTRUCT, *_ENCODE, *_BYTES, _DTYPE, _Name("numpy.ndarray")}
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_LITERALS = {
    *("SHORT_BINSTRING", "BINSTRING", "SHORT_BINBYTES", "BINBYTES", "BINBYTES8"),
    *("SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"),
}
_MOST = 2_000_000  # opcodes; a batch of 50,000 images has 500,000 where Python 3 wrote it
_TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


class _Machine:
    """The stack machine that a pickle is written for, cut down to what data needs."""

    def __init__(self, size: int) -> None:
        self.left = size
        """Bytes that texts may still become: a file holds each of them once, so no more than it has itself."""
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def run(self, data: bytes) -> Any:
        try:
            for opcode, argument, _ in islice(pickletools.genops(data), _MOST):
                if opcode.name == "STOP":
                    return self.stack.pop()
                self.step(opcode.name, argument)
        except _RefusedError:
            raise
        except ValueError as error:
            raise ValueError(f"is truncated or corrupt: {error}") from error
        raise ValueError(f"is truncated: its pickle has no end within {_MOST:,} opcodes")

    def step(self, name: str, argument: Any) -> None:  # noqa: PLR0912 (a branch an opcode)
        stack = self.stack
        if name in _LITERALS:
            stack.append(argument)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in ("BINPUT", "LONG_BINPUT"):
            self.memo[argument] = stack[-1]
        elif name == "MEMOIZE":
            self.memo[len(self.memo)] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(self.memo[argument])
        elif name == "MARK":
            self.marks.append(len(stack))
        elif name in _TUPLES:
            stack.append(tuple(self.take(_TUPLES[name])))
        elif name == "TUPLE":
            stack.append(tuple(self.take()))
        elif name == "EMPTY_LIST":
            stack.append([])
        elif name == "EMPTY_DICT":
            stack.append({})
        elif name in ("APPEND", "APPENDS"):
            items = self.take(1 if name == "APPEND" else None)
            stack[-1].extend(items)
        elif name in ("SETITEM", "SETITEMS"):
            items = self.take(2 if name == "SETITEM" else None)
            if not all(isinstance(key, str | bytes) for key in items[::2]):  # hashing deep tuples can end the process
                raise ValueError("the keys of a dictionary must be text")
            stack[-1].update(zip(items[::2], items[1::2], strict=True))
        elif name in ("GLOBAL", "STACK_GLOBAL"):
            words = argument.split(" ", 1) if name == "GLOBAL" else self.take(2)
            stack.append(_known(_Name(".".join(words))))
        elif name == "REDUCE":
            stack.append(self.spend(_reduce(*self.take(2))))
        elif name == "BUILD":
            state = self.take(1)[0]
            _build(stack[-1], state)
            if isinstance(stack[-1], PickledArray) and isinstance(state[4], str):
                self.spend(state[4])
        elif name not in ("PROTO", "FRAME"):
            raise _RefusedError(f"is refused: no data file needs the pickle opcode {name}")

    def spend(self, value: Any) -> Any:
        """Note what a text becomes: a few bytes could otherwise ask for copies of a long one without end."""
        self.left -= len(value) if isinstance(value, str | bytes) else 0
        if self.left < 0:
            raise _RefusedError("is refused: it makes more of its texts than it holds")
        return value

    def take(self, count: int | None = None) -> list[Any]:
        """Remove and return the last items of the stack, those since the last mark if no number is given."""
        start = self.marks.pop() if count is None else len(self.stack) - count
        if not max(self.marks, default=0) <= start <= len(self.stack):
            raise ValueError("the pickle takes more from its stack than it has put there")
        items = self.stack[start:]
        del self.stack[start:]
        return items


class _RefusedError(ValueError):
    """Something that could be meant in earnest, and is not for a data file."""


def _known(name: _Name) -> _Name:
    if name not in _NAMES:
        raise _RefusedError(f"is refused: it asks for {name.name}, which no data file needs")
    return name


def _reduce(function: Any, arguments: Any) -> Any:
    """What a call in a pickle stands for."""
    if function in _RECONSTRUCT:
        return PickledArray()
    if function in _BYTES and arguments == ():
        return b""
    if function in _ENCODE and arguments[1] in ("latin1", "latin-1"):
        return arguments[0].encode("latin1")
    if function == _DTYPE and any(arguments[0] == code for code in _INTEGERS):
        return _DType(arguments[0])
    called = function.name if isinstance(function, _Name) else type(function).__name__
    raise _RefusedError(f"is refused: it calls {called} in a way that no data file needs")


def _build(target: Any, state: Any) -> None:
    """Give an array or its type what the pickle says of it."""
    if isinstance(target, PickledArray):
        target.array = _to_numpy(state)
    elif isinstance(target, _DType) and state[1] in ("|", "<", ">", "="):
        target.order = state[1]
    else:
        raise _RefusedError(f"is refused: it sets the state of a {type(target).__name__}")


def _to_numpy(state: Any) -> NDArray[Any]:
    _, shape, dtype, fortran, data = state
    raw = data if isinstance(data, bytes) else data.encode("latin1")
    kind = np.dtype(dtype.order + dtype.code)
    if len(shape) > 4 or not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError("the shape of an array makes no sense")
    if math.prod(shape) * kind.itemsize != len(raw):
        raise ValueError(f"an array of {kind} {tuple(shape)} does not take {len(raw):,} bytes")
    return np.frombuffer(raw, kind).reshape(shape, order="F" if fortran else "C")
