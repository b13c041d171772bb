"""Whether FixMatch's weak views share a pass with the others is chosen by the network, unless it is said."""

from typing import Any

import pytest
import torch

from halfsure.runs.start import start
from halfsure.training.config import Config
from tests.training.helpers import images, rows, tiny


def weights(config: Config, *, of_images: bool = False) -> dict[str, Any]:
    return start(images() if of_images else rows(), config).model.state_dict()


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize(
    ("settings", "joint"),
    [
        ({"norm": "none"}, False),
        ({"norm": "group"}, False),
        ({"norm": "batch"}, True),
        ({"norm": "none", "dropout": 0.3}, True),
        ({"norm": "none", "method": "fixmatch-ads+me"}, True),
    ],
)
def test_weak_views_share_the_pass_only_where_it_matters(settings: dict[str, Any], joint: bool) -> None:
    config = tiny(net="mlp-8", **settings)
    chosen = weights(config)
    assert same(chosen, weights(tiny(net="mlp-8", weak_grad=True, **settings))) is joint
    if "+" not in config.method:
        assert same(chosen, weights(tiny(net="mlp-8", weak_grad=False, **settings))) is not joint


def test_without_batch_norm_both_ways_learn_the_same() -> None:
    """The same mathematics: they part by rounding alone."""
    settings = {"net": "conv7-4", "norm": "none", "precision": "float64", "steps": 6}
    joint, apart = (weights(tiny(weak_grad=on, **settings), of_images=True) for on in (True, False))
    assert joint
    torch.testing.assert_close(apart, joint, rtol=1e-9, atol=1e-11)
