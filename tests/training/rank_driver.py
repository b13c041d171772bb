"""What two ranks do in test_ranks.py.

    python -m tests.training.rank_driver FOLDER
    torchrun --nproc-per-node 2 -m tests.training.rank_driver kill|term train SOURCE …

The first forks two ranks, for importing takes longer than all they do: every case, and runs of the command line without
an accident. Each rank leaves what it found in the folder. The second is the command line with an accident.
"""

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Literal
from unittest import mock

import numpy as np
import torch
import torch._dynamo  # before ranks are forked: optimizers import it
from torch import distributed, nn

from halfsure.algorithms import Objective
from halfsure.cli import main
from halfsure.data import Data
from halfsure.data.dataset import Part
from halfsure.runs.folder import Folder, flat_settings
from halfsure.runs.writer import RunWriter
from halfsure.training.config import Config
from halfsure.training.loop import Trained, train
from halfsure.training.ranks import Ranks
from halfsure.training.state import Training
from halfsure.views.preprocessing import Preprocessing
from tests.parts.loaded import toy_parts

CLASSES = ("0", "1", "2")
STEPS, ACCIDENT_STEP = 24, 15
BASE = Config(
    steps=20,
    net="conv7-4",
    norm="none",
    batch=8,
    unlabeled_batch=16,
    lr=5e-3,
    ema=0.9,
    evaluations=2,
    precision="float64",
    tensorboard=False,
)


@dataclass(frozen=True)
class Case:
    """A run to make."""

    settings: dict[str, Any] = field(default_factory=dict)
    kind: Literal["image", "array"] = "image"
    test: int = 7
    """Test samples: odd, so that ranks have unequal shares of them."""
    kept: bool = False
    """Whether in a folder."""


ODD: dict[str, Any] = {"batch": 7, "unlabeled_batch": 13}
SGD: dict[str, Any] = {"optimizer": "sgd", "lr": 0.05, "weight_decay": 1e-3}
ALIKE = {
    "fixmatch": Case(kept=True),
    "fixmatch odd": Case(ODD),
    "fixmatch sgd": Case(SGD),
    "fixmatch sgd odd": Case({**ODD, **SGD}),
    "vat": Case({"method": "vat+ads"}),
    "vat odd": Case({**ODD, "method": "vat+ads"}),
    "vat sgd odd": Case({**ODD, **SGD, "method": "vat+ads"}),
    "prior": Case({**ODD, "prior": (0.2, 0.3, 0.5)}, kept=True),
    "class weight": Case({**ODD, "class_weight": "balanced"}),
    "clip": Case({**ODD, "clip": 0.05}),
    "vat class weight sgd": Case({**ODD, **SGD, "method": "vat+ads", "class_weight": (1.0, 2.0, 4.0), "clip": 0.2}),
    "weak views apart": Case({**ODD, "steps": 6, "weak_grad": False}),
    "added": Case({**ODD, "steps": 6, "method": "fixmatch-ads+me", "ramp": 0.5, "ramp_shape": "exp"}),
    "supervised": Case({**ODD, "steps": 6, "method": "supervised", "optimizer": "adamw", "weight_decay": 0.01}),
    "rows": Case({**ODD, "net": "mlp-8", "prior": "labels", "class_weight": "balanced", "clip": 0.1}, kind="array"),
    "own state": Case({**ODD, "steps": 6, "method": "fixmatch-nudge~median"}),
    "own head": Case({**ODD, "steps": 6, "method": "twin", "ema": 0.5}),
    "one test sample": Case({**ODD, "steps": 2}, test=1),
    "some scored": Case({**ODD, "steps": 4, "test_sample": 3, "unlabeled_sample": 5, "eval_batch": 2}),
}
"""Where two ranks do what one process does with the whole batch."""
MIXED = {
    "mixmatch": Case({**ODD, "method": "mixmatch-ads", "schedule": "constant", "ramp": 0.4}),
    "mixmatch added": Case({**ODD, "method": "mixmatch-ads+me", "schedule": "constant", "distill_weight": 0.3}),
}
"""Where each rank mixes among its own samples."""
OWN = {
    "batch norm": Case({**ODD, "norm": "batch"}, kept=True),
    "dropout": Case({**ODD, "steps": 4, "net": "mlp-16", "dropout": 0.5}),
    "timed": Case({**ODD, "net": "mlp-8", "time": "0.2s"}),
}
"""Where ranks have something of their own."""
CASES = ALIKE | MIXED | OWN


