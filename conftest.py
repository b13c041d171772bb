"""What holds for every test, those in docstrings and documents too."""

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

# What is left alone where an optional package is missing; `tests/kernels/test_gpu.py` says that it is.
collect_ignore = [] if find_spec("triton") else ["src/halfsure/kernels/gpu.py", "tests/kernels/in_interpreter.py"]


@pytest.fixture(scope="session", autouse=True)
def _own_bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A bank for the tests and the processes they start; weights and official sets stay where the user has them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HALFSURE_BANK", str(tmp_path_factory.mktemp("bank")))
        yield
