"""Figures 1 and 3 from theory, 4, 5 and 6 from the runs there are; each becomes an SVG file."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from halfsure.theory import CURVES, TRAITS, acts

__all__ = ["FIGURES", "draw"]

COLOURS = {  # a safe set for colour-blind readers, after Okabe and Ito
    "vat": "#000000",
    "me": "#e69f00",
    "sh": "#56b4e9",
    "pl": "#009e73",
    "ns": "#cc79a7",
    "ads": "#d55e00",
    "supervised": "#999999",
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
Runs = Mapping[str, Sequence[Mapping[str, Any]]]
"""The lines of finished runs, by experiment."""


def draw(name: str, runs: Runs, folder: Path) -> Path | None:
    """Draw a figure into a folder; None if the runs it needs are not there."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(STYLE)
        figure = FIGURES[name](runs)
        if figure is None:
            return None
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{name}.svg"
        figure.savefig(file, format="svg", metadata=dict.fromkeys(("Date", "Creator")))
    return file


def figure1(runs: Runs) -> Figure:
    """Where on the line of two-class predictions each strategy acts, and how ADS divides it."""
    figure = Figure(figsize=(7, 2.6), layout="constrained")
    axes = figure.add_subplot()
    s = np.linspace(0, 1, 2001)
    both = np.stack([s, 1 - s], axis=1)
    for place, strategy in enumerate(TRAITS):
        active = acts(strategy, both).any(axis=1)
        axes.fill_between(s, place - 0.3, place + 0.3, where=active.tolist(), color=COLOURS[strategy], linewidth=0)
    axes.set_yticks(range(len(TRAITS)), [f"{name.upper()}: {TRAITS[name].candidates}" for name in TRAITS])
    for edge in (1 / (np.e + 1), 0.5, np.e / (np.e + 1)):
        axes.axvline(edge, color="#666666", linewidth=0.8, linestyle=":")
    axes.set_xlim(0, 1)
    axes.set_xlabel("softmax probability s of the first of two classes")
    return figure


def figure3(runs: Runs) -> Figure:
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


def figure4(runs: Runs) -> Figure | None:
    """Mean dominant probability and error of unlabeled samples over training, read through both maps, MNIST@20."""
    chosen = _of(runs, "table1", "mnist", 20)
    methods = ["vat", "vat+me", "vat+sh", "vat+pl", "vat+ns", "vat+ads"]
    if not all(chosen.get(method) for method in methods):
        return None
    figure = Figure(figsize=(10, 2.9), layout="constrained")
    panels = figure.subplots(1, 3)
    readings: list[tuple[str, Callable[[Mapping[str, Any]], float]]] = [
        ("mean dominant probability, softmax", lambda line: line["unlabeled"]["softmax_dominant"]),
        ("mean dominant probability, own map", lambda line: line["unlabeled"]["dominant"]),
        ("error on unlabeled samples", lambda line: line["unlabeled"]["error"]),
    ]
    for axes, (title, reading) in zip(panels, readings, strict=True):
        for method in methods:
            _curve(axes, chosen[method], reading, method.removeprefix("vat+"))
        axes.set_title(title)
        axes.set_xlabel("step")
        axes.set_ylim(0, 1)
    panels[0].legend(frameon=False, fontsize=8)
    return figure


def figure5(runs: Runs) -> Figure | None:
    """Candidates and how often the truth is among them, MixMatch-ADS on CIFAR-10@250, with two networks."""
    chosen = [run for run in runs.get("figure5", []) if run["column"] == {"data": "cifar10", "labels": 250}]
    if not chosen:
        return None
    figure = Figure(figsize=(10, 2.9), layout="constrained")
    panels = figure.subplots(1, 3)
    for run, colour in zip(chosen, ("#0072b2", "#56b4e9", "#d55e00", "#e69f00"), strict=False):
        steps = [line["step"] for line in run["lines"]]
        label = f"{run['config']['net']}, {run['method'].removeprefix('mixmatch-')}"
        unlabeled = [line["unlabeled"] for line in run["lines"]]
        panels[2].plot(steps, [1 - line["error"] for line in unlabeled], color=colour, label=label)
        if run["method"] == "mixmatch-ads":
            panels[0].plot(steps, [line["support"] for line in unlabeled], color=colour, label=label)
            panels[1].plot(steps, [line["top_m_accuracy"] for line in unlabeled], color=colour, label=f"{label}: top m")
            panels[1].plot(steps, [1 - line["error"] for line in unlabeled], color=colour, linestyle=":", label="top 1")
    for axes, title in zip(panels, ("mean number of candidates", "accuracy", "accuracy"), strict=True):
        axes.set_title(title)
        axes.set_xlabel("step")
        axes.legend(frameon=False, fontsize=7)
    return figure


def figure6(runs: Runs) -> Figure | None:
    """All predicted probabilities of VAT+ADS on unlabeled samples in ten bins, over the run."""
    found = _of(runs, "table1", "mnist", 20).get("vat+ads")
    if not found:
        return None
    lines = [line for line in found[0]["lines"] if "histogram" in line]
    shown = [lines[k] for k in np.unique(np.linspace(0, len(lines) - 1, 6).round().astype(int))]
    figure = Figure(figsize=(10, 2.2), layout="constrained")
    panels = figure.subplots(1, len(shown), sharey=True)
    for axes, line in zip(panels, shown, strict=True):
        counts = np.array(line["histogram"], dtype=float)
        axes.bar(np.arange(10) / 10 + 0.05, counts / counts.sum(), width=0.09, color=COLOURS["ads"])
        axes.set_title(f"step {line['step']:,}", fontsize=8)
        axes.set_yscale("symlog", linthresh=0.01)
    return figure


FIGURES: dict[str, Callable[[Runs], Figure | None]] = {
    "figure1": figure1,
    "figure3": figure3,
    "figure4": figure4,
    "figure5": figure5,
    "figure6": figure6,
}


def _of(runs: Runs, experiment: str, data: str, labels: int) -> dict[str, list[Mapping[str, Any]]]:
    """Runs of the cpu protocol on one column, by method, their seeds in order."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for run in sorted(runs.get(experiment, []), key=lambda run: run["seed"]):
        if run["column"] == {"data": data, "labels": labels} and run["protocol"] == "cpu":
            found.setdefault(run["method"], []).append(run)
    return found


def _curve(axes: Axes, runs: Sequence[Mapping[str, Any]], reading: Callable[[Any], float], name: str) -> None:
    """Mean over seeds, and a band from the lowest to the highest."""
    steps = [line["step"] for line in runs[0]["lines"]]
    values = np.array([[reading(line) for line in run["lines"]] for run in runs])
    axes.fill_between(steps, values.min(0), values.max(0), color=COLOURS[name], alpha=0.12, linewidth=0)
    axes.plot(steps, values.mean(0), color=COLOURS[name], linestyle=DASHES[name], label=name)
