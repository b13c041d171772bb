"""Every preset gives every kind of data and every method settings that have a meaning."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from halfsure.data import Data, from_arrays
from halfsure.methods import catalogue
from halfsure.runs.start import fit
from halfsure.training.loop import require_views
from halfsure.training.presets import PRESETS, preset
from halfsure.views.preprocessing import Preprocessing
from tests.training.helpers import images, rows

METHODS = [name for name, refused in catalogue() if not refused]
METHODS += ["mixmatch-ads+ns", "fixmatch-ads+ns", "vat@sparsemax+me"]


def _wide() -> Data:
    return from_arrays(np.zeros((9, 20, 33, 3), dtype=np.uint8), np.arange(9) % 3)


DATA: dict[str, Callable[[], Data]] = {
    "grey": lambda: images(28),
    "small grey": lambda: images(8),
    "colour": lambda: images(32, channels=3),
    "wide": _wide,
    "rows": rows,
}


def named(name: str) -> Data:
    """Colour or grey images under the name of an official set; the classes are as many as there."""
    side, channels = {"mnist": (28, 1), "stl10": (96, 3)}.get(name, (32, 3))
    classes = 100 if name == "cifar100" else 10
    samples = np.zeros((classes, side, side, channels), dtype=np.uint8)
    return replace(from_arrays(samples, np.arange(classes)), name=name)


@pytest.mark.parametrize("kind", DATA)
@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_fits_every_kind_of_data_and_every_method(name: str, kind: str) -> None:
    data = DATA[kind]()
    for method in METHODS:
        config = preset(data, method, name, seed=3)
        assert (config.method, config.preset, config.seed) == (method, name, 3)
        algorithm = config.algorithm(data)
        views = config.make_views(data, Preprocessing.of(data))
        require_views(views, algorithm, data)
        views["weak"](data.train.samples[:2], np.arange(2), 0, 0)
        views["strong"](data.train.samples[:2], np.arange(2), 0, 0)
    config.network(data)  # the same for all methods


def test_the_presets_are_described() -> None:
    assert list(PRESETS) == ["quick", "cpu", "paper"]
    assert all(PRESETS.values())


def test_paper_fixmatch() -> None:
    """FixMatch as its authors ran it, with as many unlabeled samples a step as the ADS paper has."""
    for name, decay in (("cifar10", 5e-4), ("svhn", 5e-4), ("stl10", 5e-4), ("cifar100", 1e-3)):
        for method in ("fixmatch", "fixmatch-ads"):
            config = preset(named(name), method, "paper")
            assert (config.batch, config.unlabeled_batch, config.steps) == (64, 64, 2**20)
            assert (config.optimizer, config.momentum, config.lr) == ("sgd", 0.9, 0.03)
            assert (config.schedule, config.weight_decay, config.ema) == ("cosine", decay, 0.999)
            assert (config.ops, config.cutout >= 16, config.ramp) == (2, True, 0.0)
            assert config.algorithm().weight == 1.0
    assert getattr(preset(named("cifar10"), "fixmatch", "paper").algorithm().strategy, "threshold", None) == 0.95


@pytest.mark.parametrize(("name", "weight"), [("cifar10", 75), ("cifar100", 150), ("svhn", 250), ("stl10", 50)])
def test_paper_mixmatch(name: str, weight: float) -> None:
    config = preset(named(name), "mixmatch", "paper")
    assert (config.batch, config.unlabeled_batch, config.steps, config.ema) == (64, 64, 2**20, 0.999)
    assert (config.lr, config.schedule) == (2e-3, "constant")
    assert config.optimizer in ("adam", "adamw")
    assert config.weight_decay == 0.02  # decoupled: each step takes 0.02 · lr of a kernel
    assert (config.mixup, config.copies, config.weight, config.last) == (0.75, 2, weight, 20)
    assert config.ramp * config.steps == 16_384
    assert config.ramp_shape == "linear"
    assert getattr(config.algorithm().strategy, "temperature", None) == 0.5


def test_paper_mixmatch_on_all_of_svhn() -> None:
    config = preset(named("svhn-extra"), "mixmatch", "paper")
    assert (config.mixup, config.weight) == (0.25, 250.0)


@pytest.mark.parametrize(("name", "epsilon"), [("cifar10", 6.0), ("svhn", 1.0), ("svhn-extra", 1.0)])
def test_paper_vat(name: str, epsilon: float) -> None:
    """The column of realistic-ssl-evaluation; but its ξ, in float32, would give random directions."""
    for method in ("vat", "vat+me", "vat+ads"):
        config = preset(named(name), method, "paper")
        assert (config.epsilon, config.xi, config.weight) == (epsilon, 0.1, 0.3)
        assert config.flat.get("distill_weight") == (None if method == "vat" else 0.1)
        assert (config.optimizer, config.lr, config.schedule, config.steps) == ("adam", 3e-3, "drop", 500_000)
        assert (config.ramp * config.steps, config.ramp_shape) == (200_000, "exp")


def test_paper_vat_batches() -> None:
    config = preset(named("cifar10"), "vat", "paper")
    assert (config.batch, config.unlabeled_batch) == (64, 64)


@pytest.mark.parametrize(
    ("name", "flip", "shift", "net"),
    [
        ("cifar10", True, 4, "wrn-28-2"),
        ("cifar100", True, 4, "wrn-28-2"),
        ("svhn", False, 4, "wrn-28-2"),
        ("svhn-extra", False, 4, "wrn-28-2"),
        ("stl10", True, 12, "wrn-28-2"),
        ("mnist", False, 3, "conv7"),
    ],
)
def test_paper_views_and_networks(name: str, flip: bool, shift: int, net: str) -> None:
    config = preset(named(name), "fixmatch-ads", "paper")
    assert (config.flip, config.shift, config.net, config.norm) == (flip, shift, net, "batch")


def test_rows_do_not_train_as_long_as_images_do_on_a_gpu() -> None:
    steps = {name: preset(rows(), "fixmatch-ads", name).steps for name in PRESETS}
    assert steps["quick"] < steps["cpu"] <= steps["paper"] <= 100_000


@pytest.mark.parametrize("name", ["fast", "", "Quick"])
def test_a_preset_that_does_not_exist_is_refused_with_those_that_do(name: str) -> None:
    for data in (images(), rows()):
        with pytest.raises(ValueError, match="preset is one of quick, cpu, paper"):
            preset(data, "vat", name)


SETTINGS: dict[str, Any] = {"lr": 0.5, "net": "mlp-4", "batch": 5, "optimizer": "sgd", "weight": 0.25, "epsilon": 0.125}


def test_settings_given_by_hand_win() -> None:
    run = fit(None, rows(), "vat+ads", steps=1, evaluations=1, tensorboard=False, **SETTINGS)
    assert SETTINGS.items() <= run.settings.items()
    by_preset = preset(rows(), "vat+ads", "quick").plain
    others = set(by_preset) - set(SETTINGS) - {"steps", "evaluations", "tensorboard"}
    assert {key: run.settings[key] for key in others} == {key: by_preset[key] for key in others}
    assert run.settings.keys() - by_preset.keys() == {"momentum"}  # what sgd brings


def test_fit_takes_a_preset_by_its_name() -> None:
    run = fit(None, images(), "supervised", preset="paper", net="mlp-4", steps=1, evaluations=1)
    assert (run.settings["preset"], run.settings["lr"]) == ("paper", 0.03)


def test_fit_refuses_a_setting_that_does_not_exist() -> None:
    with pytest.raises(ValueError, match="has no setting 'learning_rate'"):
        fit(None, rows(), learning_rate=0.1)
    with pytest.raises(ValueError, match=r"fixmatch-ads .* no setting 'epsilon', which belongs to the algorithm vat"):
        fit(None, rows(), "fixmatch-ads", epsilon=1.0)
