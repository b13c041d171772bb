"""Probabilities → target and loss: the ways to make a model surer on samples that carry no label.

A strategy looks at the logits of unlabeled samples and says what the prediction should become. `losses(logits)`
gives a loss a sample, the call itself their mean, and `target(logits)` the goal where there is an explicit one.

| strategy         | pulls the prediction p towards                                                |
|------------------|-------------------------------------------------------------------------------|
| MinEntropy       | whatever lowers its Shannon entropy; no explicit target                        |
| Sharpening       | p^(1/λ), renormalised                                                          |
| PseudoLabel      | its best class alone, where that is sure enough                                |
| NegativeSampling | less of the classes it thinks negligible; no explicit target                   |
| ADS              | p², renormalised, p being sparse: only the sample's own candidates take part   |
| TopM             | p², renormalised, over a fixed number of candidates                            |

Each works in any map of `halfsure.simplex`.
"""

from halfsure.settings.registry import discover
from halfsure.targets.ads import ADS, ads_loss
from halfsure.targets.gate import Clock, Gate, Seen
from halfsure.targets.min_entropy import MinEntropy
from halfsure.targets.negative_sampling import NegativeSampling
from halfsure.targets.pseudo_label import PseudoLabel
from halfsure.targets.sharpening import Sharpening, kl, sharpen
from halfsure.targets.strategy import Strategy, Target
from halfsure.targets.top_m import TopM

__all__ = [
    "ADS",
    "Clock",
    "Gate",
    "MinEntropy",
    "NegativeSampling",
    "PseudoLabel",
    "Seen",
    "Sharpening",
    "Strategy",
    "Target",
    "TopM",
    "ads_loss",
    "kl",
    "sharpen",
]

discover(__name__)
