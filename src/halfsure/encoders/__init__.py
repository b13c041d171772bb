"""Pretrained networks: pictures and texts → features that a small network, or a few labels, can tell classes by.

    encoder = open_encoder("efficientnet-lite0")
    features = encoder.encode(pictures)

Each is a part, one file; `halfsure encoders` lists them.
"""

from halfsure.encoders.choosing import choose, open_encoder, restore
from halfsure.encoders.encoder import Encoder, EncoderError, PictureEncoder
from halfsure.encoders.own_encoder import own
from halfsure.settings.registry import discover

__all__ = ["Encoder", "EncoderError", "PictureEncoder", "choose", "open_encoder", "own", "restore"]

discover(__name__)
