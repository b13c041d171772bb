"""Gates, one file each: how much an unlabeled sample counts."""

from halfsure.settings.registry import discover
from halfsure.targets.gates.always import Always
from halfsure.targets.gates.fixed import Fixed
from halfsure.targets.gates.informed import Informed

__all__ = ["Always", "Fixed", "Informed"]

discover(__name__)
