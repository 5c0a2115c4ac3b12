"""One simulated node: its ranks and their places, and what its messages repeat about them.

Rule of this file: tables that do not change while the job runs, and the numbers of the messages.
"""

from collections import Counter
from typing import Any

import numpy as np

from paceline.columns import whole
from paceline.events import JobDescribed, OpenCollective, RankPlace, Speakers
from paceline.topics import JOB, Topic

from .collectives import collectives_of
from .spec import Spec


class Node:
    """Node ``number`` of the job."""

    def __init__(self, number: int, spec: Spec) -> None:
        self.spec = spec
        self.name = spec.node_name(number)
        self.ranks = range(number * spec.ranks_a_node, min((number + 1) * spec.ranks_a_node, spec.ranks))
        self.about: dict[str, Any] = {
            "cluster": spec.cluster,
            "producer": f"{spec.job}-{spec.attempt}-{self.name}",
            "job": spec.job,
            "attempt": spec.attempt,
            "node": self.name,
        }
        self.devices = [f"cuda:{index}" for index in range(len(self.ranks))]
        dp, tp, pp = (list(column) for column in zip(*map(spec.place, self.ranks), strict=True))
        self.places: dict[str, list[int]] = {"dp": dp, "tp": tp, "pp": pp}
        self.speakers = Speakers(
            ranks=whole(self.ranks),
            world_sizes=whole([spec.ranks] * len(self.ranks)),
            devices=self.devices,
            dp=whole(dp),
            tp=whole(tp),
            pp=whole(pp),
            switch=spec.switch_name(number),
        )
        self._tabulate()
        self.numbers: Counter[str] = Counter()

    def _tabulate(self) -> None:
        """The collectives of its ranks as tables, (ranks, collectives)."""
        self.collectives = [collectives_of(self.spec, rank) for rank in self.ranks]
        sizes = {collective.group: collective.size for collectives in self.collectives for collective in collectives}
        words = sorted({collective.operation for collectives in self.collectives for collective in collectives})
        groups = list(sizes)
        self.words: dict[str, Any] = {
            "groups": groups,
            "group_sizes": whole(list(sizes.values())),
            "operations": words,
        }
        shape = (len(self.ranks), len(self.collectives[0]), 5)
        rows = [
            [groups.index(one.group), words.index(one.operation), one.bytes, one.per_step, one.index]
            for collectives in self.collectives
            for one in collectives
        ]
        #: (ranks, collectives, 5): group, operation, bytes, how many of that group in a step, and which of them it is.
        self.table = np.array(rows, dtype=np.int64).reshape(shape)

    def next(self, topic: Topic) -> int:
        """The number of the next message on ``topic``."""
        self.numbers[topic.name] += 1
        return self.numbers[topic.name] - 1

    def describe(self, ended_s: float | None) -> JobDescribed:
        """The job as it looks from here."""
        places = [
            RankPlace(
                rank=rank,
                local_rank=local,
                node=self.name,
                device=self.devices[local],
                pid=1000 + local,
                dp=self.places["dp"][local],
                tp=self.places["tp"][local],
                pp=self.places["pp"][local],
            )
            for local, rank in enumerate(self.ranks)
        ]
        rest: dict[str, Any] = {"places": places, "ended_s": ended_s, "exit_status": None if ended_s is None else 0}
        return JobDescribed(
            **self.about,
            sequence=self.next(JOB),
            world_size=self.spec.ranks,
            backend="nccl",
            framework="simulated",
            started_s=self.spec.began_s,
            **rest,
        )

    def stuck(self, step: int, missing: tuple[int, ...], since_s: float) -> list[OpenCollective]:
        """Where its ranks stand while ``missing`` do not come to the collectives of ``step``.

        Who shares a group with one that is missing stands in that group's collective; all others in the next of all.
        """
        absent = {collective.group for rank in missing for collective in collectives_of(self.spec, rank)[:1]}
        out = []
        for rank, collectives in zip(self.ranks, self.collectives, strict=True):
            if rank in missing or not collectives:
                continue
            collective = collectives[0] if collectives[0].group in absent else collectives[-1]
            out.append(
                OpenCollective(
                    rank=rank,
                    group=collective.group,
                    group_size=collective.size,
                    seq=collective.sequence(step, extra=not self.spec.phases),
                    operation=collective.operation,
                    start_s=round(since_s, 6),
                )
            )
        return out
