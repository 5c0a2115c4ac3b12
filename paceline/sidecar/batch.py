"""Joins what the ranks of a node report into columnar events: about one message a second and job.

Rule of this file: pure. Time is an argument, messages come in as structs and events go out as ``Outgoing``; whoever
calls decides where they go. A rank's rows stay in the order in which it measured them.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from paceline import columns, wire
from paceline.events import (
    CollectiveCalls,
    Column,
    Event,
    JobDescribed,
    OpenCollective,
    RankCondition,
    RankEnd,
    RankLook,
    RankPlace,
    Speakers,
    StepTimings,
)
from paceline.gpu.uuids import canonical
from paceline.identity import LONGEST, SWITCH
from paceline.sidecar.call_columns import CallColumns
from paceline.sidecar.columns import LONGEST_WORD, travels
from paceline.sidecar.node_steps import NodeSteps
from paceline.sidecar.probe_windows import NodeWindows
from paceline.sidecar.rank_facts import facts_of
from paceline.sidecar.rank_rows import CollectiveRow, Report
from paceline.topics import COLLECTIVE, JOB, OP, Topic
from paceline.training.messages import Hello

#: A message is sent when it is this old, or full.
FLUSH_AFTER_S = 1.0
#: Labels of a job that travel.
MOST_LABELS = 64


class Outgoing(NamedTuple):
    """An event and the topic it belongs on."""

    topic: Topic
    event: Any

    @property
    def key(self) -> str | None:
        """Its key on the bus."""
        return wire.key_of(self.topic, self.event)


@dataclass(frozen=True)
class Origin:
    """What a node's messages all say of where they come from. ``producer`` is unique to this process start."""

    cluster: str
    node: str
    producer: str
    #: Which of the sidecars that its job has on this node, "" for the first or only one.
    part: str = ""


@dataclass
class _Job:
    """One attempt of one job on this node."""

    name: str
    attempt: int
    producer: str
    hello: dict[int, Hello] = field(default_factory=dict)
    alive: set[int] = field(default_factory=set)
    described: bool = False
    ended_s: float | None = None
    exit_status: int | None = None
    #: All its ranks have left, and that is not told yet.
    leaving: bool = False
    lost: int = 0
    #: Ranks whose versions go out with the next message of steps.
    untold: set[int] = field(default_factory=set)
    told: NodeSteps = field(default_factory=NodeSteps)
    #: Until then, on the clock of ``tick``, collectives are told one by one beside their sums.
    full_rows_until_s: float = -math.inf
    windows: NodeWindows = field(default_factory=NodeWindows)
    #: Collectives by NCCL's own times.
    nccl: CallColumns = field(default_factory=CallColumns)
    sequences: dict[str, int] = field(default_factory=dict)
    #: How many messages of steps there were when it was last asked whether it is quiet.
    spoken: int = -1
    ready: list[Outgoing] = field(default_factory=list)

    def sequence(self, topic: Topic) -> int:
        number = self.sequences.get(topic.name, 0)
        self.sequences[topic.name] = number + 1
        return number


def _spelled(hello: Hello) -> Hello:
    """``hello`` with its device's name as all others write it: PyTorch spells a GPU of AMD's in a way of its own."""
    return replace(hello, device=canonical(hello.device) or hello.device)


