"""What a table's runs would say with other statistics in their batch norms: those of plain training samples.

    halfsure reproduce table2 --column cifar10@250     # the runs
    python benchmarks/norms.py table2                  # a line of results/norms.jsonl for each of them
    python benchmarks/norms.py show                    # a table of what there is

A run is evaluated with averaged weights and with the statistics that its batches left: of the last thousand steps, of
weights that have changed since, and of all views it was trained on, mixed and strongly changed ones among them. Here
they are taken again from training samples as they are, with the averaged weights; no label is needed for that.
"""

import statistics
from typing import Any

import looks
import numpy as np
import torch
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim.swa_utils import update_bn

from halfsure.data import Data
from halfsure.metrics import score
from halfsure.runs.run import Run

LINES = looks.ROOT / "results" / "norms.jsonl"
SAMPLES, BATCH = 5000, 100
MEASURES = {"error": "error", "ece": "ECE", "dominant": "confidence"}


def look(run: Run, data: Data) -> dict[str, Any] | None:
    """All test samples before and after, read in the run's own map; nothing if it has no batch norm."""
    if not any(isinstance(module, _BatchNorm) for module in run.model.modules()):
        return None
    before = _scores(run, data)
    train = data.train.samples
    chosen = np.random.default_rng(0).permutation(len(train))[:SAMPLES]
    parts = np.array_split(chosen, max(1, len(chosen) // BATCH))
    update_bn((run.preprocessing(train[part]) for part in parts), run.model)
    return {"as they are": before, "afresh": _scores(run, data)}


def _scores(run: Run, data: Data) -> dict[str, float]:
    assert data.test is not None
    scores = score(run.logits(data.test.samples), torch.from_numpy(data.test.labels), run.map)
    return {name: round(scores[name], 6) for name in MEASURES}


def show() -> None:
    """Means over seeds, before → after, in %."""
    head = ["", "", "", "seeds", *MEASURES.values()]
    print(f"| {' | '.join(head)} |\n{'|---' * len(head)}|")
    for names, lines in looks.by_row(LINES).items():
        cells = [
            " → ".join(
                f"{100 * statistics.fmean(line[when][name] for line in lines):.1f}"
                for when in ("as they are", "afresh")
            )
            for name in MEASURES
        ]
        print(f"| {' | '.join([*names, str(len(lines)), *cells])} |")


if __name__ == "__main__":
    looks.main(__doc__, LINES, look, show)
