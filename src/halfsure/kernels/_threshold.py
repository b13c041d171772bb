"""Compiled for the CPU: the threshold of sparsemax in each row of logits, from which all else follows.

It is the root of `f(τ) = Σ max(0, z_i − τ) − 1`, which is convex and falls. Newton's steps from below never pass it,
and each at least quarters the product of f and its slope, so that there are never many. A step costs one pass that runs
on vectors, and there is no sorting: rows in which every class is a candidate cost little more than others.

A row is solved alone, always in the same order of operations: neither its neighbours nor the number of threads can
change its bits.
"""

from typing import Any

import numpy as np

from halfsure._compiled import compiled_with

__all__ = [
    "BLOCK",
    "COUNT",
    "EXCESS",
    "FAST",
    "FEW",
    "LOSS",
    "NARROW",
    "PIECE",
    "SQUARES",
    "STATS",
    "TAU",
    "TOP",
    "deal",
    "fast",
    "less",
    "solve",
    "solve_narrow",
    "solve_wide",
]

# The order of sums is free, so that they run on vectors, and ±0 are the same; NaN and infinity keep their meaning.
FAST = frozenset({"reassoc", "contract", "nsz", "arcp"})

NARROW = 128  # up to so many classes a vector holds one class of several rows, above it several classes of one row
BLOCK = 64  # rows that are solved side by side, and columns of a wide row whose maxima start it
FEW = 12  # classes that rows side by side sum before they add to the rest: long sums lose digits
PIECE = 512  # how many numbers single precision may sum before double precision goes on

STATS = 6
"""What is kept of a row: its maximum, its threshold below that, what the threshold is still off by, the number of
candidates, Σp² and the loss. The threshold's two parts stay apart, for in one number the second would be lost: with
10,000 candidates probabilities are smaller than the rounding of 1."""
TOP, TAU, EXCESS, COUNT, SQUARES, LOSS = range(STATS)


fast = compiled_with(FAST)


@compiled_with(frozenset())  # said, or it would have its callers' freedom
def less(a: Any, b: Any) -> Any:
    """Subtract b from a, in an order that the compiler has to keep: z − (top + τ) would lose the digits of τ.

    It keeps it only between two of these: what is taken from, or added to, a difference has to be one as well.
    """
    return a - b


@fast
def _top(row: Any, columns: Any) -> Any:
    """The maximum of a row; NaN where that is infinite, or where there is a NaN."""
    real = row.dtype.type
    bad, folds = real(0), len(row) // BLOCK
    for j in range(len(row)):
        bad += real(row[j] != row[j])
    columns[:] = -np.inf
    for k in range(folds):
        piece = row[k * BLOCK : (k + 1) * BLOCK]
        for j in range(BLOCK):  # a maximum runs on vectors only side by side
            columns[j] = np.fmax(columns[j], piece[j])
    top = columns[0]
    for j in range(1, BLOCK):
        top = max(top, columns[j])
    for j in range(folds * BLOCK, len(row)):
        top = max(top, row[j])
    return real(np.nan) if bad > real(0) else top - real(0) * top


@fast
def _pass(row: Any, top: Any, tau: Any) -> Any:
    """Σ max(0, z_i − top − τ) and the number of positive terms."""
    real = row.dtype.type
    total, count = 0.0, 0.0
    for start in range(0, len(row), PIECE):
        piece = row[start : start + PIECE]
        part, inside = real(0), real(0)
        for j in range(len(piece)):
            above = less(less(piece[j], top), tau)
            part += max(above, real(0))
            inside += real(above > real(0))
        total, count = total + part, count + inside
    return total, count


@fast
def _newton(row: Any, top: Any, tau: Any) -> Any:
    """The threshold of some numbers, from one that is not above it: (τ, what it is still off by, candidates)."""
    real, before = row.dtype.type, 0.0
    while True:
        total, count = _pass(row, top, tau)
        excess = real((total - 1) / count)
        if count == before or not excess > 0:
            return tau, excess, count
        before = count
        tau += excess


