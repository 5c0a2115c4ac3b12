"""A job that never began: a port that is taken, ranks that never came to where they meet, or cannot reach each other.

Rule of this file: pure. None says which rank is at fault: the port's is whoever listens there, and who has not come
has no log.
"""

import re
from collections import Counter

from ..evidence import Failure
from .case import Case, grounds
from .verdict import Verdict, several

_MODELS = re.compile(r"Rank (\d{1,7}) has (\d{1,9}) params, while rank (\d{1,7}) has inconsistent (\d{1,9}) params")
_BARRIER = re.compile(r"world_size=(\d{1,7}), worker_count=(\d{1,7}), timeout=(.{1,40})")
_JOINED = re.compile(r"Timed out after (\d{1,9}) seconds waiting for clients\. (\d{1,7})/(\d{1,7}) clients joined")


def verdict(case: Case) -> Verdict | None:
    """By what the store says of its port and of its clients."""
    for said in case.failures:
        if said.name == "port_taken":
            return _taken(said)
        found = _JOINED.search(said.text) if said.name == "not_joined" else None
        if found and int(found[2]) < int(found[3]):
            return _away(said, int(found[1]), int(found[2]), int(found[3]))
    return _models(case) or _at_the_barrier(case)


def _models(case: Case) -> Verdict | None:
    """By what DDP counts of each rank's model, each rank beside one other: all together say which is the odd one."""
    said = [
        (one, found) for one in case.failures if one.name == "models_differ" and (found := _MODELS.search(one.text))
    ]
    if not said:
        return None
    counts = {int(found[at]): int(found[at + 1]) for _, found in said for at in (1, 3)}
    usual, ranks = Counter(counts.values()).most_common(1)[0]
    odd = {rank for rank, count in counts.items() if count != usual} if 2 * ranks > len(counts) else set()
    others = ", ".join(f"rank {rank} {count}" for rank, count in sorted(counts.items())[:8])
    elsewhere = " (one that has 0 may be elsewhere, in another collective)" if 0 in counts.values() else ""
    if odd:
        theirs = ", ".join(sorted({str(counts[rank]) for rank in odd}))
        cause = f"the model of {several(odd)} has {theirs} parameters where the others' have {usual}"
    else:
        cause = f"ranks have different models, by their numbers of parameters: {others}"
    return Verdict(
        kind="died",
        cause=f"{cause}; DDP refuses that{elsewhere}",
        ranks=tuple(sorted(odd)) if len(odd) <= 2 else (),
        victims=tuple(sorted(set(counts) - odd)),
        others_line=case.line_in(one for one, _ in said),
        sure="likely" if odd else "unsure",
        next="what decides on a rank how the model is built: its number, its files, its checkpoint",
        grounds=grounds(*(one for one, _ in said[:4])),
    )


def _at_the_barrier(case: Case) -> Verdict | None:
    """By the ranks that waited in ``init_process_group`` until it timed out: each has the number of those that came."""
    said = [
        (one, found) for one in case.failures if one.name == "store_barrier" and (found := _BARRIER.search(one.text))
    ]
    if not said:
        return None
    size, came = int(said[0][1][1]), max(int(found[2]) for _, found in said)
    waited, within = {one.rank for one, _ in said if one.rank is not None}, f"within {said[0][1][3]} (h:mm:ss)"
    missing = set(range(size)) - waited if 0 < size - came <= 2 and len(waited) == came else set()
    if came > size:
        cause = (
            f"{came} ranks came to init_process_group of a group of {size}: the ranks were given another world size, "
        )
        cause += "or those of another run use the same port or file"
    elif came < size:
        who = several(missing) if missing else f"{size - came} of {size} ranks"
        cause = f"{who} never came to init_process_group, {within}: not started, ended before, or still at work"
    else:
        cause = f"all {size} ranks came to init_process_group, but not {within}"
    return Verdict(
        kind="hang",
        cause=cause,
        ranks=tuple(sorted(missing)),
        victims=tuple(sorted(waited)),
        sure="likely" if missing or came > size else "unsure",
        next="the log of the ranks that have no such line; where they start late, init_process_group(timeout=...)",
        grounds=grounds(*(one for one, _ in said[:4])),
    )


