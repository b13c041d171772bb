"""Compiled copies of a fixed number of bytes, each one load and one store from and to wherever it is asked for.

Short rows are copied a register at a time, which runs over their end by less than a register: what comes next is
written afterwards, and the buffers have `EDGE` bytes to spare on both sides.
"""

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from halfsure._compiled import inlined

__all__ = ["EDGE", "copy", "move", "move_mirrored", "move_pixel"]

EDGE = 32
"""How many bytes `move` copies, and how many a buffer has to have before its first and behind its last."""


def _pointer(context: Any, builder: Any, kind: Any, array: Any, at: Any, width: int) -> Any:  # noqa: PLR0917
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [at]), ir.VectorType(ir.IntType(8), width).as_pointer())


def _mover(width: int, order: Sequence[int] | None = None) -> Any:
    """A function (source, at, goal, place) that copies so many bytes, in another order if one is given."""

    def move(typing_context: Any, source: Any, at: Any, goal: Any, place: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            (source, _, goal, _), (read, at, written, place) = signature.args, given
            value = builder.load(_pointer(context, builder, source, read, at, width), align=1)
            if order is not None:
                lanes = ir.Constant(ir.VectorType(ir.IntType(32), width), list(order))
                value = builder.shuffle_vector(value, value, lanes)
            builder.store(value, _pointer(context, builder, goal, written, place, width), align=1)
            return context.get_dummy_value()

        return types.void(source, types.intp, goal, types.intp), codegen

    return intrinsic(move)


move = _mover(EDGE)
move_pixel = _mover(4)
"""A pixel of three bytes and the one behind it, which the next pixel replaces."""
move_mirrored = _mover(16, (12, 13, 14, 9, 10, 11, 6, 7, 8, 3, 4, 5, 0, 1, 2, 15))
"""Five pixels of three bytes, the last first, and one byte more, which the next five replace."""


@inlined
def copy(source: Any, start: int, count: int, goal: Any, place: int) -> None:
    """Copy bytes, and some more behind them."""
    for x in range(0, count, EDGE):
        move(source, start + x, goal, place + x)
