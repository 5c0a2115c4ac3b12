"""Samples of the ranks' links of a few messages, as arrays.

Rule of this file: pure; rows of ranks that cannot be are left out. LinkSamples, which name the ends of a connection by
their addresses, become here what LinkColumns tell: a number for each end.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from paceline.columns import end_of_link, rows
from paceline.events import RANK_LIMIT, CollectiveTimings, LinkColumns, LinkSample, StepTimings

from .raw_columns import Ints, floats, unknown, whole
from .robust import Array


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


def link_rows(messages: Sequence[CollectiveTimings | StepTimings]) -> LinkRows:
    """What ``messages`` tell of links, in their order."""
    samples = [link for message in messages if isinstance(message, CollectiveTimings) for link in message.links]
    columns = [message.links for message in messages if isinstance(message, StepTimings) and message.links]
    if not columns:
        return _possible(_of_samples(samples)) if samples else _NO_LINKS
    links = _of_columns(columns)
    return _possible(_joined(_of_samples(samples), links) if samples else links)


def _possible(links: LinkRows) -> LinkRows:
    """The rows of ranks that there can be."""
    sound = (links.rank >= 0) & (links.rank < RANK_LIMIT)
    there = (links.of >= 0) & (links.of < sound.size)
    if sound.all() and there.all():
        return links
    moved = np.append(np.where(sound, np.cumsum(sound) - 1, -1), -1)[np.where(there, links.of, sound.size)]
    return links._replace(of=moved, **{name: getattr(links, name)[sound] for name in _OF_RANKS})


def _joined(left: LinkRows, right: LinkRows) -> LinkRows:
    moved = right._replace(of=np.where(right.of >= 0, right.of + left.rank.size, -1))
    return LinkRows(*(np.concatenate(pair) for pair in zip(left, moved, strict=True)))


def _of_samples(links: Sequence[LinkSample]) -> LinkRows:
    peers = [(at, peer) for at, link in enumerate(links) for peer in link.peers]

    def ints(numbers: Sequence[int]) -> Ints:
        return np.array(numbers, dtype=np.uint64).astype(np.int64)

    def measured(numbers: Sequence[float | None]) -> Array:
        return np.array([np.nan if one is None else one for one in numbers], dtype=np.float64)

    return LinkRows(
        ints([link.rank for link in links]),
        ints([link.connections for link in links]),
        measured([link.rtt_s for link in links]),
        ints([link.retransmits for link in links]),
        measured([link.rated_bytes_per_s for link in links]),
        ints([at for at, _ in peers]),
        ints([end_of_link(peer.local) for _, peer in peers]),
        ints([end_of_link(peer.remote) for _, peer in peers]),
        measured([peer.rtt_s for _, peer in peers]),
    )


_NO_LINKS = _of_samples([])


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