@fast
def solve_wide(row: Any, columns: Any, stats: Any) -> None:
    """Solve a row alone."""
    real = row.dtype.type
    top, tau = _top(row, columns), real(-1)
    if len(row) >= 4 * BLOCK:  # the columns' maxima are a few of its numbers: their threshold is not above
        tau, _, _ = _newton(columns, top, tau)
    tau, excess, count = _newton(row, top, tau)
    stats[TOP], stats[TAU], stats[EXCESS], stats[COUNT] = top, tau, excess, count + real(0) * top


@fast
def _below_top(rows: Any, x: Any, top: Any) -> None:
    """Put rows side by side, (n, classes) → (classes, 64), less their maxima, which are NaN for bad rows."""
    real, bad = x.dtype.type, np.zeros(BLOCK, np.int32)
    x[:, len(rows) :] = 0
    for i in range(len(rows)):
        for j in range(len(x)):
            x[j, i] = rows[i, j]
    top[:] = -np.inf
    for j in range(len(x)):
        for i in range(BLOCK):
            top[i] = np.fmax(top[i], x[j, i])
            bad[i] |= np.int32(x[j, i] != x[j, i])
    for i in range(BLOCK):
        top[i] = real(np.nan) if bad[i] else top[i] - real(0) * top[i]
    for j in range(len(x)):
        for i in range(BLOCK):
            x[j, i] = less(x[j, i], top[i])


@fast
def _passes(x: Any, tau: Any, part: Any, total: Any, count: Any) -> None:
    """What `_pass` sums, for rows side by side."""
    zero = x.dtype.type(0)
    total[:], count[:] = zero, zero
    for start in range(0, len(x), FEW):
        part[:] = zero
        for j in range(start, min(start + FEW, len(x))):
            for i in range(BLOCK):
                above = less(x[j, i], tau[i])
                part[i] += np.fmax(above, zero)
                count[i] += x.dtype.type(above > zero)
        for i in range(BLOCK):
            total[i] += part[i]


@fast
def solve_narrow(rows: Any, x: Any, stats: Any) -> None:
    """Solve 64 rows side by side. Fills x, (classes, 64), with what they are below their maxima, and stats, (6, 64)."""
    zero, one = x.dtype.type(0), x.dtype.type(1)
    top, tau, excess, count, total = stats[TOP], stats[TAU], stats[EXCESS], stats[COUNT], stats[SQUARES]
    before, part = np.zeros(BLOCK, x.dtype), np.empty(BLOCK, x.dtype)
    _below_top(rows, x, top)
    tau[:] = -one
    moved = np.int32(1)
    while moved != 0:
        _passes(x, tau, part, total, count)
        moved = np.int32(0)
        for i in range(BLOCK):
            excess[i] = (total[i] - one) / count[i]
            step = (count[i] != before[i]) & (excess[i] > zero)
            tau[i] += excess[i] if step else zero
            before[i] = count[i]
            moved |= np.int32(step)
    for i in range(BLOCK):
        count[i] += zero * top[i]


@fast
def deal(side: Any, stats: Any) -> None:
    """From side by side to one after the other. (6, 64) → (n, 6)."""
    for i in range(len(stats)):
        for k in range(STATS):
            stats[i, k] = side[k, i]


@fast
def solve(z: Any, stats: Any) -> None:
    """The thresholds of all rows. (n, classes) → (n, 6)."""
    n, classes = z.shape
    if classes > NARROW:
        columns = np.empty(BLOCK, z.dtype)
        for i in range(n):
            solve_wide(z[i], columns, stats[i])
        return
    x, side = np.empty((classes, BLOCK), z.dtype), np.empty((STATS, BLOCK), z.dtype)
    for start in range(0, n, BLOCK):
        solve_narrow(z[start : start + BLOCK], x, side)
        deal(side, stats[start : start + BLOCK])
