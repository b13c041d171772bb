"""Conformal sets: against naive counts, in what they promise, and in how often they keep it."""

import json
import math
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from halfsure.simplex import SOFTMAX, SPARSEMAX, Map, fenchel_young
from halfsure.trust import Conformal, class_scores, estimate_prior
from tests.trust.samples import INF, MAPS, NAN, drawn, generator, rand, randn, random_labels, tables


@pytest.mark.parametrize("map", MAPS, ids=lambda map: map.name)
@given(table=tables())
def test_scores_are_the_loss_of_each_class(map: Map, table: tuple[Tensor, Tensor]) -> None:
    logits, labels = table
    scores = class_scores(logits, map)
    for k in range(logits.shape[-1]):
        naive = fenchel_young(map, logits, map(logits), torch.full_like(labels, k))
        torch.testing.assert_close(scores[:, k], naive, rtol=1e-12, atol=1e-12)
    assert (scores >= 0).all()


def test_scores_are_exactly_zero_where_sparsemax_is_sure() -> None:
    """Ties decide p-values, so that rounding must not break them: not even of float32, far from 0."""
    logits = torch.tensor([[1e3 + 1, 1e3, 0.0], [0.7 + 3, 0.7, 0.1]])
    assert class_scores(logits, SPARSEMAX)[:, 0].tolist() == [0.0, 0.0]


@st.composite
def folds(draw: st.DrawFn) -> tuple[Conformal, list[Tensor]]:
    """(conformal, new scores): any number and size of folds, ties within and between, weights or none."""
    classes, seed = draw(st.integers(1, 4)), draw(st.integers(0, 2**31))
    sizes = draw(st.lists(st.integers(0, 12), min_size=1, max_size=4))
    n = draw(st.integers(0, 5))

    def scores(*shape: int, seed: int) -> Tensor:
        return randn(*shape, seed=seed).abs().mul(4).round().div(4)

    held_out = tuple(scores(size, seed=seed + k) for k, size in enumerate(sizes))
    labels = tuple(random_labels(size, classes, seed + k) for k, size in enumerate(sizes))
    weights = rand(classes, seed=seed) * 3 if draw(st.booleans()) else None
    if weights is not None and draw(st.booleans()):
        weights[0] = 0
    return Conformal(held_out, labels, weights), [scores(n, classes, seed=seed + 10 + k) for k in range(len(sizes))]


def naive_p_value(conformal: Conformal, scores: list[Tensor], i: int, y: int) -> float:
    weights = conformal.weights.tolist() if conformal.weights is not None else None
    own = weights[y] if weights else 1.0
    matching, total = own, own
    for held_out, labels, new in zip(conformal.scores, conformal.labels, scores, strict=True):
        for score, label in zip(held_out.tolist(), labels.tolist(), strict=True):
            weight = weights[label] if weights else 1.0
            total += weight
            if score >= new[i, y]:
                matching += weight
    return matching / total if total else 1.0


@given(case=folds(), coverage=st.sampled_from([0.0, 0.5, 0.8, 0.9, 1.0]))
def test_p_values_and_sets_against_naive_counts(case: tuple[Conformal, list[Tensor]], coverage: float) -> None:
    conformal, scores = case
    p_values = conformal.p_values(scores)
    sets, raw = (conformal.sets(scores, coverage, at_least_one=one) for one in (True, False))
    n, classes = scores[0].shape
    for i in range(n):
        naive = [naive_p_value(conformal, scores, i, y) for y in range(classes)]
        assert p_values[i].tolist() == pytest.approx(naive, abs=1e-12)
        inside = [y for y in range(classes) if naive[y] > 1 - coverage + 1e-12]
        assert raw[i].nonzero().flatten().tolist() == inside
        if inside:
            assert sets[i].equal(raw[i])
        else:
            (only,) = sets[i].nonzero().flatten().tolist()
            fit = [float(sum(fold[i, y] for fold in scores)) for y in range(classes)]
            best = [y for y in range(classes) if naive[y] >= max(naive) - 1e-12]
            assert only in best
            assert fit[only] == min(fit[y] for y in best)


