"""Which topics the stored states and the committed offsets come from: noted beside the states, at every join.

Rule of this file: it knows a store and no Faust. A topic that is deleted and made again has its old name and another
id; an offset of the old one means nothing in it. (Offsets could carry the id themselves; the embedded broker drops it.)
"""

import logging
from collections.abc import Collection, Mapping

import msgspec

from paceline.decoders import json_decoder

from .offsets import Partition
from .store import Store

log = logging.getLogger(__name__)

#: What the note stands under in the store; the key of a state is a line of JSON.
NOTE = "topics"


class JoinedTopics:
    """The topics that a worker has joined, by name, with ``ids`` asked for before: never newer than what is read."""

    def __init__(self, store: Store, ids: Mapping[str, str]) -> None:
        self.store = store
        self.ids = ids

    def remade(self, partitions: Collection[Partition]) -> list[Partition]:
        """Those of ``partitions`` whose topic is another one than when they were noted."""
        notes = {number: self._noted(number) for number in {at.number for at in partitions}}
        return [
            at
            for at in partitions
            if (now := self.ids[at.topic]) and (noted := notes[at.number].get(at.topic)) and noted != now
        ]

    async def note(self, partitions: Collection[Partition]) -> None:
        """Note the topics of ``partitions``; when this returns, it is on the broker."""
        for number in sorted({at.number for at in partitions}):
            noted = self._noted(number)
            now = noted | {
                at.topic: known for at in partitions if at.number == number and (known := self.ids[at.topic])
            }
            if now != noted:
                await self.store.write(number, NOTE, msgspec.json.encode(now))

    def _noted(self, number: int) -> dict[str, str]:
        try:
            data = self.store.read(number, NOTE)
            return {} if data is None else json_decoder(dict[str, str]).decode(data)
        except ValueError as error:
            # It would be damaged again after a restart of the worker.
            log.error("which topics partition %d was read from is not readable (%s)", number, error)
            return {}
