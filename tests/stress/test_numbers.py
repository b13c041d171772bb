"""Extreme numbers, batches, labels and data: every method ends in a finite model or in a sentence, and says so if it
predicts one class for everything."""

import re
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from halfsure import SSLClassifier
from halfsure.cli import main
from halfsure.data import Data, DataError, from_arrays
from halfsure.runs.checkpoint import read_state
from halfsure.runs.folder import Folder
from halfsure.runs.run import Run, load
from halfsure.runs.start import start
from halfsure.training.class_shares import listed
from halfsure.training.errors import BrokenError, CollapseWarning, RunError
from tests.training.helpers import CLASSES, lines, rows, tiny

METHODS = (
    *("supervised", "supervised+ads", "vat", "vat+me", "vat+ns", "vat+ads", "vat@entmax1.5+pl"),
    *("mixmatch", "mixmatch+ns", "mixmatch-ads", "mixmatch-top2"),
    *("fixmatch", "fixmatch-sh", "fixmatch-ads", "fixmatch-top2", "fixmatch@sparsemax+me"),
)
FAMILIES = tuple(name for name in METHODS if name not in {"supervised+ads", "vat", "vat+ns", "mixmatch", "fixmatch-sh"})
"""Those that are tried in every case: each algorithm, map and strategy once or more."""
FEW = ("supervised", "vat+ads", "mixmatch-ads", "fixmatch-ads")
"""One of each algorithm: the fast tests try these alone."""
SENTENCE = r"[A-Za-z].{20,}"


class Scaled(nn.Module):
    """A linear network whose logits are multiplied by a number."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.inner, self.factor = nn.Linear(5, CLASSES), factor

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.inner(x) * self.factor
        return logits


class Exploding(Scaled):
    """The exponential of its logits."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).exp()


def with_samples(change: Callable[[Any], Any], data: Data | None = None) -> Data:
    """The rows of a small set, changed."""
    data = data or rows()
    samples = change(data.train.samples.astype(np.float64)).astype(np.float32)
    return replace(data, train=replace(data.train, samples=samples))


def elsewhere(samples: Any) -> Any:
    """The unlabeled samples from another distribution."""
    samples[12:] = np.random.default_rng(5).normal(size=samples[12:].shape) * 50
    return samples


def shifted(labels: Any) -> Any:
    """Every label the wrong one."""
    return np.where(labels < 0, labels, (labels + 1) % CLASSES)


def labeled(samples: Any, labels: Any) -> Data:
    return from_arrays(np.asarray(samples, dtype=np.float32), labels)


def first(count: int) -> Data:
    """The first samples alone, 12 of which are labeled."""
    data = rows()
    return labeled(data.train.samples[:count], data.train.labels[:count])


DATA: dict[str, Callable[[], Data]] = {
    "features of 1e30": lambda: with_samples(lambda x: x * 1e30),
    "features of 1e-40": lambda: with_samples(lambda x: x * 1e-40),
    "one value of 1e38": lambda: with_samples(lambda x: np.where(np.arange(x.size).reshape(x.shape) == 7, 1e38, x)),
    "a constant feature": lambda: with_samples(lambda x: x * [0, 1, 1, 1, 1]),
    "all rows equal": lambda: with_samples(lambda x: 0 * x + 3),
    "unlabeled noise": lambda: with_samples(elsewhere),
    "unlabeled zeros": lambda: with_samples(lambda x: x * (np.arange(60) < 12)[:, None]),
    "fewer unlabeled than a batch": lambda: first(14),
    "no unlabeled": lambda: first(12),
    "as many samples as classes": lambda: first(3),
    "duplicates that disagree": lambda: labeled(np.ones((12, 5)), np.arange(12) % CLASSES),
    "every label wrong": lambda: labeled(rows().train.samples, shifted(rows().train.labels)),
    "random labels": lambda: labeled(
        rows().train.samples, np.where(np.arange(60) < 12, np.random.default_rng(1).permutation(60) % CLASSES, -1)
    ),
}
NETWORKS: dict[str, Callable[[], nn.Module]] = {
    **{f"logits × {factor:g}": partial(Scaled, factor) for factor in (1e4, 1e20, 1e37, 3e38, 1e-42, 0.0)},
    "logits exp": lambda: Exploding(20.0),
}
SETTINGS: dict[str, dict[str, Any]] = {
    "one sample a step": {"batch": 1, "unlabeled_batch": 1},
    "one sample a step, batch norm": {"batch": 1, "unlabeled_batch": 1, "norm": "batch"},
    "bf16": {"precision": "bf16"},
    "learning rate 1e6": {"lr": 1e6},
    "learning rate 1e38": {"lr": 1e38, "optimizer": "sgd"},
}
CASES = (*DATA, *NETWORKS, *SETTINGS)


