"""People's own data: folders of images, arrays and tables, good and bad."""

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch
from PIL import Image

from halfsure.data import images as images_module
from halfsure.data.arrays import from_arrays, from_torch_dataset, read_npz
from halfsure.data.dataset import Data, DataError, Text
from halfsure.data.image_folder import read_folder
from halfsure.data.images import decode
from halfsure.data.text import fit_text

pd = pytest.importorskip("pandas", reason="tables need the extra halfsure[tables]")
from halfsure.data.tables import TableEncoding, read_frame, read_table  # noqa: E402 - after the check for pandas

RNG = np.random.default_rng(0)


def picture(
    path: Path, colour: Any = (9, 8, 7), size: tuple[int, int] = (8, 6), mode: str = "RGB", **save: Any
) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, colour).save(path, **save)
    return path


# Images


@pytest.mark.parametrize(
    ("mode", "colour", "suffix", "expected"),
    [
        ("RGB", (200, 10, 30), ".png", [200, 10, 30]),
        ("L", 77, ".png", [77]),
        ("1", 1, ".png", [255]),
        ("I;16", 65_535, ".png", [255]),
        ("I;16", 257 * 100, ".tif", [100]),
        ("RGBA", (200, 10, 30, 0), ".png", [255, 255, 255]),
        ("RGBA", (200, 10, 30, 255), ".webp", [200, 10, 30]),
        ("LA", (40, 255), ".png", [40]),
        ("CMYK", (0, 255, 255, 0), ".tif", [255, 0, 0]),
        ("P", 3, ".png", None),
    ],
)
def test_every_mode_becomes_eight_bits(tmp_path: Path, mode: str, colour: Any, suffix: str, expected: Any) -> None:
    path = tmp_path / f"x{suffix}"
    image = Image.new(mode, (8, 6), colour)
    if mode == "P":
        image.putpalette([0, 0, 0] * 3 + [9, 8, 7] + [0, 0, 0] * 252)
        expected = [9, 8, 7]
    image.save(path, lossless=True)  # WebP asks; the others do not mind
    decoded = decode([path]).images
    assert decoded.shape == (1, 6, 8, len(expected))
    np.testing.assert_array_equal(decoded, np.broadcast_to(expected, decoded.shape))


def test_a_picture_that_was_turned_is_turned_back(tmp_path: Path) -> None:
    pixels = RNG.integers(0, 255, (4, 7, 3), dtype=np.uint8)
    exif = Image.Exif()
    exif[0x0112] = 6  # to be shown turned clockwise by a quarter
    Image.fromarray(pixels).save(tmp_path / "x.png", exif=exif)
    np.testing.assert_array_equal(decode([tmp_path / "x.png"]).images[0], np.rot90(pixels, -1))


def test_pictures_of_many_sizes_and_colours_become_one_array(tmp_path: Path) -> None:
    paths = [picture(tmp_path / "a.png", size=(40, 30)), picture(tmp_path / "b.png", 7, (9, 90), mode="L")]
    assert decode(paths).images.shape == (2, 32, 32, 3)
    assert decode(paths, 16).images.shape == (2, 16, 16, 3)
    assert (decode(paths).images[1] == 7).all()


def test_bad_pictures_are_named_together_and_skipped_only_when_asked(tmp_path: Path) -> None:
    good = [picture(tmp_path / f"good{i}.png", (i, 0, 0)) for i in range(3)]
    whole = good[0].read_bytes()
    (tmp_path / "cut.png").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text.png").write_text("hello")
    paths = [good[0], tmp_path / "cut.png", good[1], tmp_path / "text.png", tmp_path / "gone.png", good[2]]
    with pytest.raises(DataError, match=r"of 6 images cannot be read") as error:
        decode(paths)
    for name in ("text.png: it is not an image", "gone.png: there is no such file"):
        assert name in str(error.value)
    decoded = decode(paths, skip_bad=True)
    assert decoded.kept.tolist() == [0, 2, 5]
    assert decoded.images[:, 0, 0, 0].tolist() == [0, 1, 2]
    with pytest.raises(DataError, match=r"none of 2 images can be read"):
        decode(paths[3:5], skip_bad=True)


