"""Embeddings in a NumPy file, few of them labeled: sets that hold the true class, and answers only where it is sure.

    python examples/embeddings.py

Writes 4,000 made-up embeddings of five classes, draws 60 labels, and looks at 1,000 new ones.
"""

import tempfile
from pathlib import Path

import numpy as np

from halfsure import SSLClassifier
from halfsure.data import Data, load

COVERAGE, PRECISION = 0.9, 0.9


def write(path: Path) -> None:
    """Five overlapping clouds in 32 dimensions."""
    random = np.random.default_rng(0)
    labels = random.integers(0, 5, 5000)
    rows = random.normal(size=(5, 32))[labels] * 0.5 + random.normal(size=(5000, 32))
    np.savez(path, X=rows[:4000], y=labels[:4000], X_test=rows[4000:], y_test=labels[4000:])


def train(path: Path, steps: int = 200) -> tuple[SSLClassifier, Data]:
    """Draw the labels, hide the others, fit."""
    data = load(path, labels=60, seed=0)
    y = np.full(len(data.train), -1)
    y[data.labeled] = data.train.labels[data.labeled]
    return SSLClassifier(steps=steps).fit(data.train.samples, y), data


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / "embeddings.npz")
        model, drawn = train(Path(folder) / "embeddings.npz")
    print(model.report_)
    assert drawn.test is not None
    new, truth = drawn.test.samples, drawn.test.labels
    print(f"\nOn new samples: {100 * model.score(new, truth):.1f} % right.")

    sets = model.predict_set(new, coverage=COVERAGE)
    held = 100 * np.mean([label in some for label, some in zip(truth, sets, strict=True)])
    size = np.mean([len(some) for some in sets])
    print(f"\nSets at {COVERAGE}: {held:.1f} % hold the true class, with {size:.2f} classes each.")
    print(model.guarantee(COVERAGE).sentence)

    answers = model.predict(new, abstain=PRECISION)
    given = answers != -1
    right = 100 * np.mean(answers[given] == truth[given])
    print(f"\nAbstaining at {PRECISION}: {100 * given.mean():.1f} % get an answer, {right:.1f} % of these are right.")
