"""Photographs and texts through encoders: `halfsure train` beside what people would try first on the same features.

    python benchmarks/encoded.py run     # every set, number of labels and seed that is not in the results yet
    python benchmarks/encoded.py show    # the table of docs/encoders.md

Each finished run is a line of `results/encoded.jsonl`. The photographs are looked for below `--root` as photos/train
and photos/test, the texts as text/ag_news.tar.gz and text/SST-2.tar.gz. Of AG News and SST-2 2,000 texts are the
unlabeled ones, and 1,000 (SST-2: all 872) the test. Nothing was chosen on these runs. One thread a process.
"""

import argparse
import csv
import json
import statistics
import tarfile
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.semi_supervised import LabelSpreading

from halfsure.bank.opening import DataConfig, open_seeds
from halfsure.data import Data
from halfsure.learners.automatic import choose
from halfsure.runs import start
from halfsure.training import preset

RESULTS = Path(__file__).parent.parent / "results" / "encoded.jsonl"
SEEDS = range(5)
CELLS = {"photos": (18, 60), "ag_news": (40,), "sst2": (20, 100)}
POOL, TESTED = 2_000, 1_000


def texts(root: Path, name: str, folder: Path) -> tuple[Path, Path]:
    """Training and test tables of a set of texts, written once."""
    files = folder / f"{name}-train.csv", folder / f"{name}-test.csv"
    if not all(file.exists() for file in files):
        train, test = (_ag_news if name == "ag_news" else _sst2)(root / "text")
        rng = np.random.default_rng(0)
        known = {text for text, _ in test}
        train = [pair for pair in train if pair[0] not in known]
        for file, pairs, most in ((files[0], train, POOL), (files[1], test, TESTED)):
            some = [pairs[i] for i in rng.permutation(len(pairs))[:most]]
            with file.open("w", encoding="utf-8", newline="") as out:
                csv.writer(out).writerows([("text", "label"), *some])
    return files


def _ag_news(folder: Path) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    return tuple(_pairs(folder / "ag_news.tar.gz", f"ag_news/alps-{part}.tsv", "\t") for part in ("dev", "test"))  # type: ignore[return-value]


def _sst2(folder: Path) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    return tuple(_pairs(folder / "SST-2.tar.gz", f"SST-2/sentiment-{part}", "\t") for part in ("train", "dev"))  # type: ignore[return-value]


def _pairs(archive: Path, member: str, delimiter: str) -> list[tuple[str, str]]:
    with tarfile.open(archive) as files:
        file = files.extractfile(member)
        assert file is not None
        lines = file.read().decode("utf-8").splitlines()
    found = [line.rpartition(delimiter) for line in lines if line.strip()]
    return [(text.strip(), label.strip()) for text, _, label in found]


def opened(root: Path, name: str, labels: int, cache: Path) -> list[Data]:
    """The data of every seed, seen through the encoder that `auto` takes."""
    if name == "photos":
        return open_seeds(str(root / "photos"), DataConfig.of(str(root / "photos"), labels=labels), SEEDS)
    train, test = texts(root, name, cache)
    config = DataConfig.of(str(train), labels=labels, label_column="label", test=str(test))
    return open_seeds(str(train), config, SEEDS)


CLASSIC: dict[str, Callable[[int], Any]] = {
    "logistic regression": lambda _: LogisticRegression(max_iter=1000),
    "label spreading": lambda _: LabelSpreading(kernel="knn", n_neighbors=10, max_iter=100),
    "random forest": lambda seed: RandomForestClassifier(random_state=seed),
}


def classic(data: Data, name: str, seed: int) -> float:
    """The test error of one of scikit-learn's on the same features."""
    assert data.test is not None
    x, y = np.asarray(data.train.samples, np.float32), data.train.labels
    if name == "label spreading":
        y = np.where(np.isin(np.arange(len(y)), data.labeled), y, -1)
    else:
        x, y = x[data.labeled], y[data.labeled]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        predicted = CLASSIC[name](seed).fit(x, y).predict(np.asarray(data.test.samples, np.float32))
    return float(np.mean(predicted != data.test.labels))


def trained(data: Data, seed: int) -> tuple[float, str]:
    """The test error of `halfsure train` at the end, and its method."""
    choice = choose(data)
    config = preset(data, choice.method, "quick", seed).replace(evaluations=1)
    return float(start(data, config).metrics[-1]["test"]["error"]), choice.method


def run(root: Path, cache: Path) -> None:
    done = {(line["set"], line["labels"], line["seed"], line["learner"]) for line in _lines()}
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("a", encoding="utf-8") as out:
        for name, many in CELLS.items():
            for labels in many:
                for seed, data in zip(SEEDS, opened(root, name, labels, cache), strict=True):
                    for learner in ("halfsure train", *CLASSIC):
                        if (name, labels, seed, learner) in done:
                            continue
                        began, method = time.process_time(), None
                        if learner in CLASSIC:
                            error = classic(data, learner, seed)
                        else:
                            error, method = trained(replace(data), seed)
                        line = {"set": name, "labels": labels, "seed": seed, "learner": learner, "error": error}
                        line |= {"method": method, "notes": data.notes[0], "cpu_seconds": time.process_time() - began}
                        out.write(json.dumps(line) + "\n")
                        out.flush()


def show() -> None:
    found = _lines()
    cells = list(dict.fromkeys((line["set"], line["labels"]) for line in found))
    learners = list(dict.fromkeys(line["learner"] for line in found))
    print("| test error, % | " + " | ".join(f"{name}@{labels}" for name, labels in cells) + " |")
    print("|---" * (len(cells) + 1) + "|")
    for learner in learners:
        row = []
        for cell in cells:
            errors = [100 * x["error"] for x in found if (x["set"], x["labels"]) == cell and x["learner"] == learner]
            spread = f" ± {statistics.stdev(errors):.1f}" if len(errors) > 1 else ""
            row.append(f"{statistics.mean(errors):.1f}{spread}" if errors else "")
        print(f"| {learner} | " + " | ".join(row) + " |")


def _lines() -> list[dict[str, Any]]:
    return [json.loads(line) for line in RESULTS.read_text(encoding="utf-8").splitlines()] if RESULTS.exists() else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("run", "show"))
    parser.add_argument("--root", type=Path, default=Path("../shared/data"))
    parser.add_argument("--cache", type=Path, default=Path(".cache"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.what == "run":
        given.cache.mkdir(exist_ok=True)
        run(given.root, given.cache)
    show()


if __name__ == "__main__":
    main()
