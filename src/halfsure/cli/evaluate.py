"""`halfsure evaluate`."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import torch
from rich.console import Console
from torch import Tensor
from tyro.conf import Positional, arg

from halfsure.cli.terminal import print_json
from halfsure.cli.using import Reading, grid, open_both, printable, warn
from halfsure.data import DataError
from halfsure.data.new import New
from halfsure.metrics import score
from halfsure.runs.run import Run
from halfsure.trust import temperature_note, wilson

__all__ = ["Evaluate", "report"]

PAIRS = 5  # confusions that are named


@dataclass(frozen=True)
class Evaluate:
    """Measure a model on data with labels: its error, how far its probabilities can be trusted, its confusions.

    MODEL is a run folder or its model.safetensors. DATA is as for predict, with labels: a folder for each class, a CSV
    of path and label, the label column of a table, or y in an .npz. Where a folder or an .npz has a test part, that is
    meant, as it is of an official set.

        halfsure evaluate runs/x digits
        halfsure evaluate runs/x held_out.csv --json
    """

    model: Annotated[Positional[Path], arg(metavar="MODEL")]
    """The run."""
    data: Annotated[Positional[str], arg(metavar="DATA")]
    """What to measure it on."""
    json: bool = False
    """Print JSON."""
    reading: Reading = field(default_factory=Reading)

    def run(self, console: Console) -> int:
        """Measure, and print what was found."""
        run, new = open_both(self.model, self.data, self.reading, test=True)
        labels = _indices(run, new, self.data)
        found = {"model": str(self.model), "data": self.data, "temperature": run.temperature}
        found |= report(run, run.logits(new.samples), labels)
        if _is_training_data(run, self.data):
            warn("the model was trained on these data: its error on them says little about new ones")
        warn(temperature_note(run.temperature))
        if self.json:
            print_json(console, found)
        else:
            _show(console, run, found)
        return 0


def report(run: Run, logits: Tensor, labels: Tensor) -> dict[str, Any]:
    """Everything that is measured, as JSON. (n, classes), (n,) → a dictionary; what is None has no finite value."""
    logits = logits.double() / run.temperature
    found = score(logits, labels, run.map)
    known = labels >= 0
    wrong = known & (logits.argmax(-1) != labels)
    count = int(known.sum())
    low, high = wilson(count - int(wrong.sum()), count)
    truth = run.map(logits).gather(-1, labels.clamp(min=0)[:, None])[:, 0][known]
    pairs = Counter(zip(labels[wrong].tolist(), logits.argmax(-1)[wrong].tolist(), strict=True))
    return {
        "map": run.map.name,
        "error_interval": [1 - high, 1 - low],
        "nll": -float(truth.log().mean()) if bool((truth > 0).all()) else None,
        "truth_impossible": int((truth == 0).sum()),
        **found,
        "class_error": dict(zip(run.classes, found["class_error"], strict=True)),
        "predicted": dict(zip(run.classes, found["predicted"], strict=True)),
        "confusions": [
            {"label": run.classes[label], "predicted": run.classes[predicted], "count": number}
            for (label, predicted), number in sorted(pairs.items(), key=lambda pair: (-pair[1], pair[0]))[:PAIRS]
        ],
    }


def _indices(run: Run, new: New, data: str) -> Tensor:
    """Class names → (n,) class indices, −1 where there is none."""
    if new.labels is None:
        raise DataError(
            f"{data} has no labels to measure by: they are the label column of a table, a folder for each class, a CSV "
            "of path and label, or y beside X"
        )
    index = {name: place for place, name in enumerate(run.classes)}
    for name, label in zip(new.names, new.labels, strict=True):
        if label is not None and label not in index:
            known = ", ".join(printable(known, 20) for known in run.classes[:10]) + (" …" if len(index) > 10 else "")
            raise DataError(f"{data}, {name}: the model knows no class {label!r}; it knows {known}")
    return torch.tensor([-1 if label is None else index[label] for label in new.labels])


def _is_training_data(run: Run, data: str) -> bool:
    """Whether this is the source of the run, and has no part that was kept from training."""
    source = run.config.get("source")
    if run.path is None or not isinstance(source, str) or not Path(data).exists():
        return False
    if (run.path / source).resolve() != Path(data).resolve():
        return False
    known = run.config.get("fingerprint")
    tested = isinstance(known, dict) and known.get("test")
    return Path(data).suffix.lower() in (".csv", ".tsv", ".parquet", ".xlsx") or not tested


def _show(console: Console, run: Run, found: dict[str, Any]) -> None:
    def percent(value: float | None) -> str:
        return "–" if value is None else f"{100 * value:.2f} %"

    low, high = found["error_interval"]
    nll = f"{found['nll']:.3f}" if found["nll"] is not None else f"∞: {found['truth_impossible']} got probability 0"
    rows = [
        ["samples with a label", f"{found['labeled']:,} of {found['samples']:,}"],
        ["error", f"{percent(found['error'])}, 95 % interval {100 * low:.2f} to {percent(high)}"],
        ["mean probability", f"{found['dominant']:.3f} of the predicted class"],
        ["ECE", percent(found["ece"])],
        ["Brier", f"{found['brier']:.3f}"],
        ["NLL", nll],
        ["candidates", f"{found['support']:.2f} a sample, the truth among them {percent(found['top_m_accuracy'])}"],
    ]
    heat = "" if run.temperature == 1 else f", at the temperature {run.temperature:.2f} fitted on held-out labels"
    console.print(f"read through {run.map.name}, the model's own map{heat}", highlight=False, soft_wrap=True)
    console.print(grid(["", ""], rows))
    classes = [
        [printable(name), percent(error), f"{found['predicted'][name]:,}"]
        for name, error in found["class_error"].items()
    ]
    console.print()
    console.print(grid(["class", "error", "predicted"], classes, right=(1, 2)))
    if found["confusions"]:
        pairs = [[printable(c["label"]), printable(c["predicted"]), f"{c['count']:,}"] for c in found["confusions"]]
        console.print()
        console.print(grid(["most confused", "taken for", "times"], pairs, right=(2,)))
