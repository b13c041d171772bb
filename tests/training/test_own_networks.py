"""Networks and views of one's own: what the engine leaves as it is, and what it refuses."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from halfsure.runs.folder import Folder
from halfsure.runs.start import fit, start
from halfsure.runs.writer import RunWriter
from halfsure.training.errors import RunError
from halfsure.training.loop import train
from tests.training.helpers import images, rows, tiny
from tests.training.test_training import make_training, network


def test_batch_statistics_are_plain_means_at_first() -> None:
    """A momentum of .001 alone would leave them near their initial values for a thousand steps."""
    model = nn.Sequential(nn.BatchNorm1d(5, momentum=0.001), nn.Linear(5, 3))
    training = make_training(rows(), tiny(method="supervised", steps=4), model)
    batches: list[Tensor] = []
    model.register_forward_pre_hook(lambda _, inputs: batches.append(inputs[0].detach().clone()))
    for _ in range(4):
        training.update()
    norm = model[0]
    assert isinstance(norm, nn.BatchNorm1d)
    assert norm.running_mean is not None
    torch.testing.assert_close(norm.running_mean, torch.stack([batch.mean(0) for batch in batches]).mean(0))
    assert norm.momentum == 0.001


def test_parts_in_evaluation_mode_stay_in_it() -> None:
    backbone = nn.BatchNorm1d(5).eval()
    model = nn.Sequential(backbone, nn.Linear(5, 3))
    backbone.eval()
    start(rows(), tiny(method="supervised", steps=2), model=model)
    assert model.training
    assert not backbone.training
    assert int(backbone.num_batches_tracked or 0) == 0


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (nn.Sequential(nn.LazyLinear(3)), "lazy modules"),
        (nn.Linear(5, 3).requires_grad_(False), "no parameters to train"),
        (nn.Flatten(), "no parameters to train"),
    ],
)
def test_a_network_that_cannot_be_trained_is_refused(model: nn.Module, message: str, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=message):
        start(rows(), tiny(method="supervised"), model=model, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_complex_buffers_keep_their_kind() -> None:
    model = nn.Sequential(nn.Linear(5, 3))
    model.register_buffer("phase", torch.tensor([1j]))
    start(rows(), tiny(method="supervised", steps=1), model=model)
    assert dict(model.named_buffers())["phase"].is_complex()


@pytest.mark.parametrize(("make", "setting"), [(rows, {"shift": 3}), (images, {"weak_noise": 0.3})])
def test_settings_for_other_data_are_refused(make: Any, setting: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"no setting '{next(iter(setting))}', which belongs to the views"):
        fit(None, make(), "supervised", steps=1, **setting)
    with pytest.raises(TypeError, match="net is for the networks of halfsure"):
        fit(nn.Linear(5, 3), rows(), "supervised", net="mlp")


def test_views_of_ones_own_belong_to_a_run(tmp_path: Path) -> None:
    def weak(samples: Any, indices: Any, step: int, stream: int) -> Tensor:
        return torch.from_numpy(samples)

    train(
        network(),
        rows(),
        tiny(method="supervised", steps=1),
        memory=RunWriter(Folder(tmp_path), {"views": None}),
        views={"weak": weak},
    )
    with pytest.raises(RunError, match="views was your own"):
        start(rows(), tiny(method="supervised", steps=1), model=network(), out=tmp_path)
