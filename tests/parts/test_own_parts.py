"""Parts from one file outside the package: strategy, gate, algorithm, views, kind of data, network, optimiser.

`toy.py` beside this file has them all. Nothing of the package knows of them, and nothing else is said anywhere.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import halfsure
from halfsure.bank.opening import DataConfig, open_data
from halfsure.cli import main
from halfsure.runs import load
from halfsure.runs.checkpoint import read_state
from halfsure.runs.folder import CHECKPOINTS
from halfsure.runs.start import start
from halfsure.settings import load_parts
from halfsure.targets import Strategy
from halfsure.training import loop
from halfsure.training.config import Config
from halfsure.training.presets import preset
from tests.parts.loaded import TOY, toy_parts
from tests.training.helpers import differences, lines, rows

SMALL: dict[str, Any] = {"steps": 8, "evaluations": 2, "net": "mlp-8", "batch": 6, "unlabeled_batch": 8}


@pytest.fixture(autouse=True, scope="module")
def _parts() -> Iterator[None]:
    with toy_parts():
        yield


METHODS = [
    "fixmatch-nudge",
    "fixmatch-ads~median",
    "fixmatch-nudge~median+wobble",
    "vat+nudge",
    "mixmatch-nudge",
    "twin",
]


class StopError(Exception):
    """Ends a run in the middle of a step."""


def stop_after(step: int) -> Callable[[int], None]:
    def watch(done: int) -> None:
        if done == step:
            raise StopError

    return watch


@pytest.mark.parametrize("method", METHODS)
def test_a_run_with_own_parts_resumes_to_the_bit(method: str, tmp_path: Path) -> None:
    """State, heads and averages of parts are saved and given back: broken off twice, a run ends in the same bits."""
    whole = halfsure.fit(None, rows(), method, out=tmp_path / "whole", tensorboard=False, **SMALL)

    config = preset(rows(), method).replace(tensorboard=False, **SMALL)

    for step in (5, 7):
        with pytest.raises(StopError):
            start(rows(), config, out=tmp_path / "broken", watch=stop_after(step))
    again = start(rows(), config, out=tmp_path / "broken")
    assert differences(*(read_state(tmp_path / run / CHECKPOINTS[0]) for run in ("whole", "broken"))) == []
    assert differences(lines(tmp_path / "whole"), lines(tmp_path / "broken")) == []
    for one, other in zip(whole.model.state_dict().values(), again.model.state_dict().values(), strict=True):
        assert torch.equal(one, other)


def trained(method: str, **settings: Any) -> Any:
    """The state of training at the end of a run."""
    kept: list[Any] = []
    begin = loop._run

    def keep(training: Any, *rest: Any) -> None:
        kept.append(training)
        begin(training, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "_run", keep)
        halfsure.fit(None, rows(), method, **SMALL | settings)
    return kept[0]


def test_state_counts_training_steps_and_no_evaluations() -> None:
    training = trained("fixmatch-nudge", evaluations=8, unlabeled_sample=0)
    strategy = training.algorithm.strategy
    assert int(strategy.counts.sum()) == 8 * 8  # steps × samples per step, whatever was evaluated
    assert int(strategy.times.sum()) == 8 * 8
    assert len(strategy.times) == 60
    assert strategy.times.max() >= 1


def test_a_head_of_an_algorithm_is_optimised_and_averaged() -> None:
    training = trained("twin", ema=0.5)
    weight = training.algorithm.head.weight
    assert weight.abs().max() > 0  # it began at zero
    assert any(weight is one for group in training.optimizer.param_groups for one in group["params"])
    averaged = training.heads.model.head.weight
    assert averaged.abs().max() > 0
    assert not torch.equal(averaged, weight)
    state = training.state()
    assert torch.equal(state["algorithm"]["head.weight"], weight)
    assert torch.equal(state["averaged_algorithm"]["head.weight"], averaged)


def test_a_fourth_term_is_in_the_metrics_and_weighted() -> None:
    run = halfsure.fit(None, rows(), "twin", twin_weight=2.0, **SMALL)
    train = run.metrics[-1]["train"]
    assert train["total"] == pytest.approx(train["supervised"] + 2.0 * train["twin"], rel=1e-5)
    assert train["twin"] > 0


def test_added_strategies_are_seen_by_state_dict_and_to() -> None:
    algorithm = halfsure.method("vat+nudge")
    algorithm.strategies[0].prepare(3, 10)
    assert {"added.0.counts", "added.0.times"} <= algorithm.state_dict().keys()
    assert algorithm.to("meta").added[0].counts.is_meta


def test_settings_of_own_parts_are_settings_like_others() -> None:
    run = halfsure.fit(
        None, rows(), "fixmatch-nudge~median", nudge=0.5, memory=0.25, optimizer="crawl", crawl=0.1, **SMALL
    )
    nested = run.config["config"]
    assert nested["strategies"] == {"nudge": {"nudge": 0.5}, "nudge~median": {"memory": 0.25}}
    assert nested["optimizer"]["crawl"] == 0.1
    assert Config.from_json(json.loads(json.dumps(nested))).nudge == 0.5
    with pytest.raises(ValueError, match="nudge must be a finite number from 0 to 1, got 2"):
        halfsure.fit(None, rows(), "fixmatch-nudge", nudge=2)
    with pytest.raises(ValueError, match="no setting 'nudge', which belongs to the strategy nudge"):
        halfsure.fit(None, rows(), "fixmatch-ads", nudge=0.5)


def test_views_of_ones_own_are_chosen_by_name() -> None:
    usual = halfsure.fit(None, rows(), "fixmatch-ads", **SMALL)
    shaken = halfsure.fit(None, rows(), "fixmatch-ads", views="shaken", shake=0.7, **SMALL)
    assert shaken.config["config"]["views"] == {"shake": 0.7}
    assert usual.metrics[-1]["train"] != shaken.metrics[-1]["train"]
    with pytest.raises(ValueError, match="no setting 'weak_noise', which belongs to the views rows"):
        halfsure.fit(None, rows(), "fixmatch-ads", views="shaken", weak_noise=0.1, **SMALL)


def test_a_kind_of_data_of_ones_own(tmp_path: Path) -> None:
    data = open_data("sea.wave", DataConfig.of("sea.wave", waves=45), 0)
    assert data.train.samples.shape == (45, 16, 2)
    run = halfsure.fit(None, data, "fixmatch-ads", out=tmp_path / "run", steps=40, evaluations=1)
    assert run.settings["net"] == "wavenet-8"
    assert len(run.preprocessing.mean) == 2
    again = load(tmp_path / "run")
    np.testing.assert_array_equal(again.predict_proba(data.train.samples), run.predict_proba(data.train.samples))


def test_the_classifier_takes_them() -> None:
    data = rows()
    model = halfsure.SSLClassifier("fixmatch-nudge", steps=6, folds=2, settings={"nudge": 0.5}, n_jobs=2)
    model.fit(data.train.samples, data.train.labels)
    assert model.method_ in ("fixmatch-nudge", "supervised")
    assert model.run_.settings.get("nudge", 0.5) == 0.5


def test_the_command_line_takes_them_in_every_process(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`train` by itself, `compare` with workers of its own, and the reports of both."""
    small = ["--steps", "6", "--evaluations", "1", "--labels", "20", "--no-tensorboard", "--parts", str(TOY)]
    out = tmp_path / "run"
    assert main(["train", "digits", "--method", "fixmatch-nudge", "--nudge", "0.5", "--out", str(out), *small]) == 0
    assert "nudge" in (out / "report.html").read_text()
    both = ["--methods", "supervised,fixmatch-nudge~median", "--seeds", "2", "--jobs", "2", "--memory", "0.5"]
    assert main(["compare", "digits", *both, "--out", str(tmp_path / "both"), *small]) == 0
    shown = capsys.readouterr().out
    assert "fixmatch-nudge~median" in shown
    assert "fixmatch-nudge~median" in (tmp_path / "both" / "report.html").read_text()
    assert (
        main(
            [
                "train",
                "sea.wave",
                "--waves",
                "30",
                "--steps",
                "5",
                "--folds",
                "0",
                "--out",
                str(tmp_path / "w"),
                "--parts",
                str(TOY),
            ]
        )
        == 0
    )
    assert main(["methods", "--parts", str(TOY)]) == 0
    assert "nudge: a part of the way to the best class" in capsys.readouterr().out


