"""What came out, in words and as a table."""

from pathlib import Path
from typing import Any

from halfsure.metrics import paired_difference
from halfsure.report.markup import NOTHING, Cell, cell, listed, number_cell, percent, section, signed, table, text
from halfsure.report.reading import Record, number, part_name
from halfsure.report.study import Errors, Group, Study, mean_sd
from halfsure.runs.run import readings

__all__ = ["collapsed", "difference", "summary"]

CAPTION = "Results by method"
NO_ERROR = (
    "No label beside those trained on is known, so there is no error to report; what held-out labels say, if the run "
    "was checked, is under Trust."
)


def summary(study: Study) -> str:
    """Section: the result."""
    words = _one_run(study) if study.single else _several(study)
    warned = "".join(f'<p class="warning">{text(note)}</p>\n' for note in [*collapsed(study), *study.remarks])
    return section("summary", "Summary", f'<p class="lead">{text(words)}</p>\n{warned}{_table(study)}\n{_note(study)}')


def collapsed(study: Study) -> list[str]:
    """A sentence for each run that has given up classes."""
    return [
        f"Collapsed: {record.method} with seed {record.seed} predicts {record.constant} for every sample."
        if record.constant is not None
        else f"Collapsed: {record.method} with seed {record.seed} hardly predicts {listed(record.dead)} any more, "
        "although such samples are there."
        for record in study.records
        if record.dead or record.constant is not None
    ]


def difference(study: Study, errors: Errors) -> dict[str, Any] | None:
    """Paired difference to the reference in points, over the seeds both have; None if they share none."""
    reference = study.reference.ends(str(study.part), "error")
    shared = sorted(set(reference) & set(errors))
    found = paired_difference([100 * reference[seed] for seed in shared], [100 * errors[seed] for seed in shared])
    return found if shared else None


def _one_run(study: Study) -> str:
    record, part = study.records[0], study.part
    begun = f"{record.method} on {_data(study)}, seed {record.seed}, {record.last['step']:,} steps."
    if part is None:
        return f"{begun} {NO_ERROR}{_unjudged(study)}"
    error = number(record.last, part, "error") or 0.0
    words = f"{begun} Error on {part_name(part)} samples: {percent(error)} at the end{_readings(record, part)}."
    sure, ece = number(record.last, part, "dominant"), number(record.last, part, "ece")
    if sure is not None:
        words += (
            f" The model is {100 * sure:.1f} % sure on average and right in {100 * (1 - error):.1f} % of cases; "
            f"calibration error (ECE) {percent(ece)}."
        )
    many, hit = (number(record.last, part, f"{record.own}{name}") for name in ("support", "top_m_accuracy"))
    if many is not None and hit is not None:
        words += (
            f" {'Read through sparsemax, it' if record.own else 'It'} leaves {many:.2f} candidate classes a sample, "
            f"and the truth is among them in {100 * hit:.1f} % of cases."
        )
    return words


def _unjudged(study: Study) -> str:
    """What can be told of predictions without knowing the truth."""
    record, where = study.records[0], str(study.unlabeled)
    sure, many = number(record.last, where, "dominant"), number(record.last, where, f"{record.own}support")
    if sure is None or many is None:
        return ""
    return f" On unlabeled samples the model is {100 * sure:.1f} % sure on average, with {many:.2f} candidate classes."


def _readings(record: Record, part: str) -> str:
    """The other honest ways to read a test error."""
    if part != "test":
        return ""
    found = record.settings.get("last")
    last = found if type(found) is int and found > 0 else 1
    ways = readings(record.metrics, last)
    names = {"median": f"median of the last {last} evaluations", "validated": "where validation was best"}
    return "".join(f", {percent(ways[way])} {name}" for way, name in names.items() if ways[way] is not None)


def _several(study: Study) -> str:
    seeds = sorted({record.seed for record in study.records})
    methods = f"{len(study.groups)} methods" if len(study.groups) > 1 else study.groups[0].name
    begun = f"{methods} on {_data(study)}, {_seeds(seeds)}."
    if study.part is None:
        return f"{begun} {NO_ERROR}"
    errors = study.best.ends(study.part, "error")
    shown = f"{percent(*mean_sd(errors.values()))} {part_name(study.part)} error"
    if len(study.groups) == 1:
        return f"{begun} At the end: {shown}."
    return f"{begun} Lowest at the end is {study.best.name} with {shown}{_margin(study, errors)}."


def _seeds(seeds: list[int]) -> str:
    if len(seeds) > 3 and seeds == list(range(seeds[0], seeds[-1] + 1)):
        return f"seeds {seeds[0]} to {seeds[-1]}"
    return f"seed{'s' * (len(seeds) > 1)} {listed([str(seed) for seed in seeds])}"


