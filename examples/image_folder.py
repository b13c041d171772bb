"""A folder of pictures and a CSV that labels a few of them: from files to a name for every picture.

    python examples/image_folder.py

Writes 1,400 digits as PNG files, 40 of them labeled in `labels.csv`, and trains a small network for 200 steps, once on
the labels alone and once on all pictures.
"""

import csv
import random
import tempfile
from pathlib import Path

from PIL import Image
from sklearn.datasets import load_digits

import halfsure
from halfsure.data import load


def write(folder: Path) -> list[str]:
    """Write the pictures and the CSV; give the true digits."""
    digits = load_digits()
    order = random.Random(0).sample(range(len(digits.target)), 1400)  # as they come, the first are by one writer
    images = (digits.images[order] * 15.9).astype("uint8")
    truth = [str(digit) for digit in digits.target[order]]
    with (folder / "labels.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["path", "label"])
        for i, (pixels, digit) in enumerate(zip(images, truth, strict=True)):
            Image.fromarray(pixels).save(folder / f"{i:04}.png")
            rows.writerow([f"{i:04}.png", digit if truth[:i].count(digit) < 4 else ""])  # empty: unlabeled
    return truth


def train(folder: Path, method: str, steps: int = 200) -> tuple[list[str], list[tuple[str, ...]]]:
    """Name every picture in the folder; give the names, and the candidates of each."""
    data = load(folder)
    run = halfsure.fit(None, data, method, steps=steps, evaluations=1)
    pictures = data.train.samples
    return run.predict(pictures), run.predict_set(pictures)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as where:
        digits = write(Path(where))
        for name in ("supervised", "fixmatch-ads"):
            found, candidates = train(Path(where), name)
            wrong = sum(one != digit for one, digit in zip(found, digits, strict=True)) / len(digits)
            print(f"{name:<16} {100 * wrong:5.1f} % error over all pictures")
        unsure = [i for i, some in enumerate(candidates) if len(some) > 1]
        print(f"\n{len(unsure)} pictures have more than one candidate; the first are")
        for i in unsure[:3]:
            print(f"  {i:04}.png is one of {', '.join(candidates[i])}; it is a {digits[i]}")
