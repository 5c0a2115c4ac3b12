"""The Faust app: its topics, its one table and its agents, all declared here from the topic table of the contract.

Rule of this file: Faust's side of the door and nothing of the domain. Values are raw bytes. Offsets are committed by
``offsets.py`` alone (``acks=False``): Faust's own bookkeeping acknowledges events it skips in a rebalance, and steps
over a single event that is still in work. The table's partition is written in its keys, so that a snapshot can be
stored by a timer, with no event pending.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, cast

import faust
from faust.types import TP

from paceline import topics
from paceline.events import Event
from paceline.kafka.clients import MAX_MESSAGE_BYTES
from paceline.kafka.settings import BrokerSettings
from paceline.topics import Topic

from .cluster_advice import AdviceSettings
from .cluster_events import ADVICE, PASSED_ON
from .compat import (
    Tokens,
    answer_refused_tokens,
    bound,
    commit_nothing,
    deliver_at_once,
    fetch_soon,
    poll_soon,
    replace_lost_leader,
    seek_whole,
    tell_answers,
    verify_nothing,
)
from .door import Door
from .joined_topics import JoinedTopics
from .offsets import Partition
from .processor import Processor
from .routes import ROUTES
from .store import Store, partition_of

TABLE = "snapshots"
SOURCES = (*(topics.BY_NAME[name] for name in ROUTES if name != ADVICE.name), *PASSED_ON, ADVICE)
TARGETS = (
    topics.WINDOW,
    topics.FINDING,
    topics.SUGGESTION,
    topics.PLAN,
    topics.AUDIT,
    topics.DEADLETTER,
    ADVICE,
)
CHANGELOG = Topic(f"{topics.STREAMS_GROUP}-{TABLE}-changelog", bytes, "none", "compacted", None, topics.PARTITIONS)
SOURCE_NAMES = frozenset(topic.name for topic in SOURCES)
#: What must be there before the app starts.
NEEDED = tuple(dict.fromkeys((*SOURCES, *TARGETS, CHANGELOG)))


class SnapshotTable(faust.Table[bytes, bytes]):
    """A table whose keys name their partition, and that can wait until its changelog has what was written."""

    def partition_for_key(self, key: bytes) -> int:
        """The partition in front of the key, whatever event is pending."""
        return partition_of(key)

    def send_changelog(self, *args: Any, **kwargs: Any) -> Any:
        """Send a change, and remember that it is under way."""
        future = super().send_changelog(*args, **kwargs)
        self.__dict__.setdefault("under_way", []).append(future)
        return future

    async def delivered(self) -> None:
        """Return when every change so far is on the broker."""
        waiting, self.__dict__["under_way"] = self.__dict__.get("under_way", []), []
        if waiting:
            await asyncio.gather(*waiting)


def credentials(settings: BrokerSettings) -> Any:
    """Faust's credentials for ``settings``, or None for a plain connection."""
    context = settings.ssl_context()
    if settings.token_source is not None:
        return faust.OAuthCredentials(oauth_cb=Tokens(settings.token_source), ssl_context=context)
    if settings.sasl:
        return faust.SASLCredentials(
            username=settings.sasl_username,
            password=settings.sasl_password,
            mechanism=settings.sasl_mechanism,
            ssl_context=context,
        )
    return faust.SSLCredentials(context) if context is not None else None


