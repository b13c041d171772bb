"""The run folder after faults, damage, and visits by others."""

import errno
import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from torch import nn

import halfsure
from halfsure import _disk
from halfsure.runs import folder as folder_module
from halfsure.runs.checkpoint import read_state
from halfsure.runs.folder import Folder
from halfsure.runs.run import load
from halfsure.runs.start import start
from halfsure.training.errors import BrokenError, RunError, StoppedError
from halfsure.training.state import Training
from tests.training.helpers import differences, images, lines, rows, tiny

SHORT = tiny(method="supervised", steps=3, evaluations=2)


def full(*_: Any) -> Any:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Faults:
    """Makes the k-th call of one kind of system call fail, and counts them all."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.patch, self.calls, self.kinds = patch, 0, ("replace", "fsync", "write")
        self._fail_at = 0

    def install(self, kind: str, fail_at: int) -> None:
        self.patch.undo()
        self.calls, self._fail_at = 0, fail_at
        if kind == "write":
            for module in (_disk, folder_module):
                self.patch.setattr(module, "open", self._open, raising=False)
        else:
            self.patch.setattr(os, kind, self._counted(getattr(os, kind)))

    def _counted(self, call: Callable[..., Any], fail: Callable[..., Any] = full) -> Callable[..., Any]:
        def counted(*arguments: Any) -> Any:
            self.calls += 1
            return (fail if self.calls == self._fail_at else call)(*arguments)

        return counted

    def _open(self, path: Path, mode: str) -> Any:
        file = open(path, mode)  # noqa: SIM115 - the code that is tested closes it
        whole = file.write

        def half(content: bytes) -> None:
            whole(content[: len(content) // 2])
            file.flush()
            full()

        counted = self._counted(whole, half)

        class Written:
            def __enter__(self) -> Any:
                return self

            def __exit__(self, *_: object) -> None:
                file.close()

            write = staticmethod(counted)
            flush, fileno = file.flush, file.fileno

        return Written()


@pytest.mark.parametrize("kind", ["replace", "write", pytest.param("fsync", marks=pytest.mark.slow)])
def test_a_full_disk_at_any_write_loses_nothing_that_was_saved(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(rows(), SHORT, out=tmp_path / "whole")
    faults, save = Faults(pytest.MonkeyPatch()), Folder.save
    saved: list[int] = []

    def saving(self: Folder, state: dict[str, Any]) -> None:
        save(self, state)
        saved.append(state["step"])

    monkeypatch.setattr(Folder, "save", saving)
    for k in range(1, 100):
        out = tmp_path / str(k)
        saved.clear()
        faults.install(kind, k)
        try:
            start(rows(), SHORT, out=out)
            break  # there are fewer than k such calls: all have been tried
        except (OSError, BrokenError) as error:
            told = str(error)
        finally:
            faults.patch.undo()
        assert "No space left" in told
        folder = Folder(out)
        state, trouble = folder.resume()
        assert trouble == ""
        assert (state or {"step": -1})["step"] >= max(saved, default=-1)
        if folder.config is not None:
            assert json.loads((out / "split.json").read_text())["size"] == 60
        if (out / "model.safetensors").exists():
            load(out)
        assert start(rows(), SHORT, out=out).finished
        assert differences(*(read_state(path / "resume.safetensors") for path in (tmp_path / "whole", out))) == []
        assert differences(lines(tmp_path / "whole"), lines(out)) == []
        assert not [file.name for file in out.iterdir() if file.name.endswith(".part")]
    assert k > 8


@pytest.mark.parametrize("kind", ["replace", "fsync", "write"])
def test_a_full_disk_is_told_with_the_step_to_go_on_from(kind: str, tmp_path: Path) -> None:
    """Once the run has begun, whatever could not be written: a checkpoint, the model, a line of metrics."""
    faults = Faults(pytest.MonkeyPatch())
    faults.install(kind, 0)
    start(rows(), SHORT.replace(steps=1, evaluations=1), out=tmp_path / "one")
    first, unlike = faults.calls, []
    for k in range(first + 1, 100):
        faults.install(kind, k)
        try:
            start(rows(), SHORT, out=tmp_path / str(k))
            break
        except (OSError, BrokenError) as error:
            if not (isinstance(error, BrokenError) and "last good checkpoint is that of step" in str(error)):
                unlike.append(f"call {k} of {kind}: {error!r}")
        finally:
            faults.patch.undo()
    faults.patch.undo()
    assert unlike == []


def test_a_damaged_checkpoint_is_not_put_in_the_place_of_the_whole_one_before_it(tmp_path: Path) -> None:
    """Saving after damage: whatever fails, there must be something whole to go on from."""
    faults = Faults(pytest.MonkeyPatch())
    for k in (1, 2, 3):
        folder = Folder(tmp_path / str(k))
        folder.path.mkdir()
        folder.save({"step": 1})
        folder.save({"step": 2})
        (folder.path / "resume.safetensors").write_bytes(b"damaged")
        assert folder.resume()[0] == {"step": 1}
        faults.install("replace", k)
        try:
            folder.save({"step": 2})
        except OSError:
            pass
        finally:
            faults.patch.undo()
        state, _ = folder.resume()
        assert state is not None
        assert state["step"] >= 1


@pytest.fixture
def stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that was stopped after step 2, with a checkpoint of step 1 before."""
    update = Training.update
    with pytest.MonkeyPatch.context() as patch:

        def updating(self: Training) -> Any:
            if self.done == 1:
                os.kill(os.getpid(), signal.SIGTERM)
            return update(self)

        patch.setattr(Training, "update", updating)
        with pytest.raises(StoppedError):
            start(rows(), SHORT.replace(evaluations=3), out=tmp_path / "run")
    out = tmp_path / "run"
    assert [read_state(out / name)["step"] for name in ("resume.safetensors", "resume.previous.safetensors")] == [2, 1]
    return out