def test_a_picture_that_claims_too_many_pixels_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images_module, "MAX_PIXELS", 100)
    with pytest.raises(DataError, match=r"it claims 20 × 20 pixels"):
        decode([picture(tmp_path / "big.png", size=(20, 20))])


def test_more_than_fits_into_memory_is_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [picture(tmp_path / f"{i}.png", (i, i, i)) for i in range(5)]
    whole = decode(paths).images
    monkeypatch.setattr(images_module, "IN_MEMORY", 100)
    mapped = decode(paths, mapped=tmp_path / "cache" / "images.npy").images
    assert isinstance(mapped, np.memmap)
    np.testing.assert_array_equal(mapped, whole)
    with pytest.raises(DataError, match=r"do not fit into memory"):
        decode(paths)


def test_a_file_that_another_process_has_mapped_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images_module, "IN_MEMORY", 100)
    file = tmp_path / "cache" / "images.npy"
    first = decode([picture(tmp_path / f"{i}.png", (1, 1, 1)) for i in range(3)], mapped=file).images
    second = decode([picture(tmp_path / f"{i}.png", (2, 2, 2)) for i in range(5)], mapped=file).images
    assert (first == 1).all()
    assert (second == 2).all()
    assert [path.name for path in file.parent.iterdir()] == ["images.npy"]


def test_a_folder_larger_than_memory_is_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images_module, "IN_MEMORY", 100)
    monkeypatch.setenv("HALFSURE_DATA", str(tmp_path / "cache"))
    for name in ("a/1", "b/1"):
        picture(tmp_path / "own" / f"{name}.png")
    data = read_folder(tmp_path / "own")
    assert isinstance(data.train.samples, np.memmap)
    assert (data.train.samples[0, 0, 0] == (9, 8, 7)).all()


def test_a_file_that_only_calls_itself_a_picture_starts_no_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pillow hands PostScript to Ghostscript, whatever the file's name says."""
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    (bin_folder / "gs").write_text(f"#!/bin/sh\ntouch {tmp_path / 'ran'}\n")
    (bin_folder / "gs").chmod(0o755)
    monkeypatch.setenv("PATH", str(bin_folder), prepend=":")
    Image.new("RGB", (4, 4)).save(tmp_path / "x.png", format="EPS")
    with pytest.raises(DataError, match=r"not an image in a known format"):
        decode([tmp_path / "x.png"])
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("size", [0, 1, -3, 2.5, "32"])
def test_impossible_sizes_are_refused(tmp_path: Path, size: Any) -> None:
    with pytest.raises(DataError, match=r"size of images must be a whole number"):
        decode([picture(tmp_path / "x.png")], size)


# Folders


def test_labeled_and_unlabeled_folders(tmp_path: Path) -> None:
    for i, name in enumerate(
        ("labeled/cat/1", "labeled/cat/2", "labeled/dog/1", "unlabeled/x", "test/dog/1", "val/cat/1")
    ):
        picture(tmp_path / f"{name}.png", (i, i, i))
    data = read_folder(tmp_path)
    assert (data.classes, data.kind) == (("cat", "dog"), "image")
    assert data.train.labels.tolist() == [0, 0, 1, -1]
    assert data.labeled.tolist() == [0, 1, 2]
    assert data.train.samples[:, 0, 0, 0].tolist() == [0, 1, 2, 3]
    assert data.test is not None
    assert data.test.labels.tolist() == [1]
    assert data.val is not None
    assert data.val.labels.tolist() == [0]


def test_a_folder_a_class(tmp_path: Path) -> None:
    for name in ("b/1", "a/1", "a/2"):
        picture(tmp_path / f"{name}.JPG", format="JPEG")
    data = read_folder(tmp_path)
    assert data.train.labels.tolist() == [0, 0, 1]


