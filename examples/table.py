"""A CSV with numbers, categories and text, and a label column that is mostly empty.

    python examples/table.py

Writes 2,000 made-up orders of which 30 are labeled, and asks whether the other 1,970 help. Needs halfsure[tables].
"""

import csv
import random
import tempfile
from pathlib import Path

import pandas as pd

from halfsure import SSLClassifier

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


def train(path: Path, steps: int = 200) -> SSLClassifier:
    """Learn from all rows; an empty label means unlabeled."""
    table = pd.read_csv(path)
    labels = table.pop("label")
    return SSLClassifier(steps=steps).fit(table, labels)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        answers = write(Path(folder) / "orders.csv")
        model = train(Path(folder) / "orders.csv")
        print(model.report_)
        pairs = list(zip(model.transduction_, answers, strict=True))[30:]
        wrong = sum(found != truth for found, truth in pairs) / len(pairs)
        print(f"\n{100 * wrong:.1f} % of the 1,970 unlabeled rows got the wrong label.")
        new = pd.DataFrame({"price": [80, 30, 52], "shop": ["A", "B", "C"], "note": ["", "fits well thanks", "late"]})
        for (_, order), label, row in zip(new.iterrows(), model.predict(new), model.predict_proba(new), strict=True):
            print(f"{order.price:3} {order.shop} {order.note!r:<19} {label:<9} {row.max():.2f}")
