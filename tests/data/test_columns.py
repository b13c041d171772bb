"""Columns of tables: which are learnt from, what is said of each, and which look as if they were not meant."""

import json
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import datasets

from halfsure.data import DataError, DataWarning, Part, from_arrays, load
from halfsure.data.columns import listing, names_in, suspects
from halfsure.data.new import read
from halfsure.bank.opening import DataConfig, lasting, open_data
from halfsure.runs.writer import fingerprint

pd = pytest.importorskip("pandas", reason="tables need the extra halfsure[tables]")
from halfsure.data.tables import TableEncoding, read_frame  # noqa: E402 - after the check for pandas

RNG = np.random.default_rng(0)


def visits(count: int = 60) -> Any:
    """Rows of a few patients, with a code and a date each."""
    return pd.DataFrame(
        {
            "code": [f"{k:05}" for k in range(count)],
            "patient": [f"p{k % 6}" for k in range(count)],
            "day": [f"2024-{1 + k % 12:02}-{1 + k % 28:02}" for k in range(count)],
            "weight": np.random.default_rng(1).normal(size=count).round(4),
            "colour": ["red", "green", "blue"] * (count // 3),
            "note": [f"the patient was seen {k} times" for k in range(count)],
            "batch": 7,
            "kind": ["a", "b", None] * (count // 3),
        }
    )


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    visits().to_csv("visits.csv", index=False)
    return "visits.csv"


ROLES: dict[str, Any] = {"id_column": "code", "group_column": "patient", "drop": "day,note"}


def test_each_column_is_explained() -> None:
    data = read_frame(visits(), "kind", id_column="code", group_column="patient", drop=["day"])
    assert data.notes == (
        "4 columns to learn from: 2 numbers (weight, batch), 1 category (colour: 3 values), 1 text (note); "
        "label = kind; id = code; groups = patient; left out: day; constant, so of no use: batch",
    )
    many = pd.DataFrame(RNG.normal(size=(20, 9))).assign(place=[f"v{k % 60}" for k in range(20)], y=["a", "b"] * 10)
    assert read_frame(many, "y").notes == (
        "10 columns to learn from: 9 numbers (0, 1, 2, 3, 4 and 4 more), 1 category (place: 20 values); label = y",
    )


def test_ids_and_groups_are_no_features_and_stay_as_they_are_written(table: str) -> None:
    data = load(table, label_column="kind", **ROLES)
    plain = read_frame(visits()[["weight", "colour", "batch", "kind"]], "kind")
    np.testing.assert_allclose(data.train.samples, plain.train.samples, rtol=1e-6)
    assert data.train.ids is not None
    assert data.train.groups is not None
    assert data.train.ids.tolist() == visits()["code"].tolist()  # 00007 is not 7
    assert data.train.groups.tolist() == visits()["patient"].tolist()
    some = data.train.take(np.array([5, 2]))
    assert (some.ids.tolist(), some.groups.tolist()) == (["00005", "00002"], ["p5", "p2"])  # type: ignore[union-attr]
    assert data.train.of_groups(np.array([5, 2])).tolist() == [k for k in range(60) if k % 6 in (5, 2)]
    again = pickle.loads(pickle.dumps(data))  # what a worker process gets
    assert again.train.ids.tolist() == data.train.ids.tolist()


def test_the_roles_of_columns_last_with_a_run(table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = DataConfig.of(table, label_column="kind", labels=8, val=6, **ROLES)
    first = open_data(table, config, 3)
    assert first.val is not None
    assert first.val.ids is not None
    source, kept = lasting(table, config)
    monkeypatch.chdir(tmp_path.parent)
    again = open_data(source, DataConfig.from_json(source, json.loads(json.dumps(kept.as_json()))), 3)
    assert fingerprint(again) == fingerprint(first)
    assert again.notes == first.notes


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ({"drop": "day,bach"}, r"visits has no column 'bach' to leave out; did you mean 'batch'\?"),
        ({"id_column": "Code"}, r"no column 'Code' to name rows by; did you mean 'code'\?"),
        ({"group_column": "zzz"}, r"no column 'zzz' to group rows by; it has code, patient, day"),
        ({"label_column": "knid"}, r"no column 'knid' to take the labels from; did you mean 'kind'\?"),
        ({"drop": "kind"}, r"the column 'kind' of visits has the labels: it cannot serve to leave out as well"),
        ({"drop": "code,patient,day,weight,colour,note,batch"}, r"visits has no column left to learn from"),
        ({"drop": '"day'}, r"is no list of columns, such as A,B"),
        ({"group_column": "gappy"}, r"the column 'gappy' is empty in row 1; name a group in every row"),
    ],
)
def test_columns_that_cannot_serve_are_refused(roles: dict[str, Any], message: str, table: str) -> None:
    if roles.get("group_column") == "gappy":
        visits().assign(gappy=["x", None] * 30).to_csv(table, index=False)
    with pytest.raises(DataError, match=message):
        load(table, **({"label_column": "kind"} | roles))


@given(st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).filter(lambda t: t == t.strip())))
def test_a_list_of_columns_is_read_back_from_its_line(names: list[str]) -> None:
    wanted = tuple(dict.fromkeys(names))
    assert names_in(listing(wanted)) == wanted


