"""A folder of pictures and a CSV that labels a few of them: weak and strong views, ADS as the target between them.

    python examples/image_folder.py

Writes 1,400 digits as PNG files, 40 of them labeled in `labels.csv`, and trains a small network for 400 steps.
"""

import csv
import tempfile
from pathlib import Path

import torch
from PIL import Image
from sklearn.datasets import load_digits
from torch import nn

from halfsure import ADS, sparsemax, sparsemax_loss
from halfsure.data import TwoStreams, load
from halfsure.views import Plain, StrongImage, WeakImage


def write(folder: Path) -> list[int]:
    """Write the pictures and the CSV; give the true digits."""
    digits = load_digits()
    images = (digits.images[:1400] * 15.9).astype("uint8")
    truth: list[int] = digits.target[:1400].tolist()
    with (folder / "labels.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["path", "label"])
        for i, (pixels, digit) in enumerate(zip(images, truth, strict=True)):
            Image.fromarray(pixels).resize((16, 16)).save(folder / f"{i}.png")
            rows.writerow([f"{i}.png", digit if truth[:i].count(digit) < 4 else ""])
    return truth


def train(folder: Path, truth: list[int], weight: float) -> float:
    """Give the error over all pictures, in percent."""
    data = load(folder)
    torch.manual_seed(0)
    images, labels = data.train.samples, torch.from_numpy(data.train.labels)
    weak, strong = WeakImage(flip=False, shift=1), StrongImage(flip=False, shift=1, cutout=6)
    streams, strategy = TwoStreams(data, labeled=40, unlabeled=64, seed=0), ADS()
    convolutions = (nn.Conv2d(1, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU())
    model = nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(512, 10))
    optimiser = torch.optim.Adam(model.parameters(), lr=2e-3)
    for step in range(400):
        batch = streams.next()
        target = strategy.target(model(weak(images[batch.unlabeled], batch.unlabeled, step))).probs
        taught = model(strong(images[batch.unlabeled], batch.unlabeled, step))
        own = model(weak(images[batch.labeled], batch.labeled, step))
        loss = sparsemax_loss(own, labels[batch.labeled]).mean() + weight * sparsemax_loss(taught, target).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    found: list[int] = sparsemax(model(Plain()(images))).argmax(1).tolist()
    return 100 * sum(data.classes[i] != str(digit) for i, digit in zip(found, truth, strict=True)) / len(found)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as where:
        answers = write(Path(where))
        for name, use in (("supervised", 0.0), ("fixmatch-ads", 1.0)):
            print(f"{name:<16} {train(Path(where), answers, use):5.1f} % error over all pictures")
