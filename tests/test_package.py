"""The package as a whole: what it exports, what it costs to import, what its documents promise."""

import doctest
import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import halfsure

ROOT = Path(__file__).parent.parent
SECTION_3 = [
    *("softmax", "sparsemax", "entmax", "sparsemax_loss", "sharpen", "ads_loss"),
    *("MinEntropy", "Sharpening", "PseudoLabel", "NegativeSampling", "ADS", "TopM"),
]


@pytest.mark.parametrize("name", [*SECTION_3, "Target", "Map", "Run", "SSLClassifier", "fit", "load", "method"])
def test_public_names_are_documented(name: str) -> None:
    assert name in halfsure.__all__
    doc = getattr(halfsure, name).__doc__
    assert doc
    if name in SECTION_3:
        assert doctest.DocTestParser().get_examples(doc), f"{name} has no example"
        assert re.search(r"\(.*classes.*\) → ", doc), f"{name} does not say its shapes"


@pytest.mark.slow
def test_importing_halfsure_adds_nothing_to_torch_but_halfsure() -> None:
    # The time it takes follows from what it loads; modules can be counted on a busy machine.
    code = (
        "import sys, torch; before = set(sys.modules); import halfsure;"
        "print('\\n'.join(sorted(n for n in set(sys.modules) - before if n.split('.')[0] != 'halfsure')))"
    )
    added = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    standard = {name for name in added if name.split(".")[0] in sys.stdlib_module_names}
    assert set(added) == standard, f"import halfsure also loads {set(added) - standard}"


@pytest.mark.slow
def test_heavier_parts_load_when_used() -> None:
    code = (
        "import halfsure; print(halfsure.theory.largest_masked(1)); import halfsure.methods, halfsure.runs;"
        "print(halfsure.method('vat+ads').name, halfsure.fit, halfsure.load); halfsure.nothing"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.stdout.startswith("0.268")
    assert "vat+ads <function fit" in run.stdout
    assert "module 'halfsure' has no attribute 'nothing'" in run.stderr


def test_version_and_pins_agree() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+)?", halfsure.__version__)
    release = halfsure.__version__.partition(".dev")[0]  # the one that is being worked on
    assert f"## {release}" in (ROOT / "CHANGELOG.md").read_text()
    assert f"version: {release}\n" in (ROOT / "CITATION.cff").read_text()
    for requirements in (project["dependencies"], *project["optional-dependencies"].values()):
        assert {re.split(r"[<>=!~]", requirement)[0] for requirement in requirements} <= set(pins)


def test_every_erratum_names_a_test_that_exists() -> None:
    text = (ROOT / "docs" / "errata.md").read_text()
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text)
    assert len(named) == text.count("`tests/") >= 8
    for file, test in named:
        module = importlib.import_module(file.removesuffix(".py").replace("/", "."))
        assert callable(getattr(module, test)), f"{file} has no {test}"
