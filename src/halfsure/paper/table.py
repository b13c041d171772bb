"""A table of the paper as a declaration: rows of methods, columns of data, its numbers, and how it is scaled down."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from halfsure.paper.cells import Cell, Column, Protocol
from halfsure.paper.tuning import in_words, winner

__all__ = ["Row", "Table", "against", "numbers"]

Numbers = Mapping[str, Mapping[str, tuple[float, ...]]]
"""Test errors in %, with their standard deviation where there is one, by column and row."""


@dataclass(frozen=True)
class Row:
    """A method, or a variant of one."""

    method: str
    against: str | None = None
    """The name of the row it is held against."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What makes it a variant."""
    at_size: Mapping[str, Any] = field(default_factory=dict)
    """What it has in the paper's protocol beside or in place of that."""
    control: str | None = None
    """The name of a second row it is held against, nearer to it: what is left beside the control is its own."""
    called: str = ""
    """The variant's name, where its settings would not do."""

    @property
    def variant(self) -> str:
        """What tells it from other rows of the method: its settings in words, unless it has a name."""
        return self.called or in_words(self.settings)

    @property
    def name(self) -> str:
        """As the table has it, and the names of its cells."""
        return ":".join(filter(None, [self.method, self.variant]))


@dataclass(frozen=True)
class Table:
    """Methods on columns; what the paper has for them, and what the cpu protocol makes of it."""

    name: str
    title: str
    rows: tuple[Row, ...]
    columns: Mapping[Protocol, tuple[Column, ...]]
    steps: int
    """In the cpu protocol; the paper's are those of its preset."""
    seeds: int = 5
    paper: Numbers = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=lambda: {"evaluations": 10, "test_sample": 2000})
    """What all cells of the cpu protocol share: only the last evaluation is on all test samples."""
    families: Mapping[str, str] = field(default_factory=dict)
    """Whose winners the cells of a column have, by the names of both, where it is not the family that takes it."""
    matrix: bool = False
    """Whether its variants are shown as columns."""

    def cells(self, protocol: Protocol, seeds: Iterable[int] | None = None) -> Iterator[Cell]:
        """All methods of a seed before the next seed, so that a table broken off is one of fewer seeds."""
        for seed in range(self.seeds) if seeds is None else seeds:
            for column in self.columns[protocol]:
                for row in self.rows:
                    yield self.cell(protocol, column, row, seed)

    def cell(self, protocol: Protocol, column: Column, row: Row, seed: int) -> Cell:
        """One cell with its settings: in the cpu protocol its family's winner, the table's own, the row's."""
        if protocol == "cpu":
            chosen = winner(column, row.method, self.families.get(str(column)))
            settings = {**chosen, **self.settings, "steps": self.steps, **row.settings}
        else:
            settings = {**row.settings, **row.at_size}
        return Cell(self.name, column, row.method, seed, protocol, settings, variant=row.variant)


def against(base: str, *methods: str) -> tuple[Row, ...]:
    """Rows that are all held against the base."""
    return tuple(Row(method, base) for method in methods)


def numbers(columns: str, rows: str) -> Numbers:
    """Numbers as a table prints them: a line a method, a `mean±sd`, a mean or a – for each column.

    Examples:
        >>> from halfsure.paper.table import numbers
        >>> numbers("mnist@20 svhn@40", "vat 23.76±1.18 –")
        {'mnist@20': {'vat': (23.76, 1.18)}, 'svhn@40': {}}
    """
    found: dict[str, dict[str, tuple[float, ...]]] = {column: {} for column in columns.split()}
    for line in filter(str.strip, rows.splitlines()):
        method, *cells = line.split()
        for column, cell in zip(found, cells, strict=True):
            if cell != "–":
                found[column][method] = tuple(float(number) for number in cell.split("±"))
    return found
