"""Tables as people have them: separators, encodings, decimal commas, lists of files; what was found is said."""

import csv
import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from halfsure.data import DataError, load
from halfsure.data import dialect as module
from halfsure.data.dialect import find_dialect
from halfsure.data.listing import listed
from halfsure.data.new import read

pd = pytest.importorskip("pandas", reason="tables need the extra halfsure[tables]")

ROWS = [["größe", "note", "label"], ["1", "wie, bitte; ja", "süß"], ["2", "a|b\tc", "sauer"], ["", "„“", ""]]
ROWS += [["3", 'er sagte "nein"', "süß"]]


def text(rows: list[list[str]], separator: str) -> str:
    file = io.StringIO(newline="")
    csv.writer(file, delimiter=separator).writerows(rows)
    return file.getvalue()


def put(file: Path, data: str | bytes, encoding: str = "utf-8") -> Path:
    file.write_bytes(data if isinstance(data, bytes) else data.encode(encoding))
    return file


def quiet(file: Path, **how: Any) -> Any:
    """What a table holds, and what is said of how it was read."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        data = load(file, label_column="label", **how)
    return data, " ".join(str(one.message) for one in said)


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "cp1252"])
def test_separators_and_encodings_are_found_and_said(
    tmp_path: Path, suffix: str, separator: str, encoding: str
) -> None:
    plain, _ = quiet(put(tmp_path / "plain.csv", text(ROWS, ",")))
    mark = b"\xfe\xff" if encoding == "utf-16-be" else b""
    file = put(tmp_path / f"t{suffix}", mark + text(ROWS, separator).encode(encoding))
    data, said = quiet(file)
    assert data.classes == plain.classes == ("sauer", "süß")
    assert data.train.labels.tolist() == [1, 0, -1, 1]
    np.testing.assert_array_equal(data.train.samples, plain.train.samples)
    assert ("between cells" in said) == (separator != {".csv": ",", ".tsv": "\t"}[suffix])
    assert ("UTF-16" in said, "Windows-1252" in said) == (encoding.startswith("utf-16"), encoding == "cp1252")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        new = read(file, data.encoding, shape=data.train.samples.shape[1:])
    np.testing.assert_array_equal(new.samples, plain.train.samples)


@given(
    st.lists(st.lists(st.text('ab,;|\t 1"', max_size=4), min_size=2, max_size=2), max_size=5), st.sampled_from(",;\t|")
)
def test_a_table_is_read_as_it_was_written(rows: list[list[str]], separator: str) -> None:
    """The header says which it is, however the cells look."""
    data = text([["one", "two"], *rows], separator).encode()
    found = find_dialect(io.BytesIO(data), Path("t.csv"), ("two",))
    assert (found.separator, found.header) == (separator, ["one", "two"])
    assert find_dialect(io.BytesIO(data), Path("t.csv")).separator == separator


def test_a_comma_in_the_names_of_columns_misleads_nobody(tmp_path: Path) -> None:
    data, said = quiet(put(tmp_path / "t.csv", "Weight, kg;Height, cm;label\n1,5;2,5;a\n3,5;4;b\n"))
    assert [column["name"] for column in data.encoding["columns"]] == ["Weight, kg", "Height, cm"]
    assert said.endswith("with semicolons between cells, with decimal commas in Weight, kg, Height, cm")


def test_a_plain_table_is_read_without_a_word(tmp_path: Path) -> None:
    _, said = quiet(put(tmp_path / "t.csv", "a;b,label\n1;2,x\n3,y\n"))  # rows as long as the header by commas alone
    assert said == ""


def test_decimal_commas(tmp_path: Path) -> None:
    points = "x,n,c,label\n1.5,1,a,p\n-2.25,2,b,q\n,3,a,p\n1e3,4,b,q\n"
    commas = "x;n;c;label\n1,5;1;a;p\n-2,25;2;b;q\n;3;a;p\n1e3;4;b;q\n"
    expected, _ = quiet(put(tmp_path / "points.csv", points))
    data, said = quiet(put(tmp_path / "commas.csv", commas))
    np.testing.assert_array_equal(data.train.samples, expected.train.samples)
    assert said.endswith("decimal commas in x")
    with pytest.warns(UserWarning, match="decimal commas in x"):
        new = read(tmp_path / "commas.csv", data.encoding, shape=data.train.samples.shape[1:])
    np.testing.assert_array_equal(new.samples, expected.train.samples)


@pytest.mark.parametrize("cells", [["1,2,3", "1,5"], ["1.234,5", "1,5"], ["1,5", "1.5"], ["1,5", "viel"], ["a,b", "c"]])
def test_other_cells_with_commas_stay_texts(tmp_path: Path, cells: list[str]) -> None:
    file = put(tmp_path / "t.csv", f"x;label\n{cells[0]};a\n{cells[1]};b\n")
    data, said = quiet(file)
    assert "decimal" not in said
    assert data.encoding["columns"][0]["categories"] == tuple(sorted(cells))


def test_a_slip_among_many_decimal_commas_is_named(tmp_path: Path) -> None:
    lines = [f"{i},5;{'ab'[i % 2]}" for i in range(60)]
    file = put(tmp_path / "t.csv", "\n".join(["x;label", *lines, "?;a"]))
    with pytest.raises(DataError, match=r"numbers in the column 'x', but '\?' in row 60 is none; mend it, or leave"):
        load(file, label_column="label")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("é".encode() + b"\xe9", "is damaged: some of it is UTF-8 and some is not"),
        (b"\x81\x8d", "is text in no encoding that is known; save it in UTF-8"),
        (b"a\0b", "holds NUL bytes"),
    ],
)
def test_what_is_no_text_is_refused(tmp_path: Path, data: bytes, message: str) -> None:
    for place in (b"x,label\n1," + data + b"\n", b"x," + data + b"label\n1,a\n"):
        with pytest.raises(DataError, match=f"t.csv {message}"):
            load(put(tmp_path / "t.csv", place), label_column="label")


def test_blocks_are_joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Letters of several bytes, ends of lines and long lines across the blocks that a file is read in."""
    whole = find_dialect(io.BytesIO(text(ROWS, ";").encode()), Path("t.csv"))
    for size in (1, 2, 3, 7):
        monkeypatch.setattr(module, "_BLOCK", size)
        for encoding in ("utf-8", "utf-16", "cp1252"):
            found = find_dialect(io.BytesIO(text(ROWS, ";").encode(encoding)), Path("t.csv"))
            assert (found.lines, found.separator) == (whole.lines, ";")
    monkeypatch.setattr(module, "LONGEST_LINE", 9)
    with pytest.raises(DataError, match="has a line of over 9 characters, after line 1"):
        find_dialect(io.BytesIO(b"x,y\n1,2" + b"3" * 9), Path("t.csv"))


