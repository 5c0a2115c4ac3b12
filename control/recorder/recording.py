"""The recording of one session: from the brokers into segments, and every few seconds into the manifest.

Rule of this file: the order of things on disk. Messages are synced before a manifest tells of them, and a manifest that
cannot be written for want of space gets the room that was reserved for it.
"""

import errno
import heapq
import logging
import shutil
import threading
import time
from collections.abc import Callable

import msgspec

from paceline.events import SessionState
from paceline.kafka.errors import BusError
from paceline.kafka.follow import BEGINNING, NOW, Follower, Jump, Place
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.start_budget import StartBudget
from paceline.topics import BY_NAME, OPERATIONAL, TOPICS, Topic

from ..sessions.folder import SessionFolder, StopRequest
from ..sessions.manifest import Manifest, read_definition, read_manifest
from ..sessions.repair import next_number, repair
from ..sessions.segments import SegmentWriter, Stored
from .away import AWAY_S, SYNC_S, Away, next_manifest_s
from .progress import Progress

log = logging.getLogger("paceline.recorder")
#: A session ends before the disk is full: others write there too.
LEAST_FREE_BYTES = 64 * 1024 * 1024
#: At the end the rest is read; brokers that are silent for so long are not waited for.
REST_S = 30.0
#: What is recorded. How services are run, and files on their way, are none of a recording's business.
RECORDED = tuple(topic for topic in TOPICS if topic not in OPERATIONAL)
DISK_FULL = "the disk is full"
#: Who asks where the recorder itself does;
OWN = "paceline control"
#: How the reason begins of a recorder that ended because the brokers were away.
BROKERS_AWAY = "the brokers did not answer for"
#: ... and of one that met other brokers than those that its session was begun on: a session holds one cluster.
OTHER_BROKERS = "these brokers are another Kafka cluster"


