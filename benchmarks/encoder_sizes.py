"""Which pictures an encoder pays for: logistic regression on its features beside the quick trained network.

    python benchmarks/encoder_sizes.py run --root DATA     # a line of results/encoder_sizes.jsonl for each run
    python benchmarks/encoder_sizes.py show                # the table of `docs/encoders.md`

Both learn from the same labels, as many of each class, and are scored on the same 1,000 test pictures. The network is
`SSLClassifier` with its own choice of method and 5,000 unlabeled pictures, as `halfsure train` has them; it sees the
photographs at 32 pixels. `--root` may be given several times; a set that is in none of them is skipped, and said. One
thread.
"""

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from sklearn.linear_model import LogisticRegression

from halfsure import SSLClassifier
from halfsure.data import DataError, draw_labels, load
from halfsure.encoders import PictureEncoder, open_encoder
from halfsure.encoders.squares import square

RESULTS = Path(__file__).parent.parent / "results" / "encoder_sizes.jsonl"
NAME = "efficientnet-lite0"
OFFICIAL = ("digits", "mnist", "fashion-mnist", "svhn", "cifar10")
SIDES = (64, 96, 128, 160, 224)
EACH, SEEDS, POOL, TEST = (10, 4), (0, 1), 5000, 1000
TRAINED_SIDE = 32
Pictures = list[NDArray[np.uint8]]


@dataclass(frozen=True)
class Set:
    """Pictures to learn from and to test on."""

    train: Pictures
    labels: NDArray[np.int64]
    test: Pictures
    truth: NDArray[np.int64]


def official(name: str, roots: list[Path]) -> Set:
    for root in roots:
        try:
            data = load(name, root=root) if name != "digits" else load(name)
        except DataError:
            continue
        assert data.test is not None
        train, test = np.asarray(data.train.samples), np.asarray(data.test.samples)
        return Set(list(train), np.asarray(data.train.labels), list(test), np.asarray(data.test.labels))
    raise DataError(f"{name} is in none of the roots")


def photos(name: str, roots: list[Path]) -> Set:
    for root in roots:
        if (root / "photos" / "train").is_dir():
            parts = [_folder(root / "photos" / part) for part in ("train", "test")]
            return Set(*parts[0], *parts[1])
    raise DataError("photos is in none of the roots")


def _folder(folder: Path) -> tuple[Pictures, NDArray[np.int64]]:
    classes = sorted(path.name for path in folder.iterdir())
    files = [(file, number) for number, name in enumerate(classes) for file in sorted((folder / name).iterdir())]
    pictures = [np.asarray(Image.open(file).convert("RGB")) for file, _ in files]
    return pictures, np.array([number for _, number in files])


SETS: dict[str, Callable[[str, list[Path]], Set]] = {**dict.fromkeys(OFFICIAL, official), "photos": photos}


@dataclass(frozen=True)
class Draw:
    """Some pictures with labels, y being −1 elsewhere, and those that are scored."""

    train: Pictures
    y: NDArray[np.int64]
    test: Pictures
    truth: NDArray[np.int64]


def draw(found: Set, each: int, seed: int) -> Draw:
    rng = np.random.default_rng(seed)
    pool = np.sort(rng.permutation(len(found.labels))[:POOL])
    scored = np.sort(rng.permutation(len(found.truth))[:TEST])
    classes = tuple(map(str, range(int(found.labels.max()) + 1)))
    chosen = draw_labels(found.labels[pool], classes, each * len(classes), seed)
    y = np.full(len(pool), -1)
    y[chosen] = found.labels[pool][chosen]
    return Draw([found.train[i] for i in pool], y, [found.test[i] for i in scored], found.truth[scored])


def features(encoder: PictureEncoder, pictures: Pictures) -> NDArray[np.float32]:
    """(n, dimension), each of length one; a picture as it is fills the square, for small ones have no margin."""
    rows = []
    mean, std = (torch.tensor(value)[:, None, None] for value in (encoder.mean, encoder.std))
    for first in range(0, len(pictures), 32):
        squares = np.stack([square(_colour(one), encoder.side, encoder.crop) for one in pictures[first : first + 32]])
        rows.append(encoder.encode((torch.from_numpy(squares).permute(0, 3, 1, 2) / 255 - mean) / std))
    found = np.concatenate(rows)
    return np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True), np.float32)