def test_a_csv_of_paths_and_labels(tmp_path: Path) -> None:
    for i in range(4):
        picture(tmp_path / "pictures" / f"{i}.png", (i, i, i))
    (tmp_path / "labels.csv").write_text(
        "﻿path,label\npictures/3.png,dog\npictures/0.png,\npictures/1.png, cat \npictures/2.png,dog\n", encoding="utf-8"
    )
    data = read_folder(tmp_path)
    assert data.train.labels.tolist() == [1, -1, 0, 1]
    assert data.train.samples[:, 0, 0, 0].tolist() == [3, 0, 1, 2]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("file,label\n0.png,a\n", r"needs the columns path and label, has file, label"),
        ("", r"needs the columns path and label"),
        ("path,label\n", r"has no rows"),
        ("path,label\n0.png,a\n../secret.png,b\n", r"row 3: the path '../secret.png' does not lead to a file inside"),
        ("path,label\n/etc/passwd,b\n", r"row 2: the path '/etc/passwd' does not lead"),
        ("path,label\nlink.png,b\n", r"row 2: the path 'link.png' does not lead"),
        ("path,label\n,b\n", r"row 2: the path '' does not lead"),
        ("path,label\n0.png,a\n1.png,b\n0.png,a\n", r"row 4: 0.png was named in row 2 already"),
        ("path,label\n0.png,\n1.png,nan\n", r"has no labeled image"),
        ("path,label\n\n\n0.png,NA\n", r"row 4: 'NA' is no label; leave it empty or write -1"),
        ("path,label\n0.png,a\nx/../0.png,b\n", r"row 3: x/../0.png was named in row 2 already"),
        ("path,label,label\n0.png,a,b\n", r"names a column twice"),
        ("path,label\nloop.png,b\n", r"row 2: the path 'loop.png' does not lead"),
        ("path,label\npipe.png,b\n", r"row 2: the path 'pipe.png' does not lead"),
        ("path,label\n0.png,a\n1.png,a\n", r"only the class 'a'; a classifier needs at least two"),
        ("path,label\n0.png,a\n1.png,a\nnone.png,b\n", r"none.png: there is no such file"),
    ],
)
def test_bad_tables_of_paths_are_refused_with_their_row(tmp_path: Path, table: str, message: str) -> None:
    folder = tmp_path / "data"
    picture(folder / "0.png")
    picture(folder / "1.png")
    (folder / "link.png").symlink_to(picture(tmp_path / "secret.png"))
    (folder / "loop.png").symlink_to(folder / "loop.png")
    os.mkfifo(folder / "pipe.png")
    (folder / "labels.csv").write_text(table)
    with pytest.raises(DataError, match=message):
        read_folder(folder)


def test_folders_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"there is no folder"):
        read_folder(tmp_path / "gone")
    with pytest.raises(DataError, match=r"has no subfolder; put the images of each class"):
        read_folder(tmp_path)
    picture(tmp_path / "a" / "1.png")
    (tmp_path / "b").mkdir()
    with pytest.raises(DataError, match=r"b has no image"):
        read_folder(tmp_path)
    (tmp_path / "1.csv").touch()
    (tmp_path / "2.csv").touch()
    with pytest.raises(DataError, match=r"has 2 CSV files; name the one"):
        read_folder(tmp_path)


def test_a_folder_of_classes_is_not_mistaken_for_something_else(tmp_path: Path) -> None:
    for name in ("a/1", "b/1", "__MACOSX/x"):
        picture(tmp_path / f"{name}.png", (9, 8, 7))
    (tmp_path / "a" / "._1.png").write_text("what a Mac leaves behind")
    (tmp_path / "a" / "out.png").symlink_to(picture(tmp_path.parent / f"{tmp_path.name}-secret.png"))
    data = read_folder(tmp_path)
    assert data.classes == ("a", "b")
    assert len(data.train) == 2
    picture(tmp_path / "unlabeled" / "1.png")
    with pytest.raises(DataError, match=r"has a folder 'unlabeled' beside its classes; put the classes into"):
        read_folder(tmp_path)


# Arrays


