"""Which rank of a job ended first and why, from how each one's process ended.

Rule of this file: pure, and the rules in their order. What another rank's end causes (a lost peer, a timeout, the
launcher's own signals) accuses nobody. Where the job was ended from outside, or all ranks fail alike, no rank is named;
where two remain, both are, as unsure. Times compare only within a node.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from paceline.events import RankEnd

Sure = Literal["certain", "likely", "unsure"]
#: Two ends of one node that are further apart than this are in this order: the launcher looks every 0.1 s, and a rank
#: takes some time to end.
APART_S = 1.0
#: A rank is seen to be gone at most so long after its peers have lost it.
NOTICED_S = 0.2
#: Ranks that all end from the same signal within this long were ended by somebody else.
TOGETHER_S = 2.0
#: Signals that launchers, schedulers and people end a job with: SIGHUP, SIGINT, SIGTERM.
_OUTSIDE = (-1, -2, -15, 129, 130, 143)
_SIGNALS = {
    -4: "crashed (SIGILL)",
    -5: "crashed (SIGTRAP)",
    -6: "aborted (SIGABRT)",
    -7: "crashed (SIGBUS): often a full /dev/shm",
    -8: "crashed (SIGFPE)",
    -9: "killed (SIGKILL)",
    -11: "crashed (SIGSEGV)",
}
_ABORT, _KILL = -6, -9
_KILLED = (_KILL, 137)
#: What a rank raises because another has gone, or has not come.
_LOST_PEER = re.compile(
    r"Connection closed by peer|Connection reset by peer|Read error \[|Write error \[|Socket closed|"
    r"remote process exited or there was a network error|NCCL communicator was aborted|"
    r"Timed out waiting \d+ms for|failed to pass monitoredBarrier|reached monitoredBarrier|"
    r"[Ww]atchdog caught collective operation timeout|collective operation timed? ?out|"
    r"wait timeout after|recvValue failed|sendBytes failed|Failed to recv|Broken pipe|"
    r"Received data size doesn't match",
)
_PEER_ERRORS = ("DistBackendError", "DistNetworkError", "DistStoreError", "RuntimeError", "DistError")
_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\d+")
_MEMORY_HOST = re.compile(r"can't allocate memory|Cannot allocate memory|not enough memory")
#: A process that SIGINT ended, as Python and as shells count it.
_SIGINT = (-2, 130)
#: Exceptions by which a program is interrupted from outside.
_INTERRUPTS = ("KeyboardInterrupt", "SignalException")


class End(RankEnd, frozen=True, kw_only=True):
    """How one rank ended, on ``node``."""

    node: str

    def of_main(self) -> bool:
        """Whether an exception is known to have ended it: not one of another thread, or that may have been handled."""
        return bool(self.error) and self.how == "exception"

    def by_keyboard(self) -> bool:
        """Whether Ctrl-C ended it."""
        return self.error.rpartition(".")[2] in _INTERRUPTS

    def timed_out(self) -> bool:
        """Whether Slurm ended it at the job's time limit: by SIGTERM, and by SIGKILL what does not end from that."""
        return self.out_of_time and not self.error and self.status in (*_OUTSIDE, *_KILLED)

    def interrupted(self) -> bool:
        """Whether it was ended from outside, or by its launcher."""
        return self.by_keyboard() or self.timed_out() or (not self.of_main() and self.status in _OUTSIDE)

    def lost_peer(self) -> bool:
        """Whether its exception only follows from the end of another rank."""
        return _of_a_peer(self.error, self.message) or _of_a_peer(*self.first.partition(": ")[::2])

    def raised(self) -> bool:
        """Whether it ended by an exception of its own: one that nothing else explains."""
        counts = self.of_main() or (self.status or 0) > 0
        return bool(self.error) and counts and not (self.interrupted() or self.lost_peer())

    def signalled(self) -> bool:
        """Whether a signal ended it that no launcher begins with."""
        return not (self.of_main() or self.timed_out()) and self.status in _SIGNALS

    def aborted(self) -> bool:
        """Whether all that is known is that it ended by SIGABRT."""
        return self.status in (_ABORT, 134) and not self.of_main()

    def vanished(self) -> bool:
        """Whether all that is known is that it has gone."""
        return not self.of_main() and self.how == "lost" and self.status is None

    def left(self) -> bool:
        """Whether it ended in good order."""
        return self.how == "exit" and self.status in (0, None) and not self.of_main()

    def exited(self) -> bool:
        """Whether the program itself ended it, with a status of a failure, and said no more."""
        status = self.status
        return not (self.error or self.timed_out()) and status is not None and status > 0 and status not in _OUTSIDE


