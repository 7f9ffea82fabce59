"""A simulated NVML and a simulated nvidia-smi, for the tests of the agent's GPU telemetry."""

# ruff: noqa: N802 - the calls are named as NVML names them

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml

GIB = 1 << 30
AVERAGE, INSTANT = 185, 186
"""NVML_FI_DEV_POWER_AVERAGE and _INSTANT, which old bindings do not name."""


def error(code: int) -> pynvml.NVMLError:
    return pynvml.NVMLError(code)


class FakeGpu:
    """What one simulated GPU answers; `fails` maps a call to the error code that it gives instead."""

    def __init__(self, number: int) -> None:
        self.uuid = f"GPU-{number}"
        self.bus_id = f"00000000:{0x18 + 16 * number:02X}:00.0"
        self.fails: dict[str, int] = {}
        self.everything_fails: int | None = None
        self.busy = 97
        self.field_watts: dict[int, float] = {AVERAGE: 400.0 + number, INSTANT: 900.0 + number}
        self.plain_watts = 300.0
        self.mig: list[int] | None = [0, 0]
        self.reasons = pynvml.nvmlClocksEventReasonSwPowerCap
        self.processes: list[SimpleNamespace] = []
        self.gpm: dict[int, float] | None = {}


class FakeNvml:
    """A stand-in for the pynvml module: its real constants, structures and errors, and simulated calls."""

    def __init__(self, gpus: int = 2) -> None:
        self.gpus = [FakeGpu(number) for number in range(gpus)]
        self.calls: Counter[str] = Counter()
        self.init_fails: int | None = None
        self.open = 0
        self._sampled = self.gpus[0]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("nvml") and callable(getattr(pynvml, name, None)):
            raise AttributeError(f"not simulated: {name}")
        return getattr(pynvml, name)

    def _asked(self, name: str, gpu: FakeGpu) -> None:
        self.calls[name] += 1
        code = gpu.everything_fails or gpu.fails.get(name)
        if code is not None:
            raise error(code)

    def nvmlInit(self) -> None:
        if self.init_fails is not None:
            raise error(self.init_fails)
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlSystemGetDriverVersion(self) -> str:
        return "580.159.04"

    def nvmlSystemGetNVMLVersion(self) -> bytes:
        return b"580.126"

    def nvmlDeviceGetCount(self) -> int:
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeGpu:
        self._asked("nvmlDeviceGetHandleByIndex", self.gpus[index])
        return self.gpus[index]

    def nvmlDeviceGetUUID(self, gpu: FakeGpu) -> str:
        return gpu.uuid

    def nvmlDeviceGetName(self, gpu: FakeGpu) -> bytes:
        return b"NVIDIA H200"

    def nvmlDeviceGetPciInfo(self, gpu: FakeGpu) -> SimpleNamespace:
        return SimpleNamespace(busId=gpu.bus_id.encode())

    def nvmlDeviceGetMigMode(self, gpu: FakeGpu) -> list[int]:
        self._asked("nvmlDeviceGetMigMode", gpu)
        if gpu.mig is None:
            raise error(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return gpu.mig

    def nvmlDeviceGetUtilizationRates(self, gpu: FakeGpu) -> SimpleNamespace:
        self._asked("nvmlDeviceGetUtilizationRates", gpu)
        return SimpleNamespace(gpu=gpu.busy, memory=5)

    def nvmlDeviceGetMemoryInfo(self, gpu: FakeGpu, version: int | None = None) -> SimpleNamespace:
        self._asked("nvmlDeviceGetMemoryInfo" + ("_v2" if version else ""), gpu)
        return SimpleNamespace(used=GIB if version else 2 * GIB, total=140 * GIB)

    def nvmlDeviceGetTemperature(self, gpu: FakeGpu, sensor: int) -> int:
        self._asked("nvmlDeviceGetTemperature", gpu)
        return 61

    def nvmlDeviceGetClockInfo(self, gpu: FakeGpu, clock: int) -> int:
        self._asked("nvmlDeviceGetClockInfo", gpu)
        return 1980

    def nvmlDeviceGetCurrentClocksEventReasons(self, gpu: FakeGpu) -> int:
        self._asked("nvmlDeviceGetCurrentClocksEventReasons", gpu)
        return gpu.reasons

    def nvmlDeviceGetFieldValues(self, gpu: FakeGpu, fields: list[int]) -> list[Any]:
        self._asked("nvmlDeviceGetFieldValues", gpu)
        values = (pynvml.c_nvmlFieldValue_t * len(fields))()
        for value, field in zip(values, fields, strict=True):
            watts = gpu.field_watts.get(field)
            value.nvmlReturn = 0 if watts is not None else pynvml.NVML_ERROR_NOT_SUPPORTED
            value.value.uiVal = int((watts or 0) * 1000)
        return list(values)

    def nvmlDeviceGetPowerUsage(self, gpu: FakeGpu) -> int:
        self._asked("nvmlDeviceGetPowerUsage", gpu)
        return int(gpu.plain_watts * 1000)

    def nvmlDeviceGetEnforcedPowerLimit(self, gpu: FakeGpu) -> int:
        self._asked("nvmlDeviceGetEnforcedPowerLimit", gpu)
        return 700_000

    def nvmlDeviceGetComputeRunningProcesses(self, gpu: FakeGpu) -> list[SimpleNamespace]:
        self._asked("nvmlDeviceGetComputeRunningProcesses", gpu)
        return gpu.processes

    def nvmlGpmQueryDeviceSupport(self, gpu: FakeGpu) -> SimpleNamespace:
        return SimpleNamespace(isSupportedDevice=int(gpu.gpm is not None))

    def nvmlGpmSampleAlloc(self) -> Any:
        self.calls["nvmlGpmSampleAlloc"] += 1
        return pynvml.c_nvmlGpmSample_t()

    def nvmlGpmSampleFree(self, sample: Any) -> None:
        self.calls["nvmlGpmSampleFree"] += 1

    def nvmlGpmSampleGet(self, gpu: FakeGpu, sample: Any) -> None:
        self._asked("nvmlGpmSampleGet", gpu)
        self._sampled = gpu

    def nvmlGpmMetricsGet(self, get: Any) -> None:
        self.calls["nvmlGpmMetricsGet"] += 1
        for place in range(get.numMetrics):
            metric = get.metrics[place]
            answer = (self._sampled.gpm or {}).get(metric.metricId)
            metric.nvmlReturn = 0 if answer is not None else pynvml.NVML_ERROR_NOT_SUPPORTED
            metric.value = answer or 0.0


class FakeSource:
    """A source whose readings the test lets through one by one; rows or an exception each."""

    name = "nvml"
    title = "NVML"
    driver: str | None = "580.159.04"

    def __init__(self, *, paced: bool = False) -> None:
        self.paced = paced
        self.answers: list[Any] = []
        self.may_answer = threading.Semaphore(0)
        self.under_way = 0
        self.most_under_way = 0
        self.reads = 0
        self.intervals: list[float] = []
        self.closed = False

    def read(self, interval: float) -> list[dict[str, Any]]:
        self.reads += 1
        self.intervals.append(interval)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        self.may_answer.acquire()
        self.under_way -= 1
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def let(self, *answers: Any) -> None:
        """Let that many readings through."""
        self.answers += answers
        self.may_answer.release(len(answers))

    def close(self) -> None:
        self.closed = True


SMI_PROGRAM = f"""#!{sys.executable} -S
import json, os, sys, time
here = os.path.dirname(os.path.abspath(__file__))
with open(here + "/started", "a") as log:
    log.write(json.dumps([os.getpid()] + sys.argv[1:]) + "\\n")
with open(here + "/scene.json") as source:
    scene = json.load(source)
options = dict(word.split("=", 1) for word in sys.argv[1:] if "=" in word)
if "--query-compute-apps" in options:
    print(scene.get("apps", ""))
    sys.exit(scene.get("apps_exit", 0))
if "say" in scene:
    print(scene["say"])
    sys.exit(scene.get("exit", 9))
fields = options["--query-gpu"].split(",")
for field in fields:
    if field in scene.get("refused", []):
        print('Field "%s" is not a valid field to query.\\n' % field)
        sys.exit(2)
only = sys.argv[sys.argv.index("-i") + 1].split(",") if "-i" in sys.argv else None
interval = int(sys.argv[sys.argv.index("-lms") + 1]) / 1000
while True:
    for gpu in scene["gpus"]:
        if only is None or gpu["pci.bus_id"].lower()[4:] in only:
            if "sentence" in gpu:
                print(gpu["sentence"], flush=True)
                if scene.get("gives_up"):
                    sys.exit(15)
            else:
                print(", ".join(gpu.get(field, "[N/A]") for field in fields), flush=True)
    time.sleep(interval)
"""


class FakeSmi:
    """A program called nvidia-smi in a folder, which plays a scene."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        program = folder / "nvidia-smi"
        program.write_text(SMI_PROGRAM)
        program.chmod(0o755)

    def play(self, **scene: Any) -> None:
        (self.folder / "scene.json").write_text(json.dumps(scene))

    def started(self) -> list[list[Any]]:
        """[pid, argument, ...] of each start so far."""
        log = self.folder / "started"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def smi_gpu(number: int, **cells: str) -> dict[str, str]:
    """The cells of one healthy simulated GPU."""
    return {
        "index": str(number),
        "uuid": f"GPU-{number}",
        "name": "NVIDIA B200",
        "pci.bus_id": f"00000000:{0x18 + 16 * number:02X}:00.0",
        "driver_version": "580.95.05",
        "mig.mode.current": "Disabled",
        "utilization.gpu": "97",
        "memory.used": "171203",
        "memory.total": "183359",
        "temperature.gpu": "61",
        "clocks.current.sm": "1965",
        "enforced.power.limit": "1000.00",
        "clocks_throttle_reasons.active": "0x0000000000000004",
        "power.draw.average": "812.44",
        "power.draw.instant": "987.65",
        "power.draw": "812.44",
        **cells,
    }
