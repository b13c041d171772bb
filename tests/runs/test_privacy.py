"""What a run writes tells nothing of whose machine it was: no absolute path, no name of user, home or host."""

import json
import platform
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import halfsure
from halfsure import SSLClassifier, report
from halfsure._shown import path_from, without_places
from halfsure.cli import main

pytestmark = pytest.mark.filterwarnings("ignore::halfsure.training.CollapseWarning")

SECRET, USER, HOST = "alice-secret-home", "alicesecretuser", "alicesecrethost"
SMALL = ["--net", "mlp-4", "--steps", "4", "--evaluations", "1", "--batch", "8", "--unlabeled-batch", "8"]
COUNT = 36
ROWS = np.random.default_rng(0).normal(size=(COUNT, 3)).astype(np.float32) + (np.arange(COUNT) % 3)[:, None]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of somebody on a machine, with data in it."""
    folder = tmp_path / SECRET
    (folder / "data").mkdir(parents=True)
    for name, value in {"HOME": str(folder), "USER": USER, "LOGNAME": USER, "HOSTNAME": HOST}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(platform, "node", lambda: HOST)
    monkeypatch.setattr("socket.gethostname", lambda: HOST)
    lines = [f"{a:.4f},{b:.4f},{'xyz'[row % 3] if row < 18 else ''}" for row, (a, b, _) in enumerate(ROWS)]
    (folder / "data" / "orders.csv").write_text("\n".join(["a,b,kind", *lines]) + "\n")
    tested = [f"{a + 0.5:.4f},{b:.4f},{'xyz'[row % 3]}" for row, (a, b, _) in enumerate(ROWS)]
    (folder / "data" / "later.csv").write_text("\n".join(["a,b,kind", *tested]) + "\n")
    np.savez(folder / "data" / "rows.npz", X=ROWS, y=np.where(np.arange(COUNT) < 18, np.arange(COUNT) % 3, -1))
    return folder


def leaks(folder: Path, *names: str) -> list[str]:
    """Files below a folder whose path or content holds one of some names."""
    wrong = []
    for file in sorted(folder.rglob("*")):
        content = file.read_bytes() if file.is_file() else b""
        where = str(file.relative_to(folder))
        wrong += [f"{where}: {name}" for name in names if name.encode() in content or name in where]
    return wrong


@pytest.mark.parametrize("inside", [pytest.param(True, marks=pytest.mark.slow), False])
def test_nothing_a_command_writes_tells_whose_machine_it_was(
    inside: bool, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pandas")
    out = home / "runs" if inside else tmp_path / "elsewhere"
    out.mkdir()
    monkeypatch.chdir(home)
    data, test = str(home / "data" / "orders.csv"), str(home / "data" / "later.csv")
    (home / "mine.py").write_text("")
    words = [data, "--label-column", "kind", "--test", test, "--parts", str(home / "mine.py"), *SMALL]
    assert main(["train", *words, "--out", str(out / "a"), "--folds", "2", "--jobs", "1"]) == 0
    split = ["--split", str(out / "a" / "split.json"), "--no-tensorboard", "--seed", "1"]
    assert main(["train", *words, "--out", str(out / "b"), "--folds", "0", *split]) == 0
    compare = ["compare", *words, "--methods", "supervised,vat", "--seeds", "1", "--jobs", "1", "--no-tensorboard"]
    assert main([*compare, "--out", str(out / "c")]) == 0
    assert main([*compare, "--out", str(out / "c")]) == 0  # the same again is known as the same
    assert main(["report", str(out / "a"), str(out / "b"), "-o", str(out / "page.html")]) == 0
    assert main(["predict", str(out / "a"), data, "-o", str(out / "p.csv")]) == 0
    assert leaks(out, SECRET, USER, HOST, str(tmp_path)) == []
    assert list((out / "a" / "tensorboard").iterdir()) or not (out / "a" / "tensorboard").exists()
    recorded = json.loads((out / "a" / "config.json").read_text())
    assert recorded["source"] == ("../../data/orders.csv" if inside else "./orders.csv")
    assert recorded["data"]["reader"]["test"] == ("../../data/later.csv" if inside else "./later.csv")


def test_nothing_the_classifier_writes_tells_whose_machine_it_was(home: Path, tmp_path: Path) -> None:
    y = np.where(np.arange(COUNT) < 18, np.arange(COUNT) % 3, -1)
    settings = {"tensorboard": True}
    SSLClassifier("supervised", net="mlp-4", steps=3, folds=0, out=home / "run", settings=settings).fit(ROWS, y)
    assert leaks(home / "run", SECRET, USER, HOST, str(tmp_path)) == []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::halfsure.data.DataWarning")  # the test rows stand in for those of training
@pytest.mark.parametrize("inside", [True, False])
def test_resume_and_report_find_the_data_or_ask_for_them(
    inside: bool, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pandas")
    run = (home if inside else tmp_path) / "run"
    monkeypatch.chdir(home)
    words = ["--label-column", "kind", "--test", "data/later.csv", "--folds", "0", "--no-tensorboard", *SMALL]
    assert main(["train", "data/orders.csv", *words, "--out", str(run)]) == 0
    monkeypatch.chdir(tmp_path)  # from anywhere
    capsys.readouterr()
    if inside:
        assert main(["resume", str(run)]) == 0
        assert main(["report", str(run)]) == 0
        assert "The samples cannot be shown" not in (run / "report.html").read_text()
        assert main(["evaluate", str(run), str(home / "data" / "orders.csv")]) == 0
        assert "the model was trained on these data" in " ".join(capsys.readouterr().err.split())
        shutil.move(home / "data", home / "moved")
    assert main(["resume", str(run)]) == 2
    assert "orders.csv, the data of" in (said := " ".join(capsys.readouterr().err.split()))
    assert "say where it is with --source PATH" in said
    assert main(["report", str(run)]) == 0
    page = (run / "report.html").read_text()
    assert "The samples cannot be shown: orders.csv, the data of run, is not where it was" in page
    moved = str(home / ("moved" if inside else "data") / "orders.csv")
    assert main(["resume", str(run), "--source", moved]) == 0
    assert main(["report", str(run), "--source", moved]) == 0
    assert "The samples cannot be shown" not in (run / "report.html").read_text()
    assert leaks(run, SECRET, USER, HOST, str(tmp_path)) == []
    # Other data are no answer to the question.
    assert main(["resume", str(run), "--source", str(Path(moved).with_name("later.csv"))]) == 2


def test_runs_that_recorded_whole_paths_still_go_on(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    words = ["--out", "run", "--folds", "0", "--no-tensorboard", "--no-report", *SMALL]
    assert main(["train", "data/rows.npz", *words]) == 0
    file = home / "run" / "config.json"
    before = json.loads(file.read_text())
    file.write_text(json.dumps(before | {"source": str(home / "data" / "rows.npz")}))
    assert main(["resume", "run", "--no-report"]) == 0
    report.write(["run"], home / "page.html")
    assert SECRET not in (home / "page.html").read_text()


def test_a_report_can_do_without_samples(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    words = ["--out", "run", "--folds", "0", "--no-tensorboard", *SMALL]
    assert main(["train", "data/rows.npz", *words, "--no-samples"]) == 0
    page = (home / "run" / "report.html").read_text()
    assert 'id="samples"' not in page
    assert main(["report", "run"]) == 0
    shown = (home / "run" / "report.html").read_text()
    assert 'id="samples"' in shown
    assert "training sample" in shown
    assert "training sample" not in page
    assert main(["report", "run", "--no-samples"]) == 0
    assert (home / "run" / "report.html").read_text() == page


def test_a_path_is_kept_from_the_run_folder_unless_it_tells_whose_it_is(home: Path, tmp_path: Path) -> None:
    cases: list[tuple[Path, Path, str]] = [
        (home / "runs" / "x", home / "data" / "a.csv", "../../data/a.csv"),
        (home / "x", home / "x" / "a.csv", "./a.csv"),
        (tmp_path / "runs", home / "a.csv", "./a.csv"),
        (tmp_path / "runs", tmp_path / "a.csv", "./a.csv"),  # the folder above both holds the home as well
        (home / "runs", tmp_path / "a.csv", "./a.csv"),
        (home / "runs", home / USER / "a.csv", "./a.csv"),
        (home / "runs", home / HOST / "deep" / "a.csv", "./a.csv"),
        (Path("/srv/project/runs"), Path("/srv/project/data/a.csv"), "../data/a.csv"),
        (Path("/srv/runs"), Path("/mnt/a.csv"), "./a.csv"),
        (home / "photos" / "runs" / "x", home / "photos", "../.."),
        (home / "photos" / "x", home / "photos", "../."),
        (home / "photos", home / "photos", "./."),
        (tmp_path / "runs", home, "./data"),
    ]
    for folder, path, wanted in cases:
        assert path_from(folder, path) == wanted
        assert wanted in ("./a.csv", "./data") or (folder / wanted).resolve() == path.resolve()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("no file /home/bob/x.csv; looked in /srv/a/b, ~/y/z", "no file x.csv; looked in b, z"),
        ("--out=/home/bob/runs/x --test ../t.csv data/x.csv", "--out=x --test ../t.csv data/x.csv"),
        ("1/2 of a/b, http://x/y and '/a/b'", "1/2 of a/b, http://x/y and 'b'"),
        (r"C:\Users\bob\x.csv", "x.csv"),
    ],
)
def test_folders_are_left_out_of_texts(text: str, wanted: str) -> None:
    assert without_places(text) == wanted


def test_names_of_user_and_home_are_left_out_of_any_way(home: Path) -> None:
    words = f"compare ../{SECRET}/data/x.csv --out={USER}/runs ~/y.csv {home} {home}/z my-{USER}/a"
    assert without_places(words) == f"compare data/x.csv --out=runs ~/y.csv ~ z my-{USER}/a"


def test_a_home_that_is_the_data_is_not_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for row in range(12):
        folder = home / "labeled" / "ab"[row % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((8, 8), 10 * row + 100 * (row % 2), np.uint8)).save(folder / f"{row}.png")
    monkeypatch.chdir(home)
    words = ["--size", "8", "--folds", "0", "--no-tensorboard", *SMALL]
    assert main(["train", ".", "--out", "runs/x", *words]) == 0
    assert leaks(home / "runs", SECRET, USER, HOST) == []
    assert "on data" in (home / "runs" / "x" / "report.html").read_text()
    assert main(["resume", "runs/x"]) == 0


def test_known_folders_are_left_out_whatever_their_names_hold() -> None:
    folder: Any = Path("/home/bob the builder/my runs")
    assert without_places(f"there is no run in {folder}/x: mend it", folder / "x") == "there is no run in x: mend it"


def test_a_loaded_run_has_no_more_to_tell(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    words = ["--out", "run", "--folds", "0", "--no-tensorboard", "--no-report", *SMALL]
    assert main(["train", str(home / "data" / "rows.npz"), *words]) == 0
    assert SECRET not in json.dumps(halfsure.load("run").config)