def make_data(kind: Literal["image", "array"] = "image", test: int = 7) -> Data:
    """61 samples of three classes, bright in different rows and far from balanced; 11 are labeled."""
    generator = np.random.default_rng(3)

    def draw(labels: Any) -> Any:
        images = generator.integers(0, 160, (len(labels), 8, 8, 1))
        for image, label in zip(images, labels, strict=True):
            image[2 * label : 2 * label + 3] += 80
        flat = (images.reshape(len(labels), -1) / 100).astype(np.float32)
        return images.astype(np.uint8) if kind == "image" else flat

    labels = np.array([0] * 30 + [1] * 20 + [2] * 11, dtype=np.int64)
    labeled = np.array([0, 3, 5, 7, 11, 13, 31, 33, 38, 52, 57])
    parts = [Part(draw(y), y) for y in (labels, np.arange(test) % 3, np.arange(5) % 3)]
    return Data("blobs", kind, CLASSES, parts[0], labeled, test=parts[1], val=parts[2])


def make_model(data: Data, config: Config) -> nn.Module:
    """Every process starts from the same weights."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return config.network(data)


def run_case(case: Case, folder: Path | None = None) -> tuple[nn.Module, Trained]:
    """Train. → the trained network and the run with its average."""
    data, config = make_data(case.kind, case.test), BASE.replace(**case.settings)
    model = make_model(data, config)
    net = {"name": config.run.net, **vars(config.sections["net"])}
    memory = None if folder is None else RunWriter(Folder(folder), {"net": net})
    return model, train(model, data, config, memory=memory)


def run_cases(ranks: Ranks, folder: Path) -> None:
    """Make every run, each rank in a folder of its own: those of other ranks than the first have to stay away."""
    own = folder / f"rank {ranks.rank}"
    found: dict[str, Any] = {"numbers": numbers(ranks)}
    found["messages"] = {method: messages(ranks, method) for method in ("supervised", "vat+ads", "fixmatch-ads+me")}
    for name, case in CASES.items():
        model, run = run_case(case, own / name if case.kept else None)
        weights = {"model": model.state_dict(), "average": run.model.state_dict()}
        found[name] = {**weights, "metrics": run.metrics, "finished": finished(run)}
    _, again = run_case(CASES["fixmatch"], own / "fixmatch")
    found["again"] = {"metrics": again.metrics, "finished": finished(again)}
    torch.save(found, folder / f"rank {ranks.rank}.pt")


def finished(run: Trained) -> bool:
    """Whether it got to its last step."""
    return bool(run.metrics[-1]["step"] == flat_settings(run.config)["steps"])


def numbers(ranks: Ranks) -> dict[str, Any]:
    """What each operation of ranks gives here."""
    own = [[1.0, 2.0, 4.0], [8.0]][ranks.rank]
    values = torch.tensor(own, dtype=torch.float64, requires_grad=True)
    mean = ranks.mean(values)
    mean.backward()
    rows = torch.arange(10.0).view(5, 2)
    return {
        "mean": mean.item(),
        "gradient": values.grad,
        "mean, one shard empty": ranks.mean(torch.tensor([[5.0, 7.0], []][ranks.rank])).item(),
        "mean, all empty": ranks.mean(torch.tensor([])).item(),
        "average": ranks.average(torch.tensor([[1.0, -2.0], [4.0, 3.0]][ranks.rank])),
        "sums": ranks.sums(1 + ranks.rank, True, ranks.rank == 1, 0.25),
        "any": [ranks.any(ranks.rank == which) for which in (0, 1, 2)],
        "same": [ranks.same(value + ranks.rank) for value in (0.1, -3.0)],
        "same_object": ranks.same_object({"from": ranks.rank}),
        "gather": {total: ranks.gather(rows[:total][ranks.rank :: 2], total) for total in (5, 4, 2, 1)},
        "gather, integers": ranks.gather(torch.arange(3)[ranks.rank :: 2], 3),
    }


def messages(ranks: Ranks, method: str) -> dict[str, Any]:
    """How many messages a step takes beside those of the gradients, and what ranks know of each other's wishes."""
    data, config = make_data(), BASE.replace(**ODD, method=method)
    views = config.make_views(data, Preprocessing.of(data))
    training = Training(make_model(data, config).double(), config.algorithm(), data, views, config, ranks=ranks)
    training.wishes = lambda: (training.done == 0, training.done == 1 and ranks.rank == 1, False)
    counts, granted = [], []
    for _ in range(3):
        with mock.patch.object(distributed, "all_reduce", wraps=distributed.all_reduce) as sent:
            training.update()
            granted.append(training.granted())
        counts.append(sent.call_count)
    return {"counts": counts, "granted": granted}


