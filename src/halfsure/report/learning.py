"""Errors and losses over the steps of training."""

from halfsure.report.markup import section
from halfsure.report.panels import Measure, Panel, at, over_steps
from halfsure.report.reading import PARTS
from halfsure.report.study import Study

__all__ = ["training"]

ERRORS = Panel(
    "Error",
    "error, %",
    tuple(Measure(f"{name} error".capitalize(), at(part, "error", scale=100)) for part, name in PARTS.items()),
)
LOSSES = Panel(
    "Terms of the loss",
    "loss",
    (
        Measure("Labels (S)", at("train", "supervised")),
        Measure("Consistency (C)", at("train", "consistency")),
        Measure("Distillation (D)", at("train", "distillation")),
    ),
    keep_zero=False,
)


def training(study: Study) -> str:
    """Section: how the runs learnt."""
    errors = over_steps(
        study,
        "errors",
        "Error over the run",
        [ERRORS],
        "Share of wrong predictions of the averaged model at each evaluation; lower is better. The error on unlabeled "
        "samples is known only where their labels are, and training never sees it.",
    )
    losses = over_steps(
        study,
        "losses",
        "Loss over the run",
        [LOSSES],
        "What training makes small, before weighting, as the mean since the evaluation before: S on labeled samples, "
        "C between views or mixtures of unlabeled ones, D by an added strategy. A method shows the terms it has. "
        "Losses of different maps are on different scales: compare their course, not their height.",
    )
    return section("training", "Training", errors + losses)
