"""Samples of the ranks' links of a few messages, as arrays.

Rule of this file: pure; rows of ranks that cannot be are left out.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from paceline.columns import rows
from paceline.events import RANK_LIMIT, LinkColumns, StepTimings

from ..raw_columns import Ints, floats, unknown, whole
from ..robust import Array


class LinkRows(NamedTuple):
    """Links of ranks, and (``of`` is the row) their connections that carried data; NaN is not measured."""

    rank: Ints
    connections: Ints
    rtt_s: Array
    retransmits: Ints
    rated_bytes_per_s: Array
    of: Ints
    local: Ints
    remote: Ints
    peer_rtt_s: Array


_OF_RANKS = ("rank", "connections", "rtt_s", "retransmits", "rated_bytes_per_s")


def link_rows(messages: Sequence[StepTimings]) -> LinkRows:
    """What ``messages`` tell of links, in their order."""
    parts = [message.links for message in messages if message.links]
    return _possible(_of_columns(parts)) if parts else _NO_LINKS


def _possible(links: LinkRows) -> LinkRows:
    """The rows of ranks that there can be."""
    sound = (links.rank >= 0) & (links.rank < RANK_LIMIT)
    there = (links.of >= 0) & (links.of < sound.size)
    if sound.all() and there.all():
        return links
    moved = np.append(np.where(sound, np.cumsum(sound) - 1, -1), -1)[np.where(there, links.of, sound.size)]
    return links._replace(of=moved, **{name: getattr(links, name)[sound] for name in _OF_RANKS})


_INTS, _FLOATS = np.empty(0, dtype=np.int64), np.empty(0)
_NO_LINKS = LinkRows(_INTS, _INTS, _FLOATS, _INTS, _FLOATS, _INTS, _INTS, _INTS, _FLOATS)


def _of_columns(parts: Sequence[LinkColumns]) -> LinkRows:
    sizes = [rows(part.rank) for part in parts]
    of = whole([part.of for part in parts])
    each = [rows(part.of) for part in parts]
    before = np.repeat(np.cumsum(sizes) - sizes, each)
    of = np.where((of >= 0) & (of < np.repeat(sizes, each)), of + before, -1)
    rated = [part.rated_bytes_per_s or unknown(size) for part, size in zip(parts, sizes, strict=True)]
    return LinkRows(
        whole([part.rank for part in parts]),
        whole([part.connections for part in parts]),
        floats([part.rtt_s for part in parts]),
        whole([part.retransmits for part in parts]),
        floats(rated),
        of,
        whole([part.local for part in parts]),
        whole([part.remote for part in parts]),
        floats([part.peer_rtt_s for part in parts]),
    )