# Lists of files


def pictures(folder: Path, *names: str) -> None:
    for shade, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (4, 4), shade).save(folder / name)


@pytest.mark.filterwarnings("ignore::halfsure.data.DataWarning")  # plain pictures look alike
def test_pictures_that_a_list_does_not_name_are_unlabeled_and_said(tmp_path: Path) -> None:
    pictures(
        tmp_path, *(f"p/{i:03}.png" for i in range(45)), "top.png", "test/x.png", ".thumbs/1.png", "__MACOSX/2.png"
    )
    rows = [f"p/{i:03}.png,{'cat' if i % 2 else 'dog'}" for i in reversed(range(20))]
    put(tmp_path / "labels.csv", "\n".join(["path,label", *rows]))
    said = r"labels.csv names 20 of 47 images: those that it does not name \(26\) count as unlabeled, and those in val"
    with pytest.warns(UserWarning, match=said):
        data = load(tmp_path)
    assert (len(data.train), data.labeled.tolist(), data.without_label) == (46, list(range(20)), 26)
    assert data.train.samples[:, 0, 0, 0].tolist() == [*reversed(range(20)), *range(20, 46)]
    with pytest.warns(UserWarning, match=said):
        new = read(tmp_path, data.encoding, shape=data.train.samples.shape[1:])
    np.testing.assert_array_equal(new.samples, data.train.samples)
    put(tmp_path / "labels.csv", "\n".join(["path,label", *rows, "p/gone.png,cat"]))
    with (
        pytest.warns(UserWarning, match="names 21"),
        pytest.raises(DataError, match=r"gone.png: there is no such file"),
    ):
        load(tmp_path)


def test_a_list_of_every_picture_is_read_without_a_word(tmp_path: Path) -> None:
    pictures(tmp_path, "a.png", "b.png", "c.png")
    put(tmp_path / "labels.csv", "path,label\nb.png,x\na.png,y\nc.png,\n")
    assert load(tmp_path).train.labels.tolist() == [0, 1, -1]


def test_a_list_in_another_dialect(tmp_path: Path) -> None:
    put(tmp_path / "labels.csv", "path;label\nschön.png;süß\nb,c.png;-1.0\n", "cp1252")
    with pytest.warns(UserWarning, match="labels.csv is read with semicolons between cells, as Windows-1252 text"):
        found = listed(tmp_path, tmp_path / "labels.csv")
    assert [path.name for path in found.paths] == ["schön.png", "b,c.png"]
    assert found.names == ["süß", None]
