"""The same seed gives the same bits, whatever process computes them, and what `deterministic` adds to that."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from halfsure.cli import main
from halfsure.runs.start import start
from halfsure.training.determinism import PROMISE, WORKSPACE, require_workspace
from halfsure.training.errors import RunError
from tests.stress import child
from tests.training.helpers import images, rows, tiny

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_another_process_gives_the_same_bits(tmp_path: Path) -> None:
    """With another hash seed, folder, place for temporary files, and pace of saving; and stopped three times."""
    (tmp_path / "elsewhere").mkdir()
    asked = {"settings": {"save_minutes": 0}, "stops": [2, 7, 9]}
    process = subprocess.run(
        [sys.executable, "-m", "tests.stress.child", str(tmp_path / "theirs"), json.dumps(asked)],
        cwd=tmp_path / "elsewhere",
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "77", "TMPDIR": str(tmp_path / "elsewhere")},
        capture_output=True,
        text=True,
        check=True,
    )
    mine = child.main(tmp_path / "mine", {})
    theirs = json.loads(process.stdout)
    assert theirs == mine
    assert len({run["model"] for run in mine.values()}) == len(mine)  # the fingerprint can tell models apart


def test_fingerprints_see_a_single_bit_and_pass_over_times() -> None:
    weight = torch.zeros(3)
    changed = weight.clone()
    changed.view(torch.int32)[1] = 1
    assert child.digest({"a": weight}) != child.digest({"a": changed})
    assert child.digest({"a": weight, "seconds": 1}) == child.digest({"a": weight, "seconds": 2})
    assert child.digest([1.0]) != child.digest([1.0 + 2**-52])


@pytest.mark.parametrize("net", ["mlp-8", "conv7-4"])
def test_predictions_are_the_same_every_time(net: str) -> None:
    """And, the size of a pass being what may change rounding, the same answers in any."""
    data = rows() if net.startswith("mlp") else images(12)
    run = start(data, tiny(method="supervised", net=net))
    whole = run.logits(data.train.samples)
    assert torch.equal(whole, run.logits(data.train.samples))
    for batch in (1, 7, 59):
        torch.testing.assert_close(run.logits(data.train.samples, batch), whole, rtol=1e-5, atol=1e-6)
        assert torch.equal(run.best(data.train.samples, batch), whole.argmax(-1))


def test_deterministic_gives_the_bits_of_a_plain_run_on_the_cpu_and_says_what_it_costs() -> None:
    told = io.StringIO()
    for data, net in ((images(12), "cnn13-4"), (rows(), "mlp-8")):
        plain = start(data, tiny(net=net, norm="batch"))
        strict = start(data, tiny(net=net, norm="batch", deterministic=True), console=Console(file=told, width=200))
        assert child.digest(dict(plain.model.state_dict())) == child.digest(dict(strict.model.state_dict()))
        assert strict.settings["deterministic"] is True
    assert told.getvalue().count(PROMISE["cpu"]) == 2
    assert not torch.are_deterministic_algorithms_enabled()


def test_deterministic_refuses_what_may_differ(tmp_path: Path) -> None:
    """Here `put_`: which of two values for one place wins may depend on timing."""

    class Unsteady(torch.nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            torch.zeros(1).put_(torch.zeros(2, dtype=torch.long), torch.ones(2))
            return super().forward(x)

    start(rows(), tiny(method="supervised"), model=Unsteady(5, 3))
    with pytest.raises(RunError, match="put_ does not have a deterministic implementation"):
        start(rows(), tiny(method="supervised", deterministic=True), model=Unsteady(5, 3), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("value", "begun", "ends"),
    [(None, False, "set"), (":16:8", True, "kept"), (None, True, "refused"), (":0:0", False, "refused")],
)
def test_cublas_is_told_before_cuda_begins_or_the_run_is_refused(
    value: str | None, begun: bool, ends: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(WORKSPACE, raising=False)
    if value is not None:
        monkeypatch.setenv(WORKSPACE, value)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: begun)
    strict = tiny(deterministic=True).machine
    require_workspace(tiny().machine, torch.device("cuda"))
    require_workspace(strict, torch.device("cpu"))
    assert os.environ.get(WORKSPACE) == value
    if ends == "refused":
        with pytest.raises(RunError, match=f"{WORKSPACE}=:4096:8 from the start"):
            require_workspace(strict, torch.device("cuda"))
    else:
        monkeypatch.setenv(WORKSPACE, value or "")  # so that it is taken back after the test
        if value is None:
            monkeypatch.delenv(WORKSPACE)
        require_workspace(strict, torch.device("cuda"))
        assert os.environ[WORKSPACE] == (value or ":4096:8")


def test_help_says_what_deterministic_costs(capsys: Any) -> None:
    with pytest.raises(SystemExit):
        main(["train", "--help-all"])
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "Refuse operations that may differ from run to run" in text
    assert "a step takes about as long" in text
