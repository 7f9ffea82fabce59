"""A host as values: what a watch would yield of a pair on eight GPUs, always the same."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Callable, Sequence

import msgspec

from console.domain.gpu import GpuProcess, GpuReport, GpuSample, HostSample, Sample
from console.domain.host_view import HostView
from console.domain.loghistory import LogSource
from console.domain.logline import LogLine
from console.domain.observation import LogUpdate, Servers, Update
from console.domain.server import LogPlace, Role, ServerProcess
from console.domain.server_view import ServerState, ServerView
from console.domain.throughput import Throughput
from console.ui.app import ConsoleApp
from console.ui.themes import DEFAULT_THEME, load_themes
from console.ui.widgets.meter import UNICODE, Glyphs

NOW = 1_795_999_493.0  # 2026-11-30 00:44:53 UTC

HOST = HostSample(
    hostname="ct200", time=NOW, cpus=128, load1=38.2, mem_total_mib=1_572_864.0, mem_available_mib=1_253_000.0
)
UP = HostView(
    name="ct200",
    address="ops@ct200",
    connection="up",
    rtt_ms=12.0,
    host=HOST,
    age_s=0.1,
    skew_s=0.0,
    since_s=9.0,
)


def gpu(index: int) -> GpuSample:
    """Prefill works on 0 to 3, decode on 4 to 7."""
    decode = index >= 4
    return GpuSample(
        index=index,
        uuid=f"GPU-{index}",
        name="NVIDIA RTX PRO 6000 Blackwell Server Edition",
        numa_node=int(decode),
        busy_pct=97.0 if decode else 88.0,
        activity_pct=34.0 if decode else 81.0,
        dram_pct=38.0,
        tensor_pct=6.0,
        pcie_tx_mb_s=1200.0,
        pcie_rx_mb_s=900.0,
        power_w=281.0 if decode else 540.0 + index,
        power_kind="average",
        power_limit_w=600.0,
        mem_used_mib=84_000.0,
        mem_total_mib=97_887.0,
        temp_c=60.0 + index,
        clock_mhz=2400.0,
        throttle=("power cap",) if index == 3 else (),
        processes=(GpuProcess(pid=100 + index, mem_mib=83_000.0, server_pid=5858 if decode else 5857),),
    )


REPORT = GpuReport(source="nvml", driver="580.95.05", gpus=tuple(map(gpu, range(8))))
SAMPLE = Sample(seq=2, host=HOST, gpu=REPORT)


def server(role: Role, port: int, pid: int, state: ServerState = "ready", **fields: object) -> ServerView:
    """A server that has been running for 2 h 14 min."""
    process = ServerProcess(
        pid=pid,
        start_ticks=pid,
        start_time=NOW - 8040,
        role=role,
        port=port,
        version="0.3.2" if role == "router" else "0.5.23",
        log=LogPlace(kind="file", path=f"/logs/{role}.log"),
    )
    return msgspec.convert({"process": process, "state": state} | fields, ServerView)


PREFILL = server("prefill", 30000, 5857, running=0, queued=0, kv_pct=12.0)
DECODE = server("decode", 30001, 5858, running=16, queued=2, kv_pct=71.0)
ROUTER = server("router", 8000, 5859, workers="1+1")
PAIR = Servers((PREFILL, DECODE, ROUTER))


def log(view: ServerView, *lines: LogLine) -> LogUpdate:
    """News of a server's log."""
    return LogUpdate(server=view.process.key, lines=lines)


LOGS = (
    log(
        PREFILL,
        LogLine(1, "[2026-11-30 00:30:11] The server is fired up and ready to roll!", "ready"),
        LogLine(2, "[2026-11-30 00:44:51 TP0] Prefill batch, #new-seq: 1, #new-token: 8192", "stats"),
    ),
    log(
        DECODE,
        LogLine(1, "[2026-11-30 00:40:02 TP0] KV cache pool is full. Retract requests.", "warning"),
        LogLine(2, "[2026-11-30 00:41:07 TP0] Decode transfer failed for request rank=0", "error"),
        LogLine(
            3, "[2026-11-30 00:44:52 TP0] Decode batch, #running-req: 16, gen throughput: 1048.2", "stats"
        ),
    ),
)
RATES = tuple(
    Throughput(
        time=float(second),
        gen_tok_s=round(900 + 150 * math.sin(second / 20), 1),
        prompt_tok_s=round(5000 + 1500 * math.sin(second / 30), 1),
        running=16,
        queued=2,
        source="counters",
    )
    for second in range(0, 300, 2)
)
EVERYTHING: tuple[Update, ...] = (UP, SAMPLE, PAIR, *LOGS, *RATES, SAMPLE, UP)


class Feed:
    """Updates for an app: those given at once, and more when the test says so."""

    def __init__(self, updates: Sequence[Update]) -> None:
        self._queue: asyncio.Queue[Update] = asyncio.Queue()
        self.more(*updates)

    def more(self, *updates: Update) -> None:
        """Yield these too."""
        for update in updates:
            self._queue.put_nowait(update)

    async def __call__(self) -> AsyncGenerator[Update, None]:
        while True:
            yield await self._queue.get()

    @property
    def drained(self) -> bool:
        """Everything was taken."""
        return self._queue.empty()


def app_with(
    feed: Callable[[], AsyncGenerator[Update, None]],
    glyphs: Glyphs = UNICODE,
    theme: str = DEFAULT_THEME,
    source: LogSource | None = None,
) -> ConsoleApp:
    """The console fed by `feed`."""
    return ConsoleApp(feed, themes=load_themes().themes, theme=theme, glyphs=glyphs, source=source)