HELP = """
import sys
from halfsure.cli import main
sys.exit(main(sys.argv[1:]))
"""


def in_process(*words: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The command line in a process that knows nothing yet, with a folder of packages."""
    environment = os.environ | ({} if path is None else {"PYTHONPATH": os.pathsep.join([str(path), *sys.path])})
    command = [sys.executable, "-c", HELP, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def installed(folder: Path, content: str) -> Path:
    """A folder as an installed package leaves it, with an entry point for its parts."""
    (folder / "calm_parts.py").write_text(content)
    about = folder / "calm_parts-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: calm-parts\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[halfsure.parts]\ncalm = calm_parts\n")
    return folder


CALM = """
import halfsure
from halfsure.targets import Strategy


@halfsure.register
class Calm(Strategy):
    name, about = "calm", "calm: as it is"

    def goal(self, probs):
        return probs
"""


@pytest.mark.slow
def test_parts_of_an_installed_package_are_there_by_themselves(tmp_path: Path) -> None:
    said = in_process("methods", path=installed(tmp_path, CALM))
    assert said.returncode == 0, said.stderr
    assert "calm: as it is" in said.stdout
    assert "fixmatch-calm" in said.stdout


@pytest.mark.slow
def test_a_package_whose_parts_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    said = in_process("methods", path=installed(tmp_path, "import nothing_of_that_name"))
    assert said.returncode == 2
    assert "the parts calm_parts of an installed package cannot be loaded (ModuleNotFoundError" in said.stderr
    assert "Traceback" not in said.stderr


@pytest.mark.slow
def test_without_the_file_a_run_folder_imports_nothing_and_says_what_is_missing(tmp_path: Path) -> None:
    halfsure.fit(None, rows(), "fixmatch-nudge", out=tmp_path / "run", **SMALL)
    said = in_process("resume", str(tmp_path / "run"))
    assert said.returncode == 2
    report = in_process("report", str(tmp_path / "run"))
    assert report.returncode == 0, report.stderr
    assert "fixmatch-nudge" in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.slow
def test_the_help_lists_settings_of_own_parts() -> None:
    whole = in_process("train", "--help-all", "--parts", str(TOY))
    assert whole.returncode == 0
    for option in ("--nudge", "--memory", "--shake", "--waves", "--twin-weight", "--crawl"):
        assert option in whole.stdout
    told = " ".join(whole.stdout.replace("│", " ").split())
    assert re.search(r"The network: .*wrn-DEPTH-WIDTH.* or wavenet-WIDTH; the preset's if not given", told)
    assert "The optimiser: adam, adamw, sgd or crawl." in told
    views = re.search(r"The views: (.*?); those for the kind", told)
    assert views is not None
    assert set(re.split(", | or ", views[1])) == {"encoded", "fresh", "images", "rows", "texts", "shaken", "waves"}
    short = in_process("train", "--help", "--parts", str(TOY))
    assert "--nudge" not in short.stdout
    assert "--help-all" in short.stdout


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("raise RuntimeError('no')", "could not be loaded: RuntimeError: no"),
        ("import halfsure\nhalfsure.register(3)", "3 is no part"),
        ("1 +", "could not be loaded: SyntaxError"),
    ],
)
def test_a_file_that_cannot_be_loaded_is_refused_in_words(content: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(content)
    with pytest.raises(ValueError, match=words):
        load_parts([tmp_path / "bad.py"])


def test_a_file_that_cannot_be_loaded_ends_a_command_in_words(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("raise RuntimeError('no')")
    said = in_process("methods", "--parts", str(tmp_path / "bad.py"))
    assert said.returncode == 2
    assert "could not be loaded: RuntimeError: no" in said.stderr.replace("\n", " ")
    gone = in_process("methods", "--parts", str(tmp_path / "nothing.py"))
    assert (gone.returncode, "there is no file" in gone.stderr) == (2, True)


def test_a_name_has_one_owner() -> None:
    class Other(Strategy):
        name = "ads"

    with pytest.raises(ValueError, match=r"there is a strategy called ads already, halfsure\.targets\.ads\.ADS"):
        halfsure.register(Other)
    Other.name = "A+B"
    with pytest.raises(ValueError, match="small letters and digits only"):
        halfsure.register(Other)


@pytest.mark.slow
def test_the_example_is_short_and_its_command_works(tmp_path: Path) -> None:
    example = Path(__file__).parents[2] / "examples" / "own_strategy.py"
    assert len(example.read_text().splitlines()) < 60
    words = ["compare", "digits", "--methods", "fixmatch-sh,fixmatch-warm", "--warm-most", "4", "--steps", "4"]
    words += ["--seeds", "1", "--evaluations", "1", "--out", str(tmp_path / "both"), "--parts", str(example)]
    done = in_process(*words)
    assert done.returncode == 0, done.stderr
    assert "fixmatch-warm" in done.stdout
