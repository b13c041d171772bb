"""What scale.py measures in processes of their own; each prints a line of JSON.

python benchmarks/scale_run.py rows FOLDER
python benchmarks/scale_run.py ranks
torchrun --standalone --nproc-per-node 2 benchmarks/scale_run.py ranks
"""

import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from halfsure.data import Data, from_arrays, load
from halfsure.runs.start import start
from halfsure.training.errors import CollapseWarning
from halfsure.training.presets import preset
from halfsure.training.ranks import Ranks, ranks_for
from halfsure.training.state import Training

METHOD = "fixmatch-ads"
SAMPLES, LABELS, CLASSES = 4096, 640, 10
ROW_STEPS = 200
RANK_STEPS = {64: 24, 448: 8}
"""By the unlabeled batch."""


def noise(samples: NDArray[Any]) -> Data:
    """Samples with labels that mean nothing, for a step costs the same on any; most are unlabeled."""
    labels = np.where(np.arange(len(samples)) < LABELS, np.arange(len(samples)) % CLASSES, -1)
    return from_arrays(samples, labels, name="noise")


def images() -> Data:
    """Noise of 28×28×1."""
    return noise(np.random.default_rng(0).integers(0, 256, (SAMPLES, 28, 28, 1), dtype=np.uint8))


def features() -> Data:
    """Noise of 64 features."""
    return noise(np.random.default_rng(0).normal(size=(SAMPLES, 64)).astype(np.float32))


def make_training(data: Data, unlabeled: int, ranks: Ranks) -> Training:
    """The engine with the quick preset, as `train` puts it together."""
    config = preset(data, METHOD).replace(unlabeled_batch=unlabeled)
    torch.manual_seed(0)
    model = config.network(data)
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stubs leave it out
    views = config.make_views(data, config.preprocessing(data))
    return Training(model, config.algorithm(), data, views, config, ranks=ranks)


def memory(name: str, process: int | str = "self") -> int:
    """A line of what Linux says of a process's memory, in bytes."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return 1024 * int(line.split()[1])
    raise OSError(f"process {process} has no {name}: it has ended, or this is not Linux")


def rows(folder: str) -> dict[str, Any]:
    """Open mapped rows and train on them. → bytes before, seconds to open and to begin, CPU seconds of each step."""
    _warm_up()
    before, began = memory("RssAnon"), time.monotonic()
    data = load(folder)
    opened = time.monotonic()
    ends: list[float] = []
    config = preset(data, METHOD).replace(steps=ROW_STEPS, evaluations=2, tensorboard=False)
    start(data, config, watch=lambda _: ends.append(time.process_time()))
    return {"before": before, "open": opened - began, "steps": np.diff(ends).tolist()}


def _warm_up() -> None:
    """Train for a moment, for what is loaded and compiled once is not to be counted."""
    config = preset(features(), METHOD).replace(steps=2, evaluations=1, tensorboard=False)
    start(features(), config)


def ranks() -> dict[str, Any] | None:
    """Take steps on all ranks. → seconds of each by the clock, by unlabeled batch; None but on the first rank."""
    found = {}
    with ranks_for(torch.device("cpu")) as here:
        for unlabeled, steps in RANK_STEPS.items():
            training = make_training(images(), unlabeled, here)
            ends = []
            for _ in range(2 + steps):
                training.update()
                training.look()
                ends.append(time.monotonic())
            found[str(unlabeled)] = np.diff(ends[1:]).tolist()
    return found if here.first else None


def main() -> None:
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CollapseWarning)  # noise has nothing to be learnt
        found = rows(sys.argv[2]) if sys.argv[1] == "rows" else ranks()
    if found is not None:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
