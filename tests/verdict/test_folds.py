"""Cross-validation over the labels: who is held out, what is never shown, and what held-out labels say."""

import json
import math
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from halfsure.data import Data, DataError, Part, hold_out
from halfsure.data.random import keys
from halfsure.learners.automatic import Choice, choose
from halfsure.runs.run import Run
from halfsure.runs.start import start
from halfsure.training.class_shares import label_shares
from halfsure.training.evaluation import Evaluator
from halfsure.training.ranks import Ranks
from halfsure.training.state import make_feed
from halfsure.trust import Conformal, abstain_threshold, class_scores, fit_temperature
from halfsure.verdict.folds import FEW, SALT, Evidence, Fold, deal, fold_of, how_many, weigh, without
from halfsure.views.preprocessing import Preprocessing
from tests.training.helpers import images, known, rows, tiny


def labels_only(labels: list[int], unlabeled: int = 5) -> Data:
    """Data with these labels, in a shuffled order among unlabeled samples."""
    everyone = np.array(labels + [-1] * unlabeled)[np.random.default_rng(0).permutation(len(labels) + unlabeled)]
    classes = tuple(f"class {k}" for k in range(max(labels) + 1))
    samples = np.zeros((len(everyone), 1), np.float32)
    return Data("labels", "array", classes, Part(samples, everyone), np.flatnonzero(everyone >= 0))


@given(
    counts=st.lists(st.integers(2, 14), min_size=2, max_size=5),
    folds=st.integers(2, 12),
    seed=st.integers(0, 1000),
)
def test_folds_deal_every_label_once_and_evenly(counts: list[int], folds: int, seed: int) -> None:
    data = labels_only([k for k, count in enumerate(counts) for _ in range(count)])
    held = deal(data, folds, seed)
    assert len(held) == min(folds, sum(counts))
    assert sorted(np.concatenate(held).tolist()) == data.labeled.tolist()
    sizes = [len(some) for some in held]
    assert max(sizes) - min(sizes) <= 1
    of_class = np.array([np.bincount(data.train.labels[some], minlength=len(counts)) for some in held])
    assert (of_class.max(0) - of_class.min(0) <= 1).all()
    assert (np.array(counts) - of_class >= 1).all()  # a label of every class is left to train on
    for some in held:
        assert (np.diff(some) > 0).all()


@given(counts=st.lists(st.integers(2, 40), min_size=2, max_size=5), seed=st.integers(0, 1000))
def test_a_single_fold_holds_a_fifth(counts: list[int], seed: int) -> None:
    data = labels_only([k for k, count in enumerate(counts) for _ in range(count)])
    (some,) = deal(data, 1, seed)
    assert len(some) == math.ceil(sum(counts) / 5)
    of_class = np.bincount(data.train.labels[some], minlength=len(counts))
    assert (np.abs(of_class - np.array(counts) / 5) < 1).all()
    assert (of_class < counts).all()


def test_folds_are_drawn_by_the_seed() -> None:
    data = labels_only([0, 1, 2] * 20)
    one, again, other = (deal(data, 5, seed) for seed in (3, 3, 4))
    assert [some.tolist() for some in one] == [some.tolist() for some in again]
    assert [some.tolist() for some in one] != [some.tolist() for some in other]


def test_labels_of_a_class_are_held_out_alike() -> None:
    data = labels_only([0] * 12 + [1] * 8)
    draws = 600
    counts = np.zeros((len(data.train), 5))
    for seed in range(draws):
        for number, some in enumerate(deal(data, 5, seed)):
            counts[some, number] += 1
    for label, size in ((0, 12), (1, 8)):
        of_class = counts[data.train.labels == label]
        expected = of_class.mean(0)
        assert (expected * size / draws == np.round(expected * size / draws)).all()  # as many in every draw
        # 100 counts: five standard deviations are passed by chance once in 10,000 times.
        assert (np.abs(of_class - expected) < 5 * np.sqrt(expected * (1 - expected / draws))).all()


def test_a_class_with_a_single_label_is_refused() -> None:
    with pytest.raises(DataError, match=r"'class 1' has a single label.*label another.*folds=0"):
        deal(labels_only([0, 0, 0, 1, 2, 2]), 5, 0)


