"""SplitMix64 (Steele, Lea and Flood 2014): the one scrambler behind every draw that must never change."""

from typing import Any

import numpy as np

__all__ = ["GOLDEN", "mix"]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST_FACTOR = np.uint64(0xBF58476D1CE4E5B9)
SECOND_FACTOR = np.uint64(0x94D049BB133111EB)
S27, S30, S31 = np.uint64(27), np.uint64(30), np.uint64(31)


def mix(x: Any) -> Any:
    """Scramble 64 bits, one to one; plain enough that NumPy takes it for arrays and numba for numbers."""
    x = (x ^ (x >> S30)) * FIRST_FACTOR
    x = (x ^ (x >> S27)) * SECOND_FACTOR
    return x ^ (x >> S31)
