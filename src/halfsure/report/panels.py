"""Measures over steps → figures: for one method all measures of a kind in one plot, for several a plot a measure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from halfsure.report.elements import Figure, Legend, Plot
from halfsure.report.lines import Curve, Reading, curve
from halfsure.report.plots import lines, look
from halfsure.report.reading import Line, Record, number
from halfsure.report.study import Study

__all__ = ["Measure", "Panel", "at", "over_steps"]


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


def over_steps(study: Study, name: str, panels: Sequence[Panel]) -> Figure | None:
    """A figure of curves; None if nothing of it was measured."""
    plots, several = [], len(study.groups) > 1
    for place, panel in enumerate(panels):
        found = [(measure, _curves(study, panel, measure)) for measure in panel.measures]
        found = [(measure, curves) for measure, curves in found if curves]
        if several:
            for number_, (measure, curves) in enumerate(found):
                plots.append(_plot(f"{name}-{place}-{number_}", panel, measure.name, curves))
        elif found:
            ends = [(measure.name, k, curves[0][2]) for k, (measure, curves) in enumerate(found)]
            plot = _plot(f"{name}-{place}", panel, panel.title, ends)
            plots.append(replace(plot, legend=_legend([measure for measure, _, _ in ends])))
    if not plots:
        return None
    bands = any(len(group.records) > 1 for group in study.groups)
    return Figure(plots, _legend([group.name for group in study.groups]), bands)


def _legend(names: Sequence[str]) -> Legend:
    """The looks of lines in their order; a line alone needs no legend."""
    return tuple((name, look(place)) for place, name in enumerate(names)) if len(names) > 1 else ()


def _curves(study: Study, panel: Panel, measure: Measure) -> list[tuple[str, int, Curve]]:
    found = []
    for place, group in enumerate(study.groups):
        drawn = curve(group, measure.read)
        if drawn is not None and (panel.keep_zero or any(drawn.high)):
            found.append((group.name, place, drawn))
    return found


def _plot(name: str, panel: Panel, title: str, curves: Sequence[tuple[str, int, Curve]]) -> Plot:
    ends = "; ".join(f"{who} {drawn.mean[-1]:.4g}" for who, _, drawn in curves)
    label = f"{title} ({panel.y}) over steps. At the last step: {ends}."
    drawn = [(found, look(place)) for _, place, found in curves]
    return lines(name, drawn, title=title, y=panel.y, label=label, top=panel.top)
