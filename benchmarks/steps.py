"""Training steps of the engine against a plain twin that does the same mathematics, as ratios of what both cost.

    python benchmarks/steps.py              # the table, in CPU seconds, on one thread
    python benchmarks/steps.py --threads 2  # in seconds by the clock, on two threads a side
    python benchmarks/steps.py --profile    # where our step's time goes

A step is everything from stored images to new weights and averages: `Training.update` here, `Twin.update` there. Both
take turns on one thread, on random images of 32×32×3 with WRN-28-2 and batch norm, each side in a process of its own:
ours with the settings the command line gives itself, the twin with those that Python starts with. CPU seconds of the
process, all its threads, are counted: what another program takes of the machine is not. The twin's random draws are
made beforehand.
"""

import argparse
import multiprocessing
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import torch
from rows import Row, header, show
from torch.profiler import ProfilerActivity, profile
from twin import Twin

from halfsure.cli.process import MEMORY, WAITING
from halfsure.data import Data, from_arrays
from halfsure.training.config import Config
from halfsure.training.ranks import Ranks
from halfsure.training.state import Training

IMAGES, LABELS, CLASSES = 4096, 640, 10
SHARED: dict[str, Any] = {
    "net": "wrn-28-2",
    "norm": "batch",
    "optimizer": "sgd",
    "lr": 0.03,
    "momentum": 0.9,
    "weight_decay": 5e-4,
    "schedule": "cosine",
    "ema": 0.999,
    "steps": 1000,
    "batch": 64,
    "views": "images",
    "flip": True,
    "shift": 4,
    "ops": 2,
    "cutout": 16,
}
METHODS: dict[str, dict[str, Any]] = {
    "fixmatch": {"threshold": 0.95, "weight": 1.0},
    "mixmatch": {"temperature": 0.5, "mixup": 0.75, "weight": 75.0, "ramp": 0.016},
    "vat": {"epsilon": 6.0, "xi": 0.1, "weight": 0.3},
}
PEER = "plain twin"
KINDS = {
    "convolution": ("convolution",),
    "matrix product": ("mm", "matmul", "linear", "dot"),
    "batch norm": ("batch_norm",),
    "activation": ("leaky_relu",),
    "optimiser": ("fused_sgd", "optimizer."),
    "averaged weights": ("foreach_lerp",),
    "sums and copies": ("add", "copy", "cat", "clone", "contiguous", "fill_", "zero_", "mean", "sum"),
}
"""What torch's operations are for, by parts of their names; the first that fits counts."""
CONVOLUTION = ("convolution", "matrix product")

Work = Callable[[], float]
"""A step, as long as it took."""
Make = Callable[[Config, Callable[[], float]], Work]
OURS = WAITING | {name: str(size) for name, (_, size) in MEMORY.items()}
"""The environment that the command line gives its processes."""


@dataclass(frozen=True)
class Case:
    """A method at a batch size, for so many rounds."""

    method: str
    unlabeled: int
    rounds: int
    target: float
    warm: bool = True
    """Whether to take a step before the first round."""

    def __str__(self) -> str:
        return f"{self.method} step 64+{self.unlabeled}"


# What there is to warm up is small against a step of 64+448, which takes twenty seconds.
CASES = [
    Case("fixmatch", 64, 5, 2.0),
    Case("fixmatch", 448, 2, 2.6, warm=False),
    Case("mixmatch", 64, 3, 1.9),
    Case("vat", 64, 3, 2.0),
]


def rows(quick: bool) -> Iterator[Row]:
    """Every comparison on one thread, in CPU seconds; a quick call makes the first one only, in two rounds."""
    with threads(1):
        for place, case in enumerate(cases(quick)):
            yield from compare(case, time.process_time, options=place == 0 and not quick)
        for method in ["fixmatch"] if quick else METHODS:
            yield share(method)


def cases(quick: bool) -> list[Case]:
    """All, or the first one in two rounds."""
    return [replace(CASES[0], rounds=2)] if quick else CASES


def compare(case: Case, clock: Callable[[], float], *, options: bool = False, apart: bool = True) -> Iterator[Row]:
    """Our step against the twin's, and with options our step under each of them too."""
    config = make_config(case.method, unlabeled_batch=case.unlabeled)
    with ExitStack() as stack:

        def begin(make: Make, config: Config, environment: dict[str, str]) -> Work:
            return stack.enter_context(_apart(make, config, clock, environment)) if apart else make(config, clock)

        ours = {str(case): begin(engine_step, config, OURS)}
        notes = {str(case): ""}
        for name, changed in changes().items() if options else ():
            ours[f"{case}, {name}"] = begin(engine_step, config.replace(**changed), OURS)
        theirs = begin(twin_step, config, {})
        if case.warm:
            first = {name: step() for name, step in ours.items()}
            theirs()
            notes |= {name: note(name, seconds) for name, seconds in first.items()}
        rounds = [({name: step() for name, step in ours.items()}, theirs()) for _ in range(case.rounds)]
    for name in ours:
        ratios = [slow / fast[name] for fast, slow in rounds]
        least = min(fast[name] for fast, _ in rounds)
        target = None if name.endswith("no weak_grad") else case.target  # not the twin's mathematics
        said = f"{least:.1f} s a step{notes.get(name, '')}" + (
            "" if case.warm else f"; {case.rounds} rounds, no warm-up"
        )
        yield Row(name, PEER, ratios, target, "≥", said)


