"""`SSLClassifier` with few labels: which method for which data, against scikit-learn's classifiers, and its coverage.

    python benchmarks/few_labels.py choose     # every method on validation samples, seeds 100 to 102: for "auto"
    python benchmarks/few_labels.py compare    # SSLClassifier and scikit-learn's, test samples, seeds 0 to 9
    python benchmarks/few_labels.py check      # the same models with their check on held-out labels: help, coverage
    python benchmarks/few_labels.py coverage   # conformal sets over 100 draws of labels
    python benchmarks/few_labels.py show       # tables of what there is

Each finished run is a line of `results/few_labels.jsonl`, so that a stopped call goes on where it was; `--half 0` and
`--half 1` do every other run, for two processes side by side. MNIST, Letter Recognition and AG News are looked for
below `--root`, as MNIST/raw, tabular/letter.tar.gz and text/ag_news.tar.gz. One thread a process.
"""

import argparse
import csv
import io
import json
import statistics
import tarfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier

from halfsure import SSLClassifier
from halfsure.data import draw_labels, load
from halfsure.data.text import fit_text
from halfsure.metrics import paired_difference

RESULTS = Path(__file__).parent.parent / "results" / "few_labels.jsonl"
CHOOSE_SEEDS, SEEDS, DRAWS = range(100, 103), range(10), range(100)
METHODS = ("supervised", "vat+ads", "mixmatch", "mixmatch-ads", "fixmatch", "fixmatch-sh", "fixmatch-ads")
COMPARED = ("digits", "mnist", "letter", "ag_news")
POOL = 10_000
"""Unlabeled samples of MNIST that everyone gets."""
MARGIN = 0.02
"""So much worse than the best of scikit-learn's would be inferior."""


@dataclass(frozen=True)
class Set:
    """Samples to learn from and to test on, as a person has them."""

    train: Any
    labels: NDArray[Any]
    test: Any
    truth: NDArray[Any]


def digits(root: Path) -> Set:
    data = load("digits")
    assert data.test is not None
    return Set(data.train.samples, data.train.labels, data.test.samples, data.test.labels)


def mnist(root: Path) -> Set:
    data = load("mnist", root=root)
    assert data.test is not None
    return Set(data.train.samples, data.train.labels, data.test.samples, data.test.labels)


def letter(root: Path) -> Set:
    """The usual split: the first 16,000 rows to learn from."""
    rows = list(csv.reader(io.StringIO(_member(root / "tabular" / "letter.tar.gz", "letter-recognition.data"))))
    labels = np.array([ord(row[0]) - ord("A") for row in rows])
    numbers = np.array([row[1:] for row in rows], dtype=np.float32)
    return Set(numbers[:16000], labels[:16000], numbers[16000:], labels[16000:])


def ag_news(root: Path) -> Set:
    """Texts without their titles; those that are also in the test part are not learnt from."""
    parts = [_member(root / "text" / "ag_news.tar.gz", f"alps-{part}.tsv").splitlines() for part in ("dev", "test")]
    pairs = [[line.rsplit("\t", 1) for line in part if "\t" in line] for part in parts]
    tested = {text for text, _ in pairs[1]}
    kept = [(text, name) for text, name in pairs[0] if text not in tested]
    names = sorted({name for _, name in kept})
    train, test = kept, pairs[1]
    return Set(
        [text for text, _ in train],
        np.array([names.index(name) for _, name in train]),
        [text for text, _ in test],
        np.array([names.index(name) for _, name in test]),
    )


def _whole(read: Callable[..., Any]) -> Set:
    """A set without a test part, for choosing on held-out samples only."""
    samples, labels = read(return_X_y=True)
    return Set(samples, labels.astype(np.int64), samples[:0], labels[:0])


SETS: dict[str, tuple[Callable[[Path], Set], int]] = {
    "digits": (digits, 20),
    "mnist": (mnist, 40),
    "letter": (letter, 260),
    "ag_news": (ag_news, 40),
    "wine": (lambda _: _whole(load_wine), 12),
    "cancer": (lambda _: _whole(load_breast_cancer), 8),
    "iris": (lambda _: _whole(load_iris), 12),
}


@dataclass(frozen=True)
class Draw:
    """A set with some samples labeled, y being −1 elsewhere."""

    train: Any
    y: NDArray[np.int64]
    test: Any
    truth: NDArray[Any]