class Blockage(NamedTuple):
    """What a job hung in, and why, in words; at which line, what to do, and the ranks that the others waited for."""

    words: str
    line: str
    next: str
    awaited: tuple[int, ...] = ()


class FirstDeath(NamedTuple):
    """The verdict: ``ranks`` that ended first (empty: none is to blame), why, at which ``line``, and what to do next;
    ``memory``: for lack of memory; ``hung``: that the ranks waited for each other before is why."""

    ranks: tuple[int, ...]
    why: str
    line: str = ""
    sure: Sure = "likely"
    next: str = ""
    memory: bool = False
    hung: bool = False


def first_death(ends: Mapping[int, End], expected: int, hang: Blockage | None = None) -> FirstDeath | None:
    """Who of a job of ``expected`` ranks ended first; None where nothing is wrong, or not yet known.

    ``hang``: what the ranks were blocked in before, if they were: that they lose each other, and that a watchdog aborts
    them, follows from it.
    """
    aborted = _by_watchdog(ends, hang) if hang is not None else set()
    every = [ends[rank] for rank in sorted(ends) if rank not in aborted]
    over = len(ends) >= expected
    for rule in (_killed_for_memory, _raised, _signalled, _left, _exited, _vanished):
        found = rule(every, expected)
        if found is not None:
            return found
    if any(one.timed_out() for one in every) and (over or all(one.timed_out() for one in every)):
        return _out_of_time()
    if over and any(one.interrupted() for one in every):
        return _from_outside(every)
    if over and hang is not None and (aborted or any(one.lost_peer() for one in every)):
        return FirstDeath((), hang.words, hang.line, "likely", hang.next, hung=True)
    if over and any(one.lost_peer() for one in every):
        return FirstDeath((), "ranks lost each other; none has a failure of its own", "", "unsure", _NETWORK)
    return None


def _by_watchdog(ends: Mapping[int, End], hang: Blockage) -> set[int]:
    """The ranks that aborted because they waited, as far as is known: what a watchdog says goes to the log alone.

    One that the others waited for has aborted by itself where it was gone before them.
    """
    others = [one for rank, one in ends.items() if rank not in hang.awaited]

    def first(one: End) -> bool:
        return all(one.node == other.node and one.time_s < other.time_s - APART_S for other in others)

    return {rank for rank, one in ends.items() if one.aborted() and not (rank in hang.awaited and first(one))}


_NETWORK = "check the network between the nodes, and each node's kernel log (dmesg -T | tail -50)"


def _killed_for_memory(every: Sequence[End], expected: int) -> FirstDeath | None:
    killed = [one for one in every if one.oom_kills and one.status in (*_KILLED, None) and one.how == "lost"]
    if not killed:
        return None
    first = _earliest(killed)
    return FirstDeath(
        tuple(one.rank for one in first),
        "killed by the kernel, out of host memory",
        sure="certain" if len(first) == 1 and first[0].status is not None else "likely",
        next=_kernel_log(first[0]) + "; fewer loader workers or smaller buffers",
        memory=True,
    )


def _raised(every: Sequence[End], expected: int) -> FirstDeath | None:
    """Own exceptions: the same at all ranks are the program's; else theirs who raised first."""
    own = _uninterrupted([one for one in every if one.raised() or _explains(one, every)], every)
    if not own:
        return None
    texts = Counter(_text(one) for one in own)
    ranks = {one.rank for one in own}
    rest = [one for one in every if one.rank not in ranks]
    alike = len(texts) == 1
    if alike and len(own) > 1 and _is_the_programs(own, rest, expected):
        sure: Sure = "certain" if len(own) >= expected else "likely"
        why = f"all ranks fail alike: {_what(own[0])}; the program is at fault, no rank"
        return FirstDeath((), why, own[0].line, sure, _look(own[0]))
    first = own if alike else _first_of(own)
    sure = "certain" if alike else "likely" if len(first) == 1 else "unsure"
    if sure == "unsure":
        why = "; ".join(f"rank {one.rank}: {_what(one)}" for one in first[:4])
        decides = "find out which came first: the last step or collective in each of these ranks' logs"
        return FirstDeath(tuple(one.rank for one in first), why, "", sure, decides)
    return FirstDeath(
        tuple(one.rank for one in first),
        _what(first[0]) + (f", in thread {first[0].thread}" if first[0].thread else ""),
        first[0].line,
        sure,
        _look(first[0]),
        memory=_out_of_memory(first[0]),
    )


