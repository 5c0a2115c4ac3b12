"""Episodes on one node: what is watched there, what speaks for it, and whom it concerns.

Rule of this file: it joins persistence and tracker, and holds no rule of its own. What is wrong is said by the
detectors, the words are in node_findings. Time is that of the samples, in Unix seconds of the node's clock.
"""

from typing import Any, NamedTuple

import msgspec

from paceline.events import Cause, FindingKind, Severity

from ..episodes.lifecycle import Signal
from ..episodes.persistence import Lasting, Persistence
from ..episodes.tracker import Episode, Measured, Policy, Tracker
from ..stored import Kept, Stored
from .node_config import NodeConfig


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """One number that speaks for an episode, the rule that used it, and a sentence of it."""

    name: str
    value: float
    unit: str
    rule: str
    peers: float | None = None
    says: str = ""
    advice: str = ""
    severity: Severity = "warning"


class Tenant(msgspec.Struct, frozen=True):
    """Whom an episode is about: the job that uses the devices, its ranks there."""

    job: str = ""
    ranks: tuple[int, ...] = ()
    devices: tuple[str, ...] = ()


class Watched(NamedTuple):
    """What is watched for: the kind of trouble, of what, the cause that is reported, and how long it must last."""

    kind: FindingKind
    subject: str
    cause: Cause
    lasting: Lasting

    @property
    def key(self) -> str:
        """What its episode is kept under: a GPU's memory can be faulty and full at once."""
        return f"{self.kind} {self.subject}"


class NodeEvidence(Measured, frozen=True, kw_only=True):
    """The facts of an episode by name, the newest of each; ``ended`` is why it ended, where not "it was calm"."""

    kind: FindingKind
    subject: str
    tenant: Tenant
    facts: dict[str, Fact]
    ended: str = ""


NodeEpisode = Episode[str, NodeEvidence]


class NodeEpisodes(Stored):
    """The episodes of one node, or of a part of it, by subject."""

    tracker: Kept[Tracker[Any, Any]]
    persistence: Kept[dict[str, Persistence]]

    def __init__(self, config: NodeConfig) -> None:
        self.config = config
        # A sign that proves a fault is told also in a rest, and whatever is new about it at once; it grows in seconds,
        # so it grows at every look at which it holds.
        policy = Policy(
            cooldown=config.cooldown_s,
            rest_holds=frozenset({"late"}),
            growth_at=frozenset({("confirmed", "persistent"), ("confirmed", "late"), ("confirmed", None)}),
            doubles_from=frozenset({"suspected", "confirmed", "news"}),
        )
        self.tracker = Tracker(NodeEpisode, policy)
        self.persistence = {}

    def get(self, watched: Watched) -> NodeEpisode | None:
        """The episode of ``watched`` that lasts."""
        return self.tracker.get(watched.key)

    def look(
        self,
        watched: Watched,
        at_s: float,
        seen: tuple[bool | None, list[Fact]],
        tenant: Tenant,
        *,
        idle_gpus: float = 0.0,
    ) -> NodeEpisode | None:
        """Take in a look (None: it could not be seen); the episode, where there is something new to tell of it."""
        bad, facts = seen
        if bad is None:
            episode = self.get(watched)
            if episode is not None:
                episode.looked = at_s
            return None
        persistence = self.persistence.get(watched.key)
        if persistence is None:
            persistence = self.persistence[watched.key] = self._persistence(watched.lasting)
        signal = persistence.push(at_s, bad)
        if not bad:
            facts, idle_gpus = [], 0.0
        return self.revise(watched, at_s, signal, facts, tenant, since_s=persistence.since_s(), idle_gpus=idle_gpus)

    def _persistence(self, lasting: Lasting) -> Persistence:
        return Persistence(lasting, self.config.tick_s, self.config.gap_s)

    def revise(
        self,
        watched: Watched,
        at_s: float,
        signal: Signal | None,
        facts: list[Fact],
        tenant: Tenant,
        *,
        since_s: float | None = None,
        idle_gpus: float = 0.0,
    ) -> NodeEpisode | None:
        """Follow ``signal``; the episode, where there is something new to tell of it.

        Args:
            watched: what it is about.
            at_s: when.
            signal: what is seen of it.
            facts: the numbers that speak for it now; none where it does not hold.
            tenant: whom it concerns, if it begins now.
            since_s: when it began, if it begins now; left out, now.
            idle_gpus: how many GPUs' worth of devices stand still for it.
        """
        key = watched.key
        episode = self.tracker.get(key)
        if episode is None:
            if signal is None or signal == "calm" or self.tracker.rests(key, signal, at_s):
                return None
            episode = self.tracker.begin(key, at_s if since_s is None else since_s, watched.cause)
            episode.evidence = NodeEvidence(kind=watched.kind, subject=watched.subject, tenant=tenant, facts={})
            held_s = at_s - episode.first
        else:
            # What was before a longer gap says nothing of the time since; nor does a look that saw something else.
            held_s = min(at_s - max(episode.last, episode.looked), self.config.gap_s)
        if facts:
            episode.extend_to(at_s, idle_gpus * max(held_s, 0.0))
        episode.looked = at_s
        before = episode.measured.facts
        fresh = any(fact.name not in before for fact in facts)
        after = before | {fact.name: fact for fact in facts}
        episode.evidence = msgspec.structs.replace(episode.measured, facts=after)
        return self.tracker.revise(key, signal, at_s, news=fresh)

    def end(self, watched: Watched, at_s: float, why: str) -> NodeEpisode | None:
        """End the episode, and forget the looks that led to it: whom it concerned has gone."""
        self.persistence.pop(watched.key, None)
        episode = self.tracker.get(watched.key)
        if episode is None:
            return None
        episode.evidence = msgspec.structs.replace(episode.measured, ended=why)
        return self.tracker.revise(watched.key, "calm", at_s)

    def forget(self, watched: Watched) -> None:
        """Drop all that is remembered of ``watched``, also its rest."""
        self.persistence.pop(watched.key, None)
        self.tracker.forget(watched.key)

    def element(self, kind: type[Stored], data: dict[str, Any]) -> Stored:
        """A trouble that lasts as long as it did to be told."""
        return self._persistence(Lasting(*data["lasting"]))
