"""Small files in the official formats, written byte by byte by another hand than the readers'."""

import gzip
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
from numpy.typing import NDArray

Array = NDArray[Any]
SHARED = Path(__file__).parents[2].parent / "shared" / "data"


def random_images(*shape: int, seed: int = 0) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def random_labels(n: int, classes: int = 10, seed: int = 1) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(0, classes, n)


def idx_bytes(values: Array) -> bytes:
    header = bytes([0, 0, 8, values.ndim]) + b"".join(struct.pack(">I", n) for n in values.shape)
    return header + bytes(values.ravel().tolist())


def planes(image: Array, *, columns_first: bool) -> bytes:
    """One plane after the other, pixel by pixel."""
    height, width, channels = image.shape
    out = bytearray()
    for c in range(channels):
        if columns_first:
            out += bytes(int(image[y, x, c]) for x in range(width) for y in range(height))
        else:
            out += bytes(int(image[y, x, c]) for y in range(height) for x in range(width))
    return bytes(out)


def cifar_bin_bytes(images: Array, labels: Array) -> bytes:
    return b"".join(
        bytes([int(label)]) + planes(image, columns_first=False) for image, label in zip(images, labels, strict=True)
    )


def cifar_pickle_bytes(images: Array, labels: Array, key: str = "labels", protocol: int = 2) -> bytes:
    rows = [list(planes(image, columns_first=False)) for image in images]
    batch = {
        "batch_label": "training batch 1 of 5",
        key: [int(v) for v in labels],
        "data": np.array(rows, dtype=np.uint8).reshape(-1, 3072),
        "filenames": [f"{i}.png" for i in range(len(labels))],
    }
    return pickle.dumps(batch, protocol=protocol)


def write_svhn(path: Path, images: Array, labels: Array, *, compress: bool = True) -> None:
    digits = np.array([[10 if v == 0 else v] for v in labels], dtype=np.uint8)
    scipy.io.savemat(path, {"X": np.moveaxis(images, 0, 3), "y": digits}, do_compression=compress)


def stl_images_bytes(images: Array) -> bytes:
    return b"".join(planes(image, columns_first=True) for image in images)


def stl_labels_bytes(labels: Array) -> bytes:
    return bytes(int(v) + 1 for v in labels)


def folds_text(folds: list[list[int]]) -> str:
    return "".join(" ".join(map(str, fold)) + " \n" for fold in folds)


def write_idx_set(folder: Path, train: int = 12, test: int = 5, *, packed: bool = True) -> dict[str, Array]:
    """MNIST's four files with random content; returns what they hold, by name."""
    folder.mkdir(parents=True, exist_ok=True)
    content: dict[str, Array] = {}
    for seed, (prefix, n) in enumerate((("train", train), ("t10k", test))):
        content[f"{prefix}-images-idx3-ubyte"] = random_images(n, 28, 28, seed=seed)
        content[f"{prefix}-labels-idx1-ubyte"] = random_labels(n, seed=seed)
    for name, values in content.items():
        data = idx_bytes(values)
        (folder / (name + ".gz" if packed else name)).write_bytes(gzip.compress(data, mtime=0) if packed else data)
    return content
