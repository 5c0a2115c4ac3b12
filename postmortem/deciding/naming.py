"""Who names whom: a rank that lost a connection says with whom. The end of the chain went first.

Rule of this file: pure. Gloo prints an address with the port's bytes swapped; NCCL a host with a port, or a local
rank; a monitored barrier and the desync report print ranks.
"""

from ..evidence import Failure
from .case import Case


def named_by(case: Case) -> dict[int, set[int]]:
    """For each rank that lost a peer, the peers that it names and that are known."""
    made: dict[int, set[int]] = {}
    for one in case.failures:
        peer = _peer(case, one)
        if one.rank is not None and one.role == "victim" and peer is not None and peer != one.rank:
            made.setdefault(one.rank, set()).add(peer)
    return made


def _peer(case: Case, one: Failure) -> int | None:
    if one.peer.endswith(">"):
        ranks = case.ranks_on(one.peer.partition("<")[0])
        return ranks[0] if len(ranks) == 1 else None
    if one.peer:
        return case.rank_of_address(one.peer)
    if one.local_rank is not None and one.rank is not None and one.name == "peer_gone":
        node = case.nodes.get(one.rank, "")
        on = [said.rank for said in case.placed if said.local_rank == one.local_rank and node and said.node == node]
        return on[0] if len(set(on)) == 1 else None
    return None


def first_to_go(case: Case) -> int | None:
    """The one rank at the end of all chains; None where there are several, or a circle."""
    names = named_by(case)
    ends = {peer for peers in names.values() for peer in peers} - set(names)
    return ends.pop() if len(ends) == 1 else None


def sentences(case: Case) -> tuple[str, ...]:
    """The chain in words."""
    by_peer: dict[int, set[int]] = {}
    for rank, peers in named_by(case).items():
        for peer in peers:
            by_peer.setdefault(peer, set()).add(rank)
    return tuple(
        f"{'ranks' if len(ranks) > 1 else 'rank'} {', '.join(map(str, sorted(ranks)))} lost rank {peer}"
        for peer, ranks in sorted(by_peer.items())
    )
