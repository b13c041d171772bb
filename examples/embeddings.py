"""Embeddings in a NumPy file, few of them labeled: a split that can be given back, and batches that can be resumed.

    python examples/embeddings.py

Writes 4,000 made-up embeddings of three classes, draws 12 labels, and trains a linear classifier on both streams.
"""

import tempfile
from pathlib import Path

import numpy as np
import torch

from halfsure import ads_loss, sparsemax, sparsemax_loss
from halfsure.data import Split, TwoStreams, load


def write(path: Path) -> None:
    """Three overlapping clouds in 32 dimensions."""
    random = np.random.default_rng(0)
    labels = random.integers(0, 3, 5000)
    rows = random.normal(size=(3, 32))[labels] * 0.7 + random.normal(size=(5000, 32))
    np.savez(path, X=rows[:4000], y=labels[:4000], X_test=rows[4000:], y_test=labels[4000:])


def train(path: Path, ads_weight: float) -> float:
    """Give the test error, in percent."""
    data = load(path, labels=12, seed=0)
    Split.of(data.name, data.train.labels, data.labeled, data.classes, 0).save(path.with_name("split.json"))
    assert (load(path, split=path.with_name("split.json")).labeled == data.labeled).all()

    torch.manual_seed(0)
    streams = TwoStreams(data, labeled=12, unlabeled=128, seed=0)
    samples, labels = torch.from_numpy(data.train.samples), torch.from_numpy(data.train.labels)
    model = torch.nn.Linear(32, 3)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=1e-3)
    for _ in range(300):
        batch = streams.next()
        loss = sparsemax_loss(model(samples[batch.labeled]), labels[batch.labeled]).mean()
        loss = loss + ads_weight * ads_loss(model(samples[batch.unlabeled]))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert data.test is not None
    probs = sparsemax(model(torch.from_numpy(data.test.samples)))
    return 100 * float((probs.argmax(1).numpy() != data.test.labels).mean())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / "embeddings.npz")
        for name, weight in (("supervised", 0.0), ("with ads_loss", 1.0)):
            print(f"{name:<16} {train(Path(folder) / 'embeddings.npz', weight):5.1f} % test error")
