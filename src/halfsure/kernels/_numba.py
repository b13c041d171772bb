"""Sparsemax and the losses on it for the CPU, compiled by numba; `cpu.py` calls them with tensors.

Each takes `stats`, (n, 6), what is kept of each row; the number of classes; and tensors as addresses, which numba takes
in a tenth of the time of arrays.
"""

from typing import Any

import numba
import numpy as np
from numba import types
from numba.extending import intrinsic, overload

from halfsure._compiled import cached
from halfsure.kernels import _threshold
from halfsure.kernels._threshold import (
    BLOCK,
    COUNT,
    EXCESS,
    FAST,
    FEW,
    LOSS,
    NARROW,
    PIECE,
    SQUARES,
    STATS,
    TAU,
    TOP,
    deal,
    fast,
    less,
    solve,
    solve_narrow,
    solve_wide,
)

__all__ = [
    "LOSS",
    "STATS",
    "ads_backward",
    "ads_forward",
    "label_backward",
    "label_forward",
    "mean_loss",
    "probs_backward",
    "probs_forward",
    "soft_backward",
    "soft_forward",
]

# Stands for a probability of 0: nothing beside any sum, and its square is still a normal number, as fast as others.
TINY = 1e-18

_kernel = cached(None, _threshold, fastmath=FAST)


def _as_pointer(typing: Any, address: Any, like: Any) -> Any:
    """An address as a pointer to numbers like the given one."""
    kind: Any = types.CPointer(like)  # type: ignore[no-untyped-call]

    def generate(context: Any, builder: Any, _: Any, given: Any) -> Any:
        return builder.inttoptr(given[0], context.get_value_type(kind))

    return kind(address, like), generate


_pointer: Any = intrinsic(_as_pointer)
_array: Any = numba.carray  # type: ignore[attr-defined]


# log(1 + f) = f − f²/2 + f³ P(f) on −1/3 … 1/3, the highest power of P first; fitted for the least largest error, 5e-9.
LOG = tuple(
    map(
        np.float32,
        (-0.12891348, 0.13984419, -0.12184335, 0.14005872, -0.16680482, 0.20010406, -0.24999798, 0.33333216),
    )
)
TWO_THIRDS = np.int32(0x3F2AAAAB)  # the bits of the float
MANTISSA = np.int32(23)


def _log(x: Any) -> Any:
    """The natural logarithm of a normal number above 0: in single precision one that runs on vectors."""
    return np.log(x)


@overload(_log, inline="always")
def _log_compiled(x: Any) -> Any:
    def single(x: Any) -> Any:
        bits = np.float32(x).view(np.int32)
        exponent = np.int32((bits - TWO_THIRDS) >> MANTISSA)
        f = np.int32(bits - np.int32(exponent << MANTISSA)).view(np.float32) - np.float32(1)
        a, b, c, d, e, g, h, i = LOG
        rest = ((((((a * f + b) * f + c) * f + d) * f + e) * f + g) * f + h) * f + i
        return f - f * f * (np.float32(0.5) - f * rest) + np.float32(exponent) * np.float32(0.6931472)

    def double(x: Any) -> Any:
        return np.log(x)

    return single if x == types.float32 else double


@fast
def _ads_wide(row: Any, stats: Any, packed: Any) -> Any:
    """Σp² and Σp² log(mp) of a row that is solved, m being its candidates; others are left out, in large pieces."""
    real, size = row.dtype.type, 0
    top, tau, excess, count = stats[TOP], stats[TAU], stats[EXCESS], stats[COUNT]
    for start in range(0, len(row), BLOCK):
        piece, goal, inside = row[start : start + BLOCK], packed[size:], real(0)
        for j in range(len(piece)):
            inside += real(less(less(piece[j], top), tau) > real(0))
        if inside > real(0):
            for j in range(len(piece)):
                goal[j] = max(less(less(less(piece[j], top), tau), excess), real(TINY))
            size += len(piece)
    squares, logs = 0.0, 0.0
    for start in range(0, size, PIECE):
        probs, part, part_logs = packed[start : min(start + PIECE, size)], real(0), real(0)
        for j in range(len(probs)):
            part += probs[j] * probs[j]
            part_logs += probs[j] * probs[j] * _log(count * probs[j])
        squares, logs = squares + part, logs + part_logs
    return squares, logs


