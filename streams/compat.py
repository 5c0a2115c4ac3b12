"""What aiokafka and Faust do not offer: their private names are used here and in ``faust_app.py`` alone.

Rule of this file: Faust makes the clients of this process itself, so what is changed here is changed for all of them.
A batch that cannot be read, or unpacks to too much, is passed over, and where it was is told. And so is every answer
of a broker.
"""

import asyncio
import importlib
import inspect
from collections.abc import Callable, Collection, Coroutine, Generator, Iterator
from functools import partial
from types import coroutine
from typing import Any

from aiokafka import AIOKafkaConsumer, codec
from aiokafka.abc import AbstractTokenProvider
from aiokafka.client import AIOKafkaClient
from aiokafka.conn import OAuthAuthenticator
from aiokafka.consumer import fetcher
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.errors import KafkaConnectionError, RebalanceInProgressError
from aiokafka.protocol.admin import DescribeGroupsRequest
from aiokafka.protocol.group import LeaveGroupRequest
from aiokafka.record.default_records import DefaultRecordBatch
from faust.transport.consumer import Consumer, ThreadDelegateConsumer
from mode.services import WaitResults

from paceline.kafka.batches import Checked, PassedOver, Tell, batches
from paceline.kafka.decompression import gunzip, refuse, unzstd
from paceline.kafka.tokens import TokenError, TokenSource

from .offsets import Partition

#: Told where a batch was that is passed over: its partition, its first offset, the one after it, and why.
Passed = Callable[[Partition, int, int, str], None]
_CODECS = {"gzip_decode": gunzip, "zstd_decode": unzstd, "snappy_decode": refuse, "lz4_decode": refuse}
_PLAIN: Any = fetcher.FetchResult
_SEND: Any = AIOKafkaClient.send
_SEEK: Any = AIOKafkaConsumer.seek_to_committed
_COMMIT: Any = AIOKafkaConsumer.commit
_CONSUMER: Any = AIOKafkaConsumer.__init__
_ACTIONS: Any = fetcher.Fetcher._get_actions_per_node
_GETMANY: Any = ThreadDelegateConsumer._getmany
_WAIT_FIRST: Any = Consumer.wait_first
_OAUTH: Any = OAuthAuthenticator.step
_ASK: Any = GroupCoordinator._send_req
POLL_S = 0.02
#: How long a broker may keep a fetch that it has nothing for, and how long where nothing is in hand.
FETCH_WAIT_MS, WHOLE_WAIT_MS = 100, 1000
#: What has been in hand for so long, and none of it taken, is not waited for.
GIVEN_UP_S = 30.0
#: How long after the first look a member looks again whether its group has lost its leader: longer than another one
#: takes from its own second look to asking for that name.
LOOK_AGAIN_S = 1.0


