"""Names → networks, and what is said about names and shapes that do not fit."""

from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import nn

from halfsure.nets import CNN13, MLP, Conv7, WideResNet, build
from halfsure.settings import parts

NAMES = [network.usage for network in parts("network").values()]


def shapes(model: nn.Module) -> list[tuple[int, ...]]:
    return [tuple(parameter.shape) for parameter in model.parameters()]


@pytest.mark.parametrize(
    ("name", "shape", "same"),
    [
        ("wrn-28-2", (32, 32, 3), WideResNet(3, 10, 28, 2)),
        ("wrn-16-1", (28, 28, 1), WideResNet(1, 10, 16, 1)),
        ("cnn13", (32, 32, 3), CNN13(3, 10, 128)),
        ("cnn13-64", (12, 40, 3), CNN13(3, 10, 64)),
        ("conv7", (28, 28, 1), Conv7(1, 10, 64)),
        ("conv7-16", (8, 8, 1), Conv7(1, 10, 16)),
        ("mlp", (30,), MLP(30, 10, (256, 256))),
        ("mlp-1200-1200", (28, 28, 1), MLP(784, 10, (1200, 1200))),
        ("mlp-5", (4, 6, 2), MLP(48, 10, (5,))),
    ],
)
def test_names_become_networks(name: str, shape: tuple[int, ...], same: nn.Module) -> None:
    model = build(name, shape, 10)
    assert type(model) is type(same)
    assert repr(model) == repr(same)
    assert shapes(model) == shapes(same)


def test_settings_reach_the_network() -> None:
    assert repr(build("mlp-8", (4,), 3, norm="batch", dropout=0.3)) == repr(MLP(4, 3, (8,), "batch", 0.3))
    assert repr(build("cnn13-8", (16, 16, 1), 3, norm="group", dropout=0.1)) == repr(CNN13(1, 3, 8, "group", 0.1))
    assert repr(build("wrn-10-1", (16, 16, 1), 3, norm="none")) == repr(WideResNet(1, 3, 10, 1, "none"))


def test_images_that_are_stored_in_this_shape_fit_once_permuted() -> None:
    stored = torch.rand(2, 16, 24, 3)
    for name in ("wrn-10-1", "cnn13-8", "conv7-8", "mlp-8"):
        assert build(name, tuple(stored.shape[1:]), 4)(stored.permute(0, 3, 1, 2)).shape == (2, 4)


def test_numpy_counts_are_accepted() -> None:
    model = build("conv7-8", (8, 8, 1), cast(int, np.int64(3)))
    assert model(torch.rand(2, 1, 8, 8)).shape == (2, 3)


def test_every_family_and_example_is_described() -> None:
    for name, network in parts("network").items():
        assert network.usage.partition("-")[0].partition("[")[0] == name
        assert network.about
        assert "\n" not in network.about
        for example in network.examples:
            model = build(example, (16, 16, 1), 2)
            assert type(model) is network
            assert model(torch.rand(2, 1, 16, 16)).shape == (2, 2)


@pytest.mark.parametrize("name", ["wrn-10-1", "cnn13-8", "conv7-8", "mlp-8"])
def test_logits_are_what_the_head_makes_of_the_features(name: str) -> None:
    model, images = build(name, (16, 16, 1), 3, norm="none").eval(), torch.rand(4, 1, 16, 16)
    features = model.features(images)
    assert features.shape == (4, model.head.in_features)
    assert torch.equal(model.head(features), model(images))


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("wnr-28-2", "wrn-28-2"),
        ("WRN-28-2", "wrn-28-2"),
        ("wrm-40-4", "wrn-40-4"),
        ("wrn28-2", "wrn-28-2"),
        ("wrn", "wrn-28-2"),
        ("wrn-28", "wrn-28-2"),
        ("cnn-13", "cnn13"),
        ("con7-32", "conv7-32"),
        ("mpl-100", "mlp-100"),
        ("mlp-", "mlp"),
    ],
)
def test_typos_are_guessed(name: str, meant: str) -> None:
    with pytest.raises(ValueError, match=f"there is no network called '{name}'; did you mean '{meant}'\\? The names"):
        build(name, (32, 32, 3), 10)


@pytest.mark.parametrize("name", ["transformer", "", "xyz"])
def test_unknown_names_get_the_list(name: str) -> None:
    with pytest.raises(ValueError, match=r"no network called '.*'; the names are cnn13") as caught:
        build(name, (32, 32, 3), 10)
    assert "did you mean" not in str(caught.value)
    assert all(pattern in str(caught.value) for pattern in NAMES)


@pytest.mark.parametrize(
    ("name", "shape", "settings", "message"),
    [
        ("wrn-27-2", (32, 32, 3), {}, r"6n \+ 4, got 27; try 22 or 28"),
        ("wrn-4-2", (32, 32, 3), {}, "depth must be a whole number of at least 10, got 4"),
        ("conv7-0", (32, 32, 3), {}, "width must be a whole number of at least 1, got 0"),
        ("conv7", (30,), {}, r"conv7 is for images .* rows of 30 features; choose mlp"),
        ("wrn-16-1", (30,), {}, "wrn-16-1 is for images"),
        ("cnn13", (30,), {}, "cnn13 is for images"),
        ("wrn-28-2", (32, 32, 3), {"dropout": 0.5}, "wrn-28-2 has no dropout; omit it, or choose cnn13 or mlp"),
        ("conv7-16", (32, 32, 3), {"dropout": 0.5}, "conv7-16 has no dropout"),
        ("mlp", (4,), {"dropout": 1.5}, "dropout must be a finite number from 0 to 0.99"),
        ("mlp", (4,), {"classes": 1}, "classes must be a whole number of at least 2, got 1"),
        ("conv7", (28, 28, 1), {"classes": 0}, "classes must be a whole number of at least 2, got 0"),
        (
            "cnn13",
            (8, 8, 1),
            {},
            "at least 12 pixels a side, got a height of 8 and a width of 8 .* conv7 or mlp",
        ),
        ("cnn13", (32, 11, 1), {}, "a height of 32 and a width of 11"),
        ("conv7", (7, 8, 1), {}, "at least 8 pixels a side, .* choose mlp"),
        ("wrn-28-2", (3, 32, 32), {}, r"from the shape \(height, width, channels\) = \(3, 32, 32\)"),
        ("conv7", (28, 28), {}, r"got \(28, 28\); grey images have one channel: \(height, width, 1\)"),
        ("mlp", (), {}, r"shape must be .* got \(\)"),
        ("mlp", (0,), {}, r"shape must be .* got \(0,\)"),
        ("mlp", (4,), {"norm": "layer"}, "norm must be one of 'batch', 'group', 'none', got 'layer'"),
    ],
)
def test_what_does_not_fit_is_refused(
    name: str, shape: tuple[int, ...], settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        build(name, shape, **{"classes": 10, **settings})
