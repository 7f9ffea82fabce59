"""NVML's ctypes structures that the simulated pynvml hands out, with nvidia-ml-py 13's names and fields."""
# ruff: noqa: N801, N816 - the names are nvidia-ml-py's

from __future__ import annotations

from ctypes import (
    POINTER,
    Structure,
    Union,
    c_char,
    c_char_p,
    c_double,
    c_int64,
    c_uint,
    c_uint32,
    c_ulonglong,
)

NVML_GPM_METRIC_MAX = 477


class c_nvmlMemory_t(Structure):
    _fields_ = (("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong))


class c_nvmlMemory_v2_t(Structure):
    _fields_ = (
        ("version", c_uint),
        ("total", c_ulonglong),
        ("reserved", c_ulonglong),
        ("free", c_ulonglong),
        ("used", c_ulonglong),
    )


class nvmlPciInfo_t(Structure):
    _fields_ = (
        ("busIdLegacy", c_char * 16),
        ("domain", c_uint),
        ("bus", c_uint),
        ("device", c_uint),
        ("pciDeviceId", c_uint),
        ("pciSubSystemId", c_uint),
        ("busId", c_char * 32),
    )


class c_nvmlUtilization_t(Structure):
    _fields_ = (("gpu", c_uint), ("memory", c_uint))


class c_nvmlValue_t(Union):
    _fields_ = (("dVal", c_double), ("uiVal", c_uint), ("ullVal", c_ulonglong))


class c_nvmlFieldValue_t(Structure):
    _fields_ = (
        ("fieldId", c_uint32),
        ("scopeId", c_uint32),
        ("timestamp", c_int64),
        ("latencyUsec", c_int64),
        ("valueType", c_uint),
        ("nvmlReturn", c_uint),
        ("value", c_nvmlValue_t),
    )


class struct_c_nvmlGpmSample_t(Structure):
    """Opaque to callers: here, the card's values at the sample's instant."""

    _fields_ = (("values", c_double * NVML_GPM_METRIC_MAX),)


c_nvmlGpmSample_t = POINTER(struct_c_nvmlGpmSample_t)


class c_metricInfo_t(Structure):
    _fields_ = (("shortName", c_char_p), ("longName", c_char_p), ("unit", c_char_p))


class c_nvmlGpmMetric_t(Structure):
    _fields_ = (
        ("metricId", c_uint),
        ("nvmlReturn", c_uint),
        ("value", c_double),
        ("metricInfo", c_metricInfo_t),
    )


class c_nvmlGpmMetricsGet_t(Structure):
    _fields_ = (
        ("version", c_uint),
        ("numMetrics", c_uint),
        ("sample1", c_nvmlGpmSample_t),
        ("sample2", c_nvmlGpmSample_t),
        ("metrics", c_nvmlGpmMetric_t * NVML_GPM_METRIC_MAX),
    )


class c_nvmlGpmSupport_t(Structure):
    _fields_ = (("version", c_uint), ("isSupportedDevice", c_uint))
