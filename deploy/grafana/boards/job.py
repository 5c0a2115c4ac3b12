"""The dashboard of one training job: its steps, its phases, its slowest ranks, its collectives, and what was found."""

from .panels import Choice, Dashboard, Panel, Row, stat

JOB = 'training_job="$job"'


NOW = Row(
    "Now",
    (
        stat("Ranks", f"paceline_ranks{{{JOB}}}"),
        stat("Step", f"paceline_step_seconds{{{JOB}}}", "s"),
        stat("Steps a second", f"paceline_steps_per_second{{{JOB}}}"),
        stat("Median rank waits", f"paceline_wait_ratio{{{JOB}}}", "percentunit", bad=(0.2, 0.4)),
        stat("Time lost", f"sum(paceline_lost_seconds{{{JOB}}})", "s"),
        stat("Device-hours lost", f"sum(paceline_lost_gpu_seconds{{{JOB}}}) / 3600"),
        Panel(
            "Findings",
            (
                (
                    f"sum by (kind, cause, state, severity, node) (paceline_findings{{{JOB}}}) > 0",
                    "{{kind}}: {{cause}}, {{state}}",
                ),
            ),
            kind="table",
            width=12,
        ),
        Panel(
            "Seconds lost, by kind",
            ((f"sum by (kind) (paceline_lost_seconds{{{JOB}}})", "{{kind}}"),),
            "s",
            width=12,
        ),
    ),
)
STEPS = Row(
    "Steps",
    (
        Panel(
            "Step time",
            ((f"sum by (le) (increase(paceline_step_time_seconds_bucket{{{JOB}}}[1m]))", "{{le}}"),),
            kind="heatmap",
            width=12,
        ),
        Panel(
            "Lateness: the worst rank's work over the median's",
            ((f"sum by (le) (increase(paceline_lateness_seconds_bucket{{{JOB}}}[1m]))", "{{le}}"),),
            kind="heatmap",
            width=12,
        ),
        Panel(
            "Phases of the median rank, a step",
            ((f"paceline_phase_seconds{{{JOB}}}", "{{phase}}"),),
            "s",
            width=12,
            stacked=True,
        ),
        Panel(
            "Work time of the slowest ranks, a step",
            ((f'paceline_rank_own_seconds{{{JOB}, rank=~"$rank"}}', "rank {{rank}}"),),
            "s",
            width=12,
            help="Time at work, without waiting for others; the worst eight at most.",
        ),
    ),
)
TRAFFIC = Row(
    "Collectives",
    (
        Panel(
            "Bus bandwidth, by operation",
            ((f"paceline_bus_bandwidth_bytes_per_second{{{JOB}}}", "{{operation}}"),),
            "Bps",
            width=12,
            help="As nccl-tests count it, were all ranks of the job in it; the transfer alone, without waiting.",
        ),
        Panel(
            "Share of time in which all wait for the last rank",
            (
                (
                    f"sum(rate(paceline_lateness_seconds_sum{{{JOB}}}[5m]))"
                    f" / sum(rate(paceline_step_time_seconds_sum{{{JOB}}}[5m]))",
                    "late",
                ),
            ),
            "percentunit",
            width=12,
        ),
    ),
)
ENERGY = Row(
    "Energy",
    (
        Panel(
            "Power of its GPUs and hosts",
            ((f"sum by (part) (rate(paceline_job_energy_joules_total{{{JOB}}}[5m]))", "{{part}}"),),
            "watt",
            width=12,
            stacked=True,
            help="Joules of its GPUs, and its part of its hosts', where processors tell theirs.",
        ),
        Panel(
            "kWh in the last day",
            ((f"sum by (part) (increase(paceline_job_energy_joules_total{{{JOB}}}[1d])) / 3.6e6", "{{part}}"),),
            "kwatth",
            width=12,
        ),
    ),
)
BOARD = Dashboard(
    "paceline-job",
    "Job",
    "One training job: steps, phases, the slowest ranks, collectives, findings and energy.",
    (NOW, STEPS, TRAFFIC, ENERGY),
    (
        Choice("job", "Job", "paceline_step_seconds", "training_job", several=False),
        Choice("rank", "Rank", f"paceline_rank_own_seconds{{{JOB}}}", "rank"),
    ),
    f'sum by (training_job, node, kind, cause, severity) (paceline_findings{{{JOB}, state="confirmed"}})',
)