def attempt(case: str, method: str, out: Path | None = None) -> tuple[Run, set[str], list[str]]:
    """Train in a case. → the run, the classes it predicts, and the warnings of collapse."""
    data = DATA.get(case, rows)()
    model = NETWORKS[case]() if case in NETWORKS else None
    config = tiny(method=method, steps=8, evaluations=1, **SETTINGS.get(case, {}))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        run = start(data, config, model=model, out=out)
    assert all(issubclass(warning.category, CollapseWarning) for warning in told), told[0].message
    parts = [part.samples for part in (data.train, data.test) if part is not None]
    predicted = {name for samples in parts for name in run.predict(samples)}
    return run, predicted, [str(warning.message) for warning in told]


@pytest.mark.parametrize("method", [pytest.param(m, marks=() if m in FEW else pytest.mark.slow) for m in FAMILIES])
@pytest.mark.parametrize("case", CASES)
def test_every_method_ends_in_a_finite_model_or_in_a_sentence(case: str, method: str) -> None:
    try:
        run, predicted, told = attempt(case, method)
    except (RunError, DataError) as error:
        assert re.match(SENTENCE, str(error))  # noqa: PT017 it may also end well
        return
    weights = [value for value in run.model.state_dict().values() if value.is_floating_point()]
    assert all(bool(value.isfinite().all()) for value in weights)
    if len(predicted) == 1:
        (only,) = predicted
        assert len(told) == 1
        assert f"{method} predicts {only} for every sample" in told[0]
        assert run.metrics[-1]["constant"] == only
    else:
        assert run.metrics[-1]["constant"] is None
        assert told == []  # too short a run to miss single classes


@pytest.mark.parametrize("changes", [{}, {"prior": "labels"}])
@pytest.mark.parametrize("method", METHODS)
def test_numbers_that_blow_up_end_a_run_in_a_sentence_and_spare_what_was_saved(
    method: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    if changes and not method.startswith(("mixmatch", "fixmatch")):
        with pytest.raises(ValueError, match="prior"):
            start(rows(), tiny(method=method, **changes))
        return
    config = tiny(method=method, optimizer="sgd", lr=1e36, warmup=1.0, steps=12, save_minutes=0, **changes)
    with pytest.raises(BrokenError, match=r"became infinite or NaN in step \d+ of .*checkpoint is that of step \d+"):
        start(rows(), config, out=tmp_path / "run")
    state, trouble = Folder(tmp_path / "run").resume()
    assert state is not None
    assert trouble == ""
    for part in ("model", "average"):
        assert all(bool(v.isfinite().all()) for v in state[part].values() if v.is_floating_point())
    opened = load(tmp_path / "run")
    assert all(bool(v.isfinite().all()) for v in opened.model.state_dict().values() if v.is_floating_point())


def test_an_average_that_overflows_is_noticed_where_the_weights_do_not(tmp_path: Path) -> None:
    """From 3e38 to −3e38 is more than a float holds."""

    class Swinging(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(5, CLASSES))
            self.ballast = nn.Parameter(torch.full((2,), 3e38))

        def forward(self, x: Tensor) -> Tensor:
            with torch.no_grad():
                self.ballast.mul_(-1 if self.training else 1)
            return x @ self.weight

    with pytest.raises(BrokenError, match="the averaged weight ballast became infinite or NaN"):
        start(rows(), tiny(method="supervised", save_minutes=0), model=Swinging(), out=tmp_path)
    average = read_state(tmp_path / "resume.safetensors")["average"]
    assert all(bool(value.isfinite().all()) for value in average.values())


def test_batch_norm_over_one_sample_is_refused_with_a_way_out(tmp_path: Path) -> None:
    config = tiny(method="supervised", batch=1, norm="batch")
    with pytest.raises(RunError, match="raise batch and unlabeled_batch, or set norm to none or group"):
        start(rows(), config, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_new_samples_that_the_model_has_no_finite_answer_to_are_refused() -> None:
    run = start(rows(), tiny(method="supervised"), model=Scaled(1e30))
    far = np.full((3, 5), 1e30, dtype=np.float32)
    for ask in (run.predict, run.predict_proba, run.predict_set):
        with pytest.raises(DataError, match=r"sample 1 is not finite"):
            ask(np.concatenate([rows().train.samples[:1], far]))


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        (np.zeros(60, dtype=np.int64), "only one class"),
        (np.full(60, -1), "no label at all"),
        (np.where(np.arange(60) == 3, 1, -1), "only one class"),
        (np.where(np.arange(60) < 12, np.arange(60) % 3, np.inf), "infinity"),
    ],
)
def test_labels_that_teach_nothing_are_refused(labels: Any, told: str) -> None:
    with pytest.raises(DataError, match=told):
        SSLClassifier(steps=5).fit(rows().train.samples, labels)
    with pytest.raises(DataError, match=r"class|label"):
        from_arrays(rows().train.samples, labels if np.isfinite(labels).all() else np.zeros(60))


