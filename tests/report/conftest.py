"""Small real runs, trained once."""

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

from halfsure import report
from halfsure.bank.opening import DataConfig, open_data
from halfsure.runs.start import start
from halfsure.training.errors import CollapseWarning
from halfsure.training.presets import preset

METHODS, SEEDS = ["supervised", "fixmatch-ads"], [0, 1]
BASELINES = {"1-NN": {"0": 0.25, "1": 0.2}}


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison folder: two methods by two seeds on digits."""
    folder = tmp_path_factory.mktemp("trained")
    for seed in SEEDS:
        about = DataConfig(labels=40, val=100)
        data = open_data("digits", about, seed)
        for method in METHODS:
            small: dict[str, Any] = {
                "steps": 60,
                "net": "mlp-64",
                "lr": 0.01,
                "evaluations": 4,
                "tensorboard": False,
                "ema": 0.9,
            }
            config = preset(data, method, "quick", seed).replace(**small)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CollapseWarning)
                start(data, config, out=folder / f"{method}-s{seed}", source="digits", data_config=about)
    content = {
        "format": 1,
        "source": "digits",
        "methods": METHODS,
        "seeds": SEEDS,
        "command": "halfsure compare digits",
    }
    (folder / "compare.json").write_text(json.dumps(content | {"baselines": BASELINES}))
    return folder


@pytest.fixture(scope="session")
def whole(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of that comparison."""
    return report.write([trained], tmp_path_factory.mktemp("page") / "report.html")


@pytest.fixture(scope="session")
def single(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of one of its runs."""
    return report.write([trained / "fixmatch-ads-s1"], tmp_path_factory.mktemp("page") / "report.html")
