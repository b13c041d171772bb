"""Official formats: idx, CIFAR pickles and binaries, MATLAB files, STL-10's, and the archives they come in."""

import gzip
import io
import pickle
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from halfsure.data import DataError, formats
from halfsure.data.fetch import unpack
from tests.data.writers import cifar_pickle_bytes, idx_bytes, random_images, random_labels
from tests.fuzz.strategies import mutated
from tests.fuzz.target import Target

IMAGES, LABELS = random_images(2, 3, 5), random_labels(4)
COLOUR = random_images(1, 32, 32, 3)
SIZES = st.sampled_from([0, 1, 2, 3, 5, 2**16, 2**31 - 1, 2**31, 2**32 - 1])


def given_to(reader: Callable[[Path], object]) -> Callable[[bytes, Path], object]:
    """A reader of a path as one of bytes."""

    def read(data: bytes, folder: Path) -> object:
        path = folder / "file"
        path.write_bytes(data)
        return reader(path)

    return read


def claimed_idx() -> SearchStrategy[bytes]:
    """Idx files whose head claims any size."""
    sizes = st.lists(SIZES, min_size=1, max_size=4)
    head = st.builds(lambda n: bytes([0, 0, 8, len(n)]) + struct.pack(f">{len(n)}I", *n), sizes)
    return st.builds(lambda h, body: h + body, head, st.binary(max_size=40))


def mat_bytes(compress: bool) -> bytes:
    file = io.BytesIO()
    labels = np.array([[10]], np.uint8)
    scipy.io.savemat(file, {"X": np.moveaxis(COLOUR, 0, 3), "y": labels, "z": 1j}, do_compression=compress)
    return file.getvalue()


def elements() -> SearchStrategy[bytes]:
    """MATLAB files put together from elements of any type and length, nested or not."""
    kinds = st.integers(0, 20) | st.sampled_from([2**16 + 5, 2**32 - 1])

    def element(kind: int, body: bytes, length: int | None) -> bytes:
        return struct.pack("<II", kind, len(body) if length is None else length) + body + b"\0" * (-len(body) % 8)

    lengths = st.none() | SIZES
    leaves = st.builds(element, kinds, st.binary(max_size=24), lengths)
    nested = st.recursive(
        leaves,
        lambda inner: st.builds(element, kinds, st.lists(inner, max_size=5).map(b"".join), lengths),
        max_leaves=8,
    )
    return st.lists(nested, max_size=3).map(lambda parts: mat_bytes(False)[:128] + b"".join(parts))


def programs() -> SearchStrategy[bytes]:
    """Pickles put together from opcodes, most of them the ones that are understood."""
    numbers = st.integers(0, 255).map(lambda n: bytes([n]))
    text = st.sampled_from([b"latin1", b"u1", b"numpy", b"dtype", b"labels", b"data", b"\xff"])
    pieces = st.one_of(
        st.sampled_from([bytes([code]) for code in b"(.)]}Nuasetb012lo\x81\x85\x86\x87\x88\x89\x93\x94R"]),
        st.builds(lambda op, n: op + n, st.sampled_from([b"q", b"h", b"K", b"\x80", b"\x82"]), numbers),
        st.builds(lambda op, t: op + bytes([len(t)]) + t, st.sampled_from([b"U", b"C", b"\x8c", b"\x8a"]), text),
        st.builds(lambda op, n: op + struct.pack("<I", n), st.sampled_from([b"X", b"r", b"j", b"B", b"J"]), SIZES),
        st.sampled_from(
            [b"cnumpy\ndtype\n", b"cnumpy.core.multiarray\n_reconstruct\n", b"c_codecs\nencode\n", b"cos\nsystem\n"]
        ),
    )
    return st.lists(pieces, max_size=40).map(lambda parts: b"\x80\x02" + b"".join(parts) + b".")


def read_archive(data: bytes, folder: Path) -> None:
    """An archive is packed after it was edited: else its checksum would be all that is tried."""
    (folder / "x.tar.gz").write_bytes(gzip.compress(data, 1))
    (folder / "into").mkdir()
    unpack(folder / "x.tar.gz", {"a", "b"}, folder / "into")


def tar_bytes(kind: int) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=kind) as tar:
        for name in ("p/a", "p/" + "long" * 30, "b"):
            member = tarfile.TarInfo(name)
            member.size = 20
            tar.addfile(member, io.BytesIO(bytes(20)))
    return file.getvalue()


IDX = mutated(idx_bytes(IMAGES), gzip.compress(idx_bytes(IMAGES), mtime=0))
BATCHES = [cifar_pickle_bytes(COLOUR, LABELS[:1], protocol=protocol) for protocol in (2, 4)]
SMALL = [pickle.dumps({"labels": [1, 2], b"data": np.arange(6, dtype=np.uint8)}, protocol=p) for p in (0, 2, 4, 5)]
TARS = [tar_bytes(kind) for kind in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)]
Reader = tuple[str, SearchStrategy[Any], Callable[[Any, Path], object]]
READERS: list[Reader] = [
    ("idx images", IDX | claimed_idx(), given_to(formats.read_idx_images)),
    ("idx labels", mutated(idx_bytes(LABELS)) | claimed_idx(), given_to(formats.read_idx_labels)),
    ("CIFAR pickle", mutated(*BATCHES, *SMALL) | programs(), given_to(formats.read_cifar_pickle)),
    ("CIFAR binary", mutated(bytes(3073)) | st.binary(max_size=50), given_to(formats.read_cifar_bin)),
    ("MATLAB file", mutated(mat_bytes(False), mat_bytes(True)) | elements(), given_to(formats.read_svhn)),
    ("STL images", mutated(bytes(27648)), given_to(formats.read_stl_images)),
    ("STL labels", mutated(b"\1\2\3\n") | st.binary(max_size=20), given_to(formats.read_stl_labels)),
    ("STL folds", mutated(b"0 1 2\n" * 10) | st.binary(max_size=50), given_to(formats.read_stl_folds)),
    ("archive", mutated(*TARS), read_archive),
]
TARGETS = [Target(name, inputs, read, (DataError,)) for name, inputs, read in READERS]
