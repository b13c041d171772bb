"""The folder list is the flow of data: a room imports only rooms above it, and nobody a neighbour's private module."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import halfsure

ROOT = Path(halfsure.__file__).parent
FLOW = (
    *("_checks", "_compiled", "_shown", "_splitmix", "_disk"),
    *(
        "kernels",
        "simplex",
        "settings",
        "data",
        "encoders",
        "views",
        "bank",
        "nets",
        "targets",
        "algorithms",
        "methods",
    ),
    *("methods", "metrics", "training", "trust", "runs", "learners", "verdict", "studies"),
    *("report", "estimator", "label", "serve", "paper", "cli"),
)
"""In import order."""
BESIDE = {"theory", "__init__", "__main__"}
"""Not part of the flow: the mathematics alone, and the ways in."""


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Every module of the package by its dotted name below `halfsure`."""
    for file in sorted(ROOT.rglob("*.py")):
        parts = file.relative_to(ROOT).with_suffix("").parts
        yield ".".join(parts), ast.parse(file.read_text(encoding="utf-8"))


def imported(tree: ast.Module) -> Iterator[str]:
    """Modules of the package that a module imports, wherever in it, as dotted names below `halfsure`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "halfsure":
            inside = node.module.removeprefix("halfsure").removeprefix(".")
            for name in node.names:
                yield f"{inside}.{name.name}".removeprefix(".")
        elif isinstance(node, ast.Import):
            yield from (n.name.removeprefix("halfsure.") for n in node.names if n.name.startswith("halfsure."))


def test_every_room_is_in_the_flow() -> None:
    rooms = {name.split(".")[0] for name, _ in modules()}
    assert rooms <= {*FLOW, *BESIDE}


def test_a_room_imports_only_rooms_above_it() -> None:
    wrong = []
    for name, tree in modules():
        room = name.split(".")[0]
        if room in BESIDE:
            continue
        for other in imported(tree):
            top = other.split(".")[0]
            if top in FLOW and top != room and FLOW.index(top) > FLOW.index(room):
                wrong.append(f"{name} imports {other}")
    assert not wrong, "\n".join(wrong)


def test_the_theory_stands_by_itself() -> None:
    beside = {other for name, tree in modules() if name.startswith("theory") for other in imported(tree)}
    assert {other.split(".")[0] for other in beside} <= {"theory", "_checks"}


def test_nobody_imports_a_neighbours_private_module_or_name() -> None:
    wrong = [
        f"{name} imports {other}"
        for name, tree in modules()
        for other in imported(tree)
        if any(part.startswith("_") for part in other.split(".")[1:]) and other.split(".")[0] != name.split(".")[0]
    ]
    assert not wrong, "\n".join(wrong)


def test_no_two_modules_share_a_name() -> None:
    places = defaultdict(set)
    for name, _ in modules():
        room, _, rest = name.rpartition(".")
        if rest == "__init__":
            room, _, rest = room.rpartition(".")
        if rest and not name.startswith("cli."):  # a command is called as what it does
            places[rest.strip("_")].add(name)
    shared = {name: sorted(found) for name, found in places.items() if len(found) > 1}
    assert not shared
