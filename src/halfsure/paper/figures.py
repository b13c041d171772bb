"""Figures 1 and 3 from theory, 4, 5 and 6 from the runs there are; each becomes an SVG file."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from halfsure.paper.cells import Column
from halfsure.paper.results import Line, Results
from halfsure.paper.safety import SAFETY
from halfsure.paper.show import fill
from halfsure.paper.table import Table
from halfsure.paper.table1 import TABLE1
from halfsure.paper.tuning import STRATEGIES, NotTunedError
from halfsure.theory import CURVES, TRAITS, acts

__all__ = ["FIGURES", "draw"]

COLOURS = {  # a safe set for colour-blind readers, after Okabe and Ito
    "vat": "#000000",
    "me": "#e69f00",
    "sh": "#56b4e9",
    "pl": "#009e73",
    "ns": "#cc79a7",
    "ads": "#d55e00",
}
DASHES = {"vat": "-", "me": "--", "sh": "-.", "pl": ":", "ns": (0, (5, 1, 1, 1)), "ads": "-"}
STYLE: dict[Any, Any] = {
    "svg.hashsalt": "halfsure",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.linewidth": 0.4,
    "lines.linewidth": 1.6,
}
SNAPSHOTS = 7


def draw(name: str, results: Results, folder: Path) -> Path | None:
    """Draw a figure into a folder; None if the runs it needs are not there."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(STYLE)
        figure = FIGURES[name](results)
        if figure is None:
            return None
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{name}.svg"
        figure.savefig(file, format="svg", metadata=dict.fromkeys(("Date", "Creator")))
    return file


def figure1(results: Results) -> Figure:
    """Where on the line of two-class predictions each strategy acts, and how ADS divides it."""
    figure = Figure(figsize=(7, 2.6), layout="constrained")
    axes = figure.add_subplot()
    s = np.linspace(0, 1, 2001)
    both = np.stack([s, 1 - s], axis=1)
    for place, strategy in enumerate(TRAITS):
        edges = np.flatnonzero(np.diff(acts(strategy, both).any(axis=1).astype(int), prepend=0, append=0))
        stretches = [(s[begin], s[end - 1] - s[begin]) for begin, end in edges.reshape(-1, 2)]
        axes.broken_barh(stretches, (place - 0.3, 0.6), color=COLOURS[strategy], linewidth=0)
    axes.set_yticks(range(len(TRAITS)), [f"{name.upper()}: {TRAITS[name].candidates}" for name in TRAITS])
    for edge in (1 / (np.e + 1), 0.5, np.e / (np.e + 1)):
        axes.axvline(edge, color="#666666", linewidth=0.8, linestyle=":")
    axes.set_xlim(0, 1)
    axes.set_xlabel("softmax probability s of the first of two classes")
    return figure


def figure3(results: Results) -> Figure:
    """Target, loss and gradient of each strategy against s."""
    figure = Figure(figsize=(9, 2.8), layout="constrained")
    panels = figure.subplots(1, 3)
    s = np.linspace(0.002, 0.998, 999)
    for name, curve in CURVES.items():
        found = curve(s)
        for axes, values in zip(panels, (found.target, found.loss, found.gradient), strict=True):
            axes.plot(s, values, color=COLOURS[name], linestyle=DASHES[name], label=name.upper())
    for axes, title in zip(panels, ("target", "loss", "gradient in s"), strict=True):
        axes.set_title(title)
        axes.set_xlabel("s")
    panels[2].set_ylim(-6, 6)
    panels[0].legend(frameon=False)
    return figure


def figure4(results: Results) -> Figure | None:
    """Distillation loss, mean dominant probability through both maps, and error of unlabeled samples."""
    methods = ("vat", *STRATEGIES)
    tried = {column: _runs(TABLE1, column, results) for column in TABLE1.columns["cpu"]}
    found = {column: runs for column, runs in tried.items() if all(runs[method] for method in methods)}
    if not found:
        return None
    figure = Figure(figsize=(12, 2.6 * len(found) + 0.2), layout="constrained")
    rows = figure.subplots(len(found), 4, sharex=True, squeeze=False)
    readings: list[tuple[str, Callable[[Line], float]]] = [
        ("distillation loss", lambda line: line["train"]["distillation"]),
        ("dominant probability, softmax", lambda line: line["unlabeled"]["softmax_dominant"]),
        ("dominant probability, own map", lambda line: line["unlabeled"]["dominant"]),
        ("error on unlabeled samples", lambda line: line["unlabeled"]["error"]),
    ]
    for panels, (column, runs) in zip(rows, found.items(), strict=True):
        for axes, (_, reading) in zip(panels, readings, strict=True):
            for method in methods:
                _curve(axes, runs[method], reading, method.removeprefix("vat+"))
        for axes in panels[1:]:
            axes.set_ylim(0, 1)
        panels[0].set_ylim(0)
        panels[0].set_ylabel(str(column))
    for axes, (title, _) in zip(rows[0], readings, strict=True):
        axes.set_title(title)
    for axes in rows[-1]:
        axes.set_xlabel("step")
    rows[0, 3].legend(frameon=False, fontsize=8, ncols=2)
    return figure


