"""A CSV with numbers, categories and text, and a label column that is mostly empty.

    python examples/table.py

Writes 2,000 made-up orders of which 30 are labeled, and trains on both kinds.
"""

import csv
import random
import tempfile
from pathlib import Path

import torch

from halfsure import ads_loss, sparsemax, sparsemax_loss
from halfsure.data import TwoStreams, load

WORDS = {
    "returned": "too small late broken wrong colour sent back please refund",
    "kept": "fits well great price arrived early happy thanks will order again",
}


def write(path: Path) -> list[str]:
    """Write the orders; give the labels that the file leaves out."""
    draw = random.Random(0)
    truth = [draw.choice(list(WORDS)) for _ in range(2000)]
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["price", "shop", "note", "label"])
        for i, label in enumerate(truth):
            price = round(draw.gauss(60 if label == "returned" else 45, 15), 2)
            both = WORDS[label].split() * 2 + " ".join(WORDS.values()).split()
            rows.writerow([price, draw.choice("ABC"), " ".join(draw.choices(both, k=6)), label if i < 30 else ""])
    return truth


def train(path: Path, truth: list[str], ads_weight: float) -> float:
    """Give the error on the unlabeled rows, in percent."""
    data = load(path, label_column="label")
    torch.manual_seed(0)
    streams = TwoStreams(data, labeled=30, unlabeled=128, seed=0)
    samples, labels = torch.from_numpy(data.train.samples), torch.from_numpy(data.train.labels)
    model = torch.nn.Sequential(torch.nn.Dropout(0.2), torch.nn.Linear(samples.shape[1], 2))
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(300):
        batch = streams.next()
        loss = sparsemax_loss(model(samples[batch.labeled]), labels[batch.labeled]).mean()
        loss = loss + ads_weight * ads_loss(model(samples[batch.unlabeled]))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    found: list[int] = sparsemax(model.eval()(samples[30:])).argmax(1).tolist()
    return 100 * sum(data.classes[i] != label for i, label in zip(found, truth[30:], strict=True)) / len(found)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        answers = write(Path(folder) / "orders.csv")
        for name, weight in (("supervised", 0.0), ("with ads_loss", 0.3)):
            error = train(Path(folder) / "orders.csv", answers, weight)
            print(f"{name:<16} {error:5.1f} % error on 1,970 unlabeled rows")
