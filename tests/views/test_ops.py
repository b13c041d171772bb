"""Every RandAugment op against Pillow's own, at every level and sign, compiled and in torch."""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from halfsure.views import _torch
from halfsure.views._ops import ENHANCE, FIXED, KEEP_BITS, NAMES, SOLARIZE, affine_table
from halfsure.views.image import render
from tests.views import samples, twin

LEVELS = [*range(-9, 0), *range(1, 10)]
SETS = {
    "photos 32×32": samples.photos(24, 32, 32),
    "photos 96×96": samples.photos(6, 96, 96),
    "photos 21×34": samples.photos(8, 21, 34),
    "digits 28×28": samples.digits(20, 28),
    "digits 8×8": samples.digits(20, 8),
    "awkward colour": samples.awkward(32, 3),
    "awkward grey": samples.awkward(28, 1),
    "2×2": samples.photos(4, 2, 2),
    "2×5": samples.photos(4, 2, 5),
    "3×3": samples.photos(4, 3, 3),
}
Bytes = NDArray[np.uint8]


def compiled(images: Bytes, plan: NDArray[np.int64]) -> Bytes:
    return as_bytes(render(images, plan, 0, raw(images)))


def in_torch(images: Bytes, plan: NDArray[np.int64]) -> Bytes:
    return as_bytes(_torch.render(torch.from_numpy(images), plan, 0, raw(images)))


def raw(images: Bytes) -> NDArray[np.float32]:
    """Leave the grey levels as they are."""
    return np.repeat(np.array([[1], [0]], np.float32), images.shape[-1], 1)


def as_bytes(views: torch.Tensor) -> Bytes:
    levels = views.permute(0, 2, 3, 1)
    assert torch.equal(levels, levels.byte().float())
    return levels.byte().numpy()


def only(op: str, level: int, count: int) -> NDArray[np.int64]:
    return np.tile(np.array([0, 0, 0, 0, 0, NAMES.index(op), 1, level]), (count, 1))


@lru_cache(maxsize=20)
def by_pillow(which: str, op: str, level: int) -> Bytes:
    return np.stack([twin.to_array(twin.OPS[op](twin.to_pillow(image), level)) for image in SETS[which]])


@pytest.mark.parametrize("run", [compiled, in_torch])
@pytest.mark.parametrize("op", twin.OPS)
@pytest.mark.parametrize("which", SETS)
def test_op_is_pillows(which: str, op: str, run: Callable[[Bytes, NDArray[np.int64]], Bytes]) -> None:
    images = SETS[which]
    for level in LEVELS if op in twin.GEOMETRIC else range(1, 10):
        got = run(images, only(op, level, len(images)))
        wanted = by_pillow(which, op, level)
        assert got.shape == wanted.shape
        if op in twin.GEOMETRIC:
            assert (got != wanted).any(-1).mean() < 0.01, level
        else:
            assert np.abs(got.astype(int) - wanted).max() <= 1, level


@pytest.mark.parametrize("op", ["autocontrast", "equalize"])
def test_histogram_ops_are_pillows_to_the_bit(op: str) -> None:
    for images in SETS.values():
        wanted = np.stack([twin.to_array(twin.OPS[op](twin.to_pillow(image), 1)) for image in images])
        np.testing.assert_array_equal(compiled(images, only(op, 1, len(images))), wanted)
    constant = samples.awkward(28, 1)[:3]
    np.testing.assert_array_equal(compiled(constant, only(op, 1, 3)), constant)


def test_autocontrast_of_every_range_is_pillows() -> None:
    low, high = (ends.ravel() for ends in np.meshgrid(np.arange(0, 255, 5), np.arange(1, 256, 3)))
    ramp = np.linspace(0, 1, 256).reshape(16, 16, 1)
    images = (low[:, None, None, None] + ramp * (high - low)[:, None, None, None]).clip(0, 255).astype(np.uint8)
    wanted = np.stack([twin.to_array(twin.OPS["autocontrast"](twin.to_pillow(image), 1)) for image in images])
    np.testing.assert_array_equal(compiled(images, only("autocontrast", 1, len(images))), wanted)


