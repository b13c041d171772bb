"""One process or many: the same code, with sums over all ranks where they matter."""

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, distributed, nn
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel

from halfsure.training.errors import RunError

__all__ = ["Ranks", "ToldError", "device_of", "launched"]


T = TypeVar("T")

# Process groups live as long as the process. Where the last reference goes right after a collective, torch 2.13 can
# wait for ever: the destructor joins gloo's threads while it holds the interpreter's lock, and one of them needs that
# lock to let go of a tensor.
GROUPS: list[object] = []

LOST = ("gloo/transport", "NCCL", "Connection closed by peer", "Connection reset by peer")
"""Words of torch where another rank is gone."""


class ToldError(RunError):
    """A refusal that the first rank tells of."""


@dataclass(frozen=True)
class Ranks:
    """Which of how many processes this is."""

    rank: int = 0
    size: int = 1

    @property
    def first(self) -> bool:
        """Whether this process is the one that writes."""
        return self.rank == 0

    def sums(self, *numbers: float) -> list[float]:
        """The sums over ranks of a few numbers, the same on each, by one message."""
        if self.size == 1:
            return list(numbers)
        together = torch.tensor(numbers, dtype=torch.float64, device=_device())
        distributed.all_reduce(together)
        return together.tolist()

    def mean(self, values: Tensor, count: float | None = None) -> Tensor:
        """This rank's part of the mean over the samples of all ranks; the *average* of all parts is the mean.

        That is what averaging gradients needs: shards may be of unequal size, and even empty. `count` is the number of
        samples of all ranks, for which they ask each other if it is not given. (n,) → scalar.
        """
        if self.size == 1:
            return values.sum() / max(len(values), 1)
        if count is None:
            (count,) = self.sums(len(values))
        return values.sum() * (self.size / max(count, 1.0))

    def average(self, values: Tensor) -> Tensor:
        """The average over ranks, the same on each. The shape stays."""
        if self.size > 1:
            values = values.clone()
            distributed.all_reduce(values)
        return values / self.size

    def any(self, condition: bool) -> bool:
        """Whether it holds on any rank."""
        return self.sums(condition)[0] > 0

    def same(self, value: float) -> float:
        """The first rank's number, on all."""
        if self.size == 1:
            return value
        number = torch.tensor(value, dtype=torch.float64, device=_device())
        distributed.broadcast(number, 0)
        return float(number)

    def gather(self, rows: Tensor, total: int) -> Tensor:
        """Rows that were dealt out in turn (rank, rank + size, …), together again. (n_rank, …) → (total, …)."""
        if self.size == 1:
            return rows
        longest = -(-total // self.size)
        padded = rows.new_zeros((longest, *rows.shape[1:]))
        padded[: len(rows)] = rows
        shards = [torch.empty_like(padded) for _ in range(self.size)]
        distributed.all_gather(shards, padded)
        return torch.stack(shards, 1).flatten(0, 1)[:total]

    def gathered(self, rows: Tensor) -> Tensor:
        """The rows of all ranks, rank after rank, without a gradient; each may have another number. (n, …) → (N, …)."""
        if self.size == 1:
            return rows
        counts = [int(count) for count in self.all_objects(len(rows))]
        padded = rows.new_zeros((max(counts), *rows.shape[1:]))
        padded[: len(rows)] = rows.detach()
        shards = [torch.empty_like(padded) for _ in counts]
        distributed.all_gather(shards, padded)
        return torch.cat([shard[:count] for shard, count in zip(shards, counts, strict=True)])

    def average_gradients(self, weights: Sequence[nn.Parameter]) -> None:
        """Average the gradients of weights that `wrap` does not know of; one that a rank lacks counts as 0."""
        if self.size > 1:
            for weight in weights:
                weight.grad = self.average(torch.zeros_like(weight) if weight.grad is None else weight.grad)

    def same_object(self, value: T) -> T:
        """The first rank's value, on all."""
        if self.size == 1:
            return value
        holder = [value]
        distributed.broadcast_object_list(holder, 0)
        return holder[0]

    def by_first(self, work: Callable[[], T]) -> T:
        """What the first rank finds, on all; what it refuses all refuse, and it alone has to say why."""
        if self.size == 1:
            return work()
        found: tuple[T | None, Exception | None] = (None, None)
        if self.first:
            try:
                found = work(), None
            except (RunError, OSError) as error:
                found = None, error
        result, refusal = self.same_object(found)
        if refusal is not None:
            raise refusal if self.first else ToldError(str(refusal))
        return cast("T", result)

    def all_objects(self, value: T) -> list[T]:
        """The values of all ranks, in their order."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        distributed.all_gather_object(values, value)
        return values

    def share_buffers(self, model: nn.Module) -> None:
        """Give every rank the first rank's buffers: batch-norm statistics are each rank's own."""
        if self.size > 1:
            for buffer in model.buffers():
                distributed.broadcast(buffer, 0)

    def wrap(self, model: nn.Module, device: torch.device) -> nn.Module:
        """The model whose backward pass averages gradients over ranks."""
        if self.size == 1:
            return model
        if device.type == "cuda":
            model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
        ids = [device] if device.type == "cuda" else None
        with warnings.catch_warnings():
            # Batch-norm statistics stay each rank's own on the CPU; the first rank's are evaluated and saved. The newer
            # name of this option is not known to older versions of torch.
            warnings.filterwarnings("ignore", "`broadcast_buffers` is deprecated")
            return DistributedDataParallel(_Passes(model), device_ids=ids, broadcast_buffers=False)


class _Passes(nn.Module):
    """A network whose features can be asked for by the pass that the ranks share."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, samples: Tensor, features: bool = False) -> Tensor:
        found: Tensor = self.model.features(samples) if features else self.model(samples)  # type: ignore[operator]
        return found


def launched() -> bool:
    """Whether torchrun started this process."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


@contextmanager
def ranks_for(device: torch.device) -> Iterator[Ranks]:
    """The ranks torchrun launched, joined for the time of the block; else one process alone."""
    with _joined(device) as ranks:
        try:
            yield ranks
        except RuntimeError as error:
            if ranks.size > 1 and any(words in str(error) for words in LOST):
                raise RunError(
                    "another process of this run has ended, and so this one cannot go on; what was saved is kept"
                ) from error
            raise


@contextmanager
def _joined(device: torch.device) -> Iterator[Ranks]:
    if not distributed.is_available():
        yield Ranks()
    elif distributed.is_initialized():
        yield Ranks(distributed.get_rank(), distributed.get_world_size())
    elif launched():
        if device.type == "cuda":
            torch.cuda.set_device(device)
        # With gloo beside it, numbers of the host take a way on which nobody waits for a GPU.
        backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        store, rank, size = next(rendezvous("env://"))
        if os.environ.get("LOCAL_WORLD_SIZE") == os.environ["WORLD_SIZE"]:
            # After a restart the store still holds the addresses of the processes that are gone: each life has its own
            # part of it. (Over several machines the count may differ, pytorch#135712.)
            store = distributed.distributed_c10d.PrefixStore(
                f"life {os.environ.get('TORCHELASTIC_RESTART_COUNT')}", store
            )
        distributed.init_process_group(backend, store=store, rank=rank, world_size=size)
        GROUPS.append(distributed.group.WORLD)
        try:
            yield Ranks(distributed.get_rank(), distributed.get_world_size())
        finally:
            distributed.destroy_process_group()
    else:
        yield Ranks()


def device_of(name: str) -> torch.device:
    """The device of a name, if one can train on such, whether it is here or not."""
    try:
        device = torch.device(name)
    except RuntimeError:
        raise RunError(f"there is no device {name!r}; say cpu, cuda or cuda:1") from None
    if device.type not in ("cpu", "cuda"):
        raise RunError(f"training on {device.type} is not supported; say cpu, cuda or cuda:1")
    return device


def local_device(name: str) -> torch.device:
    """The device of a name; `cuda` alone is, under torchrun, the one of this process."""
    device = device_of(name)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise RunError("this torch has no CUDA device; leave --device away, or install a CUDA build of torch")
    own = name == "cuda" and "LOCAL_RANK" in os.environ
    return torch.device("cuda", int(os.environ["LOCAL_RANK"])) if own else device


def _device() -> torch.device:
    """Where numbers have to be for the others to see them."""
    return torch.device("cuda" if distributed.get_backend() == "nccl" else "cpu")