def test_how_many_folds() -> None:
    assert how_many(labels_only([0, 1] * (FEW // 2 - 1))) == 5
    assert how_many(labels_only([0, 1] * (FEW // 2))) == 1


@pytest.mark.parametrize("make", [rows, images])
def test_held_out_samples_are_neither_labeled_nor_unlabeled(make: Any) -> None:
    data = make()
    held = deal(data, 3, 0)[1]
    rest = without(data, held)
    assert sorted([*rest.labeled, *held]) == data.labeled.tolist()
    assert rest.unlabeled is not None
    assert not set(held) & (set(rest.labeled) | set(rest.unlabeled))
    assert set(rest.unlabeled) | set(held) == set(range(len(data.train)))
    config = tiny(batch=4, unlabeled_batch=10, steps=30)
    feed = make_feed(
        rest,
        config.make_views(rest, Preprocessing.of(rest)),
        ("weak", "strong"),
        config,
        ranks=Ranks(),
        device=torch.device("cpu"),
    )
    for step in range(30):
        draws = feed.next(step).draws
        assert not set(held) & (set(draws.labeled) | set(draws.unlabeled))
    evaluator = Evaluator(rest, Preprocessing.of(rest), config.algorithm(), config, ranks=Ranks())
    assert not set(held) & set(evaluator.unlabeled)


def test_without_keeps_what_was_left_out_before() -> None:
    data = replace(rows(), unlabeled=np.arange(5, 60))
    rest = without(data, data.labeled[:6])
    assert rest.unlabeled is not None
    assert rest.unlabeled.tolist() == list(range(6, 60))


def test_held_out_samples_leave_no_trace_in_the_model() -> None:
    """The same bits, whatever the samples that are held out look like."""
    data = rows()
    held = deal(data, 3, 0)[0]
    samples = data.train.samples.copy()
    samples[held] = 1e6
    other = replace(data, train=replace(data.train, samples=samples))
    one, two = (start(without(d, held), tiny()) for d in (data, other))
    assert torch.equal(one.logits(data.train.samples), two.logits(data.train.samples))


def made_up(logits: Tensor, labels: Tensor, method: str = "fixmatch-ads") -> Fold:
    """A fold with these logits, whose model is of no matter."""
    return Fold(start(rows(), tiny(steps=1, method=method)), labels, logits)


def random_folds(count: int = 3, size: int = 8, method: str = "fixmatch-ads") -> list[Fold]:
    generator = torch.Generator().manual_seed(0)
    found = []
    for _ in range(count):
        labels = torch.arange(size) % 3
        logits = torch.randn(size, 3, generator=generator) + 2 * torch.nn.functional.one_hot(labels, 3)
        found.append(made_up(logits, labels, method))
    return found


def test_a_fold_is_scored_on_what_it_held_out() -> None:
    data = rows()
    held = deal(data, 3, 0)[0]
    run = start(without(data, held), tiny(steps=60, lr=0.02))
    fold = fold_of(data, held, run)
    assert fold.labels.tolist() == data.train.labels[held].tolist()
    assert torch.equal(fold.logits, run.logits(data.train.samples[held]))
    guessed = [run.classes.index(name) for name in run.predict(data.train.samples[held])]
    assert fold.right.tolist() == [guess == label for guess, label in zip(guessed, fold.labels.tolist(), strict=True)]


@pytest.mark.parametrize("method", ["fixmatch-ads", "fixmatch"])
@pytest.mark.parametrize("weights", [None, torch.tensor([0.5, 2.0, 1.0], dtype=torch.float64)])
def test_evidence_is_gathered_from_all_folds(method: str, weights: Tensor | None) -> None:
    folds = random_folds(method=method)
    map = folds[0].run.map
    evidence = Evidence.of(folds, weights)
    logits, labels = torch.cat([fold.logits for fold in folds]), torch.cat([fold.labels for fold in folds])
    each = None if weights is None else torch.tensor([weights[label] for label in labels.tolist()])
    assert evidence.temperature == fit_temperature(logits, labels, map, each)

    def loss(temperature: float) -> float:
        return float(((1 if each is None else each) * map.loss(logits.double() / temperature, labels)).mean())

    grid = [loss(float(temperature)) for temperature in np.geomspace(0.1, 10, 400)]
    assert loss(evidence.temperature) <= min(grid) + 1e-9
    probs = map(logits.double() / evidence.temperature)
    assert evidence.confidence.tolist() == probs.max(-1).values.tolist()
    assert evidence.right.tolist() == (logits.argmax(-1) == labels).tolist()
    for fold, scores, classes in zip(folds, evidence.conformal.scores, evidence.conformal.labels, strict=True):
        naive = [float(class_scores(fold.logits, map)[i, label]) for i, label in enumerate(fold.labels.tolist())]
        assert scores.tolist() == naive
        assert torch.equal(classes, fold.labels)
    assert evidence.threshold(0.6) == abstain_threshold(evidence.confidence, evidence.right, 0.6, each)
    assert Evidence.of(folds, weights, calibrate=False).temperature == 1.0


def test_sets_come_from_the_models_of_the_folds() -> None:
    data = rows()
    held = deal(data, 3, 0)
    folds = [fold_of(data, some, start(without(data, some), tiny())) for some in held]
    evidence = Evidence.of(folds)
    assert data.test is not None
    chosen = evidence.sets(data.test.samples, 0.8)
    scores = [class_scores(fold.run.logits(data.test.samples), fold.run.map) for fold in folds]
    conformal = Conformal(tuple(s for s in evidence.conformal.scores), tuple(fold.labels for fold in folds))
    assert torch.equal(chosen, conformal.sets(scores, 0.8))
    assert evidence.guarantee(0.8) == conformal.guarantee(0.8)


@pytest.mark.parametrize("weights", [None, torch.tensor([0.5, 2.0, 1.0], dtype=torch.float64)])
def test_evidence_survives_json(weights: Tensor | None) -> None:
    folds = random_folds()
    evidence = Evidence.of(folds, weights)
    runs = [fold.run for fold in folds]
    again = Evidence.from_json(json.loads(json.dumps(evidence.to_json())), runs)
    assert again.temperature == evidence.temperature
    assert torch.equal(again.confidence, evidence.confidence)
    assert torch.equal(again.right, evidence.right)
    assert again.to_json() == evidence.to_json()
    samples = rows().train.samples
    assert torch.equal(again.sets(samples, 0.7), evidence.sets(samples, 0.7))
    assert again.threshold(0.7) == evidence.threshold(0.7)


@pytest.fixture(scope="module")
def stored() -> tuple[dict[str, Any], list[Run]]:
    folds = random_folds()
    return Evidence.of(folds).to_json(), [fold.run for fold in folds]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"temperature": 0.0}, "a temperature must be a number above 0, got 0.0"),
        ({"temperature": -1.0}, "a temperature must be a number above 0"),
        ({"temperature": math.nan}, "a temperature must be a number above 0"),
        ({"temperature": math.inf}, "a temperature must be a number above 0"),
        ({"temperature": "1"}, "a temperature must be a number above 0"),
        ({"temperature": True}, "a temperature must be a number above 0"),
        ({"confidence": 0.5}, "lists of the same length"),
        ({"confidence": [0.5]}, "lists of the same length"),
        ({"confidence": [math.nan] * 24}, "confidence must be a list of numbers from 0 to 1"),
        ({"confidence": [1.5] * 24}, "confidence must be a list of numbers from 0 to 1"),
        ({"confidence": ["0.5"] * 24}, "confidence must be a list of numbers from 0 to 1"),
        ({"right": [1] * 24}, "right one of true and false"),
        ({"confidence": [0.5] * 3, "right": [True] * 3}, "scores of 24 held-out samples, and confidences of 3"),
        ({"conformal": None}, "must be stored as scores, labels and weights"),
        ({"conformal": {"scores": [[0.1]], "labels": [[0]], "weights": None}}, "3 models of folds, and scores of 1"),
        ({"more": 1}, "must be stored as temperature, conformal, confidence and right"),
    ],
)
def test_hostile_json_is_refused(
    changes: dict[str, Any], message: str, stored: tuple[dict[str, Any], list[Run]]
) -> None:
    values, runs = stored
    Evidence.from_json(values, runs)
    with pytest.raises(ValueError, match=message):
        Evidence.from_json(values | changes, runs)


@pytest.mark.parametrize("values", [None, [], 3, "evidence", {}])
def test_what_is_no_evidence_is_refused(values: Any) -> None:
    with pytest.raises(ValueError, match="must be stored as temperature, conformal, confidence and right"):
        Evidence.from_json(values, [])


def test_weights_are_shares_of_the_data_over_those_of_the_labels() -> None:
    data = labels_only([0] * 6 + [1] * 3 + [2] * 3)
    weights = weigh(data, [], [1, 1, 2])
    assert weights.tolist() == pytest.approx([0.25 / 0.5, 0.25 / 0.25, 0.5 / 0.25])
    assert float(weights @ torch.from_numpy(label_shares(data))) == pytest.approx(1)


def test_estimated_weights_find_the_shares_of_the_data() -> None:
    """Three clouds that hardly overlap, as many labels of each, and 70, 20 and 10 % of them in the data."""
    rng = np.random.default_rng(0)
    truth = np.concatenate([np.arange(30) % 3, rng.permutation(np.repeat([0, 1, 2], [140, 40, 20]))])
    samples = rng.normal(size=(230, 3)).astype(np.float32)
    samples[np.arange(230), truth] += 4
    labels = np.where(np.arange(230) < 30, truth, -1)
    data = Data("clouds", "array", ("a", "b", "c"), Part(samples, labels), np.arange(30))
    held = deal(data, 3, 0)
    folds = [fold_of(data, some, start(without(data, some), tiny(steps=120, batch=20))) for some in held]
    weights = weigh(data, folds, None)
    np.testing.assert_allclose(weights.numpy() / 3, [0.7, 0.2, 0.1], atol=0.05)
    everything = replace(data, train=replace(data.train, labels=truth), labeled=np.arange(230))
    assert weigh(everything, folds, None).tolist() == [1, 1, 1]  # no unlabeled sample: the labels' own shares


def test_estimated_weights_do_not_look_at_what_is_held_out_for_validation() -> None:
    """Whatever the validation samples are, the shares are the same; and each unlabeled sample has its part in them."""
    data = hold_out(known(rows()), 20, 0)
    assert data.val is not None
    assert data.unlabeled is not None
    some = deal(data, 3, 0)
    folds = [fold_of(data, held, start(without(data, held), tiny())) for held in some]
    held_out = np.setdiff1d(np.arange(len(data.train)), data.unlabeled)
    assert len(held_out) == 20

    def moved(where: NDArray[np.int64]) -> Data:
        samples = data.train.samples.copy()
        samples[where] = samples[data.labeled[0]]
        return replace(data, train=replace(data.train, samples=samples))

    expected = weigh(data, folds, None)
    assert torch.equal(weigh(moved(held_out), folds, None), expected)
    assert not torch.equal(weigh(moved(data.unlabeled), folds, None), expected)
    shorter = replace(data, unlabeled=data.labeled)
    assert weigh(shorter, folds, None).tolist() == [1, 1, 1]  # nothing but labels and validation


@pytest.mark.parametrize("make", [rows, images])
def test_a_method_is_chosen_and_it_is_said_why(make: Any) -> None:
    data = make()
    choice = choose(data)
    assert isinstance(choice, Choice)
    assert len(choice.why.split()) > 3
    start(data, tiny(method=choice.method, steps=2, **choice.settings))
    known = replace(data.train, labels=np.arange(len(data.train)) % 3)
    everything = replace(data, train=known, labeled=np.arange(len(data.train)))
    assert choose(everything).method == "supervised"
    assert "every sample is labeled" in choose(everything).why


def in_groups(labels: list[int], groups: list[int], seed: int = 0) -> Data:
    """Data with these labels, −1 among them, in a shuffled order, each sample of a group."""
    order = np.random.default_rng(seed).permutation(len(labels))
    everyone, names = np.array(labels)[order], np.array([f"g{k}" for k in groups], dtype=object)[order]
    classes = tuple(f"class {k}" for k in range(max(labels) + 1))
    part = Part(np.zeros((len(everyone), 1), np.float32), everyone, groups=names)
    return Data("groups", "array", classes, part, np.flatnonzero(everyone >= 0))


def naive_groups(data: Data, folds: int, seed: int) -> list[list[int]] | None:
    """What each fold holds out, by loops; None if in this order a class would be held out whole."""
    assert data.train.groups is not None
    label, group = data.train.labels.tolist(), data.train.groups.tolist()
    rows = data.labeled.tolist()
    names = sorted({group[row] for row in rows})
    first = {name: [group[row] for row in rows].index(name) for name in names}
    size = {name: sum(group[row] == name for row in rows) for name in names}
    key = {name: int(keys(np.array([first[name]]), seed, SALT, 0)[0]) for name in names}
    total = Counter(label[row] for row in rows)
    held: list[list[int]] = [[] for _ in range(min(5, len(names)) if folds == 1 else folds)]
    for name in sorted(names, key=lambda name: (-size[name], key[name])):
        own = Counter(label[row] for row in rows if group[row] == name)
        choices = []
        for number, some in enumerate(held):
            there = Counter(label[row] for row in some)
            if all(there[k] + own[k] < total[k] for k in own):
                alike = sum(Fraction(there[k] * own[k], total[k]) for k in own)
                choices.append((alike, len(some), number))
        if not choices:
            return None
        held[min(choices)[2]] += [row for row in rows if group[row] == name]
    return [sorted(some) for some in held][:folds]


@given(
    pairs=st.lists(st.tuples(st.integers(-1, 2), st.integers(0, 9)), min_size=4, max_size=60),
    folds=st.integers(1, 6),
    seed=st.integers(0, 100),
)
def test_no_group_is_on_both_sides_of_a_fold(pairs: list[tuple[int, int]], folds: int, seed: int) -> None:
    pairs = [*pairs, (0, 0), (0, 1), (1, 1), (1, 2), (2, 2), (2, 0)]  # every class in two groups
    data = in_groups([label for label, _ in pairs], [group for _, group in pairs])
    whose = data.train.groups
    assert whose is not None
    count = len(set(whose[data.labeled]))
    if folds > count:
        with pytest.raises(DataError, match=f"labels of {count} groups are too few for {folds} folds; ask for {count}"):
            deal(data, folds, seed)
        return
    expected = naive_groups(data, folds, seed)
    if expected is None:  # another order may do
        with suppress(DataError):
            deal(data, folds, seed)
        return
    held = deal(data, folds, seed)
    assert [some.tolist() for some in held] == expected
    assert len(held) == folds
    assert folds == 1 or sorted(np.concatenate(held).tolist()) == data.labeled.tolist()
    for some in held:
        rest = without(data, some)  # has a label of every class, or Data would refuse it
        assert rest.unlabeled is not None
        assert len(some)
        trained = {*whose[rest.labeled], *whose[rest.unlabeled]}
        assert not trained & set(whose[some])
        gone = np.setdiff1d(np.arange(len(data.train)), rest.unlabeled)
        assert set(whose[gone]) == set(whose[some])  # and nobody else was left out


def test_groups_of_one_size_are_dealt_evenly() -> None:
    data = in_groups([k % 2 for k in range(80)], [k // 4 for k in range(80)])
    for seed in range(5):
        held = deal(data, 5, seed)
        assert [len(some) for some in held] == [16] * 5
        assert all(np.bincount(data.train.labels[some]).tolist() == [8, 8] for some in held)
    assert len({str(deal(data, 5, seed)) for seed in range(5)}) == 5


def test_too_few_groups_are_told() -> None:
    data = in_groups([0, 0, 1, 1, 0, 1], [0, 0, 0, 0, 1, 1])
    assert how_many(data) == 2
    assert len(deal(data, 2, 0)) == 2
    with pytest.raises(
        DataError, match=r"labels of 2 groups are too few for 3 folds; ask for 2, or do without the check"
    ):
        deal(data, 3, 0)
    alone = in_groups([0, 0, 0, 1, 1], [0, 1, 2, 3, 3])
    with pytest.raises(
        DataError, match=r"all labels of the class 'class 1' are in the group 'g3', and a model can only"
    ):
        deal(alone, 2, 0)
    circle = in_groups([0, 0, 1, 1, 2, 2], [0, 1, 1, 2, 2, 0])  # each two of three groups share a class
    with pytest.raises(DataError, match=r"the 3 groups with a label cannot be dealt to 2 folds .* ask for more folds"):
        deal(circle, 2, 0)
    assert len(deal(circle, 3, 0)) == 3
