"""Which nodes of one cluster lie under their rating, by what their descriptions tell.

Rule of this file: pure and bounded. It assumes that a node's name is one node's, and guards where it is not: only a
later measurement counts, and numbers of messages once. A node without a rating costs nothing here; one that is not
described for a week makes room where there is none, and until then a newcomer waits. One measurement can move the
median of thousands: beyond a few of them, one finding reports all.
"""

from collections.abc import Iterable
from typing import Any

from paceline.events import Finding, NodeDescribed

from .cluster_events import Heard
from .episodes.crowd import Crowds
from .episodes.finding import JobKey, finding
from .episodes.lifecycle import Signal
from .episodes.tracker import Tracker
from .ratings.below import Low, Usual, lows, stands, usual
from .ratings.below_findings import BelowEpisode, BelowEvidence, coverage, said
from .ratings.rated_speeds import Held, KindKey, NodeRatings, SpeedKey
from .stored import Kept, StoredDecision

#: Nodes, and speeds of all of them, that are kept: of 8 GPUs, 1,200 nodes.
MOST_NODES, MOST_SPEEDS = 8_192, 100_000
_FORGOTTEN_S = 7 * 86_400.0
#: The findings of which many are reported together.
_SORT = "below_rating: nodes"


class ClusterRatings(StoredDecision):
    """Judges the ratings of one cluster; every event given to it must be of that one."""

    layout = 3
    cluster: Kept[str]
    nodes: Kept[dict[str, NodeRatings]]
    tracker: Kept[Tracker[Any, Any]]
    crowds: Kept[Crowds]

    def __init__(self) -> None:
        self.cluster = ""
        self.nodes = {}
        #: The nodes that have a speed of each kind, and on which devices.
        self.groups: dict[KindKey, dict[str, set[SpeedKey]]] = {}
        self.tracker = Tracker(BelowEpisode)
        self.crowds = Crowds()
        self._held = 0
        self._packed: bytes | None = None

    def update(self, event: Heard | NodeDescribed) -> list[Finding]:
        """Take in what was heard; the findings that are new, or have something new to tell."""
        told = event.event if isinstance(event, Heard) else event
        if not isinstance(told, NodeDescribed):
            return []
        ratings = self.nodes.get(told.node)
        if ratings is None and not told.rated:
            return []
        self.cluster, self._packed = told.cluster, None
        gone = [] if ratings is not None else self._make_room(told.time_s)
        if ratings is None and len(self.nodes) < MOST_NODES and self._held < MOST_SPEEDS:
            ratings = self.nodes[told.node] = NodeRatings(told.node)
        found = self._describe(ratings, told) if ratings is not None else []
        return self.crowds.gather((_SORT, one) for one in gone + found)

    def _describe(self, ratings: NodeRatings, event: NodeDescribed) -> list[Finding]:
        before = dict(self._members(ratings))
        changed = ratings.update(event)
        after = dict(self._members(ratings))
        moved = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
        if not changed and not moved:
            return []
        touched = {kind for key in changed | moved for kind in (before.get(key), after.get(key)) if kind is not None}
        self._regroup(ratings.node, before, after)
        usuals = {kind: self._usual(kind) for kind in touched}
        others = sorted(self._moved(usuals) - {ratings.node})
        return [told for node in [ratings.node, *others] for told in self._judge(self.nodes[node], usuals)]

    @staticmethod
    def _members(ratings: NodeRatings) -> Iterable[tuple[SpeedKey, KindKey | None]]:
        return ((key, ratings.kind_key(key)) for key in ratings.speeds)

    def _regroup(
        self, node: str, before: dict[SpeedKey, KindKey | None], after: dict[SpeedKey, KindKey | None]
    ) -> None:
        for key, kind in before.items():
            if kind is not None and after.get(key) != kind:
                group = self.groups[kind]
                group[node].discard(key)
                if not group[node]:
                    del group[node]
                if not group:
                    del self.groups[kind]
        for key, kind in after.items():
            if kind is not None:
                self.groups.setdefault(kind, {}).setdefault(node, set()).add(key)
        self._held += len(after) - len(before)

    def _usual(self, kind: KindKey) -> Usual | None:
        group = self.groups.get(kind, {})
        return usual({node: self._speeds(node, keys) for node, keys in group.items()})

    def _speeds(self, node: str, keys: Iterable[SpeedKey]) -> list[Held]:
        return [self.nodes[node].speeds[key] for key in sorted(keys)]

    def _moved(self, usuals: dict[KindKey, Usual | None]) -> set[str]:
        """The nodes of which something else is true, now that other speeds are usual."""
        found: set[str] = set()
        for kind, of_kind in usuals.items():
            for node, keys in self.groups.get(kind, {}).items():
                speeds, told = self.nodes[node].speeds, self._told(node)
                low = {key for key in keys if of_kind and stands(key, speeds[key], of_kind, told.get(key))}
                if low != told.keys() & keys:
                    found.add(node)
        return found

    def _told(self, node: str) -> dict[SpeedKey, Low]:
        """The speeds of ``node`` that lie under those of its kind, as they were reported last."""
        episode = self.tracker.get(node)
        seen = episode.evidence if episode is not None else None
        return {low.key: low for low in seen.lows if low.against == "kind"} if seen is not None else {}

    def _judge(self, ratings: NodeRatings, usuals: dict[KindKey, Usual | None]) -> list[Finding]:
        """``usuals`` is filled with what the next node of this message needs as well."""
        for kind, _ in ratings.members():
            if kind not in usuals:
                usuals[kind] = self._usual(kind)
        node = ratings.node
        found = lows(ratings, usuals, self._told(node))
        episode = self.tracker.get(node)
        if not found:
            return self._say(node, "calm") if episode is not None else []
        if episode is None:
            first_s = max(ratings.speeds[low.key].time_s for low in found)
            episode = self.tracker.begin(node, first_s)
        signal: Signal = "persistent" if any(low.busy_known for low in found) else "late"
        before = episode.evidence
        news = before is not None and {low.told for low in before.lows} != {low.told for low in found}
        episode.evidence = BelowEvidence(lows=found, busy=ratings.busy)
        return self._say(node, signal, news=news)

    def _say(self, node: str, signal: Signal, *, news: bool = False) -> list[Finding]:
        told = self.tracker.revise(node, signal, 0.0, news=news)
        return [] if told is None else [finding(told, said(told), JobKey(self.cluster, "", 0), coverage(told))]

    def _make_room(self, now_s: float) -> list[Finding]:
        """Where all room is taken, the node that was described longest ago goes, if it has not been for a week."""
        if len(self.nodes) < MOST_NODES and self._held < MOST_SPEEDS:
            return []
        oldest = min(self.nodes.values(), key=lambda ratings: (ratings.told_s, ratings.node))
        if now_s - oldest.told_s < _FORGOTTEN_S:
            return []
        over = self._say(oldest.node, "calm") if self.tracker.get(oldest.node) is not None else []
        self._regroup(oldest.node, dict(self._members(oldest)), {})
        del self.nodes[oldest.node]
        return over

    def snapshot(self) -> bytes:
        """The whole state, compressed; it is packed again only where it has changed."""
        if self._packed is None:
            self._packed = super().snapshot()
        return self._packed

    def loaded(self) -> None:
        """Each node under its own name, whatever a damaged state says, and the speeds in their groups again."""
        self.nodes = {ratings.node: ratings for ratings in self.nodes.values()}
        for ratings in self.nodes.values():
            self._regroup(ratings.node, {}, dict(self._members(ratings)))
