"""The tables of an archive: which topic fills each, its columns, their order, and for how long it is kept.

Rule of this file: data; ``table`` makes columns of it. Times are Unix seconds; null is what was not measured.
"""

import msgspec

from paceline import events, topics, wire
from paceline.events.training import OVERLAYS
from paceline.gpu.dcgm import ONLY_DCGM
from paceline.phases import PHASES

from .table import CLUSTER, PUBLISHED, Kind, Table, Words, kind_of, of_event, of_rows, of_samples

#: What is told by known words, and its columns.
PHASE_WORDS = (*PHASES, *OVERLAYS)
DEVICE_WORDS = (
    *(name for name in wire.sample_columns(events.DeviceSamples) if name not in ("device", "time_s")),
    "throttled_ratio",
)
HOST_WORDS = tuple(
    name for name in wire.sample_columns(events.HostSamples) if name not in ("time_s", "cpu_ratio_per_core")
)

_STEPS: dict[str, Kind] = {"job": "text", "attempt": "i64", "node": "text"}
_RANK_STEPS: dict[str, Kind] = {**_STEPS, "rank": "i64", "step": "i64"}
_CONDITION = msgspec.structs.fields(events.RankCondition)
_PHASES = Words("{}_s", PHASE_WORDS)
_OF_DEVICES = {"mean": Words("mean_{}", DEVICE_WORDS), "max": Words("max_{}", DEVICE_WORDS)}
_OF_HOSTS = {"mean": Words("mean_{}", HOST_WORDS), "max": Words("max_{}", HOST_WORDS)}

