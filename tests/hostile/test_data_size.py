"""Small files that ask for much: refused in words, in seconds, and within 1.5 GiB of memory."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from halfsure.data import DataError, frames, load, tables
from tests.hostile import bombs

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the limit on memory is set as Linux does")


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What every reader said, in one process with a limit on its memory."""
    command = [sys.executable, "-m", "tests.hostile.bombs", str(tmp_path_factory.mktemp("bombs"))]
    child = subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    assert child.returncode == 0, child.stderr
    return {line["name"]: line for line in map(json.loads, child.stdout.splitlines())}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "words"), [(name, words) for name, (_, words) in bombs.ATTACKS.items()])
def test_it_is_refused_in_seconds(said: dict[str, dict[str, Any]], name: str, words: str) -> None:
    assert said[name]["seconds"] < 20
    with pytest.raises(DataError, match=words):
        raise DataError(said[name]["said"].removeprefix("DataError: "))
    assert said[name]["said"].startswith("DataError: ")


@pytest.mark.slow
@pytest.mark.parametrize("name", bombs.TAKEN)
def test_what_is_large_and_meant_is_read_within_the_limit(said: dict[str, dict[str, Any]], name: str) -> None:
    assert said[name]["said"] == "read"


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_table_of_more_cells_than_memory_holds_is_refused(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = pd.DataFrame({"x": [1.0] * 20, "y": ["a", "b"] * 10})
    path = tmp_path / f"t.{suffix}"
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)
    assert len(load(path, label_column="y").train) == 20
    monkeypatch.setattr(frames, "MOST_CELLS", 39)
    with pytest.raises(DataError, match=r"rows of 2 columns; a table may have 39 cells"):
        load(path, label_column="y")


def test_a_parquet_file_may_not_unpack_to_more_than_a_table_may_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pd.DataFrame({"x": range(1000), "y": ["a", "b"] * 500}).to_parquet(tmp_path / "t.parquet")
    monkeypatch.setattr(frames, "MOST_BYTES", 5000)
    with pytest.raises(DataError, match=r"unpacks to .* bytes"):
        load(tmp_path / "t.parquet", label_column="y")


def test_a_header_over_two_lines_hides_no_columns(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('"a\nb",' + "c," * 60_000 + "y\n1\n")
    with pytest.raises(DataError, match="60,002 columns"):
        load(tmp_path / "t.csv", label_column="y")


@pytest.mark.slow
def test_a_table_of_genes_is_read(tmp_path: Path) -> None:
    header = ",".join(f"g{i}" for i in range(20_000)) + ",y\n"
    (tmp_path / "t.csv").write_text(header + "".join(f"{'1.5,2.5,' * 10_000}{kind}\n" for kind in "abab"))
    assert load(tmp_path / "t.csv", label_column="y").train.samples.shape == (
        4,
        40_000,
    )  # a number, and whether it is missing


def test_short_texts_are_counted_before_each_becomes_an_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pd.DataFrame({"x": ["a"] * 1000, "n": range(1000), "y": ["a", "b"] * 500}).to_parquet(tmp_path / "t.parquet")
    monkeypatch.setattr(frames, "MOST_TEXTS", 1999)
    with pytest.raises(DataError, match="1,000 rows of 2 texts; a table may have 1,999"):
        load(tmp_path / "t.parquet", label_column="y")


def test_categories_are_counted_before_each_becomes_a_feature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pd.DataFrame({"x": [f"k{i % 40}" for i in range(400)], "y": ["a", "b"] * 200}).to_csv(
        tmp_path / "t.csv", index=False
    )
    assert load(tmp_path / "t.csv", label_column="y").train.samples.shape[1] >= 40
    monkeypatch.setattr(tables, "DENSE_LIMIT", 400 * 40 * 4)
    with pytest.raises(DataError, match=r"400 rows of \d\d features do not fit"):
        load(tmp_path / "t.csv", label_column="y")


@pytest.mark.parametrize("packed", [False, True])
def test_arrays_of_other_names_are_left_alone(tmp_path: Path, packed: bool) -> None:
    arrays: dict[str, Any] = {"X": np.zeros((4, 2), np.float32), "y": np.array([0, 1, 0, 1])}
    others = {"rec": np.zeros(3, [("a", "i4")]), "names": np.array(["a", None], dtype=object)}
    if packed:
        np.savez(tmp_path / "all.npz", **(arrays | others))
    else:
        for name, values in (arrays | others).items():
            np.save(tmp_path / f"{name}.npy", values)
    assert len(load(tmp_path / "all.npz" if packed else tmp_path).train) == 4
