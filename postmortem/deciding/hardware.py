"""Kernel and device lines with a process, a GPU or a card: they name a rank or a node, whatever else is written.

Rule of this file: pure. An Xid of the hardware's accuses the rank of that GPU; one that programs cause only adds to
what that rank says itself, and one of unknown time and rank counts after what ranks say. A link that went down
explains a broken connection only if the network is complained of.
"""

import msgspec

from ..evidence import Failure, Kernel
from ..places import innermost
from .case import Case, grounds
from .verdict import Verdict, several

#: Xid numbers that mean the hardware; 154 only says what is to be done about another.
_HARDWARE = frozenset({48, 63, 64, 74, 79, 92, 94, 95, 110, 119, 120, 121, 140, 143, 145, 149, 155, 156, 158})
#: Of those, of a link: both of its ends have them.
_LINKS = frozenset({74, 145, 149})
#: ... and that only record what a GPU goes on after.
_RECORDS = frozenset({63, 92})
#: How the kernel names a process that trains: its program, or what PyTorch calls its first thread.
_TRAINING = ("python", "pt_main_thread")


def verdict(case: Case) -> Verdict | None:
    """By the kernel's lines."""
    return _killed(case) or _device(case) or _hung(case) or _network(case)


def _killed(case: Case) -> Verdict | None:
    for said in case.kernel:
        if said.name != "oom":
            continue
        rank = case.rank_of_pid(said.pid, said.node)
        if rank is not None:
            return _out_of_memory(case, said, rank)
    return _killed_somewhere(case)


def _out_of_memory(case: Case, said: Kernel, rank: int) -> Verdict:
    limit = any(one.pid == said.pid and ("MEMCG" in one.text or "cgroup" in one.text) for one in case.kernel)
    of = " for the memory limit of its job" if limit else ""
    node = said.node or case.nodes.get(rank, "")
    ended = case.exit_of.get(rank)
    worker = ended is not None and ended.pid is not None and ended.pid != said.pid
    whose = f"a process of rank {rank}" if worker else f"rank {rank}"
    also = [one for one in case.failures if one.name == "oom_event"]
    return Verdict(
        kind="died",
        cause=f"out of host memory: the kernel killed pid {said.pid} ({whose}{f' on {node}' if node else ''}){of}",
        ranks=(rank,),
        victims=_others(case, rank),
        nodes=(node,) if node else (),
        line=case.line_of(rank),
        sure="certain",
        next="less memory on that rank (fewer loader workers, smaller buffers), or a higher limit (--mem)",
        grounds=grounds(said, *([ended] if ended else []), *also),
    )


def _killed_somewhere(case: Case) -> Verdict | None:
    """The scheduler counts a kill for memory and exactly one rank was killed by nobody else."""
    events = _memory_events(case)
    killed = [rank for rank, one in case.exit_of.items() if one.code == -9 and not case.ended_by_launcher(one)]
    if not events or len(killed) != 1:
        return None
    rank, node = killed[0], case.nodes.get(killed[0], "")
    return Verdict(
        kind="died",
        cause=f"out of host memory: a process of the job was killed for it, and {several(killed)} ended by SIGKILL",
        ranks=(rank,),
        victims=_others(case, rank),
        nodes=(node,) if node else (),
        line=case.line_of(rank),
        next="the kernel's log of that node (dmesg -T | grep -i oom) says which process it was",
        grounds=grounds(*events, case.exit_of[rank]),
    )


def _memory_events(case: Case) -> list[Failure | Kernel]:
    """What schedulers and kernels say of processes that were killed for memory."""
    events = [one for one in case.failures if one.name == "oom_event"]
    return [*events, *(one for one in case.kernel if one.name == "oom")]


