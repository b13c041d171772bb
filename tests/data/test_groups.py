"""Groups of samples: a validation hold-out never splits one, whatever the labels, and comes again with a split file."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from PIL import Image

from halfsure.data import Data, DataError, Part, Split, choose_labels, hold_out
from halfsure.data.image_folder import read_folder


def grouped(labels: Any, groups: Any) -> Data:
    labels = np.array(labels)
    part = Part(
        np.zeros((len(labels), 1), np.float32), labels, groups=np.array([f"g{k}" for k in groups], dtype=object)
    )
    return Data("toy", "array", ("a", "b"), part, np.flatnonzero(labels >= 0))


@given(
    pairs=st.lists(st.tuples(st.integers(-1, 1), st.integers(0, 12)), min_size=6, max_size=80),
    labels=st.integers(2, 8),
    val=st.integers(1, 10),
    seed=st.integers(0, 50),
)
def test_no_group_is_both_validated_on_and_trained_on(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[int, int]], labels: int, val: int, seed: int
) -> None:
    assume({0, 1} <= {label for label, _ in pairs})
    whole = grouped(*zip(*pairs, strict=True))
    whose, truth = whole.train.groups, whole.train.labels
    assert whose is not None
    try:
        data = hold_out(choose_labels(whole, labels=labels, seed=seed, val=val), val, seed)
    except DataError:  # too few of a class, or no group without a label
        assume(False)
    assert data.val is not None
    assert data.unlabeled is not None
    assert data.val.groups is not None
    held = set(data.val.groups)
    assert not held & {*whose[data.labeled], *whose[data.unlabeled]}
    assert len(data.labeled) == labels
    assert len(data.val) == sum(group in held and label >= 0 for group, label in zip(whose, truth, strict=True)) >= val
    sizes = [sum(group == one and label >= 0 for group, label in zip(whose, truth, strict=True)) for one in held]
    assert len(data.val) - max(sizes) < val  # not a group more than it takes
    file = tmp_path_factory.mktemp("split") / "split.json"
    Split.of("toy", truth, data.labeled, data.classes, seed).save(file)
    again = hold_out(choose_labels(whole, split=file), val, seed)
    assert again.val is not None
    assert again.unlabeled is not None
    assert again.val.labels.tolist() == data.val.labels.tolist()
    assert again.unlabeled.tolist() == data.unlabeled.tolist()


def test_what_cannot_be_held_out_is_told() -> None:
    data = grouped([0, 1, 0, 1] * 5, [k // 10 for k in range(20)])
    with pytest.raises(
        DataError, match=r"3 samples cannot be held out .* 0 have a known label .* in a group without any"
    ):
        hold_out(data, 3, 0)
    with pytest.raises(DataError, match=r"ask for fewer labels, or hold out groups with fewer than 15 samples"):
        choose_labels(data, labels=4, val=15)


def test_images_have_the_groups_of_their_table(tmp_path: Path) -> None:
    rows = ["path,label,scene"]
    for k in range(6):
        Image.fromarray(np.full((4, 4, 3), 40 * k, np.uint8)).save(tmp_path / f"{k}.png")
        rows.append(f"{k}.png,{'ab'[k % 2]},s{k // 2}")
    (tmp_path / "labels.csv").write_text("\n".join(rows))
    data = read_folder(tmp_path, group_column="scene")
    assert data.train.ids is not None
    assert data.train.groups is not None
    assert data.train.ids.tolist() == [f"{k}.png" for k in range(6)]
    assert data.train.groups.tolist() == ["s0", "s0", "s1", "s1", "s2", "s2"]
    assert read_folder(tmp_path).train.groups is None
    with pytest.raises(DataError, match=r"has no column 'scenes' to group samples by; did you mean 'scene'\?"):
        read_folder(tmp_path, group_column="scenes")
    (tmp_path / "labels.csv").write_text("path,label,scene\n0.png,a,\n")
    with pytest.raises(DataError, match=r"row 2: the column 'scene' is empty; every sample needs a group"):
        read_folder(tmp_path, group_column="scene")
    (tmp_path / "labels.csv").unlink()
    with pytest.raises(DataError, match=r"has no CSV to have the column 'scene'"):
        read_folder(tmp_path, group_column="scene")
