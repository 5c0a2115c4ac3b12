"""Messages of columns as lists of Python's numbers: to read them, and to change them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from paceline import columns
from paceline.events import Column, LinkColumns, Speakers, StepTimings


def listed(column: Column) -> list[Any]:
    """The numbers of ``column``."""
    return columns.numbers(column).tolist()


def numbers(values: Sequence[float]) -> Column:
    """A column as exact as ``values``: of whole numbers where all are."""
    if all(isinstance(one, int) for one in values):
        return columns.whole(values)  # type: ignore[arg-type]
    return columns.encoded("f8", values)


def changed(event: Any, **fields: Any) -> Any:
    """``event`` with other fields; a list of numbers becomes a column, of ``phases`` each."""
    for name, value in fields.items():
        if isinstance(getattr(event, name), Column):
            fields[name] = numbers(value)
        elif name == "phases" and isinstance(value, dict):
            fields[name] = {word: one if isinstance(one, Column) else numbers(one) for word, one in value.items()}
    return msgspec.structs.replace(event, **fields)


def speaking(event: Any, ranks: Sequence[int], world_sizes: Sequence[int] | int | None = None) -> Any:
    """``event``, which speaks for other ``ranks``, in a world of as many where nothing else is said."""
    return msgspec.structs.replace(event, speakers=speakers(ranks, world_sizes))


def speakers(ranks: Sequence[int], world_sizes: Sequence[int] | int | None = None) -> Speakers:
    """``ranks``, each with its own idea of the world's size, or all with the same."""
    sizes = world_sizes if world_sizes is not None else len(ranks)
    each = [sizes] * len(ranks) if isinstance(sizes, int) else sizes
    return Speakers(ranks=columns.whole(ranks), world_sizes=columns.whole(each), devices=["cpu"] * len(ranks))


class Peer(NamedTuple):
    """A connection that carried data; its ends are ``ip:port``."""

    local: str
    remote: str
    rtt_s: float | None = None


class Link(NamedTuple):
    """What a rank sampled of its connections."""

    rank: int
    rtt_s: float
    connections: int = 1
    retransmits: int = 0
    peers: Sequence[Peer] = ()
    rated_bytes_per_s: float | None = None


def linked(links: Sequence[Link], **fields: Any) -> StepTimings:
    """A message of a node, without rows, that tells of ``links``."""
    peers = [(at, peer) for at, link in enumerate(links) for peer in link.peers]
    nothing = columns.whole([])
    about = {"cluster": "default", "producer": "sidecar-0", "sequence": 0, "job": "job", "attempt": 0, "node": "node-0"}
    ranks = [link.rank for link in links]
    told = LinkColumns(
        rank=columns.whole(ranks),
        connections=columns.whole([link.connections for link in links]),
        rtt_s=_measured([link.rtt_s for link in links]),
        retransmits=columns.whole([link.retransmits for link in links]),
        rated_bytes_per_s=_measured([link.rated_bytes_per_s for link in links]),
        of=columns.whole([at for at, _ in peers]),
        local=columns.whole([columns.end_of_link(peer.local) for _, peer in peers]),
        remote=columns.whole([columns.end_of_link(peer.remote) for _, peer in peers]),
        peer_rtt_s=_measured([peer.rtt_s for _, peer in peers]),
    )
    rowless: dict[str, Any] = {
        **about,
        "t0_s": 0.0,
        "speakers": speakers(ranks),
        "rank": nothing,
        "step": nothing,
        "start_s": nothing,
        "step_s": nothing,
        "phases": {},
        "links": told,
    }
    return StepTimings(**{**rowless, **fields})


def _measured(values: Sequence[float | None]) -> Column:
    return columns.encoded("f8", [float("nan") if one is None else one for one in values])
