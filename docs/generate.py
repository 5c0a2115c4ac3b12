"""Write the generated pages of docs/: `make docs`."""

from pathlib import Path

from annotator import meters as annotator
from annotator import shapes
from archive import meters as archive
from archive.database import meters as database
from collectors import meters as collectors
from collectors.column_sources import SOURCES
from control import meters as control
from forecaster.api import meters as forecaster
from paceline.alerts import meters as alerts
from paceline.meters_page import Service
from paceline.meters_page import page as metrics
from paceline.schema import documents
from streams import meters as streams
from streams.advice import page as suggestions
from streams.nodes.rules_page import page

HERE = Path(__file__).parent
SERVICES = (
    Service(
        "Workers: `paceline streams --web-port 6066`",
        "Of the worker itself, of collectors and sidecars whose messages it reads, and of the jobs that are its share.",
        streams.METERS,
    ),
    Service(
        "Collectors: `paceline collect --web-port 9401`",
        f"The newest sample of this node's GPUs, {collectors.MOST_DEVICES} at most, and of its host, with at most "
        f"{collectors.MOST_COUNTERS:,} error counters. [collectors.md](collectors.md) says where each comes from.",
        collectors.METERS,
    ),
    Service(
        "Forecaster: `paceline forecaster`, port 8000",
        "Its own work, and of at most 200 forecasts a quarter and the end of the horizon, with the 80 % interval.",
        forecaster.METERS,
    ),
    Service(
        "Control: `paceline control`, port 8002",
        "Its own work, and the sessions on its disk. [sessions.md](sessions.md) says what their states mean.",
        control.METERS,
    ),
    Service(
        "Alerts: `paceline alerts --web-port 9402`",
        "Alerts to send, and the outcome of each message. [alerts.md](alerts.md) describes the destinations.",
        alerts.METERS,
    ),
    Service(
        "Annotator: `paceline annotate --web-port 9403`",
        "Annotations written to Kubernetes, and their outcome: [annotations.md](annotations.md).",
        annotator.METERS,
    ),
    Service(
        "Archive: `paceline archive --web-port 9404`",
        "What is read, committed and merged. [history.md](history.md) says what an archive is.",
        archive.METERS,
    ),
    Service(
        "Archive: its database",
        "At the same port: jobs, findings and suggestions on their way into SQLite or PostgreSQL.",
        database.METERS,
    ),
)
LABELS = {
    "UUID": "the GPU's UUID, or that of its MIG instance",
    "action": "what a suggestion asks for ([suggestions.md](suggestions.md))",
    "cause": "cause of a finding ([findings.md](findings.md))",
    "counter": "which error counter of the interface",
    "destination": "kind of destination: alertmanager, slack, webhook, mail or command",
    "gpu": "the GPU's number on its node",
    "horizon_minutes": "how many minutes after the newest value",
    "interface": "network interface",
    "kind": "kind of a finding ([findings.md](findings.md))",
    "level": "probability that the value is no higher: 0.1, 0.5 or 0.9",
    "metric": "the field of the series that is forecast, with its unit",
    "model_name": "the GPU's model",
    "node": "name of the node; of a finding empty where it has several or none",
    "object": "what is annotated: node, pod or owner",
    "operation": "collective operation, as all_reduce",
    "outcome": "arrived, failed or refused",
    "phase": "phase of the step, as forward",
    "part": "what took the energy: `gpu`, `host` (processors and memory), or `unsampled`",
    "rank": "rank of the job; at most 8 of a job, the slowest",
    "reason": "of a dead letter: undecodable, unjudgeable, unstorable; of a database: undecodable, unreadable, refused",
    "result": "what came of a write: written, conflict (tried again), gone, refused, invalid, busy (tried again)",
    "route": "route's template",
    "severity": "info, warning or critical",
    "source": "gpu or host",
    "state": "state of a finding, suggestion or session",
    "status": "status of the answer",
    "subject": "what is forecast: cluster, job/NAME, node/NAME, device/NODE/UUID",
    "table": "table of the database: job (what its nodes say), finding, suggestion",
    "thread": "which thread of the service",
    "topic": "topic, by its short name",
    "training_job": "the job's name; empty for a finding of a node alone",
    "verb": "what was asked: get, list, watch, create, patch",
    "what": "events, late, undecodable, published or failed",
}
PAGES = documents() | {
    "gpu-rules.md": page(SOURCES),
    "schemas/annotations.v1.json": shapes.page(),
    "metrics.md": metrics(SERVICES, LABELS),
    "suggestions.md": suggestions.page(),
}

if __name__ == "__main__":
    for name, text in PAGES.items():
        path = HERE / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