def out_of_memory_somewhere(case: Case) -> Verdict | None:
    """A process was killed for memory, and nothing else says more: nobody is accused."""
    events = _memory_events(case)
    if not events:
        return None
    killed = sorted(rank for rank, one in case.exit_of.items() if one.code == -9)
    pids = sorted({one.pid for one in case.exits if one.code == -9 and one.rank is None and one.pid is not None})
    nodes = tuple(sorted({one.node for one in (*events, *(case.exit_of[rank] for rank in killed)) if one.node}))
    where = f" on {' and '.join(nodes[:3])}" if nodes else ""
    if killed:
        who = f"one of {several(set(killed))}"
    elif pids:
        who = f"pid {pids[0]}"
    else:
        who = "which of them, these files do not say"
    return Verdict(
        kind="died",
        cause=f"out of host memory: the kernel killed a process of the job{where}: {who}",
        victims=tuple(killed),
        nodes=nodes,
        sure="likely",
        next="the kernel's log of that node (dmesg -T | grep -i oom) says which process it was; "
        "then less memory there (fewer loader workers), or a higher limit (--mem)",
        grounds=grounds(*events),
    )


def _device(case: Case) -> Verdict | None:
    faults = _faults(case)
    known = any(said.age_s is not None or _rank_of(case, said) is not None for said in faults)
    return _of_faults(case, faults) if known else None


def _hung(case: Case) -> Verdict | None:
    """The runtime of AMD's GPUs says that one no longer answers; a fault of a program's own access hangs it, too."""
    ended = [one for one in case.failures if one.name == "gpu_hang"]
    if not ended or any(one.name == "cuda" for one in case.failures):
        return None
    at = {one.node or (case.nodes.get(one.rank, "") if one.rank is not None else "") for one in ended}
    resets = [said for said in _resets(case) if any(case.same_node(said.node, node) for node in at)]
    reasons = ", ".join(sorted({one.text.strip() for one in ended}))
    return _reset(case, f"the runtime reports a fault of {{}} ({reasons})", resets, ended)


def reset(case: Case) -> Verdict | None:
    """A GPU's driver has reset it and no process says why: it does so behind a program's own fault, too."""
    resets = [said for said in _resets(case) if _rank_of(case, said) is not None]
    return _reset(case, "the driver has reset {}", resets, []) if resets else None


def reset_somewhere(case: Case) -> Verdict | None:
    """... of which no file says that the job uses it, where nothing else says more."""
    resets = [said for said in _resets(case) if said.age_s is not None]
    return _reset(case, "the driver has reset {}", resets, []) if resets else None


def _resets(case: Case) -> list[Kernel]:
    """Those of GPUs; not of another program's work on one, such as a display's."""
    resets = (said for said in case.kernel if said.name == "gpu_reset")
    return [
        said
        for said in resets
        if not said.text or said.text.startswith(_TRAINING) or case.rank_of_pid(said.pid, said.node) is not None
    ]


def _reset(case: Case, words: str, resets: list[Kernel], ended: list[Failure]) -> Verdict:
    """By GPUs that hung: ``words`` has a place for which."""
    cards = {(said.node, said.pci): said for said in reversed(resets)}
    named = {f"GPU {pci}" for _, pci in cards} or {f"GPU {one.device}" for one in ended}
    rank = _rank_of(case, next(iter(cards.values()))) if len(cards) == 1 else None
    nodes = tuple(sorted({one.node for one in (*ended, *resets) if one.node}))
    where = f" of {' and '.join(nodes[:3])}" if nodes else ""
    what = f"{', '.join(sorted(named)[:4])}{where}" if len(named) <= 4 else f"{len(named)} GPUs{where}"
    asked = " and ".join(nodes[:3]) if nodes else "its node"
    return Verdict(
        kind="device_fault",
        cause=f"{words.format(what)}; a program that uses such a GPU is ended, or loses what it was calculating",
        ranks=(rank,) if rank is not None else (),
        victims=_others(case, rank),
        nodes=nodes,
        devices=tuple(sorted(named)[:16]),
        sure="likely",
        next=f"the kernel's log of {asked} (dmesg | grep -E 'amdgpu|xe|i915'): a page fault before the reset is "
        "the program's, a ring timeout alone the GPU's or its driver's",
        grounds=grounds(*resets[:2], *ended[:4]),
    )


