"""Which samples are labeled: drawn class-balanced from a seed, recorded sample by sample, given back exactly."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from halfsure._disk import write
from halfsure.data.dataset import UNLABELED, DataError, Labels
from halfsure.data.files import opened, shown
from halfsure.data.random import keys

__all__ = ["Split", "draw_labels"]

FORMAT = 1
LARGEST = 2**27  # bytes of a split file; one takes about ten a labeled sample
SALT = 0x5EED  # keeps the draw apart from the orders of the streams


def draw_labels(labels: Labels, classes: tuple[str, ...], count: int, seed: int) -> Labels:
    """Choose `count` samples, the same number of each class. (n,) → (count,), ascending.

    A remainder goes to classes chosen by the seed. The choice depends on labels, count and seed alone: each sample has
    a random key of its own, and of every class the smallest keys are taken. So a larger count keeps the samples of
    a smaller one.
    """
    if not isinstance(count, int) or not isinstance(seed, int):
        raise DataError(f"the number of labels and the seed must be whole numbers, got {count!r} and {seed!r}")
    if count < len(classes):
        raise DataError(f"{count} labels cannot cover {len(classes)} classes; ask for at least {len(classes)}")
    each, extra = divmod(count, len(classes))
    favoured = set(np.argsort(keys(np.arange(len(classes)), seed, SALT, 1))[:extra].tolist())
    chosen = []
    for index, name in enumerate(classes):
        candidates = np.flatnonzero(labels == index)
        wanted = each + (index in favoured)
        if len(candidates) < wanted:
            raise DataError(
                f"class {name!r} has {len(candidates)} samples with a known label, but {count} labels over "
                f"{len(classes)} classes ask for {wanted} of it; ask for fewer labels"
            )
        chosen.append(candidates[np.argsort(keys(candidates, seed, SALT), kind="stable")[:wanted]])
    return np.sort(np.concatenate(chosen)).astype(np.int64)


@dataclass(frozen=True)
class Split:
    """A record of which samples were labeled, and as what."""

    source: str
    seed: int | None
    size: int
    """How many training samples there were."""
    labeled: dict[str, list[int]]
    """Class name → sample indices."""
    format: int = FORMAT

    @classmethod
    def of(cls, source: str, labels: Labels, labeled: Labels, classes: tuple[str, ...], seed: int | None) -> "Split":
        """Record a choice of samples."""
        by_class = {name: labeled[labels[labeled] == index].tolist() for index, name in enumerate(classes)}
        return cls(source, None if seed is None else int(seed), len(labels), by_class)

    def indices(self, labels: Labels, classes: tuple[str, ...]) -> Labels:
        """The recorded samples, after checking that they are the same samples of the same classes. → (count,)."""
        if len(labels) != self.size:
            raise DataError(
                f"the split was drawn from {self.size} samples of {shown([self.source])}, here are {len(labels)}"
            )
        if unknown := set(self.labeled) - set(classes):
            raise DataError(f"the split names the class {sorted(unknown)[0]!r}, which is not in the data")
        seen: set[int] = set()
        index = {name: place for place, name in enumerate(classes)}
        for name, samples in self.labeled.items():
            for sample in samples:
                if not 0 <= sample < self.size:
                    raise DataError(f"the split names sample {sample}, but there are only {self.size}")
                if sample in seen:
                    raise DataError(f"the split names sample {sample} twice")
                if labels[sample] not in (UNLABELED, index[name]):
                    raise DataError(
                        f"the split has sample {sample} as {name!r}, the data as {classes[labels[sample]]!r}: "
                        "it was drawn from other data"
                    )
                seen.add(sample)
        return np.array(sorted(seen), dtype=np.int64)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write as JSON, whole or not at all."""
        write(Path(path), (json.dumps(asdict(self), indent=1) + "\n").encode())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Split":
        """Read what `save` wrote; anything else is refused in words."""
        try:
            with opened(Path(path)) as file:
                text = file.read(LARGEST + 1)
        except DataError as error:
            raise DataError(f"cannot read the split file: {error}") from None
        if len(text) > LARGEST:
            raise DataError(f"{path} is not a split file: it is over {LARGEST:,} bytes")
        try:
            fields = json.loads(text.decode("utf-8"))
        except (ValueError, RecursionError):
            raise DataError(f"{path} is not a split file: it is not valid JSON") from None
        if not isinstance(fields, dict) or fields.get("format") != FORMAT:
            raise DataError(f"{path} is not a split file of format {FORMAT}")
        labeled, size, seed = fields.get("labeled"), fields.get("size"), fields.get("seed")
        if not (isinstance(labeled, dict) and all(_is_indices(value) for value in labeled.values())):
            raise DataError(f"{path} is not a split file: 'labeled' must give a list of sample indices for each class")
        if not (_is_count(size) and (seed is None or isinstance(seed, int)) and isinstance(fields.get("source"), str)):
            raise DataError(f"{path} is not a split file: 'source', 'size' or 'seed' is missing or of the wrong type")
        return cls(fields["source"], seed, int(fields["size"]), labeled)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_indices(value: object) -> bool:
    return isinstance(value, list) and all(_is_count(item) for item in value)