class _Records:
    """What a fetch brought of a partition; of which one, and how long that is, comes with ``read``."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._batches: Iterator[PassedOver | Checked] | None = None
        self._next: PassedOver | Checked | None = None

    def size_in_bytes(self) -> int:
        """Asked by the client where there is no batch."""
        return len(self._data)

    def read(self, position: int, end: int | None, tell: Tell) -> None:
        """It is the answer to a fetch at ``position`` of a partition that ends at ``end``."""
        self._batches = batches(self._data, position, end, DefaultRecordBatch, tell)

    def has_next(self) -> bool:
        """Whether there is another batch."""
        if self._batches is None:
            return bool(self._data)
        self._next = self._next or next(self._batches, None)
        return self._next is not None

    def next_batch(self) -> PassedOver | Checked | None:
        """The next batch, once ``has_next`` said that there is one."""
        taken, self._next = self._next, None
        return taken


def bound(passed: Passed) -> None:
    """From now on no batch stops a consumer of this process, nor unpacks to more than there is room for."""

    class BoundedResult(_PLAIN):  # type: ignore[misc]
        def __init__(self, at: Any, *, assignment: Any, partition_records: Any, **options: Any) -> None:
            tell = partial(passed, Partition(at.topic, at.partition))
            end = assignment.state_value(at).highwater
            partition_records._records.read(partition_records.next_fetch_offset, end, tell)
            super().__init__(at, assignment=assignment, partition_records=partition_records, **options)

    fetcher.MemoryRecords, fetcher.FetchResult = _Records, BoundedResult
    bound_codecs()


def bound_codecs() -> None:
    """From now on every batch of this process unpacks to so much and no more."""
    codec.has_zstd = lambda: True
    module = importlib.import_module(DefaultRecordBatch.__module__)  # The compiled one where there is one.
    for name, unpack in _CODECS.items():
        setattr(module, name, unpack)


class Tokens(AbstractTokenProvider):  # type: ignore[misc]
    """A source of tokens as aiokafka wants it: asked in a thread, for an issuer may take seconds."""

    def __init__(self, source: TokenSource) -> None:
        self._source = source

    async def token(self) -> str:
        """A token that is good now.

        Raises:
            KafkaConnectionError: there is none; the client tries again.
        """
        try:
            return await asyncio.to_thread(self._source.token)
        except TokenError as error:
            raise KafkaConnectionError(f"no token to log in with: {error}") from error


def answer_refused_tokens() -> None:
    """From now on a token that a broker refuses is a login that failed, in every client of this process.

    A broker tells so by a challenge, and ends the login when it is answered. The client takes any challenge for a
    success, and sends what comes next.
    """

    async def step(login: Any, payload: bytes | None) -> Any:
        if login._token_sent and payload:
            return b"\x01", True
        return await _OAUTH(login, payload)

    OAuthAuthenticator.step = step


def tell_answers(answered: Callable[[], None]) -> None:
    """From now on ``answered`` is called whenever a broker has answered a request of any client of this process."""

    async def send(client: AIOKafkaClient, *args: Any, **options: Any) -> Any:
        answer = await _SEND(client, *args, **options)
        answered()
        return answer

    AIOKafkaClient.send = send


async def seek_to_committed(consumer: AIOKafkaConsumer, topics: Collection[str], *partitions: Any) -> Any:
    """As the client's own, which leaves a partition where it is when nothing is committed of it, or 0.

    Faust seeks so to read again what it had fetched while partitions were given out, and dropped: of ``topics``, such a
    partition is read from its beginning.
    """
    offsets = await _SEEK(consumer, *partitions)
    first = [at for at, offset in offsets.items() if not offset and at.topic in topics]
    if first:
        await consumer.seek_to_beginning(*first)
    return offsets


def seek_whole(topics: Collection[str]) -> None:
    """From now on every consumer of this process seeks by ``seek_to_committed`` of this file."""

    async def seek(consumer: AIOKafkaConsumer, *partitions: Any) -> Any:
        return await seek_to_committed(consumer, topics, *partitions)

    AIOKafkaConsumer.seek_to_committed = seek


def fetch_soon() -> None:
    """From now on a fetch of any consumer of this process is answered within ``FETCH_WAIT_MS``, or at once.

    A consumer asks each broker for one thing at a time: while a fetch of partitions that are empty is kept, one that
    has been read up is not asked for. Faust would have brokers keep it for 1.5 s, in which a worker that is behind
    stands still. A fetch while nothing is pending ends with whatever comes, so it is kept for ``WHOLE_WAIT_MS``: a
    worker that is idle asks its broker less often.
    """

    def made(consumer: AIOKafkaConsumer, *topics: str, **options: Any) -> None:
        wait_ms = min(options.pop("fetch_max_wait_ms", FETCH_WAIT_MS), FETCH_WAIT_MS)
        _CONSUMER(consumer, *topics, fetch_max_wait_ms=wait_ms, **options)

    def actions(asking: Any, assignment: Any) -> Any:
        wait_ms = vars(asking).setdefault("_shortest_wait_ms", asking._fetch_max_wait_ms)
        asking._fetch_max_wait_ms = wait_ms if _in_hand(asking, assignment) else max(wait_ms, WHOLE_WAIT_MS)
        return _ACTIONS(asking, assignment)

    AIOKafkaConsumer.__init__ = made
    fetcher.Fetcher._get_actions_per_node = actions  # type: ignore[method-assign, unused-ignore]


def _in_hand(asking: Any, assignment: Any) -> bool:
    """Whether messages have been read that will be taken: some of a changelog never are, once it is restored."""
    before, now_s = vars(asking).get("_seen_in_hand", {}), asking._loop.time()
    seen = {}
    for one in asking._records:
        position = assignment.state_value(one)._position if one in assignment.tps else None
        at, since_s = before.get(one, (None, now_s))
        seen[one] = (position, since_s if at == position else now_s)
    asking._seen_in_hand = seen
    return any(now_s - since_s < GIVEN_UP_S for _, since_s in seen.values())


def poll_soon() -> None:
    """From now on a poll is over within ``POLL_S`` while partitions are left out of it.

    Faust leaves a partition out while the messages pending are many, and polls the others, for a second where they are
    silent: the worker has long had time again, and stands still.
    """

    async def getmany(polled: ThreadDelegateConsumer, active_partitions: Any, timeout: float) -> Any:
        left_out = polled._buffered_partitions
        return await _GETMANY(polled, active_partitions, min(timeout, POLL_S) if left_out else timeout)

    ThreadDelegateConsumer._getmany = getmany  # type: ignore[method-assign, assignment]


@coroutine
def _from(started: Coroutine[Any, Any, Any], waits_for: Any) -> Generator[Any, Any, Any]:
    """The rest of what was ``started`` and now waits."""
    while True:
        try:
            sent = yield waits_for
        except BaseException as error:
            step: Callable[[], Any] = partial(started.throw, error)
        else:
            step = partial(started.send, sent)
        try:
            waits_for = step()
        except StopIteration as ended:
            return ended.value


def deliver_at_once() -> None:
    """From now on Faust hands a message on at once where there is nothing to wait for.

    To be able to stop while an agent's queue is full, it makes four tasks a message, waits for the first and cancels
    the others: a sixth of all that a message costs. The queue is mostly not full, so that is tried first.
    """

    async def wait_first(consumer: Any, *waited: Any, timeout: Any = None) -> Any:
        first, others = waited[0], waited[1:]
        if timeout is not None or not inspect.iscoroutine(first) or consumer.should_stop:
            return await _WAIT_FIRST(consumer, *waited, timeout=timeout)
        try:
            waits_for = first.send(None)
        except BaseException as ended:
            for other in filter(inspect.iscoroutine, others):
                other.close()
            if isinstance(ended, StopIteration):
                return WaitResults([first], [ended.value], False)
            raise

        async def rest() -> Any:
            return await _from(first, waits_for)

        return await _WAIT_FIRST(consumer, rest(), *others)

    Consumer.wait_first = wait_first  # type: ignore[method-assign, assignment]


def commit_nothing() -> None:
    """From now on committing no offset at all does nothing, in every consumer of this process.

    Faust leaves out what a rebalance has just taken away. Where nothing is left, the client refuses, and of that
    Faust's thread dies.
    """

    async def commit(consumer: AIOKafkaConsumer, offsets: Any = None) -> None:
        if offsets is None or offsets:
            await _COMMIT(consumer, offsets)

    AIOKafkaConsumer.commit = commit


def verify_nothing() -> None:
    """From now on Faust does not verify, every seven seconds, that its consumer gets on.

    It would write to the log, no more, and who stands still is noticed by ``watchdog.py``. But it asks for the position
    of each partition, and of one that was assigned just now and has none yet its thread dies: on a busy machine a
    worker started again for that, a second after it was ready.
    """

    async def verified(_: Any) -> None:
        pass

    Consumer.verify_all_partitions_active = verified  # type: ignore[method-assign, assignment]


def replace_lost_leader() -> None:
    """From now on a consumer of this process leads a group whose leader is no longer among its members.

    The embedded broker (Tansu 0.6.0) keeps a leader that leaves while the group is forming: whoever joins after that
    waits, for ever, for a partition assignment that nobody makes. It takes who joins under the name of that leader for
    the leader. Apache Kafka chooses another leader itself, and would tell an unknown name to join again.

    Two under one name would read the same partitions. So of those that wait, the first by name does so; it keeps its
    own name in the group until it is in it as the leader, for else another one would be the first meanwhile; and it
    looks twice, for who has just come may be the first by name while another one is about to.
    """

    async def ask(coordinator: Any, request: Any) -> Any:
        answer = await _ASK(coordinator, request)
        said, known = type(answer).__name__, coordinator.__dict__
        if said.startswith("JoinGroupResponse"):
            known["led_by"] = answer.leader_id
            # Nobody reads under that other name: it is given nothing.
            answer.members = [member for member in answer.members if member[0] != known.get("own_name")]
        elif said.startswith("SyncGroupResponse") and not answer.error_code and "own_name" in known:
            # Else that name would stay a member too, and be given partitions with the next generation.
            await _ASK(coordinator, LeaveGroupRequest(coordinator.group_id, known.pop("own_name")))
        elif said.startswith("SyncGroupResponse") and answer.error_code == RebalanceInProgressError.errno:
            for pause_s in (0.0, LOOK_AGAIN_S):
                await asyncio.sleep(pause_s)
                if not await _is_due(coordinator):
                    break
            else:
                known["own_name"], coordinator.member_id = coordinator.member_id, known["led_by"]
        return answer

    GroupCoordinator._send_req = ask


async def _is_due(coordinator: Any) -> bool:
    """Whether the leader is gone, and this member the first by name of those that wait for it."""
    members = await _members(coordinator)
    return coordinator.__dict__["led_by"] not in members and coordinator.member_id == min(members, default="")


async def _members(coordinator: Any) -> set[str]:
    answer = await _ASK(coordinator, DescribeGroupsRequest([coordinator.group_id]))
    return {member[0] for group in answer.groups for member in group[-1]}
