"""What a label says: unlabeled in every form it is written in, words that are no label, and several classes in one."""

import warnings
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from halfsure.data import DataError, from_arrays, load
from halfsure.data.arrays import encode_labels, label_names
from halfsure.data.image_folder import IMAGES
from halfsure.data.label_values import NOT_A_LABEL, check_single, is_unlabeled, unlabeled
from halfsure.data.listing import classes_of, encoded, listed
from halfsure.estimator.labels import read_labels

pd = pytest.importorskip("pandas", reason="tables need the extra halfsure[tables]")
from halfsure.data.tables import read_frame, read_table  # noqa: E402 - after the check for pandas

GAPS: list[Any] = [None, float("nan"), np.nan, pd.NA, pd.NaT, "", "  ", -1, -1.0, np.int8(-1), np.int64(-1)]
GAPS += [np.float32(-1), np.float64("nan"), np.str_("-1"), b"", b"-1", Decimal(-1), np.datetime64("NaT"), "-1", "-1.0"]
GAPS += ["nan", "NaN", "NAN", " -1 ", torch.tensor(-1)]
TEXTS = ["", " ", "-1", "-1.0", "nan", "NaN", "NAN", " nan"]


@pytest.mark.parametrize("gap", GAPS, ids=repr)
def test_everything_that_means_unlabeled(gap: Any) -> None:
    assert is_unlabeled(gap)
    assert encode_labels(["a", gap, "b"])[0].tolist() == [0, -1, 1]
    assert read_labels(np.array(["a", gap, "b"], dtype=object))[0].tolist() == [0, -1, 1]
    assert label_names(["a", gap, "b"]) == ["a", None, "b"]


@pytest.mark.parametrize(
    "label", [0, 1, 0.0, -2, -1.5, True, False, np.False_, "0", "a", "-2", "--1", "-", "nano", b"x"]
)
def test_what_is_a_label(label: Any) -> None:
    assert not is_unlabeled(label)


def written(values: list[Any], folder: Path, name: str, head: str) -> Path:
    lines = [f"{name.format(row)},{value}" for row, value in enumerate(values)]
    (folder / "t.csv").write_text("\n".join([head, *lines]) + "\n")
    return folder / "t.csv"


def from_list_of_pictures(values: list[Any], folder: Path) -> Any:
    found = listed(folder, written(values, folder, "{}.png", "path,label"))
    return encoded(found.names, classes_of(found, folder, IMAGES), folder)


WORDS: dict[str, Callable[[list[Any], Path], Any]] = {
    "list": lambda v, _: encode_labels(v)[0],
    "object array": lambda v, _: encode_labels(np.array(v, dtype=object))[0],
    "text array": lambda v, _: encode_labels(np.array(v, dtype=str))[0],
    "estimator, list": lambda v, _: read_labels(v)[0],
    "estimator, object array": lambda v, _: read_labels(np.array(v, dtype=object))[0],
    "estimator, text array": lambda v, _: read_labels(np.array(v, dtype=str))[0],
    "estimator, column": lambda v, _: read_labels(pd.Series(v))[0],
    "column of objects": lambda v, _: of_frame(pd.Series(v, dtype=object)),
    "column of texts": lambda v, _: of_frame(pd.Series(v, dtype="string")),
    "column of categories": lambda v, _: of_frame(pd.Series(v, dtype="category")),
    "CSV": lambda v, f: read_table(written(v, f, "{}", "x,y"), "y").train.labels,
    "list of pictures": from_list_of_pictures,
}
NUMBERS: dict[str, Callable[[list[Any], Path], Any]] = {
    "list": lambda v, _: encode_labels(v)[0],
    "float array": lambda v, _: encode_labels(np.array(v, dtype=float))[0],
    "masked array": lambda v, _: encode_labels(np.ma.masked_equal(np.nan_to_num(np.array(v, float), nan=-1), -1))[0],
    "tensor": lambda v, _: encode_labels(torch.tensor([float("nan") if x is None else x for x in v]))[0],
    "estimator, floats": lambda v, _: read_labels(np.array(v, dtype=float))[0],
    "estimator, masked": lambda v, _: read_labels(np.ma.masked_invalid(np.array(v, dtype=float)))[0],
    "estimator, nullable": lambda v, _: read_labels(nullable(v))[0],
    "nullable integers": lambda v, _: of_frame(nullable(v)),
    "integers": lambda v, _: encode_labels(nullable(v).fillna(-1).to_numpy(dtype=np.int32))[0],
    "CSV": lambda v, f: read_table(written(["" if x is None else x for x in v], f, "{}", "x,y"), "y").train.labels,
}


