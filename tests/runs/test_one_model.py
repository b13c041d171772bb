"""One model, one set of numbers: whoever asks it, in whatever way, is told the same."""

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import halfsure
from halfsure import SSLClassifier
from halfsure.cli import main
from halfsure.data import DataError
from halfsure.runs import go_on
from halfsure.runs.model_file import read_model, set_temperature
from halfsure.training.errors import RunError

pytestmark = [
    pytest.mark.filterwarnings("ignore::halfsure.training.CollapseWarning"),
    pytest.mark.filterwarnings("ignore::halfsure.estimator.answer.FallbackWarning"),
]

COUNT, LABELS = 48, 18
TRUTH = np.arange(COUNT) % 3
RNG = np.random.default_rng(0)
ROWS = (RNG.normal(size=(COUNT, 4)) + TRUTH[:, None]).astype(np.float32)
IMAGES = np.clip(RNG.integers(0, 120, (COUNT, 8, 8)) + 60 * TRUTH[:, None, None], 0, 255).astype(np.uint8)
WORDS = (["red", "warm", "fire"], ["blue", "cold", "ice"], ["green", "soft", "moss"])
TEXTS = [" ".join([*RNG.choice(WORDS[k], 4), *RNG.choice(WORDS[(k + 1) % 3], 2)]) for k in TRUTH]
WRONG = RNG.permutation(LABELS)[:6]
"""Labels that are no use: the held-out ones then ask for another temperature than 1."""


def rows(folder: Path) -> tuple[Any, Path]:
    np.savez(folder / "new.npz", X=ROWS)
    return ROWS, folder / "new.npz"


def images(folder: Path) -> tuple[Any, Path]:
    np.savez(folder / "new.npz", X=IMAGES)
    return IMAGES, folder / "new.npz"


def table(folder: Path) -> tuple[Any, Path]:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"size": ROWS[:, 0], "kind": [f"k{i % 5}" for i in range(COUNT)], "text": TEXTS})
    frame.to_csv(folder / "new.csv", index=False)
    return pandas.read_csv(folder / "new.csv"), folder / "new.csv"


def texts(folder: Path) -> tuple[Any, Path]:
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame({"text": TEXTS}).to_csv(folder / "new.csv", index=False)
    return TEXTS, folder / "new.csv"