def of_unknown_time(case: Case) -> Verdict | None:
    """By faults of which neither the time nor the rank is known: they may be of an earlier job."""
    made = _of_faults(case, _faults(case))
    return msgspec.structs.replace(made, sure="likely") if made is not None and made.sure == "certain" else made


def _faults(case: Case) -> list[Kernel]:
    """Those of devices, the weightiest alone."""
    faults = [said for said in case.kernel if said.name == "xid" and (said.number in _HARDWARE or said.number < 0)]
    for lesser in (_RECORDS, _LINKS):
        faults = [said for said in faults if said.number not in lesser] or faults
    return faults


def _of_faults(case: Case, faults: list[Kernel]) -> Verdict | None:
    devices = {(said.node, said.pci): said for said in reversed(faults)}
    if len(devices) > 1:
        return _device_faults(case, list(reversed(devices.values())))
    return _device_fault(case, faults[0], _rank_of(case, faults[0])) if faults else None


def _rank_of(case: Case, said: Kernel) -> int | None:
    rank = case.rank_of_pid(said.pid, said.node)
    return case.rank_of_device(said.pci, said.node) if rank is None else rank


def _device_faults(case: Case, said: list[Kernel]) -> Verdict:
    """Several GPUs at a time: what they share is as likely, and two are named, more are not."""
    ranks = {rank for one in said if (rank := _rank_of(case, one)) is not None}
    links = all(one.number in _LINKS for one in said)
    named = ranks if len(said) == 2 and not links else set()
    nodes = tuple(sorted({one.node for one in said if one.node}))
    numbers = sorted({f"Xid {one.number}" if one.number >= 0 else "a fall off the bus" for one in said})
    where = f" of {' and '.join(nodes[:3])}" if nodes else ""
    shared = "an NVLink, its switch or one of these GPUs" if links else "one of them, or what they share (power, PCIe)"
    return Verdict(
        kind="device_fault",
        cause=f"{', '.join(numbers)} on {len(said)} GPUs{where}: {shared}",
        ranks=tuple(sorted(named)),
        victims=tuple(sorted((ranks | case.failed) - named)),
        nodes=nodes,
        devices=tuple(f"GPU {one.pci}" for one in said[:16]),
        sure="likely" if len(nodes) == 1 else "unsure",
        next=f"take {nodes[0] if len(nodes) == 1 else 'their nodes'} out of service and check the GPUs (nvidia-smi, "
        "nvidia-smi nvlink -e, dcgmi diag -r 3)",
        grounds=grounds(*said[:4]),
    )


def _device_fault(case: Case, said: Kernel, rank: int | None) -> Verdict:
    node = said.node or (case.nodes.get(rank, "") if rank is not None else "")
    gpu = next((one.gpu for one in case.placed if one.rank == rank and one.gpu is not None), None)
    device = f"GPU {gpu} ({said.pci})" if gpu is not None else f"GPU {said.pci}"
    xid = f"Xid {said.number}" if said.number >= 0 else "a fall off the bus"
    whose = f"the GPU of rank {rank}" if rank is not None else f"{device}{f' of {node}' if node else ''}"
    own = next((one for one in case.failures if one.rank == rank and rank is not None and one.frames), None)
    noticed = "; the traceback names only where the host noticed it" if own else ""
    return Verdict(
        kind="device_fault",
        cause=f"{xid} on {whose}{noticed}",
        ranks=(rank,) if rank is not None else (),
        victims=_others(case, rank),
        nodes=(node,) if node else (),
        devices=(device,),
        line=case.line(innermost(own.frames)) if own else None,
        sure="certain",
        next=f"take {node or 'that node'} out of service and check the GPU (nvidia-smi, dcgmi diag -r 3)",
        grounds=grounds(said, *([own] if own else [])),
    )


