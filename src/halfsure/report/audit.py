"""Class by class: what pseudo-labels name, how often they are right, and which classes are still mistaken."""

from halfsure.report.markup import NOTHING, Cell, details, number_cell, percent, section, table, text
from halfsure.report.reading import part_name, within
from halfsure.report.study import Group, Study, mean_sd

__all__ = ["audit", "class_mean"]

MOST = 100
"""Classes shown, those with the largest error first if there are more."""


def audit(study: Study) -> str:
    """Section: a table a method, that of the best one open."""
    made = [(group, _table(study, group)) for group in study.groups]
    known = [(group, found) for group, found in made if found]
    if not known:
        return ""
    where = f" The last column is the error on {part_name(study.part)} samples of the class." if study.part else ""
    words = (
        "Pseudo-labels are what the method's own strategy would make of the unlabeled samples that were scored; for "
        "methods without targets the best class where its probability is at least 0.95. Named: how many name the "
        "class; precision: how many of these are right; coverage: how many samples of the class get any pseudo-label; "
        f"correct: how many get the right one.{where}{' Means over seeds.' if not study.single else ''}"
    )
    tables = [
        found if len(known) == 1 else details(group.name, found, open=group is study.best) for group, found in known
    ]
    return section("audit", "Pseudo-labels by class", f'<p class="note">{text(words)}</p>\n' + "\n".join(tables))


def class_mean(group: Group, *keys: str) -> list[float | None]:
    """A list over classes at the last evaluation, averaged over the seeds that have a value. → (classes,)."""
    columns = [within(record.last, *keys) for record in group.records]
    rows = zip(*(column for column in columns if isinstance(column, list)), strict=False)
    return [mean_sd(value for value in row if isinstance(value, int | float))[0] for row in rows]


def _table(study: Study, group: Group) -> str:
    names, columns, classes = [], [], group.first.classes
    for name in ("count", "precision", "coverage", "correct"):
        names.append("named" if name == "count" else name)
        columns.append(class_mean(group, "pseudo_labels", "by_class", name))
    errors = class_mean(group, str(study.part), "class_error")
    if study.part:
        names.append(f"{part_name(study.part)} error")
        columns.append(errors)
    if not any(columns):
        return ""
    chosen, note = list(range(len(classes))), ""
    if len(classes) > MOST:
        chosen = sorted(chosen, key=lambda k: -(_at(errors, k) or 0))[:MOST]
        note = f'<p class="note">The {MOST} of {len(classes):,} classes with the largest error.</p>'
    rows = [_row(k, classes[k], [_at(column, k) for column in columns]) for k in chosen]
    return note + table(["class", *names], rows, caption=f"Pseudo-labels by class, {group.name}")


def _row(k: int, name: str, values: list[float | None]) -> list[Cell]:
    """A class, sorted by its place; how often it is named; shares."""
    count, *shares = values
    shown = NOTHING if count is None else f"{count:,.1f}".removesuffix(".0")
    cells = [number_cell(percent(share), share) for share in shares]
    return [Cell(text(name), float(k)), number_cell(shown, count), *cells]


def _at(values: list[float | None], k: int) -> float | None:
    return values[k] if k < len(values) else None
