"""Trains every family of methods and prints what came out, by name: `python -m tests.stress.child FOLDER [JSON]`.

The JSON may hold `settings` of every run, and `stops`: after which steps each run is asked to stop, and gone on with.
"""

import hashlib
import json
import os
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

from halfsure import SSLClassifier
from halfsure.data import Data
from halfsure.runs.folder import Folder
from halfsure.runs.run import Run
from halfsure.runs.start import start
from halfsure.training.config import Config
from halfsure.training.errors import StoppedError
from tests.training.helpers import images, rows, tiny

__all__ = ["FAMILIES", "digest", "main", "outcome"]

FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "supervised": ("rows", {"dropout": 0.2}),
    "vat+me": ("rows", {}),
    "vat+ads": ("images", {"net": "conv7-4"}),
    "mixmatch-ads": ("images", {"net": "cnn13-4", "norm": "batch"}),
    "mixmatch+ns": ("rows", {}),
    "fixmatch": ("images", {"net": "wrn-10-1", "norm": "batch"}),
    "fixmatch-ads": ("rows", {"prior": "labels"}),
    "fixmatch-top2": ("rows", {"precision": "bf16"}),
}
TEXTS = [f"{colour} {thing} {number}" for number in range(12) for colour in ("red", "blue") for thing in ("fox", "owl")]


def digest(value: Any) -> str:
    """A fingerprint of every bit of tensors, numbers and names, but for times and what has no influence."""
    found = hashlib.sha256()
    _feed(found, value)
    return found.hexdigest()[:16]


def _feed(found: Any, value: Any) -> None:
    if isinstance(value, dict):
        for key in sorted(value, key=str):
            if key not in ("seconds", "save_minutes", "threads", "metrics", "settings"):
                found.update(f"{key}:".encode())
                _feed(found, value[key])
    elif isinstance(value, list | tuple):
        for item in value:
            _feed(found, item)
    elif isinstance(value, torch.Tensor):
        found.update(f"{value.dtype}{tuple(value.shape)}".encode())
        found.update(
            value.detach().contiguous().flatten().view(torch.uint8).numpy().tobytes() if value.numel() else b""
        )
    else:
        found.update(repr(value).encode())


def outcome(run: Run, data: Data, folder: Path) -> dict[str, str]:
    """Fingerprints of a run's model, metrics, checkpoint and predictions."""
    state, _ = Folder(folder).resume()
    return {
        "model": digest(dict(run.model.state_dict())),
        "metrics": digest(run.metrics),
        "checkpoint": digest(state),
        "predictions": digest(run.logits(data.train.samples)),
    }


def whole(data: Data, config: Config, folder: Path, stops: list[int]) -> Run:
    """A run from its beginning to its end, stopped on the way."""
    left = sorted(stops)

    def watch(done: int) -> None:
        if left and done >= left[0]:
            left.pop(0)
            os.kill(os.getpid(), signal.SIGTERM)

    while True:
        try:
            return start(data, config, out=folder, watch=watch)
        except StoppedError:
            continue


def main(folder: Path, asked: dict[str, Any]) -> dict[str, Any]:
    """Every family once."""
    warnings.simplefilter("ignore")
    found: dict[str, Any] = {}
    torch.set_num_threads(int(asked.get("settings", {}).get("threads", 1)))
    for method, (kind, changes) in FAMILIES.items():
        data = rows() if kind == "rows" else images(12)
        config = tiny(method=method, **changes).replace(**asked.get("settings", {}))
        run = whole(data, config, folder / method, asked.get("stops", []))
        found[method] = outcome(run, data, folder / method)
    labels = np.where(np.arange(len(TEXTS)) < 20, np.arange(len(TEXTS)) % 2, -1)
    model = SSLClassifier(steps=12, folds=2, settings={"batch": 8, "unlabeled_batch": 8}).fit(TEXTS, labels)
    found["texts"] = {
        "model": digest(dict(model.run_.model.state_dict())),
        "metrics": digest(model.history_),
        "report": digest(model.report_.as_json()),
        "predictions": digest(torch.from_numpy(model.predict_proba(TEXTS))),
    }
    return found


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), json.loads(sys.argv[2]) if len(sys.argv) > 2 else {})))
