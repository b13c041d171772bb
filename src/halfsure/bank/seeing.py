"""Pictures and texts of a source seen through the encoder that is asked for, or the best there is for them."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any

from rich.console import Console

from halfsure.bank.encoded import Banked, Opener, Plan, PretrainedText, encode_pictures
from halfsure.bank.tuned import Tune
from halfsure.data import Data, DataError
from halfsure.data.dataset import Text
from halfsure.data.load import read_source
from halfsure.data.reader import reader_of
from halfsure.data.text import TextRows, fit_text
from halfsure.encoders import Encoder
from halfsure.encoders.choosing import choose, encoder_named, open_encoder, side_for, text_encoder_for
from halfsure.encoders.encoder import PictureSettings
from halfsure.settings import EVERYDAY, Between, Count, declared
from halfsure.views.of_images import DIGITS

__all__ = [
    "AUTO",
    "NONE",
    "WORDS",
    "EncoderWanted",
    "TextsSeen",
    "encoder_of",
    "notice_of",
    "own_encoder",
    "see_pictures",
    "see_source",
    "weights_of",
]

AUTO, NONE, WORDS = "auto", "none", "words"


@dataclass(frozen=True)
class EncoderWanted(PictureSettings):
    """Which encoder pictures and texts are seen through, and in how many views."""

    encoder: Annotated[str, EVERYDAY] = AUTO
    """Pretrained network that pictures or texts are seen through: {encoder}; auto takes the best that is installed, and
    none does without."""
    tune: Annotated[Tune, EVERYDAY] = "none"
    """Whether the encoder is tuned: pairs first teaches it which labeled samples belong together, auto does so where
    held-out labels say that it pays and two minutes are enough to find out; last and all train its last blocks, or all
    of it, together with the classifier."""
    tune_unlabeled: Count = 1000
    """With tune pairs and auto: unlabeled samples that are looked at, of which the surest take part; 0 for none."""
    tune_rate: Annotated[float, Between(0, 1)] = 0.05
    """With tune last and all: the encoder's learning rate, as a part of the classifier's."""
    weak_views: Count = Plan.weak
    """Views of each picture or text that are encoded: slightly changed."""
    strong_views: Count = Plan.strong
    """The same, strongly changed; 0 for none, which methods without strong views can do with."""


def see_source(source: str, wanted: EncoderWanted, reading: Mapping[str, Any], console: Console | None = None) -> Data:
    """Read a source; `reading` is what its reader is told."""
    takes = inspect.signature(reader_of(source).read).parameters
    if "text_encoder" in takes:
        texts = TextsSeen(wanted)
        data = read_source(source, text_encoder=texts, **reading)
        if wanted.encoder not in (AUTO, NONE) and not data.encoded:
            raise DataError(f"{source} has no texts for {wanted.encoder} to encode: take encoder none")
        return replace(data, notes=(*texts.told, *data.notes))
    if wanted.encoder == NONE:
        return read_source(source, **reading)
    lazily: dict[str, Any] = {"decoded": False} if "decoded" in takes else {}
    data = read_source(source, **lazily, **reading)
    if data.kind != "image":
        if wanted.encoder != AUTO:
            raise DataError(f"{source} holds neither pictures nor texts for {wanted.encoder}: take encoder none")
        return data
    return see_pictures(data, wanted, console, lambda: read_source(source, **reading) if lazily else data)


def see_pictures(
    data: Data,
    wanted: EncoderWanted,
    console: Console | None = None,
    otherwise: Callable[[], Data] | None = None,
    own: Encoder | None = None,
) -> Data:
    """Data of pictures through an encoder, perhaps one's `own`; `otherwise` gives them where none is to be used."""
    *_, height, width, channels = (data.encoding or {}).get("shape", data.train.samples.shape)
    best, why = choose("image", shape=(height, width, channels), name=data.name)
    name = own.full_name if own is not None else best if wanted.encoder == AUTO else wanted.encoder
    if name is None:
        plain = data if otherwise is None else otherwise()
        return replace(plain, notes=(why, *plain.notes))
    opener = opener_of(name, wanted, side_for((height, width))) if own is None else opener_of_own(own)
    if opener.encoder.kind != "image":
        raise DataError(f"{data.name} holds pictures, and {name} is an encoder of {opener.encoder.kind}s")
    plan = Plan(wanted.weak_views, wanted.strong_views, flip=channels == 3 and data.name not in DIGITS)
    seen = encode_pictures(data, opener, plan, console)
    said = f"seen through {why}" if wanted.encoder == AUTO and own is None else f"seen through {name}"
    side = getattr(opener.encoder, "side", None)
    size = f"pictures of about {width} × {height} pixels are shown to it at {side} × {side}"
    return replace(seen, notes=(f"{said}; {size}", *data.notes))


