"""A module that takes this fixture in runs twice: on the kernels and on the plain torch code."""

from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from halfsure.kernels import plain_code

__all__ = ["code"]


@pytest.fixture(scope="module", autouse=True, params=["kernels", "plain"])
def code(request: pytest.FixtureRequest) -> Iterator[None]:
    with plain_code() if request.param == "plain" else nullcontext():
        yield
