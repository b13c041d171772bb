"""Numbers stay on their device until they are read: how seldom that may be, and that nothing depends on it."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from halfsure import _checks
from halfsure.algorithms import Losses, Objective
from halfsure.runs.checkpoint import read_state
from halfsure.runs.start import start
from halfsure.training.errors import BrokenError
from halfsure.training.ranks import Ranks
from halfsure.training.running_losses import TOTAL, RunningLosses
from halfsure.training.state import Training
from tests.training.helpers import differences, lines, rows, tiny
from tests.training.test_training import Poisoned, make_training, network

TERMS = (TOTAL, "supervised", "consistency", "distillation")


def look_every(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a device that a look would stop."""
    monkeypatch.setattr(Training, "unseen", property(lambda self: self.running.unread >= steps))


def drawn(generator: torch.Generator) -> tuple[Objective, Losses]:
    """A step with a diagnostic that one in three steps lacks samples of."""
    terms = torch.randn(4, generator=generator).exp()
    used = torch.rand(int(torch.randint(0, 3, (), generator=generator)), generator=generator, dtype=torch.float64)
    named = dict(zip(TERMS, terms, strict=True))
    return Objective(named.pop(TOTAL), named), Losses(supervised=terms[:0], diagnostics={"used": used})


@pytest.mark.parametrize("chance", [0.0, 0.3, 1.0])
def test_sums_are_those_of_a_loop_whenever_they_are_read(chance: float) -> None:
    generator, choose = torch.Generator().manual_seed(3), random.Random(4)
    window, sums = RunningLosses(), {name: [0.0, 0.0] for name in (*TERMS, "used")}
    told: list[dict[str, float]] = []
    for _ in range(40):
        terms, losses = drawn(generator)
        window.add(terms, losses)
        for name in TERMS:
            sums[name] = [
                sums[name][0] + (terms.total if name == TOTAL else terms.terms[name]).item(),
                sums[name][1] + 1,
            ]
        used = losses.diagnostics["used"]
        sums["used"] = [sums["used"][0] + used.sum().item(), sums["used"][1] + len(used)]
        if choose.random() < chance:
            told += window.read()
            assert window.unread == 0
    assert window.state() == sums
    assert len(told + window.read()) == (40 if chance == 1 else len(told))
    assert window.means(Ranks()) == {name: total / count for name, (total, count) in sums.items()}
    assert window.state() == {}


@pytest.mark.parametrize("every", [5, *(pytest.param(steps, marks=pytest.mark.slow) for steps in (3, 50))])
@pytest.mark.parametrize("method", ["supervised", "vat+ads", "mixmatch-ads", "fixmatch-ads"])
def test_looking_seldom_changes_nothing(
    method: str, every: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny(method=method, norm="batch")
    start(rows(), config, out=tmp_path / "always")
    look_every(every, monkeypatch)
    start(rows(), config, out=tmp_path / "seldom")
    states = [read_state(tmp_path / name / "resume.safetensors") for name in ("always", "seldom")]
    assert differences(*states) == []
    assert differences(*(lines(tmp_path / name) for name in ("always", "seldom"))) == []


@pytest.mark.parametrize(("every", "evaluations", "good"), [(4, 1, 0), (50, 1, 0), (50, 3, 8), (50, 12, 9)])
def test_a_loss_that_was_lost_between_two_looks_is_named_with_its_step(
    every: int, evaluations: int, good: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_every(every, monkeypatch)
    config = tiny(method="supervised", evaluations=evaluations)
    told = f"the supervised loss became infinite or NaN in step 10 of .*last good checkpoint is that of step {good}"
    with pytest.raises(BrokenError, match=told):
        start(rows(), config, model=Poisoned(9), out=tmp_path)
    state = read_state(tmp_path / "resume.safetensors")
    assert state["step"] == good
    assert all(value.isfinite().all() for value in state["model"].values())
    assert len(lines(tmp_path) if (tmp_path / "metrics.jsonl").exists() else []) == good * evaluations // 12


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("supervised", {}),
        ("vat+ads", {}),
        ("mixmatch-ads+ns", {}),
        ("fixmatch-ads", {"prior": (0.2, 0.3, 0.5)}),
        ("fixmatch-ads", {"weak_grad": False}),
        ("fixmatch", {"clip": 0.5, "optimizer": "sgd"}),
    ],
)
def test_a_step_reads_nothing_from_the_device(
    method: str, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny(method=method, **settings)
    training = make_training(rows(), config, network(norm=True))
    training.update()
    training.look()
    read: list[str] = []

    def noting(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
        def look(self: Tensor, *rest: Any, **named: Any) -> Any:
            read.append(name)
            return plain(self, *rest, **named)

        return look

    for name in ("__float__", "__bool__", "__int__", "item", "tolist", "numpy"):
        monkeypatch.setattr(Tensor, name, noting(name, getattr(Tensor, name)))
    assert float(torch.ones(())) == bool(torch.ones(())) == torch.ones(()).item()
    assert read == ["__float__", "__bool__", "item"]
    read.clear()
    monkeypatch.setattr(_checks, "_is_false", lambda condition: False)  # as it is off the CPU
    training.update()
    training.update()
    assert read == []
    assert training.look() is None
    assert "tolist" in read
    assert training.losses.keys() == set(TERMS)