@given(case=folds())
def test_the_folds_own_p_values_make_up_ours_and_its_bound(case: tuple[Conformal, list[Tensor]]) -> None:
    """The step that carries the guarantee of several folds over: ours is at most α where the mean is at most a."""
    conformal, scores = case
    plain = Conformal(conformal.scores, conformal.labels)
    sizes = [len(labels) for labels in plain.labels if len(labels)]
    n, k = sum(sizes), len(sizes)
    if k < 2:
        return
    kept = [i for i, labels in enumerate(plain.labels) if len(labels)]
    parts = [
        Conformal((plain.scores[i],), (plain.labels[i],)).p_values([scores[i]]) * (size + 1)
        for i, size in zip(kept, sizes, strict=True)
    ]
    mean = torch.stack(parts).sum(0) / (n + k)
    ours = plain.p_values(scores)
    torch.testing.assert_close((n + 1) * ours, (n + k) * mean - (k - 1))
    for coverage in (0.6, 0.8, 0.9, 0.97):
        alpha = 1 - coverage
        at_most = (alpha * (n + 1) + k - 1) / (n + k)
        level = plain.guarantee(coverage).level
        if 1 / (n + 1) > alpha + 1e-12:
            assert level == coverage
        elif 1 - 2 * at_most > 1e-9:
            assert level is not None
            assert level == pytest.approx(1 - 2 * at_most)
            # Never less than what Barber and others give for the same, Theorem 4's first term.
            assert level >= 1 - 2 * alpha - 2 * (1 - 1 / k) / (n / k + 1)
        elif 1 - 2 * at_most < -1e-9:
            assert level is None


def conformal_of(*sizes: int, weights: list[float] | None = None) -> Conformal:
    scores = tuple(torch.zeros(size) for size in sizes)
    labels = tuple(torch.arange(size) % 2 for size in sizes)
    return Conformal(scores, labels, None if weights is None else torch.tensor(weights))


@pytest.mark.parametrize(
    ("conformal", "level", "words"),
    [
        (
            conformal_of(9),
            0.9,
            "at least 90 % of the sets hold the true class, if labels and new samples come from the same",
        ),
        (conformal_of(9, 0), 0.9, "at least 90 % of the sets hold the true class, if"),
        (conformal_of(8), 0.9, "With 8 held-out labels every set at 90 % holds every class .* at least 9"),
        (conformal_of(4, 4), 0.9, "With 8 held-out labels every set .* at least 9"),
        (conformal_of(0), 0.9, "With 0 held-out labels"),
        (conformal_of(8, 8, 8, 8, 8), 0.64, r"at least 64 % .* about 90 % in practice \(40 labels in 5 folds\), if"),
        (conformal_of(*[1] * 20), None, "with 20 labels in 20 folds nothing is guaranteed"),
        (conformal_of(50, weights=[1, 1]), None, "estimated shares give no guarantee.$"),
        (conformal_of(8, weights=[1, 1]), None, "Every class is in every set"),
        (conformal_of(40, weights=[1, 9]), None, "no guarantee.$"),
        (conformal_of(6, weights=[1, 3]), None, "1 of 2 classes are in every set"),
    ],
)
def test_guarantees_in_words(conformal: Conformal, level: float | None, words: str) -> None:
    found = conformal.guarantee(0.9)
    assert found.level == (None if level is None else pytest.approx(level))
    assert re.search(words, found.sentence), found.sentence


@given(n=st.integers(0, 120), coverage=st.sampled_from([0.5, 0.75, 0.8, 0.9, 0.95, 0.99, 1.0]))
def test_too_few_labels_are_told_just_where_every_class_is_in(n: int, coverage: float) -> None:
    conformal = conformal_of(n)
    worst = torch.full((1, 2), 1e9)
    every = bool(conformal.sets([worst], coverage, at_least_one=False).all())
    sentence = conformal.guarantee(coverage).sentence
    assert every == ("every set" in sentence)
    assert every == (coverage == 1 or n < round(coverage / (1 - coverage), 9))
    if every and coverage < 1:
        needed = int(sentence.split()[-1].rstrip("."))
        assert not conformal_of(needed).sets([worst], coverage, at_least_one=False).any()
        assert conformal_of(needed - 1).sets([worst], coverage, at_least_one=False).all()