def _margin(study: Study, errors: Errors) -> str:
    """How far the best method is from the reference, and whether that may be chance."""
    found = difference(study, errors)
    if study.best is study.reference or found is None:
        return ""
    way = "below" if found["mean"] < 0 else "above"
    words = f", {abs(found['mean']):.2f} points {way} {study.reference.name}"
    if found["low"] is None:
        return f"{words}; one seed cannot tell whether that is chance"
    sure = "it leaves out zero" if found["low"] * found["high"] > 0 else "chance cannot be ruled out"
    # The lowest of several was picked by these very errors, which no interval of one pair knows of.
    picked = ", though it does not know that the lowest was picked" if len(study.groups) > 2 else ""
    return f"{words} (95 % interval {signed(found['low'])} to {signed(found['high'])}: {sure}{picked})"


def _data(study: Study) -> str:
    names = sorted({Path(record.data_name).name or record.data_name for record in study.records})
    labels = sorted({int(number(record.about_data, "labeled") or 0) for record in study.records})
    counts = listed([f"{count:,}" for count in labels], "or")
    shape = study.records[0].about_data.get("shape")
    count = shape[0] if isinstance(shape, list) and shape else None
    size = f" of {count:,} samples" if len(names) == 1 and type(count) is int else ""
    return f"{listed(names)} with {counts} labels{size}, {len(study.records[0].classes)} classes"


def _table(study: Study) -> str:
    compared = len(study.groups) > 1 or bool(study.baselines)
    if study.part is None:
        columns = ["method", "candidates", "seeds", "steps"]
        rows = [[_name(group), _candidates(study, group), *_length(group)] for group in study.groups]
        return table(columns, rows, caption=CAPTION)
    columns = ["method", f"{part_name(study.part)} error"]
    columns += [f"against {study.reference.name}, points"] if compared else []
    columns += ["ECE", "candidates", "truth among them", "seeds", "steps"]
    rows = [_group_row(study, group, study.part, compared) for group in study.groups]
    rows += [_baseline_row(study, name, errors) for name, errors in study.baselines.items()]
    return table(columns, rows, caption=CAPTION)


def _group_row(study: Study, group: Group, part: str, compared: bool) -> list[Cell]:
    errors = group.ends(part, "error")
    hit, _ = mean_sd(group.ends(part, f"{group.first.own}top_m_accuracy").values())
    return [
        _name(group),
        _share(errors),
        *([_against(study, errors, group is study.reference)] if compared else []),
        _share(group.ends(part, "ece")),
        _candidates(study, group),
        number_cell(NOTHING if hit is None else f"{percent(hit)}{_mark(group)}", hit),
        *_length(group),
    ]


def _baseline_row(study: Study, name: str, errors: Errors) -> list[Cell]:
    nothing = number_cell(NOTHING, None)
    seeds = number_cell(str(len(errors)), len(errors))
    return [cell(name), _share(errors), _against(study, errors, False), nothing, nothing, nothing, seeds, nothing]


def _name(group: Group) -> Cell:
    dead = sorted({name for record in group.records for name in record.dead})
    only = sorted({record.constant for record in group.records if record.constant is not None})
    told = f"predicts only {listed(only, 'or')}" if only else f"collapsed: {listed(dead)}"
    mark = f' <span class="dead">{text(told)}</span>' if dead or only else ""
    return Cell(text(group.name) + mark)


def _candidates(study: Study, group: Group) -> Cell:
    where = str(study.part or study.unlabeled)
    many, _ = mean_sd(group.ends(where, f"{group.first.own}support").values())
    return number_cell(NOTHING if many is None else f"{many:.2f}{_mark(group)}", many)


def _mark(group: Group) -> str:
    return " *" if group.first.own else ""


def _length(group: Group) -> tuple[Cell, Cell]:
    """How many seeds, and how many steps they did."""
    steps = sorted({int(record.last["step"]) for record in group.records})
    shown = " … ".join(f"{step:,}" for step in dict.fromkeys((steps[0], steps[-1])))
    return number_cell(str(len(group.records)), len(group.records)), number_cell(shown, steps[-1])


def _share(by_seed: dict[int, float]) -> Cell:
    mean, sd = mean_sd(by_seed.values())
    return number_cell(percent(mean, sd), mean)


def _against(study: Study, errors: Errors, itself: bool) -> Cell:
    found = difference(study, errors)
    if itself or found is None:
        return number_cell(NOTHING, 0.0 if itself else None)
    span = "" if found["low"] is None else f" [{signed(found['low'])}, {signed(found['high'])}]"
    return number_cell(signed(found["mean"]) + span, found["mean"])


def _note(study: Study) -> str:
    several = any(len(group.records) > 1 for group in study.groups)
    words = []
    if study.part is not None:
        words.append("Error at the last evaluation" + (", mean ± standard deviation over seeds." if several else "."))
        if len(study.groups) > 1 or study.baselines:
            interval = ", with its 95 % Student-t interval" if several else ""
            words.append(f"The difference is paired by seed{interval}; below zero is better.")
        words.append("ECE is the expected calibration error in the map the model was trained in.")
    words.append("Candidates are the classes with a probability above zero.")
    if any(group.first.own for group in study.groups):
        words.append("* In softmax that is every class: read through sparsemax instead.")
    return f'<p class="note">{text(" ".join(words))}</p>'
