"""The table of official sets: finding, checking and reading their files."""

import gzip
import json
import os
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

from halfsure.data import formats, official
from halfsure.data.formats import DataError
from halfsure.data.official import SOURCES
from tests.data import writers
from tests.data.writers import SHARED, random_images, random_labels

SYSTEM = os.environ.get("XDG_DATA_DIRS", "")
NOT_OFFICIAL = pytest.warns(UserWarning, match="is not the official set")


@pytest.fixture(autouse=True)
def _nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_DIRS", str(tmp_path / "share"))
    monkeypatch.delenv("HALFSURE_DATA", raising=False)


# The table


def test_the_table_is_sound() -> None:
    assert list(SOURCES) == ["digits", "mnist", "fashion-mnist", "cifar10", "cifar100", "svhn", "svhn-extra", "stl10"]
    for name, source in SOURCES.items():
        assert source.name == name
        assert len(set(source.classes)) == len(source.classes) == (100 if name == "cifar100" else 10)
        for layout in source.layouts:
            for file in (*layout.files, *([layout.archive] if layout.archive else [])):
                assert file.md5 is None or re.fullmatch("[0-9a-f]{32}", file.md5)
                # Whatever is downloaded by itself can be verified.
                assert not file.urls or file.md5
            assert all(layout.archive or file.urls for file in layout.files)
    digests = [file.md5 for s in SOURCES.values() for layout in s.layouts for file in layout.files if file.md5]
    assert len(digests) - len(set(digests)) == 2  # train and test of SVHN occur twice


@pytest.mark.parametrize("name", SOURCES)
def test_info_is_plain(name: str) -> None:
    info = official.info(name)
    assert json.loads(json.dumps(info)) == info
    assert info["name"] == name


def test_unknown_names_list_the_known() -> None:
    for function in (official.read, official.find, official.check, official.info):
        with pytest.raises(DataError, match=r"no official set 'cifar'; there are digits, mnist"):
            function("cifar")


# The root


