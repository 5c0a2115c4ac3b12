"""What aiokafka does not offer: its private names are used here and in ``faust_app.py`` alone.

Rule of this file: Faust makes the clients of this process itself, so what is changed here is changed for all of them.
A batch unpacks to so many bytes and no more: one that cannot be read has no records, its offsets are passed, and where
it was is told. And so is every answer of a broker.
"""

import importlib
from collections.abc import Callable, Collection, Iterator
from typing import Any

from aiokafka import AIOKafkaConsumer, codec
from aiokafka.client import AIOKafkaClient
from aiokafka.consumer import fetcher
from aiokafka.errors import UnsupportedCodecError
from aiokafka.record.default_records import DefaultRecordBatch
from aiokafka.record.legacy_records import LegacyRecordBatch
from aiokafka.record.memory_records import MemoryRecords

from paceline.kafka.decompression import UnreadableBatchError, gunzip, refuse, unzstd

from .offsets import Partition

#: Told where a batch was that is passed over: its partition, its first offset, the one after it, and why.
Passed = Callable[[Partition, int, int, str], None]
_CODECS = {"gzip_decode": gunzip, "zstd_decode": unzstd, "snappy_decode": refuse, "lz4_decode": refuse}
_PLAIN: Any = fetcher.PartitionRecords
_SEND: Any = AIOKafkaClient.send
_SEEK: Any = AIOKafkaConsumer.seek_to_committed
_COMMIT: Any = AIOKafkaConsumer.commit


class _Batch:
    """A batch whose records are none where it cannot be unpacked."""

    def __init__(self, batch: Any, tell: Callable[[int, int, str], None]) -> None:
        self._batch, self._tell = batch, tell

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def __next__(self) -> Any:
        return next(self._batch)

    def __iter__(self) -> Iterator[Any]:
        try:
            return iter(self._batch)  # This unpacks it.
        except (UnreadableBatchError, UnsupportedCodecError) as error:
            self._tell(self._batch.base_offset, self._batch.next_offset, str(error))
            return iter(())


class _Records:
    """What a fetch brought of a partition."""

    def __init__(self, records: MemoryRecords, tell: Callable[[int, int, str], None]) -> None:
        self._records, self._tell = records, tell

    def has_next(self) -> bool:
        """Whether there is another batch."""
        return bool(self._records.has_next())

    def next_batch(self) -> _Batch:
        """The next batch."""
        return _Batch(self._records.next_batch(), self._tell)


def bound(passed: Passed) -> None:
    """From now on no batch unpacks to more than there is room for, in any consumer of this process."""

    class BoundedPartitionRecords(_PLAIN):  # type: ignore[misc]
        def __init__(self, at: Any, records: MemoryRecords, *rest: Any, **options: Any) -> None:
            partition = Partition(at.topic, at.partition)
            told = _Records(records, lambda first, after, why: passed(partition, first, after, why))
            super().__init__(at, told, *rest, **options)

    fetcher.PartitionRecords = BoundedPartitionRecords
    codec.has_zstd = lambda: True
    for batch in (DefaultRecordBatch, LegacyRecordBatch):
        module = importlib.import_module(batch.__module__)  # The compiled one where there is one.
        for name, unpack in _CODECS.items():
            if hasattr(module, name):
                setattr(module, name, unpack)


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


def commit_nothing() -> None:
    """From now on committing no offset at all does nothing, in every consumer of this process.

    Faust leaves out what a rebalance has just taken away. Where nothing is left, the client refuses, and of that
    Faust's thread dies.
    """

    async def commit(consumer: AIOKafkaConsumer, offsets: Any = None) -> None:
        if offsets is None or offsets:
            await _COMMIT(consumer, offsets)

    AIOKafkaConsumer.commit = commit
