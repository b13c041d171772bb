"""JSON that somebody else may have written → plain values, within bounds of memory, depth and digits."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["parse_json", "read_json", "read_lines"]

LARGEST = 2**28
"""Bytes of a file. A run of 10,000 classes with 100 evaluations writes less."""
LONGEST = 2**25
"""Bytes of a line of metrics."""
LINES = 10**6
NESTED = 100_000
"""Lists and objects in one text: empty ones take twenty times the memory of their letters."""
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
    if content.count(b"[") + content.count(b"{") > NESTED:
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
