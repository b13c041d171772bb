"""Which randomness a sample's view gets: a function of (view, seed, stream, step, sample index) and of nothing else.

Counter-based: the five numbers are hashed to a key a sample, and the key and a slot number to 64 random bits. No state
is carried from sample to sample, so that batch size, order, threads and ranks cannot change a view.
"""

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from halfsure._splitmix import GOLDEN, mix

__all__ = [
    "ARRAY",
    "BANKED",
    "DIRECTION",
    "FIRST_OP",
    "LEVELS",
    "OPS",
    "STRONG",
    "WEAK",
    "WORDS",
    "base_key",
    "below",
    "bits",
    "happens",
    "image_plan",
    "normal",
    "sides",
]

Bits = NDArray[np.uint64]

# A view of each kind has its own randomness: a weak and a strong view of one stream are independent.
WEAK, STRONG, ARRAY, DIRECTION, WORDS, BANKED = 1, 2, 3, 4, 6, 7  # 5 is for dropout

OPS = 14
LEVELS = 9

# The columns of a plan: flip, shift y, shift x, cutout y, cutout x, then for each op its number, whether it is applied,
# and its level with a sign.
FIRST_OP = 5

S32 = np.uint64(32)
MASK = 2**64 - 1


def below(random: Any, count: Any) -> Any:
    """Turn random bits into an integer 0 … count − 1, off from uniform by less than count / 2³²."""
    return ((random >> S32) * count) >> S32


def base_key(kind: int, seed: int, stream: int, step: int) -> np.uint64:
    """Hash everything but the sample."""
    key = 0
    for number in (kind, seed, stream, step):  # `mix` in plain integers, which for one number are the fastest
        key = (key + number + 0x9E3779B97F4A7C15) & MASK
        key = (key ^ key >> 30) * 0xBF58476D1CE4E5B9 & MASK
        key = (key ^ key >> 27) * 0x94D049BB133111EB & MASK
        key ^= key >> 31
    return np.uint64(key)


def bits(base: np.uint64, indices: NDArray[np.int64], slots: NDArray[np.uint64]) -> Bits:
    """Random bits of every sample in every slot. (n,), (slots,) → (n, slots)."""
    keys = mix(np.asarray(base + indices.astype(np.uint64)))
    drawn: Bits = mix(keys[:, None] + (slots + np.uint64(1)) * GOLDEN)
    return drawn


def happens(random: Bits, probability: float) -> NDArray[np.bool_]:
    """Whether events happen, by 24 random bits each."""
    return random < np.uint64(round(probability * 2**24))


@lru_cache(maxsize=1)
def _normal_table() -> NDArray[np.float32]:
    """The normal distribution in 65,536 equally likely values: a table has the same bits everywhere, a log may not."""
    table: NDArray[np.float32] = ndtri((np.arange(65_536) + 0.5) / 65_536).astype(np.float32)
    return table


def normal(random: Bits) -> NDArray[np.float32]:
    """Turn the lowest 16 of random bits into standard normal numbers; the shape stays."""
    drawn: NDArray[np.float32] = _normal_table()[random & np.uint64(0xFFFF)]
    return drawn


@lru_cache(maxsize=32)
def sides(height: int, width: int, *, flip: bool, shift: int, ops: int) -> NDArray[np.int64]:
    """How many sides the die of each slot has; without flips it has one, and always shows 0. → (5 + 4 ops,)."""
    dice = np.array([1 + flip, 2 * shift + 1, 2 * shift + 1, height, width] + [OPS, 2, LEVELS, 2] * ops)
    dice.flags.writeable = False
    return dice


def image_plan(base: np.uint64, indices: NDArray[np.int64], sides: NDArray[np.int64]) -> NDArray[np.int64]:
    """Decide what happens to each sample, the readable twin of `_kernel.image_plan`. (n,) → (n, 5 + 3 ops)."""
    slots = np.arange(len(sides), dtype=np.uint64)
    shown = below(bits(base, indices, slots), sides.astype(np.uint64)).astype(np.int64)
    shift = sides[1] // 2
    columns = [shown[:, 0], shown[:, 1] - shift, shown[:, 2] - shift, shown[:, 3], shown[:, 4]]
    for slot in range(FIRST_OP, len(sides), 4):
        op, applied, level, sign = shown[:, slot : slot + 4].T
        columns += [op, applied, (1 + level) * (1 - 2 * sign)]
    return np.stack(columns, 1)