def test_the_classifier_takes_nan_for_unlabeled_and_tells_of_a_collapse() -> None:
    labels = np.where(np.arange(60) < 12, np.arange(60) % 3, np.nan)
    model = SSLClassifier(steps=30, folds=0).fit(rows().train.samples, labels)
    assert set(model.predict(rows().train.samples).tolist()) == {0.0, 1.0, 2.0}
    with pytest.warns(CollapseWarning, match=r"predicts \d for every sample"):
        model = SSLClassifier(steps=30).fit(np.ones((30, 4)), np.arange(30) % 3)
    assert len(set(model.predict(np.ones((5, 4))).tolist())) == 1


def test_an_imbalanced_set_that_was_learnt_is_no_collapse(tmp_path: Path) -> None:
    """One sample in forty, in the data and, where a prior says so, against labels that were chosen by class."""
    samples = np.random.default_rng(0).normal(size=(800, 3))
    rare = np.arange(800) % 40 == 0
    samples[rare] += 8
    drawn = from_arrays(samples, np.where(np.arange(800) < 120, rare.astype(int), -1))
    chosen = np.concatenate([np.flatnonzero(rare)[:6], np.flatnonzero(~rare)[:6]])
    even = from_arrays(samples, np.where(np.isin(np.arange(800), chosen), rare.astype(int), -1))
    config = tiny(method="fixmatch-ads", steps=120, evaluations=1, ema=0.9)
    for data, prior in ((drawn, None), (even, (0.975, 0.025))):
        run = start(data, config.replace(prior=prior))  # warnings are errors here
        predicted = run.metrics[-1]["unlabeled"]["predicted"]
        assert 5 <= predicted[1] <= 40
        assert (run.metrics[-1]["dead"], run.metrics[-1]["constant"]) == ([], None)


def test_a_collapse_is_told_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """In metrics.jsonl, in the warning, by compare and in the report."""
    monkeypatch.chdir(tmp_path)
    np.savez("equal.npz", X=np.ones((40, 3), np.float32), y=np.arange(40) % 2, classes=np.array(["yes", "no"]))
    flags = ["--steps", "20", "--evaluations", "1", "--no-tensorboard", "--net", "mlp-4"]
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert main(["train", "equal.npz", "--method", "supervised", "--folds", "0", "--out", "run", *flags]) == 0
    out, err = capsys.readouterr()
    (only,) = {lines(Path("run"))[-1]["constant"]}
    assert only in ("yes", "no")
    assert f"warning: supervised predicts {only} for every sample" in " ".join(err.split())
    assert f"predicts only {only}" in out
    assert f"predicts {only} for every sample" in Path("run/report.html").read_text()
    command = ["compare", "equal.npz", "--labels", "10", "--methods", "supervised", "--seeds", "1", "--jobs", "1"]
    main([*command, "--out", "both", *flags])
    assert "seed 0, predicts" in " ".join(capsys.readouterr()[0].split())


def test_the_command_line_ends_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    samples = rows().train.samples
    np.savez("one.npz", X=samples, y=np.zeros(60, dtype=np.int64))
    np.savez("good.npz", X=samples, y=rows().train.labels)
    flags = ["--steps", "20", "--no-tensorboard", "--net", "mlp-4", "--folds", "0"]
    assert main(["train", "one.npz", "--out", "one", *flags]) == 2
    assert "a classifier needs at least two" in " ".join(capsys.readouterr().err.split())
    assert not Path("one").exists()
    for method in ("mixmatch", "fixmatch-ads", "vat+ads"):
        assert main(["train", "good.npz", "--method", method, "--lr", "1e38", "--out", method, *flags]) == 1
        told = " ".join(capsys.readouterr().err.split())
        assert "became infinite or NaN in step" in told
        assert "Traceback" not in told


@pytest.mark.parametrize(
    "method", ["supervised", *(pytest.param(m, marks=pytest.mark.slow) for m in ("fixmatch-ads", "vat+ns"))]
)
def test_ten_thousand_classes_stay_within_bounds(method: str) -> None:
    """A label each: memory grows by a few passes over (batch, classes), not by (classes, classes)."""
    count = 10_000
    samples = np.random.default_rng(0).normal(size=(count + 500, 4)).astype(np.float32)
    data = from_arrays(samples, np.where(np.arange(count + 500) < count, np.arange(count + 500), -1))
    Path("/proc/self/clear_refs").write_text("5")
    before = peak()
    run = start(data, tiny(method=method, steps=2, evaluations=1, batch=32, unlabeled_batch=32))
    assert len(run.predict(samples)) == len(samples)
    assert peak() - before < 500 * 2**20  # all logits at once would be 420 MB, a dozen times in score
    assert run.metrics[-1]["dead"] == []


def peak() -> int:
    """The most memory this process had since it was last asked to forget. → bytes."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return 1024 * int(found[1])


def test_a_sentence_names_few_of_many_classes() -> None:
    assert listed(["a", "b"]) == "a, b"
    assert listed([str(k) for k in range(9_999)]) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 9,989 more"
