"""Data that a network learns in milliseconds, a config to go with them, and how to tell two runs apart."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from halfsure.data import Data, from_arrays
from halfsure.settings import declared, parts
from halfsure.training.config import Config

CLASSES = 3
TINY = Config(
    method="fixmatch-ads",
    steps=12,
    net="mlp-8",
    batch=6,
    unlabeled_batch=8,
    lr=0.01,
    evaluations=3,
    tensorboard=False,
)


def images(side: int = 8, channels: int = 1, count: int = 60, labels: int = 12) -> Data:
    """Noise whose brightness tells the class; the first ones are labeled, of the others nobody knows."""
    return _data(_pictures(side, channels, count, 0), _pictures(side, channels, 30, 1), count, labels)


def rows(features: int = 5, count: int = 60, labels: int = 12) -> Data:
    """Gaussian clouds, one a class."""
    return _data(_clouds(features, count, 0), _clouds(features, 30, 1), count, labels)


def known(data: Data) -> Data:
    """The same data with the labels of all training samples known, for scoring."""
    truth = np.arange(len(data.train)) % CLASSES
    return replace(data, train=replace(data.train, labels=truth))


def tiny(**changes: Any) -> Config:
    """The config with changes; a setting of views says which views are meant."""
    own = {name: {setting.name for setting in declared(maker.Settings)} for name, maker in parts("views").items()}
    meant = max(own, key=lambda name: len(own[name] & changes.keys()))
    return TINY.replace(**({"views": meant} if own[meant] & changes.keys() else {}) | changes)


def differences(one: Any, other: Any) -> list[str]:
    """Where two checkpoints, or lines of metrics, are not the same to the bit; the time they took may differ."""
    return list(_differences(one, other, ""))


def _differences(one: Any, other: Any, where: str) -> Iterator[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in one.keys() | other.keys():
            if key == "seconds":
                continue
            if key in one and key in other:
                yield from _differences(one[key], other[key], f"{where}/{key}")
            else:
                yield f"{where}/{key} is in one of them only"
    elif isinstance(one, list | tuple) and isinstance(other, list | tuple) and len(one) == len(other):
        for place, (mine, theirs) in enumerate(zip(one, other, strict=True)):
            yield from _differences(mine, theirs, f"{where}/{place}")
    elif isinstance(one, Tensor) and isinstance(other, Tensor):
        if (one.dtype, one.stride()) != (other.dtype, other.stride()) or not torch.equal(one, other):
            yield where
    elif type(one) is not type(other) or one != other:
        yield f"{where}: {one!r} and {other!r}"


def lines(folder: Path) -> list[dict[str, Any]]:
    """metrics.jsonl, every line of which has to be JSON without NaN."""

    def refuse(text: str) -> None:
        raise ValueError(f"{text} is not JSON")

    return [json.loads(line, parse_constant=refuse) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def _data(samples: Any, test: Any, count: int, labels: int) -> Data:
    truth = np.arange(count) % CLASSES
    return from_arrays(samples, np.where(np.arange(count) < labels, truth, -1), test=(test, np.arange(30) % CLASSES))


def _pictures(side: int, channels: int, count: int, seed: int) -> Any:
    noise = np.random.default_rng(seed).integers(0, 120, (count, side, side, channels))
    return (noise + 60 * (np.arange(count) % CLASSES)[:, None, None, None]).astype(np.uint8)


def _clouds(features: int, count: int, seed: int) -> Any:
    noise = np.random.default_rng(seed).normal(size=(count, features))
    noise[np.arange(count), np.arange(count) % CLASSES] += 5
    return noise.astype(np.float32)
