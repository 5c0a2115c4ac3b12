"""Which decisions see which topic, and where what they say goes: the architecture of this service on ten lines.

Rule of this file: data only. A new verdict is a new decision in this table.
"""

from typing import Any, Protocol, Self, runtime_checkable

from paceline import topics
from paceline.events import AuditEntry, BalancePlan, Event, Finding, JobDescribed, Suggestion, Window
from paceline.topics import Topic

from .balance.job_balance import JobBalance
from .balance.rank_findings import RankFindings
from .cluster_advice import AdviceSettings, ClusterAdvice
from .cluster_events import ADVICE
from .cluster_ratings import ClusterRatings
from .job_state import Backlog, JobState
from .nodes.node_diagnosis import NodeDiagnosis
from .snapshots import Steps
from .windows.node_windows import DeviceWindows, HostWindows


class Decision(Protocol):
    """A resumable machine: told events, it answers with events; its state is bytes."""

    def update(self, event: Any) -> list[Any]:
        """Take in one event; what follows from it."""

    def snapshot(self) -> bytes:
        """The whole state."""

    @classmethod
    def restore(cls, data: bytes) -> Self:
        """The decision that ``snapshot`` described. ValueError where ``data`` is no snapshot of this version."""


@runtime_checkable
class TwoPartSnapshot(Protocol):
    """A decision that may hold so much that its snapshot is packed while it goes on."""

    def cutting(self) -> Steps:
        """The whole state as it is now; packed, it is what ``snapshot`` gives."""


@runtime_checkable
class Patient(Protocol):
    """A decision that may hold events back until more of them are there."""

    def finish(self) -> list[Any]:
        """What follows from all that was taken in, now that nothing more comes."""


@runtime_checkable
class Concludes(Protocol):
    """A decision that has a last word once no event follows."""

    def conclude(self) -> list[Any]:
        """What is said at the end of all events."""

    def expire(self) -> list[Any]:
        """What is said when it is forgotten, idle for long: whether more would have followed is not known."""


@runtime_checkable
class OfOneLaunch(Protocol):
    """A decision that counts by a job's steps: of another launch of the same attempt it makes another."""

    def next_launch(self) -> Self:
        """One that has seen nothing of the next launch, set up like this one."""


@runtime_checkable
class HearsGoodbye(Protocol):
    """A decision that notices who falls silent: a recording tells of nodes that have left in their descriptions, too.

    On the bus they do so in the messages of their steps alone: descriptions have other keys, and no order with those.
    """

    def leave(self, described: JobDescribed) -> list[Any]:
        """The ranks of a job have left the node that ``described`` tells of; what follows from it."""


@runtime_checkable
class JudgesTogether(Protocol):
    """A decision that may judge several messages together where more of them are at hand."""

    def share_backlog(self, backlog: Backlog) -> None:
        """Judge as many together as ``backlog`` says at the time."""


@runtime_checkable
class BoundsRanks(Protocol):
    """A decision that keeps something for every rank of a job."""

    def bound_ranks(self, most: int) -> None:
        """Leave out ranks from number ``most`` on."""


@runtime_checkable
class TakesAdviceSettings(Protocol):
    """A decision that advises a cluster, and that commands are told to."""

    def advise_by(self, settings: AdviceSettings) -> None:
        """Advise, and answer commands, by ``settings``."""


Routes = dict[str, tuple[type[Decision], ...]]

ROUTES: Routes = {
    topics.OP.name: (JobState,),
    topics.COLLECTIVE.name: (JobState,),
    topics.THRESHOLD.name: (JobState,),
    topics.DEVICE.name: (DeviceWindows, NodeDiagnosis),
    topics.HOST.name: (HostWindows, NodeDiagnosis),
    topics.NODE.name: (DeviceWindows, NodeDiagnosis),
    topics.BALANCE.name: (JobBalance, RankFindings),
    ADVICE.name: (ClusterAdvice, ClusterRatings),
}


def topic_of(event: Event) -> Topic:
    """The topic that a decision's answer goes to."""
    if isinstance(event, Finding):
        return topics.FINDING
    if isinstance(event, Window):
        return topics.WINDOW
    if isinstance(event, Suggestion):
        return topics.SUGGESTION
    if isinstance(event, AuditEntry):
        return topics.AUDIT
    if isinstance(event, BalancePlan):
        return topics.PLAN
    raise TypeError(f"no topic for {type(event).__name__}")
