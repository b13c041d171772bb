"""Sections → the page."""

from collections.abc import Callable, Mapping

import halfsure
from halfsure.report.audit import audit
from halfsure.report.calibration import calibration
from halfsure.report.confidence import confidence
from halfsure.report.held_out import trust
from halfsure.report.learning import training
from halfsure.report.render import render
from halfsure.report.samples import samples
from halfsure.report.setup import settings
from halfsure.report.study import Study
from halfsure.report.summary import summary

__all__ = ["GENERATOR", "SECTIONS", "page"]

GENERATOR = '<meta name="generator" content="halfsure report">'
"""By this line of page.html a file is known as a report."""

SECTIONS: dict[str, tuple[str, str, Callable[[Study], Mapping[str, object] | None]]] = {
    "summary": ("Summary", "Summary", summary),
    "training": ("Training", "Training", training),
    "calibration": ("Calibration", "Calibration", calibration),
    "confidence": ("Confidence", "Confidence and candidates", confidence),
    "trust": ("Trust", "Trust", trust),
    "audit": ("Pseudo-labels", "Pseudo-labels by class", audit),
    "samples": ("Samples", "Samples", samples),
    "settings": ("Settings", "Settings", settings),
}
"""By its id, which also names its template: link, title, and what fills the template; None leaves the section out."""


def page(study: Study) -> str:
    """The whole page; the same study gives the same bytes."""
    found = ((name, link, title, read(study)) for name, (link, title, read) in SECTIONS.items())
    shown = [section for section in found if section[-1] is not None]
    return render("page.html", study=study, sections=shown, version=halfsure.__version__)
