"""A name → an encoder: one that is asked for, the best that is installed, or the one that a run was made with."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from torch import Tensor

from halfsure.encoders.changed_weights import tuned_from, untuned_name
from halfsure.encoders.encoder import Encoder, EncoderError
from halfsure.encoders.minilm import unknown_share
from halfsure.encoders.own_encoder import own
from halfsure.settings import find, parts
from halfsure.settings.registry import nearest

__all__ = ["best", "choose", "encoder_named", "listed", "open_encoder", "restore", "side_for", "text_encoder_for"]

Changed = Callable[[], Mapping[str, Tensor]]
"""Gives the weights that tuning changed, once they are needed."""
PREFERRED = {"image": ("efficientnet-lite0",), "text": ("minilm",)}
"""By kind, the best first."""
SMALL_GREY = 28
"""Sides of grey pictures, in pixels, up to which a trained network is the safer choice: with 4 to 10 labels per class
the encoder loses 12 to 22 points on MNIST and on digits, and wins 8 on Fashion-MNIST (`docs/encoders.md`)."""
MEASURED = {"digits": False, "mnist": False, "fashion-mnist": True}
"""Sets of small grey pictures whose name says whether the encoder pays."""
SMALL, SMALL_SIDE, SIDE = 160, 160, 224
"""Pictures of up to 160 pixels are shown to the encoder at 160, larger ones at 224: at 128 CIFAR-10 loses 3 points, and
from 160 to 224 no set of `docs/encoders.md` gains a whole point, at twice the time."""
UNKNOWN = 0.35
"""The share of words that MiniLM may not know. Of 20 English texts (AG News, SST-2) at most 16 % were unknown; of
sentences in French 41 %, in German 52 %, in Russian, Greek, Chinese and Thai all."""
LOOKED_AT = 500
"""Texts, spread over all, by which that is judged."""


def encoder_named(name: str) -> tuple[type[Encoder], str]:
    """The part that a name means, and its argument."""
    family, colon, argument = name.partition(":")
    known = parts("encoder")
    if family not in known:
        raise EncoderError(f"there is no encoder {name!r:.60}{nearest(family, ['auto', 'none', *known])}")
    kind: type[Encoder] = find("encoder", family)
    if bool(argument) != bool(kind.argument) or (colon and not argument):
        wanted = f"{family}:{kind.argument}" if kind.argument else family
        raise EncoderError(f"{name!r:.60} is not how this encoder is named; write {wanted}")
    return kind, argument


def open_encoder(name: str, **settings: Any) -> Encoder:
    """Open an encoder by its name.

    Examples:
        >>> from halfsure.encoders import open_encoder
        >>> open_encoder("mini")
        Traceback (most recent call last):
        halfsure.encoders.encoder.EncoderError: there is no encoder 'mini'; did you mean minilm?
    """
    kind, argument = encoder_named(name)
    return _opened(kind, argument, kind.Settings(**settings))


def _opened(kind: type[Encoder], argument: str, settings: Any) -> Encoder:
    encoder = kind.open(argument, settings)
    encoder.asked = getattr(settings, "encoder_precision", "auto")
    return encoder


def best(kind: str) -> tuple[str | None, str]:
    """The best encoder that can be used here for a kind of samples, and what to run for a better one; both may lack."""
    missing = ""
    for name in PREFERRED.get(kind, ()):
        what = find("encoder", name).missing()
        if not what:
            return name, missing
        missing = missing or what
    return None, missing


def choose(kind: str, *, shape: Sequence[int] | None = None, name: str = "") -> tuple[str | None, str]:
    """Which encoder `auto` takes, or None for a network that is trained from scratch; and why, in a sentence.

    Args:
        kind: of the samples: image, text or another.
        shape: height, width and channels of the pictures, if all have the same.
        name: of the data, if it is an official set.

    Examples:
        >>> from halfsure.encoders.choosing import choose
        >>> choose("image", shape=(28, 28, 1), name="mnist")
        (None, 'on mnist a trained network is better than any encoder here, as measured')
    """
    if kind not in PREFERRED:
        return None, "rows of numbers need no encoder"
    if kind == "image" and name in MEASURED and not MEASURED[name]:
        return None, f"on {name} a trained network is better than any encoder here, as measured"
    if kind == "image" and shape is not None and name not in MEASURED and _is_small_grey(shape):
        return None, (
            f"grey pictures of up to {SMALL_GREY} pixels go to a trained network, which is far better on digits; try "
            f"an encoder where they show things"
        )
    found, install = best(kind)
    if found is None:
        return None, f"no encoder is installed; for a much better result run: {install}"
    return found, f"{found}, the best that is installed" + (f"; for a better one run: {install}" if install else "")


def _is_small_grey(shape: Sequence[int]) -> bool:
    height, width, *channels = shape
    return max(height, width) <= SMALL_GREY and channels in ([], [1])


def side_for(shape: Sequence[int] | None) -> int:
    """The side at which an encoder sees pictures of this height and width; None if they differ."""
    return SMALL_SIDE if shape is not None and max(shape[:2]) <= SMALL else SIDE


def text_encoder_for(texts: Sequence[str]) -> tuple[str | None, str]:
    """Which encoder `auto` takes for texts, or None for word vectors; and why, in a sentence.

    MiniLM was taught English. It breaks other languages into syllables and letters, by which they are recognised.
    """
    found, why = choose("text")
    if found is None:
        return None, f"word vectors of these texts alone: {why}"
    step = max(1, len(texts) // LOOKED_AT)
    share = unknown_share([str(text)[:2000] for text in texts[::step]])
    if share > UNKNOWN:
        return None, (
            f"word vectors of these texts alone: {found} does not know {100 * share:.0f} % of their words, so they are "
            "not in English"
        )
    return found, why


def listed() -> Iterable[type[Encoder]]:
    """Every encoder there is."""
    return parts("encoder").values()


def restore(fields: Mapping[str, Any], given: Any = None, changed: Changed | None = None, **settings: Any) -> Encoder:
    """The encoder that a run was made with, by what its `as_json` said; another one is refused.

    Args:
        fields: what `as_json` gave.
        given: the file or folder of a family's encoder, an encoder, or one's own module or function, given again.
        changed: gives the weights that tuning changed, where the run's encoder was tuned.
        settings: of the encoder, beside those that the fields have.
    """
    name, kind = fields.get("name"), fields.get("kind")
    if not isinstance(name, str) or kind not in ("image", "text") or len(name) > 1000:
        raise EncoderError("the run does not say which encoder it was made with")
    if "tuned_from" in fields:
        return _tuned_again(fields, given, changed, settings)
    family = name.partition(":")[0]
    if isinstance(given, Encoder):
        encoder = given
    elif given is not None and not isinstance(given, str | os.PathLike):
        encoder = _own_again(given, name, fields)
    elif family == "own":
        raise EncoderError(f"the run was made with an encoder of your own, {name}; give it again, as encoder=…")
    else:
        encoder = _open_again(name, given, fields, settings)
    for key, ours in (("kind", encoder.kind), ("dimension", encoder.dimension), ("sha256", encoder.checksum)):
        if fields.get(key) != ours:
            what = "of other weights" if key == "sha256" else f"of {key} {fields.get(key)!r:.30}, not {ours}"
            same = f", not those of {encoder.full_name} here" if key == "sha256" else ""
            raise EncoderError(f"the run was made with {name} {what}{same}: its features would mean something else")
    return encoder


def _tuned_again(fields: Mapping[str, Any], given: Any, changed: Changed | None, settings: Any) -> Encoder:
    name = str(fields["name"])
    if changed is None:
        raise EncoderError(f"{name} was tuned for its run, whose folder has the weights: give the run folder")
    weights = changed()
    untuned = {key: value for key, value in fields.items() if key != "tuned_from"}
    came, way = untuned_name(name)
    untuned |= {"name": came, "sha256": fields["tuned_from"]}
    tuned = tuned_from(restore(untuned, given, **settings), weights, way)
    if tuned.checksum != fields.get("sha256"):
        raise EncoderError(f"the tuned weights beside this model are of another run: its {name} had others")
    return tuned


def _open_again(name: str, given: str | os.PathLike[str] | None, fields: Mapping[str, Any], more: Any) -> Encoder:
    part, argument = encoder_named(name)
    family = part.name
    if part.argument and given is not None:
        argument = os.fspath(given)
        argument = argument.removeprefix(f"{family}:")
    elif part.argument and fields.get("origin") != "hub" and not os.path.exists(argument):
        raise EncoderError(
            f"the run was made with {name}, and {argument} is not in this folder; say where it is, as "
            f"--encoder {family}:{part.argument}"
        )
    known = part.Settings().as_json()
    settings = {"encoder_side": fields.get("side")} if "encoder_side" in known and "side" in fields else {}
    if "encoder_precision" in known:
        settings["encoder_precision"] = _asked(fields)
    if missing := part.missing():
        raise EncoderError(f"the run was made with {name}, which is not installed; run: {missing}")
    try:
        return _opened(part, argument, part.Settings(**settings | more))
    except ValueError as error:
        raise error if isinstance(error, EncoderError) else EncoderError(f"the run's encoder: {error}") from None


def _asked(fields: Mapping[str, Any]) -> Any:
    """The precision that was asked for; runs did not always keep it, but int8 is taken only where it is asked for."""
    int8 = str(fields.get("precision", "")).startswith("int8")
    return fields.get("asked", "int8" if int8 else "auto")


def _own_again(function: Any, name: str, fields: Mapping[str, Any]) -> Encoder:
    if fields.get("kind") == "text":
        return own(function, "text", name=name.removeprefix("own:"))
    try:
        side, crop, mean, std = int(fields["side"]), float(fields["crop"]), tuple(fields["mean"]), tuple(fields["std"])
    except (KeyError, TypeError, ValueError):
        raise EncoderError(f"the run does not say how pictures were prepared for {name}") from None
    return own(function, "image", name=name.removeprefix("own:"), side=side, crop=crop, mean=mean, std=std)
