"""Opening files that others made: plain files alone, and in words whatever is wrong with one."""

import errno
import gzip
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO

__all__ = ["DataError", "inside", "is_text", "open_plain", "opened", "short_lines", "shown"]

LONGEST_LINE = 2**22


class DataError(ValueError):
    """A data file is missing, damaged or not what it should be; the message names it."""


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a plain file, and turn whatever the system or a decompressor says of it into a sentence."""
    try:
        with open_plain(path) as file:
            yield file
    except FileNotFoundError as error:
        raise DataError(f"there is no file {path}") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path} is truncated or corrupt: {error or type(error).__name__}") from error
    except MemoryError as error:
        raise DataError(f"{path} asks for more memory than there is") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error


def open_plain(path: Path) -> BinaryIO:
    """Open a file for reading; a pipe or a device, which may have no end, is refused and not waited for."""
    if "\0" in os.fspath(path):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOCTTY", 0)
    descriptor = os.open(path, flags)
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, f"it is {'a folder' if stat.S_ISDIR(mode) else 'a pipe or a device'}")
    return os.fdopen(descriptor, "rb")


def short_lines(file: TextIO, name: Path) -> Iterator[str]:
    """The lines of a text; one that is too long to be meant is refused before it is in memory."""
    number = 0
    while line := file.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            raise DataError(f"{name}, line {number}: it is over {LONGEST_LINE:,} characters long")
        yield line


def is_text(name: str) -> bool:
    """Whether a name can be written as UTF-8, which the name of a file need not be."""
    return not any("\ud800" <= letter <= "\udfff" for letter in name)


def inside(folder: Path, path: Path) -> Path | None:
    """The file that a path leads to, None where it leads out of the folder or to something that is no file."""
    try:
        found = path.resolve()
        sound = found.is_relative_to(folder.resolve()) and (found.is_file() or not found.exists())
    except (OSError, RuntimeError, ValueError):  # links in a circle, names too long or with NUL
        return None
    return found if sound else None


def shown(names: list[str], most: int = 10) -> str:
    r"""Some names from a file for a message, so that none acts on a terminal and many do not fill it.

    Examples:
        >>> from halfsure.data.files import shown
        >>> print(shown(["a", "b\x1b[2J"] + ["c"] * 10, most=3))
        a, b�[2J, c and 9 more
    """
    clean = ["".join(c if c.isprintable() else "\ufffd" for c in name[:60]) for name in names[:most]]
    return ", ".join(clean) + (f" and {len(names) - most} more" if len(names) > most else "")