def predicted(model: Path, data: Path, *words: str) -> NDArray[np.float64]:
    """The columns p_CLASS that the command writes."""
    out = data.with_name("out.csv")
    assert main(["predict", str(model), str(data), "-o", str(out), "--force", "--probabilities", *words]) == 0
    with out.open(newline="", encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    return np.array([[float(value) for name, value in row.items() if name.startswith("p_")] for row in found])


@pytest.mark.parametrize("method", ["fixmatch-ads", "supervised"])  # in sparsemax, in softmax
@pytest.mark.parametrize("kind", [rows, images, table, texts])
def test_every_way_gives_the_same_probabilities(
    kind: Callable[[Path], tuple[Any, Path]], method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    new, file = kind(tmp_path)
    y = np.where(np.arange(COUNT) < LABELS, TRUTH, -1)
    y[WRONG] = (y[WRONG] + 1) % 3
    net = "conv7-2" if kind is images else "mlp-8"
    settings = {"lr": 0.03, "ema": 0.5, "batch": 16, "unlabeled_batch": 16}
    model = SSLClassifier(method, net=net, steps=12, folds=2, out=tmp_path / "run", settings=settings).fit(new, y)
    assert model.temperature_ != 1.0
    lone = shutil.copy(tmp_path / "run" / "model.safetensors", tmp_path / "lone.safetensors")
    wanted = model.predict_proba(new)
    again, alone = halfsure.load(tmp_path / "run"), halfsure.load(lone)
    for probs in (again.predict_proba(new), alone.predict_proba(new), again.predict_proba(file)):
        np.testing.assert_array_equal(probs, wanted)
    for path in (tmp_path / "run", lone):
        np.testing.assert_allclose(predicted(Path(path), file), wanted, rtol=0, atol=1e-7)
    # A second way of knowing: the map of the logits over the temperature.
    assert model.method_ == method
    cooled = again.logits(model._samples(new)).double() / model.temperature_
    np.testing.assert_array_equal(wanted, again.map(cooled).numpy())
    named = [tuple(str(name) for name in some) for some in model.predict_set(new)]
    assert named == again.predict_set(new) == alone.predict_set(file)
    assert [str(name) for name in model.predict(new)] == again.predict(new) == alone.predict(file)


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that the command trained and checked; a third of its labels are wrong."""
    folder = tmp_path_factory.mktemp("checked")
    y = np.where(np.arange(COUNT) < LABELS, TRUTH, -1)
    y[WRONG] = (y[WRONG] + 1) % 3
    np.savez(folder / "rows.npz", X=ROWS, y=y)
    np.savez(folder / "new.npz", X=ROWS)
    words = ["--net", "mlp-8", "--steps", "12", "--evaluations", "1", "--batch", "16", "--unlabeled-batch", "16"]
    words += ["--lr", "0.03", "--ema", "0.5", "--no-tensorboard", "--no-report", "--folds", "2", "--jobs", "1"]
    assert main(["train", str(folder / "rows.npz"), "--out", str(folder / "run"), *words]) == 0
    shutil.copy(folder / "run" / "model.safetensors", folder / "lone.safetensors")
    return folder


def test_the_check_of_a_run_puts_its_temperature_into_the_model(checked: Path) -> None:
    noted = json.loads((checked / "run" / "trust.json").read_text())["evidence"]["temperature"]
    run, alone = halfsure.load(checked / "run"), halfsure.load(checked / "lone.safetensors")
    assert run.temperature == alone.temperature == noted != 1.0
    np.testing.assert_array_equal(run.predict_proba(ROWS), alone.predict_proba(ROWS))
    for name in ("run", "lone.safetensors"):
        np.testing.assert_allclose(predicted(checked / name, checked / "new.npz"), run.predict_proba(ROWS), atol=1e-7)


def test_a_run_gone_on_with_has_the_temperature_of_its_file(checked: Path) -> None:
    again = go_on(checked / "run")
    np.testing.assert_array_equal(again.predict_proba(ROWS), halfsure.load(checked / "run").predict_proba(ROWS))


def test_python_and_the_command_give_the_same_sets(checked: Path) -> None:
    run = halfsure.load(checked / "run")
    predicted(checked / "run", checked / "new.npz", "--coverage", "0.8")
    with (checked / "out.csv").open(newline="") as file:
        told = [tuple(row["candidates"].split("|")) for row in csv.DictReader(file)]
    assert run.predict_set(ROWS, coverage=0.8) == told
    assert run.predict_set(ROWS) != told


def test_a_model_file_alone_says_that_sets_need_the_run_folder(
    checked: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = halfsure.load(checked / "lone.safetensors")
    with pytest.raises(RunError, match="coverage needs the run folder"):
        alone.predict_set(ROWS, coverage=0.9)
    for option in ("coverage", "abstain"):
        words = ["predict", str(checked / "lone.safetensors"), str(checked / "new.npz"), f"--{option}", "0.9"]
        assert main(words) == 2
        assert f"{option} needs the run folder" in " ".join(capsys.readouterr().err.split())


def test_a_model_beside_another_run_is_not_taken_for_its_own(checked: Path, tmp_path: Path) -> None:
    shutil.copytree(checked / "run", tmp_path / "run")
    shutil.copy(checked / "run" / "folds" / "1-of-2" / "model.safetensors", tmp_path / "run" / "other.safetensors")
    other = halfsure.load(tmp_path / "run" / "other.safetensors")
    assert (other.path, other.temperature, other.evidence) == (None, 1.0, None)
    assert halfsure.load(tmp_path / "run" / "model.safetensors").path == tmp_path / "run"


def test_models_from_before_take_the_temperature_beside_them(checked: Path, tmp_path: Path) -> None:
    shutil.copytree(checked / "run", tmp_path / "run")
    before = halfsure.load(tmp_path / "run")
    rest = Path(tmp_path / "run" / "model.safetensors")
    rest.write_bytes(without_temperature(rest))
    assert read_model(rest).temperature is None
    again = halfsure.load(tmp_path / "run")
    assert again.temperature == before.temperature
    assert again.predict_set(ROWS, coverage=0.8) == before.predict_set(ROWS, coverage=0.8)


def without_temperature(file: Path) -> bytes:
    from halfsure.runs.tensor_file import pack, unpack  # noqa: PLC0415 - of this helper alone

    about, weights = unpack(file)
    return pack({name: about[name] for name in about if name not in ("sha256", "temperature")}, weights)


def test_a_check_at_another_temperature_is_refused(checked: Path, tmp_path: Path) -> None:
    shutil.copytree(checked / "run", tmp_path / "run")
    set_temperature(tmp_path / "run" / "model.safetensors", 3.25)
    run = halfsure.load(tmp_path / "run")
    assert run.temperature == 3.25
    with pytest.raises(RunError, match=r"the model's is 3\.250: .* halfsure resume"):
        run.predict_set(ROWS, coverage=0.8)


@pytest.mark.parametrize("temperature", ["1", 0, -1.0, True, [2.0], 10**400])
def test_a_temperature_that_is_none_is_refused(temperature: Any, checked: Path, tmp_path: Path) -> None:
    from halfsure.runs.tensor_file import pack, unpack  # noqa: PLC0415 - of this test alone

    about, weights = unpack(checked / "lone.safetensors")
    told = {name: value for name, value in about.items() if name != "sha256"} | {"temperature": temperature}
    (tmp_path / "odd.safetensors").write_bytes(pack(told, weights))
    with pytest.raises(RunError, match="odd"):
        halfsure.load(tmp_path / "odd.safetensors")


def test_what_a_model_cannot_take_is_refused_in_a_sentence(checked: Path) -> None:
    run = halfsure.load(checked / "run")
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(ROWS, columns=list("abcd"))
    np.testing.assert_array_equal(run.predict_proba(frame), run.predict_proba(ROWS))
    np.testing.assert_array_equal(run.predict_proba(ROWS.tolist()), run.predict_proba(ROWS))
    refused: list[tuple[Any, str]] = [
        (ROWS[:, :3], r"X has samples of shape \(3,\), but the model takes \(4,\)"),
        (frame[["a", "b"]], r"X has samples of shape \(2,\), but the model takes \(4,\)"),
        (frame.assign(d="x"), "X: samples must be numbers"),
        (TEXTS, r"X is a list of texts, but the model takes samples of shape \(4,\)"),
        (ROWS[0], "X: samples must be numbers of shape"),
        (None, "X: samples must be numbers of shape"),
        (np.full_like(ROWS, np.nan), "X: row 0 holds NaN"),
        ("gone.csv", "the model was trained on arrays"),
        (["a", 3], "X, row 1, is no text"),
    ]
    for given, sentence in refused:
        with pytest.raises(DataError, match=sentence):
            run.predict(given)


def test_a_table_wants_its_columns(tmp_path: Path) -> None:
    frame, _ = table(tmp_path)
    y = np.where(np.arange(COUNT) < LABELS, TRUTH, -1)
    SSLClassifier("supervised", net="mlp-4", steps=3, folds=0, out=tmp_path / "run").fit(frame, y)
    run = halfsure.load(tmp_path / "run")
    for given, sentence in (
        (frame.drop(columns="kind"), "the table has no column 'kind', which the model was trained on$"),
        (frame.assign(more=1), "the table has a column 'more', which the model was not trained on$"),
        (TEXTS, "X is a list of texts, but the model takes the columns size, kind, text"),
        (ROWS[:, :2], "give a DataFrame with the columns size, kind, text"),
    ):
        with pytest.raises(DataError, match=sentence):
            run.predict_proba(given)
    np.testing.assert_array_equal(run.predict_proba(frame[["text", "kind", "size"]]), run.predict_proba(frame))
