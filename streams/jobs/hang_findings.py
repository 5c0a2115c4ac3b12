"""A job that has stopped, in the words of a finding: who waits, for whom, where these are, and what to do next.

Rule of this file: pure words; what is known of it comes from ``hang_evidence``.
"""

from collections.abc import Mapping, Sequence

from paceline.accused_units import MISSING
from paceline.words import seconds

from ..episodes.finding import Blocked, Said, Subject, number
from .first_death import Blockage
from .hang_evidence import MOVES_S, HangEpisode, HangEvidence, Seen, Stop, call_words

#: Ranks that a sentence names; of more, how many they are.
_SHOWN = 8
#: What a rank does now, and what it did when it was last seen, in words.
_DOING = {
    "moving": ("it is working", "it was working"),
    "evaluating": ("it is running a model", "it was running a model"),
    "compiling": ("it is compiling", "it was compiling"),
    "loading": ("its data loader is working", "its data loader was working"),
    "computing": ("it is computing", "it was computing"),
    "waiting": ("it is waiting there", "it was waiting there"),
    "waiting_for_loader": ("it is waiting for its data loader", "it was waiting for its data loader"),
    "in_kernel": ("it is blocked in the kernel", "it was blocked in the kernel"),
    "not_answering": (
        "its Python does not run: native code holds the interpreter's lock",
        "its Python did not run: native code held the interpreter's lock",
    ),
    "stopped": (
        "its process is stopped (SIGSTOP or a debugger)",
        "its process was stopped (SIGSTOP or a debugger)",
    ),
    "gone": ("its process is gone", "its process was gone"),
}
_UNSEEN = ("", "")
#: What `py-spy dump` needs beside the process: a loader's workers are others; pausing one that is in the kernel hangs;
#: what native code does is not in Python's frames.
_DUMP = {"waiting_for_loader": "--subprocesses ", "in_kernel": "--nonblocking ", "not_answering": "--native "}


def said(episode: HangEpisode, nodes: Mapping[int, str], *, ended: bool = False) -> Said:
    """What is said of a job that has stopped. ``nodes``: where each rank runs. ``ended``: its processes are gone."""
    seen, stop = episode.measured, episode.measured.stop
    collective = call_words(stop.operation, stop.seq, stop.group)
    longest = "longest so far; beside it the longest that is usual"
    evidence = [
        number("waited", seen.waited_s, "s", seen.usual_s, longest),
        number("waiting", stop.waits, "ranks", None, f"blocked in {stop.where()}"),
    ]
    if stop.missing:
        evidence.append(number("missing_reached", stop.last_seq, "number", stop.seq, "last collective of the missing"))
    accused = stop.accused()
    if not stop.calls and stop.misses > len(stop.missing):
        rule = f"have not called it; the finding names {len(stop.missing)} of them"
        evidence.append(number(MISSING, stop.misses, "ranks", None, rule))
    blocked = _blocked(stop, nodes, ended=ended or episode.state == "recovered")
    waiting = f"{_ranks(stop.waiting, stop.waits)} blocked in {collective} for {_long(seen.waited_s)}"
    reason = _reason(stop)
    works = stop.moves() and seen.waited_s < MOVES_S
    advice = "That is no hang while it goes on." if works else _advice(stop, blocked)
    summary = f"{waiting}; {reason}. {'The job has ended. ' if ended else ''}{advice}"
    # Who still waited when it went on is chance: the last to come back.
    now = "no rank waits there any longer, and none is known to have got through" if stop.unended else "now it goes on"
    over = f"The job was blocked in {collective} for {_long(seen.waited_s)}{_awaited(stop, blocked)}; {now}."
    on = tuple(sorted({nodes[rank] for rank in accused if rank in nodes}))
    subject = Subject("hang", seen.name, ranks=tuple(accused), group=stop.group, nodes=on)
    return Said(subject, evidence, summary, over=over, blocked=blocked)


def behind_deaths(seen: HangEvidence, nodes: Mapping[int, str]) -> Blockage:
    """What is said of ``seen`` where its ranks have ended since."""
    stop = seen.stop
    blocked = _blocked(stop, nodes, ended=True)
    words = f"the job had hung in {call_words(stop.operation, stop.seq, stop.group)}: {_reason(stop)}"
    next_ = f"look at {blocked.line}" if blocked.line else _COMPARE
    return Blockage(words, blocked.line, next_, tuple(stop.accused()))


def _long(waited_s: float) -> str:
    return f"{waited_s:.0f} s" if waited_s < 119.5 else seconds(waited_s)


def _awaited(stop: Stop, blocked: Blocked) -> str:
    """For whom the job waited, and where these were and what they did there, as far as it was seen."""
    if not stop.missing:
        return ""
    at = f" at {blocked.line}" if blocked.line else ""
    seen = _seen_best(stop)
    did = _did(seen) if seen is not None else ""
    if seen is not None and did:
        did = f": {did}" if stop.misses == 1 else f" (rank {seen.rank}: {did})"
    return f", waiting for {plain_ranks(stop.missing, stop.misses)}{at}{did}"


