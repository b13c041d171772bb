"""The twin that our speed is held against does the same mathematics: else the ratios would mean nothing."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reach
import steps
import torch
from torch import Tensor, nn
from twin import Drawn, Samples, Twin

from halfsure.data import Data
from halfsure.training.config import Config
from halfsure.training.state import Training
from tests.training import helpers

STEPS = 3
TINY: dict[str, Any] = {"net": "wrn-10-1", "batch": 6, "unlabeled_batch": 8, "steps": 5, "shift": 2, "cutout": 4}
METHODS: dict[str, dict[str, Any]] = {
    # A threshold that some weak views reach and some do not, and a ramp that ends within the steps.
    "fixmatch": {"threshold": 0.5, "weight": 1.0},
    "mixmatch": {"weight": 20.0, "ramp": 0.3},
    # With a small ξ the direction, a difference of nearly equal predictions, loses the digits that are compared.
    "vat": {"epsilon": 2.0, "xi": 1.0, "weight": 1.0},
}


@pytest.fixture
def data() -> Data:
    return helpers.images(side=8, channels=3)


def config_of(method: str, **changed: Any) -> Config:
    return steps.make_config(method, **{**TINY, **METHODS[method], **changed})


def gap(one: nn.Module, other: nn.Module) -> float:
    """The largest difference in any tensor, weights and statistics, as a part of that tensor's largest value."""
    left, right = one.state_dict(), other.state_dict()
    assert list(left) == list(right)
    differences = {name: (left[name] - right[name]).abs().max() for name in left}
    return max(float(differences[name] / right[name].abs().max().clamp(min=1e-3)) for name in left)


def assert_same(ours: Training, twin: Twin, most: float) -> None:
    assert gap(ours.model, twin.model) < most
    assert gap(ours.average.model, twin.average) < most


@pytest.mark.parametrize("method", METHODS)
def test_on_the_same_batch_in_float64_only_rounding_is_left(method: str, data: Data) -> None:
    config = config_of(method, precision="float64")
    ours, twin, begun = steps.make_training(data, config), steps.make_twin(data, config), steps.make_twin(data, config)
    for model in (twin.model, twin.average, begun.model):
        model.double()
    for step in range(STEPS):
        loss = twin.step(same_batch(twin, twin.draw(), data, step))
        torch.testing.assert_close(loss, ours.update().total.detach(), rtol=1e-10, atol=0)
    assert_same(ours, twin, 1e-9)
    assert gap(twin.model, twin.average) > 0.01
    for (name, before), after in zip(begun.model.named_parameters(), twin.model.parameters(), strict=True):
        assert not torch.equal(before, after), f"{name} has not moved, and cannot tell a wrong step"
    sums = ours.running.state()
    assert sums["consistency"][0] > 0
    if method == "fixmatch":
        assert 0 < sums["used"][0] < sums["used"][1]


@pytest.mark.parametrize("method", ["fixmatch", "mixmatch"])
def test_from_stored_images_through_pillow_in_float32(method: str, data: Data) -> None:
    config = config_of(method)
    ours, twin = steps.make_training(data, config), steps.make_twin(data, config)
    for _ in range(STEPS):
        loss = twin.update(twin.draw())
        torch.testing.assert_close(loss, ours.update().total.detach(), rtol=1e-4, atol=0)
    assert_same(ours, twin, 1e-3)


def test_from_stored_images_through_pillow_in_float32_vat(data: Data) -> None:
    # Its loss alone: the direction jumps where rounding moves a value across the kink of an activation.
    config = config_of("vat")
    loss = (twin := steps.make_twin(data, config)).update(twin.draw())
    torch.testing.assert_close(loss, steps.make_training(data, config).update().total.detach(), rtol=1e-4, atol=0)


def same_batch(twin: Twin, drawn: Drawn, data: Data, step: int) -> Samples:
    """The batch that the engine has in a step, by our own views."""
    chosen = [drawn.draws.labeled] + [drawn.draws.unlabeled] * (len(twin.views) - 1)
    views = [
        view(data.train.samples[some], some, step, stream).double()
        for stream, (view, some) in enumerate(zip(twin.views, chosen, strict=True))
    ]
    starts = None if drawn.starts is None else drawn.starts.double()
    labels = torch.from_numpy(data.train.labels[drawn.draws.labeled])
    return Samples(views[0], labels, views[1:], replace(drawn, starts=starts))


def test_the_twin_keeps_channels_first_and_plain_loops(data: Data) -> None:
    twin = steps.make_twin(data, config_of("fixmatch"))
    samples = twin.see(twin.draw())
    assert all(view.is_contiguous() for view in (samples.labeled, *samples.unlabeled))
    layouts = watched(twin.model)
    twin.step(samples)
    assert set(layouts) == {(True, False)}
    assert not any(twin.optimizer.defaults[name] for name in ("fused", "foreach"))


