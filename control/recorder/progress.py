"""How far a session has come: what was kept, which numbers came, what was gone, who is silent.

Rule of this file: pure; time is an argument. It goes on from a manifest and tells the next one.
"""

import contextlib
from collections.abc import Mapping

import msgspec

from paceline import wire
from paceline.events import MOST_NAMED, SessionState
from paceline.kafka.follow import Jump, Place
from paceline.selection import Head, Selection, head
from paceline.topics import BY_NAME, DEVICE, HOST, JOB, Topic

from ..sessions.clients import MOST_CLIENTS, Clients
from ..sessions.manifest import Definition, Gap, Manifest, Segment
from ..sessions.manifest import Place as PlaceTold
from ..sessions.proof import Proof, about, missing
from .job_end import JobEnd

#: Gaps that are told one by one.
MOST_GAPS = 1000
LOST = "the brokers no longer held them"
REMADE = "the topic was deleted and made again, or the brokers have forgotten it"


class Progress:
    """What is known of a session as it is recorded."""

    def __init__(self, definition: Definition, manifest: Manifest) -> None:
        self.definition = definition
        only = definition.only_cluster or manifest.only_cluster
        self._selection = Selection(definition.job or None, definition.nodes, only)
        self._proof = Proof(manifest.proof, manifest.unproved)
        self._clients = Clients(manifest.silences)
        self._awaited = False
        self._job_end = JobEnd(definition.job, definition.started_s, manifest.job)
        #: The nodes whose collectors were heard, each with its cluster.
        self.heard: set[tuple[str, str]] = set()
        self._gaps = list(manifest.gaps)
        self._gap_count = manifest.state.gap_count
        self.segments = list(manifest.segments)
        self.messages = sum(segment.messages for segment in self.segments)
        #: The last offset of each partition that is on disk: what comes again is not written again.
        self._written: dict[Place, int] = {}
        self._next = {(place.topic, place.partition): place.offset for place in manifest.places}
        self.topic_ids = dict(manifest.topic_ids)
        #: The id of the Kafka cluster that was read.
        self.kafka = manifest.kafka
        self.state: SessionState = manifest.state

    @property
    def places(self) -> dict[Place, int]:
        """Where reading goes on."""
        return dict(self._next)

    def stored(self, topic: str, key: str | None, value: bytes, place: Place, offset: int) -> None:
        """A message lies on disk of which the manifest does not tell yet."""
        # The last one counts, not the greatest: the topic may have been made again within the segment.
        self._written[place] = offset
        kept = self._selection.takes(topic, key, value)
        if topic in BY_NAME:
            said = head(BY_NAME[topic], value)
            self._proof.note(topic, said, kept=True)
            if kept and self.definition.job:
                self._of_job(BY_NAME[topic], said, value)

    def came(self, topic: Topic, key: str | None, value: bytes, place: Place, offset: int, now_s: float) -> bool:
        """A message came; whether it is to be written."""
        expected = self._next.get(place)
        if expected is not None and offset > expected and topic.kind != "compacted":
            self._gap(topic.name, place[1], now_s, offset - expected, LOST)
        self._next[place] = offset + 1
        kept = self._selection.takes(topic.name, key, value)
        said = head(topic, value)
        self._proof.note(topic.name, said, kept=kept)
        if kept and self.definition.job:
            self._of_job(topic, said, value)
        if kept and topic.kind == "raw" and said.node:
            self._clients.heard(said.node, now_s)
            if topic in (DEVICE, HOST) and len(self.heard) < MOST_CLIENTS:
                self.heard.add((said.cluster, said.node))
        if not kept or offset <= self._written.get(place, -1):
            return False
        self.messages += 1
        return True

    def job_over(self, now_s: float) -> bool:
        """Whether the session's job has ended, and the session with it; asked while the brokers answer."""
        return bool(self.definition.job) and not self.definition.keep and self._job_end.over(now_s)

    def _of_job(self, topic: Topic, said: Head, value: bytes) -> None:
        if said.job == self.definition.job and topic.kind == "raw" and said.cluster and not self._selection.cluster:
            # It trains there: a job of that name in another cluster is another job.
            self._selection.cluster = said.cluster
            self._job_end.settle(said.cluster)
        self._job_end.came(topic, said.job)
        if topic == JOB:
            with contextlib.suppress(wire.WireError):  # Recorded all the same, as whatever cannot be read.
                self._job_end.describe(wire.decode(JOB, value))

    def joined(self, places: Mapping[Place, int], topic_ids: Mapping[str, str], kafka: str) -> None:
        """Partitions of the topics with these ids, of that Kafka cluster, are followed from there on."""
        self.topic_ids.update(topic_ids)
        self.kafka = kafka or self.kafka
        for place, offset in places.items():
            self._next.setdefault(place, offset)

    def jumped(self, jump: Jump, now_s: float) -> None:
        """Reading could not go on where it was."""
        place = (jump.topic.name, jump.partition)
        self._next[place] = max(0, jump.first)
        if jump.remade:
            self._written.pop(place, None)
            self._gap(*place, now_s, None, REMADE)
        elif jump.topic.kind != "compacted":
            self._gap(*place, now_s, jump.first - jump.expected, LOST)

    def unreadable(self, topic: Topic, reason: str, now_s: float) -> None:
        """A batch could not be unpacked."""
        self._gap(topic.name, 0, now_s, None, f"a batch is not in the recording: {reason}"[:300])

    def ended(self, segment: Segment | None) -> None:
        """A segment is complete."""
        if segment is not None:
            self.segments.append(segment)

    def tick(self, now_s: float) -> None:
        """It is ``now_s``, and the bus answers."""
        if not self._awaited:
            # A node that was named and never reports is as silent as one that has stopped; so is one that reported
            # to an earlier recorder and stopped while there was none.
            self._awaited = True
            for node in (*self.definition.nodes, *sorted(self._proof.nodes())):
                self._clients.awaited(node, now_s)
        self._clients.tick(now_s)

    def deaf(self, seconds: float) -> None:
        """The bus did not answer for so long."""
        self._clients.deaf(seconds)
        self._job_end.deaf()

    def manifest(self, state: str, reason: str, now_s: float, open_bytes: int, stopped_s: float | None) -> Manifest:
        """What is to be told; all of it lies on disk."""
        proof = self._proof.told()
        own = about(proof)
        self.state = msgspec.structs.replace(
            self.state,
            cluster=self._selection.cluster or self.state.cluster,
            state=state,
            reason=reason[:500],
            updated_s=now_s,
            stopped_s=stopped_s,
            messages=self.messages,
            bytes=sum(segment.bytes for segment in self.segments) + open_bytes,
            producers=len(own),
            missing=missing(own),
            gap_count=self._gap_count,
            silent=self._clients.silent[:MOST_NAMED],
        )
        return Manifest(
            state=self.state,
            segments=list(self.segments),
            places=[PlaceTold(topic=at[0], partition=at[1], offset=offset) for at, offset in self._next.items()],
            proof=proof,
            gaps=self._gaps,
            silences=self._clients.told(),
            topic_ids=self.topic_ids,
            kafka=self.kafka,
            unproved=self._proof.unproved,
            job=self._job_end.known,
            only_cluster=self._selection.cluster,
        )

    def _gap(self, topic: str, partition: int, now_s: float, messages: int | None, reason: str) -> None:
        self._gap_count += 1
        if len(self._gaps) < MOST_GAPS:
            self._gaps.append(Gap(topic=topic, partition=partition, at_s=now_s, messages=messages, reason=reason))