def _reason(stop: Stop) -> str:
    """Why nobody gets further, as far as it is seen."""
    if stop.calls:
        calls = [f"{plain_ranks(ranks, len(ranks))} called {call}" for call, ranks in stop.calls[:_SHOWN]]
        return f"calls differ: {', '.join(calls)}{_place(stop)}"
    if stop.missing:
        place = _place(stop)
        verb = "has" if stop.misses == 1 else "have"
        return f"{plain_ranks(stop.missing, stop.misses)} {verb} not called it{place}"
    if stop.across:
        verb = "waits" if stop.across_waits == 1 else "wait"
        others = plain_ranks(stop.across, stop.across_waits)
        return f"{others} {verb} in {stop.across_in} for these: two groups are used in different order"
    if stop.unknown:
        members = "1 member of the group has" if stop.unknown == 1 else f"{stop.unknown} members of the group have"
        works = next((place for place in stop.perhaps if place.moved), None)
        may = f"; rank {works.rank} may be one: {_what(works)}" if works else ""
        return f"{members} never reported{may}"
    if stop.left:
        verb = "waits" if stop.leaves == 1 else "wait"
        return f"{plain_ranks(stop.left, stop.leaves)} called it and no longer {verb} in it"
    return "every member of the group waits in it or in another collective"


def _place(stop: Stop) -> str:
    """The line of the first of the missing whose line is known, and what it does there."""
    if not stop.places:
        return ": no looks arrive from there, so what is done there is not known" if stop.unlooked else ""
    seen = _seen_best(stop)
    words = _what(seen) if seen is not None else ""
    return f": {words}" if words else ""


def _seen_best(stop: Stop) -> Seen | None:
    """The first of the missing whose line is known, else the first that was looked at."""
    return next((one for one in stop.places if one.line), next(iter(stop.places), None))


def _did(place: Seen) -> str:
    """What a rank did when it was last seen.

    >>> _did(Seen(2, "stopped", False, "train.py:12", 4711))
    'its process was stopped (SIGSTOP or a debugger)'
    """
    return _DOING.get(place.doing, _UNSEEN)[1]


def _what(place: Seen) -> str:
    """Where a rank is, and what it does there."""
    words = [place.line, _DOING.get(place.doing, _UNSEEN)[0]]
    if place.worker_line:
        words.append(f"whose worker is at {place.worker_line}")
    elif place.worker_unseen:
        words.append(f"whose worker's line is not known: {place.worker_unseen}")
    return ", ".join(filter(None, words))


_COMPARE = "compare the order, operations and sizes of the calls on these ranks; check the network"


def _advice(stop: Stop, blocked: Blocked) -> str:
    if blocked.next:
        return f"Next: {blocked.next}."
    if stop.unknown and not (stop.calls or stop.across):
        return "Check that they have started."
    return f"Next: {_COMPARE}."


def _blocked(stop: Stop, nodes: Mapping[int, str], *, ended: bool) -> Blocked:
    place = _seen_best(stop)
    next_ = ""
    if stop.missing and not stop.calls:
        rank = place.rank if place is not None else stop.missing[0]
        on = f"on {f'node {nodes[rank]}' if rank in nodes else 'its node'}"
        next_ = _command_next_time(rank, place, on) if ended else f"{_command(rank, place)} {on}"
    accused = set(stop.accused())
    return Blocked(
        line=place.line if place is not None else "",
        others_line=stop.others_line,
        victims=tuple(rank for rank in sorted((*stop.waiting, *stop.across)) if rank not in accused),
        seq=stop.seq,
        operation=stop.operation,
        next=next_,
        worker_line=place.worker_line if place is not None else "",
    )


def _command(rank: int, place: Seen | None) -> str:
    if place is None or not place.pid:
        return f"py-spy dump of rank {rank}"
    if place.doing == "stopped":
        return f"kill -CONT {place.pid}"
    return f"py-spy dump {_DUMP.get(place.doing, '')}--pid {place.pid}"


def _command_next_time(rank: int, place: Seen | None, on: str) -> str:
    """What to do where the processes of this run are gone."""
    if place is not None and place.doing == "stopped":
        return f"find out what stopped the process of rank {rank} {on}"
    options = "" if place is None else _DUMP.get(place.doing, "")
    return f"if it hangs again, py-spy dump {options}of rank {rank} {on} before you end it"


def _ranks(ranks: list[int], count: int) -> str:
    """The subject of a sentence and its verb.

    >>> _ranks([0, 1, 3], 3), _ranks([2], 1)
    ('Ranks 0, 1 and 3 have been', 'Rank 2 has been')
    """
    plain = plain_ranks(ranks, count)
    return f"{plain[0].upper()}{plain[1:]} {'has' if count == 1 else 'have'} been"


def plain_ranks(ranks: Sequence[int], count: int) -> str:
    """``count`` ranks in words, of which ``ranks`` are the first.

    >>> plain_ranks([2], 1), plain_ranks([0, 1], 2), plain_ranks(list(range(20)), 20)
    ('rank 2', 'ranks 0 and 1', 'ranks 0, 1, 2, 3, 4, 5, 6, 7 and 12 more')
    """
    shown = [str(rank) for rank in ranks[:_SHOWN]]
    more = f"{count - len(shown)} more" if count > len(shown) else shown.pop() if len(shown) > 1 else ""
    return f"rank{'' if count == 1 else 's'} {', '.join(shown)}" + (f" and {more}" if more else "")
