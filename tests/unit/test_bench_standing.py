"""What a result means, and whether the client was its limit."""

from __future__ import annotations

from typing import Any

import pytest

from console.domain.bench.load import LoadDone
from console.domain.bench.targets import in_words, references_in_words, standing
from console.domain.errors import ConsoleError
from tests.unit.bench_results import with_throughput

WELL = LoadDone(duration_s=10.0, cpu_pct=20.0, lag_p95_ms=0.3, lag_max_ms=4.0)
NOW = with_throughput(1048, id="now", at=9.0, max_concurrency=16)
TARGETS = {16: 1000.0}


def before(rate: float, at: float, **changes: Any) -> Any:
    return with_throughput(rate, id=f"at{at}", at=at, **{"max_concurrency": 16, **changes})


class TestStanding:
    def test_target_last_and_best(self) -> None:
        found = standing(NOW, TARGETS, [before(1017, 8.0), before(1400, 3.0), before(900, 1.0)])
        assert found.reached
        assert in_words(found) == (
            "C=16: 1,048 tok/s, 105 % of the target of 1,000; "
            "+3 % on the last (no difference shown); -25 % on the best (slower)"
        )

    def test_the_last_that_is_the_best_is_told_once(self) -> None:
        found = standing(NOW, TARGETS, [before(500, 8.0)])
        assert in_words(found).endswith("1,000; +110 % on the last (faster)")

    def test_without_a_target_or_a_history(self) -> None:
        found = standing(NOW, {1: 100.0}, [NOW])
        assert found.reached is None
        assert in_words(found) == "C=16: 1,048 tok/s"

    @pytest.mark.parametrize(
        "other", [{"max_concurrency": 1}, {"demo": True}, {"partial": "stopped"}, {"host": "other"}]
    )
    def test_what_cannot_be_compared_is_passed_over(self, other: dict[str, Any]) -> None:
        assert standing(NOW, TARGETS, [before(1000, 8.0, **other)]).last is None

    def test_almost_is_not_reached(self) -> None:
        found = standing(with_throughput(999.7, max_concurrency=16), TARGETS, [])
        assert found.reached is False
        assert "99 % of the target" in in_words(found)

    def test_without_success_nothing_is_said_of_the_last(self) -> None:
        with pytest.raises(ConsoleError, match="B cannot be compared"):
            standing(with_throughput(0, id="now", at=9.0, max_concurrency=16), TARGETS, [before(1000, 8.0)])

    def test_references(self) -> None:
        assert "1,291 tok/s, the larger model" in references_in_words()
