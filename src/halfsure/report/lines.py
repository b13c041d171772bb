"""Evaluations of several seeds → one curve over steps."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from halfsure.report.reading import Line, Record
from halfsure.report.study import Group

__all__ = ["Curve", "Reading", "curve", "thin"]

Reading = Callable[[Record, Line], float | None]
"""What to read from an evaluation of a run."""

POINTS = 60
"""More points than these cannot be told apart on a page."""


@dataclass(frozen=True)
class Curve:
    """Mean over seeds, and the lowest and highest of them, at each step."""

    steps: list[int]
    mean: list[float]
    low: list[float]
    high: list[float]
    seeds: int


def curve(group: Group, reading: Reading) -> Curve | None:
    """The curve of a group; None if no evaluation has the value.

    It is taken at the steps of the first seed, as far as every seed got. Seeds that were evaluated at other steps, as
    runs with a time limit are, enter by the straight line between their evaluations.
    """
    found = [_points(record, reading) for record in group.records]
    known = [points for points in found if points[0]]
    if not known:
        return None
    first, last = max(steps[0] for steps, _ in known), min(steps[-1] for steps, _ in known)
    steps = [step for step in known[0][0] if first <= step <= last]
    if not steps:
        return None
    steps = [steps[k] for k in thin(len(steps))]
    values = np.array([np.interp(steps, *points) for points in known])
    mean, low, high = (part.tolist() for part in (values.mean(0), values.min(0), values.max(0)))
    return Curve(steps, mean, low, high, len(known))


def thin(count: int, points: int = POINTS) -> list[int]:
    """At most so many of `count` places, evenly, the first and the last among them."""
    return sorted(set(np.linspace(0, count - 1, min(count, points)).round().astype(int).tolist()))


def _points(record: Record, reading: Reading) -> tuple[list[int], list[float]]:
    read = [(line["step"], reading(record, line)) for line in record.metrics]
    known = [(step, value) for step, value in read if value is not None]
    return [step for step, _ in known], [value for _, value in known]