def with_accident(kind: str) -> Callable[[Training], Objective]:
    """A step that, in the middle of a run's first life, has its second rank killed or its launcher asked to end."""
    update = Training.update
    here = os.environ["RANK"] == "1" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"

    def step(training: Training) -> Objective:
        if here and training.done == ACCIDENT_STEP and kind == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if here and training.done == ACCIDENT_STEP and kind == "term":
            end_launcher()
        return update(training)

    return step


def end_launcher() -> None:
    """Ask it to end, and wait until it hands the signal on: the run might be at its end before."""
    noted, came = signal.getsignal(signal.SIGTERM), []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)
        assert callable(noted)
        noted(number, frame)

    signal.signal(signal.SIGTERM, note)
    os.kill(os.getppid(), signal.SIGTERM)
    while not came:
        time.sleep(0.01)


def write_npz(file: Path) -> None:
    """The data as a file for the command line, with the labels of what is labeled."""
    data = make_data()
    labels = np.full(len(data.train), -1)
    labels[data.labeled] = data.train.labels[data.labeled]
    assert data.test is not None
    np.savez(file, X=data.train.samples, y=labels, X_test=data.test.samples, y_test=data.test.labels)


def command(folder: Path, name: str) -> list[str]:
    """A small run by the command line."""
    sizes = ["--net", "mlp-8", "--steps", str(STEPS), "--evaluations", "4", "--batch", "7", "--unlabeled-batch", "13"]
    source, out = str(folder / "blobs.npz"), str(folder / name)
    return ["train", source, "--out", out, "--method", "vat+ads", "--no-tensorboard", *sizes]


def be_rank(rank: int, folder: Path) -> int:
    """All that one of two ranks does without an accident; the run "stopped" is gone on with."""
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2"}
    distributed.init_process_group("gloo", init_method=f"file://{folder / 'meeting point'}", rank=rank, world_size=2)
    run_cases(Ranks(rank, 2), folder)
    codes = [main(command(folder, name)) for name in ("undisturbed", "stopped")]
    distributed.destroy_process_group()
    return max(codes)


def fork_ranks(folder: Path) -> int:
    """Be two ranks, and wait for both; if one fails the other would wait for it in vain. → exit code."""
    ranks = {}
    for rank in (0, 1):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                code = be_rank(rank, folder)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                os._exit(code)
        ranks[pid] = rank
    while ranks:
        pid, status = os.wait()
        del ranks[pid]
        if status:
            for other in ranks:
                os.kill(other, signal.SIGKILL)
            return 1
    return 0


def drive(arguments: list[str]) -> int:
    """Do what was asked for."""
    torch.set_num_threads(1)
    if len(arguments) == 1:
        with toy_parts():
            return fork_ranks(Path(arguments[0]))
    with mock.patch.object(Training, "update", with_accident(arguments[0])):
        return main(arguments[1:])


if __name__ == "__main__":
    sys.exit(drive(sys.argv[1:]))