@pytest.mark.parametrize(
    "y",
    [
        [0, 1, -1, 1],
        np.array([0, 1, -1, 1]),
        torch.tensor([0, 1, -1, 1]),
        ["a", "b", None, "b"],
        np.array(["a", "b", "", "b"]),
        [0.0, 1.0, float("nan"), 1.0],
        pd.Series(["a", "b", None, "b"]),
        pd.Series([0, 1, pd.NA, 1], dtype="Int64"),
    ],
    ids=lambda y: f"{type(y).__name__}-{y[0]!r}",
)
def test_labels_of_every_kind(y: Any) -> None:
    data = from_arrays(np.zeros((4, 3)), y)
    assert data.train.labels.tolist() == [0, 1, -1, 1]
    assert data.labeled.tolist() == [0, 1, 3]


def test_classes_need_not_start_at_zero_and_can_be_given() -> None:
    assert from_arrays(np.zeros((3, 1)), [7, 3, 7]).classes == ("3", "7")
    assert from_arrays(np.zeros((3, 1)), ["x", "y", "x"], classes=["y", "x"]).train.labels.tolist() == [1, 0, 1]
    with pytest.raises(DataError, match=r"row 1 has the label 'z', which is not one of x, y"):
        from_arrays(np.zeros((2, 1)), ["x", "z"], classes=["x", "y"])


def test_test_labels_mean_what_the_training_labels_mean() -> None:
    rows = np.zeros((6, 1))
    data = from_arrays(rows, [5, 7, 5, 7, -1, -1], test=(rows[:3], [7, 5, 7]))
    assert data.test is not None
    assert [data.classes[i] for i in data.test.labels] == ["7", "5", "7"]
    named = from_arrays(rows, [0, 1, 0, 1, -1, -1], classes=["cat", "dog"], test=(rows[:2], [1, 0]))
    assert named.test is not None
    assert [named.classes[i] for i in named.test.labels] == ["dog", "cat"]
    frame = pd.DataFrame({"x": range(6), "y": [1, 2, 3] * 2})
    table = read_frame(frame, "y", test=frame.iloc[1:4])
    assert table.test is not None
    assert [table.classes[i] for i in table.test.labels] == ["2", "3", "1"]


def test_labels_that_are_no_labels_are_refused() -> None:
    with pytest.raises(DataError, match=r"row 1 has a label of type complex"):
        from_arrays(np.zeros((2, 1)), ["a", 1j])
    with pytest.raises(DataError, match=r"one value a sample"):
        from_arrays(np.zeros((2, 1)), [{}, {}])


def test_samples_of_every_kind() -> None:
    rows = RNG.normal(size=(4, 3)).astype(np.float32)
    for samples in (rows, torch.from_numpy(rows), scipy.sparse.csr_matrix(rows), rows.astype(np.float64)):
        data = from_arrays(samples, [0, 1, 0, 1])
        np.testing.assert_array_equal(data.train.samples, rows)
        assert data.kind == "array"
    grey = from_arrays(np.zeros((2, 5, 6), np.uint8), [0, 1])
    assert grey.train.samples.shape == (2, 5, 6, 1)
    assert grey.kind == "image"


def test_a_torch_data_set() -> None:
    rows = torch.randn(6, 2)
    data = from_torch_dataset(torch.utils.data.TensorDataset(rows, torch.tensor([0, 1, -1, 0, 1, -1])))
    np.testing.assert_array_equal(data.train.samples, rows)
    assert data.labeled.tolist() == [0, 1, 3, 4]
    many = from_torch_dataset(torch.utils.data.TensorDataset(torch.rand(22, 3), torch.arange(22) % 11))
    assert many.classes == tuple(map(str, range(11)))
    halves = from_arrays(rows.bfloat16(), [0, 1, -1, 0, 1, -1])
    assert halves.train.samples.dtype == np.float32
    with pytest.raises(DataError, match=r"has no length"):
        from_torch_dataset(iter([]))


class Pictures(torch.utils.data.Dataset[Any]):
    """As `torchvision` has them after `ToTensor()`: floats from 0 to 1, channels first."""

    def __init__(self, pixels: Any, change: Any = lambda image: image) -> None:
        self.pixels, self.change = pixels, change

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, row: int) -> tuple[Any, int]:
        image = torch.from_numpy(self.pixels[row]).permute(2, 0, 1)
        return self.change(image.float() / 255), row % 2


