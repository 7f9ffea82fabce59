"""`logs --class`: which lines are asked for."""

from typing import get_args

import pytest

from console.cli.logs import chosen_classes
from console.domain.errors import UsageError
from console.domain.logline import LineClass


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        ("error", {"error"}),
        ("error,fatal", {"error", "fatal"}),
        (" error , ready,", {"error", "ready"}),
        ("", set(get_args(LineClass))),
    ],
)
def test_classes_are_named_with_commas(names: str, chosen: set[str]) -> None:
    assert chosen_classes(names) == chosen


def test_a_class_that_is_none_is_told_with_those_that_are() -> None:
    with pytest.raises(UsageError, match="no class 'eror'") as raised:
        chosen_classes("error,eror")
    assert raised.value.exit_code == 2
    assert "fatal, warning" in raised.value.next_step
