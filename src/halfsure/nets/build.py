"""Networks by name, the one place where names are read."""

import difflib
import re
from typing import Any

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from halfsure.nets.layers import Norm
from halfsure.nets.network import Network
from halfsure.settings import declared, parts

__all__ = ["build", "family", "is_separable"]

DEEPEST, DIGITS = 500, 6
"""Layers that are built at most, and digits of a size: a slip of the hand should not take for ever."""


def build(
    name: str,
    shape: tuple[int, ...],
    classes: int,
    *,
    norm: Norm | None = None,
    dropout: float | None = None,
    **more: Any,
) -> Network:
    """Build the network of this name, its weights drawn from torch's global generator.

    Args:
        name: a network with its sizes, such as "wrn-28-2", "cnn13", "conv7-16" or "mlp-1200-1200".
        shape: of one sample as it is stored: (height, width, channels) for images, (features,) for rows.
        classes: logits to return, at least 2.
        norm: "batch", "group" or "none"; None for the network's own choice.
        dropout: probability to drop a value, for the networks that have dropout; None for the network's own choice.
        more: other settings, for networks that have such.

    Examples:
        >>> import torch
        >>> from halfsure.nets import build
        >>> build("wrn-16-1", shape=(28, 28, 1), classes=10)(torch.rand(2, 1, 28, 28)).shape
        torch.Size([2, 10])
        >>> build("mlp-32", shape=(4,), classes=3, norm="batch").features(torch.rand(2, 4)).shape
        torch.Size([2, 32])
    """
    network, sizes = family(name)
    settings = {key: value for key, value in {"norm": norm, "dropout": dropout, **more}.items() if value is not None}
    known = [setting.name for setting in declared(network.Settings)]
    for setting in settings:
        if setting not in known:
            others = [other.name for other in parts("network").values() if setting in _names(other)]
            raise ValueError(
                f"{name} has no {setting}; omit it" + (f", or choose {' or '.join(others)}" if others else "")
            )
    if len(shape) == 1 and shape[0] >= 1 and 1 not in network.dimensions:
        raise ValueError(
            f"{name} is for images (height, width, channels), but these samples are rows of {shape[0]} features; "
            f"choose {_that_take(1, 0)}, or reshape the rows if they are images"
        )
    if len(shape) not in network.dimensions or not all(side >= 1 for side in shape):
        raise ValueError(
            f"shape must be (height, width, channels) for images or (features,) for rows, got {tuple(shape)}; "
            "grey images have one channel: (height, width, 1)"
        )
    if network.smallest and min(shape[:2]) < network.smallest:
        raise ValueError(
            f"{name} needs images of at least {network.smallest} pixels a side, got a height of {shape[0]} and a width "
            f"of {shape[1]} from the shape (height, width, channels) = {tuple(shape)}; enlarge them or choose "
            f"{_that_take(3, min(shape[:2]))}"
        )
    return network.sized(sizes, shape, classes, **settings)


def family(name: str) -> tuple[type[Network], tuple[int, ...]]:
    """Name → the network and the sizes it spells out."""
    known = parts("network")
    head, *sizes = name.split("-")
    if head in known and all(re.fullmatch("[0-9]+", size) for size in sizes):
        if len(sizes) > DEEPEST or any(len(size) > DIGITS for size in sizes):
            raise ValueError(f"{name:.40}… asks for more layers or units than any network has")
        numbers = tuple(int(size) for size in sizes)
        if known[head].takes(numbers):
            return known[head], numbers
    guess = _guess(name)
    hint = f"; did you mean {guess!r}? The" if guess else "; the"
    names = ", ".join(network.usage for network in known.values())
    raise ValueError(f"there is no network called {name!r}{hint} names are {names}")


def _names(network: type[Network]) -> list[str]:
    return [setting.name for setting in declared(network.Settings)]


def _that_take(axes: int, side: int) -> str:
    """The networks for samples of so many axes and, if they are images, so few pixels."""
    fitting = [name for name, net in parts("network").items() if axes in net.dimensions and net.smallest <= side]
    return " or ".join(fitting)


def _guess(name: str) -> str | None:
    """The name that was probably meant: an example one slip away, the family put right, or the nearest example."""
    name = name.lower().strip()
    head, dash, tail = name.partition("-")
    known = parts("network")
    examples = [example for network in known.values() for example in network.examples]
    numbers = tuple(int(size) for size in tail.split("-") if re.fullmatch("[0-9]{1,6}", size))
    repaired = [near + dash + tail for near in difflib.get_close_matches(head, known, 1) if known[near].takes(numbers)]
    guesses = [
        *difflib.get_close_matches(name, examples, 1, cutoff=0.9),
        *(guess for guess in repaired if re.fullmatch("[a-z0-9]+(-[0-9]+)*", guess)),
        *difflib.get_close_matches(name, examples, 1, cutoff=0.5),
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
    return isinstance(model, Network) and not any(
        module.training and (isinstance(module, _BatchNorm) or (isinstance(module, _DropoutNd) and module.p > 0))
        for module in model.modules()
    )
