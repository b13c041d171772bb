"""Which runs belong together, and what is refused."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from halfsure import report
from halfsure.cli import _parse
from halfsure.cli.train import Train
from halfsure.bank.opening import DataConfig, open_data
from halfsure.report.reading import read_record
from halfsure.report.setup import by_preset, command
from halfsure.report.study import read
from halfsure.training.config import Config
from halfsure.training.errors import RunError
from halfsure.training.presets import preset
from tests.report.conftest import METHODS
from tests.report.helpers import comparison, made_up_run, read_page


def test_runs_that_differ_in_the_seed_alone_are_one_method(tmp_path: Path) -> None:
    paths = [made_up_run(tmp_path / f"{seed}", seed=seed) for seed in (3, 1, 2)]
    study = read(paths)
    assert [group.name for group in study.groups] == ["fixmatch-ads"]
    assert [record.seed for record in study.groups[0].records] == [1, 2, 3]


def test_the_same_method_with_other_settings_is_another_and_says_which(tmp_path: Path) -> None:
    one = made_up_run(tmp_path / "one", changes={"lr": 0.002, "threads": 1})
    other = made_up_run(tmp_path / "other", changes={"lr": 0.01, "threads": 2})
    assert [group.name for group in read([one, other]).groups] == ["fixmatch-ads (lr 0.002)", "fixmatch-ads (lr 0.01)"]


def test_timed_runs_of_unlike_length_are_seeds_of_one_method(tmp_path: Path) -> None:
    paths = [
        made_up_run(tmp_path / f"{seed}", seed=seed, steps=(10, 20, 30 + seed), changes={"time": "1m"})
        for seed in (0, 1)
    ]
    study = read(paths)
    assert len(study.groups) == 1
    page = read_page(report.write(paths, tmp_path / "report.html"))
    assert page.tables["Results by method"][1][-1] == "30 … 31"


def test_methods_come_in_the_order_of_the_comparison(tmp_path: Path) -> None:
    folder = comparison(tmp_path / "c", ["vat+ads", "supervised", "fixmatch"], [0])
    study = read([folder])
    assert [group.name for group in study.groups] == ["vat+ads", "supervised", "fixmatch"]
    assert study.reference.name == "supervised"
    assert read([folder / "vat+ads-s0", folder / "fixmatch-s0"]).reference.name == "vat+ads"


def test_what_is_missing_unfinished_or_mixed_is_said(tmp_path: Path) -> None:
    folder = comparison(tmp_path / "c", ["supervised", "fixmatch"], [0, 1])
    shutil.rmtree(folder / "fixmatch-s1")
    config = json.loads((folder / "fixmatch-s0/config.json").read_text())
    config["config"]["training"]["steps"] = 1000
    config["fingerprint"]["sha256"] = "other"
    (folder / "fixmatch-s0/config.json").write_text(json.dumps(config))
    text = read_page(report.write([folder], tmp_path / "report.html")).text
    assert "Not here yet: fixmatch with seed 1." in text
    assert "fixmatch with seed 0 is at step 30 of 1,000." in text
    assert "Not all runs of seed 0 had the same samples and labels." in text


def test_where_there_is_no_test_set_validation_or_unlabeled_errors_are_shown(tmp_path: Path) -> None:
    for parts, name in ((("val", "unlabeled"), "validation"), (("unlabeled",), "unlabeled")):
        run = made_up_run(tmp_path / name, parts=parts)
        page = read_page(report.write([run], tmp_path / "report.html"))
        assert f"{name} error" in [head.strip() for head in page.tables["Results by method"][0]]
        assert f"Error on {name} samples" in page.text


def test_without_any_known_label_the_page_says_so(tmp_path: Path) -> None:
    nothing: dict[str, Any] = {
        "unlabeled": {"error": None, "ece": None, "support": 2.0, "dominant": 0.5, "histogram": [1] * 10}
    }
    run = made_up_run(tmp_path / "run", parts=(), last=nothing)
    page = read_page(report.write([run], tmp_path / "report.html"))
    assert "there is no error to report" in page.text
    assert "50.0 % sure on average, with 2.00 candidate classes" in page.text
    assert page.tables["Results by method"][1] == ["fixmatch-ads", "2.00", "1", "30"]
    assert "Calibration" not in [text.strip() for text in page.text.splitlines()]


def test_baselines_may_be_given_and_come_after_those_of_the_comparison(tmp_path: Path) -> None:
    folder = comparison(tmp_path / "c", ["supervised"], [0, 1], baselines={"1-NN": {"0": 0.5, "1": 0.4}})
    page = read_page(
        report.write([folder], tmp_path / "report.html", baselines={"trees": {0: 0.25, 1: 0.35}}, title="T")
    )
    rows = page.tables["Results by method"]
    assert [row[0] for row in rows[1:]] == ["supervised", "1-NN", "trees"]
    assert rows[3][1] == "30.00 ± 7.07 %"
    with pytest.raises(RunError, match="baselines are errors by seed"):
        report.write([folder], tmp_path / "report.html", baselines={"trees": 0.3})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not valid JSON"),
        ('{"format": 2}', "not a comparison of format 1"),
        ('{"format": 1, "methods": [1]}', "does not list its methods and seeds"),
        ('{"format": 1, "seeds": "12"}', "does not list its methods and seeds"),
        ('{"format": 1, "baselines": [1]}', "baselines are errors by seed"),
        ('{"format": 1, "baselines": {"a": {"0": NaN}}}', "not valid JSON"),
        ('{"format": 1, "baselines": {"a": {"0": 1e999}}}', "must be a finite number"),
    ],
)
def test_a_broken_comparison_is_refused(content: str, message: str, tmp_path: Path) -> None:
    folder = comparison(tmp_path / "c", ["supervised"], [0])
    (folder / "compare.json").write_text(content)
    with pytest.raises(RunError, match=message):
        read([folder])


def test_what_cannot_be_reported_is_refused(tmp_path: Path) -> None:
    run = made_up_run(tmp_path / "run")
    shutil.copytree(run, tmp_path / "copy")
    with pytest.raises(RunError, match="the same run with the same seed"):
        read([run, tmp_path / "copy"])
    assert len(read([run, tmp_path / "copy/../run"]).records) == 1
    with pytest.raises(RunError, match="at least one run folder"):
        read([])
    with pytest.raises(RunError, match="is a folder"):
        report.write([run], tmp_path)
    (tmp_path / "copy/metrics.jsonl").unlink()
    with pytest.raises(RunError, match="no evaluation yet"):
        read([tmp_path / "copy"])
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty/compare.json").write_text('{"format": 1}')
    with pytest.raises(RunError, match="holds no run"):
        read([tmp_path / "empty"])
    for settings in ({"method": "fixmatch-ads"}, {"method": "nonsense", "seed": 0, "steps": 3}):
        config = json.loads((run / "config.json").read_text()) | {"config": settings}
        (run / "config.json").write_text(json.dumps(config))
        with pytest.raises(RunError, match=r"config\.json"):
            read([run])


def test_metrics_with_strange_values_still_make_a_page(tmp_path: Path) -> None:
    strange: dict[str, Any] = {
        "test": {"error": "x", "reliability": [1], "histogram": ["a"]},
        "dead": 3,
        "unlabeled": 7,
    }
    run = made_up_run(tmp_path / "run", last=strange)
    assert "no error to report" in read_page(report.write([run], tmp_path / "report.html")).text


@pytest.mark.parametrize("method", ["supervised", "vat+ads", "mixmatch-ads", "fixmatch"])
def test_the_presets_values_are_those_the_data_would_give(method: str, tmp_path: Path) -> None:
    data = open_data("digits", DataConfig(labels=10), 0)
    record = read_record(made_up_run(tmp_path / "run", method))
    assert record is not None
    assert by_preset(record) == preset(data, method, "quick", 0).plain


def test_the_command_gives_the_same_settings(tmp_path: Path) -> None:
    data = open_data("digits", DataConfig(labels=10), 4)
    chosen = preset(data, "fixmatch-ads", "quick", 4).flat
    changes: dict[str, Any] = {"lr": 0.003, "flip": True, "tensorboard": False, "clip": 1.0, "prior": (0.1,) * 10}
    changes |= {"weak_grad": True}  # true, false or neither
    record = read_record(made_up_run(tmp_path / "run", "fixmatch-ads", 4, changes=chosen | changes | {"steps": 30}))
    assert record is not None
    words = command(record)
    assert words is not None
    assert words.startswith("halfsure train digits --labels 10 --method fixmatch-ads")
    assert "--weight" not in words
    parsed: Any = _parse(words.split()[1:])
    assert isinstance(parsed.options, Train)
    assert parsed.config == Config.from_json(record.config["config"])
    assert parsed.data_config.labels == 10


def test_a_run_of_version_0_1_has_the_same_settings_and_command(tmp_path: Path) -> None:
    """It had one list of settings for every method and kind of data; those without a meaning were null."""
    path = made_up_run(tmp_path / "run", "fixmatch-ads", 4, changes={"lr": 0.003, "shift": 1, "cutout": 4})
    new = read_record(path)
    assert new is not None
    config = json.loads((path / "config.json").read_text())
    unused = {"epsilon": None, "temperature": None, "weak_noise": 0.1, "momentum": 0.9, "dropout": None}
    unused |= {"r": None, "weight": None, "distance": None}  # the defaults
    known = {name: value for name, value in new.settings.items() if name != "views"}
    config |= {"format": 1, "config": known | unused, "data": {"labels": 10, "root": None, "skip_bad": False, "val": 0}}
    (path / "config.json").write_text(json.dumps(config))
    old = read_record(path)
    assert old is not None
    assert command(old) == command(new)
    assert by_preset(old) == by_preset(new)
    page = read_page(report.write([path], tmp_path / "report.html"))
    changed = page.tables["Settings beside the preset"][1:]
    assert [row[:3] for row in changed] == [["steps", "30", "600"], ["lr", "0.003", "0.002"]]


def test_views_of_texts_are_those_of_the_preset(tmp_path: Path) -> None:
    """Whether a table has texts is not recorded, and so they are not taken for a change."""
    path = made_up_run(tmp_path / "run", changes={"views": "texts", "net": "mlp", "steps": 60})
    config = json.loads((path / "config.json").read_text())
    config["fingerprint"]["shape"] = [100, 32]
    (path / "config.json").write_text(json.dumps(config))
    record = read_record(path)
    assert record is not None
    expected = by_preset(record)
    assert expected is not None
    assert expected["strong_drop"] == 0.7
    assert record.settings == expected


def test_settings_that_differ_from_the_preset_come_first(whole: Path, trained: Path) -> None:
    page = read_page(whole)
    rows = page.tables["Settings beside the preset"]
    assert ["steps", "60", "600", "all"] in rows
    assert ["net", "mlp-64", "conv7-16", "all"] in rows
    assert len(rows) == 1 + 6
    every = {row[0]: row[1:] for row in page.tables["All settings"][1:]}
    assert every["method"] == ["supervised", "fixmatch-ads"]
    stored = [json.loads((trained / f"{name}-s0/config.json").read_text())["config"] for name in METHODS]
    assert set(every) == {name for config in stored for name in Config.from_json(config).plain} - {"seed"}
    assert every["r"] == ["–", "2.0"]
    assert len(page.tables["Runs"]) == 1 + 4
    assert "halfsure compare digits" in page.text
