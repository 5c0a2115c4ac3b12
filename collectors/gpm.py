"""SM, tensor-core and DRAM activity by NVML's GPU performance monitoring (GPM): Hopper and newer, no root needed.

Rule of this file: it keeps the sample before, because GPM's ratios are over the interval between two samples.
"""

from typing import Any

from paceline.gpu.queries import UnanswerableError
from paceline.gpu.readings import Value, ratio

COLUMNS = ("sm_active_ratio", "tensor_active_ratio", "dram_active_ratio")


class Gpm:
    """The activity of one device since the sample before."""

    def __init__(self) -> None:
        self._before: Any = None
        self._spare: Any = None

    def ask(self, nvml: Any, device: Any) -> tuple[Value, ...]:
        """One ratio a column; None the first time, when there is no interval yet.

        Raises:
            UnanswerableError: the card has no GPM.
            NVMLError: NVML refused.
        """
        if self._before is None:
            if not nvml.nvmlGpmQueryDeviceSupport(device).isSupportedDevice:
                raise UnanswerableError("NVML measures it from Hopper on; dcgm-exporter does on older GPUs")
            self._spare = self._spare or nvml.nvmlGpmSampleAlloc()
            self._before = nvml.nvmlGpmSampleGet(device, nvml.nvmlGpmSampleAlloc())
            return None, None, None
        now = nvml.nvmlGpmSampleGet(device, self._spare)
        ratios = _metrics(nvml, self._before, now)
        self._before, self._spare = now, self._before
        return ratios

    def close(self, nvml: Any) -> None:
        """Free the samples."""
        for sample in (self._before, self._spare):
            if sample is not None:
                nvml.nvmlGpmSampleFree(sample)
        self._before = self._spare = None


def _metrics(nvml: Any, before: Any, now: Any) -> tuple[Value, ...]:
    wanted = (nvml.NVML_GPM_METRIC_SM_UTIL, nvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL, nvml.NVML_GPM_METRIC_DRAM_BW_UTIL)
    request = nvml.c_nvmlGpmMetricsGet_t()
    request.version, request.numMetrics = nvml.NVML_GPM_METRICS_GET_VERSION, len(wanted)
    request.sample1, request.sample2 = before, now
    for place, metric in enumerate(wanted):
        request.metrics[place].metricId = metric
    answered = nvml.nvmlGpmMetricsGet(request).metrics[: len(wanted)]
    return tuple(ratio(metric.value) if metric.nvmlReturn == 0 else None for metric in answered)
