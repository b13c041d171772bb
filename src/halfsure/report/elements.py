"""What sections consist of, as plain data; templates/elements.html says how it looks."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from halfsure.report.wording import percent

__all__ = ["Cell", "Figure", "Legend", "Look", "Plot", "Table", "number_cell", "share_cell"]


@dataclass(frozen=True)
class Cell:
    """A cell of a table: what it shows, and what it is sorted by."""

    shown: object
    value: float | None = None
    numeric: bool = False
    warning: str = ""


def number_cell(shown: object, value: float | None) -> Cell:
    """A cell that is sorted by a number."""
    return Cell(shown, value, numeric=True)


def share_cell(share: float | None, sd: float | None = None) -> Cell:
    """A share in percent, with its deviation if there is one."""
    return number_cell(percent(share, sd), share)


@dataclass(frozen=True)
class Table:
    """A table; the first cell of a row is its head."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    sortable: bool = True
    note: str = ""

    @property
    def heads(self) -> list[tuple[str, bool]]:
        """The columns, and whether each holds numbers."""
        return [(name, any(row[k].numeric for row in self.rows)) for k, name in enumerate(self.columns)]


@dataclass(frozen=True)
class Look:
    """How a line looks: a colour, and for those who cannot tell colours apart a dash and a marker."""

    colour: str
    dash: tuple[float, ...]
    marker: str
    variable: str
    """The colour's name in the style sheet."""


Legend = tuple[tuple[str, Look], ...]
"""Names, each with the look of its line."""


@dataclass(frozen=True)
class Plot:
    """One drawing."""

    title: str
    label: str
    """What is in it, for those who cannot see it."""
    box: str
    """Its corner and size, as SVG's viewBox has them."""
    shapes: Markup
    legend: Legend = ()


@dataclass(frozen=True)
class Figure:
    """Plots that belong together."""

    plots: Sequence[Plot]
    legend: Legend = ()
    bands: bool = False
    """Whether there are several seeds to a line."""