@pytest.mark.parametrize("channels", [1, 3])
def test_images_of_floats_become_the_bytes_they_were_made_from(channels: int) -> None:
    every = np.arange(256, dtype=np.uint8)
    pixels = np.stack([np.roll(every, i).reshape(16, 16, 1).repeat(channels, 2) for i in range(4)])
    for change in (lambda image: image, lambda image: image.double(), lambda image: (image * 255).byte()):
        data = from_torch_dataset(Pictures(pixels, change))
        assert data.kind == "image"
        np.testing.assert_array_equal(data.train.samples, pixels)
        assert data.train.samples.dtype == np.uint8


@pytest.mark.parametrize("change", [lambda i: i * 2, lambda i: i - 0.5, lambda i: i / 0], ids=["over", "below", "NaN"])
def test_images_that_were_normalised_are_refused(change: Any) -> None:
    pixels = np.arange(2 * 4 * 4 * 3, dtype=np.uint8).reshape(2, 4, 4, 3) * 2
    with pytest.raises(
        DataError, match=r"sample \d has pixels from .* from 0 to 1, as ToTensor\(\) .* leave Normalize"
    ):
        from_torch_dataset(Pictures(pixels, change))


def test_npz_and_mapped_npy(tmp_path: Path) -> None:
    rows, labels = RNG.normal(size=(4, 3)).astype(np.float32), np.array([0, 1, -1, 1])
    np.savez(tmp_path / "d.npz", X=rows, y=labels, X_test=rows, y_test=labels, classes=np.array(["a", "b"]))
    data = read_npz(tmp_path / "d.npz")
    assert data.classes == ("a", "b")
    assert data.test is not None
    folder = tmp_path / "big"
    folder.mkdir()
    np.save(folder / "X.npy", rows)
    np.save(folder / "y.npy", labels)
    mapped = read_npz(folder)
    assert isinstance(mapped.train.samples, np.memmap)
    np.testing.assert_array_equal(mapped.train.samples, rows)


