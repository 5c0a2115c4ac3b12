"""A rank's own exception: one that is neither a wait nor the loss of a peer.

Rule of this file: pure. The same text at most ranks is the program's and nobody's: the launcher ends the others before
they come to it. The same at some is theirs. Where
ranks differ, the one that others name comes first; else both are named, and nothing is certain.
"""

import re
from collections import defaultdict

import msgspec

from ..evidence import Failure
from ..places import innermost, waits_in_collective
from .case import Case, grounds
from .naming import first_to_go
from .verdict import Kind, Sure, Verdict, several

_WORDS = {
    "memory_device": "out of device memory",
    "memory_host": "out of host memory",
    "memory_shared": "shared memory is full (/dev/shm): a loader's worker got a bus error",
    "disk": "the disk is full",
    "cuda": "the device reported an error",
    "set_up": "its GPU, or what connects it to others, could not be used",
    "worker": "a worker of its data loader died",
    "stuck": "its watchdog thread was stuck: the GIL, CUDA or storage",
    "asleep": "a worker is in uninterruptible sleep",
    "crash": "the interpreter crashed",
    "nan": "its numbers are not finite",
    "miscalculated": "its GPU gave another result for the same calculation, as Megatron's own check says",
}
_NEXT = {
    "memory_device": "a smaller batch on that rank, or look for what else uses its device (nvidia-smi)",
    "memory_host": "fewer loader workers or smaller buffers on that rank's node",
    "memory_shared": "a larger /dev/shm (--shm-size, an emptyDir of medium Memory), or fewer loader workers",
    "disk": "free room on that file system (df -h), and start again from the last checkpoint",
    "worker": "that worker's own words: the kernel's log of the node (dmesg), or num_workers=0 to see its exception",
    "cuda": "the kernel's log of its node (dmesg | grep -E 'Xid|amdgpu|xe |i915'), or CUDA_LAUNCH_BLOCKING=1 to see "
    "its line",
    "set_up": "nvidia-smi on that node: does it list the GPU, is its fabric's state Completed (nvidia-smi -q), "
    "which pairs have peer access (nvidia-smi topo -p2p r); then fork: CUDA must not be used before it",
    "nan": "that iteration on that rank again, on another GPU: the same result there means the program or its data",
    "miscalculated": "take that GPU out of use and test it (dcgmi diag -r 3)",
    "stuck": "the stack of that rank with native frames: py-spy dump --native --pid PID",
}

#: PyTorch's own words on who else uses the device.
_ANOTHERS = re.compile(r"\bProcess (\d{1,10}) has ([\d.]{1,20} \w{1,5}) memory in use")
_ABORT = -6
#: What faulthandler calls the signals; any other fatal error ends by an abort.
_CRASHES = {
    "Segmentation fault": -11,
    "Bus error": -7,
    "Floating-point exception": -8,
    "Floating point exception": -8,
    "Illegal instruction": -4,
}


def verdict(case: Case) -> Verdict | None:
    """By own exceptions."""
    own: dict[int, Failure] = {}
    for one in case.failures:
        if one.role == "own" and one.rank is not None and one.name not in ("oom_event", "stuck"):
            own[one.rank] = _telling(own.get(one.rank), one)
    if not own:
        return _unowned(case)
    by_text: dict[str, list[int]] = defaultdict(list)
    for rank, one in own.items():
        by_text[_normal(one)].append(rank)
    if len(by_text) == 1 and len(own) > 1 and 2 * len(own) > len(case.ranks):
        return _everybody(case, own)
    if len(by_text) > 1:
        named = first_to_go(case)
        if named is not None and named in own:
            return _died(case, own, {named}, "likely")
        device = {rank for rank, one in own.items() if one.name not in ("exception", "set_up")}
        if device and len(device) < len(own) and len({_normal(own[rank]) for rank in device}) == 1:
            return _died(case, own, device, "likely")
        return _odd_one(case, own, by_text) or _died(case, own, set(own), "unsure")
    # What a call refuses says less than what a device has reported.
    made = _died(case, own, set(own), "likely" if any(one.name == "set_up" for one in own.values()) else "certain")
    return _of_a_collective(made) if all(map(_in_a_collective, own.values())) else made


