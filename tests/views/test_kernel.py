"""What the kernel could get wrong by being fast: leftovers, borders, memory that is not its own, stale code."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from halfsure.views import StrongImage, _kernel
from halfsure.views import draws as _draws
from halfsure.views._ops import NAMES, affine_table
from halfsure.views.image import render
from tests.views import samples, twin

Bytes = NDArray[np.uint8]
SHAPES = [(2, 2), (2, 37), (33, 2), (3, 3), (5, 11), (16, 16), (7, 43)]


def noise(count: int, shape: tuple[int, int], channels: int) -> Bytes:
    return np.random.default_rng(9).integers(0, 256, (count, *shape, channels)).astype(np.uint8)


def raw(channels: int) -> NDArray[np.float32]:
    """Leave the grey levels as they are."""
    return np.repeat(np.array([[1], [0]], np.float32), channels, 1)


def rendered(images: Bytes, plan: NDArray[np.int64], cutout: int = 0) -> Bytes:
    return render(images, plan, cutout, raw(images.shape[-1])).permute(0, 2, 3, 1).byte().numpy()


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_flip_and_shift_is_that_of_a_padded_image(shape: tuple[int, int], channels: int) -> None:
    (h, w), far = shape, min(min(shape) - 1, 12)
    moves = [(flip, dy, dx) for flip in (0, 1) for dy in range(-far, far + 1) for dx in range(-far, far + 1)]
    images = noise(len(moves), shape, channels)
    wanted = []
    for image, (flip, dy, dx) in zip(images, moves, strict=True):
        padded = np.pad(image[:, ::-1] if flip else image, ((far, far), (far, far), (0, 0)), mode="reflect")
        wanted.append(padded[far + dy : far + dy + h, far + dx : far + dx + w])
    plan = np.array([(*move, 0, 0) for move in moves])
    np.testing.assert_array_equal(rendered(images, plan), np.stack(wanted))


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("shape", SHAPES)
def test_chains_of_ops_on_odd_shapes_are_pillows(shape: tuple[int, int], channels: int) -> None:
    rng, count = np.random.default_rng(4), 300
    images = noise(count, shape, channels)
    plan = np.zeros((count, 5 + 3 * 3), np.int64)
    plan[:, 0] = rng.integers(0, 2, count)
    plan[:, 3:5] = rng.integers(0, shape, (count, 2))
    for column in (5, 8, 11):
        plan[:, column] = rng.integers(0, len(NAMES), count)
        plan[:, column + 1] = rng.integers(0, 2, count)
        plan[:, column + 2] = rng.integers(1, 10, count) * rng.choice([-1, 1], count)
    cutout = min(shape) // 2
    wanted = [twin.pixels_of(image, row, 0, cutout) for image, row in zip(images, plan.tolist(), strict=True)]
    same = (rendered(images, plan, cutout) == np.stack(wanted)).reshape(count, -1).all(1)
    assert same.all(), plan[~same][:3]


def test_nothing_is_left_over_from_the_image_before() -> None:
    view, images = StrongImage(ops=3, mean=0, std=1), samples.photos(200, 17, 13)
    together = view(images, np.arange(200), 0)
    alone = [view(images[i : i + 1], [i], 0) for i in range(200)]
    assert torch.equal(together, torch.cat(alone))


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("shape", SHAPES)
def test_memory_around_images_and_results_is_neither_used_nor_changed(shape: tuple[int, int], channels: int) -> None:
    count, size = 60, shape[0] * shape[1] * channels
    sides = _draws.sides(*shape, flip=True, shift=min(shape) - 1, ops=3)
    plan = _draws.image_plan(np.uint64(3), np.arange(count), sides)
    results = []
    for filler in (0, 255):
        around = np.full(64 + count * size + 64, filler, np.uint8)
        images = around[64:-64].reshape(count, *shape, channels)
        images[:] = noise(count, shape, channels)
        outside = np.full(64 + count * size + 64, np.float32(-7))
        out = outside[64:-64].reshape(images.shape)
        _kernel.render(images, plan, affine_table(*shape), 2, raw(channels), out)
        assert (outside[:64] == -7).all()
        assert (outside[-64:] == -7).all()
        results.append(out)
    np.testing.assert_array_equal(results[0], results[1])


def test_a_mean_over_more_pixels_than_a_block_does_not_overflow() -> None:
    image = np.full((1, 3000, 3200, 1), 255, np.uint8)  # 9.6 million pixels add up to more than 2³¹
    image[0, ::2] = 201
    plan = np.array([[0, 0, 0, 0, 0, NAMES.index("contrast"), 1, 1]])
    got = rendered(image, plan)
    wanted = [int(228 + np.float32(0.28) * np.float32(level - 228)) for level in (201, 255)]
    assert [int(got[0, 0, 0, 0]), int(got[0, 1, 0, 0])] == wanted


def fresh(name: str) -> ModuleType:
    """Import a module anew, as another process would."""
    sys.modules.pop(name, None)
    importlib.invalidate_caches()
    return importlib.import_module(name)


def test_compiled_code_is_kept_until_a_part_of_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    part, kernel = "part_of_a_kernel", "kernel_of_a_part"
    (tmp_path / f"{kernel}.py").write_text(
        f"import {part}\nfrom {part} import ADDED\nfrom numba import types\n"
        "from halfsure._compiled import cached\n\n"
        f"@cached(types.int64(types.int64), {part})\ndef add(x):\n    return x + ADDED\n"
    )
    seen = []
    for added in (1, 1, 2):
        (tmp_path / f"{part}.py").write_text(f"ADDED = {added}\n")
        fresh(part)
        add = fresh(kernel).add
        seen.append((add(10), sum(add.stats.cache_hits.values())))
    assert seen == [(11, 0), (11, 1), (12, 0)]
