"""Randomness that depends on numbers alone: the same on every machine, in every version, from any position.

NumPy promises the bits of its generators but not what `shuffle` or `choice` make of them. A split or an order of
samples that must be the same in ten years is therefore computed here, from integer arithmetic only.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halfsure._splitmix import GOLDEN, mix

__all__ = ["keys", "permutations", "permute"]

UInts = NDArray[np.uint64]
ROUNDS = 8


def keys(indices: ArrayLike, *salts: int | NDArray[np.int64]) -> UInts:
    """A random 64-bit number for each index, by the SplitMix64 finaliser. (n,) → (n,).

    A salt may be an array of salts, for as many numbers at once as both shapes together have room for.
    """
    state = np.asarray(indices).astype(np.uint64)
    with np.errstate(over="ignore"):  # arithmetic modulo 2⁶⁴ is the point
        for salt in (*salts, len(salts)):
            state = mix(state + GOLDEN * _odd(salt))
    return state


def permute(positions: ArrayLike, size: int, *salts: int) -> NDArray[np.int64]:
    """What stands at the given positions of a random permutation of 0 … size − 1. (n,) → (n,).

    The permutation is never built: a Feistel network permutes the next power of four, and a value that falls outside is
    sent through again until it falls inside. Any part of any order costs memory for that part alone.
    """
    half = _half(size)
    values = np.array(positions, dtype=np.uint64, ndmin=1)
    outside = np.ones(values.shape, dtype=bool)
    rounds = keys(np.arange(ROUNDS), *salts)
    # Where the whole table is hardly larger than what is asked for, it is made once and looked up from then on.
    table = _send(np.arange(4**half, dtype=np.uint64), rounds, half) if 4**half <= 8 * values.size else None
    while outside.any():
        values[outside] = _send(values[outside], rounds, half) if table is None else table[values[outside]]
        outside = values >= size
    return values.astype(np.int64)


def permutations(size: int, numbers: range, *salts: int) -> NDArray[np.int64]:
    """Whole permutations, all at once: row i is that of the salts (numbers[i], *salts). → (len(numbers), size)."""
    half = _half(size)
    rounds = keys(np.arange(ROUNDS)[:, None], np.array(numbers), *salts)
    table = _send(np.arange(4**half, dtype=np.uint64), rounds[:, :, None], half).astype(np.int64)
    values = table[:, :size].copy()
    while (outside := values >= size).any():
        values[outside] = table[np.nonzero(outside)[0], values[outside]]
    return values


def _odd(salt: int | NDArray[np.int64]) -> Any:
    """2 · salt + 1, modulo 2⁶⁴."""
    if isinstance(salt, np.ndarray):
        return np.uint64(2) * salt.astype(np.uint64) + np.uint64(1)
    return np.uint64((2 * int(salt) + 1) % 2**64)


def _half(size: int) -> int:
    """Half of the bits that the next power of four has."""
    return max(1, (max(size - 1, 1).bit_length() + 1) // 2)


def _send(inputs: UInts, rounds: UInts, half: int) -> UInts:
    """Send numbers of 2 · half bits through the network, one to one; a round may have a key for each permutation."""
    mask, shift = np.uint64(2**half - 1), np.uint64(half)
    left, right = inputs >> shift, inputs & mask
    for key in rounds:
        left, right = right, left ^ (mix(right ^ key) & mask)
    outputs: UInts = (left << shift) | right
    return outputs