def _in_a_collective(one: Failure) -> bool:
    """Whether a collective raised it, in words that no row of the table has: of a library that is not known."""
    raised = one.type.rpartition(".")[2] in ("RuntimeError", "DistBackendError")
    return one.name == "exception" and raised and waits_in_collective(one.frames) != ""


def _of_a_collective(made: Verdict) -> Verdict:
    cause = f"{made.cause}; a collective raised it, which may only have noticed the end of another rank"
    return msgspec.structs.replace(
        made, cause=cause, sure="unsure", next="the logs of the other ranks: who ended first"
    )


def stuck(case: Case) -> Verdict | None:
    """A watchdog thread that was stuck itself: weaker than any exception, for a hang can cause it."""
    own = {one.rank: one for one in case.failures if one.name == "stuck" and one.rank is not None}
    if len(own) != 1:
        return None
    made = msgspec.structs.replace(_died(case, own, set(own), "likely"), kind="hang")
    if case.ranks - set(own):
        return made
    cause = f"{made.cause}; these files have lines of no other rank, where it may be the same"
    return msgspec.structs.replace(made, ranks=(), victims=tuple(own), cause=cause, sure="unsure", line=None)


def _telling(old: Failure | None, new: Failure) -> Failure:
    """Of two failures of a rank the first, unless the other says more or has a line."""
    if old is None or _says(new) > _says(old):
        return new
    return new if old.name == new.name and not old.frames and new.frames else old


def _says(one: Failure) -> int:
    """How much: numbers that are not finite have another reason yet."""
    return {"exception": 0, "nan": 1}.get(one.name, 2)


def _normal(one: Failure) -> str:
    """What two ranks' failures have in common if they are the same: not their numbers."""
    if one.name != "exception":
        return one.name
    return re.sub(r"0x[0-9a-fA-F]+|\d+", "#", f"{one.type}: {one.text}")[:300]


def _place(case: Case, one: Failure) -> str | None:
    return case.line(innermost(one.frames))


def _what(one: Failure) -> str:
    said = f"{one.type}: {one.text}".strip(": ") if one.type else one.text
    known = _WORDS.get(one.name)
    short = said[:200]
    if one.name == "memory_device" and (found := _ANOTHERS.search(one.source.quote)):
        short += f"; process {found[1]} has {found[2]} of that device"
    if known is None:
        return short
    return f"{known} ({short})" if short else known


def _everybody(case: Case, own: dict[int, Failure]) -> Verdict:
    one = own[min(own)]
    every = set(own) >= case.ranks
    whose = "nodes' or the program's" if one.name == "set_up" else "program's"
    who = "all ranks" if every else f"{len(own)} of {len(case.ranks)} ranks"
    return Verdict(
        kind="died",
        cause=f"{who} raise the same: {_what(one)}; it is the {whose}, and no rank's",
        victims=tuple(sorted(own)),
        line=_place(case, one),
        sure="certain" if every else "likely",
        next=_NEXT["set_up"] if one.name == "set_up" else "look at that line",
        grounds=grounds(*list(own.values())[:4]),
    )


def _odd_one(case: Case, own: dict[int, Failure], by_text: dict[str, list[int]]) -> Verdict | None:
    """The one rank that raises something else than most, which raise the same: theirs may follow from it."""
    usual = max(by_text.values(), key=len)
    odd = set(own) - set(usual)
    if len(odd) != 1 or len(usual) < 3:
        return None
    rank, other = min(odd), own[min(usual)]
    made = _died(case, own, odd, "unsure")
    cause = f"rank {rank}: {_what(own[rank])}; {several(usual)} raise another exception, all the same: {_what(other)}"
    return msgspec.structs.replace(made, cause=cause)


