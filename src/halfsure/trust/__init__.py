"""Samples held out of training → how far a model can be trusted, and what to do where it cannot.

Temperature, class prior, candidate sets, abstaining, intervals: functions of logits, probabilities and labels, in
float64; nothing here trains, reads or writes. What they are given has to come from samples the model did not learn
from: on its own training labels every model looks trustworthy.
"""

from halfsure.trust.abstain import abstain_threshold
from halfsure.trust.calibrate import estimate_prior, fit_temperature, temperature_note
from halfsure.trust.conformal import Conformal, class_scores
from halfsure.trust.guarantee import Guarantee
from halfsure.trust.intervals import paired_interval, wilson

__all__ = [
    "Conformal",
    "Guarantee",
    "abstain_threshold",
    "class_scores",
    "estimate_prior",
    "fit_temperature",
    "paired_interval",
    "temperature_note",
    "wilson",
]
