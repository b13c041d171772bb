"""What a run measures of itself: when, on which samples, and what is made of it."""

import json
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from halfsure.data import Data, DataError, hold_out
from halfsure.metrics import score
from halfsure.runs.run import readings
from halfsure.runs.start import start
from halfsure.simplex import SPARSEMAX
from halfsure.training.config import Config
from halfsure.training.errors import CollapseWarning
from halfsure.training.evaluation import Evaluator
from halfsure.training.inference import logits_of
from halfsure.training.ranks import Ranks
from halfsure.training.state import make_feed
from halfsure.views.preprocessing import Preprocessing
from tests.training.helpers import images, known, lines, rows, tiny

quiet = pytest.mark.filterwarnings("ignore::halfsure.training.CollapseWarning")


def evaluator(data: Data, config: Config) -> Evaluator:
    return Evaluator(data, Preprocessing.of(data), config.algorithm(), config, ranks=Ranks())


class Places(nn.Module):
    """Tells which samples it was shown: rows whose first value is their place."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))
        self.seen: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        self.seen += [round(value) for value in x[:, 0].tolist()]
        return torch.nn.functional.one_hot(x[:, 0].round().long() % 3, 3).to(x) + self.weight


def numbered(count: int, first: int = 0) -> Any:
    samples = np.zeros((count, 5), dtype=np.float32)
    samples[:, 0] = np.arange(first, first + count)
    return samples


PLAIN = Preprocessing("array", (5,), (0.0,) * 5, (1.0,) * 5)


def places(data: Data, config: Config, step: int) -> tuple[dict[str, Any], list[int]]:
    """A line of metrics, and the places of all samples that went into it."""
    model = Places()
    one = Evaluator(data, PLAIN, config.algorithm(), config, ranks=Ranks())
    return one.line(step, model.eval()), model.seen


def with_places(data: Data) -> Data:
    """Training samples 0 … 59, test samples 1000 …, validation samples (if any) as in training."""
    assert data.test is not None
    val = data.val and replace(data.val, samples=numbered(len(data.val), 2000))
    return replace(
        data,
        train=replace(data.train, samples=numbered(60)),
        test=replace(data.test, samples=numbered(30, 1000)),
        val=val,
    )


def held_of(data: Data) -> Any:
    """The places that are held out of the streams."""
    assert data.unlabeled is not None
    return np.setdiff1d(np.arange(len(data.train)), data.unlabeled)


def test_evaluations_are_as_many_as_asked_for_evenly_and_one_at_the_end() -> None:
    pairs = [(steps, times) for steps in range(1, 61) for times in range(1, 71)]
    pairs += [(600, 10), (1000, 7), (2**20, 1024), (500_000, 1024), (99_991, 997), (3001, 3000)]
    for steps, times in pairs:
        config = tiny(steps=steps, evaluations=times)
        one = Evaluator.__new__(Evaluator)
        one.config = config
        due = [step for step in range(1, steps + 1) if one.due(step)]
        assert len(due) == min(steps, times), (steps, times)
        assert due[-1] == steps
        gaps = {b - a for a, b in zip([0, *due], due, strict=False)}
        assert max(gaps) - min(gaps) <= 1, (steps, times, gaps)


@quiet
@pytest.mark.parametrize(("steps", "times"), [(7, 3), (5, 9), (4, 1), (10, 4)])
def test_a_run_evaluates_when_it_is_due(steps: int, times: int, tmp_path: Path) -> None:
    run = start(rows(), tiny(method="supervised", steps=steps, evaluations=times), out=tmp_path)
    assert len(run.metrics) == min(steps, times)
    assert run.metrics[-1]["step"] == steps
    assert run.metrics == lines(tmp_path)


@quiet
@pytest.mark.parametrize(("steps", "times", "expected"), [(7, 3, [1, 3, 5, 7]), (3, 3, [1, 2, 3]), (1, 1, [1])])
def test_the_first_step_is_looked_at_if_asked_and_once(
    steps: int, times: int, expected: list[int], tmp_path: Path
) -> None:
    config = tiny(method="supervised", steps=steps, evaluations=times)
    early = start(rows(), config.replace(from_start=True), out=tmp_path / "early")
    plain = start(rows(), config, out=tmp_path / "plain")
    assert [line["step"] for line in early.metrics] == expected
    assert early.metrics[-1]["test"] == plain.metrics[-1]["test"]  # a look changes nothing


def test_each_part_is_measured_on_its_own_samples() -> None:
    data = with_places(hold_out(known(rows()), 10, seed=4))
    held = held_of(data)
    assert len(held) == 10
    line, seen = places(data, tiny(unlabeled_sample=0), step=12)
    test, val, unlabeled = seen[:30], seen[30:40], seen[40:]
    assert test == list(range(1000, 1030))
    assert val == list(range(2000, 2010))
    assert unlabeled == sorted(set(range(60)) - set(held.tolist()) - set(data.labeled.tolist()))
    assert [line[part]["samples"] for part in ("test", "val", "unlabeled")] == [30, 10, 38]


def test_samples_of_the_unlabeled_and_of_the_test_part_are_drawn_once_and_for_all() -> None:
    data = with_places(hold_out(known(rows()), 10, seed=4))
    config = tiny(unlabeled_sample=9, test_sample=7)
    line, seen = places(data, config, step=4)
    assert [line[part]["samples"] for part in ("test", "val", "unlabeled")] == [7, 10, 9]
    assert set(seen[:7]) <= set(range(1000, 1030))
    assert len(set(seen[:7])) == 7
    allowed = set(np.asarray(data.unlabeled).tolist()) - set(data.labeled.tolist())
    assert set(seen[17:]) <= allowed
    assert len(set(seen[17:])) == 9
    assert places(data, config, step=8)[1] == seen
    assert places(data, config.replace(seed=1), step=8)[1] != seen
    last, seen = places(data, config, step=12)
    assert [last[part]["samples"] for part in ("test", "val", "unlabeled")] == [30, 10, 9]


def test_scores_are_those_of_the_averaged_model_through_the_methods_map() -> None:
    data = known(rows())
    assert data.test is not None
    run = start(data, tiny(steps=40))
    logits = torch.as_tensor(run.logits(data.test.samples))
    last = run.metrics[-1]
    assert last["test"] == score(logits, torch.from_numpy(data.test.labels), SPARSEMAX)
    by_hand = np.mean(run.predict_proba(data.test.samples).argmax(1) != data.test.labels)
    assert last["test"]["error"] == pytest.approx(by_hand)
    rest = np.setdiff1d(np.arange(60), data.labeled)
    by_hand = np.mean(run.predict_proba(data.train.samples[rest]).argmax(1) != data.train.labels[rest])
    assert last["unlabeled"]["error"] == pytest.approx(by_hand)


@quiet
def test_labels_that_nobody_knows_are_not_scored_but_everything_else_is() -> None:
    data = replace(rows(), test=None)
    line = start(data, tiny(steps=2)).metrics[-1]
    assert "test" not in line
    assert "val" not in line
    assert line["unlabeled"]["error"] is None
    assert line["unlabeled"]["samples"] == 48
    assert 0 < line["unlabeled"]["dominant"] <= 1


def test_without_unlabeled_samples_there_is_no_such_part() -> None:
    data = known(rows())
    line = start(data.with_labels(np.arange(60)), tiny(method="supervised", steps=2)).metrics[-1]
    assert set(line) == {"step", "seconds", "train", "test", "dead", "constant"}


@quiet
@pytest.mark.parametrize("method", ["supervised", "vat", "vat+ns", "mixmatch-ads+me", "fixmatch", "fixmatch-top2"])
@pytest.mark.parametrize("whole", [True, False])
def test_metrics_are_json_without_nan(method: str, whole: bool, tmp_path: Path) -> None:
    data = known(images()) if whole else images()
    run = start(data, tiny(method=method, steps=4, evaluations=2), out=tmp_path)
    assert [line["step"] for line in lines(tmp_path)] == [2, 4]
    assert json.loads(json.dumps(run.metrics, allow_nan=False)) == run.metrics
    terms = {"total", "supervised", "consistency", "distillation"}
    assert set(run.metrics[0]["train"]) >= terms


def test_training_means_are_over_the_steps_since_the_last_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from halfsure.training.state import Training  # noqa: PLC0415 - beside what it patches

    update, totals = Training.update, []

    def updating(self: Training) -> Any:
        terms = update(self)
        found = {"total": terms.total, **terms.terms}
        totals.append([float(found[name].detach()) for name in ("total", "supervised", "consistency")])
        return terms

    monkeypatch.setattr(Training, "update", updating)
    metrics = start(rows(), tiny(method="vat", steps=40, evaluations=4)).metrics
    assert len(metrics) == 4
    for place, line in enumerate(metrics):
        wanted = np.mean(totals[10 * place : 10 * place + 10], axis=0)
        assert [line["train"][name] for name in ("total", "supervised", "consistency")] == pytest.approx(wanted)


def lines_of(errors: list[float | None], val: list[float | None] | None = None) -> list[dict[str, Any]]:
    found = []
    for step, error in enumerate(errors, 1):
        line: dict[str, Any] = {"step": step, "test": {"error": error}}
        if val is not None:
            line["val"] = {"error": val[step - 1]}
        found.append(line)
    return found


def test_readings_by_hand() -> None:
    errors = [0.5, 0.1, 0.4, 0.2, 0.3]
    assert readings(lines_of([*errors]), 3) == {"last": 0.3, "median": 0.3, "validated": None}
    assert readings(lines_of([*errors]), 4) == {"last": 0.3, "median": 0.25, "validated": None}
    assert readings(lines_of([*errors]), 99)["median"] == 0.3
    assert readings(lines_of([*errors], [0.3, 0.3, 0.2, 0.3, 0.3]), 2) == {
        "last": 0.3,
        "median": 0.25,
        "validated": 0.4,  # where validation was best, although test was better elsewhere
    }
    assert readings(lines_of([*errors], [0.2, 0.3, 0.3, 0.2, 0.3]), 1)["validated"] == 0.2  # of equals, the later
    assert readings([], 3) == {"last": None, "median": None, "validated": None}
    assert readings([{"step": 3}], 3) == {"last": None, "median": None, "validated": None}


def test_readings_are_never_the_best_on_test() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        errors, val = rng.permutation(8) / 10 + 0.1, rng.random(8)
        read = readings(lines_of(errors.tolist(), val.tolist()), 5)
        assert read["last"] == errors[-1]
        assert read["median"] == statistics.median(errors[-5:])
        assert read["validated"] == errors[val.argmin()]


@quiet
def test_a_run_reads_itself() -> None:
    data = hold_out(known(rows()), 12, seed=0)
    run = start(data, tiny(evaluations=4, last=3))
    tests = [line["test"]["error"] for line in run.metrics]
    vals = [line["val"]["error"] for line in run.metrics]
    best = max(place for place, error in enumerate(vals) if error == min(vals))
    assert run.readings() == {"last": tests[-1], "median": statistics.median(tests[-3:]), "validated": tests[best]}


class Forgetful(nn.Module):
    """Never predicts class 1."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.inner(x)
        return logits * torch.tensor([1.0, 0.0, 1.0]) - torch.tensor([0.0, 100.0, 0.0])


