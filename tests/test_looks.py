"""A second look at finished runs: candidates in sets of a given mean size, and fresh statistics of batch norm."""

import json
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path

import candidates
import looks
import norms
import pytest
import torch
from torch import Tensor

import halfsure
from halfsure.paper.grid import run_cell
from halfsure.paper.results import Results
from tests.paper.small import cell

Rule = Callable[[Tensor, float], Tensor]
rules = pytest.mark.parametrize("rule", candidates.RULES.values(), ids=list(candidates.RULES))
sizes = pytest.mark.parametrize("size", [1.0, 1.1, 1.5, 1.7, 2.0, 3.0, 4.9, 5.0])


def table(seed: int, n: int = 60, classes: int = 5) -> Tensor:
    return torch.randn(n, classes, generator=torch.Generator().manual_seed(seed))


@sizes
@pytest.mark.parametrize("seed", range(5))
def test_sets_by_gap_equal_those_that_grow_one_class_at_a_time(seed: int, size: float) -> None:
    rows = table(seed).double().tolist()
    found = [{max(range(5), key=row.__getitem__)} for row in rows]
    steps = sorted((max(row) - z, i, k) for i, row in enumerate(rows) for k, z in enumerate(row) if k not in found[i])
    for _, i, k in steps[: round(size * 60) - 60]:
        found[i].add(k)
    assert [set(row.nonzero().flatten().tolist()) for row in candidates.by_gap(table(seed), size)] == found


@cache
def sets_on_a_grid(seed: int) -> list[Tensor]:
    """The sets of sparsemax at 2,001 temperatures."""
    temperatures = torch.logspace(-16, 4, 2001, base=2, dtype=torch.float64)
    return [halfsure.sparsemax(table(seed).double() / temperature) > 0 for temperature in temperatures]


@sizes
@pytest.mark.parametrize("seed", range(5))
def test_sets_by_temperature_are_those_of_sparsemax_and_a_warmer_one_has_too_many(seed: int, size: float) -> None:
    found = candidates.by_temperature(table(seed).double(), size)
    small = [sets for sets in sets_on_a_grid(seed) if sets.sum() <= size * 60]
    assert found.sum() <= size * 60
    assert int(found.sum()) >= max(int(sets.sum()) for sets in small)


@rules
def test_sets_hold_the_best_class_grow_with_their_size_and_need_no_scale(
    rule: Rule,
) -> None:
    logits = table(9).double()
    moved = 0.25 * logits + torch.arange(60).unsqueeze(-1)
    before = torch.zeros(60, 5, dtype=torch.bool).scatter(-1, logits.argmax(-1, keepdim=True), True)
    for size in (1.0, *candidates.SIZES):
        sets = rule(logits, size)
        assert bool((before <= sets).all())
        assert sets.double().sum(-1).mean() == pytest.approx(size, abs=0.2)
        assert rule(moved, size).equal(sets)
        before = sets


@rules
@sizes
def test_ties_never_make_sets_larger_than_they_may_be(rule: Rule, size: float) -> None:
    logits = (2 * table(3)).round() / 2
    sets = rule(logits, size)
    best = logits.argmax(-1, keepdim=True)
    ties = int((logits == logits.amax(-1, keepdim=True)).sum())
    if rule is candidates.by_gap or ties <= size * 60:  # sparsemax cannot part what ties at the top
        assert sets.sum() <= size * 60
    assert bool(sets.gather(-1, best).all())


def test_missed_counts_true_classes_outside() -> None:
    sets = torch.tensor([[True, False], [True, True], [False, True]])
    assert candidates.missed(sets, torch.tensor([1, 1, 0])) == pytest.approx(2 / 3)