@contextmanager
def _apart(make: Make, config: Config, clock: Callable[[], float], environment: dict[str, str]) -> Iterator[Work]:
    """Steps in a process of their own, which waits in between."""
    here, there = multiprocessing.Pipe()
    before = dict(os.environ)
    os.environ.update(environment)
    try:
        context = multiprocessing.get_context("spawn")
        process = context.Process(target=_serve, args=(there, make, config, clock, torch.get_num_threads()))
        process.start()
    finally:
        os.environ.clear()
        os.environ.update(before)
    there.close()

    def step() -> float:
        here.send(True)
        seconds: float = here.recv()
        return seconds

    try:
        yield step
    finally:
        here.close()
        process.join()


def _serve(pipe: Connection, make: Make, config: Config, clock: Callable[[], float], count: int) -> None:
    """Take a step whenever one is asked for, until nobody can ask any more."""
    torch.set_num_threads(count)
    step = make(config, clock)
    while True:
        try:
            pipe.recv()
        except EOFError:
            return
        pipe.send(step())


def changes() -> dict[str, dict[str, Any]]:
    """The options that are measured beside the plain step; what cannot be is said."""
    found: dict[str, dict[str, Any]] = {}
    if any(map(shutil.which, ("c++", "g++", "clang++"))):
        found["compiled"] = {"compile": True}
    else:
        print("no row for compile=True: there is no C++ compiler here", flush=True)
    return found | {"no weak_grad": {"weak_grad": False}}


def note(name: str, first: float) -> str:
    """What a reader of an option's row has to know."""
    if name.endswith("compiled"):
        return f"; the first step, which compiles, took {first:.0f} s"
    if name.endswith("no weak_grad"):
        return "; not the twin's mathematics: weak views pass without a gradient"
    return ""


def images() -> Data:
    """Noise with random labels: a step costs the same on any image."""
    rng = np.random.default_rng(0)
    labels = np.where(np.arange(IMAGES) < LABELS, np.arange(IMAGES) % CLASSES, -1)
    return from_arrays(rng.integers(0, 256, (IMAGES, 32, 32, 3), dtype=np.uint8), labels, name="noise")


def make_config(method: str, **changed: Any) -> Config:
    """The settings of both sides."""
    return Config(**{"method": method, **SHARED, **METHODS[method], **changed})


def make_training(data: Data, config: Config) -> Training:
    """The engine, as `train` puts it together."""
    torch.manual_seed(config.run.seed)
    model = config.network(data)
    model.to(torch.float64 if config.machine.precision == "float64" else torch.float32)
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stubs leave it out
    views = config.make_views(data, config.preprocessing(data))
    return Training(model, config.algorithm(), data, views, config, ranks=Ranks())


def make_twin(data: Data, config: Config) -> Twin:
    """The twin, with the weights the engine begins with."""
    torch.manual_seed(config.run.seed)
    return Twin(config.network(data).state_dict(), data, config)


def engine_step(config: Config, clock: Callable[[], float]) -> Work:
    training = make_training(images(), config)

    def step() -> float:
        began = clock()
        training.update()
        training.look()  # as the loop of `train` does after every step
        return clock() - began

    return step


def twin_step(config: Config, clock: Callable[[], float]) -> Work:
    twin = make_twin(images(), config)

    def step() -> float:
        drawn = twin.draw()
        began = clock()
        twin.update(drawn)
        return clock() - began

    return step


def breakdown(method: str) -> dict[str, float]:
    """The seconds of one step of ours, by what they were spent on; `elsewhere` is Python and the views."""
    training = make_training(images(), make_config(method))
    training.update()
    with silent(), profile(activities=[ProfilerActivity.CPU], acc_events=True) as found:
        began = time.perf_counter()
        training.update()
        training.look()
        whole = time.perf_counter() - began
    seconds = dict.fromkeys([*KINDS, "other operations"], 0.0)
    for event in found.key_averages():
        seconds[kind(event.key)] += event.self_cpu_time_total / 1e6
    return seconds | {"elsewhere": whole - sum(seconds.values())}


def kind(operation: str) -> str:
    """What an operation of torch is for."""
    for name, parts in KINDS.items():
        if any(part in operation.lower() for part in parts):
            return name
    return "other operations"


def share(method: str) -> Row:
    """The part of our step that is neither convolution nor matrix product."""
    seconds = breakdown(method)
    whole = sum(seconds.values())
    part = 1 - sum(seconds[name] for name in CONVOLUTION) / whole
    largest = sorted((name for name in seconds if name not in CONVOLUTION), key=lambda name: -seconds[name])[:3]
    parts = ", ".join(f"{name} {seconds[name] / whole:.0%}" for name in largest)
    return Row(f"{method} step 64+64, not convolution", "—", [part], 0.25, "≤", f"one profiled step: {parts}")


@contextmanager
def silent() -> Iterator[None]:
    """Inside, the error stream goes nowhere: some builds of torch write there when a profile begins and ends."""
    kept = os.dup(2)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Torch's threads inside the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one method, two rounds")
    parser.add_argument("--threads", type=int, default=1, help="of torch on both sides; more than one: by the clock")
    parser.add_argument("--profile", action="store_true", help="only show where our step's time goes")
    asked = parser.parse_args()
    if asked.threads < 1:
        parser.error("--threads must be at least 1")
    if asked.profile:
        with threads(asked.threads):
            for method in METHODS:
                seconds = breakdown(method)
                print(f"{method} step 64+64: {sum(seconds.values()):.2f} s")
                for name, part in sorted(seconds.items(), key=lambda item: -item[1]):
                    print(f"  {name:<20}{part:>8.3f} s{part / sum(seconds.values()):>7.1%}", flush=True)
        return
    print(header())
    if asked.threads == 1:
        show(rows(asked.quick))
        return
    with threads(asked.threads):
        for case in cases(asked.quick):
            show(compare(case, time.perf_counter))


if __name__ == "__main__":
    main()
