"""Random views of a sample, each a function of (seed, stream, step, sample index) alone.

    weak, strong = WeakImage(seed=0), StrongImage(seed=0)
    x_weak, x_strong = weak(images, indices, step), strong(images, indices, step)

Streams tell several views of one sample in one step apart: `weak(images, indices, step, stream=1)` is another draw.
"""

from halfsure.settings.registry import discover
from halfsure.views.array import ArrayView
from halfsure.views.image import Plain, StrongImage, WeakImage
from halfsure.views.maker import ViewMaker
from halfsure.views.words import TextView

__all__ = ["ArrayView", "Plain", "StrongImage", "TextView", "ViewMaker", "WeakImage"]

discover(__name__)