def _explains(one: End, every: Sequence[End]) -> bool:
    """Whether an exception that need not have ended its rank explains why that left: others lost it."""
    failed = bool(one.error) and one.left() and not one.lost_peer()
    return failed and any(other.lost_peer() for other in every)


def _is_the_programs(own: Sequence[End], rest: Sequence[End], expected: int) -> bool:
    """Most ranks raised it; or half of them did, and the launcher ended the others before they came to it."""
    if 2 * len(own) > expected:
        return True
    silenced = all(one.interrupted() or one.status == _KILL for one in rest)
    return silenced and 2 * len(own) >= expected and len(own) + len(rest) >= expected


def _signalled(every: Sequence[End], expected: int) -> FirstDeath | None:
    """Crashes and kills. An abort follows from a lost peer as well, so it counts where nothing else does."""
    found = _uninterrupted([one for one in every if one.signalled()], every)
    if any(one.interrupted() for one in every):
        found = [one for one in found if one.status != _ABORT]
    crashed = [one for one in found if one.status != _ABORT] or found
    if not crashed:
        return None
    if len(crashed) > 1 and len(crashed) >= expected and _same([one.status for one in crashed]):
        signal = _SIGNALS[crashed[0].status or _KILL]
        if crashed[0].status == _KILL or _span_s(crashed) <= TOGETHER_S:
            return FirstDeath((), f"every rank {signal}", "", "likely", _kernel_log(crashed[0]))
    first = _first_of(crashed)
    if len(first) > 2:
        return FirstDeath((), f"{len(first)} ranks ended by signals", "", "unsure", _kernel_log(first[0]))
    return FirstDeath(
        tuple(one.rank for one in first),
        _SIGNALS[first[0].status or _KILL],
        sure="likely" if len(first) == 1 else "unsure",
        next=_kernel_log(first[0]),
    )


def _left(every: Sequence[End], expected: int) -> FirstDeath | None:
    """Ended in good order while others needed it: they lost a peer."""
    left = [one for one in every if one.left()]
    victims = [one for one in every if one.lost_peer()]
    if not left or not victims or 2 * len(left) >= expected:
        return None
    plural = "they" if len(left) > 1 else "it"
    return FirstDeath(
        tuple(one.rank for one in left),
        f"ended with exit status 0 while the others still trained: {plural} had fewer steps, as with uneven data",
        sure="certain" if all(one.status == 0 for one in left) else "likely",
        next="give all ranks the same number of steps (drop_last, Join), or find out why that rank's loop ended",
    )


def _exited(every: Sequence[End], expected: int) -> FirstDeath | None:
    """``sys.exit`` with a status, and no exception."""
    found = _uninterrupted([one for one in every if one.exited()], every)
    if not found:
        return None
    if len(found) > 1 and len(found) >= expected and _same([one.status for one in found]):
        return FirstDeath((), f"every rank ended itself with exit status {found[0].status}", "", "likely", _LOG)
    first = [*_first_of(found), *(one for one in every if one.left() and 2 * len(found) < expected)]
    return FirstDeath(
        tuple(one.rank for one in first),
        f"ended itself with exit status {found[0].status}",
        sure="likely" if len(first) == 1 else "unsure",
        next=_LOG,
    )


_LOG = "read the last lines of that rank's log"


