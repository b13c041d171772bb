"""New samples for a trained model: every form they come in, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from halfsure.data import DataError
from halfsure.data.image_folder import read_folder
from halfsure.data.images import decode
from halfsure.data.new import read
from halfsure.data.official import read as read_official

IMAGE = {"kind": "image", "shape": [6, 8, 3]}
SHAPE = (6, 8, 3)


def picture(path: Path, colour: Any = (9, 8, 7), size: tuple[int, int] = (8, 6), mode: str = "RGB") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, colour).save(path)
    return path


# Images


def test_all_pictures_below_a_folder(tmp_path: Path) -> None:
    paths = [picture(tmp_path / name, (i, i, i)) for i, name in enumerate(["a.png", "b/c.png", "b/d/e.png"])]
    new = read(tmp_path, IMAGE, shape=SHAPE)
    assert new.names == ["a.png", "b/c.png", "b/d/e.png"]
    assert new.labels == [None, "b", "b"]
    np.testing.assert_array_equal(new.samples, decode(paths, like=SHAPE).images)


def test_pictures_of_another_size_and_colour_become_what_training_would_make_of_them(tmp_path: Path) -> None:
    for i, name in enumerate(["labeled/x/1.png", "labeled/y/1.png"]):
        picture(tmp_path / "train" / name, (i, 0, 0))
    picture(tmp_path / "train" / "test" / "y" / "2.png", 100, (40, 30), mode="L")
    trained = read_folder(tmp_path / "train")
    assert trained.test is not None
    new = read(tmp_path / "train" / "test", trained.encoding, shape=trained.train.samples.shape[1:])
    np.testing.assert_array_equal(new.samples, trained.test.samples)
    assert new.labels == ["y"]


def test_the_layouts_of_training(tmp_path: Path) -> None:
    for name in ("labeled/cat/1", "labeled/dog/1", "unlabeled/x", "test/dog/1", "val/cat/1"):
        picture(tmp_path / f"{name}.png")
    new = read(tmp_path, IMAGE, shape=SHAPE)
    found = dict(zip(new.names, new.labels or (), strict=True))
    assert found == {
        "labeled/cat/1.png": "cat",
        "labeled/dog/1.png": "dog",
        "test/dog/1.png": "dog",
        "unlabeled/x.png": None,
        "val/cat/1.png": "cat",
    }
    part = read(tmp_path, IMAGE, shape=SHAPE, test=True)
    assert (part.names, part.labels) == (["dog/1.png"], ["dog"])


@pytest.mark.parametrize("given", ["folder", "file"])
def test_a_csv_of_paths_with_and_without_labels(tmp_path: Path, given: str) -> None:
    for i in range(3):
        picture(tmp_path / "p" / f"{i}.png", (i, i, i))
    table = tmp_path / "list.csv"
    source = table if given == "file" else tmp_path
    table.write_text("path\np/2.png\np/0.png\n")
    new = read(source, IMAGE, shape=SHAPE)
    assert (new.names, new.labels) == (["p/2.png", "p/0.png"], None)
    assert new.samples[:, 0, 0, 0].tolist() == [2, 0]
    table.write_text("path,label\np/2.png,dog\np/0.png,\n")
    if given == "file":
        assert read(source, IMAGE, shape=SHAPE).labels == ["dog", None]
        return
    with pytest.warns(UserWarning, match=r"names 2 of 3 images: those that it does not name \(1\) count as unlabeled"):
        new = read(source, IMAGE, shape=SHAPE)
    assert (new.names, new.labels) == (["p/2.png", "p/0.png", "p/1.png"], ["dog", None, None])


def test_a_table_that_lists_no_paths_does_not_stand_for_the_pictures(tmp_path: Path) -> None:
    picture(tmp_path / "1.png")
    (tmp_path / "predictions.csv").write_text("name,label\n1.png,cat\n")
    assert read(tmp_path, IMAGE, shape=SHAPE).names == ["1.png"]


def test_a_single_picture(tmp_path: Path) -> None:
    new = read(picture(tmp_path / "x.JPG"), IMAGE, shape=SHAPE)
    assert (new.names, new.labels, new.samples.shape) == (["x.JPG"], None, (1, 6, 8, 3))


def test_pictures_for_a_model_trained_on_arrays_of_images(tmp_path: Path) -> None:
    assert read(picture(tmp_path / "x.png"), None, shape=SHAPE).samples.shape == (1, 6, 8, 3)


@pytest.mark.parametrize("suffix", [".npz", ".npy"])
def test_arrays_of_images(tmp_path: Path, suffix: str) -> None:
    images = np.arange(2 * 6 * 8 * 3, dtype=np.uint8).reshape(2, 6, 8, 3)
    file = tmp_path / f"x{suffix}"
    if suffix == ".npz":
        np.savez(file, X=images, y=[1, -1], classes=["cat", "dog"])
    else:
        np.save(file, images)
    new = read(file, IMAGE, shape=SHAPE)
    np.testing.assert_array_equal(new.samples, images)
    assert (new.names, new.labels) == (["0", "1"], ["dog", None] if suffix == ".npz" else None)


def test_an_official_set_is_its_test_part() -> None:
    new = read("digits", {"kind": "image", "shape": [8, 8, 1]}, shape=(8, 8, 1))
    official = read_official("digits")
    assert official.test is not None
    np.testing.assert_array_equal(new.samples, official.test.images)
    assert new.labels == [str(label) for label in official.test.labels]


def test_bad_pictures_are_named_and_skipped_only_when_asked(tmp_path: Path) -> None:
    picture(tmp_path / "a.png")
    (tmp_path / "b.png").write_text("hello")
    picture(tmp_path / "c.png")
    with pytest.raises(DataError, match=r"1 of 3 images cannot be read[\s\S]*b.png"):
        read(tmp_path, IMAGE, shape=SHAPE)
    assert read(tmp_path, IMAGE, shape=SHAPE, skip_bad=True).names == ["a.png", "c.png"]


def test_what_holds_no_image_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "x.txt").write_text("hello")
    np.save(tmp_path / "small.npy", np.zeros((2, 5, 5, 3), np.uint8))
    np.save(tmp_path / "none.npy", np.zeros((0, 6, 8, 3), np.uint8))
    for source, message in {
        "empty": "there is no image in",
        "gone": "there is no file or folder",
        "x.txt": "the model was trained on images; give a folder of images",
        "small.npy": r"samples of shape \(5, 5, 3\), but the model takes \(6, 8, 3\)",
        "none.npy": "holds no sample",
    }.items():
        with pytest.raises(DataError, match=message):
            read(tmp_path / source, IMAGE, shape=SHAPE)
    with pytest.raises(DataError, match=r"samples of shape \(8, 8, 1\)"):
        read("digits", IMAGE, shape=SHAPE)


# Rows


def test_arrays_of_rows(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    np.savez(tmp_path / "x.npz", X=rows, y=["a", "", "b", "a"], X_test=rows[:1], y_test=["b"])
    np.save(tmp_path / "x.npy", rows)
    (tmp_path / "folder").mkdir()
    np.save(tmp_path / "folder" / "X.npy", rows)
    new = read(tmp_path / "x.npz", None, shape=(3,))
    np.testing.assert_array_equal(new.samples, rows)
    assert (new.names, new.labels) == (["0", "1", "2", "3"], ["a", None, "b", "a"])
    assert read(tmp_path / "x.npz", None, shape=(3,), test=True).labels == ["b"]
    for source in ("x.npy", "folder"):
        np.testing.assert_array_equal(read(tmp_path / source, None, shape=(3,)).samples, rows)
        assert read(tmp_path / source, None, shape=(3,)).labels is None


def test_arrays_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    rows = np.zeros((4, 3))
    rows[2, 1] = np.nan
    np.savez(tmp_path / "nan.npz", X=rows)
    np.savez(tmp_path / "wide.npz", X=np.zeros((4, 5)))
    np.savez(tmp_path / "other.npz", Z=np.zeros((4, 3)))
    np.savez(tmp_path / "short.npz", X=np.zeros((4, 3)), y=[0, 1])
    np.savez(tmp_path / "pickle.npz", X=np.array([{"a": 1}], dtype=object))
    (tmp_path / "x.csv").write_text("a\n1\n")
    for source, message in {
        "nan.npz": "row 2 holds NaN or infinity",
        "wide.npz": r"samples of shape \(5,\), but the model takes \(3,\)",
        "other.npz": "has no array named X; it has Z",
        "short.npz": "4 samples but 2 labels",
        "pickle.npz": "cannot be read as NumPy arrays",
        "gone.npz": "there is no file",
        "x.csv": r"the model was trained on arrays; give an .npz with X of shape \(n, 3\)",
    }.items():
        with pytest.raises(DataError, match=message):
            read(tmp_path / source, None, shape=(3,))


# Tables

pd = pytest.importorskip("pandas", reason="tables need the extra halfsure[tables]")
from halfsure.data.tables import MOST_CATEGORIES, read_frame  # noqa: E402 - after the check for pandas


def people() -> Any:
    return pd.DataFrame(
        {
            "age": [30.0, 40.0, None, 50.0],
            "city": ["Rome", "Oslo", "Rome", None],
            "note": ["a long text of words", "another text of many words", "a long text again here", ""],
            "label": ["yes", "no", "", "yes"],
        }
    )


@pytest.fixture
def trained() -> Any:
    data = read_frame(people(), "label")
    assert data.encoding is not None
    return data


def write(frame: Any, file: Path) -> Path:
    if file.suffix == ".parquet":
        frame.to_parquet(file)
    else:
        frame.to_csv(file, index=False, sep="\t" if file.suffix == ".tsv" else ",")
    return file


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_tables_become_the_rows_of_training_in_any_order_of_columns(tmp_path: Path, suffix: str, trained: Any) -> None:
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    shape = trained.train.samples.shape[1:]
    file = write(people()[["label", "note", "city", "age"]], tmp_path / f"x{suffix}")
    new = read(file, trained.encoding, shape=shape)
    np.testing.assert_array_equal(new.samples, trained.train.samples)
    assert new.labels == ["yes", "no", None, "yes"]
    assert new.names == ["0", "1", "2", "3"]
    unlabeled = write(people().drop(columns="label"), tmp_path / f"u{suffix}")
    assert read(unlabeled, trained.encoding, shape=shape).labels is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.drop(columns="city"), "no column 'city', which the model was trained on"),
        (lambda f: f.assign(weight=1), "a column 'weight', which the model was not trained on"),
        (lambda f: f.assign(city=["Rome", "Rome", "Lima", "Oslo"]), "the column 'city', row 2, holds 'Lima'"),
        (lambda f: f.assign(age=["30", "41", "old", "3"]), "'age' holds numbers, but 'old' in row 2 is none"),
        (lambda f: f.iloc[:0], "has no rows"),
    ],
)
def test_tables_that_do_not_fit_are_refused(tmp_path: Path, change: Any, message: str, trained: Any) -> None:
    file = write(change(people()), tmp_path / "x.csv")
    with pytest.raises(DataError, match=message) as error:
        read(file, trained.encoding, shape=trained.train.samples.shape[1:])
    assert str(error.value).startswith(str(file))


def test_lenient_passes_over_new_columns_and_takes_new_categories_as_unknown(tmp_path: Path, trained: Any) -> None:
    shape = trained.train.samples.shape[1:]
    new = people().assign(weight=1, city=["Rome", "Rome", "Lima", "Oslo"])
    unknown = people().assign(city=["Rome", "Rome", None, "Oslo"])
    found = read(write(new, tmp_path / "new.csv"), trained.encoding, shape=shape, lenient=True)
    plain = read(write(unknown, tmp_path / "unknown.csv"), trained.encoding, shape=shape)
    np.testing.assert_array_equal(found.samples, plain.samples)


def test_a_new_category_is_another_where_training_had_more_than_are_kept(tmp_path: Path) -> None:
    counts = [2] * MOST_CATEGORIES + [1]
    cities = [f"c{i}" for i, count in enumerate(counts) for _ in range(count)]
    frame = pd.DataFrame({"city": cities, "label": ["a", "b"] * (len(cities) // 2) + ["a"]})
    data = read_frame(frame, "label")
    new = pd.DataFrame({"city": ["c0", "Lima", cities[-1]]})
    rows = read(write(new, tmp_path / "x.csv"), data.encoding, shape=data.train.samples.shape[1:]).samples
    np.testing.assert_array_equal(rows[1], rows[2])
    assert rows[0].tolist() != rows[1].tolist()


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_categories_that_look_like_numbers_stay_the_same_categories(tmp_path: Path, suffix: str) -> None:
    """Training saw "1", "2" and "x"; a file with 1 and 2 alone is read as numbers, and with a gap as floats."""
    data = read_frame(pd.DataFrame({"size": ["1", "2", "x", "1"], "label": ["a", "b", "a", "b"]}), "label")
    new = pd.DataFrame({"size": pd.array([1, None, 2], dtype="Int64" if suffix == ".csv" else "float64")})
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    rows = read(write(new, tmp_path / f"x{suffix}"), data.encoding, shape=data.train.samples.shape[1:]).samples
    assert rows.argmax(1).tolist() == [0, 3, 1]


def test_a_table_model_takes_tables_only(tmp_path: Path, trained: Any) -> None:
    np.savez(tmp_path / "x.npz", X=np.zeros((2, 3)))
    with pytest.raises(DataError, match=r"trained on a table; give a \.csv, \.tsv, \.parquet or \.xlsx"):
        read(tmp_path / "x.npz", trained.encoding, shape=trained.train.samples.shape[1:])


@pytest.mark.parametrize(
    "damage",
    [
        {"columns": 3},
        {"columns": []},
        {"columns": [{"name": "age"}]},
        {"columns": [{"name": 3, "kind": "number", "text": None, "categories": []}]},
        {"columns": [{"name": "age", "kind": "number", "text": None, "categories": [], "scale": 0}]},
        {"columns": [{"name": "age", "kind": "number", "text": None, "categories": [], "mean": "x"}]},
        {"columns": [{"name": "age", "kind": "evil", "text": None, "categories": []}]},
        {"columns": [{"name": "age", "kind": "category", "text": None, "categories": [1]}]},
        {"label": 3},
        {"columns": [{"name": "note", "kind": "text", "text": {"words": 3}, "categories": []}]},
    ],
)
def test_an_encoding_that_makes_no_sense_is_refused(tmp_path: Path, damage: dict[str, Any], trained: Any) -> None:
    file = write(people(), tmp_path / "x.csv")
    with pytest.raises(DataError, match="its file is damaged"):
        read(file, trained.encoding | damage, shape=(3,))


def test_an_unknown_kind_of_encoding_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="of the kind 'sound'"):
        read(tmp_path, {"kind": "sound"}, shape=(3,))