def nullable(values: list[Any]) -> Any:
    return pd.Series([None if pd.isna(x) else int(x) for x in values], dtype="Int64")


def of_frame(column: Any) -> Any:
    return read_frame(pd.DataFrame({"x": np.arange(len(column)), "y": column}), "y").train.labels


@given(st.lists(st.sampled_from(["cat", "dog", *TEXTS]), max_size=8), st.data())
def test_words_and_gaps_are_read_alike_wherever_they_come_from(
    tmp_path_factory: pytest.TempPathFactory, some: list[str], data: st.DataObject
) -> None:
    values = ["cat", *some, "dog"]
    expected = [{"cat": 0, "dog": 1}.get(value, -1) for value in values]
    way = data.draw(st.sampled_from(sorted(WORDS)))
    assert list(WORDS[way](values, tmp_path_factory.getbasetemp())) == expected, way


@given(st.lists(st.sampled_from([3, 7, 3.0, -1, -1.0, None, float("nan")]), max_size=8), st.data())
def test_numbers_and_gaps_are_read_alike_wherever_they_come_from(
    tmp_path_factory: pytest.TempPathFactory, some: list[Any], data: st.DataObject
) -> None:
    values = [3, *some, 7]
    expected = [{3: 0, 7: 1}.get(value, -1) if value == value else -1 for value in values]  # noqa: PLR0124
    way = data.draw(st.sampled_from(sorted(NUMBERS)))
    assert list(NUMBERS[way](values, tmp_path_factory.getbasetemp())) == expected, way


@given(st.lists(st.sampled_from([0.0, -1.0, float("nan"), 2.0])))
def test_many_at_once_are_what_each_is(values: list[float]) -> None:
    alone = [is_unlabeled(value) for value in values]
    for kind in (float, object, "float32"):
        assert unlabeled(np.array(values, dtype=kind)).tolist() == alone
    whole = np.array([-1 if gone else 1 for gone in alone], dtype=np.int8)
    assert unlabeled(whole).tolist() == alone
    assert not unlabeled(np.array(values, dtype=bool)).any()


@pytest.mark.parametrize("word", [*sorted(NOT_A_LABEL), "NA", "Unknown", " None "])
def test_words_that_may_mean_nothing_are_refused_by_name_everywhere(word: str, tmp_path: Path) -> None:
    for read in WORDS.values():
        with pytest.raises(
            DataError, match=r"is no label; leave it empty or write -1 .* or give the class another name"
        ):
            read(["cat", word, "dog"], tmp_path)
    named = from_arrays(np.eye(2), [word, "cat"], classes=[word, "cat"])  # who names the classes has said what is meant
    assert named.train.labels.tolist() == [0, 1]


def read_classes(folder: Path, names: list[str]) -> Any:
    for name in names:
        (folder / name).mkdir(parents=True)
        Image.new("L", (4, 4)).save(folder / name / "1.png")
    return load(folder)


def test_a_folder_named_as_such_a_word_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"Unknown: 'Unknown' is no label; leave it empty or write -1"):
        read_classes(tmp_path, ["cat", "dog", "Unknown"])


def test_a_folder_named_as_nothing_is_unlabeled(tmp_path: Path) -> None:
    assert sorted(read_classes(tmp_path, ["cat", "dog", "-1", "nan"]).train.labels.tolist()) == [-1, -1, 0, 1]


def test_how_many_are_unlabeled_is_counted() -> None:
    data = from_arrays(np.eye(5), ["a", "b", -1, "nan", ""])
    assert data.counts == "5 samples, 2 of them labeled, 3 have no label, 2 classes"
    assert from_arrays(np.eye(2), ["a", "b"]).counts == "2 samples, 2 of them labeled, 2 classes"
    with pytest.raises(
        DataError, match=r"only the class '1'; a classifier needs at least two; 2 samples are unlabeled"
    ):
        from_arrays(np.eye(3), [1, -1, -1])
    with pytest.raises(DataError, match=r"only one class, 1; .* 2 others are unlabeled: -1"):
        read_labels([1, -1, -1])


# Several classes in one


