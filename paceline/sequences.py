"""Producers number their messages: drop what comes twice, count what never came.

Rule of this file: pure and bounded; the producer silent for longest is forgotten first.
"""

from collections import OrderedDict
from typing import Any

import msgspec

from paceline.decoders import convert

#: Producers that are remembered at most: their names come from outside.
MOST_PRODUCERS = 65_536
#: Counting ends here: the numbers come from outside, and their sum must stay one that can be stored.
MOST_MISSING = 2**53


class Sequences:
    """The last number of each producer on one topic.

    >>> sequences = Sequences()
    >>> [sequences.admit("node-1", number) for number in (7, 8, 8, 11)]
    [True, True, False, True]
    >>> sequences.missing, sequences.repeated
    (2, 1)
    """

    def __init__(self, most: int = MOST_PRODUCERS) -> None:
        self.last: OrderedDict[str, int] = OrderedDict()
        self.missing = 0
        self.repeated = 0
        self._most = most

    def admit(self, producer: str, sequence: int) -> bool:
        """Whether this message is new. A jump counts the messages in between as missing, a first one sets the start."""
        last = self.last.get(producer)
        if last is None:
            self.last[producer] = sequence
            if len(self.last) > self._most:
                self.last.popitem(last=False)
            return True
        self.last.move_to_end(producer)
        if sequence <= last:
            self.repeated += 1
            return False
        self.last[producer] = sequence
        if sequence > last + 1:
            self.missing = min(self.missing + sequence - last - 1, MOST_MISSING)
        return True

    def forget_gaps(self) -> None:
        """We passed over messages ourselves: the next number of each producer is no gap."""
        self.last.clear()

    def state(self) -> dict[str, Any]:
        """The state as plain data."""
        return {"last": dict(self.last), "missing": self.missing}

    def load(self, data: dict[str, Any]) -> None:
        """Take the state that ``state`` described, as far as there is room.

        Raises:
            ValueError: a part of ``data`` is of another type.
            KeyError: a part is missing.
        """
        try:
            last = convert(data["last"], dict[str, int])
            self.missing = convert(data["missing"], int)
        except msgspec.ValidationError as error:
            raise ValueError(f"not the numbers of producers: {error}") from error
        self.last = OrderedDict(list(last.items())[-self._most :])
