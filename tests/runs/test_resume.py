"""A run that was stopped and gone on with ends in the same bits as one that ran through."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from torch import Tensor, nn

from halfsure.data import Data
from halfsure.runs.checkpoint import read_state
from halfsure.runs.run import load
from halfsure.runs.start import start
from halfsure.training.config import Config
from halfsure.training.errors import RunError, StoppedError
from halfsure.training.state import Training
from tests.training.helpers import differences, images, lines, rows, tiny

BN = {"net": "cnn13-4", "norm": "batch"}
CASES: dict[str, tuple[Callable[[], Data], dict[str, Any]]] = {
    "vat+ads on rows": (rows, {"method": "vat+ads", "norm": "batch"}),
    "vat+ads with dropout, sgd": (
        lambda: images(12),
        {"method": "vat+ads", **BN, "optimizer": "sgd", "weight_decay": 1e-3, "clip": 0.5, "schedule": "linear"},
    ),
    "vat+ads in float64": (rows, {"method": "vat+ads", "precision": "float64", "net": "mlp-8-8", "dropout": 0.3}),
    "mixmatch-ads": (images, {"method": "mixmatch-ads", "net": "conv7-4", "ramp": 0.5}),
    "mixmatch-ads+ns with a prior, adamw": (
        lambda: images(12),
        {"method": "mixmatch-ads+ns", **BN, "prior": "labels", "optimizer": "adamw", "weight_decay": 0.1},
    ),
    "fixmatch-ads": (lambda: images(channels=3), {"net": "conv7-4", "flip": True, "ema": 0.0}),
    "fixmatch-ads with dropout and a prior": (
        lambda: images(12),
        {**BN, "dropout": 0.3, "prior": "uniform", "warmup": 0.5, "clip": 1.0},
    ),
    "fixmatch, a prior, float64": (
        rows,
        {"method": "fixmatch", "threshold": 0.4, "prior": (0.5, 0.3, 0.2), "precision": "float64", "ramp": 1.0},
    ),
    "supervised in bf16": (images, {"method": "supervised", "precision": "bf16", "class_weight": "balanced"}),
}


@pytest.fixture
def stop_at(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[int]]:
    """Ask for the end, by signals to oneself, in the middle of a step; the steps that were begun are noted."""
    update = Training.update

    def patch(step: int | None, number: int = signal.SIGTERM, times: int = 1) -> list[int]:
        begun: list[int] = []

        def updating(self: Training) -> Any:
            begun.append(self.done)
            if self.done == step:
                for _ in range(times):
                    os.kill(os.getpid(), number)
            return update(self)

        monkeypatch.setattr(Training, "update", updating)
        return begun

    return patch


def same(one: Path, other: Path) -> None:
    found = [read_state(folder / "resume.safetensors") for folder in (one, other)]
    assert differences(*found) == []
    assert differences(lines(one), lines(other)) == []
    assert (one / "model.safetensors").read_bytes() == (other / "model.safetensors").read_bytes()


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=pytest.mark.slow if BN.items() <= CASES[case][1].items() else ()) for case in CASES],
)
def test_stopped_twice_and_gone_on_with(case: str, tmp_path: Path, stop_at: Callable[..., list[int]]) -> None:
    make, changes = CASES[case]
    config = tiny(**changes)
    start(make(), config, out=tmp_path / "whole")
    done = 0
    # In the middle between two evaluations, and at one.
    for step, number in ((2, signal.SIGTERM), (7, signal.SIGINT)):
        begun = stop_at(step, number)
        with pytest.raises(StoppedError, match=f"stopped after step {step + 1}.*the same call goes on") as stopped:
            start(make(), config, out=tmp_path / "stopped")
        assert stopped.value.signal == number
        assert begun == list(range(done, step + 1))
        done = step + 1
    begun = stop_at(None)
    run = start(make(), config, out=tmp_path / "stopped")
    assert begun == list(range(8, 12))
    assert run.finished
    assert [line["step"] for line in run.metrics] == [4, 8, 12]
    same(tmp_path / "whole", tmp_path / "stopped")


def test_a_run_from_before_a_setting_came_goes_on(tmp_path: Path, stop_at: Callable[..., list[int]]) -> None:
    """A setting it does not know of was at its default."""
    start(rows(), tiny(), out=tmp_path / "whole")
    stop_at(5)
    with pytest.raises(StoppedError):
        start(rows(), tiny(), out=tmp_path / "stopped")
    file = tmp_path / "stopped" / "config.json"
    content = json.loads(file.read_text())
    assert content["config"]["algorithm"].pop("weak_grad") is None
    file.write_text(json.dumps(content))
    stop_at(None)
    with pytest.raises(RunError, match="weak_grad was None, now False"):
        start(rows(), tiny(weak_grad=False), out=tmp_path / "stopped")
    start(rows(), tiny(), out=tmp_path / "stopped")
    same(tmp_path / "whole", tmp_path / "stopped")


def test_a_checkpoint_holds_all_that_changes(tmp_path: Path) -> None:
    """What `same` compares is there at all, and is not what it was at the start."""
    make, changes = CASES["mixmatch-ads+ns with a prior, adamw"]
    start(make(), tiny(**changes), out=tmp_path)
    state = read_state(tmp_path / "resume.safetensors")
    assert state["step"] == 12
    assert state["streams"]["unlabeled"] == {"pass": 1, "position": 5}  # 60 samples give 7 batches of 8 a pass
    assert state["streams"]["labeled"] == {"pass": 5, "position": 2}
    assert {key.rsplit(".", 1)[1] for key in state["model"]} >= {
        "weight",
        "bias",
        "running_mean",
        "num_batches_tracked",
    }
    assert any(not torch.equal(state["model"][key], value) for key, value in state["average"].items())
    assert not torch.allclose(state["algorithm"]["prior.running"], torch.full((3,), 1 / 3, dtype=torch.float64))
    moments = [entry["exp_avg_sq"] for entry in state["optimizer"]["state"].values()]
    assert len(moments) == len(list(start(make(), tiny(**changes), out=tmp_path).model.parameters()))
    assert all((moment > 0).any() for moment in moments)


def test_the_scale_of_half_precision_goes_on(tmp_path: Path, stop_at: Callable[..., list[int]]) -> None:
    config = tiny(method="supervised", precision="fp16")
    stop_at(4)
    with pytest.raises(StoppedError):
        start(images(), config, out=tmp_path)
    stop_at(None)
    start(images(), config, out=tmp_path)
    scale = read_state(tmp_path / "resume.safetensors")["scaler"]
    # A step without overflow is counted, one with halves the scale and counts from 0 again.
    assert scale["_growth_tracker"] == 12 or scale["scale"] < 2**16


def test_a_second_signal_stops_at_once_and_loses_only_what_was_not_saved(
    tmp_path: Path, stop_at: Callable[..., list[int]]
) -> None:
    start(rows(), tiny(), out=tmp_path / "whole")
    stop_at(5, signal.SIGINT, times=2)
    with pytest.raises(KeyboardInterrupt):
        start(rows(), tiny(), out=tmp_path / "stopped")
    assert read_state(tmp_path / "stopped" / "resume.safetensors")["step"] == 4
    begun = stop_at(None)
    start(rows(), tiny(), out=tmp_path / "stopped")
    assert begun == list(range(4, 12))
    same(tmp_path / "whole", tmp_path / "stopped")


def test_signals_are_handled_as_before_when_training_is_over(tmp_path: Path, stop_at: Callable[..., list[int]]) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    start(rows(), tiny(steps=2))
    stop_at(0)
    with pytest.raises(StoppedError, match="the run has no folder"):
        start(rows(), tiny(steps=2))
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_signal_in_the_last_step_comes_too_late_to_stop_the_run_and_is_handed_on(
    tmp_path: Path, stop_at: Callable[..., list[int]]
) -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    try:
        stop_at(11)
        assert start(rows(), tiny(), out=tmp_path).finished
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == [signal.SIGTERM]
    assert read_state(tmp_path / "resume.safetensors")["step"] == 12


def test_a_run_in_another_thread_trains_to_the_same_bits(tmp_path: Path) -> None:
    start(rows(), tiny(), out=tmp_path / "main")
    thread = threading.Thread(target=lambda: start(rows(), tiny(), out=tmp_path / "thread"))
    thread.start()
    thread.join()
    same(tmp_path / "main", tmp_path / "thread")


def test_a_finished_run_is_not_trained_again(tmp_path: Path, stop_at: Callable[..., list[int]]) -> None:
    first = start(rows(), tiny(), out=tmp_path)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    begun = stop_at(None)
    again = start(rows(), tiny(), out=tmp_path)
    assert begun == []
    assert differences(first.metrics, again.metrics) == []
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
    samples = rows().train.samples
    assert (again.predict_proba(samples) == first.predict_proba(samples)).all()
    assert (load(tmp_path).predict_proba(samples) == first.predict_proba(samples)).all()


def test_a_run_with_a_network_of_ones_own_goes_on_whatever_weights_it_is_given(
    tmp_path: Path, stop_at: Callable[..., list[int]]
) -> None:
    def network(seed: int) -> nn.Module:
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Dropout(0.2), nn.ReLU(), nn.Linear(8, 3))

    start(rows(), tiny(), model=network(0), out=tmp_path / "whole")
    stop_at(6)
    with pytest.raises(StoppedError):
        start(rows(), tiny(), model=network(0), out=tmp_path / "stopped")
    stop_at(None)
    start(rows(), tiny(), model=network(1), out=tmp_path / "stopped")
    same(tmp_path / "whole", tmp_path / "stopped")


class Tied(nn.Module):
    """Two layers with one weight, and modules that load no state of another version."""

    _version = 3

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(5, 5), nn.Linear(5, 5), nn.Linear(5, 3)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.second(self.first(x).relu()).relu())
        return out

    def _load_from_state_dict(self, state: Any, prefix: str, metadata: Any, *others: Any) -> None:
        assert metadata.get("version") == 3
        super()._load_from_state_dict(state, prefix, metadata, *others)


def test_a_network_with_shared_weights_and_versions_of_its_own_goes_on(
    tmp_path: Path, stop_at: Callable[..., list[int]]
) -> None:
    torch.manual_seed(0)
    start(rows(), tiny(), model=Tied(), out=tmp_path / "whole")
    stop_at(6)
    torch.manual_seed(0)
    with pytest.raises(StoppedError):
        start(rows(), tiny(), model=Tied(), out=tmp_path / "stopped")
    stop_at(None)
    start(rows(), tiny(), model=Tied(), out=tmp_path / "stopped")
    same(tmp_path / "whole", tmp_path / "stopped")


def test_weights_and_moments_are_read_with_the_strides_they_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop_at: Callable[..., list[int]]
) -> None:
    """Channels last, a dimension of one among them: other strides would round otherwise in the steps to come."""
    read: list[dict[str, Any]] = []
    restore = Training.restore

    def restoring(self: Training, state: dict[str, Any]) -> None:
        fresh = [weight for group in self.optimizer.param_groups for weight in group["params"]]
        saved = state["optimizer"]["state"]
        assert [saved[place]["exp_avg"].stride() for place in saved] == [weight.stride() for weight in fresh]
        assert all(state["model"][name].stride() == value.stride() for name, value in self.model.state_dict().items())
        read.append(state)
        restore(self, state)

    stop_at(5)
    config = tiny(method="mixmatch-ads", net="cnn13-4", norm="batch")
    with pytest.raises(StoppedError):
        start(images(12), config, out=tmp_path)
    stop_at(None)
    monkeypatch.setattr(Training, "restore", restoring)
    start(images(12), config, out=tmp_path)
    [state] = read
    assert state["model"]["body.0.weight"].stride() == (9, 1, 3, 1)


@pytest.mark.parametrize("other", [nn.Linear(5, 3), nn.Sequential(nn.Linear(5, 9), nn.Linear(9, 3))])
def test_a_run_does_not_go_on_with_another_network(
    other: nn.Module, tmp_path: Path, stop_at: Callable[..., list[int]]
) -> None:
    stop_at(6)
    with pytest.raises(StoppedError):
        start(rows(), tiny(), model=nn.Sequential(nn.Linear(5, 8), nn.Linear(8, 3)), out=tmp_path)
    stop_at(None)
    with pytest.raises(RunError, match="network"):
        start(rows(), tiny(), model=other, out=tmp_path)


def test_what_has_no_influence_may_change_from_call_to_call(tmp_path: Path, stop_at: Callable[..., list[int]]) -> None:
    def config(**changes: Any) -> Config:
        return tiny(method="vat+ads", **changes)

    start(rows(), config(), out=tmp_path / "whole")
    stop_at(3)
    with pytest.raises(StoppedError):
        start(rows(), config(save_minutes=0.0), out=tmp_path / "stopped")
    stop_at(None)
    start(rows(), config(save_minutes=3.0, threads=1), out=tmp_path / "stopped")
    same(tmp_path / "whole", tmp_path / "stopped")


def test_another_number_of_threads_is_remarked_upon(tmp_path: Path, stop_at: Callable[..., list[int]]) -> None:
    stop_at(3)
    with pytest.raises(StoppedError):
        start(rows(), tiny(threads=1), out=tmp_path)
    stop_at(None)
    shown = StringIO()
    start(rows(), tiny(threads=2), out=tmp_path, console=Console(file=shown, width=200))
    assert "begun on 1 threads of torch, now 2: the bits may differ" in shown.getvalue()


def test_settings_that_changed_in_config_json_are_noticed(tmp_path: Path, stop_at: Callable[..., list[int]]) -> None:
    stop_at(3)
    with pytest.raises(StoppedError):
        start(rows(), tiny(), out=tmp_path)
    stop_at(None)
    file = tmp_path / "config.json"
    content = json.loads(file.read_text())
    content["config"]["optimizer"]["lr"] = 0.5
    file.write_text(json.dumps(content))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(RunError, match=r"config\.json is not what the run was begun with: lr is 0\.5, was 0\.01"):
        start(rows(), tiny(lr=0.5), out=tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_is_ignored_stays_so(number: int, tmp_path: Path, stop_at: Callable[..., list[int]]) -> None:
    before = signal.signal(number, signal.SIG_IGN)
    try:
        stop_at(3, number)
        assert start(rows(), tiny(), out=tmp_path).finished
        assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="kills by SIGKILL")
def test_killed_at_any_moment_and_gone_on_with(tmp_path: Path) -> None:
    methods = ["vat+ads", "mixmatch-ads", "fixmatch-ads"]
    command = [sys.executable, "-m", "tests.runs.driver", str(tmp_path), "3", "1", *methods]
    root = Path(__file__).parents[2]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    result = subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert result.returncode == 0, result.stderr
    told = json.loads(result.stdout)
    assert sum(sum(told[method]["killed"]) for method in methods) >= 6, told  # else nothing was tried
    for method in methods:
        same(tmp_path / f"{method}-whole", tmp_path / f"{method}-killed")
