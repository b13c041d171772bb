"""Curves and bins → inline SVG, drawn by matplotlib, in colours that the page's style sheet chooses."""

import io
from collections.abc import Callable, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from halfsure.report.elements import Look, Plot
from halfsure.report.lines import Curve
from halfsure.report.svg import inline

__all__ = ["COLOURS", "INK", "QUIET", "draw", "lines", "look"]

COLOURS = 8
"""How many colours the style sheet has; a safe set for colour-blind readers, after Okabe and Ito."""

# Stand-ins that matplotlib draws with and the style sheet's variables take the place of.
INK, QUIET, RULE = "#010101", "#010102", "#010103"
STANDINS = {INK: "ink", QUIET: "quiet", RULE: "rule"} | {f"#0102{k:02x}": f"c{k}" for k in range(COLOURS)}

DASHES = ((), (6, 2), (2, 1.5), (7, 2, 1.5, 2), (4, 1.5), (1, 1), (9, 3), (4, 1, 1, 1, 1, 1))
MARKERS = "os^Dv<>"
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "halfsure",
    "text.parse_math": False,
    "font.size": 11,
    "axes.labelcolor": QUIET,
    "axes.edgecolor": RULE,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "xtick.color": RULE,
    "ytick.color": RULE,
    "xtick.labelcolor": QUIET,
    "ytick.labelcolor": QUIET,
    "lines.linewidth": 1.8,
    "lines.markersize": 4.5,
}
SIZE = (4.6, 3.1)  # in inches of 72 units
MARKS = 8


def look(place: int) -> Look:
    """The look of the k-th line; no two of the first 56 are the same."""
    colour = place % COLOURS
    return Look(f"#0102{colour:02x}", DASHES[colour], MARKERS[place % len(MARKERS)], f"c{colour}")


def draw(name: str, paint: Callable[[Axes], object], *, title: str, x: str, y: str, label: str) -> Plot:
    """One set of axes; `name` is what its ids begin with."""
    with mpl.rc_context():
        mpl.rcdefaults()  # a reader's own settings of matplotlib have no place here
        mpl.rcParams.update(STYLE)
        figure = Figure(figsize=SIZE, layout="constrained")
        axes = figure.add_subplot()
        paint(axes)
        axes.set_xlabel(x)
        axes.set_ylabel(y)
        axes.tick_params(length=0)
        out = io.StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(out, format="svg", transparent=True, metadata=nothing)
    # The title is HTML: it wraps, and a name in any script finds its letters in the reader's fonts.
    return Plot(title, label, *inline(out.getvalue(), name, STANDINS))


def lines(
    name: str, curves: Sequence[tuple[Curve, Look]], *, title: str, y: str, label: str, top: float | None = None
) -> Plot:
    """Curves over steps, from 0 up to `top` or all there is, with a band from the lowest to the highest seed."""

    def paint(axes: Axes) -> None:
        for curve, shown in curves:
            if curve.seeds > 1:
                axes.fill_between(curve.steps, curve.low, curve.high, color=shown.colour, alpha=0.16, linewidth=0)
            every = max(1, len(curve.steps) // MARKS)
            axes.plot(
                curve.steps,
                curve.mean,
                color=shown.colour,
                dashes=shown.dash or (None, None),
                marker=shown.marker,
                markevery=every,
            )
        highest = max(max(curve.high) for curve, _ in curves)
        axes.set_ylim(0, 1.08 * highest or 1 if top is None else top)
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.xaxis.set_major_formatter(lambda step, _: f"{step:,.0f}")

    return draw(name, paint, title=title, x="step", y=y, label=label)