def damages(content: bytes) -> dict[str, bytes]:
    """Cut off at several lengths, or with one bit flipped at several places."""
    n = len(content)
    cut = {f"cut to {length}": content[:length] for length in (0, 1, 100, n // 2, n - 65, n - 1)}
    flipped = {}
    checksum = content.index(b"sha256")
    for place in (0, 30, checksum, checksum + 20, n // 3, n // 2, n - 300, n - 1):
        changed = bytearray(content)
        changed[place] ^= 4
        flipped[f"bit at {place}"] = bytes(changed)
    return cut | flipped | {"longer": content + b"\0", "other": b"\x80\x04N."}


def test_a_damaged_checkpoint_is_passed_over_and_named(stopped: Path) -> None:
    whole = (stopped / "resume.safetensors").read_bytes()
    for what, content in damages(whole).items():
        (stopped / "resume.safetensors").write_bytes(content)
        state, trouble = Folder(stopped).resume()
        assert state is not None, what
        assert state["step"] == 1, what
        assert str(stopped / "resume.safetensors") in trouble, what
        assert "going on from resume.previous.safetensors, step 1" in trouble, what
    shown = StringIO()
    start(rows(), SHORT.replace(evaluations=3), out=stopped, console=Console(file=shown, width=300))
    assert "resume.safetensors is damaged: " in shown.getvalue()
    assert "; going on from resume.previous.safetensors, step 1" in shown.getvalue()
    start(rows(), SHORT.replace(evaluations=3), out=stopped.parent / "whole")
    assert differences(*(read_state(p / "resume.safetensors") for p in (stopped, stopped.parent / "whole"))) == []
    assert differences(lines(stopped), lines(stopped.parent / "whole")) == []


def test_without_a_whole_checkpoint_nothing_is_trained_and_both_are_named(stopped: Path) -> None:
    before = {file.name: file.read_bytes() for file in stopped.iterdir()}
    for name in ("resume.safetensors", "resume.previous.safetensors"):
        before[name] = before[name][:-70]
        (stopped / name).write_bytes(before[name])
    both = r"resume\.safetensors is damaged: .*; .*resume\.previous\.safetensors is damaged: .*; there is nothing whole"
    with pytest.raises(RunError, match=both):
        start(rows(), SHORT.replace(evaluations=3), out=stopped)
    assert {file.name: file.read_bytes() for file in stopped.iterdir()} == before


def test_a_run_without_its_checkpoints_begins_anew_with_new_metrics(stopped: Path) -> None:
    for name in ("resume.safetensors", "resume.previous.safetensors"):
        (stopped / name).unlink()
    run = start(rows(), SHORT.replace(evaluations=3), out=stopped)
    assert [line["step"] for line in run.metrics] == [1, 2, 3]
    assert [line["step"] for line in lines(stopped)] == [1, 2, 3]
    assert [line["step"] for line in load(stopped).metrics] == [1, 2, 3]


def test_a_checkpoint_without_the_config_it_belongs_to_is_not_taken_for_that_of_another_run(stopped: Path) -> None:
    (stopped / "config.json").unlink()
    other = SHORT.replace(lr=0.5)
    try:
        run = start(rows(), other, out=stopped)
    except RunError:
        return
    alone = start(rows(), other, out=stopped.parent / "alone")
    assert differences(run.metrics, alone.metrics) == []


def test_a_finished_run_that_lost_its_metrics_still_opens(tmp_path: Path) -> None:
    start(rows(), SHORT, out=tmp_path)
    whole = load(tmp_path).metrics
    (tmp_path / "metrics.jsonl").unlink()
    assert load(tmp_path).metrics == []
    assert len(whole) == len(start(rows(), SHORT, out=tmp_path).metrics) > 0  # the checkpoint has them
    assert load(tmp_path).metrics == whole


class Hostile:
    """Runs code when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return Path.touch, (self.mark,)


@pytest.mark.parametrize("form", ["zip", "legacy", "pickle"])
@pytest.mark.parametrize("name", ["resume.pt", "resume.safetensors"])
def test_a_checkpoint_cannot_run_code(name: str, form: str, tmp_path: Path) -> None:
    mark, file = tmp_path / "ran", tmp_path / name
    state = {"step": 1, "model": Hostile(mark)}
    if form == "pickle":
        file.write_bytes(pickle.dumps(state))
    else:
        torch.save(state, file, _use_new_zipfile_serialization=form == "zip")
    with pytest.raises(RunError, match="needs halfsure 0.1" if name == "resume.pt" else "is damaged"):
        Folder(tmp_path).resume()
    assert not mark.exists()
    pickle.loads(pickle.dumps(state))  # the trap works
    assert mark.exists()


def test_a_run_of_version_0_1_is_not_gone_on_with_and_stays_as_it_is(stopped: Path) -> None:
    for name in ("resume.safetensors", "resume.previous.safetensors"):
        (stopped / name).rename(stopped / name.replace("safetensors", "pt"))
    before = {file.name: file.read_bytes() for file in stopped.iterdir()}
    needs = r"needs halfsure 0\.1, which saved it, to go on; its model can be used as it is$"
    with pytest.raises(RunError, match=needs):
        start(rows(), SHORT.replace(evaluations=3), out=stopped)
    assert {file.name: file.read_bytes() for file in stopped.iterdir()} == before
    assert load(stopped).predict_proba(rows().train.samples).shape == (60, 3)
    (stopped / "config.json").unlink()
    with pytest.raises(RunError, match=r"has checkpoints but no config\.json"):
        start(rows(), SHORT.replace(evaluations=3), out=stopped)


@pytest.mark.parametrize("state", [{"steps": 3}, [1, 2], {"step": "3"}])
def test_a_whole_file_that_is_no_checkpoint_is_refused(state: Any, tmp_path: Path) -> None:
    Folder(tmp_path).save(state)
    with pytest.raises(RunError, match="is not a checkpoint"):
        Folder(tmp_path).resume()


def test_one_process_a_folder_and_a_dead_one_holds_no_lock(tmp_path: Path) -> None:
    code = (
        f"import sys, time; from halfsure.runs.folder import Folder\n"
        f"with Folder({str(tmp_path)!r}).lock():\n    print('locked', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout is not None
            assert other.stdout.readline() == "locked\n"
            with pytest.raises(RunError, match="another process is training in"):
                start(rows(), SHORT, out=tmp_path)
            assert [file.name for file in tmp_path.iterdir()] == [".lock"]
        finally:
            other.kill()
            other.wait(20)
    assert start(rows(), SHORT, out=tmp_path).finished


def test_the_lock_is_given_back_when_a_run_ends_in_an_error(tmp_path: Path) -> None:
    with Folder(tmp_path).lock(), pytest.raises(RunError, match="another process"):
        start(rows(), SHORT, out=tmp_path)
    start(rows(), SHORT, out=tmp_path)
    for _ in range(2):
        with pytest.raises(RunError, match="lr was"):
            start(rows(), SHORT.replace(lr=1.0), out=tmp_path)


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    start(rows(), SHORT, out=tmp_path / "run")
    return tmp_path / "run"


def change(folder: Path, **changes: Any) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "is not valid JSON"),
        (b"", "is not valid JSON"),
        (b"\xff\xfe", "is not valid JSON"),
        (b"[" * 100_000, "is not valid JSON"),
        (b"[1, 2]", "is not the config of a run"),
        (b"{}", "is not the config of a run"),
        (b'{"format": 3, "versions": {"halfsure": "9.1"}}', "format 3, made by halfsure 9.1.*reads format 2"),
        (b'{"format": 3, "versions": 3}', r"format 3, made by halfsure \?"),
        (b'{"format": 2, "versions": 3}', "is not the config of a run"),
    ],
)
def test_a_config_that_cannot_be_read(content: bytes, message: str, finished: Path) -> None:
    (finished / "config.json").write_bytes(content)
    with pytest.raises(RunError, match=message):
        start(rows(), SHORT, out=finished)
    with pytest.raises(RunError, match=message):
        load(finished)
    assert (finished / "config.json").read_bytes() == content


def test_another_version_may_use_a_run_but_not_go_on_with_it(finished: Path) -> None:
    change(finished, versions={"halfsure": "0.0.7", "torch": "1.0"})
    with pytest.raises(RunError, match=rf"begun by halfsure 0\.0\.7, this is {halfsure.__version__}"):
        start(rows(), SHORT, out=finished)
    assert load(finished).finished


def test_another_torch_is_remarked(finished: Path) -> None:
    change(finished, versions={"halfsure": halfsure.__version__, "torch": "1.0"})
    shown = StringIO()
    start(rows(), SHORT, out=finished, console=Console(file=shown, width=300))
    assert f"begun with torch 1.0, now {torch.__version__}: the bits may differ" in shown.getvalue()


@pytest.mark.parametrize(
    "changes",
    [{"lr": 0.2}, {"method": "vat"}, {"steps": 4}, {"seed": 1}, {"method": "mixmatch", "batch": 3}],
)
def test_another_config_is_refused_and_what_differs_is_named(changes: dict[str, Any], finished: Path) -> None:
    before = {file.name: file.read_bytes() for file in finished.iterdir()}
    with pytest.raises(RunError, match="holds another run") as refused:
        start(rows(), SHORT.replace(**changes), out=finished)
    told = [f"{key} was {getattr(SHORT, key)!r}, now {value!r}" for key, value in changes.items()]
    assert str(refused.value).startswith(f"{finished} holds another run: {'; '.join(told)}. Choose another --out")
    assert {file.name: file.read_bytes() for file in finished.iterdir()} == before


def other_data() -> dict[str, Any]:
    data = rows()
    changed = data.train.samples.copy()
    changed[59, 4] += 1e-3
    labels = data.train.labels.copy()
    labels[[0, 1]] = labels[[1, 0]]
    assert data.test is not None
    return {
        "a sample": replace(data, train=replace(data.train, samples=changed)),
        "a label": replace(data, train=replace(data.train, labels=labels)),
        "fewer labeled": data.with_labels(data.labeled[:-1]),
        "unlabeled ones": replace(data, unlabeled=np.arange(50)),
        "no test": replace(data, test=None),
        "a test label": replace(data, test=replace(data.test, labels=data.test.labels[::-1].copy())),
        "a name": replace(data, name="others"),
        "a class name": replace(data, classes=("0", "1", "two")),
    }


@pytest.mark.parametrize("what", other_data())
def test_other_data_are_refused(what: str, finished: Path) -> None:
    with pytest.raises(RunError, match="the data or its labels are not the same"):
        start(other_data()[what], SHORT, out=finished)


def test_a_torn_line_of_metrics_is_left_out_and_written_again(stopped: Path) -> None:
    file = stopped / "metrics.jsonl"
    whole = file.read_bytes()
    for torn in (b'{"step": 3, "sec', b'{"step": 3}\n{"st', b"\xff\xfe\n\n", b"3\n[]\n"):
        file.write_bytes(whole + torn)
        assert [line["step"] for line in Folder(stopped).metrics(up_to=2)] == [1, 2]
        assert [line["step"] for line in load(stopped).metrics][:2] == [1, 2]
    run = start(rows(), SHORT.replace(evaluations=3), out=stopped)
    assert [line["step"] for line in run.metrics] == [line["step"] for line in lines(stopped)] == [1, 2, 3]
    assert file.read_bytes().startswith(whole)


def test_metrics_are_cut_back_to_the_checkpoint_that_is_gone_on_from(stopped: Path) -> None:
    """A run that was killed between an evaluation and its checkpoint: the evaluation is done again."""
    with (stopped / "metrics.jsonl").open("a") as file:
        file.write('{"step": 3, "told": "before the end"}\n')
    start(rows(), SHORT.replace(evaluations=3), out=stopped)
    assert [line["step"] for line in lines(stopped)] == [1, 2, 3]
    assert "told" not in lines(stopped)[-1]


def test_load_says_what_is_missing(tmp_path: Path, finished: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(RunError, match="there is no run in"):
            load(path)
    assert not (tmp_path / "none").exists()
    model = finished / "model.safetensors"
    content = model.read_bytes()
    for damaged in (b"", content[:50], content[:-8], b"\0" * 100):
        model.write_bytes(damaged)
        with pytest.raises(RunError, match=r"model\.safetensors"):
            load(finished)
    model.unlink()
    with pytest.raises(RunError, match="has no model yet"):
        load(finished)


def test_load_of_an_unfinished_run(stopped: Path) -> None:
    run = load(stopped)
    assert not run.finished
    assert [line["step"] for line in run.metrics] == [1, 2]
    assert run.predict_proba(rows().train.samples).shape == (60, 3)


def test_load_with_a_network_of_ones_own(tmp_path: Path) -> None:
    first = start(rows(), SHORT, model=nn.Linear(5, 3), out=tmp_path)
    with pytest.raises(RunError, match=r"network of one's own; give it: load\(path, model=...\)"):
        load(tmp_path)
    with pytest.raises(RunError, match="does not fit"):
        load(tmp_path, nn.Linear(6, 3))
    samples = rows().train.samples
    again = load(tmp_path, nn.Linear(5, 3))
    assert (again.predict_proba(samples) == first.predict_proba(samples)).all()


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_a_loaded_run_predicts_the_same_bits(precision: str, tmp_path: Path) -> None:
    data = images()
    first = start(data, tiny(precision=precision, net="conv7-4", norm="batch"), out=tmp_path)
    again = load(tmp_path)
    assert (again.logits(data.train.samples) == first.logits(data.train.samples)).all()
    assert again.map == first.map
    assert again.classes == first.classes
    assert again.preprocessing == first.preprocessing
    assert again.config == first.config
    assert again.predict_set(data.train.samples) == first.predict_set(data.train.samples)


def test_the_folder_holds_what_a_run_is(finished: Path) -> None:
    config = json.loads((finished / "config.json").read_text())
    assert config["config"] == SHORT.suited(rows()).as_json()
    assert config["versions"]["torch"] == torch.__version__
    assert config["config"]["run"]["seed"] == 0
    assert "git" in config
    split = json.loads((finished / "split.json").read_text())
    assert split["labeled"] == {str(k): [k, k + 3, k + 6, k + 9] for k in range(3)}
    assert [line["step"] for line in lines(finished)] == [2, 3]
    names = {"config.json", "split.json", "metrics.jsonl", "model.safetensors", ".lock"}
    names |= {"resume.safetensors", "resume.previous.safetensors"}
    assert {file.name for file in finished.iterdir()} == names
