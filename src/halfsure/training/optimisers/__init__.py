"""Optimisers, one file each."""

from halfsure.settings.registry import discover
from halfsure.training.optimisers.optimiser import Optimiser, OptimiserSettings, rate

__all__ = ["Optimiser", "OptimiserSettings", "rate"]

discover(__name__)
