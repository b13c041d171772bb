"""Training on two ranks, held against one process with the whole batch; and ranks that die.

Starting processes costs seconds. So one start makes all the runs that nothing happens to (rank_driver.py), and tests
look at what the ranks left behind.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from filelock import FileLock
from safetensors.torch import load_file
from torch import Tensor, nn

import halfsure
from halfsure.algorithms import Context
from halfsure.data import DataError
from halfsure.runs.checkpoint import read_state
from halfsure.runs.folder import Folder
from halfsure.training.config import Config
from halfsure.training.ranks import Ranks
from halfsure.training.state import make_feed
from halfsure.views.preprocessing import Preprocessing
from tests.faults import differences
from tests.parts.loaded import toy_parts
from tests.training import rank_driver
from tests.training.rank_driver import (
    ACCIDENT_STEP,
    ALIKE,
    BASE,
    CASES,
    MIXED,
    OWN,
    STEPS,
    command,
    make_data,
    make_model,
    run_case,
)

ROOT = Path(__file__).parents[2]
FILES = {".lock", "config.json", "metrics.jsonl", "model.safetensors", "split.json"}
FILES |= {"resume.safetensors", "resume.previous.safetensors"}
Found = list[dict[str, Any]]


def start(*arguments: str | Path, patience: float = 300) -> dict[str, Any]:
    """Run a module and wait for its end. → exit code, what it said and what it complained of."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", *map(str, arguments)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, env=environment, text=True, stdout=pipe, stderr=pipe) as process:
        try:
            out, err = process.communicate(timeout=patience)
        except subprocess.TimeoutExpired:
            process.terminate()  # a launcher that is killed would leave its ranks behind
            out, err = process.communicate()
            err += f"\nit hung and was stopped after {patience} s"
    return {"code": process.returncode, "out": out, "err": err}


def torchrun(*arguments: str | Path, restarts: int = 0) -> dict[str, Any]:
    """Run a module as two ranks."""
    # --standalone lets the launcher find a free port.
    launcher = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--max-restarts", str(restarts)]
    return start(*launcher, "-m", *arguments)


def start_all(folder: Path) -> dict[str, dict[str, Any]]:
    """All that the tests need, two at a time. → how each ended."""
    rank_driver.write_npz(folder / "blobs.npz")
    driver = "tests.training.rank_driver"
    few = ["--net", "mlp-16", "--steps", "60", "--evaluations", "2", "--test-sample", "50", "--no-tensorboard"]

    def stop_and_go_on() -> list[dict[str, Any]]:
        return [torchrun(driver, "term", *command(folder, "stopped")), start(driver, folder)]

    with ThreadPoolExecutor(2) as threads:
        pair = threads.submit(stop_and_go_on)
        killed = threads.submit(torchrun, driver, "kill", *command(folder, "killed"), restarts=2)
        digits = threads.submit(torchrun, "halfsure", "train", "digits", "--out", folder / "digits", *few)
        stopped, undisturbed = pair.result()
        ends = {"stopped": stopped, "undisturbed": undisturbed}
        return {**ends, "killed": killed.result(), "digits": digits.result()}


