"""One real deployment for all tests of this folder: most of a minute to start, two cores even while idle."""

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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """That deployment comes last: beside it the tests that launch their own would not have a core left."""
    items.sort(key=lambda item: "real_stack" in getattr(item, "fixturenames", ()))