@pytest.mark.parametrize("shape", [(0, 10**12, 10**12), (0, 10**30), (1,) * 65])
def test_a_mapped_array_of_a_shape_that_no_array_has_is_refused(shape: tuple[int, ...], tmp_path: Path) -> None:
    with (tmp_path / "X.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
        file.write(bytes(64))
    np.save(tmp_path / "y.npy", np.array([0, 1]))
    with pytest.raises(DataError, match=r"X\.npy cannot be read as NumPy arrays: no array has the shape"):
        read_npz(tmp_path)


def test_hostile_and_broken_arrays_are_refused(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return (Path(tmp_path / "ran").touch, ())

    np.savez(tmp_path / "evil.npz", X=np.array([Evil()], dtype=object), y=np.array([0]))
    with pytest.raises(DataError, match=r"cannot be read as NumPy arrays"):
        read_npz(tmp_path / "evil.npz")
    assert not (tmp_path / "ran").exists()
    (tmp_path / "cut.npz").write_bytes(b"PK\x03\x04oops")
    with pytest.raises(DataError, match=r"cannot be read as NumPy arrays"):
        read_npz(tmp_path / "cut.npz")
    with pytest.raises(DataError, match=r"there is no file"):
        read_npz(tmp_path / "gone.npz")
    np.savez(tmp_path / "other.npz", a=np.zeros(1))
    with pytest.raises(DataError, match=r"no array named X or y; it has a"):
        read_npz(tmp_path / "other.npz")


@pytest.mark.parametrize(
    ("samples", "labels", "message"),
    [
        (np.array([[0.0], [np.nan], [np.inf]]), [0, 1, 0], r"row 1 holds NaN or infinity"),
        (np.zeros((2, 3)), [0, 1, 0], r"2 samples but 3 labels"),
        (np.zeros((2, 3)), [[0], [1]], r"one value a sample"),
        (np.zeros((2, 3, 4)), [0, 1], r"got float64 of shape \(2, 3, 4\)"),
        (np.zeros((2, 3, 4, 5), np.uint8), [0, 1], r"1 or 3 channels"),
        (np.array([["a"], ["b"]]), [0, 1], r"samples must be numbers"),
        (np.full((2, 3), 1e300), [0, 1], r"row 0 holds NaN or infinity"),
        (np.zeros((2, 0)), [0, 1], r"hold no value"),
        ([[1], [1, 2]], [0, 1], r"must all have the same shape"),
        (np.zeros((2, 3)), [-1, -1], r"has no class; a classifier needs at least two"),
    ],
)
def test_arrays_that_cannot_be_trained_on_are_refused(samples: Any, labels: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        from_arrays(samples, labels)


# Tables


def people() -> Any:
    return pd.DataFrame(
        {
            "age": [20.0, 40.0, None, 60.0],
            "city": ["Rome", "Oslo", None, "Rome"],
            "note": [
                "a long day in the sun",
                "rain and wind on the sea",
                "no more to be said here",
                "sun and sea and wind",
            ],
            "sure": [True, False, True, True],
            "label": ["yes", "no", None, "yes"],
        }
    )


def test_a_table_becomes_rows_and_its_encoding_survives_json() -> None:
    data = read_frame(people(), "label")
    assert data.classes == ("no", "yes")
    assert data.train.labels.tolist() == [1, 0, -1, 1]
    rows = data.train.samples
    np.testing.assert_allclose(rows[:, 0], np.array([-1, 0, 0, 1]) / np.std([20, 40, 60]) * 20, rtol=1e-6)
    assert rows[:, 1].tolist() == [0, 0, 1, 0]  # the age that is missing
    assert rows[:, 2:5].tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 1], [0, 1, 0]]
    assert data.encoding is not None
    fields = json.loads(json.dumps(data.encoding))
    again = TableEncoding.from_json({key: value for key, value in fields.items() if key != "kind"})
    np.testing.assert_array_equal(again.rows(people()), rows)


def test_new_categories_count_as_another_and_missing_columns_are_named() -> None:
    data = read_frame(people(), "label")
    assert data.encoding is not None
    encoding = TableEncoding.from_json({key: value for key, value in data.encoding.items() if key != "kind"})
    new = people().assign(city="Lima")
    assert encoding.rows(new)[:, 2:5].tolist() == [[0, 0, 1]] * 4
    with pytest.raises(DataError, match=r"no column 'city', which the model was trained on"):
        encoding.rows(people().drop(columns="city"))
    with pytest.raises(DataError, match=r"'age' holds numbers, but 'old' in row 0 is none"):
        encoding.rows(people().astype({"age": object}).assign(age="old"))


def test_text_columns_hold_the_rows_of_their_encoding() -> None:
    notes = [" ".join(RNG.choice(["sun", "sea", "wind", "rain", "day", "night", "star"], 12)) for _ in range(60)]
    frame = pd.DataFrame({"age": np.arange(60.0), "note": notes, "label": ["yes", "no"] * 30})
    data = read_frame(frame, "label")
    (text,) = data.encoded
    assert text.features == slice(2, 2 + fit_text(notes).vectors.shape[1])
    np.testing.assert_array_equal(data.train.samples[:, text.features], fit_text(notes).rows(notes))
    assert isinstance(text, Text)
    assert len(text.words) == 60


def test_a_text_encoder_of_ones_own() -> None:
    def lengths(texts: list[str]) -> Any:
        return [[len(text)] for text in texts]

    data = read_frame(people()[["note", "label"]], "label", text_encoder=lengths)
    assert data.train.samples[:, 0].tolist() == [len(note) for note in people()["note"]]
    assert data.encoding is not None
    encoding = TableEncoding.from_json({key: value for key, value in data.encoding.items() if key != "kind"})
    with pytest.raises(DataError, match=r"by an encoder of yours; give it again"):
        encoding.rows(people())


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_tables_in_files(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"people{suffix}"
    if suffix == ".parquet":
        pytest.importorskip("pyarrow", reason="parquet needs the extra halfsure[tables]")
        people().to_parquet(path)
    else:
        people().to_csv(path, index=False, sep="\t" if suffix == ".tsv" else ",")
    data = read_table(path, "label", test=str(path))
    np.testing.assert_allclose(data.train.samples, read_frame(people(), "label").train.samples, rtol=1e-6)
    assert data.test is not None
    np.testing.assert_array_equal(data.test.samples, data.train.samples)


def test_bad_tables_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no column 'target' to take the labels from; it has age, city"):
        read_frame(people(), "target")
    with pytest.raises(DataError, match=r"only the class 'yes'"):
        read_frame(people().assign(label="yes"), "label")
    with pytest.raises(DataError, match=r"two columns named 'age'"):
        read_frame(pd.concat([people(), people()[["age"]]], axis=1), "label")
    assert read_frame(pd.DataFrame({0: range(4), 1: range(4), "y": list("abab")}), "y").train.samples.shape == (4, 4)
    spread = pd.DataFrame({"x": [1, 1 + 1e-9, 1, 1], "y": list("abab")})
    with pytest.raises(DataError, match=r"the column 'x', row 0, gives no finite number"):
        read_frame(spread, "y", test=pd.DataFrame({"x": [1e300], "y": ["a"]}))
    with pytest.raises(DataError, match=r"holds no number at all"):
        read_frame(people().assign(age=np.nan), "label")
    with pytest.raises(DataError, match=r"there is no file"):
        read_table(tmp_path / "gone.csv", "label")
    with pytest.raises(DataError, match=r"a table is a .csv, .tsv, .parquet or .xlsx file"):
        read_table(tmp_path / "x.ods", "label")
    for content in (b"", b"\xff\xfe\x00", b"PAR1 no"):
        for name in ("bad.csv", "bad.parquet"):
            (tmp_path / name).write_bytes(content)
            with pytest.raises(
                DataError, match=r"cannot be read as a table|no column 'label'|holds NUL|no encoding that is known"
            ):
                read_table(tmp_path / name, "label")


def test_data_keeps_its_fields_when_labels_are_chosen_anew() -> None:
    data = from_arrays(np.zeros((4, 1)), [0, 1, 0, 1])
    fewer = data.with_labels(np.array([3, 0]))
    assert fewer.labeled.tolist() == [0, 3]
    assert dataclasses.replace(fewer, labeled=data.labeled).train is data.train


def test_one_word_does_not_make_categories_of_numbers() -> None:
    pd = pytest.importorskip("pandas")
    numbers = [str(value / 7) for value in range(200)]
    table = pd.DataFrame({"x": numbers, "label": ["a", "b"] * 100})
    assert [column["kind"] for column in _columns(read_frame(table, "label"))] == ["number"]
    table.loc[17, "x"] = "?"
    with pytest.raises(DataError, match=r"column 'x' holds numbers, but '\?' in row 17 is none"):
        read_frame(table, "label")
    few = pd.DataFrame({"x": ["007", "012", "A1", "B2"] * 50, "label": ["a", "b"] * 100})
    assert [column["kind"] for column in _columns(read_frame(few, "label"))] == ["category"]


def test_infinity_in_a_table_is_refused_by_row() -> None:
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"x": [1.0, np.inf, None, 2.0], "c": ["u", "v", "u", "v"], "label": ["a", "b", "a", "b"]})
    with pytest.raises(DataError, match=r"column 'x', row 1, holds infinity"):
        read_frame(table, "label")


def test_the_test_table_is_read_by_the_types_of_training(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    (tmp_path / "train.csv").write_text("code,label\n" + "007,a\nA1,b\n" * 10)
    (tmp_path / "test.csv").write_text("code,label\n" + "007,a\n" * 3)
    data = read_table(tmp_path / "train.csv", "label", test=tmp_path / "test.csv")
    assert data.test is not None
    np.testing.assert_array_equal(data.test.samples, data.train.samples[[0, 0, 0]])


def _columns(data: Data) -> list[dict[str, Any]]:
    assert data.encoding is not None
    columns: list[dict[str, Any]] = data.encoding["columns"]
    return columns


def test_dates_are_refused_rather_than_taken_as_categories() -> None:
    days = pd.date_range("2026-01-01", periods=4)
    table = pd.DataFrame({"when": days, "x": [1.0, 2.0, 3.0, 4.0], "label": ["a", "b", "a", "b"]})
    for column in (days, days - days[0]):
        with pytest.raises(DataError, match=r"column 'when' holds dates; make numbers of them"):
            read_frame(table.assign(when=column), "label")