def app(settings: BrokerSettings, partitions: int) -> faust.App:
    """The app, without its agents; each of its topics has ``partitions``.

    It joins in 3-5 s, also where a broker waits for half the session timeout.
    """
    return FolderlessApp(
        topics.STREAMS_GROUP,
        broker=[f"kafka://{address}" for address in settings.brokers],
        broker_credentials=credentials(settings),
        broker_session_timeout=8.0,
        broker_heartbeat_interval=1.5,
        broker_rebalance_timeout=3.0,
        broker_max_poll_records=500,
        consumer_max_fetch_size=4 * 1024 * 1024,
        consumer_auto_offset_reset="earliest",
        producer_max_request_size=MAX_MESSAGE_BYTES,
        producer_linger=0.005,
        # A second of a large job is a hundred windows in one partition: each batch beyond the first is waited for.
        producer_max_batch_size=1024 * 1024,
        stream_buffer_maxsize=256,
        stream_wait_empty=False,
        stream_recovery_delay=0.0,
        topic_partitions=partitions,
        topic_allow_declare=False,
        topic_disable_leader=True,
        table_standby_replicas=0,
        web_enabled=False,
        store="memory://",
        Table=SnapshotTable,
        Monitor=Unwatched,
    )


def _nothing(*_: Any, **__: Any) -> None:
    """Count nothing."""


class FolderlessApp(faust.App):
    """Tables are in memory, and on the bus: Faust makes folders for them all the same, which a kill leaves behind."""

    def _create_directories(self) -> None:
        """There is nothing to be kept in them."""


class Unwatched(faust.Monitor):
    """Faust counts each message and each step of it, for pages that are not served here: a fortieth of all it costs."""

    on_message_in: Any = _nothing
    on_message_out: Any = _nothing
    on_stream_event_in: Any = _nothing
    on_stream_event_out: Any = _nothing
    on_topic_buffer_full: Any = _nothing
    on_send_initiated: Any = _nothing
    on_send_completed: Any = _nothing
    on_send_error: Any = _nothing

    @faust.Service.task
    async def _sampler(self) -> None:
        """Nothing is counted."""


def raw(made: faust.App, topic: Topic) -> Any:
    """``topic`` as Faust sees it: bytes in, bytes out, never acknowledged by Faust."""
    return made.topic(
        topic.name,
        key_type=bytes,
        value_type=bytes,
        key_serializer="raw",
        value_serializer="raw",
        partitions=topic.split(made.conf.topic_partitions),
        allow_empty=True,
        acks=False,
    )


class Consumer:
    """Faust's consumer as the door's source."""

    def __init__(self, made: faust.App) -> None:
        self.app = made

    @property
    def _consumer(self) -> Any:
        return self.app.consumer

    async def start(self, partition: Partition) -> int:
        """The committed offset that Faust sought to, else the earliest there is."""
        at = TP(partition.topic, partition.number)
        committed = self._consumer._committed_offset.get(at)
        if committed:
            return int(committed)
        earliest = await self._consumer.earliest_offsets(at)
        return int(earliest.get(at) or 0)

    async def seek(self, partition: Partition, offset: int) -> None:
        """Read from ``offset`` again."""
        await self._consumer.seek(TP(partition.topic, partition.number), offset)

    async def commit(self, offsets: dict[Partition, int]) -> None:
        """Commit these offsets of the partitions that are still ours."""
        await self._consumer._commit_offsets({TP(at.topic, at.number): offset for at, offset in offsets.items()})

    def assigned(self) -> list[Partition]:
        """The source partitions that are ours."""
        return [Partition(*at) for at in self.app.assignor.assigned_actives() if at.topic in SOURCE_NAMES]

    async def rewind(self, partitions: Collection[Partition]) -> bool:
        """Commit the beginning of ``partitions``; False where some were taken away in this moment."""
        wanted = {TP(*at) for at in partitions}
        earliest = await self._consumer.earliest_offsets(*wanted)
        committed = await self._consumer._commit_offsets({at: int(earliest.get(at) or 0) for at in wanted})
        return bool(committed) and wanted <= self._consumer.assignment()

    def ends(self) -> dict[Partition, tuple[int, int | None]]:
        """What the last fetch of each source partition told; asks nobody."""
        fetched, reads = {}, self._consumer
        committed = reads._committed_offset
        for at in reads.assignment():
            if at.topic not in SOURCE_NAMES:
                continue
            try:
                end = reads.highwater(at)
            except AssertionError:  # The client's own thread has given it away meanwhile.
                continue
            if end is not None:
                fetched[Partition(at.topic, at.partition)] = (int(end), committed.get(at))
        return fetched


