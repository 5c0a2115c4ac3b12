"""What one node was measured to do: each speed as it was measured last, and the best that it ever was.

Rule of this file: pure and bounded. What is no measurement, or was made while others used the machine, is not kept: it
would accuse, or clear, nobody. A description that comes again, or out of its turn, is no news.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from paceline.events import NodeDescribed, RatedSpeed
from paceline.rated_names import BUSY, CPU, FASTEST, HOST

#: Speeds of one node that are kept, and producers whose numbers are remembered.
MOST_SPEEDS, MOST_PRODUCERS = 128, 4
#: So many descriptions of one producer in a row, and a measurement of before those that are kept is believed: the
#: node's clock was set back. Two nodes that bear one name take turns, and do not come to it.
TURNS = 3
#: A best that is so many times more was no measurement of the same thing, and is forgotten.
_BEYOND = 10.0


class SpeedKey(NamedTuple):
    """What was measured; -1 where it has no size, or is of no group of ranks."""

    device: str
    name: str
    unit: str
    size_bytes: int
    ranks: int


class KindKey(NamedTuple):
    """The same of all devices of one kind."""

    kind: str
    name: str
    unit: str
    size_bytes: int
    ranks: int


class Held(msgspec.Struct, array_like=True):
    """A speed as it was measured last, and its best: that whose interval lies highest."""

    value: float
    low: float
    high: float
    time_s: float
    busy_known: bool
    best: float
    best_low: float
    best_s: float


class NodeRatings(msgspec.Struct):
    """The speeds of one node, and what kind of machine it is."""

    node: str
    told_s: float = 0.0
    cpu_kind: str = ""
    kinds: dict[str, str] = {}
    speeds: dict[SpeedKey, Held] = {}
    #: The highest number of each of the producers heard last, and how often the last has spoken in a row.
    producers: dict[str, int] = {}
    turns: int = 0
    #: Of the newest description, what was measured while others used the machine.
    busy: int = 0

    def update(self, event: NodeDescribed) -> set[SpeedKey]:
        """Take in a description of this node; the speeds that are new, other ones, or gone."""
        if not self._admit(event.producer, event.sequence):
            return set()
        self.told_s = event.time_s
        self._describe(event)
        changed = self._replaced(event)
        self.busy = sum(busy(speed) for speed in event.rated[:MOST_SPEEDS])
        for speed in event.rated[:MOST_SPEEDS]:
            if is_measured(speed) and not busy(speed) and self._keep(speed):
                changed.add(key_of(speed))
        return changed

    def _admit(self, producer: str, sequence: int) -> bool:
        last = next(reversed(self.producers), None)
        before = self.producers.get(producer)
        if before is not None and sequence <= before:
            return False
        self.producers.pop(producer, None)
        self.producers[producer] = sequence
        while len(self.producers) > MOST_PRODUCERS:
            del self.producers[next(iter(self.producers))]
        self.turns = self.turns + 1 if producer == last else 1
        return True

    def _describe(self, event: NodeDescribed) -> None:
        if event.cpu_model:
            self.cpu_kind = f"{event.cpu_model}, {event.cpu_count} processors"
        for device in event.devices[:MOST_SPEEDS]:
            self.kinds[device.uuid] = f"{device.name} {device.profile}" if device.profile else device.name

    def _replaced(self, event: NodeDescribed) -> set[SpeedKey]:
        """Forgets GPUs that are here no more, while as many others are: they were replaced. One that is lost stays."""
        here = {device.uuid for device in event.devices}
        rated = {key.device for key in self.speeds} - {CPU, HOST}
        gone = rated - here if len(here) >= len(rated) else set()
        forgotten = {key for key in self.speeds if key.device in gone}
        self.kinds = {uuid: kind for uuid, kind in self.kinds.items() if uuid in here or uuid in rated - gone}
        for key in forgotten:
            del self.speeds[key]
        return forgotten

    def _keep(self, speed: RatedSpeed) -> bool:
        key, held = key_of(speed), self.speeds.get(key_of(speed))
        if held is None:
            if len(self.speeds) >= MOST_SPEEDS:
                return False
            self.speeds[key] = _first(speed)
            return True
        if (held.time_s, held.value) == (speed.time_s, speed.value):
            return False
        if speed.time_s <= held.time_s and self.turns < TURNS:
            return False
        self.speeds[key] = _next(held, speed)
        return True

    def kind_key(self, key: SpeedKey) -> KindKey | None:
        """Whose peers the speed has; None where nobody says what kind of device it is of."""
        kind = self.cpu_kind if key.device in (CPU, HOST) else self.kinds.get(key.device, "")
        return KindKey(kind, *key[1:]) if kind else None

    def members(self) -> Iterator[tuple[KindKey, SpeedKey]]:
        """Every speed that has a kind."""
        for key in self.speeds:
            if (kind := self.kind_key(key)) is not None:
                yield kind, key


def key_of(speed: RatedSpeed) -> SpeedKey:
    """What ``speed`` is a measurement of."""
    size, ranks = speed.size_bytes, speed.ranks
    return SpeedKey(speed.device, speed.name, speed.unit, -1 if size is None else size, -1 if ranks is None else ranks)


def is_measured(speed: RatedSpeed) -> bool:
    """Whether its numbers can be those of a measurement."""
    numbers = (speed.low, speed.value, speed.high)
    return 0.0 < speed.value <= FASTEST and all(map(math.isfinite, numbers)) and list(numbers) == sorted(numbers)


def busy(speed: RatedSpeed) -> bool:
    """Whether others used the device while it was measured."""
    return speed.busy_ratio is not None and not speed.busy_ratio <= BUSY


def _first(speed: RatedSpeed) -> Held:
    known = speed.busy_ratio is not None
    return Held(speed.value, speed.low, speed.high, speed.time_s, known, speed.value, speed.low, speed.time_s)


def _next(held: Held, speed: RatedSpeed) -> Held:
    made = _first(speed)
    if speed.low < held.best_low <= _BEYOND * speed.high:
        made.best, made.best_low, made.best_s = held.best, held.best_low, held.best_s
    return made
