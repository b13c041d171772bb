"""Run folders made to do harm: links that lead out of them, pipes that never answer, and JSON of any size and shape."""

import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch

from halfsure import _disk as reading
from halfsure import report
from halfsure.cli import main
from halfsure.data import DataError
from halfsure.bank.opening import DataConfig
from halfsure.report import study
from halfsure.runs.checkpoint import read_state
from halfsure.runs.folder import Folder, flat_settings
from halfsure.runs.run import load
from halfsure.runs.start import recorded, start
from halfsure.settings.compose import place
from halfsure.studies.comparison import Plan
from halfsure.training.config import Config
from halfsure.training.errors import RunError
from halfsure.verdict.check import FILE, assess, load_evidence, outcome
from tests.hostile.children import GIB, in_child
from tests.training.helpers import images, rows, tiny

SMALL = tiny(steps=4, evaluations=2)
VICTIM = b"what a person wrote\n"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "run"
    start(rows(), SMALL, out=folder, source="digits", data_config=DataConfig(labels=12))
    return folder


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    (tmp_path / "elsewhere").mkdir()
    file = tmp_path / "elsewhere" / "victim"
    file.write_bytes(VICTIM)
    return file


def changed(file: Path, **changes: Any) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def settings(folder: Path, **changes: Any) -> None:
    """Put any values into config.json, each where its part has it; what no part has is put with the training's."""
    config = Config.from_json(json.loads((folder / "config.json").read_text())["config"])
    with suppress(ValueError):  # a method or network that there is brings its settings
        config = config.replace(**{name: value for name, value in changes.items() if name in ("method", "net")})
    found, layout = config.as_json(), {key: type(section) for key, section in config.sections.items()}
    for name, value in changes.items():
        key = "training" if name == "unknown" else place(layout, name, "it")[0]
        found[key][name] = value
    changed(folder / "config.json", config=found)


WRITTEN = ("split.json", "metrics.jsonl", "model.safetensors", "report.html", "trust.json")
PARTS = tuple(f"{name}.part" for name in (*WRITTEN, "config.json", "resume.safetensors"))


@pytest.mark.parametrize("names", [WRITTEN, PARTS], ids=["files", "parts"])
def test_a_link_is_replaced_and_never_written_through(names: tuple[str, ...], tmp_path: Path, victim: Path) -> None:
    out = tmp_path / "run"
    out.mkdir()
    for name in names:
        (out / name).symlink_to(victim)
    assert start(rows(), SMALL, out=out).finished
    report.write([out], out / "report.html", data=rows())
    assess(out, rows(), SMALL, folds=2, workers=1)
    assert victim.read_bytes() == VICTIM
    assert os.listdir(victim.parent) == ["victim"]
    assert [name for name in names if (out / name).is_symlink()] == []


@pytest.mark.parametrize("name", ["config.json", "resume.safetensors"])
def test_a_link_to_something_else_is_no_run(name: str, tmp_path: Path, victim: Path) -> None:
    out = tmp_path / "run"
    out.mkdir()
    (out / name).symlink_to(victim)
    with pytest.raises(RunError):
        start(rows(), SMALL, out=out)
    assert victim.read_bytes() == VICTIM


@pytest.mark.parametrize("name", [".lock", "folds", "tensorboard"])
def test_what_a_run_writes_into_must_not_be_a_link(name: str, tmp_path: Path, victim: Path) -> None:
    out = tmp_path / "run"
    out.mkdir()
    (out / name).symlink_to(victim if name == ".lock" else victim.parent)
    with pytest.raises(RunError, match="is a link, and a run writes into its own folder alone"):
        start(rows(), SMALL, out=out)
    assert victim.read_bytes() == VICTIM
    assert os.listdir(victim.parent) == ["victim"]