def figure5(results: Results) -> Figure | None:
    """Candidates and how often the truth is among them, MixMatch-ADS on CIFAR-10@250, with two networks."""
    runs = [found[0] for found in _runs(SAFETY, Column("cifar10", 250), results).values() if found]
    if not runs:
        return None
    figure = Figure(figsize=(10, 2.9), layout="constrained")
    panels = figure.subplots(1, 3)
    for run, colour in zip(runs, ("#0072b2", "#56b4e9", "#d55e00", "#e69f00"), strict=False):
        steps = [line["step"] for line in run["lines"]]
        label = f"{run['config']['net']}, {run['method'].rpartition('-')[2]}"
        unlabeled = [line["unlabeled"] for line in run["lines"]]
        accuracy = [1 - line["error"] for line in unlabeled]
        panels[2].plot(steps, accuracy, color=colour, label=label)
        if run["method"] == "mixmatch-ads":
            panels[0].plot(steps, [line["support"] for line in unlabeled], color=colour, label=label)
            panels[1].plot(steps, [line["top_m_accuracy"] for line in unlabeled], color=colour, label=label)
            panels[1].plot(steps, accuracy, color=colour, linestyle=":", label="its best class")
    panels[0].set_ylim(0, 10)
    panels[1].set_ylim(0, 1)
    for axes, title in zip(panels, ("mean number of candidates", "truth is among them", "accuracy"), strict=True):
        axes.set_title(title)
        axes.set_xlabel("step")
        axes.legend(frameon=False, fontsize=7)
    return figure


def figure6(results: Results) -> Figure | None:
    """All probabilities that VAT+ADS gives unlabeled samples, in ten bins, over a run."""
    runs = {str(column): _runs(TABLE1, column, results)["vat+ads"] for column in TABLE1.columns["cpu"]}
    found = {name: own[0] for name, own in runs.items() if own}
    if not found:
        return None
    figure = Figure(figsize=(10, 2.0 * len(found) + 0.2), layout="constrained")
    rows = figure.subplots(len(found), SNAPSHOTS, sharex=True, sharey=True, squeeze=False)
    for panels, (name, run) in zip(rows, found.items(), strict=True):
        places = np.unique(np.linspace(0, len(run["lines"]) - 1, SNAPSHOTS).round().astype(int))
        for axes, place in zip(panels, places, strict=False):
            counts = np.array(run["lines"][place]["histogram"], dtype=float)
            axes.bar(np.arange(10) / 10 + 0.05, counts / counts.sum(), width=0.09, color=COLOURS["ads"])
            axes.set_title(f"step {run['lines'][place]['step']:,}", fontsize=8)
            axes.set_yscale("symlog", linthresh=0.01)
        panels[0].set_ylabel(name)
    return figure


FIGURES: dict[str, Callable[[Results], Figure | None]] = {
    "figure1": figure1,
    "figure3": figure3,
    "figure4": figure4,
    "figure5": figure5,
    "figure6": figure6,
}


def _runs(table: Table, column: Column, results: Results) -> dict[str, list[Line]]:
    """The runs of the cpu protocol on a column, by row, in the order of their seeds; none before it is tuned."""
    try:
        return {filled.row.name: [*filled.runs.values()] for filled in fill(table, column, "cpu", results)}
    except NotTunedError:
        return {row.name: [] for row in table.rows}


def _curve(axes: Axes, runs: Sequence[Line], reading: Callable[[Line], float], name: str) -> None:
    """Mean over seeds, and a band from the lowest to the highest."""
    steps = [line["step"] for line in runs[0]["lines"]]
    values = np.array([[reading(line) for line in run["lines"]] for run in runs])
    axes.fill_between(steps, values.min(0), values.max(0), color=COLOURS[name], alpha=0.12, linewidth=0)
    axes.plot(steps, values.mean(0), color=COLOURS[name], linestyle=DASHES[name], label=name)
