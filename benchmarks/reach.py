"""How long fixmatch-ads trains to 10 % test error on MNIST with 40 labels, as a part of what fixmatch needs.

    HALFSURE_DATA=data python benchmarks/reach.py

Both run in the same engine with the quick preset at 1,000 steps, from the same labels and weights, 20 steps of one and
20 of the other in turn. After each 20 the averaged model is scored on the same 2,000 test images; between two scores
the error is taken to fall in a straight line. Time is CPU seconds of training alone, on one thread. A run that is still
above 10 % after its last step counts as that long, and the note says so. MNIST is looked for where `halfsure data`
looks.
"""

import argparse
import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from rows import Row, header, show
from steps import threads

from halfsure.data import Data, DataError, Part
from halfsure.data.load import draw_seeds, read_source
from halfsure.training.inference import logits_of
from halfsure.training.presets import preset
from halfsure.training.ranks import Ranks
from halfsure.training.state import Training

METHODS = ("fixmatch-ads", "fixmatch")
SEEDS, LABELS, STEPS, EVERY = (0, 1, 2), 40, 1000, 20
ERROR, TESTED, TARGET = 0.10, 2000, 0.5


@dataclass(frozen=True)
class Score:
    """How good a run was, and when."""

    step: int
    seconds: float
    error: float


@dataclass(frozen=True)
class Reached:
    """When a run came down to the error, or its end if it did not."""

    step: float
    seconds: float
    there: bool

    def __str__(self) -> str:
        return f"{self.step:.0f}" if self.there else f"more than {self.step:.0f}"


def rows(quick: bool) -> Iterator[Row]:
    """The one comparison, a ratio a seed; a quick call makes one seed only. No row without MNIST."""
    try:
        sets = draw_seeds(read_source("mnist"), SEEDS[:1] if quick else SEEDS, labels=LABELS)
    except DataError as error:
        print(f"no row for the time to 10 % error: {error}", flush=True)
        return
    with threads(1):
        pairs = [race(data, seed) for seed, data in zip(SEEDS, sets, strict=False)]
    ratios = [ads.seconds / plain.seconds for ads, plain in pairs]
    yield Row("fixmatch-ads to 10 % error, MNIST@40", "fixmatch", ratios, TARGET, "≤", note(pairs))


def note(pairs: Sequence[tuple[Reached, Reached]]) -> str:
    """The steps each run took, and which ratios are but a bound."""
    steps = ", ".join(f"{ads} against {plain}" for ads, plain in pairs)
    late = (
        "; where fixmatch-ads is not there yet its ratio is too low" if any(not ads.there for ads, _ in pairs) else ""
    )
    late += (
        "; where fixmatch is not there yet the ratio is too high" if any(not plain.there for _, plain in pairs) else ""
    )
    return f"steps by seed: {steps}{late}"


def race(data: Data, seed: int) -> tuple[Reached, Reached]:
    """Train both methods in turn until each is there."""
    assert data.test is not None
    test = some(data.test)
    runs = [Runner(data, method, seed, test) for method in METHODS]
    for _ in range(STEPS // EVERY):
        for run in runs:
            if not run.reached.there:
                run.go_on()
    return runs[0].reached, runs[1].reached


class Runner:
    """A run that can be gone on with a piece at a time, and its scores so far."""

    def __init__(self, data: Data, method: str, seed: int, test: Part) -> None:
        config = preset(data, method, "quick", seed).replace(steps=STEPS)
        torch.manual_seed(seed)
        model = config.network(data)
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stubs leave it out
        self.preprocessing = config.preprocessing(data)
        views = config.make_views(data, self.preprocessing)
        self.training = Training(model, config.algorithm(), data, views, config, ranks=Ranks())
        self.test, self.scores = test, [Score(0, 0.0, 1.0)]

    def go_on(self) -> None:
        """A few steps and a score."""
        began = time.process_time()
        for _ in range(EVERY):
            self.training.update()
            self.training.look()
        spent = time.process_time() - began
        logits = logits_of(self.training.average.model, self.test.samples, self.preprocessing, batch=500)
        wrong = np.mean(logits.argmax(-1).numpy() != self.test.labels)
        self.scores.append(Score(self.training.done, self.scores[-1].seconds + spent, float(wrong)))

    @property
    def reached(self) -> Reached:
        """Where it is by now."""
        return crossing(self.scores, ERROR)


def crossing(scores: Sequence[Score], error: float) -> Reached:
    """When the error was first met, on the straight line between two scores; the last score if it never was."""
    for before, after in itertools.pairwise(scores):
        if after.error <= error:
            part = (before.error - error) / (before.error - after.error)
            return Reached(
                before.step + part * (after.step - before.step),
                before.seconds + part * (after.seconds - before.seconds),
                there=True,
            )
    return Reached(scores[-1].step, scores[-1].seconds, there=False)


def some(test: Part) -> Part:
    """The same few test samples for everybody."""
    chosen: NDArray[np.int64] = np.sort(np.random.default_rng(0).permutation(len(test))[:TESTED])
    return test.take(chosen)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one seed")
    asked = parser.parse_args()
    print(header())
    show(rows(asked.quick))


if __name__ == "__main__":
    main()