class Recording:
    """Records the session in ``folder`` from the brokers of ``settings``; ``tell`` hears each state.

    ``stop`` ends it as it is, to be gone on with; with ``finish`` it ends where the brokers are now.
    """

    def __init__(
        self,
        folder: SessionFolder,
        settings: BrokerSettings,
        tell: Callable[[SessionState], None],
        stop: threading.Event,
        *,
        finish: bool = False,
        on_turn: Callable[[Progress, float], None] = lambda progress, now_s: None,
        free_bytes: Callable[[], int] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder, self._tell, self._stop, self._finish = folder, tell, stop, finish
        self._on_turn, self._clock = on_turn, clock
        # Silences are waited for by a clock that nobody sets, and told by the one that people read.
        self._began_s = time.time() - clock()
        self._free_bytes = free_bytes or (lambda: shutil.disk_usage(folder.path).free)
        manifest = read_manifest(folder.manifest)
        self._progress = Progress(read_definition(folder.definition), manifest)
        self._repair(manifest)
        self._writer = SegmentWriter(folder.path, next_number(folder.path), clock)
        starts = {topic: BEGINNING if topic.kind == "compacted" else NOW for topic in RECORDED}
        self._follower = Follower(
            settings,
            starts,
            "paceline-recorder",
            resume=True,
            places=self._progress.places,
            topic_ids=self._progress.topic_ids,
            on_jump=self._jumped,
            on_skip=lambda topic, messages: log.warning("%s: the oldest %d are left out", topic.name, messages),
            budget=StartBudget(),
            on_cluster=lambda cause: log.warning("%s", cause),
            on_unreadable=self._unreadable,
            stop=stop,
        )
        self._targets: dict[Place, int] | None = None
        self._synced_s = self._manifest_s = self._progressed_s = clock()
        self._manifest_due_s = SYNC_S
        self._away, self._away_for_s = Away(), 0.0
        self._deaf_s: float | None = None
        self._told = ("", "")

    def run(self) -> SessionState:
        """Record until the end; what the session is then."""
        try:
            with self._follower:
                self._folder.take_reserve()  # It is gone where the disk was full before.
                self._write_manifest("starting", "")
                state, reason = self._record()
            return self._end(state, reason)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            return self._disk_full()

    def _record(self) -> tuple[str, str]:
        while not self._stop.is_set():
            self._turn()
            if self._is_elsewhere():
                return self._left_behind()
            if self._away_for_s >= AWAY_S:
                return (
                    "interrupted",
                    f"{BROKERS_AWAY} {AWAY_S / 60:g} min ({self._follower.cause}); "
                    "control goes on with it when they do, or recover it",
                )
            if self._free_bytes() < LEAST_FREE_BYTES:
                return (
                    "failed",
                    f"{DISK_FULL}: less than {LEAST_FREE_BYTES >> 20} MiB are free; recover it once there is room",
                )
            self._end_with_job()
            if self._finish or self._folder.stop_request() is not None:
                return self._read_rest()
        return "interrupted", "its recorder was stopped; recover it, or start control, which continues it"

    def _is_elsewhere(self) -> bool:
        """Whether these brokers hold nothing of the session: they are of another Kafka cluster than it was begun on."""
        now, before = self._follower.cluster, self._progress.kafka
        return bool(now and before) and now != before

    def _left_behind(self) -> tuple[str, str]:
        if self._finish:
            return "stopped", f"{OTHER_BROKERS} than it was recorded from: it holds what was on disk"
        name = self._folder.name
        return (
            "interrupted",
            f"{OTHER_BROKERS} than it was recorded from; control goes on with it on those, "
            f"`paceline session recover {name}` ends it with what is on disk",
        )

    def _end_with_job(self) -> None:
        """A session of a job asks itself to stop when that has ended: on disk, so that it holds after a kill, too."""
        if self._follower.state == "connected" and self._progress.job_over(self._began_s + self._clock()):
            self._folder.ask_to_stop(StopRequest(OWN, "its job has ended"))

    def _turn(self) -> None:
        """One poll, written; and what is due."""
        now_s = self._began_s + self._clock()
        partitions = [records for _, records in self._follower.poll()]
        if self._is_elsewhere():
            return
        count = 0
        # Over partitions by time, within one in its own order.
        for record in heapq.merge(*partitions, key=lambda each: each.timestamp):
            key = None if record.key is None else record.key.decode(errors="replace")
            place = (record.topic, record.partition)
            if self._progress.came(BY_NAME[record.topic], key, record.value or b"", place, record.offset, now_s):
                self._writer.write(record, key)
            count += 1
        if count:
            self._progressed_s = self._clock()
        self._listen(now_s)
        self._on_turn(self._progress, now_s)
        if self._writer.is_due:
            self._progress.ended(self._writer.end())
            self._write_manifest(*self._now())
        elif self._clock() - self._manifest_s >= self._manifest_due_s or self._told != self._now():
            self._write_manifest(*self._now())
        elif self._clock() - self._synced_s >= SYNC_S:
            self._sync()

    def _listen(self, now_s: float) -> None:
        """Who is silent counts only while the brokers answer."""
        if self._follower.state == "connected":
            self._progress.joined(self._follower.places(), self._follower.topic_ids(), self._follower.cluster)
            if self._deaf_s is not None:
                self._progress.deaf(now_s - self._deaf_s)
                self._deaf_s = None
            self._progress.tick(now_s)
        elif self._deaf_s is None:
            self._deaf_s = now_s
        # Brokers that refuse one of the topics answer.
        self._away_for_s = self._away.update(self._follower.state in ("connected", "refused"), self._clock())

    def _now(self) -> tuple[str, str]:
        if self._follower.state != "connected":
            return ("starting" if not self._progress.places else "recording"), self._follower.cause
        return ("recording" if self._targets is None and not self._finish else "stopping"), ""

    def _read_rest(self) -> tuple[str, str]:
        """Read what the brokers hold now, and no more."""
        self._progressed_s = self._clock()
        while self._clock() - self._progressed_s < REST_S:
            if self._stop.is_set():
                return "interrupted", "its recorder was stopped before it had read the rest; recover it"
            if self._is_elsewhere():
                return self._left_behind()
            if self._targets is None and self._follower.state == "connected":
                try:
                    self._targets = self._follower.ends()
                except BusError:
                    self._targets = None
            if self._targets is not None:
                places = self._follower.places()
                if all(places.get(place, end) >= end for place, end in self._targets.items()):
                    self._turn()  # The embedded broker tells an end that is a little early.
                    return "stopped", self._because()
            self._turn()
        cause = self._follower.cause or "they answered, but did not give the rest"
        return "interrupted", f"the brokers were away at the end ({cause}); recover it when they are back"

    def _because(self) -> str:
        """Why it was stopped, where nobody asked for that."""
        asked = self._folder.stop_request()
        return asked.because if asked is not None and asked.issuer == OWN else ""

    def _end(self, state: str, reason: str) -> SessionState:
        self._progress.ended(self._writer.end())
        return self._write_manifest(state, reason)

    def _disk_full(self) -> SessionState:
        """End as a kill would: what the manifest on disk tells of is whole, and more was read than came to disk."""
        self._writer.abandon()
        self._folder.free_reserve()
        now_s = time.time()
        manifest = read_manifest(self._folder.manifest)
        reason = f"{DISK_FULL}; recover it once there is room"
        manifest.state = msgspec.structs.replace(
            manifest.state, state="failed", reason=reason, updated_s=now_s, stopped_s=now_s
        )
        self._folder.replace(self._folder.manifest, msgspec.json.encode(manifest))
        self._tell(manifest.state)
        return manifest.state

    def _write_manifest(self, state: str, reason: str) -> SessionState:
        """Bring to disk what there is, then say so, then tell others."""
        began_s = self._clock()
        self._sync()
        self._told, self._manifest_s = (state, reason), began_s
        now_s = time.time()
        stopped_s = now_s if state in ("stopped", "failed") else None
        manifest = self._progress.manifest(state, reason, now_s, self._writer.bytes, stopped_s)
        self._folder.replace(self._folder.manifest, msgspec.json.encode(manifest))
        self._manifest_due_s = next_manifest_s(self._clock() - began_s)
        self._tell(manifest.state)
        return manifest.state

    def _sync(self) -> None:
        self._writer.sync()
        self._synced_s = self._clock()

    def _repair(self, manifest: Manifest) -> None:
        def stored(one: Stored) -> None:
            line = one.line
            self._progress.stored(line.topic, line.key, line.value, one.place, one.offset)

        repaired = repair(self._folder.path, manifest, stored)
        for segment in repaired.segments:
            self._progress.ended(segment)
            self._progress.messages += segment.messages
        for line in repaired.damage:
            log.info("made whole: %s", line)

    def _jumped(self, jump: Jump) -> None:
        if not self._is_elsewhere():
            self._progress.jumped(jump, time.time())

    def _unreadable(self, topic: Topic, reason: str) -> None:
        self._progress.unreadable(topic, reason, time.time())
