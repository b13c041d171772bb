"""`halfsure predict`."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import fsum
from pathlib import Path
from typing import Annotated, Any

from numpy.typing import NDArray
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
    open_both,
    printable,
    seen_by,
    warn,
    write_rows,
)
from halfsure.data import DataError
from halfsure.runs.run import Answers, Run
from halfsure.trust import temperature_note

__all__ = ["Predict", "rows"]

SHOWN = 10  # rows on the screen where no file is asked for
FEW = 0.05
"""Where fewer samples than this share get a label, somebody has to be told why."""


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

    A model that was checked (halfsure train --folds) is read at the temperature its held-out labels ask for. Its run
    folder can do more: --coverage 0.9 makes the candidates sets that hold the true class for at least about 90 % of
    new samples, --abstain 0.95 leaves the label empty where more than 5 % of such answers would be wrong.
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
        try:
            said = run.answers(new.samples, coverage=self.coverage, abstain=self.abstain, again=self._again)
        except ValueError as error:  # out of its range
            raise DataError(str(error)) from None
        found = _called(new.called, rows(run, new.names, said, probabilities=self.probabilities))
        if self.out is not None:
            write_rows(self.out, found)
        warn(temperature_note(run.temperature))
        if self.json:
            print_json(console, self._summary(run, found, said))
        else:
            self._show(console, run, found, int(said.sure.sum()))
        return 0

    def _again(self, fold: Run) -> NDArray[Any]:
        """The data as the model of a fold takes them, which may have an encoder of its own."""
        return seen_by(fold, self.data, self.reading).samples

    def _summary(self, run: Run, found: Columns, said: Answers) -> dict[str, Any]:
        count, answered = len(found["label"]), int(said.sure.sum())
        named = Counter(found["label"])
        return {
            "model": str(self.model),
            "data": self.data,
            "written": None if self.out is None else str(self.out),
            "samples": count,
            "map": run.map.name,
            "temperature": run.temperature,
            "predicted": {name: named[name] for name in run.classes},
            "answered": answered,
            "abstained": count - answered,
            "probability": fsum(found["probability"]) / count,
            "candidates": sum(map(len, found["candidates"])) / count,
        }

    def _show(self, console: Console, run: Run, found: Columns, answered: int) -> None:
        def say(text: str) -> None:
            console.print(text, highlight=False, soft_wrap=True, markup=False)

        count = len(found["label"])
        if self.abstain is not None:
            say(_verdict(run, self.abstain, answered, count))
        if self.out is not None:
            say(f"{count:,} predictions are in {self.out}" if answered == count else f"The rows are in {self.out}")
            return
        cells = [[_cell(value) for value in row[:SHOWN]] for row in found.values()]
        console.print(grid(list(found), zip(*cells, strict=True), right=(2, *range(4, len(found)))))
        more = f"the first {SHOWN} of {count:,}" if count > SHOWN else f"{count:,} in all"
        say(f"\n{more}; write them to a file with -o predictions.csv")


def _verdict(run: Run, precision: float, answered: int, count: int) -> str:
    """How many samples got a label, and where hardly any did, what that means and what to do."""
    told = f"{answered:,} of {count:,} samples got a label; the model abstained on {count - answered:,}."
    if answered > FEW * count or run.evidence is None:
        return told
    least, wanted = run.evidence.threshold(precision), f"{100 * precision:g} %"
    right, held = int(run.evidence.right.sum()), len(run.evidence.right)
    if math.isinf(least):
        least_needed = math.ceil(1 / (1 - precision) - 1e-9) - 1 if precision < 1 else 0
        shown = f"takes at least {least_needed:,} without a mistake" if least_needed else "cannot be shown at all"
        why = f"No probability is high enough: {right:,} of {held:,} held-out labels were right, and {wanted} {shown}."
    else:
        why = f"Answers are right {wanted} of the time from a probability of {least:.3f} on, which these samples lack."
    return f"{told} {why} Ask for less, label more samples, or omit --abstain and check the labels yourself."


def rows(
    run: Run,
    names: Sequence[str],
    said: Answers,
    *,
    probabilities: bool = False,
) -> Columns:
    """What is told of each sample; where the model abstains the label is empty."""
    probs = said.probs.float()
    labels = zip(said.best.tolist(), said.sure.tolist(), strict=True)
    columns: Columns = {
        "name": list(names),
        "label": [run.classes[index] if sure else "" for index, sure in labels],
        "probability": _digits(probs.gather(-1, said.order[:, :1])[:, 0]),
        "candidates": [list(some) for some in said.sets(run.classes)],
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
