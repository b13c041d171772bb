"""What training costs as batch, classes, rows and ranks grow: time and memory, each beside that of one size.

    python benchmarks/scale.py                             # all four
    python benchmarks/scale.py batch|classes|rows|ranks

- batch: CPU seconds of a `fixmatch-ads` step for each row that goes through the network (the labeled samples and two
  views of the unlabeled ones), and the memory it takes beyond what is there between two steps.
- classes: CPU seconds for each logit of 64 samples, of the losses with their gradients and of an evaluation; those of
  a whole `fixmatch-ads` step are for 64 labeled samples and two views of 64 unlabeled ones, a logit of all three.
- rows: training on rows that are memory-mapped. Memory is the most that the process held beyond the page cache, and
  the note says how much more that is than before the data were opened; the time of a step is in CPU seconds.
- ranks: seconds of a step by the clock, one process against two with the same global batch between them.

One thread a process. Memory is what Linux says; elsewhere it is left out.
"""

import argparse
import ctypes
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rows import Row, header, show
from scale_run import CLASSES, METHOD, features, images, make_training, memory
from steps import threads
from torch import Tensor, nn

import halfsure
from halfsure.algorithms import Context, objective
from halfsure.metrics import pseudo_labels, score
from halfsure.simplex import SPARSEMAX
from halfsure.training.ranks import Ranks
from halfsure.training.state import Training
from halfsure.views.batch import Batch, Draws

BATCHES, BATCH_ROUNDS, USUAL = (16, 64, 256, 1024), 5, 64
LABELED = 64  # samples of a step
CLASS_COUNTS, CLASS_ROUNDS, MANY, LOGIT_ROWS = (10, 100, 1000, 10_000, 50_257), 7, 1000, 64
ROWS, FEATURES, LABELS = (10**4, 10**5, 10**6, 10**7), 16, 40
WHOLE = f"all losses of {METHOD}"
CONSTANT = 1.1
"""So much more memory than with the fewest rows passes as constant."""
RANK_ROUNDS = 2
SHARE = 0.02  # seconds that each contender gets in a round, at least
POLL = 0.003
LINUX = Path("/proc/self/clear_refs").exists()
RUN = str(Path(__file__).with_name("scale_run.py"))

Work = Callable[[], Any]


def rows(quick: bool) -> Iterator[Row]:
    """All tables; a quick call leaves the largest sizes and the ranks out."""
    yield from batch(BATCHES[:-1] if quick else BATCHES)
    yield from classes(CLASS_COUNTS[:-1] if quick else CLASS_COUNTS)
    yield from mapped(ROWS[:-1] if quick else ROWS)
    if not quick:
        yield from ranks()


def batch(sizes: Sequence[int] = BATCHES) -> Iterator[Row]:
    """Steps with more and more unlabeled samples."""
    with threads(1):
        for net, data in (("conv7-16", images()), ("mlp", features())):
            works = {size: step(make_training(data, size, Ranks())) for size in sizes}
            taken = {size: f", {peak(work) / 2**20:.0f} MB" if LINUX else "" for size, work in works.items()}
            spent = in_turn(works, BATCH_ROUNDS)
            each = {size: [seconds / (LABELED + 2 * size) for seconds in spent[size]] for size in sizes}
            for size in sizes:
                note = f"{1e6 * statistics.median(each[size]):.0f} µs a row{taken[size]}"
                what = f"{METHOD} step {LABELED}+{size}, {net}"
                yield Row(what, f"a row at {LABELED}+{USUAL}", _over(each[size], each[USUAL]), note=note)


def step(training: Training) -> Work:
    """A step as the loop of `train` takes it."""

    def work() -> None:
        training.update()
        training.look()

    return work


def peak(work: Work) -> int:
    """The most bytes that work took beyond what there was before and what stays from one call to the next."""
    work()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = memory("VmRSS")
    work()
    return max(0, memory("VmHWM") - before)


def classes(counts: Sequence[int] = CLASS_COUNTS) -> Iterator[Row]:
    """Losses and evaluation of a batch with more and more classes."""
    with threads(1):
        works = {(name, k): work for k in counts for name, work in _of_logits(k).items()}
        spent = in_turn(works, CLASS_ROUNDS)
    parts = {name: 3 if name == WHOLE else 1 for name, _ in works}
    each = {(name, k): [seconds / (parts[name] * LOGIT_ROWS * k) for seconds in spent[name, k]] for name, k in works}
    for name, k in itertools.product(parts, counts):
        note = f"{1e9 * statistics.median(each[name, k]):.2f} ns a logit"
        yield Row(f"{name}, {k:,} classes", f"a logit of {MANY:,}", _over(each[name, k], each[name, MANY]), note=note)


def _of_logits(k: int) -> dict[str, Work]:
    """What there is to do with the logits of a batch. → name and work."""
    given = logits_batch(k)
    labeled, labels, (weak, strong) = given.labeled, given.labels, given.unlabeled
    soft = halfsure.sparsemax(strong.detach())

    def gradient(loss: Callable[[], Tensor]) -> Work:
        def work() -> None:
            labeled.grad = weak.grad = strong.grad = None
            loss().backward()

        return work

    def evaluate() -> None:
        score(strong.detach(), labels, SPARSEMAX)
        pseudo_labels(halfsure.method(METHOD).audit(strong.detach()), labels)

    return {
        "ADS loss": gradient(lambda: halfsure.ads_loss(weak)),
        "sparsemax loss, labels": gradient(lambda: halfsure.sparsemax_loss(labeled, labels).mean()),
        "sparsemax loss, soft": gradient(lambda: halfsure.sparsemax_loss(strong, soft).mean()),
        WHOLE: gradient(lambda: step_loss(given)),
        "evaluation": evaluate,
    }


