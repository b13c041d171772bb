"""Labels in a file of their own: joined by id, against a loop; whatever is doubtful is refused by name."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfsure.data import DataError, load

pd = pytest.importorskip("pandas", reason="tables need the extra halfsure[tables]")
from halfsure.data.keyed import labels_by_id  # noqa: E402 - after the check for pandas

ROWS = "id,x\n" + "".join(f"{k:03},{(k * 37 % 101) / 7}\n" for k in range(40))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text(ROWS)
    (tmp_path / "labels.csv").write_text("id,kind\n" + "".join(f"{k:03},{'ab'[k % 2]}\n" for k in range(0, 40, 3)))
    return tmp_path


def test_rows_that_are_not_listed_are_unlabeled_and_it_is_said(here: Path) -> None:
    data = load("rows.csv", table="labels.csv", id_column="id")
    assert data.classes == ("a", "b")
    assert data.train.labels.tolist() == [-1 if k % 3 else k % 2 for k in range(40)]
    assert data.train.samples.shape == (40, 2)  # one number: neither id nor label
    assert data.notes[1] == "labels.csv labels 14 of 40 rows; the other 26 are unlabeled"


def test_numbers_are_labels_too_and_an_empty_one_is_none(here: Path) -> None:
    (here / "labels.csv").write_text("who,note,id,y\nme,x,001,3\nme,y,002,12\nme,z,004,\n")
    data = load("rows.csv", table="labels.csv", id_column="id", label_column="y")
    assert data.classes == ("3", "12")
    assert np.flatnonzero(data.train.labels >= 0).tolist() == [1, 2]


def test_test_rows_are_labeled_by_the_same_table_or_by_their_own_column(here: Path) -> None:
    (here / "labels.csv").write_text("id,kind\n001,a\n002,b\nt1,b\n")
    (here / "test.csv").write_text("id,x\nt1,5\nt2,1\n")
    data = load("rows.csv", table="labels.csv", id_column="id", test="test.csv")
    assert data.test is not None
    assert data.test.labels.tolist() == [1, -1]
    (here / "test.csv").write_text("id,x,kind\nt1,5,a\nt2,1,b\n")
    data = load("rows.csv", table="labels.csv", id_column="id", test="test.csv")
    assert data.test is not None
    assert data.test.labels.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("rows", "labels", "message"),
    [
        (ROWS, "id,kind\n001,a\n777,b\n888,a\n", r"labels.csv lists ids that no sample has: 777, 888; mend or remove"),
        (ROWS, "id,kind\n001,a\n002,b\n001,a\n", r"labels.csv lists 001 twice, in row 2; keep one of the two"),
        (ROWS, "id,kind\n001,a\n002,b\n001,b\n", r"lists 001 as 'a' and then as 'b', in row 2; keep one"),
        (ROWS, "id,kind\n001,a\n,b\n", r"labels.csv has no id in row 1"),
        (ROWS, "id,kind\n001,a\n002,NA\n", r"labels.csv at row 1: 'NA' is no label"),
        (ROWS, "name,kind\n001,a\n", r"labels.csv has no column 'id' to find samples by; it has name, kind"),
        (ROWS, "id,kind,sort\n001,a,b\n", r"which column of labels.csv holds the labels\? Name it: --label-column"),
        (ROWS, "id\n001\n", r"which column of labels.csv holds the labels"),
        ("id,x\n1,2\n2,3\n1,4\n", "id,kind\n1,a\n2,b\n", r"rows.csv has the id 1 twice, in rows 0 and 2"),
        ("id,x\n1,2\n,3\n", "id,kind\n1,a\n", r"rows.csv has no id in row 1, column 'id': labels by id need one"),
        ("code,x\n1,2\n2,3\n", "id,kind\n1,a\n", r"rows.csv has no column 'id' to find labels by; it has code, x"),
        (
            "id,x,kind\n1,2,a\n2,3,b\n",
            "id,kind\n1,a\n",
            r"both rows.csv and labels.csv have a column 'kind'; leave the",
        ),
    ],
)
def test_what_is_doubtful_is_refused(rows: str, labels: str, message: str, here: Path) -> None:
    (here / "rows.csv").write_text(rows)
    (here / "labels.csv").write_text(labels)
    with pytest.raises(DataError, match=message):
        load("rows.csv", table="labels.csv", id_column="id")


def test_a_table_needs_to_know_the_ids(here: Path) -> None:
    with pytest.raises(DataError, match=r"by which column are rows.csv and labels.csv matched\? Name it: --id-column"):
        load("rows.csv", table="labels.csv")


def test_a_column_of_old_labels_can_be_dropped(here: Path) -> None:
    (here / "rows.csv").write_text("id,x,kind\n1,2,b\n2,3,b\n3,9,a\n")
    (here / "labels.csv").write_text("id,kind\n1,a\n2,b\n")
    data = load("rows.csv", table="labels.csv", id_column="id", drop=["kind"])
    assert data.train.labels.tolist() == [0, 1, -1]
    assert data.train.samples.shape == (3, 2)


@given(st.dictionaries(st.text("abc12", min_size=1, max_size=3), st.sampled_from(["x", "y", None]), min_size=1))
def test_labels_by_id_are_a_dictionary(known: dict[str, str | None]) -> None:
    found = labels_by_id(list(known), pd.Series(list(known.values()), dtype=object), {*known, "more"}, "file")
    assert found == known
