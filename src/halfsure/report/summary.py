"""What came out, in words and as a table."""

from typing import Any

from halfsure.metrics import paired_difference
from halfsure.report.elements import Cell, Table, number_cell, share_cell
from halfsure.report.reading import Record, number, part_name, within
from halfsure.report.study import Errors, Group, Study, mean_sd
from halfsure.report.wording import NOTHING, listed, percent, signed
from halfsure.runs.run import readings

__all__ = ["difference", "summary"]


def summary(study: Study) -> dict[str, object]:
    """Section: the result."""
    errors = study.best.ends(str(study.part), "error")
    return {
        "data": _data(study),
        "seeds": _seeds(sorted({record.seed for record in study.records})),
        "run": _one_run(study.records[0], str(study.part or study.unlabeled)) if study.single else None,
        "lowest": percent(*mean_sd(errors.values())),
        "margin": None if study.best is study.reference else difference(study, errors),
        "table": _table(study),
    }


def difference(study: Study, errors: Errors) -> dict[str, Any] | None:
    """Paired difference to the reference in points, over the seeds both have; None if they share none."""
    reference = study.reference.ends(str(study.part), "error")
    shared = sorted(set(reference) & set(errors))
    found = paired_difference([100 * reference[seed] for seed in shared], [100 * errors[seed] for seed in shared])
    return found if shared else None


def _one_run(record: Record, part: str) -> dict[str, Any]:
    """What the last evaluation says, and the other honest ways to read a test error."""
    names = {name: name for name in ("error", "dominant", "ece")}
    names |= {name: f"{record.own}{name}" for name in ("support", "top_m_accuracy")}
    found = record.settings.get("last")
    last = found if type(found) is int and found > 0 else 1
    ways = readings(record.metrics, last) if part == "test" else {"median": None, "validated": None}
    return {name: number(record.last, part, key) for name, key in names.items()} | ways | {"last": last}


def _seeds(seeds: list[int]) -> str:
    if len(seeds) > 3 and seeds == list(range(seeds[0], seeds[-1] + 1)):
        return f"seeds {seeds[0]} to {seeds[-1]}"
    return f"seed{'s' * (len(seeds) > 1)} {listed([str(seed) for seed in seeds])}"


def _data(study: Study) -> str:
    names = sorted({record.data_name for record in study.records})
    labels = sorted({int(number(record.about_data, "labeled") or 0) for record in study.records})
    counts = listed([f"{count:,}" for count in labels], "or")
    shape = study.records[0].about_data.get("shape")
    count = shape[0] if isinstance(shape, list) and shape else None
    size = f" of {count:,} samples" if len(names) == 1 and type(count) is int else ""
    tuned = {str(within(record.config, "tuned", "name") or "") for record in study.records}
    seen = f", seen through {min(tuned)}, which these labels tuned" if len(tuned) == 1 and "" not in tuned else ""
    return f"{listed(names)} with {counts} labels{size}, {len(study.records[0].classes)} classes{seen}"


def _table(study: Study) -> Table:
    caption, compared = "Results by method", len(study.groups) > 1 or bool(study.baselines)
    if study.part is None:
        columns = ["method", "candidates", "seeds", "steps"]
        rows = [[_name(group), _candidates(study, group), *_length(group)] for group in study.groups]
        return Table(caption, columns, rows)
    columns = ["method", f"{part_name(study.part)} error"]
    columns += [f"against {study.reference.name}, points"] if compared else []
    columns += ["ECE", "candidates", "truth among them", "seeds", "steps"]
    rows = [_group_row(study, group, study.part, compared) for group in study.groups]
    rows += [_baseline_row(study, name, errors) for name, errors in study.baselines.items()]
    return Table(caption, columns, rows)


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
    return [Cell(name), _share(errors), _against(study, errors, False), nothing, nothing, nothing, seeds, nothing]


def _name(group: Group) -> Cell:
    dead = sorted({name for record in group.records for name in record.dead})
    only = sorted({record.constant for record in group.records if record.constant is not None})
    told = f"predicts only {listed(only, 'or')}" if only else f"collapsed: {listed(dead)}"
    return Cell(group.name, warning=told if dead or only else "")


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
    return share_cell(*mean_sd(by_seed.values()))


def _against(study: Study, errors: Errors, itself: bool) -> Cell:
    found = difference(study, errors)
    if itself or found is None:
        return number_cell(NOTHING, 0.0 if itself else None)
    span = "" if found["low"] is None else f" [{signed(found['low'])}, {signed(found['high'])}]"
    return number_cell(signed(found["mean"]) + span, found["mean"])