def test_the_folder_of_a_fold_or_of_a_comparison_must_not_be_a_link(run: Path, victim: Path, tmp_path: Path) -> None:
    (run / "folds").mkdir()
    (run / "folds" / "1-of-2").symlink_to(victim.parent)
    with pytest.raises(RunError, match="1-of-2 is a link"):
        assess(run, rows(), SMALL, folds=2, workers=1)
    config = Config(method="supervised")
    plan = Plan(tmp_path / "all", "digits", DataConfig(), {"supervised": config}, {0: rows()}, "halfsure")
    plan.claim(False)
    (tmp_path / "all" / "supervised-s0").symlink_to(victim.parent)
    with pytest.raises(RunError, match="supervised-s0 is a link"):
        plan.claim(False)
    assert os.listdir(victim.parent) == ["victim"]


def test_a_run_folder_may_itself_be_reached_by_a_link(run: Path, tmp_path: Path) -> None:
    for name in ("resume.safetensors", "model.safetensors"):
        (run / name).unlink()
    (tmp_path / "link").symlink_to(run)
    assert start(rows(), SMALL, out=tmp_path / "link", source="digits").finished
    assert (tmp_path / "link").is_symlink()
    assert read_state(run / "resume.safetensors")["step"] == SMALL.steps


def everything(folder: Path) -> None:
    """Read a folder in every way there is."""
    ways: list[Callable[[], object]] = [
        lambda: load_evidence(load(folder)),
        lambda: load(folder / "model.safetensors"),
        lambda: outcome(folder),
        lambda: recorded(folder),
        lambda: start(rows(), SMALL, out=folder),
        lambda: study.read([folder]),
    ]
    for way in ways:
        with suppress(RunError, DataError, OSError):  # what the command line says in a sentence
            way()


READABLE = ["config.json", "metrics.jsonl", "model.safetensors", "resume.safetensors", "resume.pt", "trust.json"]


@pytest.mark.parametrize("kind", ["pipe", "endless", "folder", "loop"])
@pytest.mark.parametrize("name", READABLE)
def test_what_is_no_file_neither_hangs_nor_ends_in_a_trace(name: str, kind: str, run: Path) -> None:
    (run / name).unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(run / name)
    elif kind == "endless":
        (run / name).symlink_to("/dev/zero")
    elif kind == "folder":
        (run / name).mkdir()
    else:
        (run / name).symlink_to(run / name)
    assert in_child(lambda: everything(run)) == "done"


JSON = [
    *("[" * 10**6, '{"a":' * 10**5, "9" * 5000, '{"format": ' + "9" * 4000 + "}"),
    *("NaN", '"\\ud800"', "", "\0", "null", "[]"),
]
READ: dict[str, Callable[[Path], object]] = {
    "config.json": load,
    "trust.json": outcome,
    "compare.json": lambda path: report.write([path], path / "x"),
}


@pytest.mark.parametrize("name", ["config.json", "trust.json", "compare.json", "metrics.jsonl"])
@pytest.mark.parametrize("content", JSON, ids=range(len(JSON)))
def test_json_of_any_shape_is_refused(name: str, content: str, run: Path) -> None:
    (run / name).write_text(content)
    if name == "metrics.jsonl":
        assert Folder(run).metrics() == []
        return
    with pytest.raises(RunError) as error:
        READ[name](run)
    assert len(str(error.value)) < 500


