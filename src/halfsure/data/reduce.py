"""A sparse matrix → the directions along which its rows differ most."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

__all__ = ["main_directions"]

DENSE = 1000
"""Up to so many rows or columns a matrix is decomposed as a whole: quick, and equal directions are no trouble."""
NOTHING = 1e-6
"""A singular value so much smaller than the largest is rounding."""


def main_directions(matrix: csr_matrix, most: int) -> NDArray[np.float64]:
    """The right singular vectors of the largest singular values. (rows, columns) → (columns, at most `most`)."""
    values, right = (_whole if min(matrix.shape) <= DENSE else _some)(matrix.astype(np.float64), most)
    largest = np.argsort(-values)[:most]
    kept = largest[values[largest] > NOTHING * values.max(initial=0)]
    directions = right[:, kept]
    # A direction and its opposite are the same: the largest entry is positive.
    signs = np.sign(directions[np.abs(directions).argmax(0), np.arange(len(kept))])
    signed: NDArray[np.float64] = directions * signs
    return signed


def _whole(matrix: Any, most: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Singular values and right singular vectors by the eigenvectors of the smaller of MᵀM and MMᵀ."""
    rows, columns = matrix.shape
    wide = columns > rows
    squares, vectors = np.linalg.eigh((matrix @ matrix.T if wide else matrix.T @ matrix).toarray())
    values, vectors = np.sqrt(np.maximum(squares[-most:], 0)), vectors[:, -most:]
    return values, matrix.T @ vectors / np.where(values > 0, values, 1) if wide else vectors


def _some(matrix: Any, most: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The same for the largest alone, by Lanczos' method."""
    from scipy.sparse.linalg import svds  # noqa: PLC0415 - slow to import, and used here alone

    # A fixed start, so that the same matrix gives the same directions; random, so that it lies along none of them.
    start = np.random.default_rng(0).normal(size=min(matrix.shape))
    _, values, right = svds(matrix, k=min(most, min(matrix.shape) - 1), v0=start)
    return values, right.T
