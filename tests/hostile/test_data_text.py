"""Texts that are hard to read: other encodings, control characters, words that may mean that nothing is there."""

import csv
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from halfsure.cli.using import write_rows
from halfsure.data import DataError, from_arrays, load
from halfsure.data.new import read

ROWS = "x,y\n1,a\n2,b\n3,\n"


def table(folder: Path, data: str | bytes, name: str = "t.csv") -> Path:
    (folder / name).write_bytes(data if isinstance(data, bytes) else data.encode())
    return folder / name


def classes(path: Path) -> tuple[tuple[str, ...], list[int]]:
    data = load(path, label_column="y")
    return data.classes, data.train.labels.tolist()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "ascii"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_table_in_utf8_with_any_line_ends(tmp_path: Path, encoding: str, end: str) -> None:
    assert classes(table(tmp_path, ROWS.replace("\n", end).encode(encoding))) == (("a", "b"), [0, 1, -1])


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-32"])
def test_a_table_in_another_encoding_is_refused(tmp_path: Path, encoding: str) -> None:
    path = table(tmp_path, ROWS.replace("a", "ä").encode(encoding))
    with pytest.raises(DataError, match=r"t.csv (holds NUL bytes|is text in no encoding).*save it in UTF-8"):
        load(path, label_column="y")


@pytest.mark.parametrize("piece", [b"\0", b"\x81", "é".encode() + b"\xff", b"\xff" + b"\x9d"])
def test_bytes_that_no_text_has_are_refused_and_not_dropped(tmp_path: Path, piece: bytes) -> None:
    with pytest.raises(DataError, match=r"t.csv (is text in no encoding|is damaged|holds NUL)"):
        load(table(tmp_path, ROWS.encode().replace(b"a", b"a" + piece + b"z")), label_column="y")


@pytest.mark.parametrize("piece", [b"\xed\xa0\x80", b"\xff", b"\xc0\xaf"])
def test_bytes_that_are_not_utf8_are_kept_and_said_aloud(tmp_path: Path, piece: bytes) -> None:
    with pytest.warns(UserWarning, match=r"t.csv is read as Windows-1252 text, for it is not UTF-8"):
        found = classes(table(tmp_path, ROWS.encode().replace(b"a", b"a" + piece + b"z")))
    assert found[0][0] == f"a{piece.decode('cp1252')}z"


@pytest.mark.parametrize("word", ["NA", "na", "N/A", "#N/A", "null", "NULL", "None", "?", "Unknown", "<NA>", " NA "])
def test_a_word_that_may_mean_a_class_or_nothing_is_refused(tmp_path: Path, word: str) -> None:
    path = table(tmp_path, f"x,y\n1,a\n2,b\n3,{word}\n4,\n")
    with pytest.raises(DataError, match=rf"t.csv at row 2: '{re.escape(word.strip())}' is no label; leave it empty or"):
        load(path, label_column="y")
    encoding = load(table(tmp_path, ROWS, "train.csv"), label_column="y").encoding
    with pytest.raises(DataError, match=r"at row 2: .* is no label"):
        read(path, encoding, shape=(2,))


@pytest.mark.parametrize(
    ("cells", "names", "labels"),
    [
        (["0.0", "1.0", ""], ("0", "1"), [0, 1, -1]),  # what pandas writes for whole numbers with a gap
        (["7", "007", "-1"], ("7",), None),
        (["2", "10", " "], ("2", "10"), [0, 1, -1]),
        (["True", "False", ""], ("False", "True"), [1, 0, -1]),
        (["TRUE", "false", ""], ("False", "True"), [1, 0, -1]),  # as spreadsheets write them
        (["TRUE", "maybe", ""], ("TRUE", "maybe"), [0, 1, -1]),
        (["Na", "Cl", ""], None, None),
        (["1", "x", ""], ("1", "x"), [0, 1, -1]),
        (["N.A.", "b", "NaN"], ("N.A.", "b"), [0, 1, -1]),
        (["=1+1", "@x", ""], ("=1+1", "@x"), [0, 1, -1]),
    ],
)
def test_labels_of_a_table(tmp_path: Path, cells: list[str], names: Any, labels: Any) -> None:
    path = table(tmp_path, "x,y\n" + "".join(f"{i},{cell}\n" for i, cell in enumerate(cells)))
    if labels is None:
        with pytest.raises(DataError, match=r"only the class '7'|'Na' is no label"):
            load(path, label_column="y")
    else:
        assert classes(path) == (names, labels)


def test_a_missing_value_in_another_column_is_still_missing(tmp_path: Path) -> None:
    data = load(table(tmp_path, "x,y\n1,a\nNA,b\n3,a\n"), label_column="y")
    assert data.train.samples[:, 1].tolist() == [0, 1, 0]


def test_a_word_that_may_mean_nothing_is_refused_in_a_file_that_marks_missing_values_too(tmp_path: Path) -> None:
    pd.DataFrame({"x": [1, 2, 3], "y": ["NA", "b", None]}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(DataError, match="row 0: 'NA' is no label"):
        load(tmp_path / "t.parquet", label_column="y")


def test_control_characters_do_not_reach_the_terminal_by_a_message(tmp_path: Path) -> None:
    bad = "\x1b[2J\x07"
    (tmp_path / "folder").mkdir()
    table(tmp_path / "folder", f"{bad},x\n1,2\n")
    np.savez(tmp_path / "x.npz", **{bad: np.zeros(2)})  # type: ignore[arg-type]
    for source in (tmp_path / "folder", table(tmp_path, f"{bad},x\n1,2\n"), tmp_path / "x.npz"):
        with pytest.raises(DataError) as caught:
            load(source, label_column="y" if source.suffix == ".csv" else None)
        assert "[2J" in str(caught.value)
        assert str(caught.value).isprintable()


def test_labels_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"the class 'a\\ud800' cannot be written"):
        from_arrays(np.eye(2), np.array(["a\ud800", "b"]))
    beyond = np.array([0x110000, ord("b")], np.uint32).view("<U1")
    np.savez(tmp_path / "x.npz", X=np.eye(2), y=beyond)
    with pytest.raises(DataError, match="a label cannot be read"):
        load(tmp_path / "x.npz")


def test_columns_of_lists_are_refused(tmp_path: Path) -> None:
    pd.DataFrame({"x": [[1, 2], [3]], "s": [{"a": 1}, {"a": 2}], "y": ["a", "b"]}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(DataError, match="lists or structures in the column 'x'"):
        load(tmp_path / "t.parquet", label_column="y")


def test_the_index_of_a_frame_is_no_column(tmp_path: Path) -> None:
    frame = pd.DataFrame({"id": [7, 8], "x": [1, 2], "y": ["a", "b"]}).set_index("id")
    frame.to_parquet(tmp_path / "t.parquet")
    data = load(tmp_path / "t.parquet", label_column="y")
    assert data.encoding is not None
    assert [column["name"] for column in data.encoding["columns"]] == ["x"]


@pytest.mark.parametrize("name", ["=cmd|' /C calc'!A0", "+1+1", "-x", "@SUM(A1)", "\t=1", '=HYPERLINK("http://x")'])
def test_predictions_keep_names_that_a_spreadsheet_takes_for_formulas(tmp_path: Path, name: str) -> None:
    """A CSV is data: a name that came in comes out the same, and docs/using.md warns of spreadsheets."""
    write_rows(tmp_path / "p.csv", {"name": [name], "label": [name]})
    text = (tmp_path / "p.csv").read_text(encoding="utf-8")
    assert list(csv.reader(io.StringIO(text, newline="")))[1] == [name, name]