@fast
def _ads_narrow(x: Any, stats: Any) -> None:
    """The losses of 64 rows side by side, into stats, with Σp²; see `ads_forward`."""
    real = x.dtype.type
    tau, excess, count, squares, logs = stats[TAU], stats[EXCESS], stats[COUNT], stats[SQUARES], stats[LOSS]
    squares[:], logs[:] = real(0), real(0)
    part, part_logs = np.empty(BLOCK, x.dtype), np.empty(BLOCK, x.dtype)
    for start in range(0, len(x), FEW):
        part[:], part_logs[:] = real(0), real(0)
        for j in range(start, min(start + FEW, len(x))):
            for i in range(BLOCK):
                p = np.fmax(less(less(x[j, i], tau[i]), excess[i]), real(TINY))
                part[i] += p * p
                part_logs[i] += p * p * _log(count[i] * p)
        for i in range(BLOCK):
            squares[i] += part[i]
            logs[i] += part_logs[i]
    for i in range(BLOCK):
        logs[i] = logs[i] / squares[i] - _log(count[i] * squares[i])
        logs[i] = max(logs[i], real(0)) + real(0) * stats[TOP, i]


@fast
def _write_probs(rows: Any, stats: Any, out: Any) -> None:
    """The probabilities of rows that are solved."""
    real = stats.dtype.type
    for i in range(len(stats)):
        row, line = rows[i], out[i]
        top, tau, excess, outside = stats[i, TOP], stats[i, TAU], stats[i, EXCESS], real(0) * stats[i, COUNT]
        for j in range(len(row)):
            above = less(less(row[j], top), tau)
            line[j] = max(less(above, excess), real(0)) if above > real(0) else outside


@fast
def _conjugate(row: Any, stats: Any) -> Any:
    """Σ p (x − p/2), the part of the sparsemax loss that does not know the target; x are logits below their maximum."""
    real, total = row.dtype.type, 0.0
    top, tau, excess = stats[TOP], stats[TAU], stats[EXCESS]
    for start in range(0, len(row), PIECE):
        piece, part = row[start : start + PIECE], real(0)
        for j in range(len(piece)):
            x = less(piece[j], top)
            above = less(x, tau)
            p = less(above, excess)
            part += p * less(x, real(0.5) * p) if above > real(0) else real(0)
        total += part
    return total + 0.0 * top


@_kernel
def ads_forward(stats: Any, classes: int, z: int) -> None:
    """KL(q‖p) of each row, q being p² renormalised: Σp² log(mp) / Σp² − log(m Σp²), whatever m is.

    With m the number of candidates both terms are small where these are about equal, and lose no digits.
    """
    n, real = len(stats), stats.dtype.type
    rows = _array(_pointer(z, real(0)), (n, classes))
    if classes > NARROW:
        columns, packed = np.empty(BLOCK, stats.dtype), np.empty(classes, stats.dtype)
        for i in range(n):
            solve_wide(rows[i], columns, stats[i])
            squares, logs = _ads_wide(rows[i], stats[i], packed)
            stats[i, SQUARES] = squares
            # Rounding may take the distance below 0; the second term is NaN in a bad row.
            stats[i, LOSS] = max(logs / squares - np.log(stats[i, COUNT] * squares), 0.0) + real(0) * stats[i, TOP]
        return
    x, side = np.empty((classes, BLOCK), stats.dtype), np.empty((STATS, BLOCK), stats.dtype)
    for start in range(0, n, BLOCK):
        solve_narrow(rows[start : start + BLOCK], x, side)
        _ads_narrow(x, side)
        deal(side, stats[start : start + BLOCK])


@_kernel
def ads_backward(stats: Any, classes: int, z: int, grads: int, out: int, stride: int, scale: float) -> None:
    """Gradient of the losses: (1/m − p_i) / Σp² on the m candidates, times what comes in."""
    n, real = len(stats), stats.dtype.type
    rows, goal = _array(_pointer(z, real(0)), (n, classes)), _array(_pointer(out, real(0)), (n, classes))
    given = _array(_pointer(grads, real(0)), n * stride + 1)
    for i in range(n):
        row, line = rows[i], goal[i]
        top, tau, excess, count = stats[i, TOP], stats[i, TAU], stats[i, EXCESS], stats[i, COUNT]
        slope = given[i * stride] * real(scale) / stats[i, SQUARES]
        start, outside = slope / count, real(0) * count
        for j in range(classes):
            above = less(less(row[j], top), tau)
            line[j] = start - slope * less(above, excess) if above > real(0) else outside


