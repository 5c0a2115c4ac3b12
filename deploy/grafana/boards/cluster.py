"""The dashboard of the machines: GPUs by DCGM's names, from any dcgm-exporter or from our collectors; hosts from ours.

Blanks of DCGM, huge numbers, are left out by bounds. Rows say what a stock exporter does not have.
"""

from .panels import Choice, Dashboard, Panel, Row, stat

ON = 'hostname=~"$host"'
GPU = "{{hostname}} GPU {{gpu}}"
USED, FREE = f"DCGM_FI_DEV_FB_USED{{{ON}}} < 1e9", f"DCGM_FI_DEV_FB_FREE{{{ON}}} < 1e9"
HERE = 'node=~"$host"'


GPUS = Row(
    "GPUs (any dcgm-exporter, or our collectors)",
    (
        stat("GPUs", f"count(DCGM_FI_DEV_GPU_TEMP{{{ON}}})"),
        stat("Busy", f"avg(DCGM_FI_DEV_GPU_UTIL{{{ON}}} <= 100) / 100", "percentunit", bad=(0.7, 0.3)),
        stat("Memory used", f"sum({USED}) / sum(({USED}) + ({FREE}))", "percentunit"),
        stat("Power", f"sum(DCGM_FI_DEV_POWER_USAGE{{{ON}}} < 1e5)", "watt"),
        stat("Hottest", f"max(DCGM_FI_DEV_GPU_TEMP{{{ON}}} < 200)", "celsius", bad=(85, 95)),
        stat("GPUs below 30 %", f"count(DCGM_FI_DEV_GPU_UTIL{{{ON}}} < 30) or 0 * count(DCGM_FI_DEV_GPU_UTIL{{{ON}}})"),
        Panel(
            "Busy, by host",
            ((f"avg by (hostname) (DCGM_FI_DEV_GPU_UTIL{{{ON}}} <= 100) / 100", "{{hostname}}"),),
            "percentunit",
            help="Share of time in which some kernel ran. Tensor and memory activity say how well.",
            highest=1,
        ),
        Panel(
            "Memory used, by host",
            ((f"sum by (hostname) ({USED}) / sum by (hostname) (({USED}) + ({FREE}))", "{{hostname}}"),),
            "percentunit",
            highest=1,
        ),
        Panel(
            "Power, by host", ((f"sum by (hostname) (DCGM_FI_DEV_POWER_USAGE{{{ON}}} < 1e5)", "{{hostname}}"),), "watt"
        ),
        Panel("Temperature", ((f"DCGM_FI_DEV_GPU_TEMP{{{ON}}} < 200", GPU),), "celsius"),
        Panel("SM clock", ((f"DCGM_FI_DEV_SM_CLOCK{{{ON}}} * 1e6 < 1e12", GPU),), "hertz"),
        Panel(
            "Tensor and memory activity, by host",
            (
                (f"avg by (hostname) (DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{{{ON}}} <= 1)", "{{hostname}} tensor"),
                (f"avg by (hostname) (DCGM_FI_PROF_DRAM_ACTIVE{{{ON}}} <= 1)", "{{hostname}} memory"),
            ),
            "percentunit",
            highest=1,
        ),
        Panel(
            "PCIe, by host",
            (
                (f"sum by (hostname) (DCGM_FI_PROF_PCIE_TX_BYTES{{{ON}}} < 1e12)", "{{hostname}} from GPUs"),
                (f"sum by (hostname) (DCGM_FI_PROF_PCIE_RX_BYTES{{{ON}}} < 1e12)", "{{hostname}} to GPUs"),
            ),
            "Bps",
        ),
        Panel(
            "The ten least busy, ten minutes",
            ((f"bottomk(10, avg_over_time(DCGM_FI_DEV_GPU_UTIL{{{ON}}}[10m]) / 100)", GPU),),
            "percentunit",
            "bargauge",
            highest=1,
            bad=(0.7, 0.3),
        ),
        Panel(
            "Last XID",
            ((f"max by (hostname, gpu) (DCGM_FI_DEV_XID_ERRORS{{{ON}}} < 1e6)", GPU),),
            "none",
            "bargauge",
            help="0: none. What a code means and what to do: docs/gpu-rules.md.",
            bad=(1, 40),
        ),
    ),
)
MORE = Row(
    "Links and clocks (our collectors; a dcgm-exporter with a counters file of ours)",
    (
        Panel(
            "NVLink, by host",
            (
                (f"sum by (hostname) (DCGM_FI_PROF_NVLINK_TX_BYTES{{{ON}}} < 1e13)", "{{hostname}} sent"),
                (f"sum by (hostname) (DCGM_FI_PROF_NVLINK_RX_BYTES{{{ON}}} < 1e13)", "{{hostname}} received"),
            ),
            "Bps",
        ),
        Panel(
            "GPUs slowed, by reason",
            ((f"sum by (reason) (paceline_device_throttled{{{HERE}}})", "{{reason}}"),),
            help="How many are held below the clock that was asked for now. A power cap is somebody's setting.",
        ),
        Panel(
            "Corrected memory errors an hour",
            ((f"sum by (hostname) (increase(DCGM_FI_DEV_ECC_SBE_VOL_TOTAL{{{ON}}}[1h]))", "{{hostname}}"),),
        ),
    ),
)
HOSTS = Row(
    "Hosts (our collectors)",
    (
        Panel("Processors", ((f"paceline_host_cpu_ratio{{{HERE}}}", "{{node}}"),), "percentunit", highest=1),
        Panel(
            "Memory used",
            ((f"paceline_host_memory_used_bytes{{{HERE}}} / paceline_host_memory_total_bytes{{{HERE}}}", "{{node}}"),),
            "percentunit",
            highest=1,
        ),
        Panel(
            "Waiting (PSI)",
            (
                (f"paceline_host_pressure_cpu_ratio{{{HERE}}}", "{{node}} processor"),
                (f"paceline_host_pressure_memory_ratio{{{HERE}}}", "{{node}} memory"),
                (f"paceline_host_pressure_io_ratio{{{HERE}}}", "{{node}} disk"),
            ),
            "percentunit",
            help="Share of time in which some process waits for it.",
        ),
        Panel(
            "Network",
            (
                (f"paceline_host_network_tx_bytes_per_second{{{HERE}}}", "{{node}} sent"),
                (f"paceline_host_network_rx_bytes_per_second{{{HERE}}}", "{{node}} received"),
            ),
            "Bps",
        ),
        Panel(
            "Disks",
            (
                (f"paceline_host_disk_read_bytes_per_second{{{HERE}}}", "{{node}} read"),
                (f"paceline_host_disk_write_bytes_per_second{{{HERE}}}", "{{node}} written"),
            ),
            "Bps",
        ),
        Panel("Load", ((f"paceline_host_load1{{{HERE}}}", "{{node}}"),)),
    ),
)
BOARD = Dashboard(
    "paceline-cluster",
    "Cluster",
    "GPUs and hosts: how busy, how full, how hot, what is wrong with them.",
    (GPUS, MORE, HOSTS),
    (Choice("host", "Host", "DCGM_FI_DEV_GPU_TEMP", "hostname"),),
    'sum by (training_job, node, kind, cause, severity) (paceline_findings{state="confirmed"})',
)
