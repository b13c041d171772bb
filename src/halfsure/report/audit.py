"""Class by class: what pseudo-labels name, how often they are right, and which classes are still mistaken."""

from halfsure.report.elements import Cell, Table, number_cell, share_cell
from halfsure.report.reading import part_name, within
from halfsure.report.study import Group, Study, mean_sd
from halfsure.report.wording import NOTHING

__all__ = ["audit", "class_mean"]

MOST = 100
"""Classes shown, those with the largest error first if there are more."""


def audit(study: Study) -> dict[str, object] | None:
    """Section: a table a method, that of the best one open."""
    made = [(group, _table(study, group)) for group in study.groups]
    known = [(group, found) for group, found in made if found]
    return {"tables": known} if known else None


def class_mean(group: Group, *keys: str) -> list[float | None]:
    """A list over classes at the last evaluation, averaged over the seeds that have a value. → (classes,)."""
    columns = [within(record.last, *keys) for record in group.records]
    rows = zip(*(column for column in columns if isinstance(column, list)), strict=False)
    return [mean_sd(value for value in row if isinstance(value, int | float))[0] for row in rows]


def _table(study: Study, group: Group) -> Table | None:
    names, columns, classes = [], [], group.first.classes
    for name in ("count", "precision", "coverage", "correct"):
        names.append("named" if name == "count" else name)
        columns.append(class_mean(group, "pseudo_labels", "by_class", name))
    errors = class_mean(group, str(study.part), "class_error")
    if study.part:
        names.append(f"{part_name(study.part)} error")
        columns.append(errors)
    if not any(columns):
        return None
    chosen, note = list(range(len(classes))), ""
    if len(classes) > MOST:
        chosen = sorted(chosen, key=lambda k: -(_at(errors, k) or 0))[:MOST]
        note = f"The {MOST} of {len(classes):,} classes with the largest error."
    rows = [_row(k, classes[k], [_at(column, k) for column in columns]) for k in chosen]
    return Table(f"Pseudo-labels by class, {group.name}", ["class", *names], rows, note=note)


def _row(k: int, name: str, values: list[float | None]) -> list[Cell]:
    """A class, sorted by its place; how often it is named; shares."""
    count, *shares = values
    shown = NOTHING if count is None else f"{count:,.1f}".removesuffix(".0")
    return [Cell(name, float(k)), number_cell(shown, count), *map(share_cell, shares)]


def _at(values: list[float | None], k: int) -> float | None:
    return values[k] if k < len(values) else None
