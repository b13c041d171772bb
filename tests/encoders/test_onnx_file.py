"""ONNX files: pictures and texts by onnxruntime; what leads outside the file or is absurd is refused before it runs."""

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from halfsure.encoders import EncoderError, PictureEncoder, onnx_file, open_encoder, restore
from halfsure.encoders._onnx_guard import safe_graph

onnx: Any = pytest.importorskip("onnx", reason="needs the extra halfsure[onnx]")
pytest.importorskip("onnxruntime", reason="needs the extra halfsure[onnx]")
helper, FLOAT, INT = onnx.helper, onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
WEIGHTS = np.random.default_rng(0).normal(size=(5, 3, 1, 1)).astype(np.float32)


def model(nodes: list[Any], inputs: list[Any], *weights: Any, **more: Any) -> Any:
    outputs = [helper.make_tensor_value_info(nodes[-1].output[0], FLOAT, None)]
    graph = helper.make_graph(nodes, "net", inputs, outputs, list(weights), **more)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


def seeing(shape: Any = ("n", 3, "h", "w")) -> Any:
    given = helper.make_tensor_value_info("x", FLOAT, shape)
    return model([helper.make_node("Conv", ["x", "w"], ["y"])], [given], onnx.numpy_helper.from_array(WEIGHTS, "w"))


def reading(pieces: int = 40_000) -> Any:
    """Embeds each piece; no pooling."""
    table = np.random.default_rng(1).normal(size=(pieces, 4)).astype(np.float32)
    inputs = [helper.make_tensor_value_info(name, INT, ["n", "t"]) for name in ("input_ids", "attention_mask")]
    return model(
        [helper.make_node("Gather", ["table", "input_ids"], ["y"])],
        inputs,
        onnx.numpy_helper.from_array(table, "table"),
    )


def saved(net: Any, file: Path) -> str:
    file.write_bytes(net.SerializeToString())
    return f"onnx:{file}"


@pytest.mark.parametrize("shape", [("n", 3, "h", "w"), ("n", 3, 16, 16), (1, 3, 16, 16), (None, 3, None, None)])
def test_pictures_are_what_torch_makes_of_them(tmp_path: Path, shape: Any) -> None:
    encoder = open_encoder(saved(seeing(shape), tmp_path / "net.onnx"), encoder_side=16)
    x = torch.randn(4, 3, 16, 16)
    wanted = torch.nn.functional.conv2d(x, torch.from_numpy(WEIGHTS)).mean((2, 3))
    np.testing.assert_allclose(encoder.encode(x), wanted, atol=1e-5)
    assert encoder.dimension == 5
    fields = encoder.as_json()
    assert str(tmp_path) not in str(fields)
    again = restore(fields, tmp_path / "net.onnx")
    assert isinstance(again, PictureEncoder)
    assert again.side == 16


def test_texts_are_the_mean_over_their_pieces(minilm_files: Path, tmp_path: Path) -> None:
    shutil.copy(minilm_files / "tokenizer.json", tmp_path)
    net = reading()
    encoder = open_encoder(saved(net, tmp_path / "net.onnx"))
    assert (encoder.kind, encoder.dimension) == ("text", 4)
    tokenizers: Any = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    tokenizer.no_padding()
    table = onnx.numpy_helper.to_array(net.graph.initializer[0])
    for text in ("some words", "one", ""):
        mean = table[tokenizer.encode(text).ids].mean(0)
        found = encoder.encode(["other, longer text of words", text])[1]
        np.testing.assert_allclose(found, mean / np.linalg.norm(mean), atol=1e-5)