def test_ours_is_channels_last(data: Data) -> None:
    training = steps.make_training(data, config_of("fixmatch"))
    layouts = watched(training.model)
    training.update()
    assert set(layouts) == {(False, True)}


def watched(model: nn.Module) -> list[tuple[bool, bool]]:
    """Hears of what the convolutions return: channels first, channels last."""
    heard: list[tuple[bool, bool]] = []

    def hear(_: nn.Module, __: Any, out: Tensor) -> None:
        heard.append((out.is_contiguous(), out.is_contiguous(memory_format=torch.channels_last)))

    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            module.register_forward_hook(hear)
    return heard


@pytest.mark.parametrize(
    ("operation", "name"),
    [
        ("aten::mkldnn_convolution", "convolution"),
        ("aten::convolution_backward", "convolution"),
        ("ConvolutionBackward0", "convolution"),
        ("aten::addmm", "matrix product"),
        ("aten::native_batch_norm_backward", "batch norm"),
        ("aten::add_", "sums and copies"),
        ("aten::softmax", "other operations"),
    ],
)
def test_operations_are_counted_by_what_they_are_for(operation: str, name: str) -> None:
    assert steps.kind(operation) == name


@pytest.fixture
def tiny_steps(monkeypatch: pytest.MonkeyPatch, data: Data) -> None:
    """The step benchmark on a network that takes milliseconds."""
    monkeypatch.setattr(steps, "images", lambda: data)
    monkeypatch.setattr(steps, "SHARED", {**steps.SHARED, **TINY})


@pytest.mark.usefixtures("tiny_steps")
def test_a_breakdown_adds_up_and_convolution_is_a_part_of_it() -> None:
    seconds = steps.breakdown("fixmatch")
    assert all(seconds[name] > 0 for name in ("convolution", "batch norm", "activation", "optimiser", "elsewhere"))
    row = steps.share("vat")
    assert 0 < row.ratio < 1


@pytest.mark.usefixtures("tiny_steps")
def test_rows_are_ratios_of_what_the_clock_said() -> None:
    ticks = iter(np.cumsum([1.0] * 100))  # every step of either side lasts one tick
    case = replace(steps.CASES[0], unlabeled=8, rounds=3)
    (row,) = steps.compare(case, lambda: float(next(ticks)), apart=False)
    assert row.what == "fixmatch step 64+8"
    assert list(row.ratios) == [1.0, 1.0, 1.0]


def test_what_cannot_be_measured_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert list(steps.changes()) == ["no weak_grad"]
    assert "no row for compile=True" in capsys.readouterr().out


def falling(errors: list[float]) -> list[reach.Score]:
    return [reach.Score(20 * place, 3.0 * place, error) for place, error in enumerate(errors)]


def test_the_crossing_lies_on_the_line_between_two_scores() -> None:
    found = reach.crossing(falling([1.0, 0.3, 0.05, 0.2, 0.01]), 0.1)
    assert found.there
    assert found.step == pytest.approx(20 + 20 * 0.8)
    assert found.seconds == pytest.approx(np.interp(-0.1, [-0.3, -0.05], [3.0, 6.0]))


def test_a_score_that_meets_the_error_exactly_is_there() -> None:
    assert reach.crossing(falling([1.0, 0.3, 0.1]), 0.1) == reach.Reached(40, 6.0, there=True)


def test_a_run_that_is_not_there_counts_to_its_end_and_says_so() -> None:
    late = reach.crossing(falling([1.0, 0.5, 0.2]), 0.1)
    assert late == reach.Reached(40, 6.0, there=False)
    early = reach.crossing(falling([1.0, 0.1]), 0.1)
    assert reach.note([(early, late)]) == (
        "steps by seed: 20 against more than 40; where fixmatch is not there yet the ratio is too high"
    )
    assert "bound" not in reach.note([(early, early)])


def test_without_mnist_there_is_a_line_and_no_row(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("HALFSURE_DATA", str(tmp_path))
    assert list(reach.rows(quick=True)) == []
    assert "no row for the time to 10 % error: mnist is not there" in capsys.readouterr().out


def test_a_race_stops_each_run_where_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    data = helpers.known(helpers.images())
    monkeypatch.setattr(reach, "STEPS", 12)
    monkeypatch.setattr(reach, "EVERY", 4)
    monkeypatch.setattr(reach, "ERROR", 0.999)
    for found in reach.race(data, 0):
        assert found.there
        assert found.step < 12
        assert found.seconds > 0
    monkeypatch.setattr(reach, "ERROR", -1.0)
    for found in reach.race(data, 0):
        assert not found.there
        assert found.step == 12
