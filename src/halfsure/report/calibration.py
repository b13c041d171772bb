"""Reliability diagrams: whether predictions are right as often as they claim."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from halfsure.report.elements import Cell, Figure, Plot, Table, number_cell, share_cell
from halfsure.report.plots import QUIET, draw, look
from halfsure.report.reading import number, within
from halfsure.report.study import Group, Study, mean_sd
from halfsure.report.wording import percent

__all__ = ["Bin", "calibration", "pooled"]


@dataclass(frozen=True)
class Bin:
    """The samples whose largest probability falls into (lower, upper]."""

    lower: float
    upper: float
    count: int
    confidence: float
    """Mean largest probability; of no sample the middle of the bin."""
    accuracy: float


def calibration(study: Study) -> dict[str, object] | None:
    """Section: a reliability diagram a method, and the bins as a table."""
    part = study.part
    if part is None:
        return None
    found = [(place, group, pooled(group, part)) for place, group in enumerate(study.groups)]
    known = [(place, group, bins) for place, group, bins in found if any(b.count for b in bins)]
    if not known:
        return None
    columns = ["method", "from", "to", "samples", "confidence", "accuracy"]
    rows = [_row(group, one) for _, group, bins in known for one in bins if one.count]
    return {
        "figure": Figure([_diagram(study, place, group, bins) for place, group, bins in known]),
        "softmax": [(group.name, mean_sd(group.ends(part, "softmax_ece").values())[0]) for group in study.groups],
        "bins": Table("Reliability bins", columns, rows),
    }


def pooled(group: Group, part: str) -> list[Bin]:
    """The bins of all seeds put together."""
    tables = [within(record.last, part, "reliability") for record in group.records]
    rows = zip(*(found for found in tables if _is_table(found)), strict=False)
    return [_pool(row) for row in rows]


def _is_table(found: object) -> bool:
    return isinstance(found, list) and all(map(_is_bin, found))


def _is_bin(row: object) -> bool:
    """Whether it has a count and shares, as `halfsure.metrics.reliability` gives them; an empty bin has no means."""
    count = number(row, "count")
    means = ("confidence", "accuracy") if count else ()
    shares = [number(row, key) for key in ("lower", "upper", *means)]
    return count is not None and count >= 0 and all(share is not None and 0 <= share <= 1 for share in shares)


def _pool(rows: Sequence[dict[str, float]]) -> Bin:
    lower, upper = rows[0]["lower"], rows[0]["upper"]
    filled = [row for row in rows if row["count"]]
    count = sum(int(row["count"]) for row in filled)
    if not count:
        return Bin(lower, upper, 0, (lower + upper) / 2, 0.0)
    mean = {key: sum(row["count"] * row[key] for row in filled) / count for key in ("confidence", "accuracy")}
    return Bin(lower, upper, count, mean["confidence"], mean["accuracy"])


def _diagram(study: Study, place: int, group: Group, bins: list[Bin]) -> Plot:
    shown, filled = look(place), [one for one in bins if one.count]
    total, most = sum(one.count for one in filled), max(one.count for one in filled)

    def paint(axes: Axes) -> None:
        axes.plot([0, 1], [0, 1], color=QUIET, dashes=(4, 3), linewidth=1)
        for one in filled:
            middle, width = (one.lower + one.upper) / 2, one.upper - one.lower
            alpha = 0.12 + 0.5 * (one.count / most) ** 0.5
            axes.bar(middle, one.accuracy, 0.92 * width, color=shown.colour, alpha=alpha, linewidth=0)
            axes.text(middle, 1.03, _short(one.count), ha="center", color=QUIET, fontsize=8)
        xs, ys = [one.confidence for one in filled], [one.accuracy for one in filled]
        axes.plot(xs, ys, color=shown.colour, marker=shown.marker, linewidth=1.2)
        axes.set_xlim(-0.03, 1.01)
        axes.set_ylim(-0.03, 1.1)
        axes.set_yticks([0, 0.25, 0.5, 0.75, 1])

    ece, _ = mean_sd(group.ends(str(study.part), "ece").values())
    label = f"Reliability diagram of {group.name}: ECE {percent(ece)} over {total} predictions."
    title = f"{group.name}: ECE {percent(ece)}"
    return draw(f"reliability-{place}", paint, title=title, x="largest probability", y="accuracy", label=label)


def _short(count: int) -> str:
    return f"{count / 1000:.0f}k" if count >= 9_950 else f"{count / 1000:.1f}k" if count >= 1000 else str(count)


def _row(group: Group, one: Bin) -> list[Cell]:
    lower, upper, confidence = (number_cell(f"{x:.3f}", x) for x in (one.lower, one.upper, one.confidence))
    count = number_cell(f"{one.count:,}", one.count)
    return [Cell(group.name), lower, upper, count, confidence, share_cell(one.accuracy)]
