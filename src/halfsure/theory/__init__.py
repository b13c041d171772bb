"""The paper's analysis as functions to call and plot: curves, regions, thresholds and entropies.

Everything here is NumPy in closed form and knows nothing of `halfsure.targets`: the tests hold the one against the
other. Where the paper is wrong the corrected statement stands here; `docs/errata.md` has the proofs.
"""

from halfsure.theory.curves import (
    CURVES,
    Curve,
    ads_curve,
    me_curve,
    ns_curve,
    pl_curve,
    sh_curve,
    sparse_probability,
)
from halfsure.theory.entropy import ads_potential, argmax_on_simplex, gini_entropy, renyi_entropy, shannon_entropy
from halfsure.theory.thresholds import (
    TRAITS,
    Region,
    Traits,
    acts,
    ads_vanishes,
    determinate_range,
    determinate_threshold,
    largest_masked,
    negligible_range,
    negligible_threshold,
    regions,
    support_size,
)

__all__ = [
    "CURVES",
    "TRAITS",
    "Curve",
    "Region",
    "Traits",
    "acts",
    "ads_curve",
    "ads_potential",
    "ads_vanishes",
    "argmax_on_simplex",
    "determinate_range",
    "determinate_threshold",
    "gini_entropy",
    "largest_masked",
    "me_curve",
    "negligible_range",
    "negligible_threshold",
    "ns_curve",
    "pl_curve",
    "regions",
    "renyi_entropy",
    "sh_curve",
    "shannon_entropy",
    "sparse_probability",
    "support_size",
]
