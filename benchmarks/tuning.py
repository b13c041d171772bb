"""Tuning an encoder by pairs of samples or with a classifier, beside the same encoder as it came and SetFit.

    python benchmarks/tuning.py choose                             # losses, rates, with and without unlabeled samples
    python benchmarks/tuning.py compare --setfit-python PATH       # test samples, seeds 0 to 4
    python benchmarks/tuning.py show                               # a table of what there is

`choose` draws from other samples with other seeds than `compare`. Each finished run is a line of
`results/encoder_tuning.jsonl`, so that a stopped call goes on where it was. AG News, SST-2 and the photographs are
looked for below `--root`, as text/ag_news.tar.gz, text/SST-2.tar.gz and photos/. SetFit runs with its defaults in an
environment of its own; without one it is skipped, and that is said. One thread; times are CPU seconds.
"""

import argparse
import json
import os
import statistics
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from halfsure import SSLClassifier
from halfsure.bank.seeing import EncoderWanted
from halfsure.encoders import Encoder, open_encoder
from halfsure.encoders.pair_batches import encode_rows
from halfsure.encoders.pair_tuning import Tuning, logistic_regression, tune_pairs
from halfsure.encoders.squares import square

RESULTS = Path(__file__).parent.parent / "results" / "encoder_tuning.jsonl"
WORKER = Path(__file__).parent / "setfit_worker.py"
SEEDS, CHOOSE_SEEDS = range(5), range(100, 103)
TESTED, UNLABELED = 2000, 1000
RATES = (0.02, 0.05, 0.2)
SIDE = 128

Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Set:
    """Samples to draw labels from and samples to test on."""

    pool: Sequence[Any]
    labels: Labels
    test: Sequence[Any]
    truth: Labels
    crop: float = 1.0
    """Of the pictures' sides that an encoder is to see: they are squares already."""


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


def photos(root: Path, choosing: bool) -> Set:
    """Six kinds of scenes. Choices were made on a quarter of the train folder, tested on another quarter."""
    train, test = (_shuffled(_squares(root / "photos" / part)) for part in ("train", "test"))
    return _set(train[:600], train[600:1200]) if choosing else _set(train[1200:], test)


def _squares(folder: Path) -> list[tuple[NDArray[np.uint8], str]]:
    crop = open_encoder("efficientnet-lite0", encoder_side=SIDE).as_json()["crop"]
    files = sorted(folder.glob("*/*"))
    return [(square(np.asarray(Image.open(file).convert("RGB")), SIDE, crop), file.parent.name) for file in files]


SETS: dict[str, Callable[[Path, bool], Set]] = {"ag_news": ag_news, "sst2": sst2, "photos": photos}
TASKS = (("sst2", 20), ("ag_news", 40), ("sst2", 100), ("photos", 18), ("photos", 60))


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


@dataclass(frozen=True)
class Draw:
    """A set, which of its samples are labeled, and which are not."""

    data: Set
    chosen: NDArray[np.int64]
    rest: NDArray[np.int64]
    seed: int


def ours(encoder: Encoder, drawn: Draw, tuning: Tuning | None, unlabeled: bool) -> dict[str, Any]:
    """Logistic regression on the encoder's features, tuned or as they came."""
    data, labels = drawn.data, drawn.data.labels[drawn.chosen]
    start = time.process_time()
    if tuning is not None:
        known = [data.pool[i] for i in drawn.chosen]
        more = [data.pool[i] for i in drawn.rest] if unlabeled else None
        encoder = tune_pairs(encoder, known, labels, unlabeled=more, seed=drawn.seed, tuning=tuning)
    tuned = time.process_time()
    classifier = logistic_regression(encode_rows(encoder, data.pool, drawn.chosen), labels)
    guesses = classifier.predict(encode_rows(encoder, data.test, np.arange(len(data.test))))
    error = float(np.mean(guesses != data.truth))
    return {"error": error, "tuning": tuned - start, "encoding": time.process_time() - tuned}


def trained(encoder: Encoder, drawn: Draw, how: str) -> dict[str, Any]:
    """An encoder trained together with a linear classifier: `last, supervised, 0.05` and the like."""
    way, method, rate = how.split(", ")
    data, start = drawn.data, time.process_time()
    rows = [*drawn.chosen, *(drawn.rest if method != "supervised" else ())]
    samples = [data.pool[i] for i in rows]
    y = np.concatenate([data.labels[drawn.chosen], np.full(len(rows) - len(drawn.chosen), -1)])
    settings = {"tune": way, "tune_rate": float(rate), "evaluations": 1, "unlabeled_sample": 1}
    if encoder.kind == "image":
        encoder = copy(encoder)
        encoder.crop = data.crop  # type: ignore[attr-defined]
        samples = np.stack(samples)  # type: ignore[assignment]
    model = SSLClassifier(method, encoder=encoder, folds=0, random_state=drawn.seed, settings=settings)
    model.fit(samples, y)
    ended = time.process_time()
    guesses = model.predict(data.test if encoder.kind == "text" else np.stack(data.test))
    error = float(np.mean(guesses != data.truth))
    return {"error": error, "tuning": ended - start, "encoding": time.process_time() - ended}


