"""What training refuses, in words; and whoever follows the advice in a refusal is not refused again."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import halfsure
from halfsure.algorithms import Algorithm
from halfsure.data import load
from halfsure.methods import method
from halfsure.nets import build
from halfsure.runs.start import fit
from halfsure.settings import Settings
from halfsure.settings.compose import fill, flat
from halfsure.training import Config
from halfsure.training.errors import RunError
from tests.training.helpers import images, rows, tiny

CALLED = r"called as view\(samples, indices, step, stream\), and yours cannot be: too many positional arguments"


class Mine:
    """Neither a method nor an algorithm."""


def view(samples: Any, indices: Any, step: int, stream: int) -> Tensor:
    return torch.from_numpy(np.asarray(samples, np.float32))


def net() -> nn.Module:
    return nn.Linear(5, 3)


def brief(model: Any = None, data: Any = None, method: Any = "fixmatch-ads", **more: Any) -> object:
    return fit(model, data or rows(), method, **{"steps": 1, "evaluations": 1, "batch": 4, "unlabeled_batch": 4} | more)


@pytest.mark.parametrize(
    ("call", "text"),
    {
        "one argument": (lambda: brief(views={"weak": lambda x: x, "strong": view}), f"the weak view is {CALLED}"),
        "two arguments": (
            lambda: brief(views={"weak": view, "strong": lambda x, g: x}),
            f"the strong view is {CALLED}",
        ),
        "no function": (lambda: brief(views={"weak": 5}), "the weak view is a function view.*got 5"),
        "no mapping": (lambda: brief(views=view), 'views are a mapping {"weak": …, "strong": …}'),
        "another name": (lambda: brief(views={"weak": view, "stong": view}), "there is no 'stong' view"),
        "no tensor": (
            lambda: brief(views={"weak": view, "strong": lambda x, *_: x}),
            r"the strong view of 4 samples must be a tensor \(4, …\), got ndarray",
        ),
        "lost rows": (
            lambda: brief(views={"weak": view, "strong": lambda *all: view(*all)[:1]}),
            r"must be a tensor \(4, …\), got \(1, 5\)",
        ),
        "an object": (lambda: brief(method=Mine()), "a method is a name such as 'fixmatch-ads', got a Mine; register"),
        "a class": (lambda: brief(method=Mine), "a method is a name .*, got a type; register"),
        "an algorithm": (
            lambda: brief(method=method("vat")),
            "a method is a name .*halfsure.register and give its name",
        ),
        "a number": (lambda: method(5), "a method is a name"),  # type: ignore[arg-type]
        "a network by name": (lambda: brief("mlp"), "the network is an nn.Module, or None with net= for one by name"),
        "a network's class": (lambda: brief(nn.Linear), "the network is an nn.Module"),
        "arrays": (lambda: fit(net(), np.zeros((5, 3))), "data is what halfsure.data.load .*, got a ndarray"),  # type: ignore[arg-type]
        "an encoder": (
            lambda: load("digits", text_encoder=lambda texts: np.zeros((len(texts), 2))),
            "text_encoder is for the texts of tables, and digits is read as",
        ),
    }.values(),
)
def test_a_wrong_argument_is_refused_in_words(call: Callable[[], object], text: str) -> None:
    with pytest.raises((ValueError, TypeError, RunError), match=text) as refusal:
        call()
    assert not str(refusal.value).count("\n")


def test_what_may_be_called_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    class View:
        def __call__(self, *given: Any) -> Tensor:
            return view(*given)

    brief(views={"weak": View(), "strong": lambda samples, indices, step, stream=0: view(samples, indices, step, 0)})


# The words of a refusal → the same call as it advises.
ADVICE: dict[str, tuple[Callable[[], object], str, Callable[[re.Match[str]], object]]] = {
    "only a strong view": (
        lambda: brief(views={"strong": view}),
        r'views=\{"weak": …, "strong": …\}',
        lambda _: brief(views={"weak": view, "strong": view}),
    ),
    "only a weak view": (
        lambda: brief(views={"weak": view}),
        r"such as (\S+) or (\S+)",
        lambda found: [brief(method=name, views={"weak": view}) for name in found.groups()],
    ),
    "no strength": (
        lambda: brief(data=images(), ops=0, cutout=0),
        r"raise (\w+) or (\w+), or choose a method without them, such as (\S+) or (\S+)",
        lambda found: (
            [brief(data=images(), **{"ops": 0, "cutout": 0} | {name: 2}) for name in found.groups()[:2]],
            [brief(data=images(), method=name, ops=0, cutout=0) for name in found.groups()[2:]],
        ),
    ),
    "no strength of rows": (
        lambda: brief(strong_noise=0, strong_swap=0),
        r"raise (\w+) or (\w+), or choose",
        lambda found: [brief(**{"strong_noise": 0, "strong_swap": 0} | {name: 0.5}) for name in found.groups()],
    ),
    "a single sample": (
        lambda: brief(method="supervised", batch=1, norm="batch"),
        r"raise (\w+) and (\w+), or set norm to (\w+) or (\w+)",
        lambda found: (
            brief(method="supervised", norm="batch", **dict.fromkeys(found.groups()[:2], 2)),
            [brief(method="supervised", batch=1, norm=norm) for norm in found.groups()[2:]],
        ),
    ),
    "a single sample in a network of one's own": (
        lambda: brief(nn.Sequential(nn.BatchNorm1d(5), nn.Linear(5, 3)), method="supervised", batch=1),
        r"raise (\w+) and (\w+)$",
        lambda found: brief(
            nn.Sequential(nn.BatchNorm1d(5), nn.Linear(5, 3)), method="supervised", **dict.fromkeys(found.groups(), 2)
        ),
    ),
    "two parts with one setting": (
        lambda: Config(method="fixmatch+ns", threshold=0.5),
        r"say (\w+) or (\w+)",
        lambda found: [Config(method="fixmatch+ns", **{name: 0.5}) for name in found.groups()],
    ),
    "a target that is none": (
        lambda: method("fixmatch-me"),
        r"as a loss, (\S+), or replace by (.*)",
        lambda found: [
            method(name)
            for name in (found[1], *(f"fixmatch-{part.replace('M', '3')}" for part in found[2].split(", ")))
        ],
    ),
    "nothing to replace": (lambda: method("vat-pl"), r"as a loss, (\S+)", lambda found: method(found[1])),
    "a gate in a mixture": (
        lambda: method("mixmatch-pl"),
        r"take no gate \((\S+)\), or (\S+), (\S+) or (\S+)",
        lambda found: [method(f"mixmatch-{name}") for name in found.groups()],
    ),
    "adaptive sharpening in softmax": (
        lambda: method("vat@softmax+ads"),
        r"as in (\S+) or (\S+), or omit (\S+)",
        lambda found: [method(found[1]), method(found[2]), method("vat@softmax+ads".replace(found[3], ""))],
    ),
    "a gradient that is needed": (
        lambda: method("fixmatch+me", weak_grad=False),
        "leave weak_grad on, or leave the added strategy away",
        lambda _: [method("fixmatch+me", weak_grad=True), method("fixmatch", weak_grad=False)],
    ),
    "an odd depth": (
        lambda: build("wrn-11-1", (16, 16, 1), 3),
        r"try (\d+) or (\d+)",
        lambda found: [build(f"wrn-{depth}-1", (16, 16, 1), 3) for depth in found.groups()],
    ),
    "a network for images": (
        lambda: build("wrn-10-1", (5,), 3),
        r"choose (\w+)(?: or \w+)*, or reshape",
        lambda found: build(found[1], (5,), 3),
    ),
    "views for images": (
        lambda: brief(views="images"),
        r"omit them, or say (\w+)",
        lambda found: [brief(), brief(views=found[1])],
    ),
    "too few to hold out": (
        lambda: halfsure.data.hold_out(load("digits"), 20, 0),
        r"Train on fewer labels: draw them with (\w+)",
        lambda found: halfsure.data.hold_out(load("digits", **dict[str, Any]({found[1]: 1300})), 20, 0),
    ),
}


@pytest.mark.parametrize("case", ADVICE)
def test_whoever_follows_the_advice_is_not_refused_again(case: str) -> None:
    call, advice, followed = ADVICE[case]
    with pytest.raises((ValueError, TypeError, RunError)) as refusal:
        call()
    found = re.search(advice, str(refusal.value))
    assert found, f"{refusal.value} does not say {advice}"
    followed(found)


def test_a_setting_that_a_network_and_a_strategy_share_is_reached_as_advised() -> None:
    """Two sections of a configuration with a setting of one name, as parts of one's own may have."""
    from halfsure.targets import ADS  # noqa: PLC0415

    layout: dict[str, type[Settings]] = {"net": ADS.Settings, "strategies/ads": ADS.Settings}
    with pytest.raises(ValueError, match="say net_r or ads_r"):
        fill(layout, {"r": 3}, "it")
    sections = fill(layout, {"net_r": 3, "ads_r": 4}, "it")
    assert flat(sections) == {"net_r": 3, "ads_r": 4}


def test_a_registered_algorithm_is_asked_for_by_its_name() -> None:
    assert issubclass(type(method("vat")), Algorithm)
    assert tiny(method="vat").run.method == "vat"
