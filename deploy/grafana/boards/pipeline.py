"""The dashboard of Paceline itself: is everything there, does it keep up, and what got lost on the way."""

from .panels import Dashboard, Panel, Row, p95, stat

UP = 'sum(up{job=~"paceline-.*"})'
NOW = Row(
    "Now",
    (
        stat("Workers ready", "sum(paceline_streams_ready)", bad=(1, 0.5)),
        stat("Forecaster ready", "min(paceline_forecaster_ready)", bad=(1, 0.5)),
        stat("Targets that answer", UP),
        stat("Messages behind", "sum(paceline_streams_lag_messages)", bad=(1000, 10000)),
        stat("Dead letters", "sum(paceline_streams_dead_letters_total)", bad=(1, 100)),
        stat("Alerts waiting", "sum(paceline_alerts_waiting)", bad=(1, 10)),
    ),
)
STREAMS = Row(
    "Workers",
    (
        Panel("Events read a second", (("sum by (topic) (rate(paceline_streams_events_total[5m]))", "{{topic}}"),)),
        Panel("Messages behind", (("sum by (topic) (paceline_streams_lag_messages)", "{{topic}}"),)),
        Panel("Events said a second", (("sum by (topic) (rate(paceline_streams_published_total[5m]))", "{{topic}}"),)),
        Panel("Jobs and nodes in memory", (("paceline_streams_units", "{{instance}}"),)),
        Panel("Read and not safe to commit yet", (("paceline_streams_uncommitted_events", "{{instance}}"),)),
        Panel(
            "Since the last snapshot was stored", (("paceline_streams_checkpoint_age_seconds", "{{instance}}"),), "s"
        ),
        Panel(
            "Snapshots stored",
            (("sum by (instance) (rate(paceline_streams_checkpoint_bytes_total[5m]))", "{{instance}}"),),
            "Bps",
        ),
        Panel(
            "Starts over, states dropped",
            (
                ("paceline_streams_restarts_total", "{{instance}} starts"),
                ("paceline_streams_states_dropped_total", "{{instance}} states"),
            ),
        ),
        Panel(
            "Rows lost in training processes",
            (("sum by (instance) (paceline_streams_lost_rows_total)", "{{instance}}"),),
        ),
    ),
)
LOST = Row(
    "What got lost or was refused (empty while nothing was)",
    (
        Panel("Missing messages", (("sum by (topic) (paceline_streams_missing_messages_total)", "{{topic}}"),)),
        Panel(
            "Refused, by reason",
            (("sum by (topic, reason) (paceline_streams_refused_messages_total)", "{{topic}}: {{reason}}"),),
        ),
        Panel("Batches passed over", (("sum by (topic) (paceline_streams_unreadable_batches_total)", "{{topic}}"),)),
        Panel(
            "Shed by collectors",
            (("sum by (node, topic) (paceline_collectors_shed_messages_total)", "{{node}}: {{topic}}"),),
            width=12,
        ),
        Panel(
            "Shed by sidecars",
            (("sum by (node, topic) (paceline_sidecar_shed_messages_total)", "{{node}}: {{topic}}"),),
            width=12,
        ),
    ),
)
SENDERS = Row(
    "Collectors and sidecars",
    (
        Panel(
            "Sent a second",
            (
                ("sum(rate(paceline_collectors_sent_messages_total[5m]))", "collectors"),
                ("sum(rate(paceline_sidecar_sent_messages_total[5m]))", "sidecars"),
            ),
        ),
        Panel(
            "Waiting in memory",
            (
                ("sum(paceline_collectors_waiting_messages)", "collectors"),
                ("sum(paceline_sidecar_waiting_messages)", "sidecars"),
            ),
        ),
        Panel(
            "Waiting on disk",
            (
                ("topk(10, max by (node) (paceline_collectors_spooled_bytes))", "{{node}} collector"),
                ("topk(10, max by (node) (paceline_sidecar_spooled_bytes))", "{{node}} sidecar"),
            ),
            "bytes",
        ),
        Panel(
            "Outages of the brokers",
            (
                ("max(paceline_collectors_outages_total)", "worst collector"),
                ("max(paceline_sidecar_outages_total)", "worst sidecar"),
            ),
            width=12,
        ),
        Panel(
            "Started again",
            (
                ("sum(paceline_collectors_restarts_total)", "collectors"),
                ("sum(paceline_sidecar_restarts_total)", "sidecars"),
            ),
            width=12,
        ),
    ),
)
OTHERS = Row(
    "Forecaster, alerts and page",
    (
        Panel("Forecaster: messages behind", (("sum by (topic) (paceline_forecaster_lag_messages)", "{{topic}}"),)),
        Panel(
            "Forecaster: series, questions that wait",
            (("paceline_forecaster_series", "series"), ("paceline_forecaster_waiting_questions", "waiting")),
        ),
        Panel(
            "Forecaster: answers, 95 % are quicker than",
            (
                (
                    p95("paceline_forecaster_request_seconds_bucket", "route"),
                    "{{route}}",
                ),
            ),
            "s",
        ),
        Panel("Forecaster: events of the bus", (("paceline_forecaster_bus_messages", "{{what}}"),)),
        Panel("Forecaster: history", (("paceline_forecaster_history_bytes", "{{instance}}"),), "bytes"),
        Panel(
            "Alerts sent",
            (("sum by (destination, outcome) (paceline_alerts_sent_total)", "{{destination}}: {{outcome}}"),),
        ),
        Panel(
            "Page: visitors",
            (('active_sessions{job="paceline-ui"}', "{{instance}}"),),
            help="Open tabs, as Streamlit counts them.",
        ),
    ),
)
BOARD = Dashboard(
    "paceline-pipeline",
    "Pipeline",
    "Paceline itself: who is there, who is behind, what was lost, what waits.",
    (NOW, STREAMS, LOST, SENDERS, OTHERS),
)