def where(made: faust.App) -> str:
    """How far ``made`` has come with joining, for a person: read from another thread, while it does nothing more."""
    try:
        ours = made.consumer.assignment()
        recovering = cast(Any, made.tables).recovery.in_recovery
    except Exception as error:  # It may be at any point of its start.
        return f"no consumer yet: {type(error).__name__}"
    if not ours:
        return "the group has given it no partitions"
    return f"{len(ours)} partitions, {'reading back its table' if recovering else 'not started'}"


def build(
    settings: BrokerSettings,
    failed: Callable[[BaseException], None],
    answered: Callable[[], None],
    most_ranks: int,
    ids: Mapping[str, str],
    hear: Callable[[Event], None],
    advice: AdviceSettings,
    partitions: int,
) -> tuple[faust.App, Door]:
    """The app and its door, which tells ``hear`` every answer, and advises by ``advice``.

    ``failed`` is told what an agent could not go on after; ``answered`` is called at every answer of a broker, from
    threads of the client. ``ids`` are those of the topics, and ``partitions`` how many each has, asked for before.
    """
    made = app(settings, partitions)
    # Keys and values of type bytes are passed through as they are.
    table = cast(SnapshotTable, made.Table(TABLE, key_type=bytes, value_type=bytes, partitions=partitions))
    targets = {topic.name: raw(made, topic) for topic in TARGETS}

    async def publish(topic: Topic, key: str | None, value: bytes) -> Awaitable[object]:
        sent: Awaitable[object] = await targets[topic.name].send(key=key.encode() if key else None, value=value)
        return sent

    consumer, store = Consumer(made), Store(table, table.delivered)
    door = Door(Processor(most_ranks=most_ranks, advice=advice), store, publish, consumer, hear=hear)
    bound(door.pass_over)
    answer_refused_tokens()
    tell_answers(answered)
    seek_whole(SOURCE_NAMES)
    commit_nothing()
    fetch_soon()
    poll_soon()
    replace_lost_leader()
    verify_nothing()
    deliver_at_once()
    _agents(made, door, failed)
    _rebalances(made, door, consumer, JoinedTopics(store, ids), failed)
    return made, door


def _agents(made: faust.App, door: Door, failed: Callable[[BaseException], None]) -> None:
    for topic in SOURCES:

        async def read(stream: Any, topic: Topic = topic) -> None:
            async for event in stream.events():
                message = event.message
                try:
                    await door.take(
                        topic, Partition(message.topic, message.partition), message.offset, event.value or b""
                    )
                except Exception as error:
                    # Its answers may be half delivered: the worker starts again from what is stored.
                    failed(error)
                    raise

        made.agent(raw(made, topic), name=f"read-{topic.short}")(read)


def _rebalances(
    made: faust.App, door: Door, consumer: Consumer, joined: JoinedTopics, failed: Callable[[BaseException], None]
) -> None:
    async def revoked(sender: Any, *args: Any, **kwargs: Any) -> None:
        door.lose()

    async def recovered(sender: Any, *args: Any, **kwargs: Any) -> None:
        # Faust now opens the source partitions, seeks, and then empties its queues. What it fetched in between would
        # be lost without a sound, so nothing is fetched until it resumes the flow itself.
        made.consumer.stop_flow()
        try:
            ours = consumer.assigned()
            remade = joined.remade(ours)
            if remade:
                if not await consumer.rewind(remade):
                    return  # Not noted, so it is found again when they are given out next.
                door.read_anew(remade)
            await joined.note(ours)
        except Exception as error:
            failed(error)
            raise

    cast(Any, made.on_partitions_revoked).connect(revoked, weak=False)
    cast(Any, made.on_rebalance_complete).connect(recovered, weak=False)
