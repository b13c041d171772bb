"""Measures over steps → figures: for one method all measures of a kind in one plot, for several a plot a measure."""

from collections.abc import Sequence
from dataclasses import dataclass

from halfsure.report.lines import Curve, Reading, curve
from halfsure.report.markup import text
from halfsure.report.plots import lines, look, swatch
from halfsure.report.reading import Line, Record, number
from halfsure.report.study import Study

__all__ = ["Measure", "Panel", "at", "figure", "figure_of", "legend", "over_steps"]


@dataclass(frozen=True)
class Measure:
    """One number of an evaluation, and what it is called."""

    name: str
    read: Reading


@dataclass(frozen=True)
class Panel:
    """Measures of one kind, which may share an axis."""

    title: str
    y: str
    measures: tuple[Measure, ...]
    top: float | None = None
    """Where the axis ends; above the highest value if not given."""
    keep_zero: bool = True
    """Whether a measure that is 0 throughout is shown; a loss term that a method does not have is not."""


def at(*keys: str, scale: float = 1.0) -> Reading:
    """Read the number at the end of some keys."""

    def read(_: Record, line: Line) -> float | None:
        found = number(line, *keys)
        return None if found is None else scale * found

    return read


def over_steps(study: Study, name: str, title: str, panels: Sequence[Panel], caption: str) -> str:
    """A figure of curves; empty if nothing of it was measured."""
    plots, several = [], len(study.groups) > 1
    for place, panel in enumerate(panels):
        found = [(measure, _curves(study, panel, measure)) for measure in panel.measures]
        found = [(measure, curves) for measure, curves in found if curves]
        if several:
            for number_, (measure, curves) in enumerate(found):
                plots.append(_plot(f"{name}-{place}-{number_}", panel, measure.name, curves))
        elif found:
            ends = [(measure.name, k, curves[0][2]) for k, (measure, curves) in enumerate(found)]
            key = legend([(measure, k) for measure, k, _ in ends]) if len(ends) > 1 else ""
            plots.append(_plot(f"{name}-{place}", panel, panel.title, ends) + key)
    if not plots:
        return ""
    key = legend([(group.name, k) for k, group in enumerate(study.groups)]) if several else ""
    return figure_of(title, key, plots, caption + _bands(study))


def figure_of(title: str, key: str, plots: Sequence[str], caption: str) -> str:
    """Plots side by side where there is room, under a title, with words on how to read them."""
    cells = "\n".join(f'<div class="cell">{plot}</div>' for plot in plots)
    twos = " twos" if len(plots) in (2, 4) else ""
    return figure(title, f'{key}\n<div class="plots{twos}">\n{cells}\n</div>', caption, one=len(plots) == 1)


def figure(title: str, content: str, caption: str, *, one: bool = False) -> str:
    """Anything that is looked at, with its title and caption; beside a single plot there is room for the caption."""
    kind = ' class="one"' if one else ""
    return f"<figure{kind}>\n<h3>{text(title)}</h3>\n{content}\n<figcaption>{text(caption)}</figcaption>\n</figure>"


def legend(names: Sequence[tuple[str, int]]) -> str:
    """Names beside pieces of their lines."""
    items = "".join(f"<li>{swatch(place)}{text(name)}</li>" for name, place in names)
    return f'<ul class="legend">{items}</ul>'


def _curves(study: Study, panel: Panel, measure: Measure) -> list[tuple[str, int, Curve]]:
    found = []
    for place, group in enumerate(study.groups):
        drawn = curve(group, measure.read)
        if drawn is not None and (panel.keep_zero or any(drawn.high)):
            found.append((group.name, place, drawn))
    return found


def _plot(name: str, panel: Panel, title: str, curves: Sequence[tuple[str, int, Curve]]) -> str:
    ends = "; ".join(f"{who} {drawn.mean[-1]:.4g}" for who, _, drawn in curves)
    label = f"{title} ({panel.y}) over steps. At the last step: {ends}."
    drawn = [(found, look(place)) for _, place, found in curves]
    return lines(name, drawn, title=title, y=panel.y, label=label, top=panel.top)


def _bands(study: Study) -> str:
    seeds = {len(group.records) for group in study.groups}
    return " Lines are means over seeds, bands reach from the lowest to the highest seed." if max(seeds) > 1 else ""
