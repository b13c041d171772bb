"""Tuning an encoder by pairs of samples, beside the same encoder as it came and SetFit.

    python benchmarks/tuning.py choose                             # rates, losses, gates: other seeds, other samples
    python benchmarks/tuning.py compare --setfit-python PATH       # seeds 0 to 4, test samples, once
    python benchmarks/tuning.py show                               # tables of what there is

Each finished run is a line of `results/encoder_tuning.jsonl`, so that a stopped call goes on where it was. AG News, SST-2 and
the photographs are looked for below `--root`, as text/ag_news.tar.gz, text/SST-2.tar.gz and photos/. SetFit runs with
its defaults in an environment of its own; where there is none it is skipped, and that is said. One thread.
"""

import json
import os
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

RESULTS = Path(__file__).parent.parent / "results" / "encoder_tuning.jsonl"
WORKER = Path(__file__).parent / "setfit_worker.py"
SEEDS, CHOOSE_SEEDS = range(5), range(100, 103)
TESTED, UNLABELED = 2000, 2000

Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Set:
    """Samples to draw labels from and samples to test on."""

    pool: Sequence[Any]
    labels: Labels
    test: Sequence[Any]
    truth: Labels


def ag_news(root: Path, choosing: bool) -> Set:
    """News without titles. Choices were made within the first half of one file, and are tested on another file."""
    dev, test = (_rows(root / "text" / "ag_news.tar.gz", f"ag_news/alps-{part}.tsv") for part in ("dev", "test"))
    tested = {text for text, _ in test}
    dev = [row for row in dev if row[0] not in tested]
    if choosing:
        return _set(_shuffled(dev)[:4000], _shuffled(dev)[4000:5000])
    return _set(_shuffled(dev)[5000:], _shuffled(test)[:TESTED])


def sst2(root: Path, choosing: bool) -> Set:
    """Sentences of reviews. Choices were made on one part of the train file and on the official dev file."""
    parts = ("train", "dev", "test")
    train, dev, test = (_rows(root / "text" / "SST-2.tar.gz", f"SST-2/sentiment-{part}") for part in parts)
    train = _shuffled(train)
    return _set(train[:5000], dev) if choosing else _set(train[5000:10000], _shuffled(test)[:TESTED])


def _rows(archive: Path, member: str) -> list[tuple[str, str]]:
    with tarfile.open(archive) as opened:
        content = opened.extractfile(member)
        assert content is not None
        lines = content.read().decode().splitlines()
    return [(text.strip(), label) for text, _, label in (line.rpartition("\t") for line in lines) if text]


def _shuffled(rows: list[Any]) -> list[Any]:
    return [rows[i] for i in np.random.default_rng(2026).permutation(len(rows))]


def _set(pool: list[Any], test: list[Any]) -> Set:
    names = sorted({name for _, name in pool})
    pool_labels, truth = (np.array([names.index(name) for _, name in rows]) for rows in (pool, test))
    return Set([sample for sample, _ in pool], pool_labels, [sample for sample, _ in test], truth)


SETS: dict[str, Callable[[Path, bool], Set]] = {"ag_news": ag_news, "sst2": sst2}
TASKS = (("ag_news", 40), ("sst2", 20), ("sst2", 100))


def draw(labels: Labels, count: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Samples that are labeled, as many of each class, and others that are not."""
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(labels))
    classes = np.unique(labels)
    each = count // len(classes)
    chosen = np.concatenate([order[labels[order] == value][:each] for value in classes])
    chosen = chosen[generator.permutation(len(chosen))]
    return chosen, np.setdiff1d(order, chosen, assume_unique=True)[:UNLABELED]


def setfit(python: str, data: Set, chosen: NDArray[np.int64], seed: int) -> dict[str, Any]:
    """SetFit with its defaults, on the same texts."""
    with tempfile.TemporaryDirectory() as scratch:
        task = {
            "folder": os.fspath(Path(os.environ["HALFSURE_DATA"]) / "encoders" / "minilm"),
            "texts": [data.pool[i] for i in chosen],
            "labels": data.labels[chosen].tolist(),
            "test": list(data.test),
            "seed": seed,
            "scratch": scratch,
        }
        done = subprocess.run([python, WORKER], input=json.dumps(task), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"SetFit failed: {done.stderr[-2000:]}")
    answer = json.loads(done.stdout.splitlines()[-1])
    error = float(np.mean(np.array(answer["guesses"]) != data.truth))
    return {"error": error, "tuning": answer["tuning"], "encoding": answer["encoding"]}