@pytest.mark.parametrize("make", [rows, lambda: known(rows())])
def test_a_class_that_dies_out_is_told(make: Any, tmp_path: Path) -> None:
    """Whether the labels of the unlabeled samples are known or not."""
    config = tiny(method="supervised", steps=100)
    with pytest.warns(CollapseWarning, match="supervised hardly predicts 1: "):
        run = start(make(), config, model=Forgetful(), out=tmp_path)
    assert run.metrics[-1]["dead"] == ["1"]
    assert run.metrics[-1]["unlabeled"]["predicted"][1] == 0
    assert lines(tmp_path)[-1]["dead"] == ["1"]
    with pytest.warns(CollapseWarning, match="hardly predicts 1"):
        start(make(), config, model=Forgetful(), out=tmp_path)  # and again, when it is only opened


def test_a_run_that_predicts_every_class_warns_of_nothing() -> None:
    run = start(rows(), tiny(method="supervised", steps=100), model=nn.Linear(5, 3))  # warnings are errors here
    assert run.metrics[-1]["dead"] == []


def test_logits_do_not_depend_on_the_size_of_a_pass() -> None:
    model, data = nn.Linear(5, 3), rows()
    whole = logits_of(model, data.train.samples, PLAIN, batch=500)
    torch.testing.assert_close(whole, model(torch.from_numpy(data.train.samples)).detach())
    for batch in (1, 7, 59, 60, 61):
        found = logits_of(model, data.train.samples, PLAIN, batch=batch)
        torch.testing.assert_close(found, whole, rtol=1e-6, atol=1e-6)
    assert logits_of(model, data.train.samples[:0], PLAIN, batch=4).shape == (0, 3)