def test_texts_need_their_tokenizer_beside(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    name = saved(reading(), tmp_path / "net.onnx")
    with pytest.raises(EncoderError, match=r"no tokenizer\.json beside"):
        open_encoder(name)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(EncoderError, match=r"tokenizer\.json beside the ONNX file cannot be read"):
        open_encoder(name)


def outside(name: str = "w", dims: Any = (5, 3, 1, 1)) -> Any:
    tensor = onnx.TensorProto(name=name, data_type=FLOAT, dims=list(dims))
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../../etc/passwd")
    return tensor


def in_initializer() -> Any:
    net = seeing()
    net.graph.initializer[0].CopyFrom(outside())
    return net


def in_sparse() -> Any:
    net = seeing()
    sparse = net.graph.sparse_initializer.add(dims=[5])
    sparse.values.CopyFrom(outside("s", [1]))
    return net


def in_attribute() -> Any:
    net = seeing()
    net.graph.node.append(helper.make_node("Constant", [], ["c"], value=outside("c", [1])))
    return net


def in_subgraph() -> Any:
    net = seeing()
    inner = helper.make_graph([], "inner", [], [], [outside("v", [1])])
    net.graph.node.append(helper.make_node("If", ["x"], ["z"], then_branch=inner, else_branch=inner))
    return net


def in_function() -> Any:
    net = seeing()
    node = helper.make_node("Constant", [], ["c"], value=outside("c", [1]))
    net.functions.add(name="f", domain="d").node.append(node)
    return net


PLACES = (in_initializer, in_sparse, in_attribute, in_subgraph, in_function)


@pytest.mark.parametrize("place", PLACES)
def test_data_outside_the_file_is_refused_before_it_is_run(
    tmp_path: Path, place: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_file, "onnx_session", lambda *_: pytest.fail("it was opened"))
    with pytest.raises(EncoderError, match="keeps weights in other files"):
        open_encoder(saved(place(), tmp_path / "net.onnx"))


def promises() -> Any:
    net = seeing()
    net.graph.initializer[0].dims[:] = [2**40, 2**20]
    return net


def negative() -> Any:
    net = seeing()
    net.graph.initializer[0].dims[0] = -1
    return net


def swells() -> Any:
    """A hundred terabytes of zeros, out of 16 bytes."""
    sizes = onnx.numpy_helper.from_array(np.array([2**23, 2**22], np.int64), "sizes")
    given = helper.make_tensor_value_info("x", FLOAT, ["n", 3, "h", "w"])
    nodes = [helper.make_node("ConstantOfShape", ["sizes"], ["zeros"]), helper.make_node("Add", ["x", "zeros"], ["y"])]
    return model(nodes, [given], sizes)


def unknown_operator() -> Any:
    given = helper.make_tensor_value_info("x", FLOAT, ["n", 3, "h", "w"])
    return model([helper.make_node("Run", ["x"], ["y"], domain="evil")], [given])


def rows() -> Any:
    given = helper.make_tensor_value_info("x", FLOAT, ["n", 7])
    return model([helper.make_node("Relu", ["x"], ["y"])], [given])


def five_colours() -> Any:
    return seeing(("n", 5, "h", "w"))


@pytest.mark.parametrize("net", [promises, negative, swells, unknown_operator, rows, five_colours, onnx.ModelProto])
def test_hostile_networks_end_in_a_sentence(tmp_path: Path, net: Callable[[], Any]) -> None:
    with pytest.raises(EncoderError, match=r"net\.onnx"):
        open_encoder(saved(net(), tmp_path / "net.onnx"), encoder_side=16)


WHOLE = seeing().SerializeToString()


@given(st.integers(0, len(WHOLE)), st.binary(max_size=8))
def test_damaged_bytes_end_in_a_sentence_or_in_a_network(tmp_path_factory: Any, place: int, change: bytes) -> None:
    file = tmp_path_factory.mktemp("damaged") / "net.onnx"
    file.write_bytes(WHOLE[:place] + change + WHOLE[place + len(change) :])
    with suppress(EncoderError):
        assert safe_graph(file) == file.read_bytes()


@pytest.mark.parametrize("name", ["onnx:nowhere.onnx", "onnx:" + "x" * 500, "onnx:a\0b"])
def test_a_file_that_is_not_there(name: str) -> None:
    with pytest.raises(EncoderError, match="there is no file"):
        open_encoder(name)


def test_a_size_that_the_file_does_not_take(tmp_path: Path) -> None:
    name = saved(seeing(("n", 3, 16, 16)), tmp_path / "net.onnx")
    with pytest.raises(EncoderError, match="takes pictures of 16 pixels, not of 32"):
        open_encoder(name, encoder_side=32)
