"""Folders of .txt files: the layouts of image folders, and new texts for a model trained on one."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from halfsure.data import DataError, load, text_folder
from halfsure.data.new import read
from halfsure.data.reader import reader_of

SEA, HILL = "the sea and the waves of the sea", "a hill and a path on the hill"


def put(folder: Path, **texts: str | bytes) -> Path:
    """Files by their path, `__` for a slash."""
    for name, content in texts.items():
        file = folder / f"{name.replace('__', '/')}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def same(data: Any, like: Any) -> None:
    np.testing.assert_array_equal(data.train.samples, like.train.samples)
    assert data.train.labels.tolist() == like.train.labels.tolist()


def test_the_layouts_of_image_folders(tmp_path: Path) -> None:
    classes = load(put(tmp_path / "classes", sea__1=SEA, hill__1=HILL, hill__2="hill"))
    assert (classes.classes, classes.kind, classes.train.labels.tolist()) == (("hill", "sea"), "array", [0, 0, 1])
    parts = load(
        put(
            tmp_path / "parts",
            labeled__hill__1=HILL,
            labeled__hill__2="hill",
            labeled__sea__1=SEA,
            unlabeled__x="waves on a path",
            test__sea__1="waves",
            val__hill__1="path",
        )
    )
    assert parts.train.labels.tolist() == [0, 0, 1, -1]
    assert parts.test is not None
    assert parts.val is not None
    assert (parts.test.labels.tolist(), parts.val.labels.tolist()) == ([1], [0])
    flat = put(tmp_path / "flat", a=HILL, b="hill", c=SEA, d="waves on a path")
    (flat / "labels.csv").write_text("path,label\na.txt,hill\nb.txt,hill\nc.txt,sea\n")
    with pytest.warns(
        UserWarning, match=r"labels.csv names 3 of 4 texts: those that it does not name \(1\) count as unla"
    ):
        listed = load(flat)
    same(listed, parts)
    elsewhere = tmp_path / "elsewhere.csv"
    (flat / "labels.csv").rename(elsewhere)
    with pytest.warns(UserWarning, match="names 3 of 4"):
        same(load(flat, table=elsewhere), parts)


def test_rows_are_those_of_a_table_with_the_same_texts(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas", reason="tables need the extra halfsure[tables]")
    texts = [HILL, "a path on the hill again", SEA]
    data = load(put(tmp_path / "t", hill__1=texts[0], hill__2=texts[1], sea__1=texts[2]))
    pd.DataFrame({"text": texts, "label": ["hill", "hill", "sea"]}).to_csv(tmp_path / "t.csv", index=False)
    table = load(tmp_path / "t.csv", label_column="label")
    same(data, table)
    assert data.encoding == table.encoding
    assert [text.features for text in data.encoded] == [text.features for text in table.encoded]
    shape = data.train.samples.shape[1:]
    np.testing.assert_array_equal(read(tmp_path / "t.csv", data.encoding, shape=shape).samples, data.train.samples)
    np.testing.assert_array_equal(read(tmp_path / "t", table.encoding, shape=shape).samples, data.train.samples)


def test_new_texts(tmp_path: Path) -> None:
    data = load(put(tmp_path / "t", hill__1=HILL, sea__1=SEA, sea__2="waves"))
    shape = data.train.samples.shape[1:]
    new = read(tmp_path / "t", data.encoding, shape=shape)
    assert (new.names, new.labels) == (["hill/1.txt", "sea/1.txt", "sea/2.txt"], ["hill", "sea", "sea"])
    np.testing.assert_array_equal(new.samples, data.train.samples)
    one = read(tmp_path / "t" / "sea" / "1.txt", data.encoding, shape=shape)
    assert (one.names, one.labels) == (["1.txt"], None)
    np.testing.assert_array_equal(one.samples, data.train.samples[1:2])
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="there is no text in"):
        read(tmp_path / "empty", data.encoding, shape=shape)
    with pytest.raises(DataError, match="there is no file or folder"):
        read(tmp_path / "gone.txt", data.encoding, shape=shape)
    assert data.encoding is not None
    more = data.encoding | {"columns": data.encoding["columns"] * 2}
    with pytest.raises(DataError, match="trained on a table of more than a text; give one with the same columns"):
        read(tmp_path / "t", more, shape=shape)


def test_texts_in_other_encodings_are_counted_aloud(tmp_path: Path) -> None:
    plain = load(put(tmp_path / "plain", a__1="süß und süß", a__2="süß", b__1="sauer"))
    put(tmp_path / "other", a__1="süß und süß".encode("cp1252"), a__2="süß".encode("utf-16"), b__1=b"sauer")
    with pytest.warns(UserWarning, match="1 of 3 texts are not UTF-8: read as") as said:
        same(load(tmp_path / "other"), plain)
    assert {str(one.message).split()[-1] for one in said} == {"cp1252", "utf-16"}


def test_which_folders_are_texts(tmp_path: Path) -> None:
    put(tmp_path / "texts", a__1="x")
    put(tmp_path / "images", README="about")
    (tmp_path / "images" / "a").mkdir()
    Image.new("L", (4, 4)).save(tmp_path / "images" / "a" / "1.png")
    put(tmp_path / "arrays", README="about")
    np.save(tmp_path / "arrays" / "X.npy", np.eye(2))
    (tmp_path / "empty").mkdir()
    found = {name: reader_of(str(tmp_path / name)).name for name in ("texts", "images", "arrays", "empty")}
    assert found == {"texts": "texts", "images": "folder", "arrays": "arrays", "empty": "folder"}


def test_an_encoder_of_ones_own(tmp_path: Path) -> None:
    put(tmp_path, a__1="one", b__1="three words here")
    data = load(tmp_path, text_encoder=lambda texts: [[len(text), 1.0] for text in texts])
    assert data.train.samples.tolist() == [[3, 1], [16, 1]]
    assert data.encoded == ()
    with pytest.raises(DataError, match="an encoder of yours; give it again"):
        read(tmp_path, data.encoding, shape=(2,))


def test_texts_that_cannot_be_read_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, a__1="x" * 50, b__1=b"\0\0")
    with pytest.raises(DataError, match=r"1.txt holds NUL bytes"):
        load(tmp_path)
    put(tmp_path, b__1="x" * 50)
    monkeypatch.setattr(text_folder, "MOST_BYTES", 99)
    with pytest.raises(DataError, match=r"b/1.txt: a text may have 16,777,216 bytes, and all together 99"):
        load(tmp_path)
    monkeypatch.setattr(text_folder, "LONGEST_TEXT", 49)
    with pytest.raises(DataError, match=r"a/1.txt: a text may have 49 bytes"):
        load(tmp_path)
    put(tmp_path, top="x")
    (tmp_path / "labels.csv").write_text("path,label\ntop.txt,a\ngone.txt,b\n")
    with pytest.warns(UserWarning, match="names 2"), pytest.raises(DataError, match=r"there is no file .*gone.txt"):
        load(tmp_path)
