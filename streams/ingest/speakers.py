"""For whom a message speaks, decoded once for as long as its producer says the same.

Rule of this file: pure and bounded. A node says the same of its ranks in every message; who keeps something by rank
needs to hear it once.
"""

from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from paceline import columns
from paceline.events import RANK_LIMIT, Column, Speakers, StepTimings

from .rank_bound import ONE_BY_ONE, Timings, within

#: Producers that are remembered at most; one that is forgotten is decoded again.
_MOST = 65_536
_SINGLE = attrgetter(*ONE_BY_ONE)


class RankSpeakers(NamedTuple):
    """Equally long: one entry a rank. ``dp``, ``tp`` and ``pp`` are empty where no rank has a place.

    ``switch``: what their node hangs from, "" where that is not known.
    """

    ranks: Sequence[int]
    world_sizes: Sequence[int]
    devices: Sequence[str]
    dp: Sequence[int]
    tp: Sequence[int]
    pp: Sequence[int]
    switch: str = ""

    def tensor_groups(self) -> list[str]:
        """The name of each rank's tensor group, "" for none known; empty where nobody's place is.

        Such a group is what shares the tensors of a layer: the ranks of one place in the other two dimensions.
        """
        if not self.tp or not self.dp:
            return []
        stages = self.pp or [-1] * len(self.dp)
        return [
            f"dp {dp}" + (f" pp {pp}" if pp >= 0 else "") if dp >= 0 and tp >= 0 else ""
            for dp, tp, pp in zip(self.dp, self.tp, stages, strict=True)
        ]


class _Before(NamedTuple):
    """What a producer said, under which bound, and what came of it; ``cut``: some of its ranks are left out."""

    told: Speakers
    node: str
    most: int
    who: RankSpeakers
    beyond: int
    cut: bool


class SpeakersHeard:
    """What each producer said last of its ranks."""

    def __init__(self) -> None:
        self._heard: dict[str, _Before] = {}

    def hear(self, message: Timings, most: int) -> tuple[Timings, RankSpeakers, bool, int]:
        """``message`` about ranks below ``most`` alone, for whom it speaks then, whether its producer says so for the
        first time or has said otherwise before, and how many ranks it tells of that are left out."""
        told = message.speakers
        before = self._heard.get(message.producer)
        if before is None or before.told != told or (before.node, before.most) != (message.node, most):
            kept, beyond = within(message, most)
            who = _decoded(kept.speakers)
            self._heard[message.producer] = _Before(told, message.node, most, who, beyond, kept is not message)
            if len(self._heard) > _MOST:
                del self._heard[next(iter(self._heard))]
            return kept, who, True, beyond
        if before.cut or _single(message, most):
            kept, beyond = within(message, most)
            return kept, before.who, False, beyond
        return message, before.who, False, 0

    def knows(self, message: StepTimings, most: int) -> bool:
        """Whether its producer said the same before, and of no rank from ``most`` on: ``hear`` hands it on as it is."""
        before = self._heard.get(message.producer)
        return (
            before is not None
            and (before.node, before.most, before.cut) == (message.node, most, False)
            and before.told == message.speakers
            and not _single(message, most)
        )


def _single(message: Timings, most: int) -> bool:
    """Whether ``message`` tells of any single rank from ``most`` on, beside those that it speaks for."""
    if not isinstance(message, StepTimings):
        return False
    single = _SINGLE(message)
    if not any(single) and message.facts is None:
        return False  # Nearly every message.
    said = [one.rank for ones in single for one in ones]
    return max([*said, *(message.facts.ranks if message.facts else ())], default=-1) >= most


def _decoded(told: Speakers) -> RankSpeakers:
    def numbers(column: Column) -> list[int]:
        return [int(one) for one in columns.numbers(column)]

    def places(column: Column | None) -> list[int]:
        """Those in one dimension; what is no place is unknown."""
        return [] if column is None else [one if -1 <= one < RANK_LIMIT else -1 for one in numbers(column)]

    return RankSpeakers(
        numbers(told.ranks),
        numbers(told.world_sizes),
        told.devices,
        places(told.dp),
        places(told.tp),
        places(told.pp),
        told.switch or "",
    )