def test_held_out_samples_are_not_labeled_ones_and_leave_the_streams() -> None:
    data = known(rows())
    for seed in range(20):
        held_out = hold_out(data, 25, seed)
        assert held_out.val is not None
        assert held_out.unlabeled is not None
        held = np.setdiff1d(np.arange(60), held_out.unlabeled)
        assert len(held) == 25
        assert not set(held) & set(data.labeled)
        assert np.array_equal(held_out.val.samples, data.train.samples[held])
        assert np.array_equal(held_out.val.labels, data.train.labels[held])
        assert np.array_equal(held_out.labeled, data.labeled)
        again = hold_out(data, 25, seed).unlabeled
        assert again is not None
        assert np.array_equal(again, held_out.unlabeled)
    drawn = {tuple(np.asarray(hold_out(data, 25, seed).unlabeled).tolist()) for seed in range(20)}
    assert len(drawn) == 20
    counts = np.zeros(60)
    for seed in range(300):
        counts[held_of(hold_out(data, 24, seed))] += 1
    assert (counts[:12] == 0).all()
    assert counts[12:].min() > 100  # each is held out half the time, of 300
    assert counts[12:].max() < 200


def test_held_out_samples_are_never_trained_on() -> None:
    data = hold_out(known(rows()), 30, seed=1)
    config = tiny(unlabeled_batch=10)
    views = config.make_views(data, Preprocessing.of(data))
    feed = make_feed(data, views, ("weak",), config, ranks=Ranks(), device=torch.device("cpu"))
    seen: set[int] = set()
    for step in range(12):
        seen |= set(feed.next(step).draws.unlabeled.tolist())
    assert seen == set(np.asarray(data.unlabeled).tolist())


