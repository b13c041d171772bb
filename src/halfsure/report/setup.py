"""Settings of the runs, those that differ from the preset first, and what they ran on."""

import shlex
from dataclasses import fields
from typing import Any

import numpy as np

from halfsure.data import Data, Part
from halfsure.data.dataset import Kind
from halfsure.data.opening import DataConfig
from halfsure.report.markup import Cell, cell, details, listed, section, table, text
from halfsure.report.reading import Record
from halfsure.report.study import Study
from halfsure.training.presets import preset

__all__ = ["by_preset", "command", "settings"]

ALWAYS = ("method", "preset", "seed")
"""Settings that a preset is chosen by, and so cannot differ from."""


def settings(study: Study) -> str:
    """Section: how to get the same again."""
    parts = [
        _commands(study),
        _changed(study),
        details("All settings", _all(study)),
        details("Runs, versions and dates", _runs(study)),
    ]
    return section("settings", "Settings", "\n".join(part for part in parts if part))


def by_preset(record: Record) -> dict[str, Any] | None:
    """What the run's preset says for its data and method; None where that cannot be told.

    A preset looks at the kind, shape, name and classes of the data alone, so samples without content stand in for them.
    """
    shape, classes = record.about_data.get("shape"), record.classes
    try:
        samples = np.broadcast_to(np.uint8(0), tuple(shape or ()))
        labels = np.arange(len(samples)) % len(classes)
        kind: Kind = "image" if samples.ndim == 4 else "array"
        data = Data(str(record.about_data["name"]), kind, classes, Part(samples, labels), np.arange(len(classes)))
        return preset(data, record.method, str(record.settings["preset"]), record.seed).as_json()
    except Exception:  # whatever an old or edited config.json lacks, the settings themselves can still be shown
        return None


def command(record: Record) -> str | None:
    """A command that gives the same settings; None for runs that were begun from Python."""
    source, expected = record.config.get("source"), by_preset(record)
    if source is None or record.config.get("net") is None or expected is None:
        return None
    words = ["halfsure", "train", str(source)]
    usual = {item.name: item.default for item in fields(DataConfig)}
    for name, value in (record.config.get("data") or {}).items():
        words += _option(name, value) if value != usual.get(name) else []
    for name in ALWAYS:
        words += _option(name, record.settings.get(name))
    timed = {"steps"} if record.settings.get("time") else set()
    for name, value in record.settings.items():
        words += _option(name, value) if name not in {*ALWAYS, *timed} and value != expected.get(name) else []
    return shlex.join(words)


def _option(name: str, value: Any) -> list[str]:
    flag = name.replace("_", "-")
    if isinstance(value, bool):
        return [f"--{flag}" if value else f"--no-{flag}"]
    return [f"--{flag}", *([str(item) for item in value] if isinstance(value, list) else [str(value)])]


def _commands(study: Study) -> str:
    if study.command is not None:
        return f"<p>Made by:</p>\n<pre>{text(study.command)}</pre>"
    found = [command(record) for record in study.records]
    known = [line for line in found if line is not None]
    if not known:
        return '<p class="note">Begun from Python, with data or a network of one\'s own.</p>'
    return f"<p>To train {'it' if len(known) == 1 else 'them'} again:</p>\n<pre>{text(chr(10).join(known))}</pre>"


def _changed(study: Study) -> str:
    """A row for each change, with the methods that have it."""
    changes: dict[tuple[str, str, str], list[str]] = {}
    known = [(group, by_preset(group.first)) for group in study.groups]
    for group, expected in known:
        for name, value in group.first.settings.items() if expected is not None else ():
            if name not in ALWAYS and expected is not None and value != expected.get(name):
                changes.setdefault((name, _shown(value), _shown(expected.get(name))), []).append(group.name)
    lost = [group.name for group, expected in known if expected is None]
    note = f'<p class="note">What the preset says is not known for {text(listed(lost))}.</p>' if lost else ""
    if not changes:
        return note or '<p class="note">Every setting is the preset\'s.</p>'
    every = len(known) > 1 and len(known)
    rows = [
        [*(cell(word) for word in change), cell("all" if len(names) == every else listed(names))]
        for change, names in changes.items()
    ]
    columns = ["setting", "value", "preset", "method"]
    return f"<p>What differs from the preset:</p>\n{table(columns, rows, caption='Settings beside the preset')}{note}"


def _all(study: Study) -> str:
    names = list(dict.fromkeys(name for group in study.groups for name in group.first.settings if name != "seed"))
    rows = [[cell(name), *(cell(_shown(group.first.settings.get(name))) for group in study.groups)] for name in names]
    return table(["setting", *(group.name for group in study.groups)], rows, caption="All settings", sortable=False)


def _runs(study: Study) -> str:
    versions = list(dict.fromkeys(name for record in study.records for name in _versions(record)))
    rows = [
        [
            cell(record.path),
            cell(record.method),
            Cell(text(record.seed), record.seed, numeric=True),
            cell(record.config.get("created") or "–"),
            *(cell(_versions(record).get(name, "–")) for name in versions),
            cell(str(record.config.get("git") or "–")[:12]),
        ]
        for record in study.records
    ]
    return table(["folder", "method", "seed", "begun", *versions, "git revision"], rows, caption="Runs")


def _versions(record: Record) -> dict[str, Any]:
    found = record.config.get("versions")
    return found if isinstance(found, dict) else {}


def _shown(value: Any) -> str:
    return "–" if value is None else " ".join(map(str, value)) if isinstance(value, list) else str(value)
