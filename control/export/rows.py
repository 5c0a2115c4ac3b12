"""Messages to rows: what a GPU, a host or a job said at a time.

Rule of this file: pure. Names of GPUs come from the inventory; of a clock that is far off the rows are dropped, for
they would stretch every axis of time.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from paceline import wire
from paceline.events import SHORT_WINDOW_S, DeviceSamples, Finding, HostSamples, JobWindow, NodeDescribed
from paceline.recording import Line
from paceline.topics import DEVICE, FINDING, HOST, NODE, WINDOW

from .told import Told

TOPICS = {topic.name: topic for topic in (DEVICE, HOST, NODE, WINDOW, FINDING)}
#: The columns of numbers of each kind of row. Their names tell the unit.
DEVICE_COLUMNS = tuple(name for name in wire.sample_columns(DeviceSamples) if name not in ("device", "time_s"))
HOST_COLUMNS = tuple(name for name in wire.sample_columns(HostSamples) if name not in ("time_s", "cpu_ratio_per_core"))
JOB_COLUMNS = ("steps", "step_median_s", "step_p95_s", "own_median_s", "own_worst_s", "worst_rank", "wait_ratio")
#: How far a node's clock may be from the session's times.
CLOCK_S = 3600.0
#: Names of GPUs that are remembered; they come from outside.
_MOST_NAMES = 200_000


class Row(NamedTuple):
    """What was said of one thing at a time. ``number`` and ``name`` are a GPU's, ``job`` a job's."""

    kind: str
    time_s: float
    cluster: str
    node: str
    values: Mapping[str, Any]
    number: int | None = None
    device: str = ""
    name: str = ""
    job: str = ""


class Reader:
    """Reads the messages of a session, and counts what cannot be used."""

    def __init__(self, told: Told) -> None:
        self._told = told
        self._shown = frozenset(told.devices)
        self._names: dict[tuple[str, str], tuple[int, str]] = {}
        #: Messages by topic; those that are no event of theirs; rows of a clock that is far off.
        self.messages: dict[str, int] = {}
        self.unusable = 0
        self.odd_times = 0

    def events(self, lines: Iterable[Line]) -> Iterator[Any]:
        """The events that rows are made of."""
        for line in lines:
            if len(self.messages) < 100 or line.topic in self.messages:
                self.messages[line.topic] = self.messages.get(line.topic, 0) + 1
            topic = TOPICS.get(line.topic)
            if topic is None or not line.value or line.value == b"null":
                continue
            try:
                event = wire.decode(topic, line.value)
            except wire.WireError:
                self.unusable += 1
                continue
            if isinstance(event, NodeDescribed):
                self._learn(event)
            else:
                yield event

    def rows(self, event: Any) -> Iterator[Row]:
        """The rows of an event."""
        if isinstance(event, DeviceSamples):
            yield from self._devices(event)
        elif isinstance(event, HostSamples):
            told = [(name, column) for name in HOST_COLUMNS if (column := getattr(event, name))]
            for at, time_s in enumerate(event.time_s):
                if self._believed(event.t0_s + time_s):
                    values = {name: column[at] for name, column in told}
                    yield Row("host", event.t0_s + time_s, event.cluster, event.node, values)
        elif isinstance(event, JobWindow) and event.length_s == SHORT_WINDOW_S and self._believed(event.start_s):
            # The longer windows hold the same steps once more.
            values = {name: getattr(event, name) for name in JOB_COLUMNS}
            yield Row("job", event.start_s, event.cluster, "", values, job=event.job)

    def finding(self, event: Any) -> Finding | None:
        """``event`` where it is a finding."""
        return event if isinstance(event, Finding) else None

    def _devices(self, event: DeviceSamples) -> Iterator[Row]:
        columns = [(name, getattr(event, name)) for name in DEVICE_COLUMNS]
        columns = [(name, column) for name, column in columns if column]
        for at, device in enumerate(event.device):
            time_s = event.t0_s + event.time_s[at]
            uuid = event.uuids[device]
            index, name = self._names.get((event.node, uuid), (device, ""))
            if self._shown and not self._shown & {uuid, f"{event.node}:{index}"}:
                continue
            if self._believed(time_s):
                values = {column_name: column[at] for column_name, column in columns}
                yield Row("device", time_s, event.cluster, event.node, values, index, uuid, name)

    def _learn(self, event: NodeDescribed) -> None:
        for device in event.devices:
            if len(self._names) < _MOST_NAMES:
                self._names[event.node, device.uuid] = (device.index, device.name)

    def _believed(self, time_s: float) -> bool:
        latest_s = float("inf") if self._told.stopped_s is None else self._told.stopped_s + CLOCK_S
        if self._told.started_s - CLOCK_S <= time_s <= latest_s:
            return True
        self.odd_times += 1
        return False
