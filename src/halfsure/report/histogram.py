"""The paper's Fig. 6: all predicted probabilities in ten bins, with a slider over the evaluations."""

import math
from bisect import bisect_right

from halfsure.report.lines import thin
from halfsure.report.markup import as_json, text
from halfsure.report.panels import figure_of
from halfsure.report.plots import COLOURS
from halfsure.report.reading import Record, within
from halfsure.report.study import Group, Study

__all__ = ["histogram", "shares"]

BINS = 10
LEFT, TOP, WIDTH, HEIGHT = 38, 18, 286, 150  # the plane that bars are drawn in
GRID = (0.01, 0.1, 0.25, 0.5, 1.0)


def histogram(study: Study, part: str, where: str) -> str:
    """The figure; empty if no evaluation counted probabilities."""
    groups = [(place, group) for place, group in enumerate(study.groups) if _steps([group], part)]
    if not groups:
        return ""
    every = _steps([group for _, group in groups], part)
    steps = [every[k] for k in thin(len(every))]
    table = [[shares(group, part, step) for step in steps] for _, group in groups]
    plots = [_bars(group.name, place, rows[-1]) for (place, group), rows in zip(groups, table, strict=True)]
    last = len(steps) - 1
    slider = (
        '<p class="slider"><label for="evaluation">Evaluation</label>'
        f'<input type="range" id="evaluation" min="0" max="{last}" value="{last}" step="1" '
        f'aria-valuetext="step {steps[-1]:,}"><output for="evaluation">step {steps[-1]:,}</output></p>'
    )
    numbers = [[[round(share, 5) for share in row] for row in rows] for rows in table]
    script = f'<script type="application/json" id="histograms">{as_json({"steps": steps, "shares": numbers})}</script>'
    caption = (
        f"Every probability of every class over {where}, in ten bins, in the model's own map; all seeds together. "
        "Move the slider, or take ← and →, to see it change over the run. Heights grow with the root of the share, for "
        "the bins in the middle, where the unsure predictions are, hold few. Few classes are true, so most "
        "probabilities belong near 0; training should empty the middle."
    )
    title = "Predicted probabilities over the run (Fig. 6 of the paper)"
    return figure_of(title, slider, plots, caption) + script


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


def _bars(name: str, place: int, row: list[float]) -> str:
    wide = WIDTH / BINS
    grid = "".join(
        f'<path class="grid" d="M{LEFT} {_y(share):.1f}h{WIDTH}"/>'
        f'<text class="tick" x="{LEFT - 6}" y="{_y(share) + 4:.1f}" text-anchor="end">{share:.0%}</text>'
        for share in GRID
    )
    bars = "".join(
        f'<rect class="bar" x="{LEFT + k * wide + 1.5:.1f}" y="{_y(share):.1f}" width="{wide - 3:.1f}" '
        f'height="{TOP + HEIGHT - _y(share):.1f}"/><text class="count" x="{LEFT + (k + 0.5) * wide:.1f}" '
        f'y="{_y(share) - 3:.1f}" text-anchor="middle">{_shown(share)}</text>'
        for k, share in enumerate(row)
    )
    ticks = "".join(
        f'<text class="tick" x="{LEFT + k * wide:.1f}" y="{TOP + HEIGHT + 15}" text-anchor="middle">{k / BINS:g}</text>'
        for k in range(0, BINS + 1, 2)
    )
    label = f"{name}: share of all predicted probabilities in ten bins"
    return (
        f'<h4>{text(name)}</h4><svg class="plot histogram" role="img" aria-label="{text(label)}" viewBox="0 0 331 208" '
        f'data-top="{TOP}" data-height="{HEIGHT}" style="color: var(--c{place % COLOURS})">'
        f"{grid}{bars}"
        f'<path class="axis" d="M{LEFT} {TOP + HEIGHT}h{WIDTH}"/>{ticks}'
        f'<text class="tick" x="{LEFT + WIDTH / 2}" y="{TOP + HEIGHT + 34}" text-anchor="middle">'
        "predicted probability (share of all, %)</text></svg>"
    )


def _y(share: float) -> float:
    return TOP + HEIGHT * (1 - math.sqrt(share))


def _shown(share: float) -> str:
    """A share in percent, as short as it can be read."""
    hundred = 100 * share
    return f"{hundred:.1f}" if hundred < 9.95 else f"{hundred:.0f}"