def _vanished(every: Sequence[End], expected: int) -> FirstDeath | None:
    """Gone without a word, and nothing says how: named where it is the only one, or was gone when its peers lost it;
    the launcher ends others afterwards."""
    gone = [one for one in every if one.vanished()]
    lost = [one for one in every if one.lost_peer()]
    if expected < 2 or not gone or not lost:
        return None
    if len(gone) > 1 and _same([one.node for one in (*gone, *lost)]):
        noticed_s = min(one.time_s for one in lost)
        gone = [one for one in gone if one.time_s <= noticed_s + NOTICED_S]
    if len(gone) != 1:
        return None
    why = "its process is gone, without an exception; its exit status is not known"
    return FirstDeath((gone[0].rank,), why, sure="likely", next=_kernel_log(gone[0]))


def _uninterrupted(found: Sequence[End], every: Sequence[End]) -> list[End]:
    """Those that failed before their node's ranks were interrupted: what fails afterwards follows from that."""
    until: dict[str, float] = {}
    for one in every if found else ():
        if one.interrupted():
            end_s = one.time_s + (0.0 if one.by_keyboard() else APART_S)
            until[one.node] = min(end_s, until.get(one.node, math.inf))
    return [one for one in found if one.time_s <= until.get(one.node, math.inf)]


def _from_outside(every: Sequence[End]) -> FirstDeath:
    if any(one.error == "KeyboardInterrupt" or one.status in _SIGINT for one in every):
        why = "ended by Ctrl-C (SIGINT); no rank had failed before"
        return FirstDeath((), why, "", "likely", "start the job again, from its last checkpoint where it has one")
    why = "ended from outside (SIGTERM or the scheduler); no rank had failed before"
    return FirstDeath((), why, "", "likely", "ask who ended the job: the scheduler's record, the launcher's parent")


def _out_of_time() -> FirstDeath:
    longer = (
        "ask for more time (sbatch --time), or save a checkpoint before the limit (sbatch --signal) and go on from it"
    )
    why = "ended from outside: the time limit of its job in Slurm has passed; no rank had failed before"
    return FirstDeath((), why, "", "certain", longer)


def _first_of(found: Sequence[End]) -> Sequence[End]:
    """Those that stopped first: by their last collective in a group that all share, else by the clock of one node."""
    places = [(one.group, one.seq) for one in found]
    if _same([group for group, _ in places]) and all(seq is not None for _, seq in places):
        lowest = min(seq for _, seq in places if seq is not None)
        behind = [one for one in found if one.seq == lowest]
        if len(behind) == 1:
            return behind
    return _earliest(found)


def _earliest(found: Sequence[End]) -> Sequence[End]:
    if not _same([one.node for one in found]):
        return found
    first = min(found, key=lambda one: one.time_s)
    return [one for one in found if one.time_s - first.time_s <= APART_S]


def _span_s(found: Sequence[End]) -> float:
    times = [one.time_s for one in found]
    return max(times) - min(times)


def _same(words: Sequence[object]) -> bool:
    return len(set(words)) == 1


def _of_a_peer(error: str, message: str) -> bool:
    return error.rpartition(".")[2] in _PEER_ERRORS and bool(_LOST_PEER.search(message))


def _text(one: End) -> str:
    """What two ranks' exceptions have in common if they are the same: not their numbers."""
    return f"{one.error}: {_NUMBERS.sub('#', one.message)}"


def _what(one: End) -> str:
    text = one.message.strip().partition("\n")[0][:120]
    place = f" at {one.line}" if one.line else ""
    return f"{one.error}{place}" + (f" ({text})" if text else "")


def _out_of_memory(one: End) -> bool:
    name = one.error.rpartition(".")[2]
    return name in ("OutOfMemoryError", "MemoryError") or bool(_MEMORY_HOST.search(one.message))


def _look(one: End) -> str:
    name = one.error.rpartition(".")[2]
    if name == "OutOfMemoryError" or "CUDA out of memory" in one.message:
        return "use a smaller batch, or find what else uses that GPU's memory: nvidia-smi"
    if _out_of_memory(one):
        return "use fewer loader workers or smaller buffers; free memory on that node: free -m"
    if "No space left on device" in one.message:
        return "free room on that file system (df -h), and start again from the last checkpoint"
    return f"read the traceback and look at {one.line}" if one.line else _LOG


def _kernel_log(one: End) -> str:
    return "dmesg -T | tail -50" + (f" on node {one.node}" if one.node else "")
