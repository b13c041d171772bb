"""Names that lead elsewhere, and what is no file: data are read from their own folder, and nothing is waited for."""

import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from halfsure.data import DataError, Split, formats, load
from halfsure.data.new import read

pytestmark = pytest.mark.skipif(os.name != "posix", reason="pipes, devices and links as Unix has them")


@pytest.fixture(autouse=True)
def _in_time() -> Iterator[None]:
    """A reader that waits for a pipe is stopped."""

    def stop(*_: Any) -> None:
        raise TimeoutError("a reader waits")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def pictures(folder: Path, *names: str) -> Path:
    for number, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (4, 4), number).save(folder / name)
    return folder


@pytest.mark.parametrize(
    "path",
    [
        "../out.png",
        "in/../../out.png",
        "/etc/passwd",
        "link.png",
        "folder_link/out.png",
        "loop",
        "loop/x.png",
        "C:\\..\\out.png",
        "..\\out.png",
        "a\0b",
        "a" * 5000,
        "pipe.png",
        "zero.png",
        ".",
        "",
        "~/x.png",
        "file:///etc/passwd",
    ],
)
def test_a_list_of_pictures_stays_in_its_folder(tmp_path: Path, path: str) -> None:
    pictures(tmp_path, "out.png", "set/in/0.png", "set/1.png")
    folder = tmp_path / "set"
    (folder / "link.png").symlink_to(tmp_path / "out.png")
    (folder / "folder_link").symlink_to(tmp_path)
    (folder / "loop").symlink_to(folder / "loop")
    (folder / "zero.png").symlink_to("/dev/zero")
    os.mkfifo(folder / "pipe.png")
    (folder / "labels.csv").write_text(f'path,label\nin/0.png,a\n1.png,b\n"{path}",a\n', encoding="utf-8")
    with pytest.raises(
        DataError, match=r"row 4: the path .* does not lead to a file inside|there is no such file|holds NUL"
    ):
        load(folder)
    (folder / "labels.csv").write_text("path,label\nin/0.png,a\n1.png,b\n")
    assert len(load(folder).train) == 2


def test_links_out_of_a_folder_of_classes_are_passed_over(tmp_path: Path) -> None:
    folder = pictures(tmp_path, "secret.png", "set/a/0.png", "set/b/1.png") / "set"
    (folder / "a" / "link.png").symlink_to(tmp_path / "secret.png")
    (folder / "b" / "out").symlink_to(tmp_path)
    (folder / "b" / "round").symlink_to(folder / "b")
    (folder / "b" / "zero.png").symlink_to("/dev/zero")
    os.mkfifo(folder / "b" / "pipe.png")
    assert sorted(load(folder).train.samples[:, 0, 0, 0].tolist()) == [1, 2]


def test_a_class_that_is_a_link_to_the_others_is_refused(tmp_path: Path) -> None:
    pictures(tmp_path, "a/0.png", "b/1.png")
    (tmp_path / "c").symlink_to(tmp_path / "a")
    with pytest.raises(DataError, match=r"c/0.png is of the class 'a' too, by a link"):
        load(tmp_path)


def test_folders_nested_without_end(tmp_path: Path) -> None:
    pictures(tmp_path, "a/0.png", "b/1.png")
    here = os.getcwd()
    os.chdir(tmp_path / "a")
    try:
        for _ in range(1500):
            os.mkdir("deep")
            os.chdir("deep")
    finally:
        os.chdir(here)
    with pytest.raises(DataError, match=r"cannot be read: File name too long"):
        load(tmp_path)
    deepest = tmp_path / "a"
    while len(os.fspath(deepest)) < 3000:
        deepest /= "deep"
    os.rename(deepest, tmp_path / "rest")
    with pytest.raises(DataError, match=r"the folder .* cannot be read|has no image"):
        load(tmp_path)


