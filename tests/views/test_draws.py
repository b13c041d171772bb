"""The draws: their distribution, and that they depend on (kind, seed, stream, step, index) alone.

Bounds on fixed seeds: counts within five standard deviations, and χ² below its 99.9 % point.
"""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2

from halfsure.views import _kernel
from halfsure.views import draws as _draws
from halfsure.views._ops import ENHANCE, NAMES
from halfsure.views.draws import STRONG, WEAK, base_key, bits, image_plan, sides

COUNT = 100_000
SIDES = sides(32, 24, flip=True, shift=4, ops=2)


def slowly_mixed(x: int) -> int:
    """Splitmix64's finaliser in plain integers."""
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ x >> 27) * 0x94D049BB133111EB % 2**64
    return x ^ x >> 31


@pytest.fixture(scope="module", params=["over samples", "over steps"])
def plan(request: pytest.FixtureRequest) -> NDArray[np.int64]:
    if request.param == "over samples":
        return image_plan(base_key(STRONG, 1, 0, 5), np.arange(COUNT), SIDES)
    steps = [image_plan(base_key(STRONG, 1, 0, step), np.arange(20), SIDES) for step in range(COUNT // 20)]
    return np.concatenate(steps)


def assert_uniform(values: NDArray[np.int64], outcomes: NDArray[np.int64]) -> None:
    assert set(np.unique(values)) <= set(outcomes)
    counts = np.array([(values == outcome).sum() for outcome in outcomes])
    expected = len(values) / len(outcomes)
    assert np.abs(counts - expected).max() < 5 * np.sqrt(expected)
    assert ((counts - expected) ** 2 / expected).sum() < chi2.ppf(0.999, len(outcomes) - 1)


def test_flips_shifts_and_cutouts_are_uniform(plan: NDArray[np.int64]) -> None:
    assert_uniform(plan[:, 0], np.arange(2))
    assert_uniform(plan[:, 1], np.arange(-4, 5))
    assert_uniform(plan[:, 2], np.arange(-4, 5))
    assert_uniform(plan[:, 3], np.arange(32))
    assert_uniform(plan[:, 4], np.arange(24))


@pytest.mark.parametrize("column", [5, 8])
def test_ops_levels_and_signs_are_uniform(plan: NDArray[np.int64], column: int) -> None:
    assert_uniform(plan[:, column], np.arange(14))
    assert_uniform(plan[:, column + 1], np.arange(2))
    assert_uniform(plan[:, column + 2], np.array([*range(-9, 0), *range(1, 10)]))


def test_draws_of_a_sample_are_independent(plan: NDArray[np.int64]) -> None:
    assert_uniform(14 * plan[:, 5] + plan[:, 8], np.arange(14 * 14))  # with replacement
    assert_uniform(2 * plan[:, 6] + plan[:, 9], np.arange(4))
    correlation = np.corrcoef(plan.T) - np.eye(plan.shape[1])
    assert np.abs(correlation).max() < 5 / np.sqrt(len(plan))


def test_neighbouring_samples_steps_streams_seeds_and_kinds_are_independent() -> None:
    samples = np.arange(COUNT)
    here = image_plan(base_key(STRONG, 1, 0, 5), samples, SIDES)
    others = [
        image_plan(base_key(STRONG, 1, 0, 5), samples + 1, SIDES),
        image_plan(base_key(STRONG, 1, 0, 6), samples, SIDES),
        image_plan(base_key(STRONG, 1, 1, 5), samples, SIDES),
        image_plan(base_key(STRONG, 2, 0, 5), samples, SIDES),
        image_plan(base_key(WEAK, 1, 0, 5), samples, SIDES),
    ]
    for other in others:
        for column in range(here.shape[1]):
            assert abs(np.corrcoef(here[:, column], other[:, column])[0, 1]) < 5 / np.sqrt(COUNT)


def test_bits_are_those_of_plain_integers() -> None:
    golden, numbers = 0x9E3779B97F4A7C15, (STRONG, 2**63 - 1, 3, 2**40)
    base = 0
    for number in numbers:
        base = slowly_mixed((base + golden + number) % 2**64)
    indices = [0, 1, 2**31, 2**63 - 1]
    wanted = [
        [slowly_mixed((slowly_mixed((base + i) % 2**64) + (slot + 1) * golden) % 2**64) for slot in range(4)]
        for i in indices
    ]
    assert int(base_key(*numbers)) == base
    assert bits(np.uint64(base), np.array(indices), np.arange(4, dtype=np.uint64)).tolist() == wanted


@pytest.mark.parametrize("ops", [0, 1, 2, 5])
@pytest.mark.parametrize("flip", [True, False])
def test_compiled_draws_are_the_same(ops: int, flip: bool) -> None:
    indices = np.concatenate([np.arange(500), np.array([2**31, 2**62, 2**63 - 1])])
    dice = sides(28, 30, flip=flip, shift=3, ops=ops)
    base = base_key(WEAK, 7, 2, 10**12)
    wanted = image_plan(base, indices, dice)
    got = np.empty_like(wanted)
    _kernel.image_plan(base, indices, dice, got)
    np.testing.assert_array_equal(got, wanted)
    assert wanted[:, 0].any() == flip


def test_order_of_seed_stream_and_step_matters() -> None:
    numbers = [(s, t, k) for s in range(12) for t in range(12) for k in range(12)]
    assert len({int(base_key(WEAK, *triple)) for triple in numbers}) == len(numbers)


def test_ops_and_levels_are_as_many_as_there_are() -> None:
    assert (_draws.OPS, _draws.LEVELS) == (len(NAMES), 9) == (14, len(ENHANCE) - 1)