def test_a_model_knows_the_columns_that_it_was_not_trained_on(table: str, tmp_path: Path) -> None:
    data = load(table, label_column="kind", **ROLES)
    stored = json.loads(json.dumps(data.encoding))
    new = read(table, stored, shape=data.train.samples.shape[1:])  # strict: a column of no known role is refused
    assert (new.called, new.names[7]) == ("code", "00007")
    np.testing.assert_array_equal(new.samples, data.train.samples)
    bare = visits()[["batch", "colour", "weight"]]
    bare.to_csv(tmp_path / "bare.csv", index=False)
    without = read(tmp_path / "bare.csv", stored, shape=data.train.samples.shape[1:])
    assert (without.called, without.names[7], without.labels) == ("name", "7", None)
    np.testing.assert_array_equal(without.samples, data.train.samples)


@pytest.mark.parametrize("changes", [{"id": 3}, {"group": ["x"]}, {"dropped": [1]}, {"dropped": 5}])
def test_damaged_roles_are_refused(changes: dict[str, Any], table: str) -> None:
    data = load(table, label_column="kind", **ROLES)
    with pytest.raises(DataError, match="its file is damaged"):
        read(table, (data.encoding or {}) | changes, shape=data.train.samples.shape[1:])


def test_encodings_without_roles_are_what_they_were() -> None:
    frame = visits()[["weight", "kind"]]
    encoding = read_frame(frame, "kind").encoding
    assert encoding is not None
    assert set(encoding) == {"kind", "label", "columns"}
    assert TableEncoding.from_json(encoding).to_json() == {k: v for k, v in encoding.items() if k != "kind"}


def test_a_fingerprint_heeds_groups_alone() -> None:
    rows, labels = RNG.normal(size=(6, 2)), [0, 1, 0, 1, -1, -1]
    plain = fingerprint(from_arrays(rows, labels))
    assert fingerprint(from_arrays(rows, labels, ids=list("abcdef"))) == plain
    one, two = (fingerprint(from_arrays(rows, labels, groups=groups)) for groups in ("aabbcc", [1, 1, 2, 2, 2, 3]))
    assert len({found["sha256"] for found in (plain, one, two)}) == 3


def test_names_must_be_one_a_sample() -> None:
    with pytest.raises(DataError, match="there are 2 samples but 3 groups"):
        Part(np.zeros((2, 1)), np.array([0, 1]), groups=np.array(["a", "b", "c"], dtype=object))
    with pytest.raises(DataError, match="groups: there is none in row 1; every sample needs one"):
        from_arrays(np.zeros((2, 1)), [0, 1], groups=["a", None])


def told(frame: Any) -> list[str]:
    return [str(one.message) for one in caught(frame)]


def caught(frame: Any) -> list[Any]:
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        read_frame(frame, "y")
    assert all(one.category is DataWarning for one in heard)
    return heard


