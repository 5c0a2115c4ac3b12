"""Series of the forecaster in words: whose they are, and what they measure.

Rule of this file: pure words, also for fields and series that this version does not know.
"""

#: What the forecaster's fields measure; others are named as they are.
FIELDS = {
    "free_gpus": "free GPUs",
    "gpu_busy_ratio": "GPUs busy",
    "gpu_power_w": "GPU power",
    "free_gpus_15min": "free GPUs, a day ahead",
    "gpu_busy_ratio_15min": "GPUs busy, a day ahead",
    "gpu_power_w_15min": "GPU power, a day ahead",
    "sm_active_ratio": "SMs active",
    "utilization_ratio": "GPU utilization",
    "fb_used_bytes": "GPU memory used",
    "memory_used_bytes": "memory used",
    "power_w": "power",
    "temperature_celsius": "temperature",
    "cpu_ratio": "CPU busy",
    "disk_read_bytes_per_s": "disk reads",
    "network_rx_bytes_per_s": "network in",
    "step_s": "step time",
    "steps_per_s": "steps a second",
    "wait_ratio": "waiting for other ranks",
}


def field_words(field: str) -> str:
    """What a field measures.

    >>> field_words("step_s"), field_words("new_field")
    ('step time', 'new field')
    """
    return FIELDS.get(field) or field.replace("_", " ")


def series_words(series: str) -> str:
    """A series as people name it; its cluster where it is not the default one.

    >>> series_words("default/job/llama/7/step_s"), series_words("east/cluster/free_gpus"), series_words("step_s")
    ('job llama/7: step time', 'east, cluster: free GPUs', 'step time')
    """
    *subject, field = series.split("/")
    if not subject:
        return field_words(field)
    cluster, *within = subject
    kind, named = " ".join(within[:1]), "/".join(within[1:])
    whose = [*([] if cluster == "default" and within else [cluster]), f"{kind} {named}".strip()]
    return f"{', '.join(filter(None, whose))}: {field_words(field)}"
