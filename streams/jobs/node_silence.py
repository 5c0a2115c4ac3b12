"""Has a node fallen silent while its peers go on telling: no step, no collective, no sign of life, and no goodbye.

Rule of this file: pure. A node's sidecar speaks for its ranks: their steps, or, where no step ends for seconds, that
they are there, and last of all that they have left. How long a node has been silent is counted in its peers' event
time: by how much each peer has moved on, on its own clock, since the node was last heard in the stream. Clocks of two
nodes are never compared, and a replay at any speed counts the same.

The time that the job has moved on is the upper median of its nodes': where half of them go on, the others may be
accused, and silence of all, or of most, accuses nobody. One message moves a node on by ``MOST_PUSH_S`` at most, so that
a clock that jumps accuses nobody, nor does a job whose steps are longer than that and that tells nothing between them:
peers must have spoken several times.

Only peers that were there before the node's last word and have spoken since can tell of its silence, half of them at
least: a recording that is sorted by node, or made of one after the other, has each node silent while the next is told.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.events import StepTimings
from paceline.ranges import ranges

from ..episodes.finding import Said, Subject, nth, number
from ..episodes.lifecycle import Signal
from ..episodes.tracker import Episode, Measured, Policy, Tracker
from ..raw_columns import Ints, ends, largest
from ..robust import Array
from ..stored import Kept, Stored

#: By how much one message moves its node on, at most.
MOST_PUSH_S = 10.0
#: A clock that goes back by more than this was set; by less, messages are not quite in the order of time.
_SET_BACK_S = 60.0
#: It is asked who is silent once in so many parts of the living nodes' messages.
_PARTS = 8
#: Peers that have closed so many steps more than a silent node did train on, and with them the node.
_TRAINS_ON = 3


@dataclass(frozen=True)
class NodeSilenceConfig:
    """A node is suspected after ``least_s`` of its peers' time without a word, and confirmed after twice that."""

    least_s: float = 30.0


class NodeSilenceEvidence(Measured, frozen=True, kw_only=True):
    """For how long, how many steps its peers have closed meanwhile, how many of the nodes speak; the ``times``-th time
    of this node, of which ``ranks`` are known."""

    silent_s: float
    peers_steps: int
    speaking: int
    living: int
    times: int
    ranks: tuple[int, ...]


NodeSilenceEpisode = Episode[str, NodeSilenceEvidence]