def test_a_file_of_any_size_takes_little_memory(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = (run / "config.json").read_bytes()
    os.truncate(run / "config.json", 10**12)
    assert "bytes, so the run cannot be read" in in_child(lambda: load(run), memory=GIB)
    (run / "config.json").write_bytes(kept)
    (run / "metrics.jsonl").write_bytes(b'{"step": 1, "x": [' + b"[]," * 5_000_000 + b"[]]}\n")
    assert in_child(lambda: Folder(run).metrics(), memory=GIB // 4) == "done"
    monkeypatch.setattr(reading, "LARGEST", 10**6)
    for content in (b'{"step": 1}\n' * 200_000, b"0" * 2_000_000):
        (run / "metrics.jsonl").write_bytes(content)
        assert "so it is none that halfsure wrote" in in_child(lambda: Folder(run).metrics(), memory=GIB // 4)


def test_the_bounds_are_wide(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = {"step": 1, "test": {"class_error": [0.123456789] * 10_000, "predicted": [100] * 10_000}}
    (run / "metrics.jsonl").write_text((json.dumps(line) + "\n") * 20)
    assert len(Folder(run).metrics()) == 20
    monkeypatch.setattr(reading, "LINES", 19)
    with pytest.raises(RunError, match="more than 19 lines"):
        Folder(run).metrics()


@pytest.mark.parametrize(
    "changes",
    [
        {"steps": "many"},
        {"steps": 10**18},
        {"steps": True},
        {"lr": None},
        {"lr": "0.1"},
        {"time": 5},
        {"time": "9" * 400 + "s"},
        {"threads": 10**9},
        {"evaluations": 10**12},
        {"method": ["vat"]},
        {"method": "__import__('os')"},
        {"device": 3},
        {"prior": {"a": 1}},
        {"class_weight": [None]},
        {"copies": 10**9, "method": "mixmatch-ads"},
        {"unknown": 1},
    ],
)
def test_settings_of_other_types_and_sizes_are_refused(changes: dict[str, Any], run: Path) -> None:
    settings(run, **changes)
    with pytest.raises(RunError, match=rf"config\.json cannot be used: .*{next(iter(changes))}"):
        recorded(run)


@pytest.mark.parametrize(
    ("name", "value"), [("run", 3), ("training", None), ("views", [1]), ("evil", {"lr": 1}), ("strategies", 1)]
)
def test_sections_of_other_types_are_refused(name: str, value: Any, run: Path) -> None:
    found = json.loads((run / "config.json").read_text())
    changed(run / "config.json", config=found["config"] | {name: value})
    with pytest.raises(RunError, match=rf"config\.json cannot be used: .*{name}"):
        recorded(run)


@pytest.mark.parametrize(
    "net", ["mlp-999999999-999999999", "wrn-100000-1000", "mlp-" + "9" * 5000, "wrn-28-99999", "conv7-999999999"]
)
def test_a_network_of_any_size_is_refused(net: str, run: Path) -> None:
    """Where it is read, or where the network is built."""
    settings(run, net=net)
    with patch("halfsure.runs.start.open_again", return_value=rows()):
        said = in_child(lambda: start(images(32), recorded(run).config.replace(views=None)))
    assert said.startswith("RunError: "), said
    assert "units" in said or "deep" in said or "memory" in said, said


OTHER = [
    *({"data": {"labels": "all"}}, {"data": None}, {"data": {"evil": 1}}, {"source": 3}, {"source": ["a"]}),
    *({"data": {"reader": 3}}, {"data": {"reader": {"evil": 1}}}, {"data": {"reader": {"root": 1}}}),
]


@pytest.mark.parametrize("changes", OTHER)
def test_data_settings_of_other_types_are_refused(changes: dict[str, Any], run: Path) -> None:
    changed(run / "config.json", **changes)
    with pytest.raises(RunError):
        recorded(run)


def test_a_foreign_folder_says_what_it_opens_and_gets_no_further_with_other_data(
    run: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    private = tmp_path / "private.csv"
    private.write_text("secret,label\n" + "".join(f"{k},{'ab'[k % 2]}\n" for k in range(12)))
    changed(run / "config.json", source=str(private), data={"reader": {"label_column": "label"}})
    split = {"format": 1, "source": "private", "seed": 0, "size": 12, "labeled": {"a": [0, 2], "b": [1, 3]}}
    (run / "split.json").write_text(json.dumps(split))
    before = {file: file.read_bytes() for file in run.iterdir() if file.is_file()}
    assert main(["resume", str(run)]) == 2
    out, err = capfd.readouterr()
    assert out.splitlines()[0] == f"opening {private}"
    assert "holds another run" in err.replace("\n", " ")
    assert {file: file.read_bytes() for file in run.iterdir() if file.is_file()} == before
    page = report.write([run], tmp_path / "page.html").read_text()
    assert "The samples cannot be shown" in page
    assert "<img" not in page


@pytest.mark.parametrize("data", [None, 3, [], {"evil": 1}, {"labels": "all"}, {"source": "digits"}])
def test_a_folder_of_version_0_1_with_odd_data_is_shown_without_samples(data: Any, run: Path, tmp_path: Path) -> None:
    found = json.loads((run / "config.json").read_text())
    changed(run / "config.json", format=1, config=flat_settings(found), data=data)
    with pytest.raises(RunError, match="needs that version to go on"):
        recorded(run)
    assert load(run).finished
    assert "The samples cannot be shown" in report.write([run], tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("data.val", "5"), ("data.labels", 1.5), ("data.split", 3), ("data.reader", []), ("fingerprint.shape", "5")),
        *(
            ("fingerprint.shape", ["a"]),
            ("fingerprint.name", None),
            ("fingerprint.test", "0"),
            ("map", 3),
            ("net", "x"),
        ),
        *(("config.training.steps", "5"), ("config.run.seed", None), ("config.evaluation.last", "all"), ("source", 3)),
        *(("folds", "2"), ("threads", True), ("created", 5), ("git", {}), ("config.machine", 3)),
    ],
)
def test_a_wrong_type_in_a_config_is_refused_by_everybody_naming_file_and_field(
    field: str, value: Any, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "x.npy", rows().train.samples)
    found = json.loads((run / "config.json").read_text())
    place = found
    *outer, last = field.split(".")
    for name in outer:
        place = place[name]
    place[last] = value
    (run / "config.json").write_text(json.dumps(found))
    with pytest.raises(RunError, match=rf"config\.json cannot be used: .*{last}"):
        load(run)
    for command in (
        ["predict", run, tmp_path / "x.npy"],
        ["evaluate", run, "digits"],
        ["report", run],
        ["resume", run],
    ):
        assert main([str(word) for word in command]) == 2
        said = " ".join(capsys.readouterr().err.split())
        assert "config.json cannot be used: " in said
        assert last in said


@pytest.mark.parametrize(
    "changes", [{"accuracy": "high"}, {"accuracy": 2}, {"interval": [0.5]}, {"labels": None}, {"folds": "2"}]
)
def test_a_check_of_other_types_is_refused_naming_the_field(changes: dict[str, Any], run: Path) -> None:
    content = {"format": 1, "folds": 2, "labels": 6, "accuracy": 0.5, "interval": [0.2, 0.8]}
    (run / FILE).write_text(json.dumps(content))
    assert outcome(run) is not None
    (run / FILE).write_text(json.dumps(content | changes))
    with pytest.raises(RunError, match=rf"trust\.json cannot be used: {next(iter(changes))} cannot be"):
        outcome(run)


def test_trust_of_other_types_is_refused(run: Path) -> None:
    for content in ({}, {"folds": 10**9}, {"folds": "2"}, {"folds": 1, "evidence": 3}):
        (run / FILE).write_text(json.dumps({"format": 1} | content))
        with pytest.raises(RunError, match=FILE.replace(".", r"\.") + "|there is no run"):
            load_evidence(load(run))


def test_readings_pass_over_what_is_no_error(run: Path) -> None:
    tests = [3, {"error": "x"}, {"error": 0.5}, None]
    Folder(run).keep_metrics([{"step": step, "test": test} for step, test in enumerate(tests, 1)])
    settings(run, steps=4)
    opened = load(run)
    assert opened.readings() == {"last": 0.5, "median": 0.5, "validated": None}
    assert opened.finished
    assert torch.isfinite(next(opened.model.parameters())).all()
