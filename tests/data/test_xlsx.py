"""Excel files: read as the same table in CSV, within bounds."""

import io
import sys
import zipfile
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from halfsure.data import DataError, DataWarning, load, xlsx
from halfsure.data.new import read
from tests.hostile.bombs import deflated

pd = pytest.importorskip("pandas", reason="tables need the extra halfsure[tables]")
openpyxl = pytest.importorskip("openpyxl", reason="Excel files need the extra halfsure[xlsx]")

ROWS: list[list[Any]] = [["age", "city", "note", "label"], [30, "Rome", "a long text of words", "yes"]]
ROWS += [[40.5, "Oslo", 'another "text", of\nmany words', "no"], [None, "Rome", "a long text again here", None]]
ROWS += [[50, None, "", -1], [7, "007", "some more words to say", "yes"]]


def book(file: Path, rows: list[list[Any]], *more: str) -> Path:
    made = openpyxl.Workbook()
    for row in rows:
        made.active.append(row)
    for title in more:
        made.create_sheet(title).append(["other"])
    made.save(file)
    return file


def test_a_sheet_is_the_same_table_as_its_csv(tmp_path: Path) -> None:
    file = book(tmp_path / "t.xlsx", ROWS)
    frame = pd.DataFrame(ROWS[1:], columns=ROWS[0])
    frame.to_csv(tmp_path / "t.csv", index=False)
    data, plain = load(file, label_column="label"), load(tmp_path / "t.csv", label_column="label")
    assert data.classes == ("no", "yes")
    assert data.train.labels.tolist() == [1, 0, -1, -1, 1]
    np.testing.assert_array_equal(data.train.samples, plain.train.samples)
    new = read(file, plain.encoding, shape=plain.train.samples.shape[1:])
    np.testing.assert_array_equal(new.samples, plain.train.samples)
    assert new.labels == ["yes", "no", None, None, "yes"]


def test_sheets_rows_and_columns_that_hold_nothing(tmp_path: Path) -> None:
    plain = load(book(tmp_path / "plain.xlsx", ROWS), label_column="label")
    spread = [[], [], *[[*row, None, None] for row in ROWS[:3]], [], *ROWS[3:], [None, None]]
    assert load(book(tmp_path / "spread.xlsx", spread), label_column="label").train.labels.tolist() == [1, 0, -1, -1, 1]
    with pytest.warns(UserWarning, match=r"many.xlsx is read from the first of its 2 sheets, Sheet"):
        many = load(book(tmp_path / "many.xlsx", ROWS, "Notes"), label_column="label")
    np.testing.assert_array_equal(many.train.samples, plain.train.samples)


def test_a_size_that_a_program_wrote_wrong_hides_no_row(tmp_path: Path) -> None:
    file = book(tmp_path / "t.xlsx", ROWS)
    change(file, "xl/worksheets/sheet1.xml", lambda data: data.replace(b'ref="A1:D6"', b'ref="A1"'))
    assert len(load(file, label_column="label").train) == 5


def test_dates_and_words(tmp_path: Path) -> None:
    rows: list[list[Any]] = [
        ["when", "x", "label"],
        *[[date(2026, 1, day + 1), day, "ab"[day % 2]] for day in range(4)],
    ]
    with pytest.warns(DataWarning, match=r"'when' holds dates, such as 2026-01-01"):
        assert len(load(book(tmp_path / "t.xlsx", rows), label_column="label").train) == 4
    rows[2][2] = "#N/A"
    with pytest.raises(DataError, match=r"t.xlsx at row 1: '#N/A' is no label"):
        load(book(tmp_path / "t.xlsx", rows), label_column="label")


def test_without_openpyxl_it_is_said_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = book(tmp_path / "t.xlsx", ROWS)
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(
        DataError, match=r"t.xlsx is an Excel file, which needs openpyxl: pip install 'halfsure\[xlsx\]'"
    ):
        load(file, label_column="label")


def change(file: Path, name: str, how: Any) -> Path:
    """Rewrite one file in the archive."""
    with zipfile.ZipFile(file) as archive:
        members = {member: archive.read(member) for member in archive.namelist()}
    members[name] = how(members.get(name, b""))
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, data in members.items():
            archive.writestr(member, data)
    return file


SHEET = "xl/worksheets/sheet1.xml"
TAG = b'<c r="A1"/>'


@pytest.mark.parametrize(
    ("name", "how", "message"),
    [
        (SHEET, lambda data: b"<!DOCTYPE x [<!ENTITY a 'b'>]>" + data, "declares entities"),
        (SHEET, lambda data: b"<!-- " + b"-" * 2**20 + b" --><!DOCTYPE x>" + data, "declares entities"),
        (SHEET, lambda data: data.decode().encode("utf-16"), "in an encoding that Excel does not use"),
        (
            SHEET,
            lambda data: b'<?xml version="1.0" encoding="cp037"?>' + data,
            "in an encoding that Excel does not use",
        ),
        (
            SHEET,
            lambda data: b"<?xml" + b" " * 300 + b'encoding="cp037"?>' + data,
            "in an encoding that Excel does not",
        ),
        ("xl/media/1.png", lambda data: b"<a>" + TAG * 3000, "more than 4,096 tags and is too large for an Excel file"),
        ("xl/styles.xml", lambda data: data + TAG * 3000, "more than 4,096 tags"),
        (SHEET, lambda data: data.replace(b'<row r="6"', b'<row r="99999999999"'), r"more than 1,048,576 rows"),
        (SHEET, lambda data: data[:-20], "cannot be read as a table"),
        ("xl/workbook.xml", lambda data: b"", "cannot be read as a table"),
    ],
)
def test_files_made_to_do_harm_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, how: Any, message: str
) -> None:
    file = book(tmp_path / "t.xlsx", ROWS)
    monkeypatch.setattr(xlsx, "MOST_MARKS", 4096)
    load(file, label_column="label")
    with pytest.raises(DataError, match=rf"t.xlsx .*{message}"):
        load(change(file, name, how), label_column="label")


def test_a_picture_in_the_file_is_left_alone(tmp_path: Path) -> None:
    file = change(book(tmp_path / "t.xlsx", ROWS), "xl/media/1.png", lambda _: b"\x89PNG\0" + b"<!DOCTYPE=" * 10**6)
    assert len(load(file, label_column="label").train) == 5


def test_more_than_is_meant_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = book(tmp_path / "t.xlsx", [*ROWS, *[[1, "x", "w" * 200, "yes"]] * 30])
    for bound, most, message in (
        ("MOST_FILES", 3, r"holds \d+ files; an Excel file has a few"),
        ("MOST_BYTES", 5000, r"unpacks to .* bytes and is too large"),
        ("MOST_CELLS", 40, "has more than 10 rows"),
        ("MOST_ROWS", 9, "has more than 9 rows"),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(xlsx, bound, most)
            with pytest.raises(DataError, match=message):
                load(file, label_column="label")
    monkeypatch.setattr(xlsx, "MOST_LETTERS", 900)
    with pytest.raises(DataError, match="has more than 900 letters"):
        xlsx._written([("a" * 100,)] * 10)


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("xl/workbook.xml", deflated(b"<a>", 2**30))
        (member,) = archive.infolist()
        member.file_size, member.compress_type = 2**30 + 3, zipfile.ZIP_DEFLATED
    data = file.getvalue()
    (tmp_path / "t.xlsx").write_bytes(data[:8] + b"\x08\x00" + data[10:])
    with pytest.raises(DataError, match=r"unpacks to 1,073,741,827 bytes and is too large for an Excel file"):
        load(tmp_path / "t.xlsx", label_column="label")
