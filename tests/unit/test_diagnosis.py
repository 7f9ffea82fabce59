"""The verdict: which rule speaks first, and what it says when it cannot know."""

import msgspec
import pytest

from console.domain.deployment import observed
from console.domain.diagnosis import judge
from console.domain.gpu import GpuProcess, GpuReport, GpuSample
from console.domain.server import LogPlace, Role, ServerProcess
from console.domain.server_view import ServerState, ServerView

NO_REPORT = GpuReport(source="nvml")


def server(
    role: Role,
    state: ServerState = "ready",
    *,
    pid: int = 1,
    port: int = 30000,
    reason: str | None = None,
    gpus: tuple[int, ...] | None = None,
) -> ServerView:
    process = ServerProcess(
        pid=pid,
        start_ticks=1,
        start_time=0.0,
        role=role,
        port=port,
        gpus=gpus,
        log=LogPlace(kind="file", path="/l"),
    )
    return ServerView(process=process, state=state, reason=reason)


def card(index: int, *, owner: int | None = 1, **values: float) -> GpuSample:
    fields: dict[str, object] = {"busy_pct": 97.0, "power_w": 282.0, "power_limit_w": 600.0} | values
    processes = () if owner is None else (GpuProcess(pid=owner + 1, server_pid=owner),)
    return GpuSample(index=index, processes=processes, **fields)  # type: ignore[arg-type] # values are floats


PAIR = (server("prefill", pid=1), server("decode", pid=2, port=30001), server("router", pid=3, port=8000))


def test_nothing_is_said_of_nothing() -> None:
    assert judge((), NO_REPORT).text == "no SGLang server or router is running here"


def test_a_ready_pair_is_never_called_proven() -> None:
    verdict = judge(PAIR, NO_REPORT)
    assert "not proven" in verdict.text
    assert observed(PAIR).state == "roles up"


def test_a_failure_is_named_first_with_its_reason() -> None:
    verdict = judge((*PAIR[:1], server("decode", "failed", reason="out of memory")), NO_REPORT)
    assert verdict.text == "decode :30000 failed: out of memory"


def test_half_a_pair_is_no_pair() -> None:
    assert judge(PAIR[1:], NO_REPORT).text.startswith("half a pair: there is no prefill server")


def test_a_lost_gpu_is_named_with_its_user() -> None:
    report = GpuReport(
        source="nvml",
        gpus=(card(0), GpuSample(index=1, state="lost", processes=(GpuProcess(pid=9, server_pid=1),))),
    )
    assert judge((server("single"),), report).text == "GPU 1 (single) is lost: servers on it cannot go on"


def test_a_server_on_other_gpus_than_its_flags_name_is_told() -> None:
    report = GpuReport(source="nvml", gpus=(card(0, owner=None), card(1)))
    assert judge((server("single", gpus=(0,)),), report).text == "single works on GPUs 1, its flags name 0"


@pytest.mark.parametrize(
    ("values", "words", "confidence"),
    [
        ({}, "only GPM could tell", "undecided"),
        ({"dram_pct": 88.0, "activity_pct": 87.0}, "Memory-bound", "likely"),
        (
            {"dram_pct": 1.0, "activity_pct": 3.0, "pcie_tx_mb_s": 34600.0, "pcie_rx_mb_s": 30200.0},
            "PCIe",
            "likely",
        ),
        (
            {"dram_pct": 0.0, "activity_pct": 0.0, "pcie_tx_mb_s": 1.0, "pcie_rx_mb_s": 2.0},
            "communication or launch",
            "likely",
        ),
    ],
)
def test_busy_at_low_power_is_told_apart_by_gpm(
    values: dict[str, float], words: str, confidence: str
) -> None:
    verdict = judge((server("single"),), GpuReport(source="nvml", gpus=(card(0, **values),)))
    assert verdict.text.startswith("single is busy but cold: 97 % busy at 47 % power")
    assert words in verdict.text
    assert verdict.confidence == confidence


def test_hot_gpus_are_no_reason_to_speak() -> None:
    report = GpuReport(source="nvml", gpus=(card(0, power_w=570.0),))
    assert judge((server("single"),), report).text == "single :30000 ready"


@pytest.mark.parametrize(
    ("states", "deployment"),
    [
        ((), "none"),
        (("starting", "ready"), "starting"),
        (("failed", "ready"), "degraded"),
        (("failed", "failed"), "failed"),
    ],
)
def test_the_deployment_is_as_good_as_its_servers(states: tuple[ServerState, ...], deployment: str) -> None:
    assert observed([server("single", state) for state in states]).state == deployment


def test_a_degraded_server_is_told_with_what_to_do() -> None:
    view = msgspec.structs.replace(
        server("decode", reason="3 requests in a row failed"), phase="degraded", next="restart the pair"
    )
    verdict = judge((view,), NO_REPORT)
    assert verdict.text == "decode :30000 degraded: 3 requests in a row failed. Next: restart the pair"
    assert observed((view,)).state == "degraded"


def test_a_server_that_is_stopping_is_still_there() -> None:
    view = msgspec.structs.replace(server("single", "gone"), phase="stopping")
    assert observed((view,)).state == "stopping"
    assert observed((server("single", "gone"),)).state == "none"
