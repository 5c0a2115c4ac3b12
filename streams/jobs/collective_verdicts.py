"""The verdicts from collectives: lateness in every group where no phases are known, and slow links.

Rule of this file: rows are cleaned and sorted to their groups here; the judging is done in arrivals, straggler, links.
"""

import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from paceline.events import CollectiveTimings, Finding

from ..coverage import Ledger
from ..gather import Gather
from . import job_findings, rank_findings
from .arrivals import Arrivals, Rows
from .cohorts import Cohorts
from .collective_batch import Heard, heard_of
from .config import Config
from .hang import Hang
from .slow_links import Links
from .straggler import Straggler
from .traffic import Traffic

#: Groups of one job beyond this are not judged: names come from outside.
_MOST_GROUPS = 4096


class Collectives:
    """CollectiveTimings of one job to findings."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.ledger = Ledger()
        self.gather = Gather(CollectiveTimings)
        self.links = Links(config)
        self.hang = Hang(config)
        self.traffic = Traffic(config)
        self.groups: dict[str, tuple[Arrivals, Straggler]] = {}
        self.places: dict[int, str] = {}

    def update(self, batch: CollectiveTimings) -> list[Finding]:
        """Take in one batch."""
        if not self.ledger.admit(batch.producer, batch.sequence):
            return []
        self.ledger.hear(batch.ranks, batch.world_sizes)
        self.places.update(dict.fromkeys(batch.ranks, batch.node))
        found = []
        stopped = self.hang.update(batch)
        if stopped is not None:
            nodes = sorted({self.places[rank] for rank in stopped[1].missing if rank in self.places})
            found.append(job_findings.hang(*stopped, self._whole(batch), nodes))
        ready = self.gather.add(batch, len(self.ledger.last))
        return self._advance(ready) + found if ready else found

    def finish(self) -> list[Finding]:
        """What the messages that still wait bring to light."""
        return self._advance(ready) if (ready := self.gather.take()) else []

    def _advance(self, batches: list[CollectiveTimings]) -> list[Finding]:
        heard, batch = heard_of(batches, self.ledger), batches[-1]
        spans = heard.calls.spans() if heard.calls.rank.size else None
        found = [
            rank_findings.link(episode, self._subject(batch, episode.rank), self.ledger.coverage())
            for episode in self.links.update(heard, spans)
        ]
        if not heard.phases:
            for name, size, rows in _groups(heard):
                found += self._judge(batch, name, size, rows)
        self.hang.reach(heard)
        # A slow link explains the waiting of all; what the job waits for without it is not to be seen meanwhile.
        bound = self.traffic.update(heard, spans) if spans and not self.links.slow else None
        if bound is not None:
            found.append(job_findings.communication_bound(bound, self._whole(batch), self.config))
        return found

    def _judge(self, batch: CollectiveTimings, name: str, size: int, rows: Rows) -> list[Finding]:
        group = self.groups.get(name)
        if group is None:
            if len(self.groups) >= _MOST_GROUPS:
                self.ledger.note("groups beyond the limit")
                return []
            group = self.groups[name] = (Arrivals(size, self.config, self.ledger), Straggler(self.config, Cohorts()))
        arrivals, straggler = group
        found = []
        for tick in arrivals.update(rows):
            for episode in straggler.update(tick, has_loader=False):
                rank = int(arrivals.members[episode.rank])
                subject = self._subject(batch, rank)
                found.append(rank_findings.late(episode, rank, name, subject, self.ledger.coverage(), self.config))
        return found

    def _whole(self, batch: CollectiveTimings) -> job_findings.Whole:
        return job_findings.Whole(batch.cluster, batch.job, batch.attempt, self.ledger.coverage())

    def _subject(self, batch: CollectiveTimings, rank: int) -> rank_findings.Subject:
        return rank_findings.Subject(batch.cluster, batch.job, batch.attempt, self.places.get(rank, ""), "")

    def snapshot(self) -> dict[str, Any]:
        """The state as plain data and arrays."""
        return {
            "ledger": self.ledger.snapshot(),
            "gather": self.gather.snapshot(),
            "links": self.links.snapshot(),
            "hang": self.hang.snapshot(),
            "traffic": self.traffic.snapshot(),
            "groups": [[name, a.snapshot(), s.snapshot()] for name, (a, s) in self.groups.items()],
            "places": [[rank, node] for rank, node in self.places.items()],
        }

    def load(self, data: dict[str, Any]) -> None:
        """Take the state that ``snapshot`` described."""
        self.ledger = Ledger.restore(data["ledger"])
        self.gather.load(data["gather"])
        self.links.load(data["links"])
        self.hang.load(data["hang"])
        self.traffic.load(data["traffic"])
        self.places = dict(data["places"])
        for name, arrived, judged in data["groups"]:
            arrivals = Arrivals(arrived["size"], self.config, self.ledger)
            straggler = Straggler(self.config, Cohorts())
            arrivals.load(arrived)
            straggler.load(judged)
            self.groups[name] = (arrivals, straggler)


def _groups(heard: Heard) -> Iterator[tuple[str, int, Rows]]:
    """The rows of each group of at least two members, in their order."""
    calls = heard.calls
    words = np.array([zlib.crc32(word.encode()) for word in heard.operations] or [0], dtype=np.int64)
    tokens = words[calls.operation] * 1_000_003 ^ calls.bytes
    for index, (name, size) in enumerate(zip(heard.groups, heard.group_sizes, strict=True)):
        mine = calls.group == index
        if size >= 2 and mine.any():
            columns = (*calls[:3], calls.start_s, calls.wait_s, tokens)
            yield name, size, Rows(*(column[mine] for column in columns))