def on_one_device(case: Case) -> Verdict | None:
    """By NCCL, which refuses a GPU that two ranks have chosen; what they raise then follows from that."""
    said = [one for one in case.failures if one.name == "same_device"]
    if not said:
        return None
    ranks, devices = {rank for one in said for rank in one.ranks}, sorted({one.text for one in said})
    which = f"{'one GPU' if len(devices) == 1 else 'GPUs'} ({', '.join(devices[:4])}, by PCI bus)"
    return Verdict(
        kind="died",
        cause=f"{several(ranks)} of a group have chosen {which} of their node together, which NCCL refuses",
        victims=tuple(sorted(case.failed | ranks)),
        sure="likely",
        next="torch.cuda.set_device(int(os.environ['LOCAL_RANK'])) before the first collective, as many GPUs as ranks "
        "on a node, and a CUDA_VISIBLE_DEVICES that hides none of them",
        grounds=grounds(*said[:4]),
    )


def never_met(case: Case) -> Verdict | None:
    """By who did not reach another, where nothing else says more: a rank that has died is met no more either."""
    for said in case.failures:
        if said.name == "no_meeting":
            return _no_meeting(said)
        if said.name == "late_nodes":
            return _late_nodes(said)
    return _unreachable(case)


def _unreachable(case: Case) -> Verdict | None:
    """By the addresses that NCCL could not connect to."""
    said = [one for one in case.failures if one.name == "unreachable"]
    if not said:
        return None
    one = said[0]
    address = one.peer.rpartition("<")[0]
    ranks = {other.rank for other in case.failures if other.rank is not None}
    who = one.node or (several(ranks) if ranks else "a rank")
    return Verdict(
        kind="network",
        cause=f"{who} could not connect to {address} ({one.text.strip()}){_kind_of(address)}",
        victims=tuple(sorted(ranks)),
        nodes=(),
        sure="unsure",
        next="NCCL_SOCKET_IFNAME: the interface whose address all nodes reach; try from there: ping, nc -vz; if it is "
        "the right one, the logs of the rank that listened there, which may have ended before",
        grounds=grounds(*said[:4]),
    )


def _kind_of(address: str) -> str:
    if re.match(r"172\.(1[7-9]|2\d|3[01])\.", address):
        return ": addresses like this are often those of Docker's bridge, which no other node reaches"
    if re.match(r"(?i)\[?(fe80:|169\.254\.)", address):
        return ": an address of one link alone, which no other network reaches"
    return ""


def _taken(said: Failure) -> Verdict:
    port = said.text if said.text.isdigit() else ""
    where = f"port {port}" if port else "the port"
    return Verdict(
        kind="died",
        cause=f"{where} where the ranks meet is taken: another run, or what is left of one, listens there",
        nodes=(said.node,) if said.node else (),
        sure="likely",
        next=(
            f"end what listens there (ss -ltnp{f' sport = :{port}' if port else ''}), or take another --master-port; "
            "torchrun --standalone takes a free one"
        ),
        grounds=grounds(said),
    )


def _no_meeting(said: Failure) -> Verdict:
    host, _, port = said.peer.partition(", ")
    return Verdict(
        kind="hang",
        cause=(
            f"{f'rank {said.rank}' if said.rank is not None else 'a rank'} could not connect to {host}:{port}, where "
            "the ranks meet: rank 0 was not started there, ended before, or is not to be reached from there"
        ),
        victims=() if said.rank is None else (said.rank,),
        sure="likely",
        next=f"whether rank 0 runs on {host} (ps, its log), and from the other node: nc -vz {host} {port}",
        grounds=grounds(said),
    )


def _late_nodes(said: Failure) -> Verdict:
    return Verdict(
        kind="hang",
        cause="torchrun's rendezvous timed out: too few nodes came to it",
        sure="likely",
        next="the node without a torchrun (ps), --nnodes, and the same --rdzv-id and --rdzv-endpoint on each of them",
        grounds=grounds(said),
    )


def _away(said: Failure, waited_s: int, came: int, every: int) -> Verdict:
    return Verdict(
        kind="hang",
        cause=(
            f"{every - came} of {every} ranks never came to where the ranks meet, within {waited_s} s: they were not "
            "started, ended before, or do not reach that address"
        ),
        sure="likely",
        next="look for the node without such a process (ps), and try MASTER_ADDR and MASTER_PORT from there: nc -vz",
        grounds=grounds(said),
    )
