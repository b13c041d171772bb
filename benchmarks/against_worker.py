"""One tree of halfsure that answers `against.py`: a question on stdin, an answer on stdout, each a line of JSON.

    PYTHONPATH=TREE/src python benchmarks/against_worker.py

It runs under every tree since version 0.1, so it uses only names that were public there. So do `losses.py` and
`views.py` when they are imported.
"""

import json
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from functools import cache, partial
from hashlib import sha256
from itertools import pairwise, product
from typing import Any

import numpy as np
import torch
from losses import Loss, spent
from sklearn.datasets import load_digits
from torch.optim.optimizer import register_optimizer_step_post_hook

import halfsure
import views
from halfsure.data import Data, from_arrays, load
from halfsure.views import ArrayView

METHODS = ("fixmatch-ads", "mixmatch-ads", "vat+ads")
STEPS = {"digits": 10, "rows": 30}  # of a timed run
SHAPES = [(64, 10), (448, 100), (1024, 1000)]
SIDES = (8, 32)
SHARE = 0.04  # CPU seconds of a timed loss or view

Work = Callable[[], float]
"""Something timed: CPU seconds of a loss, a batch of views or a step."""
LOSSES: dict[str, Loss] = {
    "sparsemax": lambda logits: halfsure.sparsemax(logits).square().sum(),
    "sparsemax loss": lambda logits: halfsure.sparsemax_loss(logits, torch.arange(len(logits)) % 10).mean(),
    "ADS loss": halfsure.ads_loss,
}


@cache
def data(name: str) -> Data:
    """Digits with 40 labels, as images or as rows of numbers."""
    if name == "digits":
        return load("digits", labels=40)
    samples, labels = load_digits(return_X_y=True)
    samples, known = samples.astype(np.float32), np.where(np.arange(len(labels)) < 40, labels, -1)
    return from_arrays(samples[:-400], known[:-400], test=(samples[-400:], labels[-400:]), name=name)


def fit(name: str, method: str, **settings: Any) -> Any:
    return halfsure.fit(None, data(name), method, preset="quick", seed=3, **settings)


def bits(name: str, method: str, steps: int) -> dict[str, Any]:
    """What a run ends in: a hash of its averaged weights, and its metrics."""
    run, digest = fit(name, method, steps=steps, evaluations=min(4, steps)), sha256()
    for value in run.model.state_dict().values():  # in their order: what a layer is called may change
        digest.update(f"{value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.contiguous().numpy().tobytes())
    return {"weights": digest.hexdigest(), "metrics": run.metrics}


def loss_work(name: str, shape: tuple[int, int]) -> Work:
    """A forward and a backward pass on logits like those of a trained network."""
    loss, logits = LOSSES[name], torch.randn(shape, generator=torch.Generator().manual_seed(0)).requires_grad_()
    spent(loss, logits, 1)
    repeats = max(1, int(SHARE / spent(loss, logits, 3)))
    return lambda: spent(loss, logits, repeats)


def image_work(kind: str, side: int) -> Work:
    return view_work(views.ours(views.VIEWS[kind], views.crops(448, (side, side, 3))))


def row_work() -> Work:
    rows = data("rows").train.samples[:448]
    view, indices = ArrayView(noise=0.2, dropout=0.1, swap=0.1, reference=rows), np.arange(len(rows))
    return view_work(lambda step: len(view(rows, indices, step)))


def view_work(work: Callable[[int], int]) -> Work:
    batch = work(0)
    return lambda: batch / views.rate(work, SHARE)


def step_work(name: str, method: str) -> Work:
    """The median training step of a short run; nothing before the first step counts, and no evaluation."""

    def work() -> float:
        (ends := step_ends()).clear()
        fit(name, method, steps=STEPS[name], evaluations=1)
        return statistics.median(late - early for early, late in pairwise(ends))

    return work


@cache
def step_ends() -> list[float]:
    """When optimisers have taken their steps, from the first call on, in CPU seconds of this process."""
    ends: list[float] = []
    register_optimizer_step_post_hook(lambda *_: ends.append(time.process_time()))
    return ends


RUNS = {f"{name} {method}": partial(bits, name, method) for name, method in product(STEPS, METHODS)}
WORKS: dict[str, Callable[[], Work]] = {
    **{f"{name} {shape}": partial(loss_work, name, shape) for name, shape in product(LOSSES, SHAPES)},
    **{f"{kind} view, {side}×{side}×3": partial(image_work, kind, side) for kind, side in product(views.VIEWS, SIDES)},
    "row view, 64 features": row_work,
    **{f"{name} {method} step": partial(step_work, name, method) for name, method in product(STEPS, METHODS)},
}
"""Everything that is timed, made when it is first asked for."""


def main() -> None:
    warnings.simplefilter("ignore")  # runs of a few steps have learnt nothing, and say so
    torch.set_num_threads(1)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what anything else prints is no answer
    works: dict[str, Work] = {}

    def answer(value: Any) -> None:
        print(json.dumps(value), file=answers, flush=True)

    answer({"halfsure": halfsure.__file__, "runs": list(RUNS), "works": list(WORKS)})
    for line in sys.stdin:
        asked = json.loads(line)
        name = asked["name"]
        if name in RUNS:
            answer(RUNS[name](asked["steps"]))
        else:
            works[name] = works.get(name) or WORKS[name]()
            answer(works[name]())


if __name__ == "__main__":
    main()
