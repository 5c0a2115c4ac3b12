"""Reports that name ranks themselves: a monitored barrier, the desync report, fingerprints of collectives.

Rule of this file: pure. A fingerprint is one rank's comparison with one other: only all of them together say who is
the odd one.
"""

import re
from collections import Counter

from ..evidence import Failure, Progress, Timeout
from ..places import innermost
from .case import Case, grounds
from .standing import standing
from .verdict import Verdict, several

#: The options of the tensors have parentheses of their own.
_FINGERPRINT = re.compile(
    r"Rank (\d{1,7}) is running collective: CollectiveFingerPrint\((.{1,1600}?)\), but "
    r"Rank (\d{1,7}) is running collective: CollectiveFingerPrint\((.{1,1600}?)\)(?:\.|$)"
)
_CALL = re.compile(r"OpType=\w{1,60}(?:, TensorShape=\[[\d, ]{0,400}\])?(?:, TensorDtypes=\w{0,40})?")

#: In a key of the store: the other groups are below ``default_pg``, too, each under its own name.
_DEFAULT_GROUP = "/default_pg/0/"
#: What a rank did not come to, by the report that names it.
_WHAT = {
    "barrier_names": "monitoredBarrier",
    "desync": "the collective that timed out",
    "first_call": "the first collective of the group",
}


def verdict(case: Case) -> Verdict | None:
    """By the reports."""
    return (
        _fingerprints(case) or _late(case) or _all_joined(case) or _sizes(case) or _unlike_first(case) or _orders(case)
    )


def _late(case: Case) -> Verdict | None:
    said = [one for one in case.failures if one.name in _WHAT and one.ranks]
    if not said:
        return None
    kind = said[0].name
    said = [one for one in said if one.name == kind]
    group = None
    if kind == "desync":
        group = _other_group(case, said)
    elif kind == "first_call":
        # Ranks are counted within the group; only newer versions write its name in the key.
        of_default = [one for one in said if _DEFAULT_GROUP in one.text]
        said, group = (of_default, None) if of_default else (said, "")
    late = set.intersection(*(set(one.ranks) for one in said))
    if not late or group is not None:
        return _of_group(late, group, said) if group is not None else None
    others = case.ranks - late
    if len(late) > 2 and len(late) * 2 > len(case.ranks):
        return None
    found = standing(case, min(late))
    what = _WHAT[kind]
    if said[0].text.isdigit():
        what += f": collective {said[0].text} is the last that {'it' if len(late) == 1 else 'they'} finished"
    return Verdict(
        kind="hang",
        cause=f"{found.doing + '; ' if found.doing else ''}{several(late)} did not come to {what}",
        ranks=tuple(sorted(late)),
        victims=tuple(sorted(others)),
        line=found.line,
        worker_line=found.worker_line,
        others_line=case.line(innermost(said[0].frames)),
        sure="likely",
        next=None if found.line else f"the stack of rank {min(late)}: py-spy dump --nonblocking --pid PID",
        grounds=(*grounds(*said[:3]), *found.grounds),
    )


def _other_group(case: Case, said: list[Failure]) -> str | None:
    """The group that timed out at those who report it, unless it is the default one: the desync report counts the ranks
    of its group."""
    speakers = {one.rank for one in said}
    waits: list[Timeout | Progress] = [*case.timeouts, *case.progress]
    groups = {one.group for one in waits if one.rank in speakers or None in speakers}
    groups.discard("")
    return None if not groups or groups & {"0", "default_pg"} else min(groups)


def _of_group(members: set[int], group: str, said: list[Failure]) -> Verdict:
    of = f"group {group}" if group else "a group that is not named"
    whose = f"{several(members)} of {of}" if members else f"some ranks of {of}"
    return Verdict(
        kind="hang",
        cause=f"{whose} did not come to {_WHAT[said[0].name]}; the report counts ranks within that group",
        group=group or None,
        sure="unsure",
        next="flight recorder dumps (TORCH_FR_BUFFER_SIZE=2000) say which ranks of the job these are",
        grounds=grounds(*said[:3]),
    )


def _all_joined(case: Case) -> Verdict | None:
    """All ranks of the desync report are in the same collective."""
    said = [one for one in case.failures if one.name == "desync_joined" and one.ranks]
    joined = set.intersection(*(set(one.ranks) for one in said)) if said else set()
    if len(joined) < 2 or any(set(one.ranks) != joined for one in said) or not case.ranks <= joined:
        return None
    group = _other_group(case, said)
    number = f" {said[0].text}" if said[0].text.isdigit() else ""
    return Verdict(
        kind="hang",
        cause=(
            f"all {len(joined)} ranks{f' of group {group}' if group else ''} have joined collective{number} and none "
            "has ended it: the network, the library or a device; no rank is late"
        ),
        victims=() if group else tuple(sorted(joined)),
        group=group,
        seq=int(said[0].text) if number else None,
        sure="unsure",
        next="the kernels' logs (dmesg), NCCL_DEBUG=INFO, and two reports of `ncclras -v`, 30 s apart",
        grounds=grounds(*said[:4]),
    )


