"""Tables, lists of pictures, and encodings of tables."""

import io
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from PIL import Image

from halfsure.data import DataError, load
from halfsure.data.listing import listed
from halfsure.data.new import read
from halfsure.data.tables import read_frame
from tests.fuzz.strategies import json_values, mutated, texts
from tests.fuzz.target import Target

FRAME = pd.DataFrame({"n": [1.5, None, 3.0], "c": ["u", "v", None], "y": ["a", "b", None]})
TEXT = FRAME.assign(t=["one two three four five", "six seven eight nine", "ten eleven twelve one"])
CSV = FRAME.to_csv(index=False).encode()
QUOTED = b'n,c,y\n"1,5","a ""quoted""\nword",a\n2,,"b"\n'


def parquet_bytes(frame: pd.DataFrame, **options: Any) -> bytes:
    file = io.BytesIO()
    frame.to_parquet(file, **options)
    return file.getvalue()


PARQUET = [parquet_bytes(FRAME, compression=None), parquet_bytes(FRAME.set_index("n"), compression="gzip")]


def xlsx_bytes(frame: pd.DataFrame) -> bytes:
    file = io.BytesIO()
    frame.to_excel(file, index=False)
    return file.getvalue()


XLSX = xlsx_bytes(FRAME)


def unpacked() -> SearchStrategy[bytes]:
    """An Excel file of which one part is damaged; damage to the packed whole is found by checksums."""
    with zipfile.ZipFile(io.BytesIO(XLSX)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}

    def packed(name: str, data: bytes) -> bytes:
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            for part, content in (parts | {name: data}).items():
                archive.writestr(part, content)
        return file.getvalue()

    return st.sampled_from(sorted(parts)).flatmap(lambda name: mutated(parts[name]).map(lambda d: packed(name, d)))


def rows() -> SearchStrategy[bytes]:
    """Tables of cells that are hard to read, quoted or not."""
    cells = texts() | st.sampled_from(["1", "-1", "2.5", "NA", "", '"x"', '"', "a", "b", "1e400", "inf", "0x1", "1_0"])
    lines = st.lists(st.lists(cells, min_size=1, max_size=4).map(",".join), min_size=1, max_size=6)
    heads = st.sampled_from(["n,c,y", "y,n", "n,n,y", "y", ",y", '"n\n",y']) | texts()
    ends = st.sampled_from(["\n", "\r\n", "\r"])
    return st.builds(
        lambda head, body, end: end.join([head, *body]).encode("utf-8", "surrogatepass"), heads, lines, ends
    )


def dialects() -> SearchStrategy[bytes]:
    """The same rows with other marks between cells, in other encodings."""
    marks, kinds = st.sampled_from(";\t|"), st.sampled_from(["utf-8", "utf-16", "cp1252"])
    return st.builds(
        lambda data, mark, kind: data.decode("utf-8", "replace").replace(",", mark).encode(kind, "replace"),
        rows() | mutated(CSV, QUOTED),
        marks,
        kinds,
    )


def quiet(read: Callable[[Any, Path], None]) -> Callable[[Any, Path], None]:
    """The same without what is said of separators, encodings and lists."""

    def reader(data: Any, folder: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            read(data, folder)

    return reader


@quiet
def read_csv(data: bytes, folder: Path) -> None:
    (folder / "t.csv").write_bytes(data)
    load(folder / "t.csv", label_column="y")


def read_xlsx(data: bytes, folder: Path) -> None:
    (folder / "t.xlsx").write_bytes(data)
    load(folder / "t.xlsx", label_column="y")


@quiet
def read_text(data: bytes, folder: Path) -> None:
    for name, content in (("a/1", b"one two"), ("b/1", b"two one"), ("b/2", data)):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / f"{name}.txt").write_bytes(content)
    load(folder)


def read_parquet(data: bytes, folder: Path) -> None:
    (folder / "t.parquet").write_bytes(data)
    load(folder / "t.parquet", label_column="y")


TRAINED = read_frame(TEXT, "y")
ENCODING, SHAPE = TRAINED.encoding or {}, TRAINED.train.samples.shape[1:]


@quiet
def read_new(data: bytes, folder: Path) -> None:
    (folder / "t.csv").write_bytes(data)
    read(folder / "t.csv", ENCODING, shape=SHAPE, lenient=len(data) % 2 == 0)


def read_encoded(encoding: dict[str, Any], folder: Path) -> None:
    (folder / "t.csv").write_bytes(TEXT.to_csv(index=False).encode())
    read(folder / "t.csv", {"kind": "table"} | encoding, shape=SHAPE, lenient=True)


def encodings() -> SearchStrategy[dict[str, Any]]:
    """A sound encoding with one field of it, or of one of its columns, replaced."""

    def changed(place: int, field: str, value: Any) -> dict[str, Any]:
        columns = [dict(column) for column in ENCODING["columns"]]
        columns[place % len(columns)][field] = value
        return ENCODING | {"columns": columns}

    fields = st.sampled_from(["name", "kind", "mean", "scale", "categories", "more", "text"]) | texts()
    one = st.builds(changed, st.integers(0, 3), fields, json_values())
    whole = st.builds(lambda key, value: ENCODING | {key: value}, st.sampled_from(["label", "columns"]), json_values())
    return one | whole


def paths() -> SearchStrategy[bytes]:
    """Lists of pictures, with paths of every kind."""
    names = st.sampled_from(["0.png", "in/1.png", "../2.png", "/etc/passwd", "link", "loop", ".", "a" * 300]) | texts()
    lines = st.lists(st.tuples(names, st.sampled_from(["a", "b", "", "NA", "-1"]) | texts()).map(",".join), max_size=5)
    return lines.map(lambda body: "\n".join(["path,label", *body]).encode("utf-8", "surrogatepass"))


@quiet
def read_list(data: bytes, folder: Path) -> None:
    """What is listed lies in the folder, whatever the list says."""
    inner = folder / "set"
    (inner / "in").mkdir(parents=True)
    for name in ("0.png", "in/1.png", "../2.png"):
        (inner / name).write_bytes(PICTURE)
    (inner / "link").symlink_to(folder / "2.png")
    (inner / "loop").symlink_to("loop")
    (inner / "labels.csv").write_bytes(data)
    for path in listed(inner, inner / "labels.csv").paths:
        if not path.is_relative_to(inner.resolve()):
            raise AssertionError(f"{path} lies outside")


def picture() -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.zeros((4, 4), np.uint8)).save(file, "PNG")
    return file.getvalue()


PICTURE = picture()
LIST = b"path,label\n0.png,a\nin/1.png,b\n"
TARGETS = [
    Target("CSV table", mutated(CSV, QUOTED) | rows(), read_csv, (DataError,), 2),
    Target("table in another dialect", dialects(), read_csv, (DataError,)),
    Target("Excel table", mutated(XLSX) | unpacked(), read_xlsx, (DataError,)),
    Target(
        "folder of texts",
        st.binary(max_size=40) | texts().map(lambda t: t.encode("utf-8", "surrogatepass")),
        read_text,
        (DataError,),
    ),
    Target("Parquet table", mutated(*PARQUET), read_parquet, (DataError,), 2),
    Target("new table", mutated(TEXT.to_csv(index=False).encode()) | rows(), read_new, (DataError,)),
    Target("encoding of a table", encodings(), read_encoded, (DataError,)),
    Target("list of pictures", mutated(LIST) | paths() | rows(), read_list, (DataError,)),
]