def _died(case: Case, own: dict[int, Failure], ranks: set[int], sure: Sure) -> Verdict:
    one = own[min(ranks)]
    place = _place(case, one)
    others = {said.rank for said in (*case.failures, *case.timeouts, *case.exits) if said.rank is not None} - ranks
    kind: Kind = (
        "device_fault"
        if one.name == "miscalculated"
        or (one.name == "cuda" and any(word in one.text for word in ("ECC", "NVLink", "hardware")))
        else "died"
    )
    cause = f"{several(ranks)}: {_what(one)}{f' at {place}' if place else ''}"
    if sure == "unsure":
        cause = (
            "; ".join(f"rank {rank}: {_what(own[rank])}" for rank in sorted(ranks)[:4]) + "; either may be the first"
        )
    elif one.name == "cuda" and place:
        cause += "; the line is only where the host noticed it"
    waiting = next((innermost(said.frames) for said in case.failures if said.rank in others and said.frames), None)
    return Verdict(
        kind=kind,
        cause=cause,
        ranks=tuple(sorted(ranks)),
        victims=tuple(sorted(others)),
        line=place,
        others_line=case.line(waiting),
        sure=sure,
        next=_NEXT.get(one.name, "look at that line" if place else "the whole log of that rank")
        if sure != "unsure"
        else "which came first: the last step or collective that each of these ranks has logged",
        grounds=grounds(*(own[rank] for rank in sorted(ranks)[:4])),
    )


def _unowned(case: Case) -> Verdict | None:
    """An exception whose rank no file says: told, and nobody accused."""
    own = [
        one
        for one in case.failures
        if one.role == "own" and one.rank is None and one.name not in ("oom_event", "stuck")
    ]
    if not own:
        return None
    own = _once(own)
    one = own[0]
    place = _place(case, one)
    if (rank := _only_exit(case, own)) is not None:
        made = _died(case, {rank: one}, {rank}, "likely")
        return msgspec.structs.replace(made, cause=f"{made.cause}; the launcher saw no other rank exit by itself")
    whose = "the log does not say whose it is"
    if one.of_local is not None:
        node = f" of {one.node}" if one.node else " of its node"
        whose = f"it is of local rank {one.of_local}{node}, and no file says which rank that is"
    elif one.of_pid is not None:
        node = f" on {one.node}" if one.node else ""
        whose = f"it is of pid {one.of_pid}{node}, and no file says which rank that is"
    elif one.node:
        whose = f"it is of {one.node}, and no file says which rank that is"
    return Verdict(
        kind="died",
        cause=f"{_what(one)}{f' at {place}' if place else ''}; {whose}",
        victims=tuple(sorted({said.rank for said in case.failures if said.rank is not None and said.role != "own"})),
        line=place,
        sure="unsure",
        next="logs with the rank in each line: torchrun --tee 3, srun --label, or PyTorch 2.2 and newer",
        grounds=grounds(one),
    )


def _once(own: list[Failure]) -> list[Failure]:
    """Without the titles of crashes whose stack is there, too."""
    stacks = {_speaker(one) for one in own if one.name == "crash" and one.frames}
    return [one for one in own if one.name != "crash" or one.frames or _speaker(one) not in stacks]


def _speaker(one: Failure) -> tuple[str, str, int | None, int | None]:
    return one.source.file, one.text, one.of_local, one.of_pid


def _only_exit(case: Case, own: list[Failure]) -> int | None:
    """The one rank that exited by itself, if the log's one exception must be its own.

    Among several exceptions, those of victims included, any may be that rank's.
    """
    raised = [one for one in case.failures if one.rank is None and one.role != "teardown" and (one.frames or one.type)]
    codes = {rank: one.code for rank, one in case.exit_of.items()}
    signal = _signal(own[0]) if len(own) == 1 else None
    if own[0].name == "crash":
        exited = {rank for rank, code in codes.items() if code == signal}
    else:
        exited = {rank for rank, code in codes.items() if code > 0 or code == signal}
    unknown = len(own) == 1 and len(raised) <= 1 and own[0].of_local is None and own[0].of_pid is None
    return exited.pop() if unknown and len(exited) == 1 else None


def _signal(own: Failure) -> int | None:
    """The signal that ends a process after this failure; None where an exit code does."""
    if own.name == "crash":
        return _CRASHES.get(own.text.partition(":")[0].strip(), _ABORT)
    # What the device or the runtime reports ends a process by abort, where no Python catches it.
    return _ABORT if own.name in ("cuda", "memory_device") else None