@pytest.mark.parametrize(
    "names",
    [
        ["cat", "dog", "cat;dog"],
        ["cat", "dog", "cat; dog"],
        ["cat", "dog", "dog|cat"],
        ["cat", "dog", "bird", "cat,dog,bird"],
        ["1", "2", "1;2"],
        ["1", "2", "3", "1,2,3"],
        ["['cat']", "['dog']", "['cat', 'dog']"],
        ["[1]", "[2]", "[1, 2]"],
        ['["cat","dog"]', '["bird","dog"]'],
        ["cat", "['bird', \"dog\"]", "['bird', 'dog']"],
    ],
)
def test_several_classes_in_a_cell_are_refused(names: list[str], tmp_path: Path) -> None:
    said = "names several classes; each sample has one class here"
    for read in (encode_labels, read_labels, lambda v: of_frame(pd.Series(v, dtype=object))):
        with pytest.raises(DataError, match=said):
            read(names * 2)
    pd.DataFrame({"x": range(len(names)), "y": names}).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(DataError, match=said):
        read_table(tmp_path / "t.csv", "y")
    pd.DataFrame({"path": [f"{i}.png" for i in range(len(names))], "label": names}).to_csv(tmp_path / "l.csv")
    with pytest.raises(DataError, match=said):
        classes_of(listed(tmp_path, tmp_path / "l.csv"), tmp_path, IMAGES)


@pytest.mark.parametrize(
    "names",
    [
        ["Smith, John", "Smith, Anna", "Jones, John"],
        ["red, large", "red, small", "blue, large", "blue, small"],
        ["Bacteria", "Bacteria;Firmicutes", "Bacteria;Proteobacteria"],
        ["Animal|Cat", "Animal|Dog", "Animal"],
        ["(0, 10]", "(10, 20]", "0", "[0, 10]"],
        ["1", "1,5", "2", "2,5", "5"],
        ["a;", ";", "a", "b"],
        ["C", "C++", "C,"],
        ["R&D", "R", "D", "salt and pepper", "salt", "pepper"],
        ["f(x, y)", "x", "y"],
        ["'cat'", "[dog]", "{}", "()"],
    ],
)
def test_a_name_with_a_comma_in_it_is_a_name(names: list[str]) -> None:
    check_single(names, "y")
    assert encode_labels(names)[1] == tuple(sorted(names))
    assert len(read_labels(names)[1]) == len(names)


@given(st.lists(st.text(alphabet="ab;,| ", min_size=1, max_size=6), max_size=6))
def test_only_a_list_of_other_classes_is_refused(names: list[str]) -> None:
    """By a plain twin: some name split by one mark gives two classes or more, all of them there."""

    def is_list(name: str, mark: str) -> bool:
        pieces = {piece.strip() for piece in name.split(mark)} - {""}
        return len(pieces) > 1 and all(any(piece == other.strip() for other in names) for piece in pieces)

    expected = any(is_list(name, mark) for name in names for mark in ";|,")
    try:
        check_single(names, "y")
    except DataError:
        assert expected
    else:
        assert not expected


@pytest.mark.parametrize(
    "y",
    [
        np.eye(3, dtype=int)[[0, 1, 2, 0]],
        np.ones((4, 2, 2)),
        torch.zeros(4, 3),
        [[0, 1], [1, 0], [1, 1], [0, 0]],
        [["cat"], ["cat", "dog"], [], ["dog"]],
        [("cat",), ("cat", "dog"), ("dog",), ("dog",)],
        [{"cat"}, {"cat", "dog"}, {"dog"}, {"dog"}],
        pd.DataFrame({"cat": [0, 1, 1, 0], "dog": [1, 0, 1, 0]}),
        pd.Series([["cat"], ["cat", "dog"], ["dog"], ["dog"]]),
        [np.array([0, 1]), np.array([1]), np.array([0, 1]), np.array([1])],
    ],
    ids=lambda y: type(y).__name__,
)
def test_several_labels_a_sample_are_refused(y: Any) -> None:
    for read in (lambda: from_arrays(np.eye(4), y), lambda: read_labels(y)):
        with pytest.raises(DataError, match="each sample has one class here, so give one value a sample"):
            read()


def test_labels_in_one_column_are_labels() -> None:
    for y in (np.array([[0], [1], [-1]]), pd.DataFrame({"y": ["a", "b", None]})):
        assert from_arrays(np.eye(3), y).train.labels.tolist() == [0, 1, -1]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # scikit-learn asks for (n,)
            assert read_labels(y)[0].tolist() == [0, 1, -1]


def test_a_parquet_column_of_lists_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    pd.DataFrame({"x": [1, 2], "y": [["a"], ["a", "b"]]}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(DataError, match="lists or structures in the column 'y'; each sample has one class here"):
        read_table(tmp_path / "t.parquet", "y")


def test_a_long_name_takes_no_time() -> None:
    check_single(["['" + "','" * 300_000, "b"], "y")