def test_the_root_is_the_argument_else_the_variable_else_the_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    assert official.data_root() == tmp_path / "home" / ".cache" / "halfsure"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert official.data_root() == tmp_path / "cache" / "halfsure"
    monkeypatch.setattr("sys.platform", "darwin")
    assert official.data_root() == tmp_path / "home" / "Library" / "Caches" / "halfsure"
    monkeypatch.setattr("sys.platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert official.data_root() == tmp_path / "local" / "halfsure"
    monkeypatch.setenv("HALFSURE_DATA", "~/data")
    assert official.data_root() == tmp_path / "home" / "data"
    assert official.data_root(tmp_path) == tmp_path


# Digits


def test_digits() -> None:
    digits = official.read("digits")
    assert digits.test is not None
    images = np.concatenate([digits.train.images, digits.test.images])
    assert images.dtype == np.uint8
    assert images.shape == (1797, 8, 8, 1)
    assert (images.min(), images.max()) == (0, 255)
    assert np.bincount(digits.test.labels).tolist() == [36] * 10
    assert official.check("digits") == []
    with pytest.raises(DataError, match="has no folder"):
        official.find("digits")


def test_digits_are_divided_the_same_way_each_time_and_each_is_in_one_part() -> None:
    from sklearn.datasets import load_digits  # noqa: PLC0415 - slow to import

    first, second = official.read("digits"), official.read("digits")
    assert first.test is not None
    assert second.test is not None
    np.testing.assert_array_equal(first.test.images, second.test.images)
    whole = np.rint(load_digits().images * 255 / 16).astype(np.uint8)
    both = np.concatenate([first.train.images, first.test.images])[..., 0]
    assert sorted(image.tobytes() for image in both) == sorted(image.tobytes() for image in whole)


# Finding and reading


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("folder", ["MNIST/raw", "mnist"])
def test_mnist_as_people_keep_it(tmp_path: Path, folder: str, packed: bool) -> None:
    content = writers.write_idx_set(tmp_path / folder, packed=packed)
    assert official.find("mnist", tmp_path) == tmp_path / folder
    assert official.find("mnist", tmp_path / folder) == tmp_path / folder
    with pytest.warns(UserWarning, match=r"12 of 60,000 train images; 5 of 10,000 .*idx3-ubyte.gz has another MD5"):
        data = official.read("mnist", tmp_path)
    np.testing.assert_array_equal(data.train.images[..., 0], content["train-images-idx3-ubyte"])
    np.testing.assert_array_equal(data.train.labels, content["train-labels-idx1-ubyte"])
    assert data.test is not None
    np.testing.assert_array_equal(data.test.images[..., 0], content["t10k-images-idx3-ubyte"])
    assert {status for _, status in official.check("mnist", tmp_path)} == {"differs"}


def test_the_variable_names_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writers.write_idx_set(tmp_path / "MNIST" / "raw")
    monkeypatch.setenv("HALFSURE_DATA", str(tmp_path))
    assert official.find("mnist") == tmp_path / "MNIST" / "raw"


def test_mnist_is_not_taken_for_fashion(tmp_path: Path) -> None:
    writers.write_idx_set(tmp_path / "MNIST" / "raw")
    for root in (tmp_path, tmp_path / "MNIST" / "raw"):
        with pytest.raises(DataError, match=r"fashion-mnist is not there; looked in .*halfsure data get fashion-mnist"):
            official.find("fashion-mnist", root)


def test_fashion_is_found_where_debian_installs_it(tmp_path: Path) -> None:
    place = tmp_path / "share" / "datasets" / "fashion-mnist"
    writers.write_idx_set(place)
    assert official.find("fashion-mnist", tmp_path / "elsewhere") == place


def test_a_missing_test_part_is_none_and_said(tmp_path: Path) -> None:
    folder = tmp_path / "MNIST" / "raw"
    writers.write_idx_set(folder)
    for path in folder.glob("t10k*"):
        path.unlink()
    with pytest.warns(UserWarning, match=r"0 of 10,000 test images.*t10k-images-idx3-ubyte.gz is missing"):
        assert official.read("mnist", tmp_path).test is None
    assert dict(official.check("mnist", tmp_path))["t10k-labels-idx1-ubyte.gz"] == "missing"


def test_images_and_labels_must_match(tmp_path: Path) -> None:
    folder = tmp_path / "MNIST" / "raw"
    writers.write_idx_set(folder)
    (folder / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(writers.idx_bytes(random_labels(11))))
    with pytest.raises(DataError, match=r"12 images, but there are 11 labels"):
        official.read("mnist", tmp_path)


@pytest.mark.parametrize("version", ["bin", "py"])
def test_cifar10_in_both_versions(tmp_path: Path, version: str) -> None:
    folder = tmp_path / f"cifar-10-batches-{version}"
    folder.mkdir()
    images, labels = random_images(6, 2, 32, 32, 3), random_labels(12).reshape(6, 2)
    names = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
    for name, x, y in zip(names, images, labels, strict=True):
        data = writers.cifar_bin_bytes(x, y) if version == "bin" else writers.cifar_pickle_bytes(x, y)
        (folder / (f"{name}.bin" if version == "bin" else name)).write_bytes(data)
    with NOT_OFFICIAL:
        data_set = official.read("cifar10", tmp_path)
    np.testing.assert_array_equal(data_set.train.images, images[:5].reshape(-1, 32, 32, 3))
    np.testing.assert_array_equal(data_set.train.labels, labels[:5].ravel())
    assert data_set.test is not None
    np.testing.assert_array_equal(data_set.test.images, images[5])
    next(folder.glob("data_batch_3*")).unlink()
    with pytest.raises(DataError, match=r"there is no file .*data_batch_3"):
        official.read("cifar10", tmp_path)


def test_svhn_extra_joins_the_train_part(tmp_path: Path) -> None:
    (tmp_path / "SVHN").mkdir()
    images, labels = random_images(6, 32, 32, 3), random_labels(6)
    for i, part in enumerate(("train", "extra", "test")):
        writers.write_svhn(
            tmp_path / "SVHN" / f"{part}_32x32.mat", images[2 * i : 2 * i + 2], labels[2 * i : 2 * i + 2]
        )
    with NOT_OFFICIAL:
        assert len(official.read("svhn", tmp_path).train) == 2
    with NOT_OFFICIAL:
        both = official.read("svhn-extra", tmp_path)
    np.testing.assert_array_equal(both.train.images, images[:4])
    np.testing.assert_array_equal(both.train.labels, labels[:4])
    assert both.test is not None
    np.testing.assert_array_equal(both.test.labels, labels[4:])


def test_stl10_with_its_unlabeled_images_and_folds(tmp_path: Path) -> None:
    folder = tmp_path / "stl10_binary"
    folder.mkdir()
    images, labels = random_images(5, 96, 96, 3), random_labels(4)
    for part, where in (("train", slice(0, 3)), ("test", slice(3, 4))):
        (folder / f"{part}_X.bin").write_bytes(writers.stl_images_bytes(images[where]))
        (folder / f"{part}_y.bin").write_bytes(writers.stl_labels_bytes(labels[where]))
    with NOT_OFFICIAL:
        bare = official.read("stl10", tmp_path)
    assert bare.unlabeled is None
    assert bare.folds is None
    (folder / "unlabeled_X.bin").write_bytes(writers.stl_images_bytes(images[4:]))
    (folder / "fold_indices.txt").write_text(writers.folds_text([[i % 3] for i in range(10)]))
    with NOT_OFFICIAL:
        full = official.read("stl10", tmp_path)
    assert full.unlabeled is not None
    assert full.folds is not None
    np.testing.assert_array_equal(full.unlabeled, images[4:])
    assert [fold.tolist() for fold in full.folds] == [[i % 3] for i in range(10)]
    (folder / "fold_indices.txt").write_text(writers.folds_text([[3]] * 10))
    with pytest.raises(DataError, match="below 3, max is 3"):
        official.read("stl10", tmp_path)


# Real files


def needs(folder: str) -> None:
    if not (SHARED / folder).exists():
        pytest.skip(f"needs the real files of {folder} in ../shared/data")


def test_real_mnist_is_official_packed_and_unpacked(tmp_path: Path) -> None:
    needs("MNIST")
    assert {status for _, status in official.check("mnist", SHARED)} == {"ok"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = official.read("mnist", SHARED)
    assert data.train.images.mean() / 255 == pytest.approx(0.1307, abs=1e-4)
    assert data.train.images.std() / 255 == pytest.approx(0.3081, abs=1e-4)
    for path in official.find("mnist", SHARED).iterdir():
        (tmp_path / "mnist").mkdir(exist_ok=True)
        (tmp_path / "mnist" / path.with_suffix("").name).write_bytes(gzip.decompress(path.read_bytes()))
    assert {status for _, status in official.check("mnist", tmp_path)} == {"ok"}


@pytest.mark.parametrize(("name", "folder", "train"), [("svhn", "SVHN", 16_000), ("cifar100", "cifar-100-python", 500)])
def test_real_parts_are_read_with_a_warning(name: str, folder: str, train: int) -> None:
    needs(folder)
    with pytest.warns(UserWarning, match=f"{train:,} of .*another MD5"):
        data = official.read(name, SHARED)
    assert len(data.train) == train
    assert data.train.images.shape[1:] == SOURCES[name].shape
    assert set(data.train.labels) == set(range(len(data.classes)))


def test_real_names_of_cifar100_and_stl10() -> None:
    needs("cifar-100-python")
    batch = formats._read_batch(SHARED / "cifar-100-python" / "meta")
    assert tuple(batch["fine_label_names"]) == SOURCES["cifar100"].classes
    needs("stl10_binary")
    assert tuple((SHARED / "stl10_binary" / "class_names.txt").read_text().split()) == SOURCES["stl10"].classes


def test_real_stl10_lacks_its_train_part() -> None:
    needs("stl10_binary")
    with pytest.raises(DataError, match=r"there is no file .*train_X.bin"):
        official.read("stl10", SHARED)


def test_real_fashion_mnist_where_debian_has_put_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_DIRS", SYSTEM)
    try:
        official.find("fashion-mnist", tmp_path)
    except DataError:
        pytest.skip("needs Debian's package dataset-fashion-mnist")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # compressed by Debian, so known by what it unpacks to
        data = official.read("fashion-mnist", tmp_path)
    assert data.train.images.shape == (60_000, 28, 28, 1)
    assert np.bincount(data.train.labels).tolist() == [6000] * 10