def opener_of(name: str, wanted: EncoderWanted, side: int | None = None) -> Opener:
    """How the encoder of a name is opened; `side` is for pictures that neither a person nor a file says a size for."""
    kind, _ = encoder_named(name)
    own = {setting.name for setting in declared(kind.Settings)}
    if wanted.encoder_side is not None and "encoder_side" not in own:
        raise DataError(f"{name} does not take pictures: omit encoder_side")
    told = {
        "encoder_precision": wanted.encoder_precision,
        "encoder_side": wanted.encoder_side or (side if kind.any_side else None),
    }
    return Opener(name, partial(open_encoder, name, **{key: value for key, value in told.items() if key in own}))


def opener_of_own(encoder: Encoder) -> Opener:
    """One that is open already."""
    return Opener(encoder.full_name, partial(_itself, encoder))


def _itself(encoder: Encoder) -> Encoder:
    return encoder


@dataclass
class TextsSeen:
    """How the texts of training become rows: through an encoder, or by the company their words keep."""

    wanted: EncoderWanted
    own: Encoder | None = None
    told: list[str] = field(default_factory=list)
    """What was chosen, in sentences."""

    def fit(self, texts: list[str]) -> TextRows:
        """Choose, and say what was chosen."""
        name = self.wanted.encoder if self.own is None else self.own.full_name
        if name == AUTO:
            best, why = text_encoder_for(texts)
            name, said = best or WORDS, f"texts are seen through {why}" if best else why
            self.told += [] if said in self.told else [said]
        if name in (NONE, WORDS):
            return fit_text(texts)
        opener = opener_of(name, self.wanted) if self.own is None else opener_of_own(self.own)
        if opener.encoder.kind != "text":
            raise DataError(f"there are texts to encode, and {name} is an encoder of pictures")
        said = f"texts are seen through {name}"
        self.told += [] if self.told or said in self.told else [said]
        return PretrainedText(opener, Plan(self.wanted.weak_views, self.wanted.strong_views))


def weights_of(data: Data) -> list[str]:
    """Checksums of the encoders that data are seen through: another one gives other features."""
    return sorted({one.opener.encoder.checksum for one in data.encoded if isinstance(one, Banked)})


def notice_of(data: Data) -> str:
    """Licence and notice of the encoders that data are seen through; empty if there are none."""
    encoders = [one.opener.encoder for one in data.encoded if isinstance(one, Banked)]
    texts = dict.fromkeys(f"{encoder.full_name}: {encoder.licence}\n\n{encoder.notice}" for encoder in encoders)
    return "\n\n".join(texts)


def own_encoder(data: Data) -> Encoder | None:
    """The encoder of one's own that data are seen through, before any tuning, if it is one's own."""
    openers = [(one.tuned or one).opener for one in data.encoded if isinstance(one, Banked)]
    return next((opener.encoder for opener in openers if opener.name.startswith("own:")), None)


def encoder_of(data: Data) -> str:
    """The name of the encoder that data are seen through, before any tuning; of texts by their words, words."""
    came = [one.tuned or one for one in data.encoded if isinstance(one, Banked)]
    names = [one.opener.name for one in came]
    words = any(isinstance(one, Text) for one in data.encoded)
    return names[0] if names else WORDS if words else NONE
