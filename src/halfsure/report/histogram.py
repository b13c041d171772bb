"""The paper's Fig. 6: all predicted probabilities in ten bins, with a slider over the evaluations."""

from bisect import bisect_right

from halfsure.report.lines import thin
from halfsure.report.plots import look
from halfsure.report.reading import Record, within
from halfsure.report.study import Group, Study

__all__ = ["histogram", "shares"]

BINS = 10


def histogram(study: Study, part: str) -> dict[str, object] | None:
    """The bars of each method at the last step, and the shares of all steps; None if nothing was counted."""
    groups = [(place, group) for place, group in enumerate(study.groups) if _steps([group], part)]
    if not groups:
        return None
    every = _steps([group for _, group in groups], part)
    steps = [every[k] for k in thin(len(every))]
    table = [[shares(group, part, step) for step in steps] for _, group in groups]
    charts = [
        {"name": group.name, "colour": look(place).variable, "bars": rows[-1]}
        for (place, group), rows in zip(groups, table, strict=True)
    ]
    rounded = [[[round(share, 5) for share in row] for row in rows] for rows in table]
    return {"charts": charts, "steps": steps, "shares": rounded}


def shares(group: Group, part: str, step: int) -> list[float]:
    """Share of all probabilities in each bin at the last evaluation up to a step, seeds together. → (10,)."""
    counts = [_counts(record, part, step) for record in group.records]
    known = [count for count in counts if count is not None]
    total = [sum(column) for column in zip(*known, strict=True)] if known else [0] * BINS
    return [count / (sum(total) or 1) for count in total]


def _counts(record: Record, part: str, step: int) -> list[int] | None:
    lines = [line for line in record.metrics if _is_counts(within(line, part, "histogram"))]
    place = bisect_right([line["step"] for line in lines], step)
    return list(lines[max(place - 1, 0)][part]["histogram"]) if lines else None


def _steps(groups: list[Group], part: str) -> list[int]:
    lines = [line for group in groups for record in group.records for line in record.metrics]
    return sorted({line["step"] for line in lines if _is_counts(within(line, part, "histogram"))})


def _is_counts(found: object) -> bool:
    return isinstance(found, list) and len(found) == BINS and all(isinstance(c, int) and c >= 0 for c in found)
