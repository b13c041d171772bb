"""Arrays in files and in memory, and split files."""

import io
import json
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from halfsure.data import DataError, Split, from_arrays, load
from halfsure.data.new import read
from tests.fuzz.strategies import json_values, mutated, texts
from tests.fuzz.target import Target

CODES = [
    "<f4",
    ">f8",
    "<f2",
    "|u1",
    "<i8",
    ">i2",
    "|b1",
    "<U3",
    "|S2",
    "<U0",
    "|O",
    "<c8",
    "<M8[D]",
    "|V3",
    "<f16",
    "?",
]
NUMBERS = st.sampled_from([0, 1, 2, 3, 4, 8, -1, 2**31, 10**12, 2**63])


def npy_bytes(value: Any) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, np.asarray(value), allow_pickle=False)
    return file.getvalue()


def zip_bytes(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data, method)
    return file.getvalue()


def claimed(descr: Any, shape: Any, order: Any, body: bytes) -> bytes:
    """An `.npy` file whose head claims anything."""
    text = f"{{'descr': {descr!r}, 'fortran_order': {order!r}, 'shape': {shape!r}, }}\n".encode("utf-8", "replace")
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + body


def claims() -> SearchStrategy[bytes]:
    shapes = st.lists(NUMBERS, max_size=4).map(tuple) | json_values()
    bodies = st.binary(max_size=40) | st.sampled_from([bytes(16), bytes(32), bytes(64)])
    return st.builds(claimed, st.sampled_from(CODES) | texts(), shapes, st.booleans() | json_values(), bodies)


X, Y = npy_bytes(np.eye(4, 2, dtype=np.float32)), npy_bytes([0, 1, -1, 1])
NAMES = npy_bytes(["a", "b"])
WHOLE = zip_bytes({"X.npy": X, "y.npy": Y, "classes.npy": NAMES})
STORED = zip_bytes({"X.npy": X, "y.npy": Y}, zipfile.ZIP_STORED)
FILES = claims() | mutated(X, Y, NAMES)


def read_archive(data: bytes, folder: Path) -> None:
    (folder / "x.npz").write_bytes(data)
    load(folder / "x.npz")


def read_members(members: dict[str, bytes], folder: Path) -> None:
    read_archive(zip_bytes({f"{name}.npy": data for name, data in members.items()}), folder)


def read_folder(members: dict[str, bytes], folder: Path) -> None:
    (folder / "X.npy").write_bytes(X)
    for name, data in members.items():
        (folder / f"{name}.npy").write_bytes(data)
    load(folder)


def read_new(members: dict[str, bytes], folder: Path) -> None:
    (folder / "x.npz").write_bytes(zip_bytes({f"{name}.npy": data for name, data in members.items()}))
    read(folder / "x.npz", None, shape=(2,))


def members() -> SearchStrategy[dict[str, bytes]]:
    """Arrays by name, one or two of them strange."""
    strange = st.dictionaries(st.sampled_from(["X", "y", "X_test", "y_test", "classes"]), FILES, max_size=2)
    return strange.map(lambda odd: {"X": X, "y": Y} | odd)


def read_labels(labels: list[Any], folder: Path) -> None:
    from_arrays(np.zeros((len(labels), 2)), labels)


def read_split(data: bytes, folder: Path) -> None:
    (folder / "s.json").write_bytes(data)
    Split.load(folder / "s.json").indices(np.array([0, 1, -1, 1]), ("a", "b"))


SPLIT = {"format": 1, "source": "x", "seed": 0, "size": 4, "labeled": {"a": [0], "b": [1, 3]}}
CHANGED = st.dictionaries(st.sampled_from([*SPLIT]), json_values(), max_size=2).map(lambda new: SPLIT | new)
INSIDE = st.dictionaries(st.sampled_from(["a", "b"]) | texts(), st.lists(NUMBERS), max_size=3)
SPLITS = (
    mutated(json.dumps(SPLIT).encode())
    | CHANGED.map(lambda fields: json.dumps(fields).encode())
    | INSIDE.map(lambda labeled: json.dumps(SPLIT | {"labeled": labeled}).encode())
)
LABELS = st.lists(json_values() | texts() | st.binary(max_size=3) | st.sampled_from([0, 1, -1]), max_size=6)
TARGETS = [
    Target("npz", mutated(WHOLE, STORED), read_archive, (DataError,), 2),
    Target("npz of strange arrays", members(), read_members, (DataError,)),
    Target("npy in a folder", members(), read_folder, (DataError,)),
    Target("new arrays", members(), read_new, (DataError,)),
    Target("labels", LABELS, read_labels, (DataError,)),
    Target("split file", SPLITS, read_split, (DataError,), 2),
]
