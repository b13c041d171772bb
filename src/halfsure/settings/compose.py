"""A configuration composed of the settings of parts, with flat names for people.

A layout says which sections there are: `{"training": TrainingSettings, "strategies/pl": PseudoLabel.Settings, …}`. A
flat name such as `lr` means the one section that has it. Where several have it, the part's name goes before it:
`pl_threshold`, `ns_threshold`.
"""

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from halfsure.settings.declare import Setting, Settings, declared
from halfsure.settings.registry import every_part

__all__ = ["Layout", "Sections", "fill", "flat", "flat_json", "nested", "place", "places", "section_json"]

METHOD = {"algorithm", "strategy", "gate"}
ROLES: dict[str, set[str]] = {
    "algorithm": METHOD,
    "added": METHOD,
    "strategies": METHOD,
    "views": {"views"},
    "net": {"network"},
    "optimizer": {"optimizer"},
    "reader": {"reader"},
}
"""Which kinds of parts the settings of a section belong to."""

Layout = Mapping[str, type[Settings]]
Sections = Mapping[str, Settings]


def label(key: str) -> str:
    """What goes before a setting of a section to tell it from others: `strategies/pl~fixed` → `pl`."""
    return key.rpartition("/")[2].partition("~")[0]


def places(layout: Layout) -> dict[str, list[tuple[str, Setting]]]:
    """The sections that have a setting of a name, for each name."""
    found: dict[str, list[tuple[str, Setting]]] = {}
    for key, kind in layout.items():
        for setting in declared(kind):
            found.setdefault(setting.name, []).append((key, setting))
    return found


def flat_names(layout: Layout) -> Iterator[tuple[str, str, Setting]]:
    """Each setting by its flat name, with its section."""
    for name, owners in places(layout).items():
        for key, setting in owners:
            yield (name if len(owners) == 1 else f"{label(key)}_{name}"), key, setting


def place(layout: Layout, name: str, whose: str) -> tuple[str, Setting]:
    """The section and setting that a flat name means; a `ValueError` says what else there is."""
    owners = places(layout)
    if len(found := owners.get(name, [])) == 1:
        return found[0]
    for key, kind in layout.items():
        for setting in declared(kind):
            if name == f"{label(key)}_{setting.name}" and ("/" in key or len(owners[setting.name]) > 1):
                return key, setting
    if found:
        choices = " or ".join(f"{label(key)}_{name}" for key, _ in found)
        raise ValueError(f"{whose}: more than one part has a {name}; say {choices}")
    known = [each for each, _, _ in flat_names(layout)]
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {near[0]}?" if near else f"; it has {', '.join(sorted(known))}"
    raise ValueError(f"{whose} has no setting {name!r:.60}{_elsewhere(name, layout) or hint}")


def _elsewhere(name: str, layout: Layout) -> str:
    """Which parts have a setting that this layout lacks, and what its own parts of that role have."""
    owners = [
        (role, part.name)
        for role, part in every_part()
        for setting in declared(part.Settings)
        if name in (setting.name, f"{part.name}_{setting.name}")
    ]
    if not owners:
        return ""
    roles = {role for role, _ in owners}
    here = sorted(each for each, key, _ in flat_names(layout) if ROLES.get(key.partition("/")[0], set()) & roles)
    told = f"; it has {', '.join(here)}" if here else ""
    return f", which belongs to {' and '.join(f'the {role} {part}' for role, part in owners)}{told}"


def fill(layout: Layout, values: Mapping[str, Any], whose: str) -> dict[str, Settings]:
    """Sections with the values of flat names, and defaults for all others; a name that none has is refused."""
    given: dict[str, dict[str, Any]] = {key: {} for key in layout}
    for name, value in values.items():
        key, setting = place(layout, name, whose)
        if setting.name in given[key]:
            raise ValueError(f"{whose}: {setting.name} of {label(key)} is given twice")
        given[key][setting.name] = value
    return {key: kind(**given[key]) for key, kind in layout.items()}


def flat(sections: Sections) -> dict[str, Any]:
    """Every setting by its flat name."""
    layout = {key: type(section) for key, section in sections.items()}
    return {name: getattr(sections[key], setting.name) for name, key, setting in flat_names(layout)}


def section_json(sections: Sections) -> dict[str, Any]:
    """Plain values, nested by section: `strategies/pl` stands in `strategies`."""
    found: dict[str, Any] = {}
    for key, section in sections.items():
        place = found
        *outer, last = key.split("/")
        for name in outer:
            place = place.setdefault(name, {})
        place[last] = section.as_json()
    return found


def flat_json(values: Any) -> dict[str, Any]:
    """Settings by flat name out of what `section_json` gave, whoever wrote it: what makes no sense is passed over."""
    owners: dict[str, list[tuple[str, Any]]] = {}
    for key, section in values.items() if isinstance(values, dict) else ():
        inner = section if isinstance(section, dict) else {}
        grouped = any(isinstance(value, dict) for value in inner.values())
        for part, settings in inner.items() if grouped else [(str(key), inner)]:
            for name, value in settings.items() if isinstance(settings, dict) else ():
                owners.setdefault(str(name), []).append((label(str(part)), value))
    return {
        name if len(found) == 1 else f"{part}_{name}": value for name, found in owners.items() for part, value in found
    }


def nested(layout: Layout, values: Any) -> dict[str, Settings]:
    """Sections out of what `section_json` gave; what a section or setting is missing is at its default."""
    left = _paths(values, {key.rpartition("/")[0] for key in layout})
    if unknown := sorted(left.keys() - layout.keys()):
        raise ValueError(f"this version of halfsure has no settings for {unknown[0]!r:.60} here")
    found = {}
    for key, kind in layout.items():
        known = {setting.name for setting in declared(kind)}
        given = left.get(key, {})
        if unknown := sorted(given.keys() - known):
            raise ValueError(f"this version of halfsure has no setting {unknown[0]!r:.60}")
        found[key] = kind(**given)
    return found


def _paths(values: Any, outer: set[str]) -> dict[str, dict[str, Any]]:
    if not isinstance(values, dict):
        raise ValueError(f"settings are an object, got {values!r:.60}")  # noqa: TRY004 - all that is wrong is one kind
    found: dict[str, dict[str, Any]] = {}
    for key, section in values.items():
        if section == {} and key not in outer:
            continue
        if not isinstance(section, dict):
            raise ValueError(f"{key!s:.60} is to be an object of settings, got {section!r:.60}")  # noqa: TRY004
        if key in outer:
            found |= {f"{key}/{name}": inner for name, inner in _paths(section, set()).items()}
        else:
            found[str(key)] = section
    return found
