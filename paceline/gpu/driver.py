"""NVML's errors in words, and the connection to the driver.

Rule of this file: the only place that imports ``pynvml``, and only when it is asked to. Elsewhere NVML is an object
with pynvml's names, so a simulated one serves as well.
"""

from typing import Any

from paceline.gpu.queries import UnanswerableError

_WORDS = {
    "NVML_ERROR_NOT_SUPPORTED": "not supported by this GPU",
    "NVML_ERROR_NO_PERMISSION": "no permission",
    "NVML_ERROR_FUNCTION_NOT_FOUND": "not known to this driver",
    "NVML_ERROR_ARGUMENT_VERSION_MISMATCH": "not known to this driver",
    "NVML_ERROR_INVALID_ARGUMENT": "not known to this driver",
    "NVML_ERROR_GPU_IS_LOST": "GPU is lost",
    "NVML_ERROR_RESET_REQUIRED": "GPU needs a reset",
    "NVML_ERROR_LIBRARY_NOT_FOUND": "no NVIDIA driver (libnvidia-ml.so.1 not found)",
    "NVML_ERROR_DRIVER_NOT_LOADED": "NVIDIA driver not loaded",
    "NVML_ERROR_LIB_RM_VERSION_MISMATCH": "NVIDIA library and kernel module differ in version; reboot or reload it",
}
_LOST = ("NVML_ERROR_GPU_IS_LOST", "NVML_ERROR_RESET_REQUIRED", "NVML_ERROR_UNINITIALIZED")
_PASSING = (
    *("NVML_ERROR_TIMEOUT", "NVML_ERROR_IN_USE", "NVML_ERROR_NO_DATA", "NVML_ERROR_NOT_READY"),
    *("NVML_ERROR_UNKNOWN", "NVML_ERROR_INSUFFICIENT_RESOURCES", "NVML_ERROR_MEMORY"),
)


def errors(nvml: Any) -> tuple[type[Exception], ...]:
    """What a call may raise instead of an answer; a driver or binding that lacks the call raises AttributeError."""
    return (nvml.NVMLError, AttributeError, UnanswerableError)


def reason(nvml: Any, error: Exception) -> str:
    """Why there is no answer, in a few words."""
    if isinstance(error, AttributeError):
        return "not known to this version of nvidia-ml-py"
    code = getattr(error, "value", None)
    for name, words in _WORDS.items():
        if code is not None and code == getattr(nvml, name):
            return words
    return f"NVML: {error}" if code is not None else str(error)


def is_lost(nvml: Any, error: Exception) -> bool:
    """Whether ``error`` says that the whole device is gone, not only this call."""
    return getattr(error, "value", None) in [getattr(nvml, name) for name in _LOST]


def is_passing(nvml: Any, error: Exception) -> bool:
    """Whether the cause may pass by itself within seconds."""
    return getattr(error, "value", None) in [getattr(nvml, name) for name in _PASSING]


def real() -> Any:
    """The module ``pynvml``.

    Raises:
        ModuleNotFoundError: nvidia-ml-py is not installed.
    """
    import pynvml

    return pynvml
