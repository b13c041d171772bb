"""Inputs that are nearly right: valid files with edits, texts that readers stumble over, JSON of any shape."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

__all__ = ["json_values", "mutated", "texts"]

EXTREMES = [
    *(bytes([value]) * size for value in (0x00, 0x7F, 0x80, 0xFF) for size in (1, 2, 4, 8)),
    *((2**40).to_bytes(8, order) for order in ("little", "big")),
]
"""Numbers at the edge of their type, as they stand in a file."""

TROUBLE = [
    "",
    "\0",
    "\ufeff",
    "\x1b[2J",
    "\u202e",
    "\ud800",
    "'",
    '"',
    "\\",
    "=1+1",
    "../x",
    "/",
    "<script>",
    "-1",
    "nan",
]
"""What texts are made of that somebody has to escape, quote or refuse."""

Edit = tuple[str, float, bytes]


@st.composite
def mutated(draw: st.DrawFn, *valid: bytes) -> bytes:
    """One of the valid files after up to eight edits: bits flipped, parts cut, doubled, overwritten or put in."""
    content = draw(st.sampled_from(valid))
    for kind, place, piece in draw(st.lists(edits(), max_size=8)):
        content = edited(content, kind, int(place * len(content)), piece)
    return content


def edits() -> SearchStrategy[Edit]:
    """A kind of edit, where in the file from 0 to 1, and bytes to do it with."""
    kinds = st.sampled_from(("flip", "cut", "end", "double", "put", "over"))
    pieces = st.sampled_from(EXTREMES) | st.binary(min_size=1, max_size=16)
    return st.tuples(kinds, st.floats(0, 1, exclude_max=True), pieces)


def edited(content: bytes, kind: str, at: int, piece: bytes) -> bytes:
    """Content after one edit."""
    if kind == "flip" and content:
        return content[:at] + bytes([content[at] ^ 1 << piece[0] % 8]) + content[at + 1 :]
    if kind == "cut":
        return content[:at] + content[at + piece[0] :]
    if kind == "end":
        return content[:at]
    if kind == "double":
        return content[:at] + content[at : at + 4 * len(piece)] + content[at:]
    if kind == "put":
        return content[:at] + piece + content[at:]
    return content[:at] + piece + content[at + len(piece) :]


def texts(max_size: int = 20) -> SearchStrategy[str]:
    """Texts of any letters, with pieces that cause trouble more often than chance would have it."""
    pieces = st.sampled_from(TROUBLE) | st.text(max_size=6)
    return st.lists(pieces, max_size=4).map(lambda parts: "".join(parts)[:max_size])


def json_values() -> SearchStrategy[Any]:
    """Values of any shape that JSON can hold, and some that only Python's can."""
    numbers = st.integers() | st.floats() | st.sampled_from([0, -1, 2**31, 2**63, 10**30, 1e308, float("nan")])
    leaves = st.none() | st.booleans() | numbers | texts()
    return st.recursive(
        leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts(), inner, max_size=4), max_leaves=12
    )
