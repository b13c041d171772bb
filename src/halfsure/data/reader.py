"""What every reader shares: a source on the disk, or a name → Data."""

import difflib
from typing import Any, ClassVar

from halfsure._disk import reason
from halfsure.data.dataset import Data, DataError
from halfsure.settings import parts
from halfsure.settings.registry import Part

__all__ = ["Reader", "reader_of"]


class Reader(Part):
    """A way to read a source."""

    role = "reader"
    usual_labels: ClassVar[int | None] = None
    """How many labels of each class are drawn if nothing else is asked for; None takes all that are known."""
    names: ClassVar[tuple[str, ...]] = ()
    """Sources that it knows by name."""

    @classmethod
    def takes(cls, source: str) -> bool:
        """Whether it can read a source of this name."""
        raise NotImplementedError(f"{cls.__name__} does not say what it reads")

    @classmethod
    def read(cls, source: str, settings: Any) -> Data:
        """Every sample of the source; each with a known class counts as labeled."""
        raise NotImplementedError(f"{cls.__name__} does not say how it reads")


def reader_of(source: str) -> type[Reader]:
    """The first reader that takes a source."""
    try:
        found: list[type[Reader]] = [reader for reader in parts("reader").values() if reader.takes(source)]
    except OSError as error:  # a name that no file can have, or a folder that may not be looked into
        raise DataError(f"{source!s:.200}: {reason(error)}") from None
    if not found:
        names = [name for reader in parts("reader").values() for name in reader.names]
        near = difflib.get_close_matches(source, names, n=1)
        hint = f"did you mean {near[0]}?" if near else f"the official sets are {', '.join(names)}"
        raise DataError(f"{source} is neither an official set nor a folder, table or .npz file that exists; {hint}")
    return found[0]
