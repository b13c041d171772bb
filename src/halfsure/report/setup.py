"""Settings of the runs, those that differ from the preset first, and what they ran on."""

import shlex
from pathlib import Path
from typing import Any

import numpy as np

from halfsure.bank.opening import DataSettings, path_settings
from halfsure.data import Data, Part
from halfsure.report.elements import Cell, Table, number_cell
from halfsure.report.reading import Record, within
from halfsure.report.study import Group, Study
from halfsure.report.wording import NOTHING, listed
from halfsure.settings import declared
from halfsure.settings.registry import every_part
from halfsure.training.presets import preset

__all__ = ["by_preset", "command", "settings"]

ALWAYS = ("method", "preset", "seed")
"""Settings that a preset is chosen by, and so cannot differ from."""


def settings(study: Study) -> dict[str, object]:
    """Section: how to get the same again."""
    known = [(group, by_preset(group.first)) for group in study.groups]
    return {
        "again": [] if study.command else [line for line in map(command, study.records) if line is not None],
        "changed": _changed(known),
        "lost": listed([group.name for group, expected in known if expected is None]),
        "every": _all(study),
        "runs": _runs(study),
    }


def by_preset(record: Record) -> dict[str, Any] | None:
    """What the run's preset says for its data and method; None where that cannot be told.

    A preset looks at the kind, shape, name and classes of the data alone, so samples without content stand in for them.
    Whether rows hold texts is not known of them: the views are taken for those of the data.
    """
    shape, classes = record.about_data.get("shape"), record.classes
    try:
        samples = np.broadcast_to(np.uint8(0), tuple(shape or ()))
        labels = np.arange(len(samples)) % len(classes)
        kind = "image" if samples.ndim == 4 else "array"
        data = Data(str(record.about_data["name"]), kind, classes, Part(samples, labels), np.arange(len(classes)))
        own = {name: record.settings[name] for name in ("net", "optimizer", "views") if name in record.settings}
        usual = preset(data, record.method, str(record.settings["preset"]), record.seed)
        return usual.replace(**own).plain | {name: usual.plain[name] for name in own if name != "views"}
    except Exception:  # whatever an old or edited config.json lacks, the settings themselves can still be shown
        return None


def command(record: Record) -> str | None:
    """A command that gives the same settings; None for runs that were begun from Python."""
    source, expected = record.config.get("source"), by_preset(record)
    if source is None or record.config.get("net") is None or expected is None:
        return None
    words = ["halfsure", "train", record.data_name]
    told = within(record.config, "data")
    own = within(told, "reader")
    usual = {setting.name: setting.default for setting in declared(DataSettings)}
    for name, given in {**(told if isinstance(told, dict) else {}), **(own if isinstance(own, dict) else {})}.items():
        value = Path(given).name if name in path_settings() and isinstance(given, str) else given  # not whose it is
        words += _option(name, value) if name != "reader" and value not in (usual.get(name), None, False) else []
    for name in ALWAYS:
        words += _option(name, record.settings.get(name))
    timed = {"steps"} if record.settings.get("time") else set()
    for name, value in record.settings.items():
        words += _option(name, value) if name not in {*ALWAYS, *timed} and _differs(name, value, expected) else []
    return shlex.join(words)


def _differs(name: str, value: Any, expected: dict[str, Any]) -> bool:
    """Whether a setting is another than the preset's; of version 0.1 some are recorded that have no meaning now."""
    return name in expected and value != expected[name]


def _option(name: str, value: Any) -> list[str]:
    flag = name.replace("_", "-")
    if isinstance(value, bool) and name not in _worded():
        return [f"--{flag}" if value else f"--no-{flag}"]
    return [f"--{flag}", *([str(item) for item in value] if isinstance(value, list) else [str(value)])]


def _worded() -> set[str]:
    """Settings that are true, false or neither: their options take a word."""
    return {one.name for _, part in every_part() for one in declared(part.Settings) if one.type == bool | None}


def _changed(known: list[tuple[Group, dict[str, Any] | None]]) -> Table:
    """A row for each change, with the methods that have it."""
    changes: dict[tuple[str, str, str], list[str]] = {}
    for group, expected in known:
        for name, value in group.first.settings.items() if expected is not None else ():
            if name not in ALWAYS and expected is not None and _differs(name, value, expected):
                changes.setdefault((name, _shown(value), _shown(expected.get(name))), []).append(group.name)
    every = len(known) > 1 and len(known)
    rows = [
        [*map(Cell, change), Cell("all" if len(names) == every else listed(names))] for change, names in changes.items()
    ]
    return Table("Settings beside the preset", ["setting", "value", "preset", "method"], rows)


def _all(study: Study) -> Table:
    names = list(dict.fromkeys(name for group in study.groups for name in group.first.settings if name != "seed"))
    rows = [[Cell(name), *(Cell(_shown(group.first.settings.get(name))) for group in study.groups)] for name in names]
    return Table("All settings", ["setting", *(group.name for group in study.groups)], rows, sortable=False)


def _runs(study: Study) -> Table:
    versions = list(dict.fromkeys(name for record in study.records for name in _versions(record)))
    rows = [
        [
            Cell(record.path.resolve().name),
            Cell(record.method),
            number_cell(record.seed, record.seed),
            Cell(record.config.get("created") or NOTHING),
            *(Cell(_versions(record).get(name, NOTHING)) for name in versions),
            Cell(str(record.config.get("git") or NOTHING)[:12]),
        ]
        for record in study.records
    ]
    return Table("Runs", ["folder", "method", "seed", "begun", *versions, "git revision"], rows)


def _versions(record: Record) -> dict[str, Any]:
    found = record.config.get("versions")
    return found if isinstance(found, dict) else {}


def _shown(value: Any) -> str:
    return NOTHING if value is None else " ".join(map(str, value)) if isinstance(value, list) else str(value)
