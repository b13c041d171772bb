"""Arrays too large for memory: filled in a file of their own, which takes its name once it is whole.

Another process may have the file of that name mapped. Its pages stay as they are: the name is given to another file,
and nothing is ever written into the old one.
"""

import os
import platform
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfsure._disk import put
from halfsure.data.files import DataError

__all__ = ["begin", "discard", "finish"]


def begin(file: Path, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """An array of bytes to fill, its room on the disk taken already; those of processes that died are removed."""
    own = f"{file.name}.{sha256(platform.node().encode()).hexdigest()[:8]}."  # of this machine, which need not be named
    part = file.with_name(f"{own}{os.getpid()}.part")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        for left in file.parent.glob(f"{own}*.part"):
            if not _alive(left.name.removeprefix(own).removesuffix(".part")):
                left.unlink(missing_ok=True)
        array = np.lib.format.open_memmap(part, mode="w+", dtype=np.uint8, shape=shape)
        _reserve(part)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise DataError(f"the decoded images do not fit into {file.parent}: {error.strerror}") from None
    return array


def finish(array: NDArray[np.uint8], file: Path | None) -> NDArray[np.uint8]:
    """Give a filled array its name; one in memory stays as it is."""
    if file is None or not (part := _part(array)):
        return array
    put(Path(part), file)
    found: NDArray[np.uint8] = np.load(file, mmap_mode="r+")  # by its name other processes can open it too
    return found


def discard(array: NDArray[np.uint8]) -> None:
    """Remove the file of an array that could not be filled."""
    if part := _part(array):
        Path(part).unlink(missing_ok=True)


def _part(array: Any) -> str:
    return str(array.filename) if isinstance(array, np.memmap) else ""


def _reserve(part: Path) -> None:
    """Take the room: on a full disk a process would else be killed where a page is first written."""
    if hasattr(os, "posix_fallocate"):
        with part.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, part.stat().st_size)


def _alive(pid: str) -> bool:
    """Whether a process of this machine lives; where that cannot be known it does."""
    if os.name != "posix" or not pid.isdecimal():
        return True
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