def measure(method: str, encoder: Encoder, drawn: Draw, python: str) -> dict[str, Any]:
    """A method by its name: frozen, setfit, or pairs with a loss and perhaps unlabeled samples."""
    if method == "setfit":
        return setfit(python, drawn.data, drawn.chosen, drawn.seed)
    if method == "frozen":
        return ours(encoder, drawn, None, False)
    if method.startswith(("last", "all")):
        return trained(encoder, drawn, method)
    loss: Any = method.split(", ")[1]
    return ours(encoder, drawn, Tuning(loss=loss), method.endswith("unlabeled"))


def run(arguments: argparse.Namespace) -> None:
    """Every run that is not there yet, a line each."""
    choosing, python = arguments.action == "choose", arguments.setfit_python or ""
    losses = ("cosine", "contrast") if choosing else (Tuning().loss,)
    methods = ["frozen", *(f"pairs, {loss}{more}" for loss in losses for more in ("", ", unlabeled"))]
    rates = RATES if choosing else (EncoderWanted.tune_rate,)
    methods += [f"{way}, supervised, {rate:g}" for way in ("last", "all") for rate in rates]
    methods += [] if choosing else [f"last, {method}, {rates[0]:g}" for method in ("fixmatch", "fixmatch-ads")]
    if not choosing and Path(python).is_file():
        methods.append("setfit")
    elif not choosing:
        print("SetFit is skipped: --setfit-python names no interpreter that has it")
    done = {key(line) for line in lines()}
    for name, count in TASKS:
        if arguments.only not in ("", f"{name}@{count}"):
            continue
        data, pictures = SETS[name](arguments.root, choosing), name == "photos"
        encoder = open_encoder("efficientnet-lite0", encoder_side=SIDE) if pictures else open_encoder("minilm")
        for seed in arguments.seeds or (CHOOSE_SEEDS if choosing else SEEDS):
            drawn = Draw(data, *draw(data.labels, count, seed), seed)
            for method in arguments.methods or methods:
                line = {"action": arguments.action, "set": name, "labels": count, "seed": seed, "method": method}
                if key(line) in done or (pictures and method == "setfit"):
                    continue
                line |= measure(method, encoder, drawn, python)
                print(json.dumps(line), flush=True)
                with RESULTS.open("a", encoding="utf-8") as opened:
                    opened.write(json.dumps(line) + "\n")


def key(line: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(line[part] for part in ("action", "set", "labels", "seed", "method"))


def lines() -> Iterator[dict[str, Any]]:
    if RESULTS.is_file():
        yield from map(json.loads, RESULTS.read_text(encoding="utf-8").splitlines())


def show(action: str) -> None:
    """Mean error in % ± standard deviation, and CPU seconds, of what there is."""
    print("| data | labels | method | seeds | error in % | tuning, s | encoding, s |")
    print("|---|---|---|---|---|---|---|")
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for line in lines():
        if line["action"] == action:
            found.setdefault((line["set"], line["labels"], line["method"]), []).append(line)
    for (name, count, method), runs in sorted(found.items()):
        errors = [100 * one["error"] for one in runs]
        spread = f" ± {statistics.stdev(errors):.1f}" if len(errors) > 1 else ""
        tuning, encoding = (statistics.mean(one[part] for one in runs) for part in ("tuning", "encoding"))
        mean = f"{statistics.mean(errors):.1f}{spread}"
        print(f"| {name} | {count} | {method} | {len(runs)} | {mean} | {tuning:.0f} | {encoding:.0f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("choose", "compare", "show"))
    parser.add_argument("--root", type=Path, default=Path("data"))
    parser.add_argument("--setfit-python", help="an interpreter that has SetFit")
    parser.add_argument("--only", default="", help="one task, such as sst2@20")
    parser.add_argument("--seeds", type=int, nargs="*", help="other seeds")
    parser.add_argument("--methods", nargs="*", help="some methods, such as setfit")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.action == "show":
        for action in ("choose", "compare"):
            print(f"\n{action}\n")
            show(action)
    else:
        run(arguments)


if __name__ == "__main__":
    main()
