"""Settings that are not given, by preset, data and method: what each is for and what to expect of it."""

import math
from dataclasses import replace
from typing import Any

from halfsure.data import Data
from halfsure.methods import Method, parse
from halfsure.simplex import SOFTMAX
from halfsure.training.config import Config

__all__ = ["EXPECTED", "PRESETS", "preset"]

PRESETS = {
    "quick": "under a minute on one core: a small network, enough to see whether unlabeled data help",
    "cpu": "some ten minutes on one core: longer, and with a larger network where images are coloured",
    "paper": "the paper's network, batches and length: days on a GPU, months on a laptop",
}

EXPECTED = {
    ("quick", "digits"): "with 40 labels some 8 % error, where labels alone give 23 %; half a minute",
    ("quick", "mnist"): "with 40 labels and 1,000 steps some 5 % error, where labels alone give 31 %; under a minute",
}
"""What `fixmatch-ads` was seen to reach, over five seeds (docs/results.md)."""

DIGITS = {"digits", "mnist", "svhn", "svhn-extra"}  # a mirrored digit is another digit, or none


def preset(data: Data, method: str, name: str = "quick", seed: int = 0) -> Config:
    """The config of a preset for these data and this method."""
    config = Config(method=method, preset=name, seed=seed)  # type: ignore[arg-type]  # check() looks at the name
    config.check()
    settings = _image(data, name) if data.kind == "image" else _rows(name)
    parsed = parse(method)
    chosen = (_paper if name == "paper" else _small)(data, parsed)
    if parsed.algorithm == "vat" and name != "paper":
        settings["norm"] = "none"  # with few labels batch norm is what breaks VAT
    return replace(config, **(chosen | settings))


def _image(data: Data, name: str) -> dict[str, Any]:
    side, colours = min(data.train.samples.shape[1:3]), data.train.samples.shape[3]
    views = {"flip": data.name not in DIGITS and colours == 3, "shift": max(1, side // 8), "cutout": side // 2}
    if name == "paper":
        large = {"net": "conv7", "norm": "batch"} if colours == 1 else {"net": "wrn-28-2", "norm": "batch"}
        return views | large
    if name == "cpu" and colours == 3:
        return views | {"net": "wrn-10-1", "norm": "batch", "steps": 3000}
    return views | {"net": "conv7-16", "norm": "none", "steps": {"quick": 600, "cpu": 3000}[name]}


def _rows(name: str) -> dict[str, Any]:
    return {"net": "mlp", "norm": "none", "steps": {"quick": 1000, "cpu": 10_000, "paper": 10_000}[name]}


def _small(data: Data, method: Method) -> dict[str, Any]:
    """What works with few labels, few steps and no norm layers."""
    if method.algorithm == "vat":
        # Chosen on validation samples of MNIST (docs/results.md); a length grows with the root of the inputs' number,
        # and at CIFAR-10's 3,072 this gives 5.5, where the literature has 6.
        epsilon = round(0.1 * math.sqrt(math.prod(data.train.samples.shape[1:])), 2)
        return {"lr": 1e-3, "weight": 1.0, "epsilon": epsilon, **({"distill_weight": 0.1} if method.added else {})}
    if method.algorithm == "mixmatch":
        own = {"distance": "l2", "weight": 75.0} if method.map == SOFTMAX else {"distance": "fy", "weight": 1.0}
        return {"lr": 2e-3, "ramp": 0.4, **own}
    return {"lr": 2e-3}


def _paper(data: Data, method: Method) -> dict[str, Any]:
    """The settings of the base methods' own publications."""
    long: dict[str, Any] = {"steps": 2**20, "evaluations": 1024, "last": 20, "batch": 64, "unlabeled_batch": 64}
    if method.algorithm == "vat":
        epsilon = {"svhn": 1.0, "svhn-extra": 1.0, "mnist": 0.6, "digits": 0.6}.get(data.name, 6.0)
        # ξ stays ours: the published 1e-6 is lost in float32, and the direction would be random.
        vat = {"epsilon": epsilon, "weight": 0.3, "ramp": 0.4, "ramp_shape": "exp"}
        vat |= {"distill_weight": 0.1} if method.added else {}
        vat |= {"optimizer": "adam", "lr": 3e-3, "schedule": "drop"}
        return long | vat | {"steps": 500_000}
    if method.algorithm == "mixmatch":
        weight = {"cifar100": 150.0, "svhn": 250.0, "svhn-extra": 250.0, "stl10": 50.0}.get(data.name, 75.0)
        # Published for the mean square over classes; near agreement sparsemax's own loss is half the *sum* of squares.
        own = {"distance": "l2", "weight": weight}
        if method.map != SOFTMAX:
            own = {"distance": "fy", "weight": 2 * weight / len(data.classes)}
        mix = {"mixup": 0.25 if data.name == "svhn-extra" else 0.75, "copies": 2, "ramp": 2**14 / 2**20, **own}
        return long | mix | {"optimizer": "adamw", "lr": 2e-3, "weight_decay": 0.02, "schedule": "constant"}
    decay = 1e-3 if data.name == "cifar100" else 5e-4
    return long | {"optimizer": "sgd", "lr": 0.03, "weight_decay": decay, "schedule": "cosine"}
