"""Trains in children that are killed without warning: `python -m tests.runs.driver FOLDER KILLS SEED METHOD…`.

One process pays for the imports; each training is a child of it.
"""

import json
import os
import random
import signal
import sys
import time
import warnings
from pathlib import Path

import torch

from halfsure.runs.start import start
from tests.training.helpers import images, tiny


def train(out: Path, method: str) -> None:
    """A short run that saves after every step."""
    start(images(), tiny(method=method, steps=15, evaluations=5, save_minutes=0, seed=3), out=out)


def killed(out: Path, method: str, seconds: float) -> bool:
    """Train in a child for so long; whether it was killed before its end."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            train(out, method)
            code = 0
        finally:
            os._exit(code)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def main(folder: Path, kills: int, seed: int, methods: list[str]) -> None:
    """Train each method straight through, and another time with so many kills."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    draw = random.Random(seed)
    train(folder / "warm", methods[0])  # compiles and allocates
    told = {}
    for method in methods:
        began = time.monotonic()
        train(folder / f"{method}-whole", method)
        whole = time.monotonic() - began
        out = folder / f"{method}-killed"
        # Parts of what the run takes: together they leave some of it to do.
        times = [draw.uniform(0.05, 0.95 / kills) * whole for _ in range(kills)]
        told[method] = {"killed": [killed(out, method, seconds) for seconds in times]}
        train(out, method)
    print(json.dumps(told))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
