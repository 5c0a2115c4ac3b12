"""The events: what travels on the topics, and nothing that does anything.

Rule of this package: frozen data with its unit in the field name, no behaviour. A change is additive only (new optional
fields); every released shape has a golden file in ``tests/paceline/golden``. Unknown fields are ignored on reading.

High-rate events are **columnar batches**: parallel lists, one entry a row, so that a node's sidecar sends one message a
second for all its ranks. Words that repeat (operations, groups) are sent once as a vocabulary and rows hold indices
into it. Those of the highest rates (StepTimings, CollectiveCalls) are MessagePack with columns of raw numbers. Times of
rows are offsets in seconds from the batch's ``t0_s`` (Unix time on the producer's clock): offsets are short on the wire
and exact to a microsecond. ``None`` means *not measured*; 0 is a value.
"""

from paceline.events.base import (
    LATEST_S,
    SCHEMA_VERSION,
    Accounted,
    Count,
    CountOrNone,
    DeliveryAccount,
    Event,
    Index,
    Number,
    Produced,
    Rank,
    Seconds,
    Time,
    Whole,
)
from paceline.events.collectives import CollectiveTimings, LinkSample, OpenCollective, PeerLink
from paceline.events.columns import (
    CollectiveCalls,
    CollectiveSums,
    Column,
    ConditionColumns,
    LinkColumns,
    Microbatches,
    Speakers,
    StepTimings,
)
from paceline.events.commands import FULL_ROWS, AuditEntry, Command, FullRows, Outcome
from paceline.events.deadletter import DeadLetter
from paceline.events.findings import (
    CAUSE_ADVICE,
    CAUSE_WORDS,
    Cause,
    Cost,
    Coverage,
    Evidence,
    Finding,
    FindingKind,
    FindingState,
    Severity,
    Thresholds,
)
from paceline.events.forecasts import Backtest, Forecast, JobKind, JobProfile
from paceline.events.machines import (
    DeviceDescribed,
    DeviceProcess,
    DeviceSamples,
    HostSamples,
    NetworkErrors,
    NodeDescribed,
)
from paceline.events.suggestions import Effect, Gain, Suggestion, SuggestionState
from paceline.events.training import (
    OP_INDEX,
    OPS,
    OVERLAYS,
    STEP,
    JobDescribed,
    OpTimings,
    ProbeCost,
    RankBreakdown,
    RankCondition,
    RankFact,
    RankFacts,
    RankPlace,
)
from paceline.events.windows import CollectiveLine, DeviceWindow, HostWindow, JobWindow, RankWindow, Window
from paceline.phases import MOST_LEFT_OUT, PHASES

__all__ = [
    "CAUSE_ADVICE",
    "CAUSE_WORDS",
    "FULL_ROWS",
    "LATEST_S",
    "MOST_LEFT_OUT",
    "OPS",
    "OP_INDEX",
    "OVERLAYS",
    "PHASES",
    "SCHEMA_VERSION",
    "STEP",
    "Accounted",
    "AuditEntry",
    "Backtest",
    "Cause",
    "CollectiveCalls",
    "CollectiveLine",
    "CollectiveSums",
    "CollectiveTimings",
    "Column",
    "Command",
    "ConditionColumns",
    "Cost",
    "Count",
    "CountOrNone",
    "Coverage",
    "DeadLetter",
    "DeliveryAccount",
    "DeviceDescribed",
    "DeviceProcess",
    "DeviceSamples",
    "DeviceWindow",
    "Effect",
    "Event",
    "Evidence",
    "Finding",
    "FindingKind",
    "FindingState",
    "Forecast",
    "FullRows",
    "Gain",
    "HostSamples",
    "HostWindow",
    "Index",
    "JobDescribed",
    "JobKind",
    "JobProfile",
    "JobWindow",
    "LinkColumns",
    "LinkSample",
    "Microbatches",
    "NetworkErrors",
    "NodeDescribed",
    "Number",
    "OpTimings",
    "OpenCollective",
    "Outcome",
    "PeerLink",
    "ProbeCost",
    "Produced",
    "Rank",
    "RankBreakdown",
    "RankCondition",
    "RankFact",
    "RankFacts",
    "RankPlace",
    "RankWindow",
    "Seconds",
    "Severity",
    "Speakers",
    "StepTimings",
    "Suggestion",
    "SuggestionState",
    "Thresholds",
    "Time",
    "Whole",
    "Window",
]