def draw(name: str, root: Path, seed: int, *, validate: bool) -> Draw:
    """Choose a pool, as many labels of each class, and samples to score on: held out of the pool, or those of test."""
    read, count = SETS[name]
    found = read(root)
    order = np.random.default_rng(seed).permutation(len(found.labels))
    held, pool = (order[: len(order) // 4], order[len(order) // 4 :]) if validate else (order[:0], order)
    pool = np.sort(pool[:POOL] if name == "mnist" else pool)
    classes = tuple(map(str, range(int(found.labels.max()) + 1)))
    chosen = draw_labels(found.labels[pool], classes, count, seed)
    y = np.full(len(pool), -1)
    y[chosen] = found.labels[pool][chosen]
    test, truth = (_take(found.train, held), found.labels[held]) if validate else (found.test, found.truth)
    return Draw(_take(found.train, pool), y, test, truth)


def baselines(name: str, drawn: Draw) -> Iterator[tuple[str, float]]:
    """scikit-learn's classifiers as they come; of texts on TF-IDF and on halfsure's own rows."""
    for space, train, test in _spaces(name, drawn):
        known = drawn.y >= 0
        graph = LabelSpreading(kernel="knn", n_neighbors=7)
        for kind, model in (
            ("logistic regression", LogisticRegression(max_iter=5000)),
            ("1-NN", KNeighborsClassifier(1)),
            ("self-training", SelfTrainingClassifier(LogisticRegression(max_iter=1000))),
            ("label spreading", graph),
        ):
            whole = kind in ("self-training", "label spreading")
            chosen = np.ones_like(known) if whole else known
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of division by nothing in a graph's far corners, and of convergence
                model.fit(train[chosen], drawn.y[chosen])
                yield kind + space, float(np.mean(model.predict(test) != drawn.truth))


def _spaces(name: str, drawn: Draw) -> Iterator[tuple[str, Any, Any]]:
    if name == "ag_news":
        words, encoding = TfidfVectorizer().fit(drawn.train), fit_text(drawn.train)
        yield ", TF-IDF", words.transform(drawn.train), words.transform(drawn.test)
        yield ", our rows", encoding.rows(drawn.train), encoding.rows(drawn.test)
    elif name == "letter":
        scale = StandardScaler().fit(drawn.train)
        yield "", scale.transform(drawn.train), scale.transform(drawn.test)
    else:
        yield "", *(samples.reshape(len(samples), -1) / 255.0 for samples in (drawn.train, drawn.test))


def tasks(task: str) -> list[dict[str, Any]]:
    """Every run of a task: all of a seed before the next."""
    if task == "choose":
        sets = [name for name in SETS if name != "mnist"]
        return [{"set": name, "seed": seed, "method": m} for seed in CHOOSE_SEEDS for name in sets for m in METHODS]
    if task == "compare":
        return [
            {"set": name, "seed": seed, "method": method}
            for seed in SEEDS
            for name in COMPARED
            for method in ("SSLClassifier", "scikit-learn")
        ]
    if task == "check":
        return [{"set": name, "seed": seed, "method": "SSLClassifier"} for seed in SEEDS for name in COMPARED]
    return [{"set": "digits", "seed": seed, "method": "SSLClassifier"} for seed in DRAWS]


def run(task: str, which: dict[str, Any], root: Path) -> dict[str, Any]:
    """Do one run."""
    drawn = draw(which["set"], root, which["seed"], validate=task == "choose")
    began = time.monotonic()
    if which["method"] == "scikit-learn":
        return {"errors": dict(baselines(which["set"], drawn)), "seconds": round(time.monotonic() - began, 1)}
    settings: dict[str, Any] = {"random_state": which["seed"]}
    if task == "choose":
        settings |= {"method": which["method"], "prior": "labels", "folds": 0}
    if task == "compare":
        settings |= {"folds": 0}  # the check does not change the model, unless it finds that unlabeled data hurt
    if task == "coverage":
        settings |= {"net": "mlp-64", "method": "mixmatch-ads", "prior": "labels", "steps": 150}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model = SSLClassifier(**{"encoder": "none"} | settings).fit(drawn.train, drawn.y)
    found: dict[str, Any] = {
        "error": float(np.mean(model.predict(drawn.test) != drawn.truth)),
        "method_": model.method_,
        "steps": model.run_.settings["steps"],
        "seconds": round(time.monotonic() - began, 1),
        "warnings": [str(warning.message) for warning in told],
    }
    if model.evidence_ is not None:
        found["report"] = model.report_.as_json()
        found["temperature"] = model.evidence_.temperature
        for coverage in (0.8, 0.9) if task == "coverage" else (0.9,):
            sets = model.predict_set(drawn.test, coverage=coverage)
            hits = [truth in some for truth, some in zip(drawn.truth.tolist(), sets, strict=True)]
            found[f"coverage {coverage}"] = float(np.mean(hits))
            found[f"size {coverage}"] = float(np.mean([len(some) for some in sets]))
        plain = model.predict_set(drawn.test)
        found["candidates"] = float(np.mean([len(some) for some in plain]))
        found["truth among them"] = float(np.mean([t in s for t, s in zip(drawn.truth.tolist(), plain, strict=True)]))
    return found


def show() -> None:
    """Print the tables."""
    lines = _lines()
    print("choose: validation error, %\n")
    for name in SETS:
        rows = {m: [x["error"] for x in _of(lines, "choose", name) if x["method"] == m] for m in METHODS}
        for method, errors in rows.items():
            if errors:
                print(f"  {name:8} {method:14} {_mean(errors)}  {_each(errors)}")
    print("\ncompare: test error, %\n")
    for name in COMPARED:
        ours = {x["seed"]: x for x in _of(lines, "compare", name) if x["method"] == "SSLClassifier"}
        theirs = {x["seed"]: x["errors"] for x in _of(lines, "compare", name) if x["method"] == "scikit-learn"}
        seeds = sorted(set(ours) & set(theirs))
        if not seeds:
            continue
        print(f"  {name:8} {'SSLClassifier':32} {_mean([ours[s]['error'] for s in seeds])}  {len(seeds)} seeds")
        means = {kind: statistics.fmean(theirs[s][kind] for s in seeds) for kind in theirs[seeds[0]]}
        best = min(means, key=lambda kind: means[kind])
        for kind in means:
            other = [theirs[s][kind] for s in seeds]
            gain = paired_difference([ours[s]["error"] for s in seeds], other)
            text = "" if gain["low"] is None else f"[{100 * gain['low']:+.2f}, {100 * gain['high']:+.2f}]"
            verdict = ""
            if kind == best and gain["low"] is not None:
                verdict = "best; non-inferior" if gain["low"] > -MARGIN else "best; NOT non-inferior"
                verdict += ", better" if gain["low"] > 0 else ""
            print(f"  {name:8} {kind:32} {_mean(other)}  {100 * gain['mean']:+6.2f} {text} {verdict}")
    print("\ncheck: what the held-out labels said\n")
    for name in COMPARED:
        if checked := _of(lines, "check", name):
            hits, sizes = ([x[f"{what} 0.9"] for x in checked] for what in ("coverage", "size"))
            verdicts = [x["report"]["helped"] for x in checked]
            print(
                f"  {name:8} {len(checked)} seeds, error {_mean([x['error'] for x in checked])}; accuracy said "
                f"{_mean([x['report']['accuracy'] for x in checked])}; helped {verdicts.count(True)}, cannot say "
                f"{verdicts.count(None)}, hurt {verdicts.count(False)}; sets at 0.9 cover {_mean(hits)} with "
                f"{statistics.fmean(sizes):.2f} classes; {statistics.fmean(x['seconds'] for x in checked):.0f} s"
            )
    drawn = [x for x in lines if x["task"] == "coverage"]
    print(f"\ncoverage: {len(drawn)} draws of 20 labels of digits\n")
    for coverage in (0.8, 0.9):
        if drawn:
            hits, sizes = ([x[f"{what} {coverage}"] for x in drawn] for what in ("coverage", "size"))
            print(f"  asked {coverage}: {_mean(hits)}, {statistics.fmean(sizes):.2f} classes of 10")


def _mean(shares: list[float]) -> str:
    spread = f" ± {100 * statistics.stdev(shares):5.2f}" if len(shares) > 1 else ""
    return f"{100 * statistics.fmean(shares):6.2f}{spread}"


def _each(shares: list[float]) -> str:
    return " ".join(f"{100 * share:.2f}" for share in shares)


def _of(lines: list[dict[str, Any]], task: str, name: str) -> list[dict[str, Any]]:
    return [line for line in lines if line["task"] == task and line["set"] == name]


def _lines() -> list[dict[str, Any]]:
    return [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.is_file() else []


def _take(samples: Any, indices: NDArray[np.int64]) -> Any:
    return [samples[i] for i in indices] if isinstance(samples, list) else samples[indices]


def _member(archive: Path, name: str) -> str:
    with tarfile.open(archive) as opened:
        member = next(m for m in opened.getmembers() if m.name.endswith(name) and m.isfile())
        file = opened.extractfile(member)
        assert file is not None
        return file.read().decode("utf-8")


def main() -> None:
    """Do what is asked for, leaving out what is there already."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=("choose", "compare", "check", "coverage", "show"))
    parser.add_argument("--root", type=Path, default=Path("data"))
    parser.add_argument("--half", type=int, choices=(0, 1))
    parser.add_argument("--sets", default=",".join(SETS))
    given = parser.parse_args()
    if given.task == "show":
        show()
        return
    torch.set_num_threads(1)
    RESULTS.parent.mkdir(exist_ok=True)
    todo = [which for which in tasks(given.task) if which["set"] in given.sets.split(",")]
    for number, which in enumerate(todo):
        key = {"task": given.task, **which}
        if number % 2 != (given.half if given.half is not None else number % 2):
            continue
        if any(key.items() <= line.items() for line in _lines()):
            continue
        line = key | run(given.task, which, given.root)
        with RESULTS.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
