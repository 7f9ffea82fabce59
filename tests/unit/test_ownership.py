"""Which server a GPU works for: processes first, command lines second."""

from __future__ import annotations

import msgspec

from console.domain.gpu import GpuProcess, GpuReport, GpuSample
from console.domain.ownership import FREE, UNKNOWN, Owner, gpu_owners, held_gpus, misplaced
from console.domain.server import LogPlace, Role, ServerProcess


def server(role: Role, pid: int, gpus: tuple[int, ...] | None, port: int = 30000) -> ServerProcess:
    return ServerProcess(
        pid=pid, start_ticks=1, start_time=0.0, role=role, gpus=gpus, port=port, log=LogPlace(kind="pipe")
    )


def process(pid: int, server_pid: int | None = None, name: str | None = None, mem: float = 1.0) -> GpuProcess:
    return GpuProcess(pid=pid, server_pid=server_pid, name=name, mem_mib=mem)


def report(*processes: tuple[GpuProcess, ...] | None) -> GpuReport:
    gpus = tuple(GpuSample(index=index, processes=held) for index, held in enumerate(processes))
    return GpuReport(source="nvml", gpus=gpus)


PREFILL = server("prefill", 10, (0,))
DECODE = server("decode", 20, (1,), port=30001)


def test_processes_say_who_holds_a_card() -> None:
    owners = gpu_owners(report((process(11, 10),), (process(21, 20),), ()), [PREFILL, DECODE])
    assert owners == {
        0: Owner(role="prefill", pid=10, port=30000),
        1: Owner(role="decode", pid=20, port=30001),
        2: FREE,
    }


def test_cuda_counts_cards_in_another_order_than_the_driver() -> None:
    """The command lines say 0 and 1, CUDA's numbers; the driver's 1 and 2 are the cards that work."""
    seen = report((), (process(41931, 10),), (process(42077, 20),))
    owners = gpu_owners(seen, [PREFILL, DECODE])
    assert [owners[index].role for index in range(3)] == ["free", "prefill", "decode"]
    assert [(found.server.role, found.asked, found.held) for found in misplaced(seen, [PREFILL, DECODE])] == [
        ("prefill", (0,), (1,)),
        ("decode", (1,), (2,)),
    ]


def test_a_card_asked_for_and_not_yet_held_is_planned() -> None:
    pair = [server("decode", 20, (0, 1))]
    owners = gpu_owners(report((process(21, 20),), ()), pair)
    assert owners[0].role == "decode"
    assert not owners[0].planned
    assert owners[1].role == "decode"
    assert owners[1].planned
    assert misplaced(report((process(21, 20),), ()), pair) == []


def test_a_foreign_process_makes_a_card_other_and_names_it() -> None:
    owners = gpu_owners(
        report((process(7, name="small", mem=1.0), process(8, name="train.py", mem=900.0))), []
    )
    assert owners[0] == Owner(role="other", pid=8, foreign=("train.py", "small"))


def test_a_guest_on_a_servers_card_is_named_whatever_it_takes() -> None:
    owners = gpu_owners(report((process(11, 10, mem=1.0), process(9, mem=70000.0))), [PREFILL])
    assert owners[0].role == "prefill"
    assert owners[0].foreign == ("pid 9",)


def test_unreadable_processes_are_unknown_and_never_free() -> None:
    assert gpu_owners(report(None), []) == {0: UNKNOWN}


def test_a_lost_card_stays_with_the_server_that_asked_for_it() -> None:
    owners = gpu_owners(report((process(11, 10),), None), [server("prefill", 10, (0, 1))])
    assert owners[1] == Owner(role="prefill", planned=True, pid=10, port=30000)


def test_a_server_seen_on_a_card_before_it_was_found_is_unknown() -> None:
    assert gpu_owners(report((process(11, 10),)), [])[0] == Owner(role="unknown", pid=10)


def test_flags_that_do_not_tell_plan_nothing() -> None:
    silent = msgspec.structs.replace(PREFILL, gpus=None)
    assert gpu_owners(report(()), [silent])[0] == FREE
    assert misplaced(report((process(11, 10),)), [silent]) == []
    assert held_gpus(report((process(11, 10),)), silent) == (0,)
