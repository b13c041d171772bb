"""Folders of official files → whole sets, one loader a format."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from halfsure.data import formats
from halfsure.data.files import DataError
from halfsure.data.formats import Images, Labels

__all__ = ["Official", "Part", "either", "load_cifar", "load_digits", "load_idx", "load_stl", "load_svhn"]


@dataclass(frozen=True, eq=False)
class Part:
    """Images, uint8 (n, height, width, channels), and their labels, int64 (n,)."""

    images: Images
    labels: Labels

    def __len__(self) -> int:
        return len(self.images)


@dataclass(frozen=True, eq=False)
class Official:
    """A set as it was published."""

    classes: tuple[str, ...]
    train: Part
    test: Part | None
    """None where its files are not there."""
    unlabeled: Images | None = None
    """Images without labels, STL-10 only."""
    folds: list[Labels] | None = None
    """Indices into train, a list a fold, STL-10 only."""


def load_digits(classes: tuple[str, ...]) -> Official:
    """scikit-learn's digits; 36 of each class, chosen by the hash of their index, are the test part."""
    from sklearn.datasets import load_digits  # noqa: PLC0415 - slow to import, and used here alone

    bunch = load_digits()
    images = np.rint(bunch.images * (255 / 16)).astype(np.uint8)[..., None]
    labels = bunch.target.astype(np.int64)
    # A hash, unlike a random generator, is the same in every version of every package.
    order = sorted(range(len(labels)), key=lambda i: hashlib.sha256(f"halfsure digits 0 {i}".encode()).digest())
    ranked = np.array(order)
    test = np.sort(np.concatenate([ranked[labels[ranked] == c][:36] for c in range(len(classes))]))
    train = np.setdiff1d(ranked, test)
    return Official(classes, Part(images[train], labels[train]), Part(images[test], labels[test]))


def load_idx(folder: Path, classes: tuple[str, ...]) -> Official:
    """MNIST and what is published like it."""

    def part(prefix: str) -> Part:
        images, labels = (either(folder, f"{prefix}-{kind}-ubyte.gz") for kind in ("images-idx3", "labels-idx1"))
        return _part(images, formats.read_idx_images(images), formats.read_idx_labels(labels, len(classes)))

    return Official(classes, part("train"), part("t10k") if _any(folder, "t10k-images-idx3-ubyte*") else None)


def load_cifar(folder: Path, classes: tuple[str, ...], train: tuple[str, ...], test: str) -> Official:
    """CIFAR, in batches of either version."""

    def part(*names: str) -> Part:
        batches = [
            formats.read_cifar_bin(folder / name)
            if name.endswith(".bin")
            else formats.read_cifar_pickle(folder / name, len(classes))
            for name in names
        ]
        images, labels = zip(*batches, strict=True)
        return Part(np.concatenate(images), np.concatenate(labels))

    return Official(classes, part(*train), part(test) if _any(folder, test) else None)


def load_svhn(folder: Path, classes: tuple[str, ...], train: tuple[str, ...]) -> Official:
    """SVHN's cropped digits, with all files in `train` as one train part."""
    images, labels = zip(*(formats.read_svhn(folder / name) for name in train), strict=True)
    test = Part(*formats.read_svhn(folder / "test_32x32.mat")) if _any(folder, "test_32x32.mat") else None
    # A single part is not copied: with the extra images that would be 1.8 GB twice.
    joined = (images[0], labels[0]) if len(train) == 1 else (np.concatenate(images), np.concatenate(labels))
    return Official(classes, Part(*joined), test)


def load_stl(folder: Path, classes: tuple[str, ...]) -> Official:
    """STL-10 with its unlabeled images and folds."""

    def part(prefix: str) -> Part:
        images = folder / f"{prefix}_X.bin"
        return _part(images, formats.read_stl_images(images), formats.read_stl_labels(folder / f"{prefix}_y.bin"))

    train = part("train")
    folds = folder / "fold_indices.txt"
    return Official(
        classes,
        train,
        part("test") if _any(folder, "test_*.bin") else None,
        formats.read_stl_images(folder / "unlabeled_X.bin") if _any(folder, "unlabeled_X.bin") else None,
        formats.read_stl_folds(folds, len(train)) if folds.is_file() else None,
    )


def _part(path: Path, images: Images, labels: Labels) -> Part:
    if len(images) != len(labels):
        raise DataError(f"{path} holds {len(images):,} images, but there are {len(labels):,} labels beside it")
    return Part(images, labels)


def _any(folder: Path, pattern: str) -> bool:
    return any(path.is_file() for path in folder.glob(pattern))


def either(folder: Path, name: str) -> Path:
    """The path of a gzipped file, or of the same file unpacked if only that is there."""
    path = folder / name
    unpacked = folder / name.removesuffix(".gz")
    return unpacked if unpacked.is_file() and not path.is_file() else path
