"""Arrays people already have → Data: NumPy, SciPy sparse, torch tensors and data sets, `.npy` and `.npz` files."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfsure._shown import nameless
from halfsure.data.copies import warn_of_copies_in
from halfsure.data.dataset import UNLABELED, Data, DataError, Labels, Names, Part
from halfsure.data.embeddings import embedding_in
from halfsure.data.files import shown
from halfsure.data.label_values import check_single, one_each, read_label
from halfsure.data.npy import read_fields
from halfsure.data.reader import Reader
from halfsure.settings import register

__all__ = ["as_samples", "encode_labels", "from_arrays", "from_torch_dataset", "label_names", "name_each", "read_npz"]

DENSE_LIMIT = 4 * 2**30
CHUNK = 2**20  # elements looked at together: a mapped array is checked without being loaded whole


def from_arrays(
    samples: Any,
    labels: Any,
    *,
    classes: Sequence[str] | None = None,
    test: tuple[Any, Any] | None = None,
    name: str = "arrays",
    ids: Any = None,
    groups: Any = None,
) -> Data:
    """Samples and labels, of which −1, None, NaN, NA or "" means unlabeled, as text too. (n, …) and (n,) → Data.

    `ids` are names of the samples, and `groups` those of the patients, users or scenes that they are of, one each.
    uint8 of shape (n, h, w) or (n, h, w, channels) is taken as images, numbers of shape (n, features) as rows.
    Memory-mapped arrays stay where they are.
    """
    rows, kind = as_samples(samples, name)
    indexed = classes is not None and (_is_integers(labels) or _are_indices(_values(labels, classes, name)))
    train_labels, found = encode_labels(labels, classes, indexed=indexed, name=name)
    part = None
    if test is not None:
        test_rows, _ = as_samples(test[0], f"{name}, test")
        part = Part(test_rows, encode_labels(test[1], found, indexed=indexed, name=f"{name}, test")[0])
    train = Part(rows, train_labels, name_each("ids", ids), name_each("groups", groups))
    embedding = embedding_in(rows) if kind == "array" else None
    encoded, notes = ((embedding,), (embedding.note,)) if embedding else ((), ())
    return Data(name, kind, found, train, _known(train_labels), test=part, encoded=encoded, notes=notes)


def name_each(what: str, values: Any) -> Names | None:
    """Names of samples or groups as strings, (n,); None for None."""
    if values is None:
        return None
    given = _as_list(values, what)
    if missing := [row for row, value in enumerate(given) if value is None or value != value]:  # noqa: PLR0124
        raise DataError(f"{what}: there is none in row {missing[0]}; every sample needs one")
    return np.array([str(value) for value in given], dtype=object)


def read_npz(path: str | os.PathLike[str]) -> Data:
    """Arrays X and y of an `.npz` (with X_test and y_test, or classes, where it has them).

    X may also be the file `X.npy` and y `y.npy` of one folder, which are memory-mapped. Nothing in them is unpickled.
    """
    path = Path(path)
    fields = read_fields(path)
    test = (fields["X_test"], fields["y_test"]) if {"X_test", "y_test"} <= set(fields) else None
    name, classes = Path(nameless(path)).stem, class_names(fields, path)
    data = from_arrays(fields["X"], fields["y"], classes=classes, test=test, name=name)
    warn_of_copies_in(data)
    return data


def class_names(fields: dict[str, NDArray[Any]], path: Path) -> list[str] | None:
    """The array `classes` of a file, None where it has none."""
    if "classes" not in fields:
        return None
    if fields["classes"].ndim > 1:
        raise DataError(f"{path}: classes must be one name each, got shape {fields['classes'].shape}")
    names = _as_list(np.atleast_1d(fields["classes"]), f"{path.name}, classes")
    return [name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name) for name in names]


def from_torch_dataset(dataset: Any, *, classes: Sequence[str] | None = None, name: str = "dataset") -> Data:
    """Any torch `Dataset` with a length whose items are (sample, label), read once into one array.

    Images may be pictures of Pillow, uint8, or what `ToTensor()` makes of them: floats from 0 to 1, channels first.
    """
    if not hasattr(dataset, "__len__") or len(dataset) == 0:
        raise DataError(f"{name} is empty or has no length; a data set is read sample by sample, by its index")
    pairs = [dataset[i] for i in range(len(dataset))]
    if not all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs):
        raise DataError(f"the items of {name} must be pairs (sample, label)")
    samples = [_channels_last(np.asarray(sample), f"{name}: sample {row}") for row, (sample, _) in enumerate(pairs)]
    shapes = {sample.shape for sample in samples}
    if len(shapes) > 1:
        raise DataError(f"the samples of {name} have different shapes: {', '.join(map(str, sorted(shapes)[:3]))} …")
    return from_arrays(np.stack(samples), [label for _, label in pairs], classes=classes, name=name)


def _channels_last(sample: NDArray[Any], where: str) -> NDArray[Any]:
    """An image with its channels first as uint8 with its channels last; any other sample as it is."""
    if sample.ndim != 3 or sample.shape[0] not in (1, 3) or sample.dtype.kind not in "fu":
        return sample
    if sample.dtype == np.uint8:
        return sample if sample.shape[-1] in (1, 3) else np.moveaxis(sample, 0, -1)
    low, high = float(sample.min(initial=0)), float(sample.max(initial=0))
    if not (low >= 0 and high <= 1):  # nor NaN
        raise DataError(
            f"{where} has pixels from {low:.3g} to {high:.3g}; an image of floats has them from 0 to 1, as ToTensor() "
            "gives them, so leave Normalize() out: halfsure does that itself"
        )
    return np.moveaxis(np.rint(sample * 255).astype(np.uint8), 0, -1)


def encode_labels(
    labels: Any, classes: Sequence[str] | None = None, *, indexed: bool | None = None, name: str = "labels"
) -> tuple[Labels, tuple[str, ...]]:
    """Labels of any kind → (n,) class indices with −1 for unlabeled, and the class names.

    Without `classes` they are what occurs, in order. With them a label is a class name, or, where all labels are whole
    numbers, a place in the list; `indexed` says which. Mapped labels that are class indices already stay on the disk.
    """
    if _is_integers(labels):
        return _encode_integers(labels, classes, indexed is not False, name)
    values = _values(labels, classes or (), name)
    known = [value for value in values if value is not None]
    if classes is None:
        numbers = all(isinstance(value, int) for value in known)
        classes = [str(value) for value in (sorted(set(known)) if numbers else sorted({str(value) for value in known}))]
        check_single(classes, name)
        indexed = False
    if indexed is None:
        indexed = _are_indices(values)
    index = {str(i) if indexed else class_name: i for i, class_name in enumerate(classes)}
    for row, value in enumerate(values):
        if value is not None and str(value) not in index:
            raise DataError(f"{name}: row {row} has the label {value!r:.80}, which is not one of {shown(list(index))}")
    encoded = [UNLABELED if value is None else index[str(value)] for value in values]
    return np.array(encoded, dtype=np.int64), tuple(classes)


def _is_integers(labels: Any) -> bool:
    """Whether labels are an array of whole numbers, which need not be looked at one by one."""
    return type(labels) in (np.ndarray, np.memmap) and labels.ndim == 1 and labels.dtype.kind in "iu"


def _encode_integers(
    labels: NDArray[Any], classes: Sequence[str] | None, indexed: bool, name: str
) -> tuple[Labels, tuple[str, ...]]:
    """What `encode_labels` makes of whole numbers, a chunk at a time."""
    chunks = _chunks(labels)
    values = sorted({value for chunk in chunks for value in np.unique(labels[chunk]).tolist()})
    if classes is None:
        classes, indexed = [str(value) for value in values if value != UNLABELED], False
    index = {str(i) if indexed else class_name: i for i, class_name in enumerate(classes)}
    if strange := [value for value in values if value != UNLABELED and str(value) not in index]:
        row = np.flatnonzero(np.isin(labels, np.array(strange, dtype=labels.dtype)))[0]
        raise DataError(f"{name}: row {row} has the label {labels[row]}, which is not one of {shown(list(index))}")
    places = [UNLABELED if value == UNLABELED else index[str(value)] for value in values]
    if places == values and labels.dtype == np.int64 and isinstance(labels, np.memmap):
        return labels, tuple(classes)
    encoded = np.empty(len(labels), dtype=np.int64)
    for chunk in chunks:
        encoded[chunk] = np.array(places)[np.searchsorted(np.array(values, dtype=labels.dtype), labels[chunk])]
    return encoded, tuple(classes)


def _known(labels: Labels) -> Labels:
    """Which samples have a label, ascending, a chunk at a time. (n,) → (known,)."""
    found = [chunk.start + np.flatnonzero(labels[chunk] != UNLABELED) for chunk in _chunks(labels)]
    return np.concatenate([np.empty(0, dtype=np.int64), *found])


def _chunks(labels: NDArray[Any]) -> list[slice]:
    return [slice(start, start + CHUNK) for start in range(0, len(labels), CHUNK)]


def label_names(labels: Any, classes: Sequence[str] | None = None, name: str = "labels") -> list[str | None]:
    """The class name of each label, None where it means unlabeled; whole numbers are places in `classes`, if given."""
    if classes is None:
        return [None if value is None else str(value) for value in _values(labels, (), name)]
    indices, _ = encode_labels(labels, classes, name=name)
    return [None if index == UNLABELED else classes[index] for index in indices]


def _are_indices(values: list[int | str | None]) -> bool:
    """Whether labels that come with a list of classes are places in it: whole numbers all."""
    return all(isinstance(value, int) for value in values if value is not None)


def _values(labels: Any, classes: Sequence[str], name: str) -> list[int | str | None]:
    """Each label as a whole number or a text, None where it means unlabeled."""
    one_each(labels, name)
    found = _as_list(np.asarray(labels)[:, 0] if getattr(labels, "ndim", 1) == 2 else labels, name)
    one_each(found, name)
    return [read_label(value, f"{name}: row {row}", classes) for row, value in enumerate(found)]


def _as_list(labels: Any, name: str) -> list[Any]:
    try:
        values = labels.tolist() if hasattr(labels, "tolist") else list(labels)
    except (ValueError, SystemError) as error:  # an array of text whose numbers are no letters
        raise DataError(f"{name}: a label cannot be read: {error}") from None
    if not isinstance(values, list):
        raise DataError(f"{name}: labels must be one value a sample, (n,)")
    return values


def as_samples(samples: Any, name: str) -> tuple[NDArray[Any], str]:
    """Images or rows as an array, and which of the two they are; what is neither, or not finite, is refused."""
    if hasattr(samples, "detach"):  # a torch tensor
        samples = samples.detach().cpu()
        samples = (samples.float() if samples.is_floating_point() and samples.element_size() < 4 else samples).numpy()
    if hasattr(samples, "tocsr"):  # a SciPy sparse matrix
        if samples.ndim != 2 or samples.shape[0] * samples.shape[1] * 4 > DENSE_LIMIT:
            raise DataError(f"{name}: a sparse matrix of shape {samples.shape} is too large as rows; reduce it first")
        samples = samples.toarray()
    try:
        samples = np.asanyarray(samples)
    except ValueError:
        raise DataError(f"{name}: samples must all have the same shape") from None
    if 0 in samples.shape[1:]:
        raise DataError(f"{name}: samples of shape {samples.shape[1:]} hold no value")
    if samples.dtype == np.uint8 and samples.ndim in (3, 4):
        images = samples[..., None] if samples.ndim == 3 else samples
        if images.shape[-1] not in (1, 3):
            raise DataError(f"{name}: images must be (n, height, width, 1 or 3 channels), got {images.shape}")
        return images, "image"
    if samples.ndim != 2 or samples.dtype.kind not in "biuf":
        raise DataError(
            f"{name}: samples must be numbers of shape (n, features) or uint8 images of shape (n, height, width[, 1 or "
            f"3]), got {samples.dtype} of shape {samples.shape}"
        )
    for start in _starts(samples):
        with np.errstate(over="ignore"):  # what is too large for float32 becomes infinite, and is named
            part = samples[start : start + _step(samples)].astype(np.float32)
        bad = np.flatnonzero(~np.isfinite(part).all(axis=1))
        if bad.size:
            raise DataError(f"{name}: row {start + bad[0]} holds NaN or infinity; fill in or drop such rows first")
    return samples if isinstance(samples, np.memmap) else samples.astype(np.float32, copy=False), "array"


def _step(samples: NDArray[Any]) -> int:
    return max(1, CHUNK // max(1, int(samples.shape[1])))


def _starts(samples: NDArray[Any]) -> Iterable[int]:
    return range(0, len(samples), _step(samples))


@register
class ArrayReader(Reader):
    """Arrays in files."""

    name = "arrays"
    about = "arrays"

    @classmethod
    def takes(cls, source: str) -> bool:
        """An .npz file, or a folder with X.npy."""
        return Path(source).suffix.lower() == ".npz" or (Path(source) / "X.npy").is_file()

    @classmethod
    def read(cls, source: str, settings: Any) -> Data:
        """Read X and y, and X_test and y_test where they are."""
        return read_npz(source)