class NodeSilence(Stored):
    """Which nodes of one job speak."""

    numbers: Kept[dict[str, int]]
    ranks: Kept[list[tuple[int, ...]]]
    times: Kept[list[int]]
    clock_s: Kept[Array]
    moved_s: Kept[Array]
    heard_s: Kept[Array]
    step: Kept[Ints]
    living: Kept[NDArray[np.bool_]]
    ended_s: Kept[Array]
    first: Kept[Ints]
    last: Kept[Ints]
    messages: Kept[int]
    job_s: Kept[float]
    since: Kept[int]
    tracker: Kept[Tracker[Any, Any]]

    def __init__(self, config: NodeSilenceConfig) -> None:
        self.config = config
        self.numbers = {}
        self.ranks = []
        self.times = []
        #: By node: its latest event time, how far it has moved on, how far the job had when it last spoke, its latest
        #: step, whether it has not said goodbye, and until when goodbye was said elsewhere.
        self.clock_s = np.empty(0)
        self.moved_s = np.empty(0)
        self.heard_s = np.empty(0)
        self.step = np.empty(0, dtype=np.int64)
        self.living = np.empty(0, dtype=bool)
        self.ended_s = np.empty(0)
        #: By node: at which message of the job it was heard for the first time, and for the last.
        self.first = np.empty(0, dtype=np.int64)
        self.last = np.empty(0, dtype=np.int64)
        self.messages = 0
        #: Nodes that have not said goodbye.
        self.alive = 0
        #: How far the job has moved on, and how many messages ago it was last asked who is silent.
        self.job_s = 0.0
        self.since = 0
        self.tracker = Tracker(NodeSilenceEpisode, Policy(growth_at=frozenset()))

    def update(self, message: StepTimings, ranks: Sequence[int], most_nodes: int) -> list[NodeSilenceEpisode]:
        """Take in a message that speaks for ``ranks``; the episodes that have something new to tell.

        Args:
            message: the next of any node.
            ranks: those of the node that it speaks for.
            most_nodes: nodes from this number on are not watched: their names come from outside.
        """
        node = self.numbers.get(message.node)
        if node is None:
            if len(self.numbers) >= most_nodes:
                return []
            node = self._join(message.node)
        if ranks and not set(ranks) <= set(self.ranks[node]):
            self.ranks[node] = tuple(sorted({*self.ranks[node], *ranks}))
        self.messages += 1
        self.last[node] = self.messages
        time_s = _event_time_s(message)
        self._move(node, time_s)
        self.step[node] = max(int(self.step[node]), _last_step(message))
        self._live(node, not (message.ended or time_s <= self.ended_s[node]))
        told = [self._revise(message.node, "calm")] if self.tracker.get(message.node) is not None else []
        self.heard_s[node] = self.job_s
        self.since += 1
        if self.since * _PARTS >= self.alive:
            self.since = 0
            told += self._look()
            self.heard_s[node] = self.job_s
        return [episode for episode in told if episode is not None]

    def leave(self, name: str, ended_s: float) -> list[NodeSilenceEpisode]:
        """The node has said elsewhere, in no order with its messages, that its ranks left at ``ended_s``."""
        if (node := self.numbers.get(name)) is None:
            return []
        self._live(node, False)
        self.ended_s[node] = ended_s
        ended = self._revise(name, "calm") if self.tracker.get(name) is not None else None
        return [] if ended is None else [ended]

    @property
    def all_left(self) -> bool:
        """Whether every node that ever spoke has said goodbye."""
        return bool(self.numbers) and not self.alive

    def _live(self, node: int, lives: bool) -> None:
        """Take down whether it may report more; how many may is asked with each message."""
        self.alive += lives - bool(self.living[node])
        self.living[node] = lives

    def _join(self, name: str) -> int:
        node = self.numbers[name] = len(self.numbers)
        self.ranks.append(())
        self.times.append(0)
        more = node + 1 - self.clock_s.size
        if more > 0:
            more = max(more, node // 2)
            times = (self.clock_s, self.moved_s, self.heard_s, self.ended_s)
            self.clock_s, self.moved_s, self.heard_s, self.ended_s = (
                np.pad(one, (0, more), constant_values=np.nan) for one in times
            )
            self.step = np.pad(self.step, (0, more), constant_values=-1)
            self.first, self.last = np.pad(self.first, (0, more)), np.pad(self.last, (0, more))
            self.living = np.pad(self.living, (0, more))
        self.moved_s[node] = self.job_s
        self.first[node] = self.messages + 1
        return node

    def _move(self, node: int, time_s: float) -> None:
        """Its clock is at ``time_s``."""
        push = time_s - float(self.clock_s[node])
        if not push >= 0.0:  # NaN, when it is heard for the first time, is not
            if push >= -_SET_BACK_S:
                return
            push = 0.0
        self.clock_s[node] = time_s
        self.moved_s[node] += min(push, MOST_PUSH_S)

    def _look(self) -> list[NodeSilenceEpisode | None]:
        """Who is silent now."""
        nodes = np.flatnonzero(self.living)
        if nodes.size < 2:
            return []
        middle = nodes.size // 2
        self.job_s = max(self.job_s, float(np.partition(self.moved_s[nodes], middle)[middle]))
        silent_s = self.job_s - self.heard_s[nodes]
        silent = np.flatnonzero(silent_s >= self.config.least_s)
        if not silent.size:
            return []
        names = list(self.numbers)
        speaking = int(nodes.size - silent.size)
        latest = int(self.step.max())
        return [
            self._told(names[int(nodes[at])], int(nodes[at]), float(silent_s[at]), latest, (speaking, nodes.size))
            for at in silent
            if self._missed(int(nodes[at]), nodes)
        ]

    def _missed(self, node: int, nodes: Ints) -> bool:
        """Whether half of the other ``nodes`` were there before the last word of ``node`` and have spoken since."""
        last = self.last[node]
        witnesses = int(((self.first[nodes] < last) & (self.last[nodes] > last)).sum())
        return 2 * witnesses >= nodes.size - 1

    def _told(
        self, name: str, node: int, silent_s: float, latest: int, counts: tuple[int, int]
    ) -> NodeSilenceEpisode | None:
        signal: Signal = "persistent" if silent_s >= 2 * self.config.least_s else "late"
        episode = self.tracker.get(name)
        if episode is None:
            self.times[node] += 1
            episode = self.tracker.begin(name, int(self.step[node]))
        episode.last, episode.length = float(latest), silent_s
        episode.evidence = NodeSilenceEvidence(
            margin=silent_s / self.config.least_s,
            silent_s=silent_s,
            peers_steps=max(latest - int(self.step[node]), 0),
            speaking=counts[0],
            living=counts[1],
            times=self.times[node],
            ranks=self.ranks[node],
        )
        return self._revise(name, signal)

    def _revise(self, name: str, signal: Signal) -> NodeSilenceEpisode | None:
        episode = self.tracker.get(name)
        return None if episode is None else self.tracker.revise(name, signal, episode.length)

    def loaded(self) -> None:
        """Work out again what follows from the state."""
        self.alive = int(self.living.sum())


def said(episode: NodeSilenceEpisode) -> Said:
    """What is said of a node that fell silent."""
    seen, node = episode.measured, episode.subject
    who = f"Node {node}" + (f" (ranks {ranges(seen.ranks)})" if seen.ranks else "")
    since = f", since step {episode.first_step}" if episode.first_step >= 0 else ""
    rule = "how far its peers have advanced, by their own clocks, since its last message; no end was reported"
    evidence = [
        number("silent", seen.silent_s, "s", 0.0, rule),
        number("peers_steps", seen.peers_steps, "steps", None, "completed by its peers since its last step"),
        number("nodes_speaking", seen.speaking, "nodes", seen.living, "of those whose end was not reported"),
    ]
    trains_on = seen.peers_steps >= _TRAINS_ON
    meanwhile = (
        f"Its peers have completed {seen.peers_steps} steps since, so its ranks probably still train: "
        "check `paceline run` on that node and its connection to Kafka."
        if trains_on
        else "Its peers wait: check that node (power, network, dmesg)."
    )
    summary = f"{who} has sent nothing for {seen.silent_s:.0f} s by its peers' clocks{since}. {meanwhile}"
    over = f"{who} reports again, or has ended, after at least {seen.silent_s:.0f} s by its peers' clocks{since}."
    subject = Subject("node_silent", nth(f"node {node}", seen.times), ranks=seen.ranks, nodes=(node,))
    return Said(subject, evidence, summary, over=over, severity=None if trains_on else "critical")


def _event_time_s(message: StepTimings) -> float:
    """The latest time that ``message`` tells of, on its node's clock."""
    last_s = message.t0_s + largest(message.start_s)
    return max(last_s if math.isfinite(last_s) else message.t0_s, message.now_s or 0.0)


def _last_step(message: StepTimings) -> int:
    steps = ends(message.step)
    return min(steps[1], 2**53) if steps is not None else -1