class Batcher:
    """Ranks' messages in, events out.

    ``join`` when a rank says hello, ``update`` for each report, ``leave`` when it goes; ``tick`` returns what is due
    and ``end`` all the rest. A sidecar may see several jobs and attempts; each is numbered by a producer of its own.
    """

    def __init__(self, origin: Origin, fallback_job: str = "") -> None:
        self._origin = origin
        self._fallback = fallback_job
        self._jobs: dict[tuple[str, int], _Job] = {}
        self._due_s: float | None = None
        self._now_s = -math.inf
        #: Rows that could not travel, or came after their step had been told.
        self.unfit_rows = 0

    def join(self, hello: Hello) -> tuple[str, int]:
        """A rank has joined. Returns the job and attempt it belongs to, which ``update`` and ``leave`` want back."""
        name = hello.job or self._fallback or f"{self._origin.node}-unnamed"
        key = (name, hello.attempt)
        job = self._jobs.get(key)
        if job is None:
            number = len(self._jobs)
            producer = self._origin.producer + (f".{number}" if number else "")
            job = self._jobs[key] = _Job(name, hello.attempt, producer)
        elif not job.alive:
            # All had left: these may count their steps from 0 again.
            self._close_steps(job)
            job.told = NodeSteps(phases=job.told.phases)
        job.hello[hello.rank] = _spelled(hello)
        job.alive.add(hello.rank)
        job.untold.add(hello.rank)
        job.described, job.ended_s, job.leaving = False, None, False
        return key

    def learn(self, key: tuple[str, int], hello: Hello) -> None:
        """A rank that is here knows more of itself: its device, say. The job is described again."""
        job = self._jobs[key]
        if hello.rank in job.alive and job.hello[hello.rank].pid == hello.pid:
            job.hello[hello.rank], job.described = _spelled(hello), False

    def update(self, key: tuple[str, int], rank: int, report: Report) -> None:
        """What ``rank`` measured since its last report."""
        job = self._jobs[key]
        job.lost += report.lost
        self._append(job, rank, report)
        job.windows.update(rank, report.windows)
        if report.link is not None:
            job.told.links.update(rank, report.link)

    def ranks(self) -> dict[tuple[str, int], dict[int, tuple[int, str]]]:
        """The ranks that are here, by job and attempt: process and device of each."""
        return {
            key: {rank: (job.hello[rank].pid, job.hello[rank].device) for rank in sorted(job.alive)}
            for key, job in self._jobs.items()
            if job.alive
        }

    def waiting(self, key: tuple[str, int]) -> tuple[bool, int, float]:
        """What of a job has been taken and not given away yet: whether any rows, how many lost, and from which step on
        the sums of its collectives."""
        job = self._jobs[key]
        return bool(job.told.steps or job.told.calls), job.lost, job.told.held_from()

    def observe(self, key: tuple[str, int], conditions: list[RankCondition]) -> None:
        """What the node did to the ranks meanwhile: it goes out with their next rows."""
        self._jobs[key].told.observe(conditions)

    def update_open(
        self,
        key: tuple[str, int],
        collectives: list[OpenCollective],
        now_s: float,
        looks: Sequence[RankLook] = (),
    ) -> None:
        """The collectives that ranks stand in at ``now_s``, and where ranks are: they go out even where no rows do."""
        told = self._jobs[key].told
        told.open, told.open_s = collectives, now_s
        told.looks = list(looks) or told.looks

    def quiet(self, key: tuple[str, int]) -> bool:
        """Whether no message of this job's steps has gone out since this was last asked: then it may be told that its
        ranks are there."""
        job = self._jobs[key]
        before, job.spoken = job.spoken, job.sequences.get(OP.name, 0)
        return before == job.spoken

    def send_full_rows(self, key: tuple[str, int], until_s: float) -> None:
        """Tell this job's collectives one by one, too, until ``until_s`` on the clock of ``tick``; what is longer
        holds."""
        job = self._jobs[key]
        job.full_rows_until_s = max(job.full_rows_until_s, until_s)

    def update_nccl(self, key: tuple[str, int], rank: int, row: CollectiveRow) -> None:
        """A collective of ``rank`` by NCCL's own times: beside what the rank told of it, not in place of that."""
        job = self._jobs[key]
        if not travels(row):
            self.unfit_rows += 1
            return
        if job.nccl.full():
            self._close_nccl(job)
        job.nccl.append(rank, row)

    def tell(self, key: tuple[str, int], topic: Topic, kind: type[Event], **fields: Any) -> None:
        """An event of a job that is no batch of rows: it goes out with what is due next."""
        head = self._head(self._jobs[key], topic)
        head = {name: value for name, value in head.items() if name in kind.__struct_fields__}
        self._jobs[key].ready.append(Outgoing(topic, kind(**head, **fields)))

    def leave(self, key: tuple[str, int], rank: int, now_s: float) -> None:
        """``rank`` has gone; when it was the last one the job has ended on this node."""
        job = self._jobs[key]
        job.alive.discard(rank)
        job.told.leave(rank)
        if not job.alive:
            job.ended_s, job.described, job.leaving = now_s, False, True

    def end_ranks(self, key: tuple[str, int], ends: Sequence[RankEnd]) -> None:
        """How processes of ranks ended; after the last of them the job's goodbye goes out with it."""
        job = self._jobs[key]
        job.told.ends += ends
        job.leaving = job.leaving or not job.alive

    def tick(self, now_s: float) -> list[Outgoing]:
        """What is due at ``now_s`` (any clock that does not go back): full messages at once, the rest each second."""
        due = self._due_s is None or now_s >= self._due_s
        self._now_s = now_s
        if due:
            self._due_s = now_s + FLUSH_AFTER_S
            for job in self._jobs.values():
                job.told.look()
        return self._drain(everything=due)

    def end(self, now_s: float, exit_status: int | None = None) -> list[Outgoing]:
        """All that is left. ``exit_status`` is the command's, if known: it goes to the job that joined last."""
        for job in self._jobs.values():
            if job.ended_s is None:
                job.ended_s, job.described, job.leaving = now_s, False, True
        for job in list(self._jobs.values())[-1:]:
            job.exit_status = exit_status
            job.described = job.described and exit_status is None
        return self._drain(everything=True)

    def _drain(self, *, everything: bool) -> list[Outgoing]:
        outgoing: list[Outgoing] = []
        for job in self._jobs.values():
            described = []
            if everything and not job.described:
                job.described = True
                described = [self._describe(job)]
            if everything:
                self._close_calls(job)
                self._close_nccl(job)
                self._close_steps(job)
                if job.leaving:
                    self._say_goodbye(job)
            # Who is in the job comes before its rows, that it has ended after them.
            outgoing += job.ready + described if job.ended_s is not None else described + job.ready
            job.ready = []
        return outgoing

    def _append(self, job: _Job, rank: int, report: Report) -> None:
        """Collectives first: once a step is closed, those before it have been told."""
        told = job.told
        told.phases |= bool(report.steps)
        one_by_one = not told.phases or self._now_s < job.full_rows_until_s
        for collective in report.collectives:
            if one_by_one and told.calls.full():
                self._close_calls(job)
            if told.crowded():
                self._close_steps(job)
            self.unfit_rows += not told.append_collective(rank, collective, one_by_one=one_by_one)
        for collective in report.again:
            told.append_again(rank, collective)
        for step in report.steps:
            if told.crowded():
                self._close_steps(job)
            self.unfit_rows += not told.append_step(rank, step)

    def _close_steps(self, job: _Job) -> None:
        """Messages of all that is due; none where nothing is."""
        told, ended = job.told, job.ended_s is not None
        before = math.inf if ended else told.complete_before(job.alive)
        while told.due(before, ended=ended):
            ranks, fields = told.take(before, min(hello.started_s for hello in job.hello.values()))
            facts, job.untold = facts_of({rank: job.hello[rank] for rank in job.untold}), set()
            speakers = _speakers(job, ranks.union(facts.ranks if facts else ()))
            event = StepTimings(**self._head(job, OP), **fields, speakers=speakers, lost=job.lost, facts=facts)
            job.lost = 0
            job.ready.append(Outgoing(OP, event))

    def _say_goodbye(self, job: _Job) -> None:
        """All of this job's ranks have left: silence says nothing from now on. Rows that are due say so, if any are."""
        job.leaving = False
        for at in reversed(range(len(job.ready))):
            topic, event = job.ready[at]
            if topic is OP:
                job.ready[at] = Outgoing(OP, msgspec.structs.replace(event, ended=True))
                return
        _, fields = job.told.take(math.inf, min(hello.started_s for hello in job.hello.values()))
        told = {"now_s": max(job.ended_s or 0.0, 0.0), "ended": True, "lost": job.lost}
        event = StepTimings(**self._head(job, OP), **(fields | told), speakers=_speakers(job, job.hello))
        job.lost = 0
        job.ready.append(Outgoing(OP, event))

    def _close_calls(self, job: _Job) -> None:
        calls, job.told.calls = job.told.calls, CallColumns()
        if calls:
            self._tell_calls(job, calls, summed=job.told.phases)

    def _close_nccl(self, job: _Job) -> None:
        calls, job.nccl = job.nccl, CallColumns()
        if calls:
            self._tell_calls(job, calls, summed=True, by_nccl=True)

    def _tell_calls(self, job: _Job, calls: CallColumns, *, summed: bool, by_nccl: bool = False) -> None:
        event = CollectiveCalls(
            **self._head(job, COLLECTIVE),
            **calls.fields(),
            summed=summed,
            by_nccl=by_nccl,
            speakers=_speakers(job, calls.ranks()),
        )
        job.ready.append(Outgoing(COLLECTIVE, event))

    def _head(self, job: _Job, topic: Topic) -> dict[str, Any]:
        """What every message of ``job`` says of where it comes from, with its number."""
        return {
            "cluster": self._origin.cluster,
            "producer": job.producer,
            "sequence": job.sequence(topic),
            "job": job.name,
            "attempt": job.attempt,
            "node": self._origin.node,
        }

    def _describe(self, job: _Job) -> Outgoing:
        joined = [job.hello[rank] for rank in sorted(job.hello)]
        first = joined[0]
        places = [
            RankPlace(
                rank=hello.rank,
                local_rank=hello.local_rank,
                node=self._origin.node,
                device=hello.device[:LONGEST_WORD],
                pid=hello.pid,
                dp=hello.dp,
                tp=hello.tp,
                pp=hello.pp,
            )
            for hello in joined
        ]
        event = JobDescribed(
            **self._head(job, JOB),
            world_size=first.world_size,
            backend=first.backend[:LONGEST_WORD],
            framework=first.framework[:LONGEST_WORD],
            started_s=min(hello.started_s for hello in joined),
            ended_s=job.ended_s,
            exit_status=job.exit_status,
            places=places,
            batch_size=first.batch_size,
            labels=_cut(first.labels),
            probe_cost=job.windows.cost(job.hello) if first.measures else None,
            part=self._origin.part,
        )
        return Outgoing(JOB, event)


def _speakers(job: _Job, ranks: Iterable[int]) -> Speakers:
    """Those who are here, and ``ranks``."""
    told = sorted(job.alive.union(ranks))
    hello = [job.hello[rank] for rank in told]
    return Speakers(
        ranks=columns.whole(told),
        world_sizes=columns.whole([one.world_size for one in hello]),
        devices=[one.device[:LONGEST_WORD] for one in hello],
        dp=_places([one.dp for one in hello]),
        tp=_places([one.tp for one in hello]),
        pp=_places([one.pp for one in hello]),
        switch=next((one.labels[SWITCH][:LONGEST_WORD] for one in hello if SWITCH in one.labels), None),
    )


def _cut(labels: dict[str, str]) -> dict[str, str]:
    """``labels`` as readers take them."""
    return {name[:LONGEST_WORD]: text[:LONGEST] for name, text in islice(labels.items(), MOST_LABELS)}


def _places(places: list[int | None]) -> Column | None:
    """The ranks' places in one dimension; None where nobody has one."""
    if all(place is None for place in places):
        return None
    return columns.whole([-1 if place is None else place for place in places])