LENGTH = 80
GOOD = {
    "floats": RNG.normal(size=LENGTH),
    "whole floats": np.arange(LENGTH, dtype=float) * 3 % 67,
    "counts": RNG.integers(0, 100_000, LENGTH),
    "few": np.arange(LENGTH) % 7,
    "sorted with repeats": np.sort(RNG.integers(0, 50, LENGTH)),
    "words": [["sun", "rain", "snow"][k % 3] for k in range(LENGTH)],
    "texts": [f"it was number {k} of all" for k in range(LENGTH)],
    "numbers as words": [f"{value:.5f}" for value in RNG.normal(size=LENGTH)],
    "versions": [f"{k % 5}.{k % 3}.{k % 2}" for k in range(LENGTH)],
    "ratios": [f"{k % 4 + 1}/{k % 13 + 13}" for k in range(LENGTH)],
}
BAD = {
    "rising": (np.cumsum(RNG.integers(1, 1000, LENGTH)), "looks like an identifier: it counts from"),
    "shuffled": (RNG.permutation(LENGTH) + 500, "counts from 500 to 579 without a repeat"),
    "sampled": (RNG.permutation(LENGTH * 3 // 2)[:LENGTH], "looks like an identifier: it counts from"),
    "codes": ([f"A{k:03}" for k in range(LENGTH)], "80 of 80 values differ, such as A000"),
    "nearly": ([f"A{max(k, 3):03}" for k in range(LENGTH)], "77 of 80 values differ"),
    "iso": ([f"2021-0{1 + k % 9}-17" for k in range(LENGTH)], "holds dates, such as 2021-01-17"),
    "clock": ([f"2021-0{1 + k % 9}-17T08:{k % 60:02}:00Z" for k in range(LENGTH)], "holds dates"),
    "german": ([f"{1 + k % 28}.12.2021" for k in range(LENGTH)], "holds dates, such as 1.12.2021"),
    "american": ([f"12/{1 + k % 28}/21" for k in range(LENGTH)], "holds dates"),
    "months": ([f"{1 + k % 28} March 2021" for k in range(LENGTH)], "holds dates"),
}


@pytest.mark.parametrize("name", GOOD)
def test_ordinary_columns_are_not_warned_of(name: str) -> None:
    assert told(pd.DataFrame({"x": GOOD[name], "z": RNG.normal(size=LENGTH), "y": ["a", "b"] * (LENGTH // 2)})) == []


@pytest.mark.parametrize("name", BAD)
def test_identifiers_and_dates_are_warned_of(name: str) -> None:
    values, message = BAD[name]
    [said] = told(pd.DataFrame({"my x": values, "z": RNG.normal(size=LENGTH), "y": ["a", "b"] * (LENGTH // 2)}))
    assert said.startswith("the column 'my x' ")
    assert message in said
    assert "--drop 'my x'" in said
    assert ("--id-column 'my x'" in said) != ("days since a start" in said)
    few = pd.DataFrame({"my x": values, "y": ["a", "b"] * (LENGTH // 2)}).iloc[:20]
    assert [name for name, _, is_date in suspects(few, ["my x"]) if not is_date] == []  # by chance, in so few rows


def test_a_column_with_a_role_is_not_warned_of() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_frame(visits(), "kind", id_column="code", drop=["day"])


def test_ids_that_repeat_and_groups_that_are_tested_on_too_are_told() -> None:
    frame = visits().drop(columns=["day", "note"])
    with pytest.warns(
        DataWarning, match=r"6 ids in 'patient' come more than once, such as p0; .*--group-column patient"
    ):
        read_frame(frame.drop(columns="code"), "kind", id_column="patient")
    old, new = frame.iloc[:30], frame.iloc[30:].assign(patient=["p5", "new"] * 15)
    with pytest.warns(DataWarning, match=r"1 of 2 groups in 'patient' of the test rows are trained on too, such as p5"):
        read_frame(old, "kind", id_column="code", group_column="patient", test=new)


def test_real_dates_are_refused_with_the_way_out() -> None:
    frame = visits().assign(day=pd.Timestamp("2024-01-01"))
    with pytest.raises(DataError, match=r"the column 'day' holds dates.*or drop it, on the command line with --drop"):
        read_frame(frame, "kind")
    assert read_frame(frame, "kind", drop=["day", "code"]).notes


@pytest.mark.parametrize("name", ["digits", "wine", "breast_cancer", "iris"])
def test_well_known_tables_are_not_warned_of(name: str) -> None:
    frame = getattr(datasets, f"load_{name}")(as_frame=True).frame
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_frame(frame, "target")
