"""What a run says of its data: settings of the source's own reader, kept as JSON, with paths that last."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from halfsure.data import DataError
from halfsure.bank.opening import DataConfig, lasting, open_data

TABLE = "height,kind\n" + "".join(f"{k % 2}.5,{'ab'[k % 2]}\n" for k in range(20))


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    for name in ("orders.csv", "test.csv"):
        Path(name).write_text(TABLE)
    return "orders.csv"


def test_flat_names_reach_the_reader_and_come_back_from_json(table: str) -> None:
    config = DataConfig.of(table, labels=4, val=3, label_column="kind", test="test.csv")
    assert (config.labels, config.val) == (4, 3)
    assert config.reader == {"label_column": "kind", "test": "test.csv"}
    assert DataConfig.from_json(table, json.loads(json.dumps(config.as_json()))) == config
    data = open_data(table, config, 0)
    assert data.val is not None
    assert (len(data.labeled), len(data.val), data.test is not None) == (4, 3, True)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"size": 8}, r"read as a table, has no setting 'size', which belongs to the reader folder"),
        ({"label_colum": "kind"}, "did you mean label_column"),
        ({"label_column": 3}, "label_column must be a text"),
        ({"labels": 0}, "labels"),
        ({"val": -1}, "val"),
        ({"labels": "all"}, "labels"),
    ],
)
def test_what_the_source_cannot_use_is_refused(given: dict[str, Any], message: str, table: str) -> None:
    with pytest.raises(ValueError, match=message):
        DataConfig.of(table, **given)


@pytest.mark.parametrize("values", [None, [], {"reader": 3}, {"evil": 1}, {"reader": {"evil": 1}}, {"labels": True}])
def test_json_of_another_shape_is_refused(values: Any, table: str) -> None:
    with pytest.raises(ValueError, match=r"object|has no setting|labels"):
        DataConfig.from_json(table, values)


def test_paths_last_and_names_stay(table: str, tmp_path: Path) -> None:
    config = DataConfig.of(table, label_column="kind", test="test.csv", split="gone.json")
    source, kept = lasting(table, config)
    assert source == str(tmp_path / "orders.csv")
    assert kept.reader == {"label_column": "kind", "test": str(tmp_path / "test.csv")}
    assert kept.split == "gone.json"
    Path("digits").mkdir()  # a folder of this name does not make the official set a path
    assert lasting("digits", DataConfig()) == ("digits", DataConfig())


def test_official_sets_have_four_labels_of_each_class_unless_told(table: str) -> None:
    assert np.bincount((data := open_data("digits", DataConfig(), 0)).train.labels[data.labeled]).tolist() == [4] * 10
    assert len(open_data(table, DataConfig.of(table, label_column="kind"), 0).labeled) == 20


@pytest.mark.parametrize("source", ["digit", "gone", "9" * 5000])
def test_a_source_that_is_not_there_is_told(source: str) -> None:
    with pytest.raises(DataError, match=r"did you mean digits\?|neither an official set|File name too long") as error:
        DataConfig.of(source)
    assert len(str(error.value)) < 400