def logits_batch(k: int) -> Batch:
    """Samples that are their own logits, as leaves. → three times (64, k)."""
    generator = torch.Generator().manual_seed(0)
    labeled, weak, strong = (torch.randn(LOGIT_ROWS, k, generator=generator).requires_grad_() for _ in range(3))
    labels = torch.randint(k, (LOGIT_ROWS,), generator=generator)
    numbers = np.arange(LOGIT_ROWS)
    return Batch(labeled, labels, (weak, strong), Draws(0, 0, numbers, numbers, 0))


def step_loss(given: Batch) -> Tensor:
    """The total loss of a step, from logits on."""
    algorithm = halfsure.method(METHOD)
    losses = algorithm.step(Context(nn.Identity(), given))
    return objective(losses, algorithm.weights, 1.0, lambda *terms: [Ranks().mean(term) for term in terms]).total


def mapped(counts: Sequence[int] = ROWS) -> Iterator[Row]:
    """Training on more and more memory-mapped rows, each in a process of its own."""
    if not LINUX:
        print("no rows for mapped data: only Linux tells how much memory is beyond the page cache", flush=True)
        return
    least: tuple[int, list[float]] | None = None
    for count in counts:
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder), count)
            command = [sys.executable, RUN, "rows", folder]
            if least is None:
                watched(command)  # the first process may have kernels to compile, which takes memory too
            most, found = watched(command)
        blocks = [statistics.median(block) for block in np.array_split(found["steps"], 5)]
        least = least or (most, blocks)
        what, peer = f"{count:,} rows mapped", f"{counts[0]:,} rows"
        more = f"{most / 2**20:.0f} MB, {(most - found['before']) / 2**20:.0f} more than before"
        target = CONSTANT if count > counts[0] else None
        yield Row(f"memory, {what}", peer, [most / least[0]], target, "≤", f"{more}; opened in {found['open']:.1f} s")
        note = f"{1e3 * statistics.median(blocks):.1f} ms a step"
        yield Row(f"step, {what}", peer, _over(blocks, least[1]), note=note)


def write(folder: Path, count: int, chunk: int = 10_000) -> None:
    """X.npy and y.npy of so many rows, a chunk at a time; a few are labeled."""
    samples = np.lib.format.open_memmap(folder / "X.npy", "w+", np.float32, (count, FEATURES))
    labels = np.lib.format.open_memmap(folder / "y.npy", "w+", np.int64, (count,))
    block = np.random.default_rng(0).normal(size=(chunk, FEATURES)).astype(np.float32)
    for start in range(0, count, chunk):
        samples[start : start + chunk] = block[: count - start]
        labels[start : start + chunk] = -1
    labels[:LABELS] = np.arange(LABELS) % CLASSES
    samples.flush()
    labels.flush()


def watched(command: list[str], every: float = POLL) -> tuple[int, dict[str, Any]]:
    """Run a process and look at its memory all the while. → the most bytes beyond the page cache, and what it said."""
    most = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=_environment()) as process:
        while process.poll() is None:
            with suppress(OSError):  # it may just be ending
                most = max(most, memory("RssAnon", process.pid))
            time.sleep(every)
        assert process.stdout is not None
        said = process.stdout.read()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}; what it said is above")
    found: dict[str, Any] = json.loads(said)
    return most, found


def ranks() -> Iterator[Row]:
    """The same global batch on one process and on two, in turn."""
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    commands = {1: [sys.executable, RUN, "ranks"], 2: [sys.executable, *torchrun, RUN, "ranks"]}
    rounds = [{size: watched(command, every=0.1)[1] for size, command in commands.items()} for _ in range(RANK_ROUNDS)]
    for unlabeled in rounds[0][1]:
        times = {size: [statistics.median(one[size][unlabeled]) for one in rounds] for size in commands}
        note = " and ".join(f"{1e3 * statistics.median(times[size]):.0f}" for size in (2, 1)) + " ms a step"
        yield Row(
            f"{METHOD} step 64+{unlabeled} on 2 ranks",
            "1 rank",
            _over(times[1], times[2]),
            note=f"times as fast; {note}",
        )


def in_turn(works: dict[Any, Work], rounds: int) -> dict[Any, list[float]]:
    """CPU seconds of each work, a value a round, all of them in every round."""
    spent: dict[Any, list[float]] = {name: [] for name in works}
    for work in works.values():
        work()
    for _, (name, work) in itertools.product(range(rounds), works.items()):
        began, calls = time.process_time(), 0
        while time.process_time() - began < SHARE or not calls:
            work()
            calls += 1
        spent[name].append((time.process_time() - began) / calls)
    return spent


def _over(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    return [one / other for one, other in zip(ours, theirs, strict=True)]


def _environment() -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": "1"}


TABLES: dict[str, Callable[[], Iterator[Row]]] = {"batch": batch, "classes": classes, "rows": mapped, "ranks": ranks}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", nargs="?", choices=list(TABLES))
    asked = parser.parse_args()
    print(header())
    for name in [asked.table] if asked.table else TABLES:
        show(TABLES[name]())


if __name__ == "__main__":
    main()
