"""What TensorBoard shows is what metrics.jsonl holds, also over a resume."""

from pathlib import Path

import pytest

from halfsure.runs.start import fit
from tests.training.helpers import images


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
