"""States out of the store and back into memory, and what is remembered of those that were forgotten.

Rule of this file: whatever is stored, damaged or not, stops no worker: it would be as damaged after a restart.
"""

import logging
from collections.abc import Callable

from .forgotten import Forgotten
from .keyed_state import Key
from .processor import Processor
from .store import Store

log = logging.getLogger(__name__)
#: Under which key the forgotten jobs of a partition are stored.
FORGOTTEN = Key("forgotten", "", "", -1).text()


class StoredStates:
    """What ``store`` has of the states of ``processor``."""

    def __init__(self, store: Store, processor: Processor) -> None:
        self.store, self.processor = store, processor

    def restore(self, partition: int, key: Key, then: Callable[[Key], None] = lambda key: None) -> None:
        """Restore what is stored of ``key``; ``then`` is called where anything is. Else it begins, maybe again."""
        try:
            data = self.store.read(partition, key.text())
            if data is not None:
                self.processor.restore(key, data)
                then(key)
            elif key.kind == "job" and (times := self._forgotten(partition).times(key.text())):
                self.processor.begin_again(key, times)
        except Exception as error:
            log.error("%s restarts: its stored state is not readable (%s)", key.text(), error)

    async def note_forgotten(self, partition: int, keys: list[Key]) -> None:
        """Remember that these jobs are forgotten, before their stored states are deleted."""
        keys = [key for key in keys if key.kind == "job" and key not in self.processor]
        if not keys:
            return
        forgotten = self._forgotten(partition)
        for key in keys:
            forgotten.note(key.text())
        await self.store.write(partition, FORGOTTEN, forgotten.snapshot())

    def _forgotten(self, partition: int) -> Forgotten:
        """The jobs of ``partition`` whose state was forgotten."""
        try:
            data = self.store.read(partition, FORGOTTEN)
            return Forgotten() if data is None else Forgotten.restore(data)
        except ValueError as error:
            log.warning("forgotten jobs of partition %d are counted from zero: %s", partition, error)
            return Forgotten()
