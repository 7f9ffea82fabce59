"""NVML's return codes and exceptions, as nvidia-ml-py 13 has them."""

from __future__ import annotations

NVML_SUCCESS = 0
NVML_ERROR_UNINITIALIZED = 1
NVML_ERROR_INVALID_ARGUMENT = 2
NVML_ERROR_NOT_SUPPORTED = 3
NVML_ERROR_NO_PERMISSION = 4
NVML_ERROR_NOT_FOUND = 6
NVML_ERROR_DRIVER_NOT_LOADED = 9
NVML_ERROR_LIBRARY_NOT_FOUND = 12
NVML_ERROR_FUNCTION_NOT_FOUND = 13
NVML_ERROR_GPU_IS_LOST = 15
NVML_ERROR_RESET_REQUIRED = 16
NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18
NVML_ERROR_UNKNOWN = 999

_WORDS = {
    NVML_ERROR_UNINITIALIZED: ("Uninitialized", "Uninitialized"),
    NVML_ERROR_INVALID_ARGUMENT: ("InvalidArgument", "Invalid Argument"),
    NVML_ERROR_NOT_SUPPORTED: ("NotSupported", "Not Supported"),
    NVML_ERROR_NO_PERMISSION: ("NoPermission", "Insufficient Permissions"),
    NVML_ERROR_NOT_FOUND: ("NotFound", "Not Found"),
    NVML_ERROR_DRIVER_NOT_LOADED: ("DriverNotLoaded", "Driver Not Loaded"),
    NVML_ERROR_LIBRARY_NOT_FOUND: ("LibraryNotFound", "NVML Shared Library Not Found"),
    NVML_ERROR_FUNCTION_NOT_FOUND: ("FunctionNotFound", "Function Not Found"),
    NVML_ERROR_GPU_IS_LOST: ("GpuIsLost", "GPU is lost"),
    NVML_ERROR_RESET_REQUIRED: ("ResetRequired", "GPU requires restart"),
    NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
        "LibRmVersionMismatch",
        "RM has detected an NVML/RM version mismatch.",
    ),
    NVML_ERROR_UNKNOWN: ("Unknown", "Unknown Error"),
}


class NVMLError(Exception):
    """An NVML return code. NVMLError(code) makes the subclass of that code."""

    _classes: dict[int, type[NVMLError]] = {}  # noqa: RUF012 - filled below, as nvidia-ml-py does
    value: int

    def __new__(cls, value: int) -> NVMLError:
        made = Exception.__new__(cls._classes.get(value, cls) if cls is NVMLError else cls)
        made.value = value
        return made

    def __str__(self) -> str:
        return _WORDS[self.value][1]


def _subclass(code: int, name: str) -> type[NVMLError]:
    def make(cls: type[NVMLError]) -> NVMLError:
        return NVMLError.__new__(cls, code)

    return type(f"NVMLError_{name}", (NVMLError,), {"__new__": make})


for _code, (_name, _) in _WORDS.items():
    NVMLError._classes[_code] = globals()[f"NVMLError_{_name}"] = _subclass(_code, _name)


def error_words(code: int) -> str:
    """What the driver says for a code. Raises KeyError for one that is not listed."""
    return _WORDS[code][1]
