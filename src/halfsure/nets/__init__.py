"""Networks: images (n, channels, height, width) or rows (n, features) → logits (n, classes).

    model = build("wrn-28-2", shape=(32, 32, 3), classes=10)
    decayed, spared = kernels_and_rest(model)

Weights are drawn from torch's global generator, which nothing here seeds.
"""

from halfsure.nets.build import build, family, is_separable
from halfsure.nets.cnn13 import CNN13
from halfsure.nets.conv7 import Conv7
from halfsure.nets.layers import Norm, frozen_statistics, kernels_and_rest
from halfsure.nets.mlp import MLP
from halfsure.nets.network import DropoutSettings, Network, NetworkSettings
from halfsure.nets.wrn import WideResNet
from halfsure.settings.registry import discover

__all__ = [
    "CNN13",
    "MLP",
    "Conv7",
    "DropoutSettings",
    "Network",
    "NetworkSettings",
    "Norm",
    "WideResNet",
    "build",
    "family",
    "frozen_statistics",
    "is_separable",
    "kernels_and_rest",
]

discover(__name__)
