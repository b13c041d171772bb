"""How kernels are compiled for the CPU, and the types they count in."""

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba import types

__all__ = ["At", "Byte", "Real", "Short", "Unsigned", "Wide", "cached", "compiled", "compiled_with", "fixed", "inlined"]

F = TypeVar("F", bound=Callable[..., Any])

Byte, Short, Wide, Unsigned, Real = np.uint8, np.uint16, np.int32, np.uint32, np.float32
At = np.uintp  # an index that cannot be negative: numba need not ask, and the loop around it runs on vectors

OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}


def compiled(function: F) -> F:
    """Compile when a compiled caller is."""
    return cast(F, numba.njit(**OPTIONS)(function))


def compiled_with(fastmath: frozenset[str]) -> Callable[[F], F]:
    """The same, with some freedom in floating-point arithmetic."""
    return cast(Callable[[F], F], numba.njit(fastmath=set(fastmath), **OPTIONS))


def inlined(function: F) -> F:
    """Compile into the callers, whose loops can then run on vectors and whose constants are known."""
    return cast(F, numba.njit(inline="always", **OPTIONS)(function))


def cached(signature: Any, *parts: ModuleType, fastmath: frozenset[str] = frozenset()) -> Callable[[F], F]:
    """Compile, or load what an earlier process compiled unless this file or one of the parts has changed.

    At once for a signature; without one, for each combination of types when it is first called with it.
    """
    sources = [Path(cast(str, part.__file__)).read_bytes() for part in parts]
    digest = sha256(b"".join([Path(__file__).read_bytes(), *sources])).hexdigest()[:12]

    def compile_now(function: F) -> F:
        # numba itself looks for changes only in the file of the function. It keeps one entry a name.
        function.__qualname__ += f"_{digest}"
        options = {"fastmath": set(fastmath), **OPTIONS}
        try:
            return cast(F, numba.njit(signature, cache=True, **options)(function))
        except RuntimeError:  # no folder can be written to: every process compiles for itself
            return cast(F, numba.njit(signature, **options)(function))

    return compile_now


def fixed(dtype: Any, ndim: int) -> Any:
    """A read-only array type, which takes writable arrays too: one compilation for both."""
    return types.Array(dtype, ndim, "C", readonly=True)