@pytest.mark.parametrize("run", [compiled, in_torch])
def test_sharpening_every_weighted_sum_is_pillows_to_the_bit(run: Callable[[Bytes, NDArray[np.int64]], Bytes]) -> None:
    """Eight neighbours and five times the middle are divided by 13, which the compiled code does by multiplying."""
    totals = np.arange(13 * 255 + 1)
    middle = totals // 13 + (totals % 13 >= 5)
    each, left = np.divmod(totals - 5 * middle, 8)
    nine = each[:, None] + (np.insert(np.arange(8), 4, 8) < left[:, None])
    nine[:, 4] = middle
    assert (nine.sum(1) + 4 * middle).tolist() == totals.tolist()
    images = nine.reshape(-1, 3, 3, 1).astype(np.uint8)
    wanted = np.stack([twin.to_array(twin.OPS["sharpness"](twin.to_pillow(image), 1)) for image in images])
    np.testing.assert_array_equal(run(images, only("sharpness", 1, len(images))), wanted)


def test_ops_are_numbered_as_the_twin_numbers_them() -> None:
    assert tuple(twin.OPS) == NAMES


@pytest.mark.parametrize("level", range(1, 10))
def test_magnitudes_are_those_published(level: int) -> None:
    assert ENHANCE[level] == np.float32(0.1 + 0.18 * level)
    assert SOLARIZE[level] - 1 < 256 - 25.6 * level <= SOLARIZE[level]
    assert f"{KEEP_BITS[level]:08b}" == "1" * (4 - math.floor(0.4 * level)) + "0" * (4 + math.floor(0.4 * level))
    for signed in (level, -level):
        table = affine_table(40, 30)[:, signed + 9] / 2**FIXED
        a, b, _, d, e, _ = table[NAMES.index("rotate")]
        assert math.degrees(math.atan2(d, a)) == pytest.approx(3 * signed, abs=2e-3)
        assert (a, b) == pytest.approx((e, -d))
        assert table[NAMES.index("shear_x")] == pytest.approx(
            [1, 0.03 * signed, 0.5 - 0.03 * signed * 19.5, 0, 1, 0.5], abs=1e-4
        )
        assert table[NAMES.index("shear_y")] == pytest.approx(
            [1, 0, 0.5, 0.03 * signed, 1, 0.5 - 0.03 * signed * 14.5], abs=1e-4
        )
        across, down = twin.moved(signed, 30), twin.moved(signed, 40)
        assert table[NAMES.index("translate_x")].tolist() == [1, 0, across + 0.5, 0, 1, 0.5]
        assert table[NAMES.index("translate_y")].tolist() == [1, 0, 0.5, 0, 1, down + 0.5]


@pytest.mark.parametrize("side", [8, 28, 32, 96, 150])
def test_translations_grow_with_the_image(side: int) -> None:
    """On 32 × 32 they are those published; elsewhere the same part of the image, as near as whole pixels come."""
    for axis, shape in (("x", (40, side)), ("y", (side, 40))):
        table = affine_table(*shape)[NAMES.index(f"translate_{axis}")] / 2**FIXED
        pixels = table[:, 2 if axis == "x" else 5] - 0.5
        assert (pixels == pixels.round()).all()
        assert pixels / side == pytest.approx(np.arange(-9, 10) / 32, abs=0.501 / side)
        assert (pixels == -pixels[::-1]).all()


def test_signs_turn_and_move_the_other_way() -> None:
    image = samples.photos(1, 32, 32)
    left, right = (compiled(image, only("translate_x", level, 1)) for level in (5, -5))
    np.testing.assert_array_equal(left[0, :, :-5], image[0, :, 5:])
    np.testing.assert_array_equal(right[0, :, 5:], image[0, :, :-5])
    assert (left[0, :, -5:] == 128).all()
    assert (right[0, :, :5] == 128).all()


def test_the_colour_op_leaves_grey_images_alone() -> None:
    images = samples.digits(10, 28)
    for run in (compiled, in_torch):
        np.testing.assert_array_equal(run(images, only("color", 9, 10)), images)
