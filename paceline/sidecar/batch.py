"""Joins what the ranks of a node report into columnar events: about one message a second and topic.

Rule of this file: pure. Time is an argument, messages come in as structs and events go out as ``Outgoing``; whoever
calls decides where they go. A rank's rows stay in the order in which it measured them. Rows that cannot travel (a
time that no event may hold) are dropped and counted, never guessed.
"""

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from paceline import wire
from paceline.events import (
    LATEST_S,
    CollectiveTimings,
    JobDescribed,
    LinkSample,
    OpenCollective,
    OpTimings,
    RankCondition,
    RankPlace,
)
from paceline.sidecar.columns import LONGEST_WORD, CollectiveColumns, OpColumns
from paceline.sidecar.rank_rows import CollectiveRow, OpRow, Report
from paceline.topics import COLLECTIVE, JOB, OP, Topic
from paceline.training.messages import Hello

#: A message is sent when it is this old, or full.
FLUSH_AFTER_S = 1.0
#: Conditions kept for the next message: a rank's, once a second, while nothing else is sent.
MOST_CONDITIONS = 512


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
    phases: bool = False
    lost: int = 0
    ops: OpColumns = field(default_factory=OpColumns)
    collectives: CollectiveColumns = field(default_factory=CollectiveColumns)
    links: dict[int, LinkSample] = field(default_factory=dict)
    conditions: list[RankCondition] = field(default_factory=list)
    open: list[OpenCollective] = field(default_factory=list)
    open_s: float | None = None
    #: Every collective is sent until then, on the clock of ``Batcher.tick``.
    full_rows_until_s: float = 0.0
    sequences: dict[str, int] = field(default_factory=dict)
    ready: list[Outgoing] = field(default_factory=list)

    def sequence(self, topic: Topic) -> int:
        number = self.sequences.get(topic.name, 0)
        self.sequences[topic.name] = number + 1
        return number


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
        job.hello[hello.rank] = hello
        job.alive.add(hello.rank)
        job.described, job.ended_s = False, None
        return key

    def update(self, key: tuple[str, int], rank: int, report: Report) -> None:
        """What ``rank`` measured since its last report."""
        job = self._jobs[key]
        job.lost += report.lost
        self._append_ops(job, rank, report.ops)
        self._append_collectives(job, rank, report.collectives)
        if report.link is not None and math.isfinite(report.link.rtt_s):
            job.links[rank] = LinkSample(rank=rank, **report.link._asdict())

    def ranks(self) -> dict[tuple[str, int], dict[int, tuple[int, str]]]:
        """The ranks that are here, by job and attempt: process and device of each."""
        return {
            key: {rank: (job.hello[rank].pid, job.hello[rank].device) for rank in sorted(job.alive)}
            for key, job in self._jobs.items()
            if job.alive
        }

    def waiting(self, key: tuple[str, int]) -> tuple[bool, int]:
        """Whether rows of a job have been taken and not given away yet, and of how many lost that is so."""
        job = self._jobs[key]
        return bool(job.ops or job.collectives), job.lost

    def observe(self, key: tuple[str, int], conditions: list[RankCondition]) -> None:
        """What the node did to the ranks meanwhile: it goes out with their next rows."""
        job = self._jobs[key]
        job.conditions = (job.conditions + conditions)[-MOST_CONDITIONS:]

    def update_open(self, key: tuple[str, int], collectives: list[OpenCollective], now_s: float) -> None:
        """The collectives that ranks stand in at ``now_s``: they go out even where no rows do."""
        job = self._jobs[key]
        job.open, job.open_s = collectives, now_s

    def send_full_rows(self, key: tuple[str, int], until_s: float) -> None:
        """Send every collective of a job until ``until_s``, on the clock of ``tick``; what is longer holds."""
        job = self._jobs[key]
        job.full_rows_until_s = max(job.full_rows_until_s, until_s)

    def leave(self, key: tuple[str, int], rank: int, now_s: float) -> None:
        """``rank`` has gone; when it was the last one the job has ended on this node."""
        job = self._jobs[key]
        job.alive.discard(rank)
        if not job.alive:
            job.ended_s, job.described = now_s, False

    def tick(self, now_s: float) -> list[Outgoing]:
        """What is due at ``now_s`` (any clock that does not go back): full messages at once, the rest each second."""
        due = self._due_s is None or now_s >= self._due_s
        if due:
            self._due_s = now_s + FLUSH_AFTER_S
        return self._drain(everything=due)

    def end(self, now_s: float, exit_status: int | None = None) -> list[Outgoing]:
        """All that is left. ``exit_status`` is the command's, if known: it goes to the job that joined last."""
        for job in self._jobs.values():
            if job.ended_s is None:
                job.ended_s, job.described = now_s, False
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
                self._close_ops(job)
                self._close_collectives(job)
            # Who is in the job comes before its rows, that it has ended after them.
            outgoing += job.ready + described if job.ended_s is not None else described + job.ready
            job.ready = []
        return outgoing

    def _append_ops(self, job: _Job, rank: int, rows: list[OpRow]) -> None:
        for row in rows:
            if not _fit(row.start_s, row.duration_s):
                self.unfit_rows += 1
                continue
            if job.ops.full():
                self._close_ops(job)
            job.phases = True
            job.ops.append(rank, row)

    def _append_collectives(self, job: _Job, rank: int, rows: list[CollectiveRow]) -> None:
        for row in rows:
            if not _fit(row.start_s, row.duration_s, row.wait_s):
                self.unfit_rows += 1
                continue
            if job.collectives.full():
                self._close_collectives(job)
            job.collectives.append(rank, row)

    def _close_ops(self, job: _Job) -> None:
        columns, job.ops = job.ops.fields(), OpColumns()
        if not columns:
            return
        speakers = sorted(job.alive.union(columns["rank"]))
        event = OpTimings(
            **self._head(job, OP),
            **columns,
            ranks=speakers,
            world_sizes=[job.hello[rank].world_size for rank in speakers],
            devices=[job.hello[rank].device[:LONGEST_WORD] for rank in speakers],
            lost=job.lost,
            dp=_places([job.hello[rank].dp for rank in speakers]),
            tp=_places([job.hello[rank].tp for rank in speakers]),
            pp=_places([job.hello[rank].pp for rank in speakers]),
            conditions=job.conditions,
        )
        job.lost, job.conditions = 0, []
        job.ready.append(Outgoing(OP, event))

    def _close_collectives(self, job: _Job) -> None:
        columns, job.collectives = job.collectives.fields(job.open_s), CollectiveColumns()
        if not columns:
            return
        speakers = sorted(job.alive.union(columns["rank"]))
        event = CollectiveTimings(
            **self._head(job, COLLECTIVE),
            **columns,
            ranks=speakers,
            world_sizes=[job.hello[rank].world_size for rank in speakers],
            backend=job.hello[speakers[0]].backend[:LONGEST_WORD],
            phases=job.phases,
            links=[job.links[rank] for rank in sorted(job.links)],
            open=job.open,
            now_s=job.open_s,
        )
        job.links, job.open, job.open_s = {}, [], None
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
            labels=first.labels,
        )
        return Outgoing(JOB, event)


def _places(places: list[int | None]) -> list[int]:
    """The ranks' places in one dimension; nothing where nobody has one."""
    return [-1 if place is None else place for place in places] if any(p is not None for p in places) else []


def _fit(start_s: float, *lengths_s: float) -> bool:
    """Whether these times can travel; NaN is within no bounds."""
    return 0.0 <= start_s <= LATEST_S and all(-LATEST_S <= length_s <= LATEST_S for length_s in lengths_s)