def _colour(picture: NDArray[Any]) -> NDArray[np.uint8]:
    return picture.astype(np.uint8) if picture.ndim == 3 else picture[..., None].astype(np.uint8)


def regression_error(encoder: PictureEncoder, drawn: Draw) -> float:
    known = np.flatnonzero(drawn.y >= 0)
    model = LogisticRegression(C=10.0, max_iter=1000)
    model.fit(features(encoder, [drawn.train[i] for i in known]), drawn.y[known])
    return float(np.mean(model.predict(features(encoder, drawn.test)) != drawn.truth))


def network_error(drawn: Draw, seed: int) -> float:
    train, test = (np.stack([_small(one) for one in part]) for part in (drawn.train, drawn.test))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SSLClassifier(encoder="none", folds=0, random_state=seed).fit(train, drawn.y)
    return float(np.mean(model.predict(test) != drawn.truth))


def _small(picture: NDArray[Any]) -> NDArray[np.uint8]:
    one = _colour(picture)
    return one if max(one.shape[:2]) <= TRAINED_SIDE else square(one, TRAINED_SIDE, 1.0)


def runs(found: Set, name: str) -> Iterator[tuple[dict[str, Any], Callable[[], float]]]:
    for each in EACH:
        for seed in SEEDS:
            about = {"set": name, "each": each, "seed": seed}
            for side in SIDES:
                yield (
                    about | {"learner": f"{NAME} at {side}"},
                    lambda side=side, each=each, seed=seed: regression_error(  # type: ignore[misc]
                        _opened(side), draw(found, each, seed)
                    ),
                )
            yield (
                about | {"learner": "network"},
                lambda each=each, seed=seed: network_error(draw(found, each, seed), seed),  # type: ignore[misc]
            )


_ENCODERS: dict[int, PictureEncoder] = {}


def _opened(side: int) -> PictureEncoder:
    if side not in _ENCODERS:
        encoder = open_encoder(NAME, encoder_side=side)
        assert isinstance(encoder, PictureEncoder)
        _ENCODERS[side] = encoder
    return _ENCODERS[side]


def run(roots: list[Path], names: list[str]) -> None:
    done = [{key: row[key] for key in ("set", "each", "seed", "learner")} for row in read()]
    for name in names:
        try:
            found = SETS[name](name, roots)
        except DataError as error:
            print(f"skipped: {error}", flush=True)
            continue
        for about, measure in runs(found, name):
            if about in done:
                continue
            start = time.perf_counter()
            row = about | {"error": measure(), "seconds": round(time.perf_counter() - start, 1)}
            with RESULTS.open("a", encoding="utf-8") as out:
                out.write(json.dumps(row) + "\n")
            print(row, flush=True)


def read() -> list[dict[str, Any]]:
    return [json.loads(line) for line in RESULTS.read_text(encoding="utf-8").splitlines()] if RESULTS.exists() else []


def show() -> None:
    rows = read()
    learners = [*(f"{NAME} at {side}" for side in SIDES), "network"]
    print("| set | labels per class | " + " | ".join(learners) + " |\n|---" * 1 + "|---" * (len(learners) + 1) + "|")
    for name in SETS:
        for each in sorted(EACH):
            cells = []
            for learner in learners:
                key = (name, each, learner)
                errors = [row["error"] for row in rows if (row["set"], row["each"], row["learner"]) == key]
                cells.append(f"{100 * statistics.mean(errors):.1f}" if errors else "–")
            print(f"| {name} | {each} | " + " | ".join(cells) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("run", "show"))
    parser.add_argument("--root", type=Path, action="append", default=[])
    parser.add_argument("--set", choices=tuple(SETS), action="append")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.action == "run":
        run(given.root or [Path("data")], given.set or list(SETS))
    show()


if __name__ == "__main__":
    main()
