"""What held-out labels say of a run: its accuracy, sets with a coverage, and when to abstain."""

import math

from halfsure.report.markup import number_cell, percent, section, table, text
from halfsure.report.study import Study
from halfsure.runs.run import load
from halfsure.training.errors import RunError
from halfsure.trust import wilson
from halfsure.verdict.check import load_evidence
from halfsure.verdict.folds import Evidence

__all__ = ["trust"]

COVERAGES = (0.8, 0.9, 0.95)
PRECISIONS = (0.9, 0.95, 0.99)


def trust(study: Study) -> str:
    """The section; empty for several runs and for one that was not checked."""
    if not study.single:
        return ""
    try:
        evidence = load_evidence(load(study.records[0].path))
    except RunError as error:
        return section("trust", "Trust", f"<p>{text(error)}</p>")
    if evidence is None:
        return ""
    return section("trust", "Trust", _accuracy(evidence) + _sets(evidence) + _abstain(evidence))


def _accuracy(evidence: Evidence) -> str:
    right, count = int(evidence.right.sum()), len(evidence.right)
    low, high = wilson(right, count)
    folds = len(evidence.runs)
    how = f"{folds} models, each trained without a part of the labels" if folds > 1 else "a model trained without them"
    return (
        f"<p>On labels held out of training, {right} of {count} were right: {percent(right / count)}, with a 95 % "
        f"interval from {percent(low)} to {percent(high)} (Wilson; {how}).</p>"
        f"<p><code>halfsure predict</code> reads probabilities at the temperature {evidence.temperature:.2f}, which "
        "these labels ask for; the other sections of this page do not.</p>"
    )


def _sets(evidence: Evidence) -> str:
    promises = [f"<p><strong>{c:.0%}</strong>: {text(evidence.guarantee(c).sentence)}</p>" for c in COVERAGES]
    return "<h3>Sets with a coverage</h3>" + "".join(promises)


def _abstain(evidence: Evidence) -> str:
    rows = []
    for precision in PRECISIONS:
        least = evidence.threshold(precision)
        kept = float((evidence.confidence >= least).double().mean())
        never = math.isinf(least)
        from_here = number_cell("none is sure enough" if never else f"{least:.3f}", None if never else least)
        rows.append([number_cell(percent(precision), precision), from_here, number_cell(percent(kept), kept)])
    words = (
        "<p>From which probability on to answer, so that answers are right as often as wanted, and the share of "
        "held-out samples that then get one. An estimate from these labels, not a guarantee.</p>"
    )
    names = ["right at least", "from probability", "answered"]
    return f"<h3>Abstaining</h3>{words}" + table(names, rows, caption="When to abstain")
