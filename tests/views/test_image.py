"""Whole image views: against the Pillow twin, against torch, and what they may and may not depend on."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from halfsure.views import Plain, StrongImage, WeakImage, _torch
from halfsure.views import draws as _draws
from halfsure.views.image import normaliser
from tests.views import samples, twin

View = WeakImage | StrongImage
VIEWS: list[View] = [
    WeakImage(seed=3),
    WeakImage(flip=False, shift=0, mean=0.4, std=0.2, seed=1),
    StrongImage(seed=3),
    StrongImage(ops=4, flip=False, shift=1, cutout=5, mean=0.1, std=0.7, seed=8),
    StrongImage(ops=0, cutout=0),
]
SETS = {
    "photos 32×32": samples.photos(300, 32, 32),
    "photos 96×96": samples.photos(40, 96, 96),
    "photos 21×34": samples.photos(60, 21, 34),
    "digits 28×28": samples.digits(200, 28),
    "awkward": samples.awkward(32, 3),
}
each_view = pytest.mark.parametrize("view", VIEWS, ids=repr)
each_set = pytest.mark.parametrize("which", SETS)


def plan_of(view: View, images: Any, indices: NDArray[np.int64], step: int, stream: int = 0) -> NDArray[np.int64]:
    sides = _draws.sides(*images.shape[1:3], flip=view.flip, shift=view.shift, ops=view.ops)
    return _draws.image_plan(_draws.base_key(view.kind, view.seed, stream, step), indices, sides)


def some_indices(count: int) -> NDArray[np.int64]:
    return np.random.default_rng(5).permutation(10 * count)[:count]


def grey_levels(difference: Tensor, view: View) -> Tensor:
    assert isinstance(view.std, float)
    return difference.abs() * 255 * view.std


@each_set
@each_view
def test_views_are_those_of_the_pillow_twin(view: View, which: str) -> None:
    images = SETS[which]
    indices = some_indices(len(images))
    got = view(images, indices, step=11, stream=2)
    wanted = twin.view(images, plan_of(view, images, indices, 11, 2), view)
    assert got.dtype == torch.float32
    assert got.shape == wanted.shape
    assert got.is_contiguous(memory_format=torch.channels_last)
    off = grey_levels(got - wanted, view)
    # A chain of ops can spread one grey level or one pixel of rounding.
    assert (off > 1.01).float().mean() < 0.002
    assert (off > 0.01).float().mean() < 0.01


@each_set
@each_view
def test_torch_views_are_the_compiled_ones(view: View, which: str) -> None:
    images = SETS[which]
    indices = some_indices(len(images))
    plan = plan_of(view, images, indices, 4)
    norm = normaliser(view.mean, view.std, images.shape[-1])
    got = _torch.render(torch.from_numpy(images), plan, view.cutout, norm)
    off = grey_levels(got - view(images, indices, step=4), view)
    assert got.is_contiguous(memory_format=torch.channels_last)
    assert (off > 1.01).float().mean() < 0.002
    assert (off > 0.01).float().mean() < 0.01


@each_view
def test_other_devices_take_the_torch_path(view: View) -> None:
    images = torch.empty(3, 32, 32, 3, dtype=torch.uint8, device="meta")
    result = view(images, [0, 1, 2], step=0)
    assert result.device.type == "meta"
    assert result.shape == (3, 3, 32, 32)


@each_view
def test_a_view_depends_on_the_sample_alone(view: View) -> None:
    images, indices = samples.photos(64, 32, 32), some_indices(64)
    whole = view(images, indices, step=9)
    order = np.random.default_rng(1).permutation(64)
    assert torch.equal(view(images[order], indices[order], step=9), whole[order])
    chosen = order[:13]
    assert torch.equal(view(images[chosen], indices[chosen], step=9), whole[chosen])
    parts = [view(images[a:b], indices[a:b], step=9) for a, b in ((0, 1), (1, 20), (20, 64))]
    assert torch.equal(torch.cat(parts), whole)
    for threads in (2, 3, 64):
        spread = type(view)(**{**vars(view), "threads": threads})
        assert torch.equal(spread(images, indices, step=9), whole)
    assert torch.equal(view(images, indices, step=9), whole)


@pytest.mark.parametrize("kind", [WeakImage, StrongImage])
def test_seed_stream_step_index_and_kind_each_change_the_view(kind: type[WeakImage] | type[StrongImage]) -> None:
    image = samples.photos(1, 32, 32).repeat(50, 0)
    indices = np.arange(50)
    views = [
        kind(seed=0)(image, indices, 0),
        kind(seed=1)(image, indices, 0),
        kind(seed=0)(image, indices, 1),
        kind(seed=0)(image, indices, 0, stream=1),
        kind(seed=0)(image, indices + 50, 0),
    ]
    for i, one in enumerate(views):
        for other in views[:i]:
            assert (one != other).flatten(1).any(1).float().mean() > 0.8
    bare = StrongImage(ops=0, cutout=0)(image, indices, 0)
    assert (bare != WeakImage()(image, indices, 0)).flatten(1).any(1).float().mean() > 0.8


def test_memory_layout_and_container_do_not_matter() -> None:
    images, indices = samples.photos(20, 32, 40), np.arange(20)
    for view in VIEWS:
        wanted = view(images, indices, 0)
        frozen = images.copy()
        frozen.flags.writeable = False
        strided = np.zeros((40, 32, 80, 3), np.uint8)
        strided[::2, :, ::2] = images
        nchw = torch.from_numpy(images).permute(0, 3, 1, 2).contiguous().permute(0, 2, 3, 1)
        for same in (frozen, np.asfortranarray(images), strided[::2, :, ::2], torch.from_numpy(images), nchw):
            assert torch.equal(view(same, indices, 0), wanted)
        for numbers in (indices.tolist(), range(20), torch.arange(20), indices.astype(np.uint8), indices[::-1][::-1]):
            assert torch.equal(view(images, numbers, 0), wanted)


def test_views_leave_their_input_alone() -> None:
    images = samples.photos(50, 32, 32).copy()
    before = images.copy()
    StrongImage(ops=5)(images, np.arange(50), 0)
    _torch.render(torch.from_numpy(images), plan_of(StrongImage(), images, np.arange(50), 0), 16, normaliser(0.5, 1, 3))
    np.testing.assert_array_equal(images, before)


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 7])
def test_weak_and_plain_views_take_any_number_of_channels(channels: int) -> None:
    images = np.random.default_rng(0).integers(0, 256, (30, 19, 23, channels)).astype(np.uint8)
    mean, std = np.linspace(0.3, 0.6, channels), np.linspace(0.1, 0.4, channels)
    view = WeakImage(mean=tuple(mean), std=tuple(std))
    wanted = []
    for image, row in zip(images, plan_of(view, images, np.arange(30), 2).tolist(), strict=True):
        flipped = image[:, ::-1] if row[0] else image
        padded = np.pad(flipped, ((4, 4), (4, 4), (0, 0)), mode="reflect")
        wanted.append(padded[4 + row[1] : 23 + row[1], 4 + row[2] : 27 + row[2]])
    for got, pixels in ((view(images, np.arange(30), 2), np.stack(wanted)), (Plain(mean, std)(images), images)):
        expected = torch.from_numpy((pixels / 255 - mean) / std).permute(0, 3, 1, 2).float()
        torch.testing.assert_close(got, expected, rtol=1e-6, atol=2e-6)
        assert got.is_contiguous(memory_format=torch.channels_last)


def test_the_cutout_is_always_there() -> None:
    white = np.full((400, 32, 32, 3), 255, np.uint8)
    views = StrongImage(ops=0, mean=0, std=1)(white, np.arange(400), 0)
    grey = torch.isclose(views, torch.tensor(128 / 255))
    areas = grey.all(1).sum((1, 2))
    assert ((views == 1) | grey).all()
    assert areas.min() >= 8 * 8  # a centre in a corner leaves a quarter
    assert areas.max() == 16 * 16


@pytest.mark.parametrize("side", [8, 12, 28])
def test_something_of_a_small_image_is_always_left(side: int) -> None:
    """Translated out of the image, a sample would be told apart by nothing at all."""
    view = StrongImage(flip=False, shift=max(1, side // 8), cutout=side // 2, mean=0, std=1)
    images = np.repeat(samples.digits(100, side), 40, axis=0)
    views = view(images, np.arange(len(images)), step=3)
    grey = torch.isclose(views, torch.tensor(128 / 255)).flatten(1)
    assert not grey.all(1).any()


def test_empty_batches() -> None:
    for view in VIEWS:
        assert view(np.zeros((0, 32, 30, 3), np.uint8), [], 0).shape == (0, 3, 32, 30)
    assert Plain()(np.zeros((0, 8, 8, 1), np.uint8)).shape == (0, 1, 8, 8)


def test_views_are_values() -> None:
    for view in [*VIEWS, Plain(mean=[0.1, 0.2, 0.3])]:
        assert view == pickle.loads(pickle.dumps(view)) == copy.deepcopy(view)
        assert hash(view) == hash(copy.copy(view))
    assert Plain(mean=[0.1, 0.2]) == Plain(mean=(0.1, 0.2))
    assert WeakImage(seed=1) != WeakImage(seed=2)


GOOD = np.zeros((2, 32, 32, 3), np.uint8)


@pytest.mark.parametrize("view", [WeakImage(), StrongImage()], ids=["weak", "strong"])
@pytest.mark.parametrize(
    ("images", "indices", "step", "message"),
    [
        (GOOD.astype(np.float32), [0, 1], 0, r"uint8, 0 … 255, got float32"),
        (torch.zeros(2, 32, 32, 3), [0, 1], 0, r"uint8, 0 … 255, got torch.float32"),
        (GOOD[..., 0], [0, 1], 0, r"\(n, h, w, c\), got \(2, 32, 32\); add the channel"),
        (GOOD[0, 0], [0, 1], 0, r"\(n, h, w, c\), got \(32, 3\)"),
        (GOOD[:, :1], [0, 1], 0, r"2 … 8192 pixels a side, got .* \(2, 1, 32, 3\)"),
        (np.zeros((0, 8193, 8, 3), np.uint8), [], 0, r"2 … 8192 pixels a side"),
        (GOOD[..., :0], [0, 1], 0, r"at least one channel"),
        (GOOD[:, :4], [0, 1], 0, r"shift of 4 pixels needs images larger than that, got 4 × 32"),
        (GOOD, [0], 0, r"indices must be \(2,\), one a sample, got \(1,\)"),
        (GOOD, [[0, 1]], 0, r"indices must be \(2,\)"),
        (GOOD, [0, -1], 0, r"not negative and below 2⁶³, got -1 … 0"),
        (GOOD, [0.0, 1.0], 0, r"must be integers, got float64"),
        (GOOD, [True, False], 0, r"must be integers, got bool"),
        (GOOD, np.array([0, 2**63], np.uint64), 0, r"below 2⁶³, got 0 … 9223372036854775808"),
        (GOOD, [0, 1], -1, r"step must be a whole number of at least 0, got -1"),
        (GOOD, [0, 1], 0.5, r"step must be a whole number of at least 0, got 0.5"),
    ],
)
def test_bad_input_is_refused_in_words(view: View, images: Any, indices: Any, step: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        view(images, indices, step)


def test_more_bad_input() -> None:
    with pytest.raises(TypeError, match=r"NumPy array or a torch.Tensor, got list"):
        WeakImage()([[0]], [0], 0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"stream must be a whole number of at least 0, got -2"):
        WeakImage()(GOOD, [0, 1], 0, stream=-2)
    for channels in (2, 4):
        with pytest.raises(ValueError, match=rf"1 or 3 channels \(grey or RGB\), got {channels}"):
            StrongImage()(np.zeros((1, 32, 32, channels), np.uint8), [0], 0)
    with pytest.raises(ValueError, match=r"mean must be one number or one for each of 3 channels, got 2"):
        Plain(mean=(0.1, 0.2))(GOOD)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"shift": -1}, r"shift must be a whole number of at least 0, got -1"),
        ({"shift": 1.5}, r"shift must be a whole number"),
        ({"seed": -1}, r"seed must be a whole number"),
        ({"threads": 0}, r"threads must be a whole number of at least 1, got 0"),
        ({"std": 0}, r"std must be a finite number"),
        ({"std": (0.1, -1)}, r"std must be a finite number"),
        ({"mean": float("nan")}, r"mean must be a finite number"),
        ({"mean": "grey"}, r"mean must be a finite number"),
    ],
)
def test_bad_settings_are_refused_in_words(settings: dict[str, Any], message: str) -> None:
    for kind in (WeakImage, StrongImage):
        with pytest.raises(ValueError, match=message):
            kind(**settings)


@pytest.mark.parametrize("name", ["ops", "cutout"])
def test_bad_strong_settings(name: str) -> None:
    with pytest.raises(ValueError, match=rf"{name} must be a whole number of at least 0, got -1"):
        StrongImage(**{name: -1})  # type: ignore[arg-type]


@each_view
@pytest.mark.parametrize("which", SETS)
def test_a_view_can_fill_a_given_tensor(view: View, which: str) -> None:
    images = SETS[which]
    n, h, w, c = images.shape
    for threads in (1, 2):
        several = type(view)(**{**vars(view), "threads": threads})
        out = torch.full((n, c, h, w), torch.nan).contiguous(memory_format=torch.channels_last)
        assert several(images, np.arange(n), 3, out=out) is out
        assert torch.equal(out, view(images, np.arange(n), 3))
    held = torch.zeros(n + 2, h, w, c)
    assert torch.equal(Plain()(images, out=held[1:-1].permute(0, 3, 1, 2)), Plain()(images))
    assert not held[0].any()
    assert not held[-1].any()


def test_other_devices_fill_a_given_tensor() -> None:
    images = torch.empty(3, 32, 32, 3, dtype=torch.uint8, device="meta")
    out = torch.empty(3, 3, 32, 32, device="meta").contiguous(memory_format=torch.channels_last)
    assert StrongImage()(images, [0, 1, 2], 0, out=out) is out


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (np.zeros((2, 3, 32, 32), np.float32), r"torch.float32 tensor \(2, 3, 32, 32\) on cpu, got ndarray"),
        (torch.zeros(2, 32, 32, 3), r"got torch.float32 \(2, 32, 32, 3\) on cpu"),
        (torch.zeros(2, 3, 32, 32, dtype=torch.float64), r"got torch.float64 \(2, 3, 32, 32\) on cpu"),
        (torch.zeros(2, 3, 32, 32, device="meta"), r"got torch.float32 \(2, 3, 32, 32\) on meta"),
        (
            torch.zeros(2, 3, 32, 32),
            r"in channels_last, got strides .*; make it with torch.empty\(\(2, 3, 32, 32\), mem",
        ),
        (torch.zeros(2, 32, 32, 3, requires_grad=True).permute(0, 3, 1, 2), r"must not require a gradient"),
    ],
)
def test_a_tensor_that_cannot_be_filled_is_refused_and_left_alone(out: Any, message: str) -> None:
    for view in (Plain(), WeakImage(), StrongImage()):
        with pytest.raises(ValueError, match=message):
            view(GOOD, [0, 1], 0, out=out)
    assert getattr(out, "is_meta", False) or not out.any()