@given(sizes=st.lists(st.integers(0, 20), min_size=1, max_size=3), seed=st.integers(0, 1000))
def test_weights_tell_which_classes_no_score_keeps_out(sizes: list[int], seed: int) -> None:
    weights = rand(4, seed=seed).mul(4).round()  # some of them 0
    conformal = conformal_of(*sizes, weights=weights.tolist())
    always = int(conformal.sets([torch.full((1, 4), 1e9)] * len(sizes), 0.9, at_least_one=False).sum())
    sentence = conformal.guarantee(0.9).sentence
    expected = {0: "give no guarantee.", 4: "Every class is in every set, for want of held-out labels."}
    assert sentence.endswith(
        expected.get(always, f"{always} of 4 classes are in every set, for want of held-out labels.")
    )


Draw = Callable[[int, int], tuple[Tensor, Tensor]]
"""(how many, seed) → class scores and labels."""


def coverage_over_draws(
    held_out: Draw, new: Draw, weights: Tensor | None, *, n: int, coverage: float, draws: int
) -> Tensor:
    """How often sets hold the true class, one share a draw of n held-out samples and 100 new ones. → (draws,)."""
    shares = []
    for seed in range(draws):
        scores, labels = held_out(n, 2 * seed)
        conformal = Conformal((scores.gather(-1, labels.unsqueeze(-1)).squeeze(-1),), (labels,), weights)
        scores, labels = new(100, 2 * seed + 1)
        sets = conformal.sets([scores], coverage, at_least_one=False)
        shares.append(sets.gather(-1, labels.unsqueeze(-1)).double().mean())
    return torch.stack(shares)


def noisy_predictions(prior: list[float], noise: list[float], map: Map) -> Draw:
    """A model that knows the class but for noise, of its own strength in each class."""

    def draw(n: int, seed: int) -> tuple[Tensor, Tensor]:
        labels = drawn(torch.tensor(prior).expand(n, len(prior)), seed)
        logits = torch.eye(len(prior), dtype=torch.float64)[labels] * 3
        strength = torch.tensor(noise, dtype=torch.float64)[labels].unsqueeze(-1)
        return class_scores(logits + strength * randn(n, len(prior), seed=seed + 10**6), map), labels

    return draw


@pytest.mark.parametrize(("n", "coverage"), [(9, 0.9), (17, 0.9), (30, 0.8), (60, 0.95)])
def test_one_fold_covers_what_it_promises_and_hardly_more(n: int, coverage: float) -> None:
    draw = noisy_predictions([0.5, 0.3, 0.2], [2.0, 2.0, 2.0], SOFTMAX)
    shares = coverage_over_draws(draw, draw, None, n=n, coverage=coverage, draws=500)
    found, noise = float(shares.mean()), 4 * float(shares.std()) / math.sqrt(len(shares))
    # Without ties the chance is known exactly: the new score is equally likely to have any rank among n + 1.
    exact = 1 - math.floor((1 - coverage) * (n + 1) + 1e-9) / (n + 1)
    assert coverage <= exact + 1e-9 <= coverage + 1 / (n + 1) + 1e-9
    assert found == pytest.approx(exact, abs=noise)
    assert noise < 0.02


def test_ties_of_sparse_scores_only_add_coverage() -> None:
    draw = noisy_predictions([0.5, 0.5], [1.0, 1.0], SPARSEMAX)  # mostly right by a margin: a score of exactly 0
    shares = coverage_over_draws(draw, draw, None, n=19, coverage=0.5, draws=150)
    assert float(shares.mean()) > 0.9


def test_weights_restore_coverage_where_class_shares_shift() -> None:
    labels_prior, data_prior, noise = [0.8, 0.2], [0.2, 0.8], [0.5, 3.0]
    held_out, new = (noisy_predictions(prior, noise, SOFTMAX) for prior in (labels_prior, data_prior))
    weights = torch.tensor(data_prior) / torch.tensor(labels_prior)
    plain, weighted = (
        float(coverage_over_draws(held_out, new, some, n=100, coverage=0.85, draws=200).mean())
        for some in (None, weights)
    )
    assert plain < 0.75
    assert 0.84 < weighted < 0.90


