"""Which rating of a node is kept: the better founded one, and among equals the newer.

Rule of this file: a decision. One rated while others used the device says less than one rated alone; what is kept
against a newer one is told.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from paceline.rated import MOST_SPEEDS, Rated, Speed

from .results import is_busy

Key = tuple[str, str, int | None, int | None]


class Kept(NamedTuple):
    """What the file is to hold; and the older ratings that stay, though there are newer ones."""

    rated: Rated
    stayed: tuple[Speed, ...]


def keep(
    before: Rated | None, fresh: Sequence[Speed], versions: Mapping[str, str], node: str, now_s: float, *, force: bool
) -> Kept:
    """``before`` and ``fresh`` together; ``force``: the fresh ones count, however busy the machine was."""
    old = {key(speed): speed for speed in (before.speeds if before is not None else ())}
    stayed = [old[key(speed)] for speed in fresh if not force and key(speed) in old and _worse(speed, old[key(speed)])]
    held = {key(speed) for speed in stayed}
    chosen = old | {key(speed): speed for speed in fresh if key(speed) not in held}
    all_versions = {**(before.versions if before is not None else {}), **versions}
    return Kept(Rated(node, now_s, _newest(chosen.values()), all_versions), tuple(stayed))


def key(speed: Speed) -> Key:
    """What makes two speeds the same thing measured twice."""
    return speed.device, speed.name, speed.size_bytes, speed.ranks


def _worse(fresh: Speed, old: Speed) -> bool:
    return _doubt(fresh) > _doubt(old)


def _doubt(speed: Speed) -> int:
    """0: alone; 1: nobody knows; 2: others used it."""
    return 1 if speed.busy_ratio is None else 2 * is_busy(speed)


def _newest(speeds: Iterable[Speed]) -> tuple[Speed, ...]:
    """As many as a file may hold, the newest where there are more: devices that have gone leave some behind."""
    found = list(speeds)
    newest = sorted(found, key=lambda speed: -speed.time_s)[:MOST_SPEEDS]
    return tuple(found) if len(found) <= MOST_SPEEDS else tuple(newest)