def test_variants_are_rows_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shares = {f"{size:g}": 0.1 for size in candidates.SIZES}
    lines = []
    for variant, missed in (("", 0.2), ("r=1", 0.3), ("r=1", 0.5)):
        cell = {"experiment": "parts", "column": {"data": "mnist", "labels": 40}, "method": "x", "variant": variant}
        own = {"error": 0.5, "candidates": 2.0, "missed": missed}
        lines.append({"cell": cell, **own, **dict.fromkeys(candidates.RULES, shares)})
    file = tmp_path / "candidates.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    monkeypatch.setattr(candidates, "LINES", file)
    candidates.show()
    rows = [row.split(" | ") for row in capsys.readouterr().out.splitlines()[2:]]
    assert [(row[2], row[3], row[6]) for row in rows] == [("x", "1", "20.0"), ("x r=1", "2", "40.0")]


def test_runs_on_this_disk_are_looked_at_once_and_have_to_be_those_of_the_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, results = tmp_path / "runs", Results(tmp_path / "results")
    line = run_cell(cell(), runs=runs)
    results.add(line)
    results.add({**line, "seed": 1})  # which was run elsewhere
    file = tmp_path / "results" / "candidates.jsonl"
    monkeypatch.setattr(looks, "ROOT", tmp_path)
    for _ in range(2):
        looks.run("other", file, candidates.look, runs, None)
    (found,) = map(json.loads, file.read_text().splitlines())
    test = cell().open().test
    assert test is not None
    logits = halfsure.load(cell().folder(runs)).logits(test.samples)
    sets = [{k for k, p in enumerate(row) if p > 0} for row in halfsure.sparsemax(logits.double()).tolist()]
    assert found["cell"] == cell().as_json()
    assert found["error"] == pytest.approx(line["test"]["error"], abs=1e-6)
    assert found["candidates"] == pytest.approx(sum(map(len, sets)) / len(sets))
    missed = [label not in own for label, own in zip(test.labels.tolist(), sets, strict=True)]
    assert found["missed"] == pytest.approx(sum(missed) / len(missed))
    assert all(a >= b for a, b in pairwise(found["gap"].values()))
    with pytest.raises(SystemExit, match="is not the run that the results have"):
        looks.open_run({**line, "test": {"error": 0.0}}, runs, None)


def test_fresh_statistics_are_those_of_training_samples_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one batch with all samples: what a norm keeps that remembers nothing before it."""
    normed = cell(net="conv7-8", norm="batch")
    line = run_cell(normed, runs=tmp_path)
    opened = looks.open_run(line, tmp_path, None)
    assert opened is not None
    run, data = opened
    monkeypatch.setattr(norms, "BATCH", norms.SAMPLES)
    found = norms.look(run, data)
    assert found is not None

    twin = halfsure.load(normed.folder(tmp_path))
    for module in twin.model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = 1.0
    twin.model.train()(twin.preprocessing(data.train.samples))
    twin.model.eval()
    assert data.test is not None
    probs, labels = twin.predict_proba(data.test.samples), data.test.labels
    assert found["afresh"]["error"] == pytest.approx((probs.argmax(1) != labels).mean(), abs=0.005)
    assert found["afresh"]["dominant"] == pytest.approx(probs.max(1).mean(), abs=1e-4)
    assert found["as they are"]["error"] == pytest.approx(line["test"]["error"], abs=1e-6)
    assert found["as they are"]["dominant"] != pytest.approx(found["afresh"]["dominant"], abs=1e-3)


def test_without_batch_norm_there_is_nothing_to_take_afresh(tmp_path: Path) -> None:
    opened = looks.open_run(run_cell(cell(), runs=tmp_path), tmp_path, None)
    assert opened is not None
    assert norms.look(*opened) is None


def test_fresh_statistics_are_shown_row_by_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = {"experiment": "table2", "column": {"data": "svhn", "labels": 250}, "method": "x", "variant": ""}
    lines = [
        {
            "cell": own,
            **{when: dict.fromkeys(norms.MEASURES, share) for when, share in (("as they are", a), ("afresh", b))},
        }
        for a, b in ((0.2, 0.1), (0.4, 0.2))
    ]
    file = tmp_path / "norms.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    monkeypatch.setattr(norms, "LINES", file)
    norms.show()
    (row,) = capsys.readouterr().out.splitlines()[2:]
    assert row == "| table2 | svhn@250 | x | 2 | 30.0 → 15.0 | 30.0 → 15.0 | 30.0 → 15.0 |"
