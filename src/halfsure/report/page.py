"""Sections → the page."""

from base64 import b64encode
from collections.abc import Callable
from hashlib import sha256
from importlib.resources import files
from string import Template

import halfsure
from halfsure.report.audit import audit
from halfsure.report.calibration import calibration
from halfsure.report.confidence import confidence
from halfsure.report.held_out import trust
from halfsure.report.learning import training
from halfsure.report.markup import text
from halfsure.report.samples import samples
from halfsure.report.setup import settings
from halfsure.report.study import Study
from halfsure.report.summary import summary

__all__ = ["GENERATOR", "SECTIONS", "page"]

GENERATOR = '<meta name="generator" content="halfsure report">'
"""By this line a file is known as a report."""

Section = Callable[[Study], str]
SECTIONS: dict[str, Section] = {
    "Summary": summary,
    "Training": training,
    "Calibration": calibration,
    "Confidence": confidence,
    "Trust": trust,
    "Pseudo-labels": audit,
    "Samples": samples,
    "Settings": settings,
}
"""What the page consists of, in this order; a section without anything to say gives an empty string."""


def page(study: Study) -> str:
    """The whole page; the same study gives the same bytes."""
    found = {name: section(study) for name, section in SECTIONS.items()}
    shown = {name: html for name, html in found.items() if html}
    links = "".join(f'<a href="#{_id(html)}">{text(name)}</a>' for name, html in shown.items())
    parts = files("halfsure.report")
    script = parts.joinpath("page.js").read_text(encoding="utf-8")
    return Template(parts.joinpath("page.html").read_text(encoding="utf-8")).substitute(
        generator=GENERATOR,
        title=text(study.title),
        style=parts.joinpath("page.css").read_text(encoding="utf-8"),
        script=script,
        digest=b64encode(sha256(script.encode()).digest()).decode(),  # no other script may run
        links=links,
        content="\n".join(shown.values()),
        version=text(halfsure.__version__),
    )


def _id(html: str) -> str:
    return html.split('id="', 1)[1].split('"', 1)[0]
