"""An ONNX file from anywhere → its bytes, once nothing in them leads outside the file or promises absurd sizes."""

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from halfsure.encoders.encoder import EncoderError

__all__ = ["safe_graph"]

LARGEST = 2**31 - 1
"""Bytes of a file; protobuf reads no more."""
MOST = 2**31
"""Numbers of one tensor."""
NODES = 100_000


def safe_graph(file: Path) -> bytes:
    """The bytes of a file; `EncoderError` for one that is no ONNX, keeps weights elsewhere or is absurdly large.

    A file can name others to take weights from, any of this machine, wherever a tensor may stand: in the graph, in
    the attributes of its nodes, in the graphs within those. So every message of it is looked at, before onnxruntime is.
    """
    import onnx  # noqa: PLC0415 - an extra

    if not os.path.isfile(file):  # no error for a name that no file can have
        raise EncoderError(f"there is no file {str(file)!r:.200}")
    if file.stat().st_size > LARGEST:
        raise EncoderError(f"{file.name} is over {LARGEST:,} bytes, too large for one ONNX file")
    content = file.read_bytes()
    try:
        model = onnx.load_from_string(content)
    except Exception as error:  # protobuf's own
        raise EncoderError(f"{file.name} is not an ONNX file: {error!s:.120}") from None
    nodes = 0
    for message in _messages(model):
        if isinstance(message, onnx.TensorProto):
            if message.external_data or message.data_location == onnx.TensorProto.EXTERNAL:
                raise EncoderError(f"{file.name} keeps weights in other files; save it with all weights inside")
            if any(side < 0 for side in message.dims) or math.prod(message.dims) > MOST:
                raise EncoderError(f"{file.name} promises a tensor of {list(message.dims)}, and is refused")
        elif isinstance(message, onnx.NodeProto):
            nodes += 1
            if nodes > NODES:
                raise EncoderError(f"{file.name} has more than {NODES:,} nodes, and is refused")
    if not model.graph.node:
        raise EncoderError(f"{file.name} is not an ONNX file: it has no network in it")
    return content


def _messages(message: Any) -> Iterator[Any]:
    """A protobuf message and every one within it."""
    waiting = [message]
    while waiting:
        one = waiting.pop()
        yield one
        for field, value in one.ListFields():
            if field.message_type is not None:
                waiting.extend([value] if hasattr(value, "ListFields") else value)
