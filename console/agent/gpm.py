"""GPU performance monitoring (GPM): how much of a card works, where NVML's utilisation only says whether."""

from __future__ import annotations

import math
from typing import Any

FIELDS = (
    ("activity_pct", "NVML_GPM_METRIC_SM_UTIL"),
    ("occupancy_pct", "NVML_GPM_METRIC_SM_OCCUPANCY"),
    ("tensor_pct", "NVML_GPM_METRIC_ANY_TENSOR_UTIL"),
    ("dram_pct", "NVML_GPM_METRIC_DRAM_BW_UTIL"),
    ("pcie_tx_mb_s", "NVML_GPM_METRIC_PCIE_TX_PER_SEC"),
    ("pcie_rx_mb_s", "NVML_GPM_METRIC_PCIE_RX_PER_SEC"),
)
"""Never NVML_GPM_METRIC_GRAPHICS_UTIL: it alone costs 1.5 ms of CPU a reading, all of these 0.01 ms."""

MB_PER_MIB = 1.048576
"""GPM gives PCIe traffic in MiB/s (nvml.h, and the metric's own unit string)."""

SCALE = {"pcie_tx_mb_s": MB_PER_MIB, "pcie_rx_mb_s": MB_PER_MIB}


class Gpm:
    """GPM of one GPU: each reading covers the time since the one before."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        self._before = nvml.nvmlGpmSampleAlloc()
        self._after = nvml.nvmlGpmSampleAlloc()
        self._primed = False
        self._get = nvml.c_nvmlGpmMetricsGet_t()
        self._get.version = nvml.NVML_GPM_METRICS_GET_VERSION
        self._get.numMetrics = len(FIELDS)
        for place, (_, metric) in enumerate(FIELDS):
            self._get.metrics[place].metricId = getattr(nvml, metric)

    def read(self, handle: Any) -> dict[str, float | None]:
        """The fields of FIELDS; empty at the first reading. Raises NVMLError."""
        primed, self._primed = self._primed, False
        self._nvml.nvmlGpmSampleGet(handle, self._after)
        self._before, self._after = self._after, self._before
        self._primed = True
        return self._metrics() if primed else {}

    def _metrics(self) -> dict[str, float | None]:
        self._get.sample1, self._get.sample2 = self._after, self._before
        self._nvml.nvmlGpmMetricsGet(self._get)
        got = zip(FIELDS, self._get.metrics)
        return {name: value(metric, SCALE.get(name, 1.0)) for (name, _), metric in got}

    def close(self) -> None:
        """Give the two sample buffers back. Raises NVMLError."""
        self._nvml.nvmlGpmSampleFree(self._before)
        self._nvml.nvmlGpmSampleFree(self._after)


def value(metric: Any, scale: float) -> float | None:
    """A metric in our unit. Two samples too close to each other may give what is no number."""
    return metric.value * scale if metric.nvmlReturn == 0 and math.isfinite(metric.value) else None


def opened(nvml: Any, handle: Any) -> Gpm | None:
    """GPM for a GPU, or None where the card, the driver or the binding does not have it."""
    if not hasattr(nvml, "nvmlGpmQueryDeviceSupport"):
        return None
    try:
        if not nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice:
            return None
        return Gpm(nvml)
    except nvml.NVMLError:
        return None
