"""The suite's split: committed once, by source, and drawn labels that are what their protocol says."""

import hashlib

import numpy as np
import pytest
from suite import PROTOCOLS, Protocol, picked, tasks
from suite_sets import SETS, USED, part_of

SPLIT = "21309cea64ca5634"


def test_the_split_is_the_one_that_was_committed_before_any_run() -> None:
    lines = "\n".join(f"{name} {one.source} {one.part}" for name, one in sorted(SETS.items()))
    assert hashlib.sha256(lines.encode()).hexdigest()[:16] == SPLIT


def test_no_source_is_on_both_sides_and_what_was_looked_at_is_development() -> None:
    parts: dict[str, set[str]] = {}
    for one in SETS.values():
        parts.setdefault(one.source, set()).add(one.part)
    assert all(len(found) == 1 for found in parts.values())
    assert {part_of(source) for source in USED} == {"development"}
    assert parts.keys() >= USED
    for part in ("development", "confirmation"):
        assert len(list(tasks(part))) >= 40


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol.name)
def test_labels_are_drawn_as_the_protocol_says(protocol: Protocol) -> None:
    rng = np.random.default_rng(0)
    for seed in range(20):
        classes = int(rng.integers(2, 12))
        labels = rng.choice(classes, size=600, p=rng.dirichlet(np.ones(classes)))
        labels[:classes] = np.arange(classes)
        chosen = protocol.draw(labels, seed)
        assert len(set(chosen.tolist())) == len(chosen)
        assert set(labels[chosen]) == set(range(classes))
        counts, whole = np.bincount(labels[chosen]), np.bincount(labels)
        if protocol.per_class:
            wanted = [max(1, min(protocol.per_class, count // 2)) for count in whole.tolist()]
            assert counts.tolist() == wanted
        else:
            assert 40 <= len(chosen) < 40 + classes
        np.testing.assert_array_equal(chosen, protocol.draw(labels, seed))
        assert not np.array_equal(chosen, protocol.draw(labels, seed + 1))


def test_random_labels_have_the_shares_of_the_data() -> None:
    labels = np.repeat([0, 1], [900, 100])
    protocol = PROTOCOLS[-1]
    drawn = [np.mean(labels[protocol.draw(labels, seed)]) for seed in range(200)]
    assert abs(np.mean(drawn) - 0.1) < 0.02


def test_cross_validation_picks_what_is_right_more_often() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (300, 2))
    y = ((x[:, 0] > 0) ^ (x[:, 1] > 0)).astype(np.int64)  # no line separates it
    labeled = np.sort(rng.permutation(300)[:60])
    assert picked(0, x, labeled, y[labeled]) != "logistic regression"
    x = rng.normal(size=(300, 30))
    linear = (x @ rng.normal(size=30) > 0).astype(np.int64)
    assert picked(0, x, labeled, linear[labeled]) == "logistic regression"