@quiet
@pytest.mark.parametrize(
    ("make", "own"), [(rows, {}), (images, {"normalise": "half"}), (images, {"normalise": "channels"})]
)
def test_training_does_not_depend_on_what_is_held_out(make: Any, own: dict[str, Any]) -> None:
    """Neither by the moments samples are scaled with nor by the values that strong views of rows swap in."""
    data = hold_out(known(make()), 30, seed=1)
    samples = data.train.samples.copy()
    held = held_of(data)
    samples[held] = samples[held][::-1] // 2 if samples.dtype == np.uint8 else 1000 - 3 * samples[held]
    other = replace(data, train=replace(data.train, samples=samples))
    config = tiny(steps=4, evaluations=1, **own)
    one, two = start(data, config), start(other, config)
    assert one.preprocessing == two.preprocessing
    assert one.metrics[-1]["train"] == two.metrics[-1]["train"]


def test_hold_out_respects_a_choice_of_unlabeled_samples() -> None:
    """Samples that may not be seen in training do not come back by holding others out."""
    data = replace(known(rows()), unlabeled=np.arange(40))
    held_out = hold_out(data, 10, seed=0)
    assert set(np.asarray(held_out.unlabeled).tolist()) <= set(range(40))


@pytest.mark.parametrize("count", [-1, 0, 49, 10_000])
def test_hold_out_refuses_what_it_cannot_do(count: int) -> None:
    with pytest.raises(DataError, match=f"{count} samples cannot be held out for validation; 48 have a known label"):
        hold_out(known(rows()), count, seed=0)


def test_hold_out_needs_known_labels_and_no_validation_part_yet() -> None:
    with pytest.raises(DataError, match="0 have a known label"):
        hold_out(rows(), 3, seed=0)
    with pytest.raises(DataError, match=r"has validation samples of its own \(5\)"):
        hold_out(hold_out(known(rows()), 5, seed=0), 5, seed=0)
