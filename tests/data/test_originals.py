"""Pictures and texts as people have them, one by one."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from halfsure.data import DataError, images
from halfsure.data.originals import Originals, PictureArray, PictureFiles, Texts, key_of

RNG = np.random.default_rng(3)
COLOUR = np.kron(RNG.integers(0, 256, (5, 7, 3), dtype=np.uint8), np.ones((4, 4, 1), np.uint8))
GREY = COLOUR[..., 0]


def written(folder: Path, name: str, picture: Image.Image, **how: Any) -> PictureFiles:
    picture.save(folder / name, **how)
    return PictureFiles([folder / name])


def test_every_mode_becomes_grey_or_colour_in_its_own_size(tmp_path: Path) -> None:
    colour, grey = Image.fromarray(COLOUR), Image.fromarray(GREY)
    clear = colour.convert("RGBA")
    clear.putalpha(Image.new("L", clear.size, 0))
    deep = Image.fromarray(GREY.astype(np.uint16) * 257)
    exact = {
        "a.png": (colour, COLOUR),
        "b.png": (grey, GREY[..., None]),
        "c.png": (deep, GREY[..., None]),
        "d.tif": (deep, GREY[..., None]),
        "e.png": (clear, np.full_like(COLOUR, 255)),
        "f.png": (grey.point(lambda v: 255 * (v > 99), "1"), 255 * (GREY > 99)[..., None]),
        "g.png": (colour.convert("RGBA"), COLOUR),
        "h.webp": (colour, COLOUR),
    }
    for name, (picture, expected) in exact.items():
        found = written(tmp_path, name, picture, **({"lossless": True} if name.endswith("webp") else {}))[0]
        assert found.dtype == np.uint8
        np.testing.assert_array_equal(found, expected, err_msg=name)
    palette = written(tmp_path, "p.png", colour.quantize(64))[0]
    assert palette.shape == COLOUR.shape
    printed = written(tmp_path, "k.jpg", colour.convert("CMYK"), quality=100)[0]
    assert printed.shape == COLOUR.shape
    assert np.abs(printed.astype(int) - COLOUR).mean() < 12


def test_pictures_are_turned_as_their_camera_says(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    files = written(tmp_path, "a.jpg", Image.fromarray(COLOUR), exif=exif, quality=100, subsampling=0)
    assert files[0].shape == (28, 20, 3)
    assert np.abs(files[0].astype(int) - np.rot90(COLOUR, -1)).mean() < 3


def test_files_that_are_too_large_or_broken_are_refused_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = written(tmp_path, "a.png", Image.fromarray(COLOUR))
    monkeypatch.setattr(images, "MAX_PIXELS", 500)
    with pytest.raises(DataError, match=r"a\.png: it claims 28 × 20 pixels"):
        files[0]
    monkeypatch.undo()
    whole = (tmp_path / "a.png").read_bytes()
    (tmp_path / "a.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"a\.png: "):
        files[0]
    with pytest.raises(DataError, match="no such file"):
        PictureFiles([tmp_path / "none.png"])[0]
    with pytest.raises(DataError, match="it is a folder"):
        PictureFiles([tmp_path]).key(0)


def everything(folder: Path) -> list[tuple[Originals, int]]:
    """Five originals of each kind, and how large the pickle of one of them may be."""
    images = RNG.integers(0, 256, (5, 30, 40, 3), dtype=np.uint8)
    mapped = np.lib.format.open_memmap(folder / "x.npy", "w+", np.uint8, images.shape)
    mapped[:] = images
    for number, image in enumerate(images):
        Image.fromarray(image).save(folder / f"{number}.png")
    files = PictureFiles([folder / f"{number}.png" for number in range(5)])
    texts = Texts(np.array(["a", "b c", "ü", "", "x" * 50], object))  # type: ignore[arg-type]
    return [(files, 800), (PictureArray(images), 5000), (PictureArray(mapped), 5000), (texts, 200)]


def test_some_are_the_same_as_all_and_travel_alone(tmp_path: Path) -> None:
    for originals, size in everything(tmp_path):
        assert len({originals.key(i) for i in range(5)}) == 5
        some = originals.take(np.array([4, 0, 0]))
        mask = originals.take(np.array([True, False, False, False, True]))
        sent = pickle.loads(pickle.dumps(some))
        assert len(pickle.dumps(originals.take([3]))) < size
        for found in (some, sent, some.take([0, 1, 2])):
            assert (len(found), found.kind) == (3, originals.kind)
            for place, row in enumerate((4, 0, 0)):
                np.testing.assert_array_equal(found[place], originals[row])
                assert found.key(place) == originals.key(row)
        assert [mask.key(i) for i in range(2)] == [originals.key(0), originals.key(4)]


def test_keys_are_of_contents_alone(tmp_path: Path) -> None:
    one, two = COLOUR[None], COLOUR.reshape(1, 28, 20, 3)
    assert PictureArray(one).key(0) == PictureArray(np.concatenate([two.reshape(one.shape), one])).key(1)
    assert PictureArray(one).key(0) != PictureArray(two).key(0)  # the same bytes in another shape
    (tmp_path / "a.png").write_bytes(b"abc")
    (tmp_path / "b.png").write_bytes(b"abc")
    files = PictureFiles([tmp_path / "a.png", tmp_path / "b.png"])
    assert files.key(0) == files.key(1) == key_of(b"abc")
    assert Texts(["abc"]).key(0) == key_of(b"abc")
    assert all(len(key_of(content)) == 16 for content in (b"", b"x" * 999))


@pytest.mark.parametrize("shape", [(3, 4, 4), (3, 4, 4, 2), (3, 0, 4, 3)])
def test_arrays_that_are_no_pictures_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match="pictures must be uint8"):
        PictureArray(np.zeros(shape, np.uint8))
    with pytest.raises(DataError, match="float64"):
        PictureArray(np.zeros((3, 4, 4, 3)))  # type: ignore[arg-type]