def sizes_of_nccl(case: Case) -> Verdict | None:
    """NCCL at a rank that receives another size than it expects, before what it raises then: its peer may differ."""
    said = [one for one in case.failures if one.name == "nccl_sizes"]
    if not said or any(one.role == "own" and "NCCL" not in one.text for one in case.failures):
        return None
    return Verdict(
        kind="collective_mismatch",
        cause=(
            f"ranks give different sizes to a collective, or have different settings of NCCL ({said[0].text}); these "
            "files do not say which rank differs"
        ),
        victims=tuple(sorted(case.failed)),
        others_line=case.line_in(case.failures),
        sure="unsure",
        next="the flight recorders of all ranks, or TORCH_DISTRIBUTED_DEBUG=DETAIL; NCCL_DEBUG=INFO prints the version "
        "and the settings of each",
        grounds=grounds(*said[:2]),
    )


def _unlike_first(case: Case) -> Verdict | None:
    """Ranks that compare with rank 0 and differ: where it is most of them, rank 0 is the odd one."""
    said = [one for one in case.failures if one.name == "unlike_first" and one.rank is not None]
    if not said:
        return None
    unlike = {one.rank for one in said if one.rank is not None}
    ranks = case.ranks | unlike | {0}
    odd = unlike if 2 * len(unlike) < len(ranks) else {0} if unlike == ranks - {0} and len(ranks) > 2 else set()
    named = odd if len(odd) <= 2 else set()
    return Verdict(
        kind="died",
        cause=f"{several(unlike)} differ{'s' if len(unlike) == 1 else ''} from rank 0: {said[0].text}",
        ranks=tuple(sorted(named)),
        victims=tuple(sorted(ranks - named)),
        others_line=case.line_in(said),
        sure="likely" if named else "unsure",
        next="what decides on a rank how the model or the batch is built: its number, its files, its checkpoint",
        grounds=grounds(*said[:4]),
    )


def _orders(case: Case) -> Verdict | None:
    """FSDP's comparison of two ranks' order of parameters, by one of them."""
    said = [one for one in case.failures if one.name == "order_differs"]
    if not said:
        return None
    return Verdict(
        kind="collective_mismatch",
        cause=f"ranks come to their parameters in different order (FSDP: {said[0].text[:200]})",
        victims=tuple(sorted(case.failed)),
        others_line=case.line_in(said),
        sure="unsure",
        next="what makes the forward pass differ by rank: branches on the rank, on data, or on random numbers",
        grounds=grounds(*said[:4]),
    )


def _sizes(case: Case) -> Verdict | None:
    """Gloo aborts a rank that receives another size than it expects: a victim, like those who name it."""
    said = [one for one in case.failures if one.name == "mismatch_size"]
    if not said:
        return None
    return Verdict(
        kind="collective_mismatch",
        cause=(
            f"ranks give different sizes to a collective (gloo: {said[0].text} bytes); the rank that aborted is a "
            "victim, and these files do not say which rank differs"
        ),
        victims=tuple(sorted(case.failed)),
        others_line=case.line_in(one for one in case.failures if one.role == "victim"),
        sure="unsure",
        next="the flight recorders of all ranks, or TORCH_DISTRIBUTED_DEBUG=DETAIL",
        grounds=grounds(*said[:2]),
    )


def _fingerprints(case: Case) -> Verdict | None:
    said = [one for one in case.failures if one.name == "fingerprint"]
    calls: dict[int, str] = {}
    for one in said:
        if found := _FINGERPRINT.search(one.text):
            calls.setdefault(int(found[1]), found[2])
            calls.setdefault(int(found[3]), found[4])
    if not said or len(set(calls.values())) < 2:
        return None
    usual, count = Counter(calls.values()).most_common(1)[0]
    odd = (
        {rank for rank, call in calls.items() if call != usual} if count * 2 > len(calls) and len(calls) > 2 else set()
    )
    place = _line(case, said, odd)
    number = re.search(r"SequenceNumber=(\d{1,18})", usual)
    return Verdict(
        kind="collective_mismatch",
        cause=f"{several(odd)} called {_call(calls[min(odd)])} where the others called {_call(usual)}"
        if odd
        else "ranks called different collectives: "
        + "; ".join(f"rank {rank} {_call(call)}" for rank, call in sorted(calls.items())[:4]),
        ranks=tuple(sorted(odd)),
        victims=tuple(sorted(set(calls) - odd)),
        seq=int(number[1]) if number else None,
        line=place,
        others_line=_line(case, said, set(calls) - odd) if odd else None,
        sure="certain" if odd else "unsure",
        next="look at what leads that rank to this line" if odd else "compare the lines of both",
        grounds=grounds(*said[:4]),
    )


def _call(text: str) -> str:
    """What a fingerprint says of the call; all of it where that is not what differs."""
    found = _CALL.search(text)
    return found[0].replace("OpType=", "") if found else text[:200]


def _line(case: Case, said: list[Failure], ranks: set[int]) -> str | None:
    return next((case.line(innermost(one.frames)) for one in said if one.rank in ranks and one.frames), None)
