"""For whom a message speaks, decoded once for as long as its producer says the same.

Rule of this file: pure and bounded. A node says the same of its ranks in every message; who keeps something by rank
needs to hear it once.
"""

from collections.abc import Sequence
from typing import NamedTuple

from paceline import columns
from paceline.events import CollectiveCalls, CollectiveTimings, Column, OpTimings, Speakers, StepTimings

Timings = OpTimings | CollectiveTimings | StepTimings | CollectiveCalls

#: Producers that are remembered at most; one that is forgotten is decoded again.
_MOST = 65_536


class RankSpeakers(NamedTuple):
    """Equally long: one entry a rank. ``dp``, ``tp`` and ``pp`` are empty where no rank has a place."""

    ranks: Sequence[int]
    world_sizes: Sequence[int]
    devices: Sequence[str]
    dp: Sequence[int]
    tp: Sequence[int]
    pp: Sequence[int]


class SpeakersHeard:
    """What each producer said last of its ranks."""

    def __init__(self) -> None:
        self._heard: dict[str, tuple[object, RankSpeakers]] = {}

    def hear(self, message: Timings) -> tuple[RankSpeakers, bool]:
        """For whom ``message`` speaks, and whether its producer says so for the first time, or something else now."""
        told = _told(message)
        before = self._heard.get(message.producer)
        if before is not None and before[0] == told:
            return before[1], False
        speakers = told if isinstance(told, RankSpeakers) else _decoded(told)
        self._heard[message.producer] = (told, speakers)
        if len(self._heard) > _MOST:
            del self._heard[next(iter(self._heard))]
        return speakers, True


def _told(message: Timings) -> Speakers | RankSpeakers:
    if isinstance(message, OpTimings):
        return RankSpeakers(message.ranks, message.world_sizes, message.devices, message.dp, message.tp, message.pp)
    if isinstance(message, CollectiveTimings):
        return RankSpeakers(message.ranks, message.world_sizes, (), (), (), ())
    return message.speakers


def _decoded(told: Speakers) -> RankSpeakers:
    def numbers(column: Column | None) -> list[int]:
        return [] if column is None else [int(one) for one in columns.numbers(column)]

    return RankSpeakers(
        numbers(told.ranks),
        numbers(told.world_sizes),
        told.devices,
        numbers(told.dp),
        numbers(told.tp),
        numbers(told.pp),
    )