def test_an_estimated_prior_serves_as_well() -> None:
    """From unlabeled predictions to weights to sets, the way an estimator goes."""
    labels_prior, data_prior = torch.tensor([0.8, 0.2]), torch.tensor([0.2, 0.8])
    centres = torch.tensor([0.0, 1.5], dtype=torch.float64)
    covered = []
    for seed in range(60):
        labels = [drawn(prior.expand(400, 2), seed + k) for k, prior in ((0, labels_prior), (500, data_prior))]
        points = [centres[some] + randn(400, seed=seed + 1000 * k) for k, some in enumerate(labels, 1)]
        logits = [-(some.unsqueeze(-1) - centres).square() / 2 + labels_prior.log() for some in points]
        weights = estimate_prior(SOFTMAX(logits[1]), labels_prior) / labels_prior
        held_out, new = (class_scores(some, SOFTMAX) for some in logits)
        truth = held_out.gather(-1, labels[0].unsqueeze(-1)).squeeze(-1)
        hits = [
            Conformal((truth,), (labels[0],), some).sets([new], 0.9).gather(-1, labels[1].unsqueeze(-1)).double().mean()
            for some in (None, weights)
        ]
        covered.append(torch.stack(hits))
    plain, weighted = torch.stack(covered).mean(0).tolist()
    assert plain < 0.75
    assert weighted == pytest.approx(0.9, abs=0.025)


def centroid_scores(points: Tensor, labels: Tensor, new: Tensor) -> Tensor:
    """Nearest centroid, fitted on points: how badly each class fits new ones. (n, d), (n,), (m, d) → (m, K)."""
    centroids = torch.stack([points[labels == k].mean(0) for k in range(3)])
    return class_scores(-torch.cdist(new, centroids).square(), SOFTMAX)


def test_several_folds_with_a_learner_cover_about_what_was_asked() -> None:
    centres = torch.tensor([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]], dtype=torch.float64)
    shares, n, folds = [], 43, 5
    for seed in range(150):
        labels = random_labels(n + 40, 3, seed)
        points = centres[labels] + randn(n + 40, 2, seed=seed + 1)
        part = torch.randperm(n, generator=generator(seed)) % folds  # sizes 9, 9, 9, 8, 8
        held_out, truth, new = [], [], []
        for k in range(folds):
            kept, out = (part != k).nonzero().flatten(), (part == k).nonzero().flatten()
            scores = centroid_scores(points[kept], labels[kept], torch.cat([points[out], points[n:]]))
            held_out.append(scores[: len(out)].gather(-1, labels[out].unsqueeze(-1)).squeeze(-1))
            truth.append(labels[out])
            new.append(scores[len(out) :])
        conformal = Conformal(tuple(held_out), tuple(truth))
        shares.append(conformal.sets(new, 0.85).gather(-1, labels[n:].unsqueeze(-1)).double().mean())
    level = conformal.guarantee(0.85).level
    assert level is not None
    assert level < 0.85
    # What a random rank among 44 would give, 6 of which are too high: the folds' models all but agree.
    assert float(torch.stack(shares).mean()) == pytest.approx(1 - 6 / 44, abs=0.025)


@given(case=folds())
def test_json_gives_the_same_bits_back(case: tuple[Conformal, list[Tensor]]) -> None:
    conformal, scores = case
    again = Conformal.from_json(json.loads(json.dumps(conformal.to_json(), allow_nan=False)))
    assert again.p_values(scores).equal(conformal.p_values(scores))
    assert again.to_json() == conformal.to_json()
    assert again.guarantee(0.9) == conformal.guarantee(0.9)


NONSENSE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["scores", "a"]), inner, max_size=2),
    max_leaves=6,
)


