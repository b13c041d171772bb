"""An EfficientNet-Lite as an ONNX graph, written node by node: it is a chain, and an exporter takes half a minute."""

from typing import Any

import numpy as np

from halfsure.encoders._lite_network import Block, Convolution, Network

__all__ = ["graph"]

OPSET, VERSION = 17, 10


class _Writer:
    """Nodes and weights, one after the other."""

    def __init__(self) -> None:
        self.nodes, self.weights = list[Any](), list[Any]()

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        from onnx import helper  # noqa: PLC0415 - an extra

        name = f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def weight(self, values: Any) -> str:
        from onnx import numpy_helper  # noqa: PLC0415

        name = f"weight{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def convolution(self, x: str, layer: Convolution, side: int, *, clipped: bool) -> tuple[str, int]:
        """→ its output's name and side."""
        assert layer.bias is not None
        up, down, left, right = layer.margins(side, side)
        weights = self.weight(layer.weight.detach().numpy()), self.weight(layer.bias.detach().numpy())
        y = self.node("Conv", x, *weights, strides=list(layer.stride), group=layer.groups, pads=[up, left, down, right])
        if clipped:
            y = self.node("Clip", y, self.weight(np.float32(0)), self.weight(np.float32(6)))
        return y, -(-side // layer.stride[0])


def graph(net: Network, side: int) -> bytes:
    """The network for pictures of one size, (n, 3, side, side) → (n, dimension), as the bytes of an ONNX file."""
    from onnx import TensorProto, helper  # noqa: PLC0415 - an extra

    writer = _Writer()
    x, size = writer.convolution("pictures", net.stem, side, clipped=True)
    for block in net.blocks:
        assert isinstance(block, Block)
        before, last = x, len(block.convolutions) - 1
        for place, layer in enumerate(block.convolutions):
            assert isinstance(layer, Convolution)
            x, size = writer.convolution(x, layer, size, clipped=place < last)
        x = writer.node("Add", x, before) if block.added else x
    x, size = writer.convolution(x, net.head, size, clipped=True)
    x = writer.node("Flatten", writer.node("GlobalAveragePool", x), axis=1)
    given = helper.make_tensor_value_info("pictures", TensorProto.FLOAT, ["n", 3, side, side])
    found = helper.make_tensor_value_info(x, TensorProto.FLOAT, ["n", net.head.out_channels])
    whole = helper.make_graph(writer.nodes, "efficientnet-lite", [given], [found], writer.weights)
    model = helper.make_model(whole, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=VERSION)
    return bytes(model.SerializeToString())
