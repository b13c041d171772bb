"""Small files that ask for much memory or time, each given to its reader under a limit on memory.

`python -m tests.hostile.bombs FOLDER` writes them there and prints a line of JSON for each: what its reader said,
and how long that took.
"""

import io
import json
import pickle
import resource
import struct
import sys
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

from halfsure.data import DataError, Split, formats, load
from halfsure.data._sources import File
from halfsure.data.fetch import unpack
from halfsure.data.npy import read_fields

MEMORY = 3 * 2**29
"""Bytes beyond what the process has when it starts: 1.5 GiB."""
MIB = 2**20
GIB = 2**30


def npy_header(dtype: str, shape: tuple[int, ...]) -> bytes:
    """The head of an `.npy` file that claims an array."""
    text = f"{{'descr': {dtype!r}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def deflated(head: bytes, zeros: int, *, wrapper: int = -15) -> bytes:
    """A deflate stream of some bytes and gigabytes of zeros, made without compressing them all."""
    packer = zlib.compressobj(9, zlib.DEFLATED, wrapper)
    first = packer.compress(head) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(bytes(16 * MIB)) + packer.flush(zlib.Z_FULL_FLUSH)
    again = packer.compress(bytes(16 * MIB)) + packer.flush(zlib.Z_FULL_FLUSH)
    if block != again:
        raise RuntimeError("a flushed block is not like the next")
    return first + block * (zeros // (16 * MIB)) + packer.flush()


def zip_of(path: Path, head: bytes, zeros: int, method: int = zipfile.ZIP_DEFLATED) -> Path:
    """An archive whose one member, X.npy, is some bytes and gigabytes of zeros."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("X.npy", deflated(head, zeros))
        (member,) = archive.infolist()
        member.file_size = len(head) + zeros
        member.compress_type = method
        member.CRC = zlib.crc32(head)
    data = path.read_bytes()  # the local header too says how it is packed
    path.write_bytes(data[:8] + struct.pack("<H", method) + data[10:])
    return path


def sparse(path: Path, size: int, head: bytes = b"") -> Path:
    """A file of zeros that takes no room on the disk."""
    with path.open("wb") as file:
        file.write(head)
        file.truncate(size)
    return path


def put(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def npz_bomb(folder: Path) -> Any:
    head = npy_header("<f4", (5 * GIB // 16, 4))
    return read_fields(zip_of(folder / "x.npz", head, 5 * GIB), needed=["X"])


def npz_claim(folder: Path) -> Any:
    return read_fields(zip_of(folder / "x.npz", npy_header("<f4", (10**12, 4)), 0), needed=["X"])


def npz_other_packing(folder: Path) -> Any:
    with zipfile.ZipFile(folder / "x.npz", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("X.npy", npy_header("<f4", (2, 2)) + bytes(16))
    return read_fields(folder / "x.npz", needed=["X"])


def npz_crowd(folder: Path) -> Any:
    with zipfile.ZipFile(folder / "x.npz", "w") as archive:
        for i in range(2000):
            archive.writestr(f"{i}.npy", npy_header("|u1", (1,)) + b"1")
    return read_fields(folder / "x.npz")


def arrays_of(folder: Path, labels: bytes) -> Any:
    put(folder / "X.npy", npy_header("<f4", (2, 2)) + bytes(16))
    put(folder / "y.npy", labels)
    return load(folder)


def mat_of(*variables: bytes) -> bytes:
    packed = [struct.pack("<II", 15, len(v)) + v for v in variables]
    return b"MATLAB 5.0 MAT-file".ljust(124) + b"\0\1IM" + b"".join(packed)


def mat_variable(size: int) -> bytes:
    """A packed variable named X of 32 × 32 × 3 × n zeros."""
    images = size // 3072
    head = struct.pack("<IIII", 6, 8, 9, 0) + struct.pack("<II4i", 5, 16, 32, 32, 3, images)
    head += struct.pack("<HH4s", 1, 1, b"X") + struct.pack("<II", 2, images * 3072)
    total = len(head) + size
    whole = struct.pack("<II", 14, total) + head
    low, high = zlib.adler32(whole) & 0xFFFF, zlib.adler32(whole) >> 16  # of a zero only the high part takes notice
    return deflated(whole, size, wrapper=15)[:-4] + struct.pack(">HH", (high + size * low) % 65_521, low)


def repeated_text() -> bytes:
    """A pickle that asks for a hundred thousand copies of a text of a megabyte."""
    text = b"X" + struct.pack("<I", MIB) + b"a" * MIB + b"q\x00"
    latin = b"X\x06\x00\x00\x00latin1q\x01"
    copy = b"c_codecs\nencode\nh\x00h\x01\x86R"
    return b"\x80\x02" + text + latin + b"](" + copy * 100_000 + b"e."


def batch_of(value: bytes, key: bytes = b"\x8c\x06labels", before: bytes = b"") -> bytes:
    """A pickle of a dictionary with one value, both given as opcodes."""
    return b"\x80\x04" + before + b"}" + key + value + b"s."


LONG = b"X" + struct.pack("<I", 4 * MIB) + b"a" * 4 * MIB
MANY = b"](" + b"\x8c\x01|" * 500_000 + b"eq\x00"
DTYPE = b"cnumpy\ndtype\n\x8c\x02u1K\x00K\x01\x87R(K\x03\x8c\x01|tb"
RECONSTRUCT = b"cnumpy.core.multiarray\n_reconstruct\n"
ENCODE = b"c_codecs\nencode\n"
PAIRS = b")" + b"q\x00h\x00\x86" * 100
"""A pair of a pair of … a hundred times, each of the same twice: who walks through it, or prints it, never ends."""


def array_of(shape: bytes) -> bytes:
    return RECONSTRUCT + b")R(K\x01" + shape + DTYPE + b"\x89C\x03abctb"


PICKLES: dict[str, tuple[bytes, str]] = {
    "with a memo of 2^32 places": (batch_of(b"Nr\xff\xff\xff\xff"), "lacks"),
    "with a memo of 2^28 places": (batch_of(b"Nr\x00\x00\x00\x10"), "lacks"),
    "with bytes of 2^62": (batch_of(b"\x8e" + struct.pack("<Q", 2**62)), "truncated"),
    "with bytes of 2^31": (batch_of(b"B" + struct.pack("<I", 2**31)), "truncated"),
    "with text of 2^62": (batch_of(b"\x8d" + struct.pack("<Q", 2**62)), "truncated"),
    "with a byte array of 2^31": (batch_of(b"\x96" + struct.pack("<Q", 2**31)), "refused.*BYTEARRAY8"),
    "with a number of 2^31 bytes": (batch_of(b"\x8b" + struct.pack("<i", 2**31 - 1)), "refused.*LONG4"),
    "with a frame of 2^62": (batch_of(b"N", before=b"\x95" + struct.pack("<Q", 2**62)), "lacks"),
    "with an array of 10^18": (batch_of(array_of(b"J\x00\xca\x9a\x3b" * 2 + b"\x86")), "does not take 3 bytes"),
    "with pairs as labels": (batch_of(PAIRS), "lacks"),
    "with pairs as a key": (batch_of(b"N", key=PAIRS), "short texts"),
    "with pairs as a function": (batch_of(PAIRS + b")R"), "refused.*calls tuple"),
    "with pairs as a type": (batch_of(b"cnumpy\ndtype\n" + PAIRS + b"NN\x87R"), "refused.*calls numpy.dtype"),
    "with pairs as a text": (batch_of(ENCODE + PAIRS + b"\x8c\x06latin1\x86R"), "refused.*calls _codecs.encode"),
    "with pairs as a coding": (batch_of(ENCODE + b"\x8c\x01a" + PAIRS + b"\x86R"), "refused.*calls _codecs.encode"),
    "with pairs as bytes": (batch_of(b"cbuiltins\nbytes\n" + PAIRS + b"R"), "refused.*calls builtins.bytes"),
    "with pairs as an array": (batch_of(RECONSTRUCT + b")R" + PAIRS + b"b"), "refused.*sets the state"),
    "with pairs as a shape": (batch_of(array_of(PAIRS)), "the shape of an array"),
    "with pairs as an order": (batch_of(DTYPE.replace(b"\x8c\x01|", PAIRS)), "refused.*sets the state"),
    "that compares long keys often": (
        batch_of(b"N", key=b"h\x00", before=LONG + b"q\x00" + LONG + b"q\x01")[:-1] + b"h\x01Ns" * 300_000 + b".",
        "short texts",
    ),
    "that calls with much often": (
        batch_of(b"](" + b"h\x01h\x00R" * 300_000 + b"e", before=MANY + RECONSTRUCT + b"q\x01"),
        "lacks",
    ),
    "that builds from much often": (batch_of(DTYPE + b"h\x00b" * 300_000, before=MANY), "lacks"),
    "that asks for a long name": (batch_of(b"h\x00h\x00\x93", before=LONG + b"q\x00"), "refused.*asks for"),
    "that calls a long text": (batch_of(LONG + b")R"), "refused.*calls"),
}


def picture(folder: Path, data: bytes, name: str = "a.png") -> Any:
    for label in "ab":
        (folder / label).mkdir()
        Image.new("L", (4, 4)).save(folder / label / "good.png")
    put(folder / "a" / name, data)
    return load(folder)


def png(width: int, height: int, rows: int) -> bytes:
    """A colour picture with transparency that claims a size, and has so many rows of it."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    pixels = zlib.compress(bytes(rows * (1 + 4 * width)), 1)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def run_length_bmp() -> bytes:
    """Ten thousand lines of ten thousand pixels, each an end of line: two bytes for a loop of ten thousand rounds."""
    palette, lines = bytes(1024), b"\x00\x00" * 10_000
    offset = 14 + 40 + len(palette)
    head = b"BM" + struct.pack("<IHHI", offset + len(lines), 0, 0, offset)
    return head + struct.pack("<IiiHHIIiiII", 40, 10_000, 10_000, 1, 8, 1, 0, 0, 0, 256, 0) + palette + lines


def frames() -> bytes:
    file = io.BytesIO()
    pages = [Image.new("L", (8, 8), i % 256) for i in range(3000)]
    pages[0].save(file, "GIF", save_all=True, append_images=pages[1:])
    return file.getvalue()


def compressed_text() -> bytes:
    """A PNG with a note that unpacks to a gigabyte."""
    small = png(4, 4, 4)
    note = b"Comment\x00\x00" + deflated(b"", GIB, wrapper=15)
    chunk = struct.pack(">I", len(note)) + b"zTXt" + note + struct.pack(">I", zlib.crc32(b"zTXt" + note))
    return small[:33] + chunk + small[33:]


def table(folder: Path, data: bytes) -> Any:
    return load(put(folder / "t.csv", data), label_column="y")


def long_text_a_hundred_thousand_times(folder: Path) -> Any:
    texts = pd.Categorical.from_codes(np.zeros(100_000, np.int8), ["a" * MIB])
    frame = pd.DataFrame({"text": texts, "y": ["a", "b"] * 50_000})
    frame["text"] = frame["text"].cat.rename_categories(["b" * MIB])
    frame.to_parquet(folder / "t.parquet")
    return load(folder / "t.parquet", label_column="y")


def sheet(folder: Path, rows: bytes) -> Any:
    """An Excel file with these rows, and a long text that cells can name by its number, 0."""
    pd.DataFrame({"x": [1], "y": ["b"]}).to_excel(folder / "t.xlsx", index=False)
    with zipfile.ZipFile(folder / "t.xlsx") as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    space = b"http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    parts["xl/sharedStrings.xml"] = b'<sst xmlns="%s"><si><t>%s</t></si></sst>' % (space, b"a" * 30_000)
    kind = b"application/vnd.openxmlformats-officedocument.spreadsheetml.sharedStrings+xml"
    named = b'<Override PartName="/xl/sharedStrings.xml" ContentType="%s"/></Types>' % kind
    parts["[Content_Types].xml"] = parts["[Content_Types].xml"].replace(b"</Types>", named)
    with zipfile.ZipFile(folder / "t.xlsx", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(name, data.replace(b"</sheetData>", rows + b"</sheetData>"))
    return load(folder / "t.xlsx", label_column="y")


def listing(folder: Path, data: bytes) -> Any:
    Image.new("L", (4, 4)).save(folder / "0.png")
    put(folder / "labels.csv", data)
    return load(folder)


def packed_note(folder: Path) -> Any:
    """An archive with a note of two gigabytes before its first file."""
    note = tarfile.TarInfo("note")
    note.type, note.size = tarfile.XHDTYPE, 2 * GIB
    put(folder / "x.tar.gz", deflated(note.tobuf(tarfile.PAX_FORMAT), 2 * GIB, wrapper=31))
    return unpack(folder / "x.tar.gz", {"a"}, folder)


def unpacked_md5(folder: Path) -> Any:
    put(folder / "x.gz", deflated(b"", 8 * GIB, wrapper=31))
    raise DataError(File("x.gz", "0" * 32, raw_md5="0" * 32).status(folder))


def many_classes(folder: Path) -> Any:
    np.savez(folder / "x.npz", X=np.zeros((200_000, 1), np.float32), y=np.arange(200_000) + 5)
    return load(folder / "x.npz")


CODE = pickle.dumps([1] * 3_000_000)
ATTACKS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "npz that unpacks to 5 GiB": (npz_bomb, r"unpacks to 5,368,709,\d\d\d bytes"),
    "npz that claims 10^12 rows": (npz_claim, "claims float32"),
    "npz packed by lzma": (npz_other_packing, "NumPy does not use"),
    "npz of 2,000 arrays": (npz_crowd, "2,000 files"),
    "npy of 10^12 texts without letters": (
        lambda f: arrays_of(f, npy_header("<U0", (10**12,)) + b"abcd"),
        "holds nothing",
    ),
    "npy of 10^12 rows without columns": (
        lambda f: arrays_of(f, npy_header("<f4", (10**12, 0)) + b"abcd"),
        "holds nothing",
    ),
    "npy that claims 10^12 rows": (lambda f: arrays_of(f, npy_header("<i8", (10**12,)) + b"abcdefgh"), "truncated"),
    "idx that claims 10^12 bytes": (
        lambda f: formats.read_idx_images(put(f / "x", b"\0\0\x08\3" + struct.pack(">3I", 10**6, 1000, 1000))),
        "claims to hold",
    ),
    "idx.gz that unpacks to 2 GiB": (
        lambda f: formats.read_idx_images(
            put(f / "x", deflated(b"\0\0\x08\3" + struct.pack(">3I", 2 * 1024, 1024, 1024), 2 * GIB, wrapper=31))
        ),
        "claims to hold",
    ),
    "STL file of 10^12 bytes": (lambda f: formats.read_stl_images(sparse(f / "x", 27648 * 4 * 10**7)), "too large"),
    "CIFAR file of 10^12 bytes": (lambda f: formats.read_cifar_bin(sparse(f / "x", 3073 * 4 * 10**8)), "too large"),
    "CIFAR pickle of 10^12 bytes": (lambda f: formats.read_cifar_pickle(sparse(f / "x", 10**12)), "too large"),
    "CIFAR pickle that copies a text": (lambda f: formats.read_cifar_pickle(put(f / "x", repeated_text())), "refused"),
    "CIFAR pickle of many opcodes": (lambda f: formats.read_cifar_pickle(put(f / "x", CODE)), "no end within"),
    **{
        f"CIFAR pickle {name}": (lambda f, data=data: formats.read_cifar_pickle(put(f / "x", data)), words)  # type: ignore[misc]
        for name, (data, words) in PICKLES.items()
    },
    "mat of a variable of 3 GiB": (lambda f: formats.read_svhn(put(f / "x", mat_of(mat_variable(3 * GIB)))), "claims"),
    "mat of many variables": (
        lambda f: formats.read_svhn(put(f / "x", mat_of(*[mat_variable(3 * 2**28)] * 3))),
        "claims|asks for more memory",
    ),
    "mat of 10^12 bytes": (
        lambda f: formats.read_svhn(sparse(f / "x", 10**12, mat_of() + struct.pack("<II", 14, 2**32 - 8))),
        "unpacks to more|memory",
    ),
    "PNG of 10^9 pixels": (lambda f: picture(f, png(31_623, 31_623, 1)), "exceeds limit|claims"),
    "PNG of one long line": (lambda f: picture(f, png(80_000_000, 1, 0)), "claims 80000000"),
    "PNG with a note of a gigabyte": (lambda f: picture(f, compressed_text()), "too large"),
    "BMP of 10,000 ends of line": (lambda f: picture(f, run_length_bmp(), "a.bmp"), "claims 10000"),
    "CSV of one line of 10^9 zeros": (lambda f: load(sparse(f / "t.csv", 10**9, b"x,y\n"), label_column="y"), "NUL"),
    "CSV of one long line": (lambda f: table(f, b"x,y\n" + b"1" * 40 * MIB), "has a line of over"),
    "CSV of 10^6 columns": (lambda f: table(f, b"y," * 10**6 + b"x\n" + b"1\n" * 9), "1,000,001 columns"),
    "CSV of many columns and short rows": (
        lambda f: table(f, b",".join(b"%d" % i for i in range(9_000)) + b",y\n" + b"1\n" * 10**5),
        "100,002 rows of 9,001 columns",
    ),
    "Parquet of one text many times": (long_text_a_hundred_thousand_times, "unpacks to more"),
    "Excel file of many tags": (lambda f: sheet(f, b"<a/>" * 2**23), "more than 8,388,608 tags"),
    "Excel file of one text many times": (
        lambda f: sheet(f, b'<row><c t="s"><v>0</v></c><c t="s"><v>0</v></c></row>' * 300_000),
        "more than 134,217,728 letters",
    ),
    "Excel file of wide rows": (
        lambda f: sheet(f, b"".join(b'<row r="%d"><c r="ZZZ%d"/></row>' % (i, i) for i in range(3, 10**6))),
        "rows and is too large",
    ),
    "Excel file of one row far down": (
        lambda f: sheet(f, b'<row r="99999999999"><c><v>1</v></c></row>'),
        "1,048,576 rows",
    ),
    "list of pictures of 10^6 columns": (
        lambda f: listing(f, b"path,label" + b",a" * 400_000 + b"\n" + b"0.png\n" * 10**5),
        "names a column twice",
    ),
    "list of pictures with short rows": (
        lambda f: listing(f, b"path,label," + b",".join(b"%d" % i for i in range(10**5)) + b"\n" + b"0.png\n" * 10**5),
        "was named in row",
    ),
    "list of pictures of one line": (
        lambda f: load(sparse(listing_file(f), 10**10, b"path,label\n").parent),
        "NUL",
    ),
    "split file of 10^10 bytes": (lambda f: Split.load(sparse(f / "s.json", 10**10)), "over"),
    "split file 10^5 deep": (lambda f: Split.load(put(f / "s.json", b"[" * 10**5)), "not valid JSON"),
    "archive with a note of 2 GiB": (packed_note, "a note of"),
    "gz that unpacks to 8 GiB, by its MD5": (unpacked_md5, "differs"),
    "200,000 classes": (many_classes, "200,000 classes"),
}
TAKEN: dict[str, Callable[[Path], Any]] = {
    "PNG of 80 million pixels": lambda f: picture(f, png(8_000, 10_000, 10_000)),
    "GIF of 3,000 frames": lambda f: picture(f, frames(), "a.gif"),
}
"""What is large, or could be, and is read within the limit."""


def listing_file(folder: Path) -> Path:
    Image.new("L", (4, 4)).save(folder / "0.png")
    return folder / "labels.csv"


def attempt(read: Callable[[Path], Any], folder: Path) -> dict[str, Any]:
    """What a reader says, and the seconds of work it takes to: on a busy machine the clock says more."""
    folder.mkdir()
    began = time.process_time()
    try:
        read(folder)
    except DataError as error:
        said = f"DataError: {error}"
    except BaseException as error:
        said = f"{type(error).__name__}: {error}"
    else:
        said = "read"
    return {"said": said[:2000], "seconds": time.process_time() - began}


def main(folder: Path) -> None:
    """Try them all."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    readers = TAKEN | {name: read for name, (read, _) in ATTACKS.items()}
    for place, (name, read) in enumerate(readers.items()):
        print(json.dumps({"name": name} | attempt(read, folder / str(place))), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
