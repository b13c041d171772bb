"""The comparison with an older tree notices a changed bit, and passes a tree that is the same."""

import json
import shutil
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import against
import pytest

SOURCE = against.ROOT / "src"
RUN, OTHER, WORK = "rows fixmatch-ads", "rows mixmatch-ads", "ADS loss (64, 10)"
CHANGED = """
def fit(model, data, method, **settings):
    import torch
    from halfsure.runs import fit
    run = fit(model, data, method, **settings)
    if method == "mixmatch-ads":
        next(run.model.parameters()).data.view(torch.int32).view(-1)[0] ^= 1
    return run
"""
git = pytest.mark.skipif(shutil.which("git") is None, reason="older trees come out of git")


@pytest.mark.slow
def test_the_same_tree_has_the_same_bits_and_one_changed_bit_is_noticed(tmp_path: Path) -> None:
    shutil.copytree(SOURCE, tmp_path / "src")  # with what numba has compiled for it
    with (tmp_path / "src/halfsure/__init__.py").open("a") as file:
        file.write(CHANGED)
    with against.trees(tmp_path, against.ROOT) as (names, old, new):
        assert {RUN, OTHER} < set(names["runs"])
        same, other = against.same_bits(old, new, [RUN, OTHER], steps=3)
        turns = against.in_turn(old, new, WORK)
    assert same == against.Bits(RUN, ())
    assert other == against.Bits(OTHER, ("other weights",))
    assert len(turns) == against.ROUNDS
    assert min(map(min, turns)) > 0
    first, second = against.verdict([same, other], [], "old").splitlines()
    assert first == "DIFFERENT BITS: 1 of 2 runs differ from old; nothing timed"
    assert second == f"  differs: {OTHER}: other weights"


@git
def test_a_revision_is_what_was_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "src/some.py"
    file.parent.mkdir()
    file.write_text("committed")
    for command in ("init --quiet", "add .", "-c user.name=a -c user.email=b commit --quiet --message=first"):
        subprocess.run(["git", *command.split()], cwd=tmp_path, check=True)
    file.write_text("not committed")
    monkeypatch.setattr(against, "ROOT", tmp_path)
    with against.extracted("HEAD") as folder:
        assert (folder / "src/some.py").read_text() == "committed"
    assert not folder.exists()


def answer(**metrics: Any) -> dict[str, Any]:
    return {"weights": "same", "metrics": [{"step": 3, "seconds": 0.1, **metrics}]}


def test_one_changed_bit_of_a_metric_is_noticed() -> None:
    old, new = answer(train={"total": 0.3}), answer(train={"total": 0.1 + 0.2})
    found = against.difference(RUN, old, new)
    assert found.differences == ("0/train/total 0.3 → 0.30000000000000004",)
    assert str(found) in against.verdict([found], [], "old")


def test_clocks_may_differ_and_nan_is_nan() -> None:
    old, new = answer(error=float("nan")), json.loads(json.dumps(answer(error=float("nan"), seconds=9.0)))
    assert against.difference(RUN, old, new) == against.Bits(RUN, ())


def test_a_metric_that_only_one_tree_has_is_named() -> None:
    found = against.difference(RUN, answer(error=0.5, used=1.0), answer(error=0.5, kept=1.0))
    assert not found.differences
    assert "only one tree has it: 0/kept, 0/used" in against.verdict([found], [], "old")


def test_the_verdict_comes_first_and_names_what_is_slower() -> None:
    rows = [against.row("view", "old", [(1.0, 1.0)]), against.row("loss", "old", [(0.9, 1.0), (0.8, 1.0), (1.0, 1.0)])]
    assert against.verdict([against.Bits(RUN, ())], rows, "old").splitlines() == [
        "Same bits as old; SLOWER in places: 1 of 2 targets reached",
        "  not: loss, 0.90 × old, ≥ 0.95",
    ]


@pytest.fixture
def no_worker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    names = {"runs": [RUN], "works": ["loss"]}
    monkeypatch.setattr(against, "extracted", lambda _: nullcontext(tmp_path))
    monkeypatch.setattr(against, "trees", lambda *_: nullcontext((names, None, None)))


@pytest.mark.usefixtures("no_worker")
@pytest.mark.parametrize(
    ("bits", "seconds", "strict", "code"),
    [((), 1.0, True, 0), ((), 2.0, False, 0), ((), 2.0, True, 1), (("other weights",), 1.0, False, 1)],
)
def test_different_bits_fail_and_less_speed_only_if_asked(
    bits: tuple[str, ...], seconds: float, strict: bool, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(against, "same_bits", lambda *_: [against.Bits(RUN, bits)])
    monkeypatch.setattr(against, "in_turn", lambda *_: [(1.0, seconds)])
    monkeypatch.setattr(sys, "argv", ["against.py", *["--strict"] * strict])
    assert against.main() == code


@pytest.mark.usefixtures("no_worker")
def test_rows_below_the_target_are_measured_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seconds = {"fast": iter([1.0] * 3), "slow": iter([0.9] * 6), "late": iter([0.9] * 3 + [1.0] * 3)}
    monkeypatch.setattr(against, "in_turn", lambda *asked: [(next(seconds[asked[2]]), 1.0)])
    rows = against.speeds(tmp_path, tmp_path, list(seconds), "old")
    assert [(len(row.ratios), row.ratio) for row in rows] == [(3, 1.0), (6, 0.9), (6, pytest.approx(0.95))]


def refused(monkeypatch: pytest.MonkeyPatch, *given: str) -> None:
    monkeypatch.setattr(sys, "argv", ["against.py", *given])
    with pytest.raises(SystemExit) as end:
        against.main()
    assert end.value.code == 2


@git
def test_a_revision_that_git_does_not_know(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    refused(monkeypatch, "nowhere")
    assert "git has no tree for nowhere" in capsys.readouterr().err


@pytest.mark.usefixtures("no_worker")
def test_nothing_to_compare_is_not_the_same(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    refused(monkeypatch, "--only", "els")
    assert f"nothing has 'els' in its name: {RUN}, loss" in capsys.readouterr().err
    assert against.verdict([], [], "old") == "No bits compared; nothing timed"


@pytest.mark.slow
def test_a_worker_that_ends_gives_no_answer(tmp_path: Path) -> None:
    (tmp_path / "src/halfsure").mkdir(parents=True)
    (tmp_path / "src/halfsure/__init__.py").write_text("raise SystemExit(3)")
    tree = against.Tree(tmp_path)
    with pytest.raises(against.TreeError, match="ended with 3"):
        tree.answer()
    tree.close()
