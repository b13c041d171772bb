"""`halfsure predict` and `evaluate` as a person or a script meets them."""

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import halfsure
from halfsure.cli import main
from halfsure.cli.predict import _called, rows
from halfsure.cli.using import escaped
from halfsure.data import from_arrays, load
from halfsure.runs.run import Run
from halfsure.runs.start import start
from tests.training import helpers

SMALL: dict[str, Any] = {"steps": 30, "evaluations": 1, "tensorboard": False, "net": "mlp-8", "method": "fixmatch-ads"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small models of digits, of rows, of a table and of images."""
    folder = tmp_path_factory.mktemp("runs")
    start(load("digits", labels=40), helpers.tiny(**SMALL), out=folder / "digits", source="digits")
    data = helpers.rows()
    named = from_arrays(data.train.samples, data.train.labels, classes=["a|b", "=1+1", 'c "d", é'])
    start(named, helpers.tiny(**SMALL), out=folder / "rows")
    np.savez(folder / "rows.npz", X=data.train.samples, y=np.arange(60) % 3, classes=["a|b", "=1+1", 'c "d", é'])
    np.savez(folder / "plain.npz", X=data.train.samples)
    return folder


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HALFSURE_DATA", str(tmp_path / "sets"))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    shown = capsys.readouterr()
    return shown.out, " ".join(shown.err.split())


def read_csv(file: Path) -> list[dict[str, str]]:
    with file.open(newline="", encoding="utf-8") as opened:
        return list(csv.DictReader(opened))


def split(text: str) -> list[str]:
    r"""The inverse of `escaped`, letter by letter."""
    names, letters = [""], iter(text)
    for letter in letters:
        if letter == "|":
            names.append("")
        else:
            names[-1] += next(letters) if letter == "\\" else letter
    return names


def naive(run: Run, samples: Any) -> list[tuple[str, float, list[str]]]:
    """The same as the rows of the command, sample by sample."""
    found = []
    for sample in samples:
        probs = run.predict_proba(sample[None])[0]
        order = sorted(range(len(probs)), key=lambda i: (-probs[i], i))
        found.append((run.classes[order[0]], float(probs[order[0]]), [run.classes[i] for i in order if probs[i] > 0]))
    return found


def test_predict_writes_what_the_model_says(runs: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", str(runs / "rows"), str(runs / "plain.npz"), "-o", "out.csv", "--probabilities"]) == 0
    out, err = said(capsys)
    assert out.strip() == "60 predictions are in out.csv"
    assert err == ""
    run = halfsure.load(runs / "rows")
    samples = helpers.rows().train.samples
    expected = naive(run, samples)
    found = read_csv(here / "out.csv")
    assert [row["name"] for row in found] == [str(i) for i in range(60)]
    for row, (label, probability, candidates) in zip(found, expected, strict=True):
        assert row["label"] == label
        assert float(row["probability"]) == pytest.approx(probability, abs=1e-6)
        assert split(row["candidates"]) == candidates
    table = np.array([[float(row[f"p_{name}"]) for name in run.classes] for row in found])
    np.testing.assert_allclose(table, run.predict_proba(samples), atol=1e-6)
    assert any(len(candidates) > 1 for *_, candidates in expected)
    assert not list(here.glob("*.part"))


def test_predict_writes_parquet_with_lists(runs: Path, here: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    for out in ("out.csv", "out.parquet"):
        assert main(["predict", str(runs / "rows"), str(runs / "plain.npz"), "-o", out]) == 0
    table = parquet.read_table(here / "out.parquet").to_pylist()
    for row, text in zip(table, read_csv(here / "out.csv"), strict=True):
        assert row["candidates"] == split(text["candidates"])
        assert (row["name"], row["label"]) == (text["name"], text["label"])
        assert row["probability"] == float(text["probability"])


def test_names_joined_can_be_told_apart_again() -> None:
    for names in (["a"], ["a|b", "c"], ["a\\", "b"], ["\\|", "|\\", "||"], ["", "x"]):
        assert split(escaped(names)) == names
    assert escaped(["a|b", "c\\"]) == "a\\|b|c\\\\"


def test_a_model_file_alone_is_enough(runs: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "alone.safetensors").write_bytes((runs / "digits" / "model.safetensors").read_bytes())
    assert main(["predict", "alone.safetensors", "digits", "--json"]) == 0
    told = json.loads(said(capsys)[0])
    assert main(["predict", str(runs / "digits"), "digits", "-o", "out.csv"]) == 0
    found = read_csv(here / "out.csv")
    assert told["samples"] == len(found) == 360
    assert {name: n for name, n in told["predicted"].items() if n} == Counter(row["label"] for row in found)
    assert told["candidates"] == pytest.approx(np.mean([len(split(row["candidates"])) for row in found]))
    assert told["written"] is None


def test_without_a_file_the_first_rows_are_shown(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", str(runs / "digits"), "digits"]) == 0
    out, _ = said(capsys)
    assert out.splitlines()[0].split() == ["name", "label", "probability", "candidates"]
    assert len([line for line in out.splitlines() if line[:1].isdigit()]) == 10
    assert "the first 10 of 360; write them to a file with -o predictions.csv" in out


def test_pictures_are_named_by_their_paths(runs: Path, here: Path) -> None:
    for place, sample in enumerate(load("digits").train.samples[:3]):
        file = here / "new" / "sub" / f"{place}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(sample[..., 0]).save(file)
    assert main(["predict", str(runs / "digits"), "new", "-o", "out.csv"]) == 0
    run = halfsure.load(runs / "digits")
    found = read_csv(here / "out.csv")
    assert [row["name"] for row in found] == ["sub/0.png", "sub/1.png", "sub/2.png"]
    assert [row["label"] for row in found] == run.predict(load("digits").train.samples[:3])


REFUSED: dict[str, tuple[list[str], str]] = {
    "no model": (["predict", "gone", "digits"], "there is no run in gone"),
    "no data": (["predict", "DIGITS", "gone"], "there is no file or folder gone"),
    "wrong data": (["predict", "ROWS", "digits"], "but the model takes (5,)"),
    "suffix": (["predict", "DIGITS", "digits", "-o", "out.xlsx"], "written as .csv or .parquet"),
    "no folder": (["predict", "DIGITS", "digits", "-o", "no/out.csv"], "there is no folder no to write out.csv into"),
    "no labels": (["evaluate", "ROWS", "PLAIN"], "has no labels to measure by"),
    "other classes": (["evaluate", "DIGITS", "other"], "the model knows no class 'cat'; it knows 0, 1, 2"),
    "no model, evaluate": (["evaluate", "gone", "digits"], "there is no run in gone"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_done_is_refused_in_a_sentence(
    case: str, runs: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "other" / "cat").mkdir(parents=True)
    Image.new("L", (8, 8)).save(here / "other" / "cat" / "1.png")
    before = sorted(here.rglob("*"))
    words = {"DIGITS": runs / "digits", "ROWS": runs / "rows", "PLAIN": runs / "plain.npz"}
    arguments, message = REFUSED[case]
    assert main([str(words.get(word, word)) for word in arguments]) == 2
    out, err = said(capsys)
    assert err.startswith("halfsure: ")
    assert message in err
    assert out == ""
    assert sorted(here.rglob("*")) == before


def test_a_file_that_exists_is_not_touched_unless_forced(
    runs: Path, here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "out.csv").write_text("precious")
    command = ["predict", str(runs / "digits"), "digits", "-o", "out.csv"]
    with monkeypatch.context() as patched:  # the file is looked at before any work is done
        patched.setattr("halfsure.cli.predict.open_both", lambda *_: pytest.fail("too early"))
        assert main(command) == 2
    assert "out.csv exists already; choose another name, or overwrite it with --force" in said(capsys)[1]
    assert (here / "out.csv").read_text() == "precious"
    assert main([*command, "--force"]) == 0
    assert len(read_csv(here / "out.csv")) == 360
    (here / "dir.csv").mkdir()
    assert main([*command[:-1], "dir.csv", "--force"]) == 2


def test_a_file_is_written_whole_or_not_at_all(
    runs: Path, here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "out.csv").write_text("precious")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    assert main(["predict", str(runs / "digits"), "digits", "-o", "out.csv", "--force"]) == 2
    assert "No space left on device" in said(capsys)[1]
    assert {file.name: file.read_text() for file in here.iterdir()} == {"out.csv": "precious"}


def test_parquet_needs_pyarrow(runs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("halfsure.cli.using.find_spec", lambda _: None)
    assert main(["predict", str(runs / "digits"), "digits", "-o", "out.parquet"]) == 2
    assert "pip install 'halfsure[tables]'" in said(capsys)[1]


def test_tables_and_leniency(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pandas")
    lines = [f"{value % 7},{'xy'[value % 2]},{['no', 'yes', ''][value % 3]}" for value in range(30)]
    (here / "train.csv").write_text("\n".join(["a,b,label", *lines]) + "\n")
    options = [
        "--folds",
        "0",
        "--no-report",
        "--net",
        "mlp-8",
        "--steps",
        "5",
        "--evaluations",
        "1",
        "--no-tensorboard",
        "--out",
        "run",
    ]
    assert main(["train", "train.csv", "--label-column", "label", *options]) == 0
    said(capsys)
    (here / "new.csv").write_text("b,a,extra\nx,1,5\nz,2,5\n")
    assert main(["predict", "run", "new.csv", "-o", "out.csv"]) == 2
    assert "new.csv: the table has a column 'extra'" in said(capsys)[1]
    assert main(["predict", "run", "new.csv", "-o", "out.csv", "--lenient"]) == 0
    assert [row["name"] for row in read_csv(here / "out.csv")] == ["0", "1"]
    said(capsys)
    assert main(["evaluate", "run", "train.csv", "--json"]) == 0
    out, err = said(capsys)
    assert json.loads(out)["labeled"] == 20
    assert "the model was trained on these data" in err


def test_evaluate_measures_what_a_loop_would(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(runs / "rows"), str(runs / "rows.npz"), "--json"]) == 0
    told = json.loads(said(capsys)[0])
    run = halfsure.load(runs / "rows")
    samples, truth = helpers.rows().train.samples, [run.classes[i % 3] for i in range(60)]
    expected = naive(run, samples)
    wrong = [(y, label) for y, (label, *_) in zip(truth, expected, strict=True) if y != label]
    probs = run.predict_proba(samples).astype(float)
    of_truth = [row[run.classes.index(y)] for row, y in zip(probs, truth, strict=True)]
    assert told["error"] == len(wrong) / 60
    p, n, z = len(wrong) / 60, 60, 1.959963984540054
    # Wilson's interval holds the rates that the score test does not reject: both ends solve (p − e)² = z² e(1 − e)/n.
    for end in told["error_interval"]:
        assert (p - end) ** 2 == pytest.approx(z**2 * end * (1 - end) / n, abs=1e-9)
    assert told["truth_impossible"] == sum(value == 0 for value in of_truth)
    nll = None if 0 in of_truth else pytest.approx(-np.mean(np.log(of_truth)), rel=1e-4)
    assert told["nll"] == nll
    assert told["top_m_accuracy"] == pytest.approx(np.mean([value > 0 for value in of_truth]))
    assert told["support"] == pytest.approx(np.mean([len(c) for *_, c in expected]))
    for name in run.classes:
        mine = [label != name for y, (label, *_) in zip(truth, expected, strict=True) if y == name]
        assert told["class_error"][name] == pytest.approx(np.mean(mine))
    pairs = Counter(wrong)
    assert [pair["count"] for pair in told["confusions"]] == sorted(pairs.values(), reverse=True)[:5]
    assert all(pairs[pair["label"], pair["predicted"]] == pair["count"] for pair in told["confusions"])


def test_evaluate_tells_it_in_words(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(runs / "digits"), "digits", "--json"]) == 0
    told = json.loads(said(capsys)[0])
    assert main(["evaluate", str(runs / "digits"), "digits"]) == 0
    out, err = said(capsys)
    assert err == ""
    assert "read through sparsemax, the model's own map" in out
    assert f"{100 * told['error']:.2f} %, 95 % interval" in out
    assert "360 of 360" in out
    assert "most confused" in out


def test_evaluate_takes_the_test_part_of_an_npz(runs: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    samples, classes = helpers.rows().train.samples, ["a|b", "=1+1", 'c "d", é']
    np.savez(
        here / "x.npz", X=samples, y=np.zeros(60, int), X_test=samples[:9], y_test=np.arange(9) % 3, classes=classes
    )
    assert main(["evaluate", str(runs / "rows"), "x.npz", "--json"]) == 0
    assert json.loads(said(capsys)[0])["samples"] == 9


def test_text_from_a_model_cannot_speak_to_the_terminal(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = helpers.rows()
    hostile = from_arrays(data.train.samples, data.train.labels, classes=["\x1b[2J", "[red]b[/red]", "c"])
    start(hostile, helpers.tiny(**SMALL), out=here / "run")
    np.savez(here / "x.npz", X=data.train.samples, y=np.arange(60) % 3, classes=["\x1b[2J", "[red]b[/red]", "c"])
    for command in ("predict", "evaluate"):
        assert main([command, "run", "x.npz"]) == 0
        out, _ = said(capsys)
        assert "\x1b" not in out
        assert "[red]b[/red]" in out


def test_weights_that_are_not_finite_are_told(runs: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from safetensors import safe_open  # noqa: PLC0415 - of this test alone
    from safetensors.torch import save_file  # noqa: PLC0415

    with safe_open(runs / "digits" / "model.safetensors", "pt") as opened:
        told = json.loads(opened.metadata()["halfsure"])
        weights = {name: torch.full_like(opened.get_tensor(name), torch.nan) for name in opened.keys()}  # noqa: SIM118
    del told["sha256"]  # as somebody would who changes the weights by hand
    save_file(weights, here / "nan.safetensors", {"halfsure": json.dumps(told)})
    for command in ("predict", "evaluate"):
        assert main([command, "nan.safetensors", "digits"]) == 2
        assert "the model's output for sample 0 is not finite" in said(capsys)[1]


@pytest.mark.parametrize(
    "config", ["[]", "{", '{"format": 9}', "[" * 100_000, '{"format": 1, "source": 3, "fingerprint": []}']
)
def test_a_folder_with_hostile_files_beside_the_model_does_no_harm(
    config: str, runs: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "run").mkdir()
    (here / "run" / "model.safetensors").write_bytes((runs / "digits" / "model.safetensors").read_bytes())
    (here / "run" / "config.json").write_text(config)
    (here / "run" / "metrics.jsonl").write_text('{"step": "x"}\n[1]\n' + "[" * 100_000 + "\n{")
    code = main(["evaluate", "run", "digits"])
    _, err = said(capsys)
    assert (code == 0) if "fingerprint" in config else (code == 2 and err.startswith("halfsure: "))


def test_rows_are_made_of_logits_alone(runs: Path) -> None:
    """Ties go to the first class, in the label and in the order of the candidates alike."""
    run = halfsure.load(runs / "rows")
    found = rows(run, ["x", "y"], run.read(torch.tensor([[1.0, 1.0, 1.0], [0.0, 5.0, 0.0]])))
    assert found["label"] == [run.classes[0], run.classes[1]]
    assert found["candidates"] == [list(run.classes), [run.classes[1]]]
    assert found["probability"][1] == 1.0


def test_ids_come_back_first_and_may_be_missing(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pandas")
    rows = [f"{k:03},p{k % 5},{k * 37 % 101},{'ab'[k % 2]}" for k in range(40)]
    (here / "train.csv").write_text("\n".join(["code,patient,x,kind", *rows]) + "\n")
    roles = ["--label-column", "kind", "--id-column", "code", "--group-column", "patient"]
    small = ["--folds", "0", "--net", "mlp-8", "--steps", "5", "--evaluations", "1", "--no-tensorboard", "--out", "run"]
    assert main(["train", "train.csv", *roles, *small]) == 0
    out, _ = said(capsys)
    assert "1 column to learn from: 1 number (x); label = kind; id = code; groups = patient" in out
    assert main(["predict", "run", "train.csv", "-o", "out.csv"]) == 0
    assert (here / "out.csv").read_text().splitlines()[0] == "code,label,probability,candidates"
    assert [row["code"] for row in read_csv(here / "out.csv")] == [f"{k:03}" for k in range(40)]
    assert main(["predict", "run", "train.csv"]) == 0
    assert said(capsys)[0].splitlines()[1].split()[0] == "code"
    (here / "new.csv").write_text("x\n5\n99\n")  # neither id, nor group, nor label
    assert main(["predict", "run", "new.csv", "-o", "new_out.csv"]) == 0
    assert [row["name"] for row in read_csv(here / "new_out.csv")] == ["0", "1"]
    (here / "labeled.csv").write_text("x,kind\n5,a\n99,b\n")
    assert main(["evaluate", "run", "labeled.csv"]) == 0
    assert "2 of 2" in said(capsys)[0]


def test_an_id_column_does_not_replace_another_column() -> None:
    columns: dict[str, Any] = {"name": ["7"], "label": ["a"]}
    assert list(_called("label", columns)) == ["name", "label"]
    assert list(_called("code", columns)) == ["code", "label"]
