"""Randomness that depends on numbers alone: the same on every machine, in every version, from any position.

NumPy promises the bits of its generators but not what `shuffle` or `choice` make of them. A split or an order of
samples that must be the same in ten years is therefore computed here, from integer arithmetic only.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halfsure._splitmix import GOLDEN, mix

__all__ = ["keys", "permute"]

UInts = NDArray[np.uint64]
ROUNDS = 8


def keys(indices: ArrayLike, *salts: int) -> UInts:
    """A random 64-bit number for each index, by the SplitMix64 finaliser. (n,) → (n,)."""
    state = np.asarray(indices).astype(np.uint64)
    with np.errstate(over="ignore"):  # arithmetic modulo 2⁶⁴ is the point
        for salt in (*salts, len(salts)):
            state = mix(state + GOLDEN * np.uint64((2 * int(salt) + 1) % 2**64))
    return state


def permute(positions: ArrayLike, size: int, *salts: int) -> NDArray[np.int64]:
    """What stands at the given positions of a random permutation of 0 … size − 1. (n,) → (n,).

    The permutation is never built: a Feistel network permutes the next power of four, and a value that falls outside is
    sent through again until it falls inside. Any part of any order costs memory for that part alone.
    """
    half = max(1, (max(size - 1, 1).bit_length() + 1) // 2)
    mask, shift = np.uint64(2**half - 1), np.uint64(half)
    values = np.array(positions, dtype=np.uint64, ndmin=1)
    outside = np.ones(values.shape, dtype=bool)
    rounds = keys(np.arange(ROUNDS), *salts)

    def send(inputs: UInts) -> UInts:
        left, right = inputs >> shift, inputs & mask
        for key in rounds:
            left, right = right, left ^ (mix(right ^ key) & mask)
        outputs: UInts = (left << shift) | right
        return outputs

    # Where the whole table is hardly larger than what is asked for, it is made once and looked up from then on.
    table = send(np.arange(4**half, dtype=np.uint64)) if 4**half <= 8 * values.size else None
    while outside.any():
        values[outside] = send(values[outside]) if table is None else table[values[outside]]
        outside = values >= size
    return values.astype(np.int64)
