"""`halfsure predict`."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import fsum
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console
from torch import Tensor
from tyro.conf import Positional, arg

from halfsure.cli.terminal import print_json
from halfsure.cli.using import (
    Columns,
    Reading,
    check_output,
    escaped,
    grid,
    logits_of,
    open_both,
    printable,
    write_rows,
)
from halfsure.data import DataError
from halfsure.data.new import New
from halfsure.runs.run import Run
from halfsure.training.errors import RunError
from halfsure.verdict.check import load_evidence

__all__ = ["Predict", "rows"]

SHOWN = 10  # rows on the screen where no file is asked for


@dataclass(frozen=True)
class Predict:
    r"""Predict the classes of new data, each with its probability and its candidates.

    MODEL is a run folder or its model.safetensors. DATA is a folder of pictures, a picture, a table with the same
    columns, an .npz or .npy file, or an official set, whose test part is meant.

        halfsure predict runs/x new_pictures -o predictions.csv
        halfsure predict runs/x orders.csv -o predictions.parquet --lenient

    Columns: name (path or row number, from 0; a table's id column under its own name), label, probability, and
    candidates, the classes whose probability is not zero, most likely first, joined by | (in Parquet a list). A | in a
    class name is written \|, a backslash \\.

    A run that was checked (halfsure train --folds) is read at the temperature its held-out labels ask for, and can do
    more: --coverage 0.9 makes the candidates sets that hold the true class for at least about 90 % of new samples,
    --abstain 0.95 leaves the label empty where more than 5 % of such answers would be wrong.
    """

    model: Annotated[Positional[Path], arg(metavar="MODEL")]
    """The run."""
    data: Annotated[Positional[str], arg(metavar="DATA")]
    """What to predict."""
    out: Annotated[Path | None, arg(aliases=("-o",), metavar="FILE")] = None
    """Write a .csv or .parquet file; without it the first rows are shown."""
    force: bool = False
    """Overwrite the file if it exists."""
    coverage: float | None = None
    """Candidates that hold the true class as often as this, by the held-out labels."""
    abstain: float | None = None
    """Answer only where answers are right as often as this, by the held-out labels."""
    probabilities: bool = False
    """Add a column for each class, p_CLASS, with its probability."""
    json: bool = False
    """Print a summary as JSON."""
    reading: Reading = field(default_factory=Reading)

    def run(self, console: Console) -> int:
        """Predict, then write the rows or show some of them."""
        if self.out is not None:
            check_output(self.out, self.force)
        run, new = open_both(self.model, self.data, self.reading)
        found = _called(new.called, self._rows(run, new))
        if self.out is not None:
            write_rows(self.out, found)
        if self.json:
            print_json(console, self._summary(run, found))
        else:
            self._show(console, found)
        return 0

    def _rows(self, run: Run, new: New) -> Columns:
        """What is told of each sample, with what held-out labels say of the model, where there are such."""
        evidence = load_evidence(run)
        if evidence is None and (self.coverage is not None or self.abstain is not None):
            raise RunError(f"{self.model} was not checked on held-out labels: train it with --folds 5, or do without")
        logits = logits_of(run, new)
        if evidence is None:
            return rows(run, new.names, logits, probabilities=self.probabilities)
        try:
            sets = None if self.coverage is None else evidence.sets(new.samples, self.coverage)
            least = 0.0 if self.abstain is None else evidence.threshold(self.abstain)
        except ValueError as error:  # out of its range
            raise DataError(str(error)) from None
        return rows(
            run,
            new.names,
            logits / evidence.temperature,
            probabilities=self.probabilities,
            sets=sets,
            least=least,
        )

    def _summary(self, run: Run, found: Columns) -> dict[str, Any]:
        count = len(found["label"])
        named = Counter(found["label"])
        return {
            "model": str(self.model),
            "data": self.data,
            "written": None if self.out is None else str(self.out),
            "samples": count,
            "map": run.map.name,
            "predicted": {name: named[name] for name in run.classes},
            "abstained": named[""] if self.abstain is not None else 0,
            "probability": fsum(found["probability"]) / count,
            "candidates": sum(map(len, found["candidates"])) / count,
        }

    def _show(self, console: Console, found: Columns) -> None:
        count = len(found["label"])
        if self.out is not None:
            console.print(f"{count:,} predictions are in {self.out}", highlight=False, soft_wrap=True, markup=False)
            return
        cells = [[_cell(value) for value in row[:SHOWN]] for row in found.values()]
        console.print(grid(list(found), zip(*cells, strict=True), right=(2, *range(4, len(found)))))
        more = f"the first {SHOWN} of {count:,}" if count > SHOWN else f"{count:,} in all"
        console.print(f"\n{more}; write them to a file with -o predictions.csv", highlight=False, soft_wrap=True)


def rows(
    run: Run,
    names: Sequence[str],
    logits: Tensor,
    *,
    probabilities: bool = False,
    sets: Tensor | None = None,
    least: float = 0.0,
) -> Columns:
    """What is told of each sample, from its logits, read through the model's own map. (n, classes) → columns of n.

    `sets` are the candidates if not the classes with a probability; a label of less than `least` is left empty.
    """
    probs = run.map(logits).float()
    order = logits.argsort(dim=-1, descending=True, stable=True)
    best = order[:, :1]
    # The answer is always a candidate: sets come from the folds' models, and coverage can only rise by it.
    candidates = probs > 0 if sets is None else sets.scatter(-1, best, True)
    columns: Columns = {
        "name": list(names),
        "label": [
            run.classes[index] if sure else ""
            for index, sure in zip(best[:, 0].tolist(), (probs.amax(-1) >= least).tolist(), strict=True)
        ],
        "probability": _digits(probs.gather(-1, best)[:, 0]),
        "candidates": [
            [run.classes[index] for index in indices if row[index]]
            for indices, row in zip(order.tolist(), candidates.tolist(), strict=True)
        ],
    }
    if probabilities:
        columns |= {f"p_{name}": _digits(probs[:, index]) for index, name in enumerate(run.classes)}
    return columns


def _called(name: str, columns: Columns) -> Columns:
    """The same with another name for the first column, unless a column has that already."""
    return columns if name in columns else {name if key == "name" else key: found for key, found in columns.items()}


def _digits(values: Tensor) -> list[float]:
    """Float32 numbers with the digits that they have."""
    return [float(str(value)) for value in values.numpy()]


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    return printable(escaped(value) if isinstance(value, list) else str(value))