DEVICE = of_rows(
    "device",
    topics.DEVICE,
    {
        "node": "text",
        "device": "text",
        "time_s": "f64",
        **of_samples(events.DeviceSamples, DEVICE_WORDS[:-1]),
        **dict.fromkeys(ONLY_DCGM, "f64"),
    },
    ("node", "device", "time_s"),
)
HOST = of_rows(
    "host",
    topics.HOST,
    {"node": "text", "time_s": "f64", **of_samples(events.HostSamples, (*HOST_WORDS, "cpu_ratio_per_core"))},
    ("node", "time_s"),
)
OP = of_rows(
    "op",
    topics.OP,
    {
        **_RANK_STEPS,
        "start_s": "f64",
        "step_s": "f64",
        **dict.fromkeys(_PHASES.columns().values(), "f64"),
        "phases_other": "json",
        "left_out": "i64",
    },
    ("job", "attempt", "step", "rank"),
    "start_s",
)
MICROBATCH = of_rows(
    "microbatch",
    topics.OP,
    {**_RANK_STEPS, "time_s": "f64", "microbatch": "i64", "forward_s": "f64", "backward_s": "f64"},
    ("job", "attempt", "step", "rank"),
)
CONDITION = of_rows(
    "condition",
    topics.OP,
    {**_STEPS, **{field.name: kind_of(field.type) for field in _CONDITION}},
    ("job", "attempt", "rank", "time_s"),
)
COLLECTIVE_SUM = of_rows(
    "collective_sum",
    topics.OP,
    {
        **_STEPS,
        "time_s": "f64",
        "step": "i64",
        "group_name": "text",
        "group_size": "i64",
        "operation": "text",
        "count": "i64",
        "members": "i64",
        "bytes": "i64",
        "wait_s": "f64",
        "duration_s": "f64",
    },
    ("job", "attempt", "step", "node"),
)
LINK = of_rows(
    "link",
    topics.OP,
    {
        **_STEPS,
        "time_s": "f64",
        "rank": "i64",
        "connections": "i64",
        "rtt_s": "f64",
        "retransmits": "i64",
        "rated_bytes_per_s": "f64",
    },
    ("job", "attempt", "rank", "time_s"),
)
COLLECTIVE = of_rows(
    "collective",
    topics.COLLECTIVE,
    {
        **_RANK_STEPS,
        "seq": "i64",
        "group_name": "text",
        "group_size": "i64",
        "operation": "text",
        "bytes": "i64",
        "start_s": "f64",
        "duration_s": "f64",
        "wait_s": "f64",
        "by_nccl": "bool",
        "summed": "bool",
    },
    ("job", "attempt", "step", "group_name", "seq", "rank"),
    "start_s",
)
_OF_WINDOW = ("start_s", "length_s")
JOB_WINDOW = of_event(
    "job_window",
    topics.WINDOW,
    events.JobWindow,
    ("job", "attempt", *_OF_WINDOW),
    time="start_s",
    keep="windows",
    key=("job", "attempt", *_OF_WINDOW),
    maps={"phase_median_s": _PHASES},
)
RANK_WINDOW = of_event(
    "rank_window",
    topics.WINDOW,
    events.RankWindow,
    ("job", "attempt", "rank", *_OF_WINDOW),
    time="start_s",
    keep="windows",
    key=("job", "attempt", "rank", *_OF_WINDOW),
    maps={"phase_mean_s": _PHASES},
)
DEVICE_WINDOW = of_event(
    "device_window",
    topics.WINDOW,
    events.DeviceWindow,
    ("node", "device", *_OF_WINDOW),
    time="start_s",
    keep="windows",
    key=("node", "device", *_OF_WINDOW, "job"),
    maps=_OF_DEVICES,
)
HOST_WINDOW = of_event(
    "host_window",
    topics.WINDOW,
    events.HostWindow,
    ("node", *_OF_WINDOW),
    time="start_s",
    keep="windows",
    key=("node", *_OF_WINDOW),
    maps=_OF_HOSTS,
)
FINDING = of_event(
    "finding",
    topics.FINDING,
    events.Finding,
    ("job", "id", "revision"),
    key=("id", "revision"),
    parts=("cost", "coverage"),
)
SUGGESTION = of_event(
    "suggestion", topics.SUGGESTION, events.Suggestion, ("id", "revision"), key=("id", "revision"), parts=("gain",)
)
JOB = of_event("job", topics.JOB, events.JobDescribed, ("job", "attempt", "node", PUBLISHED))
NODE = of_event("node", topics.NODE, events.NodeDescribed, ("node", PUBLISHED))
PROFILE = of_event("profile", topics.PROFILE, events.JobProfile, ("job", "attempt", PUBLISHED))
FORECAST = of_event("forecast", topics.FORECAST, events.Forecast, ("series", PUBLISHED))
PLAN = of_event("plan", topics.PLAN, events.BalancePlan, ("job", "attempt", "version"))
BALANCE = of_event("balance", topics.BALANCE, events.BalanceObserved, ("job", "attempt", PUBLISHED))
THRESHOLD = of_event("threshold", topics.THRESHOLD, events.Thresholds, ("job", "attempt", PUBLISHED))
SESSION = of_event("session", topics.SESSION, events.SessionState, ("name", PUBLISHED))
COMMAND = of_event("command", topics.COMMAND, events.Command, ("target", PUBLISHED))
AUDIT = of_event("audit", topics.AUDIT, events.AuditEntry, ("target", PUBLISHED))
SLURM_JOB = Table(
    "slurm_job",
    None,
    {
        CLUSTER: "text",
        "job": "text",
        "slurm_job_id": "text",
        "array_job_id": "text",
        "name": "text",
        "user_name": "text",
        "account": "text",
        "partition": "text",
        "state": "text",
        "exit_status": "i64",
        "exit_signal": "i64",
        "submit_s": "f64",
        "start_s": "f64",
        "end_s": "f64",
        "wait_s": "f64",
        "node_count": "i64",
        "nodes": "text",
        "gpus": "i64",
        PUBLISHED: "f64",
    },
    ("job", PUBLISHED),
    PUBLISHED,
    "documents",
    ("job", PUBLISHED),
)

TABLES = (
    DEVICE,
    HOST,
    OP,
    MICROBATCH,
    CONDITION,
    COLLECTIVE_SUM,
    LINK,
    COLLECTIVE,
    JOB_WINDOW,
    RANK_WINDOW,
    DEVICE_WINDOW,
    HOST_WINDOW,
    FINDING,
    SUGGESTION,
    JOB,
    NODE,
    PROFILE,
    FORECAST,
    PLAN,
    BALANCE,
    THRESHOLD,
    SESSION,
    COMMAND,
    AUDIT,
    SLURM_JOB,
)
BY_NAME = {table.name: table for table in TABLES}
#: The tables that events of each kind go to whole, a row an event.
BY_EVENT = {table.event: table for table in TABLES if table.event is not None}
#: The topics that are archived. Files on their way, what cannot be decoded and what nobody writes any more are not.
ARCHIVED = tuple(dict.fromkeys(table.topic for table in TABLES if table.topic is not None))
