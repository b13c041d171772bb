"""What TensorBoard shows is what metrics.jsonl holds, also over a resume."""

from pathlib import Path

import pytest

from halfsure import SSLClassifier
from halfsure.cli import main
from halfsure.runs.start import fit
from halfsure.training.errors import RunError
from tests.training.helpers import images, rows


def test_events_are_the_numbers_of_the_metrics(tmp_path: Path) -> None:
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="needs the extra halfsure[tensorboard]"
    )
    run = fit(
        None, images(), "fixmatch-ads", out=tmp_path, steps=6, evaluations=3, net="conv7-4", batch=6, unlabeled_batch=8
    )
    events = accumulator.EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert {"test/error", "test/ece", "train/consistency", "pseudo_labels/coverage"} <= set(events.Tags()["scalars"])
    shown = [(event.step, event.value) for event in events.Scalars("train/consistency")]
    assert [step for step, _ in shown] == [2, 4, 6]
    assert [value for _, value in shown] == pytest.approx([line["train"]["consistency"] for line in run.metrics])


def test_events_that_are_asked_for_need_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("halfsure.runs.tensorboard.find_spec", lambda _: None)
    for command in (["train", "digits"], ["compare", "digits", "--methods", "supervised"]):
        assert main([*command, "--tensorboard"]) == 2
        err = " ".join(capsys.readouterr().err.split())
        assert "pip install 'halfsure[tensorboard]'" in err
        assert err.count("halfsure: ") == 1
    assert not list(tmp_path.iterdir())
    with pytest.raises(RunError, match="pip install"):
        fit(None, rows(), "supervised", tensorboard=True)
    with pytest.raises(RunError, match="pip install"):
        SSLClassifier(settings={"tensorboard": True}).fit([[0.0], [1.0]] * 3, [0, 1] * 3)
    fit(None, rows(), "supervised", steps=1, evaluations=1)  # not asked for: as always
