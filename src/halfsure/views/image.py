"""Views of images: uint8 batches (n, h, w, c) → normalised float batches (n, c, h, w) in channels_last.

The view of a sample depends on (seed, stream, step, sample index) and on nothing else: not on the batch it comes in,
its place there, the number of threads or the rank. Weak and strong views draw independently of each other.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from halfsure._checks import check_count, check_number
from halfsure.views import draws as _draws
from halfsure.views._ops import affine_table

__all__ = ["Plain", "StrongImage", "WeakImage"]

Images = NDArray[np.uint8] | Tensor
Levels = float | Sequence[float] | NDArray[np.floating]

LARGEST = 8192  # source coordinates have to fit 32 bits, 16 of them behind the point


@dataclass(frozen=True)
class Plain:
    """Normalise and change nothing else: the view for evaluation.

    Examples:
        >>> import numpy as np
        >>> from halfsure.views import Plain
        >>> Plain(mean=0, std=1)(np.full((1, 2, 2, 1), 51, np.uint8))
        tensor([[[[0.2000, 0.2000],
                  [0.2000, 0.2000]]]])
    """

    mean: Levels = 0.5
    """What is taken from the pixels, in [0, 1]: one number, or one a channel."""
    std: Levels = 0.5
    """What they are divided by afterwards: one number, or one a channel."""

    def __post_init__(self) -> None:
        _settle(self)

    def __call__(
        self, images: Images, indices: Any = None, step: int = 0, stream: int = 0, *, out: Tensor | None = None
    ) -> Tensor:
        """Uint8 (n, h, w, c) → float32 (n, c, h, w), in `out` if given; the rest is for random views, and unused."""
        check_images(images)
        nothing = np.zeros((len(images), _draws.FIRST_OP), np.int64)
        return render(images, nothing, 0, _norm(self, images.shape[3]), out=out)


@dataclass(frozen=True)
class WeakImage:
    """Flip at random and shift by a few pixels, reflecting at the borders.

    Examples:
        >>> import numpy as np
        >>> from halfsure.views import WeakImage
        >>> view, images = WeakImage(shift=2, seed=1), np.zeros((3, 28, 28, 1), np.uint8)
        >>> view(images, indices=[10, 11, 12], step=0).shape
        torch.Size([3, 1, 28, 28])
    """

    flip: bool = True
    """Mirror left to right with probability ½; off for digits and letters."""
    shift: int = 4
    """Shifts are uniform in −shift … shift pixels, down and across."""
    mean: Levels = 0.5
    """What is taken from the pixels, in [0, 1]: one number, or one a channel."""
    std: Levels = 0.5
    """What they are divided by afterwards: one number, or one a channel."""
    seed: int = 0
    """Chooses the randomness, together with the stream, the step and the sample index."""
    threads: int = 1
    """How many threads share a batch on the CPU; the result is the same for any number."""
    kind: ClassVar[int] = _draws.WEAK
    ops: ClassVar[int] = 0
    cutout: ClassVar[int] = 0

    def __post_init__(self) -> None:
        _settle(self)

    def __call__(
        self, images: Images, indices: ArrayLike | Tensor, step: int, stream: int = 0, *, out: Tensor | None = None
    ) -> Tensor:
        """Uint8 (n, h, w, c) and sample indices (n,) → float32 (n, c, h, w), in `out` if given."""
        return _view(self, images, indices, step, stream, out)


@dataclass(frozen=True)
class StrongImage:
    """Flip and shift, then RandAugment with ops drawn for each sample, then cut a grey square out.

    The ops, their probability ½ and their magnitudes at levels 1 … 9 are those FixMatch was run with; translations, by
    1 … 9 pixels of 32 there, grow with the image. Rotation and shear are about the centre with the nearest pixel;
    whatever comes in from outside is grey (128), as is the square.
    On grey images the colour op changes nothing.

    Examples:
        >>> import numpy as np
        >>> from halfsure.views import StrongImage
        >>> view, images = StrongImage(seed=1), np.zeros((3, 32, 32, 3), np.uint8)
        >>> view(images, indices=[10, 11, 12], step=0).shape
        torch.Size([3, 3, 32, 32])
    """

    ops: int = 2
    """How many ops are drawn for a sample, with replacement, from the 14."""
    flip: bool = True
    """Mirror left to right with probability ½; off for digits and letters."""
    shift: int = 4
    """Shifts are uniform in −shift … shift pixels, down and across."""
    cutout: int = 16
    """Side of the square cut out; its centre is uniform over the image, so that it may hang over a border."""
    mean: Levels = 0.5
    """What is taken from the pixels, in [0, 1]: one number, or one a channel."""
    std: Levels = 0.5
    """What they are divided by afterwards: one number, or one a channel."""
    seed: int = 0
    """Chooses the randomness, together with the stream, the step and the sample index."""
    threads: int = 1
    """How many threads share a batch on the CPU; the result is the same for any number."""
    kind: ClassVar[int] = _draws.STRONG

    def __post_init__(self) -> None:
        _settle(self)

    def __call__(
        self, images: Images, indices: ArrayLike | Tensor, step: int, stream: int = 0, *, out: Tensor | None = None
    ) -> Tensor:
        """Uint8 (n, h, w, c), c 1 or 3, and sample indices (n,) → float32 (n, c, h, w), in `out` if given."""
        check_images(images)
        if images.shape[3] not in (1, 3):
            raise ValueError(
                f"strong views take images of 1 or 3 channels (grey or RGB), got {images.shape[3]} in "
                f"{tuple(images.shape)}; WeakImage takes any number"
            )
        return _view(self, images, indices, step, stream, out)


def check_images(images: Any) -> None:
    """Accept uint8 images, (n, h, w, c)."""
    if not isinstance(images, np.ndarray | Tensor):
        raise TypeError(f"images must be a NumPy array or a torch.Tensor, got {type(images).__name__}")
    if images.dtype not in (np.uint8, torch.uint8):
        raise ValueError(f"images must be uint8, 0 … 255, got {images.dtype}; views normalise them by themselves")
    if images.ndim != 4:
        hint = "; add the channel dimension with [..., None]" if images.ndim == 3 else ""
        raise ValueError(f"images must be (n, h, w, c), got {tuple(images.shape)}{hint}")
    if min(images.shape[1:3]) < 2 or max(images.shape[1:3]) > LARGEST:
        raise ValueError(f"images must have 2 … {LARGEST} pixels a side, got (n, h, w, c) = {tuple(images.shape)}")
    if images.shape[3] < 1:
        raise ValueError(f"images must have at least one channel, got (n, h, w, c) = {tuple(images.shape)}")


def check_indices(indices: ArrayLike | Tensor, count: int) -> NDArray[np.int64]:
    """Return one sample index a row as int64, (n,)."""
    given = indices.cpu().numpy() if isinstance(indices, Tensor) else np.asarray(indices)
    if given.shape != (count,):
        raise ValueError(f"indices must be ({count},), one a sample, got {given.shape}")
    if count and given.dtype.kind not in "iu":
        raise ValueError(f"indices must be integers, got {given.dtype}")
    if count and (given.min() < 0 or (given.dtype == np.uint64 and given.max() >= 2**63)):
        raise ValueError(
            f"indices are places in the set, not negative and below 2⁶³, got {given.min()} … {given.max()}"
        )
    return np.ascontiguousarray(given, np.int64)


def check_out(out: Any, images: Images) -> None:
    """Accept a tensor that views of the images can be written to, (n, c, h, w) in channels_last."""
    n, h, w, c = images.shape
    device = images.device if isinstance(images, Tensor) else torch.device("cpu")
    if not isinstance(out, Tensor) or out.dtype != torch.float32 or out.shape != (n, c, h, w) or out.device != device:
        got = f"{out.dtype} {tuple(out.shape)} on {out.device}" if isinstance(out, Tensor) else type(out).__name__
        raise ValueError(f"out must be a torch.float32 tensor {(n, c, h, w)} on {device}, got {got}")
    if not out.permute(0, 2, 3, 1).is_contiguous():
        raise ValueError(
            f"out must be in channels_last, got strides {out.stride()}; make it with "
            f"torch.empty({(n, c, h, w)}, memory_format=torch.channels_last)"
        )
    if out.requires_grad:
        raise ValueError("out must not require a gradient, as it is written over; call detach() on it")


def render(
    images: Images,
    plan: NDArray[np.int64],
    cutout: int,
    norm: NDArray[np.float32],
    *,
    threads: int = 1,
    out: Tensor | None = None,
) -> Tensor:
    """Carry a plan out where the images are. (n, h, w, c) → (n, c, h, w) in channels_last."""
    if out is not None:
        check_out(out, images)
    if isinstance(images, Tensor) and images.device.type != "cpu":
        from halfsure.views import _torch  # noqa: PLC0415 only other devices need it

        views = _torch.render(images, plan, cutout, norm)
        return views if out is None else out.copy_(views)
    from halfsure.views import _kernel  # noqa: PLC0415 numba is slow to import

    pixels = np.ascontiguousarray(images.numpy() if isinstance(images, Tensor) else images)
    n, h, w, c = pixels.shape
    result = torch.empty(n, h, w, c) if out is None else out.permute(0, 2, 3, 1)
    goal, table = result.numpy(), affine_table(h, w)
    if threads == 1 or n < 2 * threads:
        _kernel.render(pixels, plan, table, cutout, norm, goal)
    else:
        cuts = [n * k // threads for k in range(threads + 1)]

        def part(first: int, last: int) -> None:
            rows = slice(first, last)
            _kernel.render(pixels[rows], plan[rows], table, cutout, norm, goal[rows])

        # A pool a call: a kept one would be without its threads in a forked process, and wait for them forever.
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(part, cuts[:-1], cuts[1:]))
    return result.permute(0, 3, 1, 2) if out is None else out


def normaliser(mean: Levels, std: Levels, channels: int) -> NDArray[np.float32]:
    """Scale and bias of each channel, (2, c): (x / 255 − mean) / std is x · scale + bias."""
    means, stds = np.atleast_1d(np.asarray(mean)), np.atleast_1d(np.asarray(std))
    for name, values in (("mean", means), ("std", stds)):
        if len(values) not in (1, channels):
            raise ValueError(f"{name} must be one number or one for each of {channels} channels, got {len(values)}")
    norm = np.empty((2, channels), np.float32)
    norm[0], norm[1] = 1 / (255 * stds), -means / stds
    return norm


@lru_cache(maxsize=32)
def _norm(view: Plain | WeakImage | StrongImage, channels: int) -> NDArray[np.float32]:
    norm = normaliser(view.mean, view.std, channels)
    norm.flags.writeable = False
    return norm


def _view(  # noqa: PLR0917
    view: WeakImage | StrongImage,
    images: Images,
    indices: ArrayLike | Tensor,
    step: int,
    stream: int,
    out: Tensor | None,
) -> Tensor:
    check_images(images)
    n, height, width, channels = images.shape
    if view.shift >= min(height, width):
        raise ValueError(f"a shift of {view.shift} pixels needs images larger than that, got {height} × {width}")
    samples = check_indices(indices, n)
    base = _draws.base_key(view.kind, view.seed, check_count("stream", stream), check_count("step", step))
    sides = _draws.sides(height, width, flip=view.flip, shift=view.shift, ops=view.ops)
    if isinstance(images, Tensor) and images.device.type != "cpu":
        plan = _draws.image_plan(base, samples, sides)
    else:
        from halfsure.views import _kernel  # noqa: PLC0415 numba is slow to import

        plan = np.empty((n, _draws.FIRST_OP + 3 * view.ops), np.int64)
        _kernel.image_plan(base, samples, sides, plan)
    return render(images, plan, view.cutout, _norm(view, channels), threads=view.threads, out=out)


def _settle(view: Plain | WeakImage | StrongImage) -> None:
    """Check a view's settings, and keep lists as tuples so that equal views have equal hashes."""
    for field in fields(view):
        given: Any = getattr(view, field.name)
        if field.name in ("mean", "std"):
            several = isinstance(given, Sequence | np.ndarray | Tensor) and not isinstance(given, str)
            least = 1e-6 if field.name == "std" else -1e6
            numbers = tuple(check_number(field.name, value, least) for value in (given if several else [given]))
            given = numbers if several else numbers[0]
        elif field.name == "flip":
            if not isinstance(given, bool):
                raise ValueError(f"flip must be true or false, got {given!r:.60}")
        else:
            given = check_count(field.name, given, 1 if field.name == "threads" else 0)
        object.__setattr__(view, field.name, given)