@_kernel
def probs_forward(stats: Any, classes: int, z: int, out: int) -> None:
    """Sparsemax of each row."""
    n, real = len(stats), stats.dtype.type
    rows = _array(_pointer(z, real(0)), (n, classes))
    solve(rows, stats)
    _write_probs(rows, stats, _array(_pointer(out, real(0)), (n, classes)))


@_kernel
def probs_backward(stats: Any, classes: int, probs: int, grads: int, out: int) -> None:
    """Gradient through sparsemax: what comes in, less its mean over the candidates, on these alone."""
    n, real = len(stats), stats.dtype.type
    rows, goal = _array(_pointer(probs, real(0)), (n, classes)), _array(_pointer(out, real(0)), (n, classes))
    given = _array(_pointer(grads, real(0)), (n, classes))
    for i in range(n):
        p, grad, line, total, count = rows[i], given[i], goal[i], 0.0, 0.0
        for start in range(0, classes, PIECE):
            piece, come, part, inside = p[start : start + PIECE], grad[start : start + PIECE], real(0), real(0)
            for j in range(len(piece)):
                part += come[j] if piece[j] > real(0) else real(0)
                inside += real(piece[j] > real(0))
            total, count = total + part, count + inside
        mean, outside = real(total / count), real(0) * stats[i, TOP]
        for j in range(classes):
            line[j] = grad[j] - mean if p[j] > real(0) else outside


@_kernel
def label_forward(stats: Any, classes: int, z: int, labels: int) -> None:
    """Sparsemax loss of each row against a class index; one that is none of the classes gives NaN."""
    n, real = len(stats), stats.dtype.type
    rows, wanted = _array(_pointer(z, real(0)), (n, classes)), _array(_pointer(labels, np.int64(0)), n)
    solve(rows, stats)
    for i in range(n):
        right = rows[i, wanted[i]] if 0 <= wanted[i] < classes else real(np.nan)
        stats[i, LOSS] = less(_conjugate(rows[i], stats[i]) + 0.5, less(right, stats[i, TOP]))


@_kernel
def label_backward(stats: Any, classes: int, z: int, labels: int, grads: int, out: int, stride: int) -> None:
    """Gradient of the losses: p, less 1 at the class, times what comes in."""
    n, real = len(stats), stats.dtype.type
    rows, goal = _array(_pointer(z, real(0)), (n, classes)), _array(_pointer(out, real(0)), (n, classes))
    wanted, given = _array(_pointer(labels, np.int64(0)), n), _array(_pointer(grads, real(0)), n * stride + 1)
    _write_probs(rows, stats, goal)
    for i in range(n):
        line, grad = goal[i], given[i * stride]
        if 0 <= wanted[i] < classes:
            line[wanted[i]] -= real(1)
        for j in range(classes):
            line[j] *= grad


@_kernel
def soft_forward(stats: Any, classes: int, z: int, targets: int) -> None:
    """Sparsemax loss of each row against probabilities y: Σ p (x − p/2) + Σ y (y/2 − x)."""
    n, real = len(stats), stats.dtype.type
    rows, wanted = _array(_pointer(z, real(0)), (n, classes)), _array(_pointer(targets, real(0)), (n, classes))
    solve(rows, stats)
    for i in range(n):
        row, target, top = rows[i], wanted[i], stats[i, TOP]
        total = _conjugate(row, stats[i])
        for start in range(0, classes, PIECE):
            piece, goal, part = row[start : start + PIECE], target[start : start + PIECE], real(0)
            for j in range(len(piece)):  # a masked class that is not wanted adds nothing: 0 · −inf would be NaN
                part += goal[j] * less(real(0.5) * goal[j], less(piece[j], top)) if goal[j] != real(0) else real(0)
            total += part
        stats[i, LOSS] = total


@_kernel
def soft_backward(stats: Any, classes: int, z: int, targets: int, grads: int, out: int, stride: int) -> None:
    """Gradient of the losses: p − y, times what comes in."""
    n, real = len(stats), stats.dtype.type
    rows, goal = _array(_pointer(z, real(0)), (n, classes)), _array(_pointer(out, real(0)), (n, classes))
    wanted, given = _array(_pointer(targets, real(0)), (n, classes)), _array(_pointer(grads, real(0)), n * stride + 1)
    _write_probs(rows, stats, goal)
    for i in range(n):
        line, target, grad = goal[i], wanted[i], given[i * stride]
        for j in range(classes):
            line[j] = grad * (line[j] - target[j])


@_kernel
def mean_loss(stats: Any) -> float:
    """The mean of the losses."""
    total = 0.0
    for i in range(len(stats)):
        total += stats[i, LOSS]
    return total / len(stats)
