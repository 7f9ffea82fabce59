"""One real deployment for all tests of this folder: most of a minute to start, and half a core while idle."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.realstack.stack import RealStack


@pytest.fixture(scope="package")
def real_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealStack]:
    """Prefill, decode and router, ready."""
    with RealStack(tmp_path_factory.mktemp("realstack")) as stack:
        stack.wait_ready()
        yield stack


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealStack]:
    """One server without a router, ready."""
    with RealStack(tmp_path_factory.mktemp("single"), roles=("single",)) as stack:
        stack.wait_ready()
        yield stack


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """That deployment comes last: beside it the tests that launch their own would not have a core left."""
    items.sort(key=lambda item: "real_stack" in getattr(item, "fixturenames", ()))
