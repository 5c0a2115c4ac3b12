"""Every metric of the workers: declared here, and told from what was counted.

Rule of this file: names of the worker itself begin with ``paceline_streams_``; those of collectors and sidecars, told
here beside their messages, with the name of theirs; those of the jobs it watches do not name a service.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from prometheus_client.metrics_core import Metric

from paceline.exposition import family, histogram
from paceline.meters import Meter
from paceline.topics import BY_NAME

from .door_counts import DoorCounts
from .job_meters import LATE_BOUNDS_S, STEP_BOUNDS_S, JobValues
from .producers import Producers, Sender


@dataclass(frozen=True)
class WorkerState:
    """What ``/metrics`` tells of the worker beside its counts; ``lag`` is by topic.

    ``now_s`` is by the door's clock, ``wall_s`` is Unix time. ``waiting``: whether anything is to be stored.
    """

    in_hand: int = 0
    units: int = 0
    ready: bool = False
    restarts: int = 0
    lag: dict[str, int] = field(default_factory=dict)
    now_s: float = 0.0
    wall_s: float = 0.0
    waiting: bool = False


_TOPIC, _JOB = ("topic",), ("training_job",)
#: Of the worker: the metric, and its values.
_WORKER: tuple[tuple[Meter, Callable[[DoorCounts, WorkerState], Any]], ...] = (
    (Meter("paceline_streams_events", "counter", "Events read.", _TOPIC), lambda counts, _: counts.events),
    (Meter("paceline_streams_event_bytes", "counter", "Bytes of the events read."), lambda counts, _: counts.bytes),
    (Meter("paceline_streams_published", "counter", "Events published.", _TOPIC), lambda counts, _: counts.published),
    (
        Meter("paceline_streams_dead_letters", "counter", "Messages that could not be used."),
        lambda counts, _: counts.dead_letters,
    ),
    (
        Meter(
            "paceline_streams_states_dropped",
            "counter",
            "States of a job or node that could not be stored and started again.",
        ),
        lambda counts, _: counts.states_dropped,
    ),
    (
        Meter(
            "paceline_streams_unreadable_batches",
            "counter",
            "Batches passed over: damaged, too large unpacked, or no known codec.",
            _TOPIC,
        ),
        lambda counts, _: counts.unreadable,
    ),
    (
        Meter(
            "paceline_streams_remade_partitions",
            "counter",
            "Partitions read from their beginning, their topic being another one.",
            _TOPIC,
        ),
        lambda counts, _: counts.remade,
    ),
    (Meter("paceline_streams_checkpoints", "counter", "Snapshots stored."), lambda counts, _: counts.checkpoints),
    (
        Meter("paceline_streams_checkpoint_bytes", "counter", "Bytes of the snapshots stored."),
        lambda counts, _: counts.checkpoint_bytes,
    ),
    (
        Meter(
            "paceline_streams_checkpoint_age_seconds",
            "gauge",
            "Since a snapshot was stored; 0 while nothing waits to be.",
        ),
        lambda counts, worker: max(0.0, worker.now_s - counts.stored_s) if worker.waiting else 0.0,
    ),
    (Meter("paceline_streams_commits", "counter", "Offset commits."), lambda counts, _: counts.commits),
    (
        Meter("paceline_streams_uncommitted_events", "gauge", "Events read whose offset is not safe to commit yet."),
        lambda _, worker: worker.in_hand,
    ),
    (Meter("paceline_streams_units", "gauge", "Jobs and nodes in memory."), lambda _, worker: worker.units),
    (Meter("paceline_streams_ready", "gauge", "1 while /readyz is 200."), lambda _, worker: int(worker.ready)),
    (
        Meter("paceline_streams_restarts", "counter", "Starts from what is stored, after an outage or a failure."),
        lambda _, worker: worker.restarts,
    ),
    (
        Meter("paceline_streams_lag_messages", "gauge", "Messages not taken yet.", _TOPIC),
        lambda _, worker: worker.lag,
    ),
    (
        Meter("paceline_streams_refused_messages", "counter", "Dead letters by topic and reason.", ("topic", "reason")),
        lambda counts, _: counts.refused,
    ),
    (
        Meter(
            "paceline_streams_missing_messages",
            "counter",
            "Numbered messages that never came, or could not be read.",
            _TOPIC,
        ),
        lambda counts, _: counts.producers.missing,
    ),
    (
        Meter("paceline_streams_lost_rows", "counter", "Rows that training processes measured and dropped."),
        lambda counts, _: counts.producers.lost_rows,
    ),
    (
        Meter(
            "paceline_findings_published",
            "counter",
            "Findings published; each revision counts.",
            ("kind", "cause", "state"),
        ),
        lambda counts, _: counts.jobs.told,
    ),
)
#: Of a producer that has no port: what its account says. The labels of a sidecar, then of collectors.
_ACCOUNT: tuple[tuple[str, str, str, Callable[[Sender], float]], ...] = (
    ("sent_messages", "counter", "Messages that a broker has.", lambda sender: sender.account.sent),
    ("waiting_messages", "gauge", "Messages in memory.", lambda sender: sender.account.waiting),
    ("spooled_messages", "gauge", "Messages on disk.", lambda sender: sender.account.spooled),
    ("spooled_bytes", "gauge", "Bytes of the spool on disk.", lambda sender: sender.account.spooled_bytes),
    ("outages", "counter", "How often the brokers went away.", lambda sender: sender.account.outages),
    ("restarts", "counter", "Another process took over.", lambda sender: sender.restarts),
)
_SENDERS = {"collectors": ("node",), "sidecar": ("node", "training_job")}
_OF_PRODUCERS = tuple(
    (service, Meter(f"paceline_{service}_{name}", kind, help_, labels), read)  # type: ignore[arg-type]
    for service, labels in _SENDERS.items()
    for name, kind, help_, read in _ACCOUNT
)
_SHED = {
    service: Meter(f"paceline_{service}_shed_messages", "counter", "Messages lost.", (*labels, "topic"))
    for service, labels in _SENDERS.items()
}
#: Of jobs: the metric, and where its values stand.
_JOBS: tuple[tuple[Meter, str], ...] = (
    (Meter("paceline_step_seconds", "gauge", "Median step of the median rank in the last window.", _JOB), "step_s"),
    (Meter("paceline_steps_per_second", "gauge", "Steps a second in the last window.", _JOB), "steps_per_s"),
    (Meter("paceline_ranks", "gauge", "Ranks that reported in the last window.", _JOB), "ranks"),
    (
        Meter("paceline_wait_ratio", "gauge", "Share of the step that the median rank waits for others.", _JOB),
        "wait_ratio",
    ),
    (
        Meter(
            "paceline_phase_seconds",
            "gauge",
            "Median rank's time in a phase of the step, in the last window.",
            ("training_job", "phase"),
        ),
        "phases",
    ),
    (
        Meter(
            "paceline_rank_own_seconds",
            "gauge",
            "A rank's mean time at work in a step, without waiting for others; only of the slowest ranks of a job.",
            ("training_job", "rank"),
        ),
        "own_s",
    ),
    (
        Meter(
            "paceline_bus_bandwidth_bytes_per_second",
            "gauge",
            "Bus bandwidth of a collective operation in the last window, as nccl-tests count it.",
            ("training_job", "operation"),
        ),
        "bus",
    ),
    (
        Meter(
            "paceline_findings",
            "gauge",
            "Findings that are open now; the node is empty where there are several or none.",
            ("training_job", "node", "kind", "cause", "state", "severity"),
        ),
        "findings",
    ),
    (
        Meter(
            "paceline_lost_seconds",
            "gauge",
            "Seconds lost so far to findings that are open, or were over in the last five minutes.",
            ("training_job", "kind"),
        ),
        "lost_s",
    ),
    (
        Meter(
            "paceline_lost_gpu_seconds",
            "gauge",
            "Seconds of GPUs lost so far to findings that are open, or were over in the last five minutes.",
            ("training_job", "kind"),
        ),
        "lost_gpu_s",
    ),
    (
        Meter(
            "paceline_job_energy_joules",
            "counter",
            "Joules by job, node and part (gpu, host); an empty name: of no job, or while no samples came.",
            ("training_job", "node", "part"),
        ),
        "energy_j",
    ),
    (
        Meter("paceline_suggestions", "gauge", "Suggestions that are open now.", ("action", "state")),
        "suggestions",
    ),
)
STEP_TIME = Meter(
    "paceline_step_time_seconds", "histogram", "Steps of a job by the median step of the median rank.", _JOB
)
LATENESS = Meter(
    "paceline_lateness_seconds",
    "histogram",
    "Steps of a job by how much longer the slowest rank is at work than the median rank.",
    _JOB,
)
#: All of them, for the documentation.
METERS = (
    *(meter for meter, _ in _WORKER),
    *(meter for _, meter, _ in _OF_PRODUCERS),
    *_SHED.values(),
    STEP_TIME,
    LATENESS,
    *(meter for meter, _ in _JOBS),
)


def read(counts: DoorCounts, worker: WorkerState) -> list[Callable[[], Metric]]:
    """What makes every metric of its values now; it may be called later, whatever is counted meanwhile."""
    values: JobValues = counts.jobs.values(worker.now_s, worker.wall_s)
    return [
        *(partial(family, meter, _by_labels(told(counts, worker))) for meter, told in _WORKER),
        *_producers(counts.producers, worker.now_s),
        partial(histogram, STEP_TIME, STEP_BOUNDS_S, values.step_times),
        partial(histogram, LATENESS, LATE_BOUNDS_S, values.lateness),
        *(partial(family, meter, getattr(values, name)) for meter, name in _JOBS),
    ]


def _by_labels(read: Any) -> dict[tuple[str, ...], float]:
    if not isinstance(read, Mapping):
        return {(): read}
    return {(labels,) if isinstance(labels, str) else labels: value for labels, value in read.items()}


def _producers(producers: Producers, now_s: float) -> Iterator[Callable[[], Metric]]:
    """What those say of themselves who have no port of their own, or are told of all in one place."""
    senders = producers.speaking(now_s)
    for service, meter, told in _OF_PRODUCERS:
        width = len(meter.labels)
        yield partial(family, meter, {who[1 : width + 1]: told(one) for who, one in senders if who[0] == service})
    for service, meter in _SHED.items():
        width = len(meter.labels) - 1
        yield partial(
            family,
            meter,
            {
                (*who[1 : width + 1], BY_NAME[topic].short): count
                for who, sender in senders
                if who[0] == service
                for topic, count in sender.account.shed.items()
                if topic in BY_NAME
            },
        )
