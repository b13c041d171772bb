"""Networks by name, the one place where names are read."""

import difflib
import math
import re
from typing import Any

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from halfsure.nets.cnn13 import CNN13
from halfsure.nets.conv7 import Conv7
from halfsure.nets.layers import Norm
from halfsure.nets.mlp import MLP
from halfsure.nets.wrn import WideResNet

__all__ = ["NAMES", "build", "is_separable"]

NAMES = {
    "wrn-DEPTH-WIDTH": "wide residual network for images, such as wrn-28-2 or wrn-16-1; DEPTH is 6n + 4",
    "cnn13[-WIDTH]": "13-layer convolutional network with dropout, for images from 12 pixels a side; WIDTH is 128",
    "conv7[-WIDTH]": "7-layer convolutional network for small images, such as conv7-16; WIDTH is 64",
    "mlp[-SIZE…]": "multilayer perceptron for rows and images, such as mlp-1200-1200; the hidden SIZEs are 256-256",
}
"""What `build` understands: name pattern → description. Brackets hold what may be left out."""

READERS = {
    "wrn": re.compile(r"wrn-([0-9]+)-([0-9]+)"),
    "cnn13": re.compile(r"cnn13(?:-([0-9]+))?"),
    "conv7": re.compile(r"conv7(?:-([0-9]+))?"),
    "mlp": re.compile(r"mlp((?:-[0-9]+)*)"),
}
DEEPEST, DIGITS = 500, 6
"""Layers that are built at most, and digits of a size: a slip of the hand should not take for ever."""
EXAMPLES = ("wrn-28-2", "wrn-16-1", "cnn13", "cnn13-64", "conv7", "conv7-16", "mlp", "mlp-1200-1200")


def build(
    name: str, shape: tuple[int, ...], classes: int, *, norm: Norm | None = None, dropout: float | None = None
) -> nn.Module:
    """Build the network of this name, its weights drawn from torch's global generator.

    Args:
        name: one of `NAMES`, such as "wrn-28-2", "cnn13", "conv7-16" or "mlp-1200-1200".
        shape: of one sample as it is stored: (height, width, channels) for images, (features,) for rows.
        classes: logits to return, at least 2.
        norm: "batch", "group" or "none"; None for the network's own choice.
        dropout: probability to drop a value, for the networks that have dropout; None for the network's own choice.

    Examples:
        >>> import torch
        >>> from halfsure.nets import build
        >>> build("wrn-16-1", shape=(28, 28, 1), classes=10)(torch.rand(2, 1, 28, 28)).shape
        torch.Size([2, 10])
        >>> build("mlp-32", shape=(4,), classes=3, norm="batch")(torch.rand(2, 4)).shape
        torch.Size([2, 3])
    """
    family, settings = _read(name)
    if norm is not None:
        settings["norm"] = norm
    if dropout is not None:
        if family in ("wrn", "conv7"):
            raise ValueError(f"{name} has no dropout; leave dropout out, or choose cnn13 or mlp")
        settings["dropout"] = dropout
    if len(shape) not in (1, 3) or not all(side >= 1 for side in shape):
        raise ValueError(
            f"shape must be (height, width, channels) for images or (features,) for rows, got {tuple(shape)}; "
            "grey images have one channel: (height, width, 1)"
        )
    if family == "mlp":
        return MLP(math.prod(shape), classes, **settings)
    network: type[WideResNet | CNN13 | Conv7] = {"wrn": WideResNet, "cnn13": CNN13, "conv7": Conv7}[family]
    if len(shape) == 1:
        raise ValueError(
            f"{name} is for images (height, width, channels), but these samples are rows of {shape[0]} features; "
            "choose mlp, or reshape the rows if they are images"
        )
    height, width, channels = shape
    if min(height, width) < network.smallest:
        others = "mlp" if min(height, width) < Conv7.smallest else "conv7 or mlp"
        raise ValueError(
            f"{name} needs images of at least {network.smallest} pixels a side, got a height of {height} and a width "
            f"of {width} from the shape (height, width, channels) = {tuple(shape)}; enlarge them or choose {others}"
        )
    return network(channels, classes, **settings)


def _read(name: str) -> tuple[str, dict[str, Any]]:
    """Name → (family, the settings it spells out)."""
    for family, reader in READERS.items():
        match = reader.fullmatch(name)
        if match is None:
            continue
        sizes = [number for group in match.groups("") for number in group.split("-") if number]
        if len(sizes) > DEEPEST or any(len(size) > DIGITS for size in sizes):
            raise ValueError(f"{name:.40}… asks for more layers or units than any network has")
        numbers = [int(size) for size in sizes]
        if family == "wrn":
            if numbers[0] > DEEPEST:
                raise ValueError(f"{name} is too deep: DEPTH is {DEEPEST:,} at most")
            return family, {"depth": numbers[0], "width": numbers[1]}
        if family == "mlp":
            return family, {"hidden": tuple(numbers)} if numbers else {}
        return family, {"width": numbers[0]} if numbers else {}
    guess = _guess(name)
    hint = f"; did you mean {guess!r}? The" if guess else "; the"
    raise ValueError(f"there is no network called {name!r}{hint} names are {', '.join(NAMES)}")


def _guess(name: str) -> str | None:
    """The name that was probably meant: an example one slip away, the family put right, or the nearest example."""
    name = name.lower().strip()
    head, dash, tail = name.partition("-")
    repaired = [family + dash + tail for family in difflib.get_close_matches(head, READERS, 1)]
    guesses = [
        *difflib.get_close_matches(name, EXAMPLES, 1, cutoff=0.9),
        *(guess for guess in repaired if any(reader.fullmatch(guess) for reader in READERS.values())),
        *difflib.get_close_matches(name, EXAMPLES, 1, cutoff=0.5),
    ]
    return guesses[0] if guesses else None


def is_separable(model: nn.Module) -> bool:
    """Whether a pass is known to give each sample what a pass of its own would.

    So it is for the networks made here, unless they have batch norm that is training, or dropout. Of others nobody
    knows what they do.

    Examples:
        >>> from halfsure.nets import build, is_separable
        >>> [is_separable(build("conv7-16", (8, 8, 1), 10, norm=norm)) for norm in ("none", "group", "batch")]
        [True, True, False]
    """
    return isinstance(model, WideResNet | CNN13 | Conv7 | MLP) and not any(
        module.training and (isinstance(module, _BatchNorm) or (isinstance(module, _DropoutNd) and module.p > 0))
        for module in model.modules()
    )
