"""The topic table: the one place where a topic's name, event, key, partitions and retention are declared.

Rule of this file: data only. Brokers, docs, compose and the Faust app read it; none repeats it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from paceline import events

#: Partition count of every keyed topic; on an embedded broker fewer. It cannot change later without re-keying, and
#: Faust wants topics and changelogs equal; 12 divides evenly over 1, 2, 3, 4, 6 and 12 workers.
PARTITIONS = 12

HOUR_MS = 3_600_000
GIB = 1024**3
#: Disk that a partition of a raw topic may take: a day of one job of 1,000 ranks at a step a second, which lies in a
#: single partition, or of what 14,000 GPUs send on ``device`` (docs/operations.md).
RAW_BYTES = 16 * GIB
#: The same of windows: a week of one job of 1,000 ranks.
WINDOW_BYTES = 64 * GIB
#: The consumer group of the workers, and the prefix of every topic that they own: ACLs name ``paceline-streams-``.
STREAMS_GROUP = "paceline-streams"


class Topic(msgspec.Struct, frozen=True):
    """A row of the table. ``retention_ms`` is None for a compacted topic.

    ``retention_bytes`` bounds each partition: where more comes than was foreseen, the oldest goes before its time, and
    the disk does not fill. None: by time alone.
    """

    name: str
    event: type[msgspec.Struct] | object
    key: Literal["job", "job/node", "node", "series", "target", "id", "name", "cluster", "none"]
    kind: Literal["raw", "derived", "compacted"]
    retention_ms: int | None
    partitions: int = PARTITIONS
    encoding: Literal["json", "msgpack"] = "json"
    retention_bytes: int | None = None

    def split(self, partitions: int | None) -> int:
        """Its partitions where keyed topics have ``partitions``, None: as the table says. Few messages need but one.

        >>> OP.split(2), OP.split(None), DEADLETTER.split(2)
        (2, 12, 1)
        """
        return partitions if partitions and self.partitions == PARTITIONS else self.partitions

    @property
    def short(self) -> str:
        """The name as people say it: ``op`` for ``paceline.op.v2``.

        Of a topic that is the workers' own, what follows their prefix.
        """
        if self.name.startswith(f"{STREAMS_GROUP}-"):
            return self.name.removeprefix(f"{STREAMS_GROUP}-")
        return self.name.split(".")[1]


DEVICE = Topic("paceline.device.v1", events.DeviceSamples, "node", "raw", 24 * HOUR_MS, retention_bytes=RAW_BYTES)
HOST = Topic("paceline.host.v1", events.HostSamples, "node", "raw", 24 * HOUR_MS, retention_bytes=RAW_BYTES)
OP = Topic(
    "paceline.op.v2",
    events.StepTimings,
    "job",
    "raw",
    24 * HOUR_MS,
    encoding="msgpack",
    retention_bytes=RAW_BYTES,
)
COLLECTIVE = Topic(
    "paceline.collective.v2",
    events.CollectiveCalls,
    "job",
    "raw",
    24 * HOUR_MS,
    encoding="msgpack",
    retention_bytes=RAW_BYTES,
)
NODE = Topic("paceline.node.v1", events.NodeDescribed, "node", "compacted", None)
JOB = Topic("paceline.job.v1", events.JobDescribed, "job/node", "compacted", None)
WINDOW = Topic(
    "paceline.window.v1",
    events.RankWindow | events.JobWindow | events.DeviceWindow | events.HostWindow,
    "job",
    "derived",
    7 * 24 * HOUR_MS,
    retention_bytes=WINDOW_BYTES,
)
FINDING = Topic("paceline.finding.v1", events.Finding, "job", "derived", 30 * 24 * HOUR_MS)
PROFILE = Topic("paceline.profile.v1", events.JobProfile, "job", "compacted", None)
FORECAST = Topic("paceline.forecast.v1", events.Forecast, "series", "derived", 7 * 24 * HOUR_MS)
SUGGESTION = Topic("paceline.suggestion.v1", events.Suggestion, "id", "compacted", None)
THRESHOLD = Topic("paceline.threshold.v1", events.Thresholds, "job", "compacted", None)
BALANCE = Topic("paceline.balance.v1", events.BalanceObserved, "job", "raw", 24 * HOUR_MS, retention_bytes=RAW_BYTES)
PLAN = Topic("paceline.plan.v1", events.BalancePlan, "job", "compacted", None)
CAPTURE = Topic("paceline.capture.v1", events.CapturePiece, "job", "raw", HOUR_MS, retention_bytes=GIB)
SESSION = Topic("paceline.session.v1", events.SessionState, "name", "compacted", None)
COMMAND = Topic("paceline.command.v1", events.Command, "target", "raw", 24 * HOUR_MS)
AUDIT = Topic("paceline.audit.v1", events.AuditEntry, "none", "raw", 30 * 24 * HOUR_MS, 1)
DEADLETTER = Topic("paceline.deadletter.v1", events.DeadLetter, "none", "raw", 7 * 24 * HOUR_MS, 1)

TOPICS = (
    DEVICE,
    HOST,
    OP,
    COLLECTIVE,
    NODE,
    JOB,
    WINDOW,
    FINDING,
    PROFILE,
    FORECAST,
    SUGGESTION,
    THRESHOLD,
    BALANCE,
    PLAN,
    CAPTURE,
    SESSION,
    COMMAND,
    AUDIT,
    DEADLETTER,
)
#: How the services themselves are run, and files on their way. A recording of these is read by people: nothing judges
#: or replays it.
OPERATIONAL = (CAPTURE, SESSION, COMMAND, AUDIT, DEADLETTER)
BY_NAME = {topic.name: topic for topic in TOPICS}
BY_SHORT = {topic.short: topic for topic in TOPICS}


def resolve(name: str) -> Topic:
    """The topic called ``name``, in full or short form.

    Raises:
        KeyError: no such topic; the message lists those there are.
    """
    topic = BY_NAME.get(name) or BY_SHORT.get(name)
    if topic is None:
        raise KeyError(f"no topic {name!r}; there are {', '.join(sorted(BY_SHORT))}")
    return topic


def usual_partitions(counts: Mapping[str, int], wanted: Sequence[Topic]) -> int | None:
    """How many partitions most keyed ones of ``wanted`` have, by ``counts`` of those that exist; None: no such most.

    Who made most of them so meant it; a few a broker makes by itself, with its own default, for who publishes first.

    >>> usual_partitions({OP.name: 2, HOST.name: 2, JOB.name: 1}, [OP, HOST, JOB])
    2
    >>> usual_partitions({OP.name: 1}, [OP, HOST, JOB]) is None
    True
    """
    keyed = [topic for topic in wanted if topic.partitions == PARTITIONS]
    there = Counter(counts[topic.name] for topic in keyed if topic.name in counts)
    count, times = max(there.items(), key=lambda one: one[1], default=(0, 0))
    return count if 2 * times > len(keyed) else None
