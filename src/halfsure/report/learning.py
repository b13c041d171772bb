"""Errors and losses over the steps of training."""

from halfsure.report.elements import Figure
from halfsure.report.panels import Measure, Panel, at, over_steps
from halfsure.report.reading import PARTS
from halfsure.report.study import Study

__all__ = ["training"]

TERMS = {"supervised": "Labels (S)", "consistency": "Consistency (C)", "distillation": "Distillation (D)"}
ERRORS = Panel(
    "Error",
    "error, %",
    tuple(Measure(f"{name} error".capitalize(), at(part, "error", scale=100)) for part, name in PARTS.items()),
)
LOSSES = Panel(
    "Terms of the loss",
    "loss",
    tuple(Measure(name, at("train", term)) for term, name in TERMS.items()),
    keep_zero=False,
)


def training(study: Study) -> dict[str, Figure | None]:
    """Section: how the runs learnt."""
    return {"errors": over_steps(study, "errors", [ERRORS]), "losses": over_steps(study, "losses", [LOSSES])}
