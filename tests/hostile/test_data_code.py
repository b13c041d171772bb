"""Files that try to run code: no reader of data ever does, shown by a mark that each of them would leave."""

import copyreg
import os
import pickle
import struct
import threading
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
import torch
from PIL import Image

from halfsure.data import DataError, Split, formats, load
from halfsure.data.new import read


class Harm:
    """Writes a mark when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.system, (f"touch '{self.mark}'",)


def array_file(path: Path, value: Any) -> None:
    with path.open("wb") as file:
        np.lib.format.write_array(file, value, allow_pickle=True)


def plain(folder: Path, harm: Harm, name: str) -> Path:
    (folder / name).write_bytes(pickle.dumps(harm))
    return folder / name


def objects(folder: Path, harm: Harm) -> Path:
    array_file(folder / "X.npy", np.zeros((2, 2), np.float32))
    array_file(folder / "y.npy", np.array([harm, harm], dtype=object))
    return folder


def npz(folder: Path, harm: Harm) -> Path:
    np.savez(folder / "x.npz", X=np.zeros((2, 2)), y=np.array([harm, harm], dtype=object))
    return folder / "x.npz"


def bare_pickle_in_npz(folder: Path, harm: Harm) -> Path:
    with zipfile.ZipFile(folder / "x.npz", "w") as archive:
        archive.writestr("X.npy", pickle.dumps(harm))
        archive.writestr("y.npy", pickle.dumps(harm))
    return folder / "x.npz"


def torch_file(folder: Path, harm: Harm) -> Path:
    torch.save({"X": harm, "y": harm}, folder / "x.npz")
    return folder / "x.npz"


def frame_pickle(folder: Path, harm: Harm, name: str) -> Path:
    pd.to_pickle(pd.DataFrame({"x": [harm], "y": [harm]}), folder / name, compression=None)
    return folder / name


def extension_type(folder: Path, harm: Harm) -> Path:
    """What early versions of pyarrow unpickled when they read the schema (CVE-2023-47248)."""
    notes = {b"ARROW:extension:name": b"arrow.py_extension_type", b"ARROW:extension:metadata": pickle.dumps(harm)}
    schema = pa.schema([pa.field("x", pa.int64(), metadata=notes), pa.field("y", pa.string())])
    pq.write_table(pa.table([[1, 2], ["a", "b"]], schema=schema), folder / "t.parquet")
    return folder / "t.parquet"


def pandas_notes(folder: Path, harm: Harm) -> Path:
    """Notes for pandas that name types and an index which are not there, nested and of the wrong kind."""
    note = b'{"index_columns": [{"kind": "range"}, "gone", 3], "columns": [{"name": "x", "numpy_type": "object"}]}'
    table = pa.table({"x": [1, 2], "y": ["a", "b"]}).replace_schema_metadata({b"pandas": note})
    pq.write_table(table, folder / "t.parquet")
    return folder / "t.parquet"


CARRIERS: dict[str, Callable[[Path, Harm], Path]] = {
    "objects in .npy": objects,
    "objects in .npz": npz,
    "pickles in .npz": bare_pickle_in_npz,
    "a torch file as .npz": torch_file,
    **{f"a pickle as {name}": partial(plain, name=name) for name in ("x.npz", "x.npy", "x.csv", "x.tsv", "x.parquet")},
    **{f"a frame as {name}": partial(frame_pickle, name=name) for name in ("x.csv", "x.parquet")},
    "an extension type in Parquet": extension_type,
    "notes for pandas in Parquet": pandas_notes,
}


def everything(path: Path) -> None:
    """Open a source in every way that there is."""
    table = {
        "kind": "table",
        "label": "y",
        "columns": [{"name": "x", "kind": "number", "categories": [], "text": None}],
    }
    ways: list[Callable[[], Any]] = [
        partial(load, path, label_column="y" if path.suffix in (".csv", ".tsv", ".parquet") else None),
        partial(read, path, table, shape=(2,)),
        partial(read, path, None, shape=(2,)),
        partial(read, path, None, shape=(4, 4, 1)),
        partial(Split.load, path),
        partial(formats.read_cifar_pickle, path),
        partial(formats.read_svhn, path),
        partial(formats.read_idx_images, path),
    ]
    for way in ways:
        try:
            way()
        except DataError:
            continue


@pytest.mark.parametrize("carrier", CARRIERS)
def test_no_reader_runs_what_a_file_brings(tmp_path: Path, carrier: str) -> None:
    everything(CARRIERS[carrier](tmp_path, Harm(tmp_path / "mark")))
    assert not (tmp_path / "mark").exists()


def test_the_files_would_do_harm_where_they_are_unpickled(tmp_path: Path) -> None:
    pickle.loads(plain(tmp_path, Harm(tmp_path / "one"), "x.pkl").read_bytes())
    np.load(npz(tmp_path, Harm(tmp_path / "two")), allow_pickle=True)["y"]
    torch.load(torch_file(tmp_path, Harm(tmp_path / "three")), weights_only=False)
    assert {"one", "two", "three"} <= {path.name for path in tmp_path.iterdir()}


@pytest.mark.parametrize("protocol", range(6))
def test_a_hostile_batch_of_cifar(tmp_path: Path, protocol: int) -> None:
    batch = {"data": np.zeros((1, 3072), np.uint8), "labels": [Harm(tmp_path / "mark")]}
    (tmp_path / "data_batch_1").write_bytes(pickle.dumps(batch, protocol=protocol))
    with pytest.raises(DataError, match="refused"):
        formats.read_cifar_pickle(tmp_path / "data_batch_1")
    assert not (tmp_path / "mark").exists()


OPCODES = {
    "GLOBAL REDUCE": b"cos\nsystem\n(V{}\ntR.",
    "INST": b"(V{}\nios\nsystem\n.",
    "OBJ": b"(cos\nsystem\nV{}\no.",
    "STACK_GLOBAL": b"\x80\x04\x8c\x02os\x8c\x06system\x93(V{}\ntR.",
    "NEWOBJ": b"\x80\x02csubprocess\nPopen\n(V{}\nt\x81.",
    "NEWOBJ_EX": b"\x80\x04csubprocess\nPopen\n(V{}\nt}\x92.",
    "BUILD": b"cos\nsystem\n)R(dVx\nV{}\nsb.",
    "EXT": b"\x80\x02\x82\x01(V{}\ntR.",
    "a name with dots": b"\x80\x04\x8c\x08builtins\x8c\x04eval\x93(V{}\ntR.",
    "PERSID": b"P{}\n.",
    "BINPERSID": b"\x80\x02X\x01\x00\x00\x00aQ.",
    "NEXT_BUFFER": b"\x80\x05\x97.",
    "READONLY_BUFFER": b"\x80\x05C\x01a\x98.",
    "BYTEARRAY8": b"\x80\x05\x96\x01\x00\x00\x00\x00\x00\x00\x00a.",
    "FROZENSET": b"\x80\x04(\x91.",
    "a text as a function": b"\x80\x04\x8c\x09os.system(X\x01\x00\x00\x00atR.",
    "an allowed name as a way": b"\x80\x04\x8c\x05numpy\x8c\x10dtype.__reduce__\x93(V{}\ntR.",
}


@pytest.mark.parametrize("name", OPCODES)
def test_every_opcode_that_looks_up_or_calls(tmp_path: Path, name: str) -> None:
    command = f"touch {tmp_path}/mark".encode()
    (tmp_path / "batch").write_bytes(OPCODES[name].replace(b"{}", command))
    with pytest.raises(DataError, match="refused"):
        formats.read_cifar_pickle(tmp_path / "batch")
    assert not (tmp_path / "mark").exists()


def test_an_extension_that_this_process_knows_is_not_called(tmp_path: Path) -> None:
    program = (
        b"\x80\x02\x82\xf0X" + struct.pack("<I", len(f"touch {tmp_path}/mark")) + f"touch {tmp_path}/mark".encode()
    )
    (tmp_path / "batch").write_bytes(program + b"\x85R.")
    copyreg.add_extension("os", "system", 0xF0)
    try:
        with pytest.raises(DataError, match=r"refused.*EXT1"):
            formats.read_cifar_pickle(tmp_path / "batch")
        assert not (tmp_path / "mark").exists()
        pickle.loads(program + b"\x85R.")
        assert (tmp_path / "mark").exists()
    finally:
        copyreg.remove_extension("os", "system", 0xF0)


@pytest.mark.parametrize(
    "name", ["numpy\ndtype", "numpy\nndarray", "numpy.core.multiarray\n_reconstruct", "_codecs\nencode"]
)
def test_nothing_that_a_batch_names_can_be_changed(tmp_path: Path, name: str) -> None:
    state = b"}X\x0c\x00\x00\x00__defaults__)sX\x05\x00\x00\x00arrayK\x01s"
    for program in (state, b"N" + state + b"\x86"):  # into the dictionary, and by setattr
        (tmp_path / "batch").write_bytes(b"\x80\x02c" + name.encode() + b"\n" + program + b"b.")
        with pytest.raises(DataError, match=r"refused.*sets the state of a str"):
            formats.read_cifar_pickle(tmp_path / "batch")


class Asked(HTTPServer):
    """A server that counts who asks it."""

    times = 0


class Answer(BaseHTTPRequestHandler):
    """Gives a table to whoever asks."""

    def do_GET(self) -> None:
        """Answer."""
        self.server.times += 1  # type: ignore[attr-defined]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"x,y\n1,a\n2,b\n")

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def site() -> Iterator[Asked]:
    server = Asked(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_an_address_is_never_fetched(tmp_path: Path, site: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "real.csv").write_text("x,y\n1,a\n2,b\n")
    host = f"127.0.0.1:{site.server_port}"
    for address in (
        f"http://{host}/t.csv",
        f"http:/{host}/t.parquet",
        "s3://bucket/t.csv",
        f"file:{tmp_path}/real.csv",
    ):
        with pytest.raises(DataError, match="there is no file"):
            load(address, label_column="y")
        with pytest.raises(DataError):
            load("real.csv", label_column="y", test=address)
    assert site.times == 0


def test_a_list_of_pictures_fetches_nothing(tmp_path: Path, site: Asked) -> None:
    Image.new("L", (4, 4)).save(tmp_path / "0.png")
    (tmp_path / "labels.csv").write_text(f"path,label\n0.png,a\nhttp://127.0.0.1:{site.server_port}/t.png,b\n")
    with pytest.raises(DataError, match="there is no such file"):
        load(tmp_path)
    assert site.times == 0