@pytest.fixture(autouse=True, scope="module")
def _parts() -> Iterator[None]:
    with toy_parts():
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where everything is left that was started; the workers of a parallel test session share it."""
    session = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    folder = tmp_path_factory.getbasetemp().parent / f"ranks-{session}" if session else tmp_path_factory.mktemp("ranks")
    folder.mkdir(exist_ok=True)
    with FileLock(folder / "lock"):
        if not (folder / "ends.json").exists():
            (folder / "ends.json").write_text(json.dumps(start_all(folder)))
    return folder


@pytest.fixture(scope="module")
def ends(folder: Path) -> dict[str, dict[str, Any]]:
    """How each ended."""
    ends: dict[str, dict[str, Any]] = json.loads((folder / "ends.json").read_text())
    return ends


@pytest.fixture(scope="module")
def found(folder: Path, ends: dict[str, dict[str, Any]]) -> Found:
    """What each rank found."""
    assert ends["undisturbed"]["code"] == 0, ends["undisturbed"]["err"]
    return [torch.load(folder / f"rank {rank}.pt", weights_only=True) for rank in (0, 1)]


@cache
def in_one_process(name: str) -> tuple[dict[str, Tensor], dict[str, Tensor], list[dict[str, Any]]]:
    model, run = run_case(CASES[name])
    return dict(model.state_dict()), dict(run.model.state_dict()), run.metrics


def furthest(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    assert one.keys() == other.keys()
    return max((one[name] - other[name]).abs().max().item() for name in one)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALIKE)
def test_two_ranks_train_as_one_process_does(found: Found, name: str) -> None:
    model, average, _ = in_one_process(name)
    initial = make_model(make_data(CASES[name].kind), config_of(name)).double().state_dict()
    assert furthest(model, dict(initial)) > 1e-3  # it did train
    for rank in (0, 1):
        assert furthest(found[rank][name]["model"], model) < 1e-10
        assert furthest(found[rank][name]["average"], average) < 1e-10


@pytest.mark.slow
@pytest.mark.parametrize("name", ALIKE)
def test_metrics_are_those_of_one_process(found: Found, name: str) -> None:
    _, _, metrics = in_one_process(name)
    assert [line["step"] for line in metrics][-1] == config_of(name).steps
    assert {"train", "test", "val", "unlabeled", "pseudo_labels"} <= metrics[-1].keys()
    for rank in (0, 1):
        assert differences(found[rank][name]["metrics"], metrics, tolerance=1e-9) == []


def test_the_settings_of_the_cases_matter() -> None:
    plain, _, _ = in_one_process("fixmatch odd")
    for name in ("prior", "class weight", "clip"):
        assert furthest(in_one_process(name)[0], plain) > 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("name", MIXED)
def test_mixmatch_mixes_among_the_samples_of_a_rank(found: Found, name: str) -> None:
    twin = mixmatch_twin(config_of(name))
    for rank in (0, 1):
        assert furthest(found[rank][name]["model"], twin) < 1e-10
    assert furthest(in_one_process(name)[0], twin) > 1e-4  # one process has other partners to mix with


def mixmatch_twin(config: Config) -> dict[str, Tensor]:
    """Both shards in one process, their losses averaged over all samples; settings that no case has are left out."""
    data = make_data()
    algorithm = config.algorithm()
    views = config.make_views(data, Preprocessing.of(data))
    device = torch.device("cpu")
    feeds = [make_feed(data, views, algorithm.views, config, ranks=Ranks(rank, 2), device=device) for rank in (0, 1)]
    model = make_model(data, config).double()
    optimizer = torch.optim.Adam(model.parameters(), config.lr)
    beta = config.flat.get("distill_weight", 1.0)
    for step in range(config.steps):
        shards = [algorithm.step(Context(model, feed.next(step))) for feed in feeds]

        def mean(term: str, shards: Any = shards) -> Tensor:
            count = sum(len(getattr(shard, term)) for shard in shards)
            return sum((getattr(shard, term).sum() for shard in shards), torch.zeros(())) / max(count, 1)

        ramped = min(1.0, step / config.steps / config.ramp) if config.ramp else 1.0
        optimizer.zero_grad()
        (mean("supervised") + ramped * (mean("consistency") + beta * mean("distillation"))).backward()
        optimizer.step()
    return dict(model.state_dict())


@pytest.mark.slow
def test_only_the_first_rank_writes(folder: Path, found: Found) -> None:
    kept = {name for name, case in CASES.items() if case.kept}
    assert {path.name for path in (folder / "rank 0").iterdir()} == kept
    for name in kept:
        assert {path.name for path in (folder / "rank 0" / name).iterdir()} == FILES
    assert not (folder / "rank 1").exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.kept])
def test_what_is_saved_is_what_the_first_rank_has(folder: Path, found: Found, name: str) -> None:
    own, first = folder / "rank 0" / name, found[0][name]
    state = read_state(own / "resume.safetensors")
    assert differences(state["model"], first["model"]) == []
    assert differences(state["average"], first["average"]) == []
    assert differences(load_file(own / "model.safetensors"), first["average"]) == []
    assert differences(Folder(own).metrics(), first["metrics"]) == []


@pytest.mark.slow
def test_batch_norm_statistics_are_each_ranks_own(found: Found) -> None:
    first, second = (found[rank]["batch norm"] for rank in (0, 1))
    statistics = [name for name in first["model"] if "running" in name]
    weights = [name for name in first["model"] if "running" not in name]
    assert len(statistics) == 12
    for name in weights:
        assert torch.equal(first["model"][name], second["model"][name])
    for name in statistics:
        assert not torch.equal(first["model"][name], second["model"][name])
        # The average is evaluated by all ranks together: with the first's.
        assert torch.equal(first["average"][name], first["model"][name])
        assert torch.equal(second["average"][name], first["model"][name])


@pytest.mark.slow
@pytest.mark.parametrize("name", [*MIXED, *OWN])
def test_ranks_agree_where_one_process_would_differ(found: Found, name: str) -> None:
    first, second = (found[rank][name] for rank in (0, 1))
    parameters = [name for name, _ in run_model(name).named_parameters()]
    assert all(torch.equal(first["model"][key], second["model"][key]) for key in parameters)
    assert differences(first["average"], second["average"]) == []
    assert differences(first["metrics"], second["metrics"]) == []
    assert first["finished"]
    assert second["finished"]


@pytest.mark.slow
def test_each_rank_drops_values_of_its_own(found: Found) -> None:
    # With the same masks on both ranks nothing else would tell the run from one process with half of them.
    one, _, _ = in_one_process("dropout")
    assert furthest(found[0]["dropout"]["model"], one) > 1e-4


@pytest.mark.slow
def test_every_rank_returns_the_run_that_was_gone_on_with(found: Found) -> None:
    for rank in (0, 1):
        assert differences(found[rank]["again"]["metrics"], found[0]["fixmatch"]["metrics"]) == []
        assert found[rank]["again"]["finished"]


@pytest.mark.slow
def test_what_ranks_tell_each_other(found: Found) -> None:
    first, second = (found[rank]["numbers"] for rank in (0, 1))
    # Of 1, 2, 4 and 8 the mean is 3.75: the parts' average, and so are gradients.
    assert (first["mean"], second["mean"]) == (3.5, 4.0)
    assert first["gradient"].tolist() == [0.5] * 3
    assert second["gradient"].tolist() == [0.5]
    assert (first["mean, one shard empty"], second["mean, one shard empty"]) == (12.0, 0.0)
    rows = torch.arange(10.0).view(5, 2)
    for told in (first, second):
        assert told["mean, all empty"] == 0.0
        assert told["average"].tolist() == [2.5, 0.5]
        assert told["sums"] == [3.0, 2.0, 1.0, 0.5]
        assert told["any"] == [True, True, False]
        assert told["same"] == [0.1, -3.0]
        assert told["same_object"] == {"from": 0}
        assert all(torch.equal(together, rows[:total]) for total, together in told["gather"].items())
        assert told["gather, integers"].tolist() == [0, 1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["supervised", "vat+ads", "fixmatch-ads+me"])
def test_a_step_takes_one_message_beside_the_gradients(found: Found, method: str) -> None:
    for rank in (0, 1):
        told = found[rank]["messages"][method]
        assert told["counts"] == [1, 1, 1]
        assert told["granted"] == [[True, False, False], [False, True, False], [False, False, False]]


def test_one_process_needs_nobody() -> None:
    ranks, values = Ranks(), torch.tensor([1.0, 2.0, 6.0])
    assert ranks.first
    assert ranks.mean(values).item() == 3.0
    assert ranks.mean(values[:0]).item() == 0.0
    assert torch.equal(ranks.average(values), values)
    assert torch.equal(ranks.gather(values, 3), values)
    assert ranks.sums(3, 0.5) == [3, 0.5]
    assert (ranks.any(True), ranks.any(False)) == (True, False)
    assert ranks.same(0.1) == 0.1
    assert ranks.same_object(values) is values


def test_more_ranks_than_samples_are_refused() -> None:
    data, config = make_data(), BASE.replace(batch=1)
    views = config.make_views(data, Preprocessing.of(data))
    with pytest.raises(DataError, match="a batch of 1 cannot be dealt out to 2 ranks"):
        make_feed(data, views, ("weak",), config, ranks=Ranks(0, 2), device=torch.device("cpu"))


@pytest.mark.slow
def test_the_command_line_under_torchrun(folder: Path, ends: dict[str, Any]) -> None:
    end, out = ends["digits"], folder / "digits"
    assert end["code"] == 0, end["err"]
    assert end["out"].count("the run is in") == 1  # one rank speaks
    run = halfsure.load(out)
    assert run.finished
    assert [line["test"]["samples"] for line in run.metrics] == [50, 360]
    assert {path.name for path in out.iterdir()} == FILES | {"report.html"}
    assert len(run.predict(halfsure.data.load("digits").train.samples[:3])) == 3


@pytest.mark.slow
def test_a_killed_rank_is_restarted_to_the_same_bits(folder: Path, found: Found, ends: dict[str, Any]) -> None:
    end = ends["killed"]
    assert end["code"] == 0, end["err"]
    assert "going on from step 12" in end["out"]  # the last evaluation before the accident
    assert_same_run(folder / "killed", folder / "undisturbed")


@pytest.mark.slow
def test_a_stopped_launcher_goes_on_to_the_same_bits(folder: Path, found: Found, ends: dict[str, Any]) -> None:
    assert ends["stopped"]["code"] != 0
    assert f"going on from step {ACCIDENT_STEP + 1}" in ends["undisturbed"]["out"]
    assert_same_run(folder / "stopped", folder / "undisturbed")


@pytest.mark.slow
def test_the_means_of_training_go_on_where_they_stopped(folder: Path, found: Found) -> None:
    means, expected = (
        [line["train"] for line in Folder(folder / name).metrics()] for name in ("stopped", "undisturbed")
    )
    assert differences(means, expected) == []


@pytest.mark.slow
def test_every_rank_that_is_stopped_knows_what_was_saved(ends: dict[str, Any]) -> None:
    said = ends["stopped"]["err"]
    assert "stopped after step 16. The last good checkpoint is that of step 16; go on with" in said
    assert "Nothing had been saved" not in said


def assert_same_run(out: Path, undisturbed: Path) -> None:
    """The same weights, optimizer, streams and scores; means over training steps have a test of their own."""
    state, expected = read_state(out / "resume.safetensors"), read_state(undisturbed / "resume.safetensors")
    assert state["step"] == STEPS
    assert differences(state, expected) == []
    assert differences(load_file(out / "model.safetensors"), load_file(undisturbed / "model.safetensors")) == []
    lines, expected_lines = (scores(Folder(path).metrics()) for path in (out, undisturbed))
    assert differences(lines, expected_lines) == []


def scores(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in line.items() if key != "train"} for line in lines]


def config_of(name: str) -> Config:
    return BASE.replace(**CASES[name].settings)


def run_model(name: str) -> nn.Module:
    return make_model(make_data(CASES[name].kind), config_of(name))
