"""The dashboard of all training jobs: who runs, how fast, who loses time, what was found and what should be done."""

from .panels import Choice, Dashboard, Panel, Row, p95, stat

JOB = 'training_job=~"$job"'


NOW = Row(
    "Now",
    (
        stat("Jobs", f"count(paceline_step_seconds{{{JOB}}})"),
        stat("Ranks", f"sum(paceline_ranks{{{JOB}}})"),
        stat("Findings confirmed", f'sum(paceline_findings{{{JOB}, state="confirmed"}})', bad=(1, 5)),
        stat("Suspicions in an hour", 'sum(increase(paceline_findings_published_total{state="suspected"}[1h]))'),
        stat("Time lost", f"sum(paceline_lost_seconds{{{JOB}}})", "s", about="Of findings that are open or just over."),
        stat("Device-hours lost", f"sum(paceline_lost_gpu_seconds{{{JOB}}}) / 3600", bad=(1, 24)),
        Panel(
            "Findings confirmed",
            (
                (
                    f'sum by (training_job, kind, cause, severity) (paceline_findings{{{JOB}, state="confirmed"}}) > 0',
                    "{{training_job}} {{kind}}: {{cause}}",
                ),
            ),
            kind="table",
            width=12,
        ),
        Panel(
            "Suggestions that are open",
            (("sum by (action, state) (paceline_suggestions)", "{{action}}, {{state}}"),),
            kind="bargauge",
            width=12,
        ),
    ),
)
PACE = Row(
    "Pace",
    (
        Panel("Steps a second", ((f"paceline_steps_per_second{{{JOB}}}", "{{training_job}}"),)),
        Panel(
            "Step time, 95 % are below",
            (
                (
                    p95(f"paceline_step_time_seconds_bucket{{{JOB}}}", "training_job"),
                    "{{training_job}}",
                ),
            ),
            "s",
        ),
        Panel(
            "Step time, median of the last ten seconds", ((f"paceline_step_seconds{{{JOB}}}", "{{training_job}}"),), "s"
        ),
        Panel(
            "Lateness, 95 % are below",
            (
                (
                    p95(f"paceline_lateness_seconds_bucket{{{JOB}}}", "training_job"),
                    "{{training_job}}",
                ),
            ),
            "s",
            help="How much longer the worst rank works than the median one, a step.",
        ),
        Panel(
            "Share of time in which all wait for the last rank",
            (
                (
                    f"sum by (training_job) (rate(paceline_lateness_seconds_sum{{{JOB}}}[5m]))"
                    f" / sum by (training_job) (rate(paceline_step_time_seconds_sum{{{JOB}}}[5m]))",
                    "{{training_job}}",
                ),
            ),
            "percentunit",
        ),
        Panel("Median rank waits", ((f"paceline_wait_ratio{{{JOB}}}", "{{training_job}}"),), "percentunit", highest=1),
    ),
)
COST = Row(
    "Findings and what they cost",
    (
        Panel(
            "Findings open, by kind",
            ((f"sum by (kind) (paceline_findings{{{JOB}}})", "{{kind}}"),),
            stacked=True,
        ),
        Panel(
            "Seconds lost, by job",
            ((f"sum by (training_job) (paceline_lost_seconds{{{JOB}}})", "{{training_job}}"),),
            "s",
        ),
        Panel(
            "Findings told an hour, by kind",
            (("sum by (kind, state) (rate(paceline_findings_published_total[10m])) * 3600", "{{kind}}, {{state}}"),),
        ),
    ),
)
NEXT = Row(
    "What comes next",
    (
        Panel(
            "Forecasts, the middle",
            (('paceline_forecast_value{level="0.5"}', "{{subject}} {{metric}}, in {{horizon_minutes}} min"),),
            "short",
            width=24,
        ),
    ),
)
BOARD = Dashboard(
    "paceline-training",
    "Training",
    "All training jobs: pace, lateness, findings, cost and suggestions.",
    (NOW, PACE, COST, NEXT),
    (Choice("job", "Job", "paceline_step_seconds", "training_job"),),
    f'sum by (training_job, node, kind, cause, severity) (paceline_findings{{{JOB}, state="confirmed"}})',
)
