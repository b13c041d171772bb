"""What held-out labels say of a run: its accuracy, sets with a coverage, and when to abstain."""

import math

from halfsure._shown import without_places
from halfsure.report.elements import Table, number_cell, share_cell
from halfsure.report.study import Study
from halfsure.runs.evidence import Evidence
from halfsure.runs.run import load
from halfsure.training.errors import RunError
from halfsure.trust import temperature_note, wilson

__all__ = ["trust"]

COVERAGES = (0.8, 0.9, 0.95)
PRECISIONS = (0.9, 0.95, 0.99)


def trust(study: Study) -> dict[str, object] | None:
    """The section; None for several runs and for one that was not checked."""
    if not study.single:
        return None
    try:
        evidence = load(study.records[0].path).evidence
    except RunError as error:
        return {"error": without_places(str(error), study.records[0].path)}
    if evidence is None:
        return None
    right, count = int(evidence.right.sum()), len(evidence.right)
    return {
        "error": None,
        "right": right,
        "count": count,
        "interval": wilson(right, count),
        "folds": len(evidence.runs),
        "temperature": evidence.temperature,
        "note": temperature_note(evidence.temperature),
        "promises": [(coverage, evidence.guarantee(coverage).sentence) for coverage in COVERAGES],
        "abstaining": _abstaining(evidence),
    }


def _abstaining(evidence: Evidence) -> Table:
    rows = []
    for precision in PRECISIONS:
        least = evidence.threshold(precision)
        kept = float((evidence.confidence >= least).double().mean())
        never = math.isinf(least)
        from_here = number_cell("none is sure enough" if never else f"{least:.3f}", None if never else least)
        rows.append([share_cell(precision), from_here, share_cell(kept)])
    return Table("When to abstain", ["right at least", "from probability", "answered"], rows)