@given(part=st.sampled_from(["scores", "labels", "weights", "extra", ""]), value=NONSENSE)
def test_nonsense_is_refused_in_a_sentence(part: str, value: Any) -> None:
    stored: Any = {"scores": [[0.5, 1.0]], "labels": [[0, 1]], "weights": [1.0, 2.0]}
    stored = {**stored, part: value} if part else value
    try:
        Conformal.from_json(stored)
    except ValueError:
        return
    # What gets through has to make sense: numbers in the right places.
    assert set(stored) == {"scores", "labels", "weights"}
    assert stored["weights"] is None or all(value >= 0 for value in stored["weights"])
    assert [len(fold) for fold in stored["scores"]] == [len(fold) for fold in stored["labels"]]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"extra": 1}, "must be stored as scores, labels and weights, and is not"),
        ({"scores": [0.5, 1.0]}, "one list a fold"),
        ({"scores": [0.5]}, "scores of a conformal prediction must be stored as a list of numbers"),
        ({"labels": [[0, 1.0]]}, "labels of a conformal prediction must be stored as a list of numbers"),
        ({"labels": [[0, True]]}, "labels of a conformal prediction must be stored as a list of numbers"),
        ({"labels": [[0, 2**70]]}, "labels of a conformal prediction hold a number beyond all bounds"),
        ({"scores": [[0, 10**400]]}, "scores of a conformal prediction hold a number beyond all bounds"),
        ({"scores": [[0, INF]]}, "held-out scores must be finite"),
        ({"weights": 3}, "weights of a conformal prediction must be stored as a list of numbers"),
    ],
)
def test_what_is_wrong_with_a_stored_one_is_told(changed: dict[str, Any], words: str) -> None:
    stored = {"scores": [[0.5, 1.0]], "labels": [[0, 1]], "weights": [1.0, 2.0]}
    Conformal.from_json(stored)
    with pytest.raises(ValueError, match=re.escape(words)):
        Conformal.from_json({**stored, **changed})


@pytest.mark.parametrize(
    ("scores", "labels", "weights", "words"),
    [
        ([], [], None, "at least one fold"),
        ([[0.5]], [], None, "1 folds of scores and 0 of labels"),
        ([[0.5, NAN]], [[0, 1]], None, "held-out scores must be finite"),
        ([[0.5, INF]], [[0, 1]], None, "held-out scores must be finite"),
        ([[0.5]], [[0, 1]], None, r"class indices must be \(1,\)"),
        ([[0.5]], [[-1]], None, "class indices must lie in 0 … 0, got -1"),
        ([[0.5]], [[0.0]], None, "class indices must be integers"),
        ([[0.5]], [[2]], [1.0, 1.0], "class indices must lie in 0 … 1"),
        ([[0.5]], [[0]], [1.0, -1.0], "class weights must be finite and at least 0"),
        ([[0.5]], [[0]], [[1.0]], r"class weights must be \(1,\)"),
    ],
)
def test_held_out_samples_are_refused_in_words(scores: Any, labels: Any, weights: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Conformal(
            tuple(map(torch.tensor, scores)),
            tuple(map(torch.tensor, labels)),
            None if weights is None else torch.tensor(weights),
        )


@pytest.mark.parametrize(
    ("scores", "words"),
    [
        ([], "each of the 1 folds, got 0"),
        ([[0.0, 1.0]], r"scores must be \(n, classes\)"),
        ([[[0.0, NAN]]], "scores must be finite"),
        ([[[0.0]]], "of 1 classes, and a held-out label is 1"),
        ([[[0, 1]]], "scores must be floating point"),
    ],
)
def test_new_scores_are_refused_in_words(scores: Any, words: str) -> None:
    conformal = Conformal((torch.zeros(2),), (torch.tensor([0, 1]),))
    with pytest.raises(ValueError, match=words):
        conformal.sets(list(map(torch.tensor, scores)), 0.9)
    with pytest.raises(ValueError, match="coverage must be a finite number from 0 to 1"):
        conformal.sets([torch.zeros(1, 2)], 90)
    with pytest.raises(ValueError, match="of 2 classes and the weights of 3"):
        Conformal((torch.zeros(1),), (torch.tensor([0]),), torch.ones(3)).p_values([torch.zeros(1, 2)])