def _network(case: Case) -> Verdict | None:
    ends = [one for one in case.failures if one.name in ("network", "network_event")]
    down = [one for one in case.kernel if one.name == "link_down"]
    ports = [one for one in case.failures if one.name == "port_error"]
    broken = [one for one in case.failures if one.role == "victim" and one.name in ("peer_gone", "network")]
    if not ends and not ports and not (down and (broken or case.timeouts)):
        return None
    if not ends and any(one.role == "own" and one.name != "oom_event" for one in case.failures):
        return None
    cards = _cards(down, ends)
    nodes = tuple(sorted({one.node for one in down if one.node})) or _node_of(ports)
    numbers = sorted({one.text for one in ends if one.name == "network" and one.text.isdigit()})
    status = f" (status {', '.join(numbers)})" if numbers else ""
    what = "exhausted retries" if numbers == ["12"] else "errors of the network"
    both = len({one.node for one in ends}) > 1
    said = ["connections broke"] if broken or case.timeouts else []
    if ends:
        said = [f"{_complaint(ends, both)} {what}{status}"]
    if ports and not down:
        said.append(_failed_ports(ports))
    elif nodes:
        said.append(f"only the kernel of {' and '.join(nodes)} says that its card ({', '.join(cards)}) lost the link")
    else:
        said.append("no kernel's log here says which card or switch failed")
    return Verdict(
        kind="network",
        cause="; ".join(said),
        victims=tuple(
            sorted({one.rank for one in (*broken, *case.timeouts) if one.rank is not None} | _ends(case, ends))
        ),
        nodes=nodes,
        devices=tuple(cards),
        sure="certain" if nodes and down else "likely",
        next=f"check the card, cable and switch port of {', '.join(nodes) or 'both nodes'} (ibstat, ip -s link)",
        grounds=grounds(*down, *ports[:3], *ends),
    )


def _node_of(ports: list[Failure]) -> tuple[str, ...]:
    """The one node whose own ports failed; of several, the fabric may have."""
    nodes = {one.node for one in ports if one.node}
    return tuple(nodes) if len(nodes) == 1 else ()


def _failed_ports(ports: list[Failure]) -> str:
    """What NCCL says of the ports of the nodes that it ran on."""
    nodes = sorted({one.node for one in ports if one.node})
    if len(nodes) > 1:
        return f"NCCL on {len(nodes)} nodes, first {nodes[0]}, reports that their ports failed: the fabric, or a switch"
    cards = " and ".join(sorted({one.device for one in ports if one.device})) or "adapter"
    return f"NCCL on {nodes[0] if nodes else 'a node'} reports a {ports[0].text} of its own {cards}"


def _complaint(ends: list[Failure], both: bool) -> str:
    """Who reports errors of a connection, and of which: by the names in these lines."""
    if both:
        return "both ends report"
    node = next((one.node for one in ends if one.node), "")
    peers = sorted({one.peer.rsplit("<", 1)[0] for one in ends if one.peer})
    to = f" to {peers[0]}" if len(peers) == 1 else f" to {len(peers)} peers, first {peers[0]}," if peers else ""
    return f"the connection{f' of {node}' if node else ''}{to} reports" if node or to else "a connection reports"


def _cards(down: list[Kernel], ends: list[Failure]) -> list[str]:
    """The cards that lost their link; the name that the other lines use, too, first and alone."""
    named = {one.device for one in ends if one.device}
    cards = list(dict.fromkeys(one.device for one in down if one.device))
    return [card for card in cards if card in named] or cards


def _ends(case: Case, ends: list[Failure]) -> set[int]:
    """The ranks of the two ends: NCCL prints the device, which counts from 0 among the ranks of the node."""
    made = set()
    for one in ends:
        ranks = case.ranks_on(one.node)
        if one.local_rank is not None and ranks:
            made.add(ranks[one.local_rank % len(ranks)])
    return made


def _others(case: Case, rank: int | None) -> tuple[int, ...]:
    """Ranks that said or suffered something, without the accused."""
    said = {one.rank for one in (*case.failures, *case.timeouts, *case.exits) if one.rank is not None}
    return tuple(sorted(said - {rank}))
