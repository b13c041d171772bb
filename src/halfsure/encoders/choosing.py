"""A name → an encoder: one that is asked for, or the best that is installed."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from halfsure.encoders.encoder import Encoder, EncoderError
from halfsure.settings import find, parts
from halfsure.settings.registry import nearest

__all__ = ["best", "encoder_named", "open_encoder"]

PREFERRED = {"image": ("efficientnet-lite0",), "text": ("minilm",)}
"""By kind, the best first."""


def encoder_named(name: str) -> tuple[type[Encoder], str]:
    """The part that a name means, and its argument."""
    family, _, argument = name.partition(":")
    known = parts("encoder")
    if family not in known:
        raise EncoderError(f"there is no encoder {name!r:.60}{nearest(family, ['auto', 'none', *known])}")
    kind: type[Encoder] = find("encoder", family)
    if bool(argument) != bool(kind.argument):
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
    encoder = kind.open(argument, kind.Settings(**settings))
    encoder.opened_as = name, settings
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


@dataclass(frozen=True)
class Choice:
    """An encoder that suits, or none, and why."""

    name: str | None
    why: str
    side: int | None = None


def choose(kind: str, *, shape: tuple[int, ...] | None = None, name: str = "") -> Choice:
    """The encoder for samples of a kind."""
    found, missing = best(kind)
    small = shape is not None and (shape[-1] == 1 or min(shape[:2]) <= 28)
    if small or name in ("svhn", "svhn-extra"):
        return Choice(None, "")
    if found is None:
        return Choice(None, f"better through an encoder: {missing}" if missing else "")
    side = None if shape is None else 128 if min(shape[:2]) <= 64 else 224
    return Choice(found, f"seen through {found}", side)


def text_encoder_for(texts: list[str]) -> Choice:
    """The encoder for texts."""
    return choose("text")


def restore(fields: dict[str, Any], given: Encoder | None = None) -> Encoder:
    """Open again."""
    more = {"encoder_side": fields["side"]} if "side" in fields else {}
    return given or open_encoder(fields["name"], **more)


def listed() -> Iterable[type[Encoder]]:
    """Every encoder there is."""
    return parts("encoder").values()
