"""Texts, few of them labeled: a list of strings in, classes and candidates out.

    python examples/text.py

Makes 1,500 short messages from templates, of which 30 are labeled. Nothing is downloaded: what words mean is learnt
from the company they keep in these very messages.
"""

import random

import numpy as np

from halfsure import SSLClassifier

TEMPLATES = (
    "why is the {} {} and where is my {}",
    "hello, a {} and a {} and no {} since yesterday",
    "my {} was {} again, please look at the {}",
    "once more about the {}: {}, and the {} too",
)
TOPICS = {
    "delivery": "parcel courier package van box shipment late lost delayed doorstep street neighbour",
    "payment": "invoice card refund bill charge receipt declined doubled overdue bank amount fee",
    "account": "password login profile email username page locked forgotten expired reset code screen",
}


def make(many: int, seed: int) -> tuple[list[str], list[str]]:
    """Messages and their topics; one word in seven is drawn from all topics."""
    draw = random.Random(seed)
    topics = [draw.choice(list(TOPICS)) for _ in range(many)]
    texts = []
    for topic in topics:
        words = TOPICS[topic].split() * 17 + " ".join(TOPICS.values()).split()
        texts.append(draw.choice(TEMPLATES).format(*draw.choices(words, k=3)))
    return texts, topics


def train(steps: int = 200) -> SSLClassifier:
    """Fit on 1,500 messages, of which the first ten of each topic keep their label."""
    texts, topics = make(1500, seed=0)
    labels = [topic if topics[:i].count(topic) < 10 else None for i, topic in enumerate(topics)]
    return SSLClassifier(steps=steps).fit(texts, np.array(labels, dtype=object))


if __name__ == "__main__":
    model = train()
    print(model.report_)
    new, truth = make(500, seed=1)
    print(f"\nOn new messages: {100 * model.score(new, truth):.1f} % right.\n")
    asked = ["where is the courier with my parcel", "my card was declined again", "a refund for a lost box", "hello"]
    for text, row in zip(asked, model.predict_proba(asked), strict=True):
        candidates = [f"{model.classes_[k]} {row[k]:.2f}" for k in row.argsort()[::-1] if row[k] > 0]
        print(f"{text:<36} {', '.join(candidates)}")
