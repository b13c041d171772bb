"""Files: JSON that somebody else may have written, within bounds of memory and depth; and atomic writes."""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

__all__ = ["file_digest", "parse_json", "put", "read_json", "read_lines", "reason", "write", "write_part"]

LARGEST = 2**28
"""Bytes of a file. A run of 10,000 classes with 100 evaluations writes less."""
LONGEST = 2**25
"""Bytes of a line of metrics."""
LINES = 10**6
NESTED = 100_000
"""Lists and objects in one text: empty ones take twenty times the memory of their letters. A longer text may have
one for every `SPARSE` letters: a checkpoint holds all evaluations of its run."""
SPARSE = 32
DIGITS = 19


def read_json(file: Path) -> Any:
    """The value in a file; what is no JSON, or too much of it, is a `ValueError` that says so."""
    with file.open("rb") as opened:
        content = opened.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise ValueError(f"it has more than {LARGEST:,} bytes")
    return parse_json(content)


def read_lines(file: Path) -> Iterator[dict[str, Any]]:
    """The objects in a file, one a line; a line that is cut off, or holds no object, is left out."""
    left = LARGEST
    with file.open("rb") as opened:
        for number in range(LINES + 1):
            text = opened.readline(LONGEST)
            left -= len(text)
            if not text:
                return
            if left < 0 or number == LINES:
                break
            try:
                found = parse_json(text)
            except ValueError:
                continue
            if isinstance(found, dict):
                yield found
    raise ValueError(f"it has more than {LINES:,} lines or {LARGEST:,} bytes")


def parse_json(content: bytes) -> Any:
    """The value of a text, within the same bounds of nesting and digits."""
    if content.count(b"[") + content.count(b"{") > max(NESTED, len(content) // SPARSE):
        raise ValueError("it is nested more than anything that halfsure writes")
    try:
        return json.loads(content, parse_int=_whole, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise ValueError("it is not valid JSON") from None


def _whole(digits: str) -> int:
    """A whole number of about 64 bits: longer ones overflow wherever they are used."""
    if len(digits.removeprefix("-")) > DIGITS:
        raise ValueError(f"{digits[:DIGITS]}… is beyond all bounds")
    return int(digits)


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is no number")


def file_digest(file: Path) -> str:
    """SHA-256 of a file's bytes."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def reason(error: BaseException) -> str:
    """Why something failed, without the number that systems put before it."""
    said = error.strerror if isinstance(error, OSError) else str(error)
    return (said or str(error) or type(error).__name__).splitlines()[0]


def write(file: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    part = write_part(file, content)
    try:
        put(part, file)
    except OSError:
        _discard(part)
        raise


def put(part: Path, file: Path) -> None:
    """Give a whole file its name, for good; what had that name before is gone."""
    os.replace(part, file)
    sync(file.parent)


def write_part(file: Path, content: bytes) -> Path:
    """Write a file's content beside it, down to the disk; if that fails nothing is left behind."""
    part = file.with_name(file.name + ".part")
    try:
        part.unlink(missing_ok=True)  # what is left of a process that died, or a link that leads elsewhere
        with open(part, "xb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
    except OSError as error:
        _discard(part)
        raise OSError(error.errno, reason(error), str(file)) from error  # a failed write knows of no file
    except BaseException:
        _discard(part)
        raise
    return part


def _discard(part: Path) -> None:
    """Remove a file; where that fails too, what went wrong first is told."""
    with suppress(OSError):
        part.unlink(missing_ok=True)


def sync(folder: Path) -> None:
    """Make renames in a folder last, where the system can open folders."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