@pytest.mark.parametrize("name", ["y.npy", "X_test.npy"])
def test_an_array_that_is_a_link_out_of_its_folder_is_refused(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    np.save(folder / "X.npy", np.zeros((2, 2), np.float32))
    np.save(folder / "y.npy", np.array([0, 1]))
    np.save(tmp_path / "other.npy", np.array([1, 0]))
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(tmp_path / "other.npy")
    with pytest.raises(DataError, match=f"{name} leads out of its folder"):
        load(folder)
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with pytest.raises(DataError, match=f"{name} leads out of its folder, or to no file"):
        load(folder)


READERS: dict[str, Callable[[Path], Any]] = {
    "t.csv": partial(load, label_column="y"),
    "t.tsv": partial(load, label_column="y"),
    "t.parquet": partial(load, label_column="y"),
    "t.npz": load,
    "t.npy": partial(read, encoding=None, shape=(2,)),
    "t.png": partial(read, encoding=None, shape=(4, 4, 1)),
    "new.csv": partial(read, encoding=None, shape=(4, 4, 1)),
    "split.json": Split.load,
    "images": formats.read_idx_images,
    "batch": formats.read_cifar_pickle,
    "batch.bin": formats.read_cifar_bin,
    "x.mat": formats.read_svhn,
    "folds": formats.read_stl_folds,
}


@pytest.mark.parametrize("name", READERS)
def test_pipes_devices_and_folders_are_refused_and_not_waited_for(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    os.mkfifo(path)
    with pytest.raises(DataError, match="it is a pipe or a device"):
        READERS[name](path)
    path.unlink()
    path.symlink_to("/dev/zero")
    with pytest.raises(DataError, match="it is a pipe or a device"):
        READERS[name](path)
    path.unlink()
    path.mkdir()
    with pytest.raises(DataError, match=r"it is a folder|has no|there is no"):
        READERS[name](path)
    with pytest.raises(DataError, match=r"there is no|neither"):
        READERS[name](tmp_path / "gone" / name)


@pytest.mark.parametrize("kind", ["pipe", "zero"])
def test_a_list_of_pictures_that_is_no_file(tmp_path: Path, kind: str) -> None:
    pictures(tmp_path, "a/0.png", "b/1.png")
    table = tmp_path / "labels.csv"
    os.mkfifo(table) if kind == "pipe" else table.symlink_to("/dev/zero")
    with pytest.raises(DataError, match=r"labels.csv cannot be read: it is a pipe or a device"):
        load(tmp_path)
    assert len(read(tmp_path, None, shape=(4, 4, 1)).samples) == 2  # for new pictures it lists nothing


def test_names_that_are_no_text_are_refused_before_they_are_to_be_written(tmp_path: Path) -> None:
    pictures(tmp_path, "a/0.png", "b/1.png")
    odd = os.fsencode(tmp_path) + b"/a/\xff.png"
    os.rename(tmp_path / "a" / "0.png", odd)
    for way in (load, partial(read, encoding=None, shape=(4, 4, 1))):
        with pytest.raises(DataError, match=r"udcff.png' is not text in UTF-8"):
            way(tmp_path)
    os.rename(odd, tmp_path / "a" / "0.png")
    os.rename(tmp_path / "a", os.fsencode(tmp_path) + b"/\xff")
    with pytest.raises(DataError, match=r"is not text in UTF-8"):
        load(tmp_path)


def test_a_split_cannot_name_other_samples(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", X=np.eye(4), y=np.array([0, 1, 0, 1]))
    for labeled, words in (
        ('{"0": [0], "1": [4]}', "sample 4, but there are only 4"),
        ('{"0": [0], "1": [-1]}', "must give a list of sample indices"),
        ('{"0": [0], "1": [1e0]}', "must give a list of sample indices"),
        ('{"0": [1], "1": [0]}', "drawn from other data"),
        ('{"0": [0, 0], "1": [1]}', "twice"),
        ('{"0": [0], "\\u001b[2J": [1]}', r"names the class '\\x1b\[2J'"),
        ('{"0": [0], "1": [' + "9" * 5000 + "]}", "not valid JSON"),
    ):
        text = f'{{"format": 1, "source": "\\u001b]0;x", "seed": 0, "size": 4, "labeled": {labeled}}}'
        (tmp_path / "s.json").write_text(text)
        with pytest.raises(DataError, match=words):
            load(tmp_path / "d.npz", split=tmp_path / "s.json")
    (tmp_path / "s.json").write_text(text.replace('"size": 4', '"size": 5').replace("9" * 5000, "1"))
    with pytest.raises(DataError, match=r"^[ -~�]*$"):
        load(tmp_path / "d.npz", split=tmp_path / "s.json")
