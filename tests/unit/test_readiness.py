"""Ready is a conclusion: each way to it, and each way out of it."""

import pytest

from console.domain.logline import LineClass, LogLine
from console.domain.readiness import Evidence, Health, after_health, after_line, after_look, conclude

ARGS = "[2026-11-02 09:00:07] server_args=ServerArgs(model_path='/m', port=30000)"
READY = "[2026-11-02 09:06:40] The server is fired up and ready to roll!"
FATAL = "[2026-11-02 11:04:19 TP3] Scheduler hit an exception: Traceback (most recent call last):"
SIGTERM = (
    "[2026-11-02 22:10:03] SIGTERM received. signum=None frame=None. Draining requests and shutting down..."
)


def read(evidence: Evidence, *lines: tuple[str, LineClass]) -> Evidence:
    for number, (text, line_class) in enumerate(lines, 1):
        evidence = after_line(evidence, LogLine(number, text, line_class))
    return evidence


def test_the_ready_line_alone_is_not_ready() -> None:
    assert conclude(read(Evidence(), (ARGS, "config"), (READY, "ready")))[0] == "starting"


def test_a_green_port_without_the_ready_line_is_still_starting() -> None:
    evidence = after_health(read(Evidence(), (ARGS, "config")), "green")
    assert conclude(evidence) == ("starting", "the port answers, the ready line has not come")


def test_line_and_green_health_are_ready() -> None:
    assert conclude(after_health(read(Evidence(), (ARGS, "config"), (READY, "ready")), "green")) == (
        "ready",
        None,
    )


def test_without_the_log_of_its_start_green_health_is_enough() -> None:
    assert conclude(after_health(Evidence(), "green"))[0] == "ready"


def test_yesterdays_ready_line_does_not_count() -> None:
    evidence = read(Evidence(), (ARGS, "config"), (READY, "ready"), (SIGTERM, "plain"), (ARGS, "config"))
    assert conclude(after_health(evidence, "refused"))[0] == "starting"
    assert not evidence.ready_line


def test_yesterdays_crash_does_not_paint_today_red() -> None:
    evidence = read(Evidence(), (ARGS, "config"), (FATAL, "fatal"), (ARGS, "config"), (READY, "ready"))
    assert conclude(after_health(evidence, "green"))[0] == "ready"


def test_a_later_fatal_line_takes_ready_away() -> None:
    evidence = after_health(read(Evidence(), (ARGS, "config"), (READY, "ready")), "green")
    assert conclude(read(evidence, (FATAL, "fatal"))) == ("failed", FATAL)


def test_the_first_cause_stays() -> None:
    evidence = read(Evidence(), (FATAL, "fatal"), ("SIGQUIT received.", "fatal"))
    assert conclude(evidence)[1] == FATAL


def test_what_a_stop_in_order_prints_is_no_failure() -> None:
    evidence = read(
        Evidence(), (ARGS, "config"), (SIGTERM, "plain"), ("Subprocess scheduler_0 crashed", "fatal")
    )
    assert conclude(after_look(evidence, alive=False)) == ("gone", "stopped in order")


def test_death_in_silence_is_a_failure() -> None:
    evidence = after_look(read(Evidence(), (ARGS, "config"), ("Load weight begin.", "plain")), alive=False)
    state, reason = conclude(evidence)
    assert state == "failed"
    assert reason is not None
    assert "killed from outside" in reason


def test_a_failed_pd_warmup_is_a_failure_although_the_ready_line_follows() -> None:
    failed = "Disaggregation warmup failed (mode=decode), status codes: [500]"
    evidence = read(Evidence(), (ARGS, "config"), (failed, "error"), (READY, "ready"))
    assert conclude(after_health(evidence, "red")) == ("failed", failed)


@pytest.mark.parametrize(
    ("answers", "state"), [(["red"], "ready"), (["red", "red"], "failed"), (["red", "green"], "ready")]
)
def test_one_slow_answer_is_no_death(answers: list[Health], state: str) -> None:
    evidence = after_health(read(Evidence(), (ARGS, "config"), (READY, "ready")), "green")
    for answer in answers:
        evidence = after_health(evidence, answer, "health 503")
    assert conclude(evidence)[0] == state


def test_a_stopped_process_is_told_as_such() -> None:
    evidence = after_look(after_health(Evidence(), "green"), alive=True, kernel_state="T")
    assert "SIGSTOP" in str(conclude(evidence)[1])


def test_a_zombie_is_not_alive() -> None:
    assert conclude(after_look(Evidence(), alive=True, kernel_state="Z"))[0] == "gone"
