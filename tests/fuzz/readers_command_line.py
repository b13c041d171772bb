"""The words of a command line: options of every command with values of every kind, and no value at all."""

from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from halfsure.cli import COMMANDS, _known, _parse
from halfsure.cli.options import _groups
from halfsure.cli.terminal import screen
from halfsure.data import Data, DataError
from halfsure.training.errors import RunError
from tests.fuzz.strategies import texts
from tests.fuzz.target import Target
from tests.training.helpers import images, rows

__all__ = ["TARGETS"]

OWN = {
    "resume": ("jobs", "report", "json"),
    "predict": ("out", "force", "coverage", "abstain", "probabilities", "json", "lenient", "skip-bad", "root"),
    "evaluate": ("json", "lenient", "skip-bad", "root"),
    "report": ("out", "title", "force"),
    "demo": ("out", "jobs", "json"),
    "methods": ("json",),
    "data": ("root", "json", "name"),
    "version": (),
}
TRAINING = (*(name.replace("_", "-") for group in _groups(set()) for name in group.options), "out", "folds")
VALUES = st.sampled_from(
    [
        *("0", "1", "-1", "3", "0.5", "1e400", "nan", "inf", "-inf", "9" * 30, "9" * 5000, "none", "None", "True", ""),
        *(
            "digits",
            "list",
            "get",
            "info",
            "check",
            "quick",
            "cpu",
            "cuda:99",
            "fixmatch-ads",
            "mlp-8",
            "conv7-4",
            "5m",
        ),
        *("balanced", "uniform", "--", "-o", "-", "--json", ".", "..", "/dev/null", "a,b", "0,1", "supervised,vat+ads"),
    ]
)


def lines(command: str, names: tuple[str, ...], first: SearchStrategy[str] = VALUES) -> SearchStrategy[list[str]]:
    """A command with options of its own, of others and of nobody, each with a value, several or none."""
    options = st.sampled_from([f"--{name}" for name in names] or ["--json"]) | texts(8).map("--{}".format)
    joined = st.tuples(options, VALUES | texts()).map("=".join)
    words = st.lists(options | joined | VALUES | texts(), max_size=5)
    return st.tuples(first, words).map(lambda drawn: [command, drawn[0], *drawn[1]])


@cache
def data(kind: str) -> Data:
    return images() if kind == "images" else rows()


def parse(words: list[str], box: Path) -> None:
    """Read the words; nothing is loaded and nothing trained."""
    known = _known(list(words), screen(), screen(stderr=True))
    small = data("images" if len(words) % 2 else "rows")

    def several(source: str, config: Any, seeds: Any) -> list[Data]:
        return [small for _ in seeds]

    with patch("halfsure.cli.train.open_data", lambda *_: small), patch("halfsure.cli.compare.open_seeds", several):
        try:
            _parse(known)
        except SystemExit as end:
            if end.code in (0, 2):
                raise
            raise AssertionError(f"the exit code is {end.code}") from None


REFUSALS = (SystemExit, DataError, RunError)
SMALL = st.one_of([lines(command, names) for command, names in OWN.items()])
SOURCES = st.just("digits") | VALUES  # options are read where the source is one
LARGE = lines("train", TRAINING, SOURCES) | lines("compare", (*TRAINING, "methods", "seeds", "jobs"), SOURCES)
# Sixty options take a fifth of a second to read.
SOME = st.integers(0, 29).flatmap(lambda number: SMALL if number else LARGE)
ANY = st.lists(st.sampled_from([*COMMANDS, "--help", "--version", "trian"]) | texts(), max_size=4)

TARGETS = [
    Target("options of commands", SOME, parse, REFUSALS, weight=2),
    Target("words of a command line", ANY, parse, REFUSALS),
]
