"""Lines that PyTorch, NCCL, gloo, launchers and schedulers write into a job's log: what each says, and of whom.

Rule of this file: pure. A row has the words that a line must hold (looked for before its pattern is tried), a pattern
without nested repeats, and a role: waiter and victim never accuse their speaker. Sentences that guess at causes
("typically caused by", "may be") have no row: they are advice, not evidence.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from ..evidence import Exit, Failure, Outside, Placed, Progress, Restarted, Role, Source, Statement, Stopped, Timeout
from .prefixes import Line

_WORK = (
    r"Work\w{0,10}\((?:SeqNum=(?P<seq>\d{1,18}), )?OpType=(?P<op>\w{1,60})"
    r"(?:, NumelIn=(?P<nin>\d{1,18}), NumelOut=(?P<nout>\d{1,18}))?"
)
#: A peer of NCCL's, and the start of a line of its, with host and device.
_PEER = r"(?P<peer>[\w.:\[\]-]{1,255}<\d{1,5}>)"
_SPEAKER = r"(?:^|\s)(?P<node>[A-Za-z0-9_.-]{1,255}):\d{1,10}:\d{1,10} \[(?P<dev>\d{1,4})\] .{0,200}?"
_COMPLETION = (
    rf"Got completion from peer {_PEER} with (?:error |status=)(?:IBV_WC_\w{{1,40}}\()?(?P<number>\d{{1,4}})\)?"
    r"(?:.{0,400}? hca (?P<device>\w{1,40}))?"
)
_UNREACHABLE = (
    r"\b[Cc]onnect to (?P<peer>[\w.:%\[\]-]{1,255}<\d{1,5}>) failed : (?P<text>[A-Z][a-z]{1,20}(?: [a-z]{1,20}){0,6})"
)
_GROUP = re.compile(
    r"\[PG (?:ID \d{1,9} PG GUID )?(?P<guid>[\w.:-]{1,120}?)(?: ?\((?P<desc>[^()]{1,200})\))? Rank (?P<rank>\d{1,7})\]"
)
_PLAIN = re.compile(r"\[(?:PG (?P<guid>\d{1,9}) )?Rank (?P<rank>\d{1,7})\]")
Groups = dict[str, str | None]


class Row(NamedTuple):
    """One kind of line. ``since`` is the version of its library that first writes it so, "" where it always did."""

    name: str
    role: Role
    words: str
    pattern: re.Pattern[str]
    since: str = ""


def _row(name: str, role: Role, words: str, pattern: str, since: str = "") -> Row:
    return Row(name, role, words, re.compile(pattern), since)


#: The order matters: the first row that matches has the line.
ROWS: tuple[Row, ...] = (
    _row(
        "timeout", "waiter", "collective operation timeout", rf"Watchdog caught collective operation timeout: {_WORK}"
    ),
    _row("timeout", "waiter", "collective operation timeout", r"Watchdog caught collective operation timeout"),
    _row("timeout", "waiter", "NCCL operation timed out", r"timeout: NCCL operation timed out", "2.15"),
    _row(
        "progress",
        "waiter",
        "ast enqueued",
        r"[Ll]ast enqueued(?: NCCL)? work: (?P<enq>-?\d{1,19}), last completed(?: NCCL)? work: (?P<comp>-?\d{1,19})",
        "2.3",
    ),
    _row("watchdog", "waiter", "detected by watchdog at work", r"detected by watchdog at work"),
    _row("stuck", "own", "watchdog got stuck", r"watchdog got stuck for \d{1,6} seconds", "2.4"),
    _row("stuck", "own", "Heartbeat monitor timed out", r"Heartbeat monitor timed out", "2.2"),
    _row("stuck", "own", "Could not acquire GIL", r"Could not acquire GIL within \d{1,6} ms on exit", "2.2"),
    _row("desync", "waiter", "lagging ranks", r"ranks? \[(?P<ranks>[\d, ]{1,40000})\] (?:are|is) the lagging rank"),
    _row(
        "desync",
        "waiter",
        "but didn't join collective",
        r"\[(?P<ranks>[\d, ]{1,40000})\] finished collective #(?P<number>\d{1,18}), but didn't join collective",
    ),
    _row(
        "desync_joined",
        "waiter",
        "joined but didn't finish",
        r"\[(?P<ranks>[\d, ]{1,40000})\] joined but didn't finish collective(?: #(?P<number>\d{1,18}))?",
    ),
    *(
        _row(
            "cuda",
            "own",
            f"{maker} error: ",
            rf"{maker} error: "
            r"(?P<text>device-side assert triggered|an illegal (?:memory access|instruction) was encountered|"
            r"unspecified launch failure|uncorrectable (?:ECC|NVLink) error|hardware stack error|misaligned address|"
            r"the launch timed out)",
        )
        for maker in ("CUDA", "HIP")
    ),
    _row(
        "cuda",
        "own",
        "aborting with error",
        r"(?:\[pid:(?P<of>\d{1,10})\b.{0,60}?)?\bQueue 0x\w{1,20} aborting with error ?: "
        r"(?P<text>HSA_STATUS_ERROR\w{0,60})",
    ),
    _row("cuda", "own", "Memory access fault by GPU", r"(?P<text>Memory access fault by GPU node-\d{1,4})"),
    # Megatron's own checks, which name the rank themselves.
    _row(
        "nan",
        "own",
        "found NaN in local",
        r"Rank (?P<own>\d{1,7}): found (?P<text>NaN in local (?:grad norm|forward loss calculation))"
        r"(?:.{0,120}, node: (?P<node>[\w.-]{1,253}))?",
    ),
    _row(
        "nan",
        "own",
        "Unexpected result ",
        r"Rank (?P<own>\d{1,7}), node (?P<node>[\w.-]{1,253}), device \d{1,4}, iteration -?\d{1,12}: "
        r"Unexpected result (?P<text>-?(?:nan|inf) \(message='[^']{1,200}'\))",
    ),
    _row(
        "nan",
        "own",
        "Unexpected result ",
        r"Unexpected result (?P<text>-?(?:nan|inf)) on rank (?P<own>\d{1,7}) at iteration #\d{1,12}",
    ),
    # The same GPU, or another one, has given another result.
    *(
        _row(
            "miscalculated",
            "own",
            f"Possible {how} error!",
            r"Rank (?P<own>\d{1,7}), node (?P<node>[\w.-]{1,253}), device \d{1,4}, iteration #-?\d{1,12}: "
            rf"Possible (?P<text>{how} error)!",
        )
        for how in ("transient", "persistent")
    ),
    # The handler of Ray and others; SIGABRT and SIGTERM follow from others' ends.
    _row("crash", "own", " received at time=", r"\*\*\* (?P<text>SIG(?:SEGV|BUS|ILL|FPE)) received at time="),
    _row(
        "peer_gone",
        "victim",
        "Connection closed by remote peer",
        rf"Connection closed by remote peer {_PEER}",
    ),
    _row("peer_gone", "victim", "Connection closed by localRank", r"Connection closed by localRank (?P<local>\d{1,4})"),
    _row(
        "peer_gone",
        "victim",
        "watchdog thread terminated with exception: NCCL error",
        r"watchdog thread terminated with exception: NCCL error: (?P<text>[a-z ]{1,80})",
    ),
    _row(
        "peer_gone",
        "victim",
        "NCCL error",
        r"NCCL error(?: in: [^,]{1,300})?[:,] "
        r"(?P<text>remote process exited or there was a network error|unhandled (?:system|cuda) error|internal error)",
    ),
    _row("peer_gone", "victim", "ncclRemoteError", r"ncclRemoteError"),
    _row(
        "network",
        "victim",
        "Got completion from peer",
        _SPEAKER + _COMPLETION,
    ),
    _row(
        "network",
        "victim",
        "Got completion from peer",
        _COMPLETION,
    ),
    _row(
        "network",
        "victim",
        "completed with error",
        r"NET/OFI Request \S{1,40} completed with error\. RC: (?P<number>\d{1,4})",
    ),
    _row(
        "network_event",
        "victim",
        "async fatal event",
        _SPEAKER + r"(?:(?P<device>[\w.-]{1,40}):\d{1,4} )?async fatal event",
    ),
    # The speaker's own adapter; other events of it ("port active", "GID table change") are none.
    _row(
        "port_error",
        "victim",
        "Got async event",
        _SPEAKER
        + r"(?:(?P<device>[\w.-]{1,40}):\d{1,4} )?Got async event : (?P<text>port error|local catastrophic error)",
    ),
    _row("unreachable", "victim", " failed : ", _SPEAKER + _UNREACHABLE),
    _row("unreachable", "victim", " failed : ", _UNREACHABLE),
    _row(
        "peer_gone",
        "victim",
        "Call to ",
        rf"Call to (?:recv|send) (?:from|to) {_PEER} failed : (?:Connection (?:reset by peer|timed out)|Broken pipe)",
    ),
    _row(
        "mismatch_size",
        "victim",
        "Received data size doesn't match",
        r"op\.preamble\.length <= op\.nbytes\. (?P<text>\d{1,18} vs \d{1,18})",
    ),
    _row(
        "peer_gone",
        "victim",
        "Connection closed by peer",
        r"Connection closed by peer \[(?P<peer>[\w.:%]{2,60}\]:\d{1,5})",
    ),
    _row("peer_gone", "victim", "Read error", r"Read error \[(?P<peer>[\w.:%]{2,60}\]:\d{1,5})"),
    _row("peer_gone", "victim", "Write error", r"Write error \[(?P<peer>[\w.:%]{2,60}\]:\d{1,5})"),
    _row(
        "peer_gone",
        "victim",
        "gloo",
        r"(?:Broken pipe|Connection reset by peer|Socket closed|Connection refused|connectFullMesh failed)",
    ),
    _row(
        "timeout_gloo",
        "waiter",
        "Timed out waiting",
        r"Timed out waiting \d{1,12}ms for (?P<text>recv|send) operation to complete",
    ),
    _row(
        "barrier_names",
        "waiter",
        "failed to pass monitoredBarrier",
        r"Ranks? (?P<ranks>\d[\d, ]{0,40000}?) failed to pass monitoredBarrier",
    ),
    _row(
        "barrier_victim",
        "victim",
        "successfully reached monitoredBarrier",
        r"successfully reached monitoredBarrier, but received errors",
    ),
    _row(
        "fingerprint",
        "waiter",
        "Detected mismatch between collectives on ranks",
        r"Detected mismatch between collectives on ranks(?P<text>.{0,3600})",
    ),
    _row(
        "not_joined",
        "waiter",
        "waiting for clients",
        r"(?P<text>Timed out after \d{1,9} seconds waiting for clients\..{1,80})",
    ),
    _row(
        "models_differ",
        "waiter",
        "expects same model across all ranks",
        r"but (?P<text>Rank \d{1,7} has \d{1,9} params, while rank \d{1,7} has inconsistent \d{1,9} params)",
    ),
    _row(
        "unlike_first",
        "waiter",
        "appears not to match",
        r"\[(?P<own>\d{1,7})\]: (?P<text>params\[\d{1,9}\] in this process with (?:sizes|strides) .{1,100}? "
        r"appears not to match (?:sizes|strides) of the same param in process 0)",
    ),
    _row(
        "unlike_first",
        "waiter",
        "disagreement between rank0 and rank",
        r"(?P<text>disagreement between rank0 and rank(?P<own>\d{1,7}): .{1,200})",
        "DeepSpeed",
    ),
    _row(
        "order_differs",
        "waiter",
        "order differs across ranks",
        r"(?P<text>(?:Forward|Backward)? ?order differs across ranks: .{1,200})",
    ),
    _row(
        "nccl_sizes",
        "victim",
        "essage truncated : ",
        r"[Mm]essage truncated : (?P<text>receiv(?:ed|ing) \d{1,18} bytes instead of \d{1,18})",
    ),
    _row(
        "nccl_sizes",
        "victim",
        "collective mismatch error",
        r"collective mismatch error, (?P<text>local size \d{1,18} remote size \d{1,18})",
    ),
    _row(
        "store_barrier",
        "waiter",
        "in store based barrier on rank",
        r"in store based barrier on rank: (?P<own>\d{1,7}), for key: .{1,200}?"
        r"\((?P<text>world_size=\d{1,7}, worker_count=\d{1,7}, timeout=[\w :,.]{1,40})\)",
    ),
    _row(
        "same_device",
        "victim",
        "Duplicate GPU detected",
        r"Duplicate GPU detected : rank (?P<ranks>\d{1,7} and rank \d{1,7}) both on CUDA device (?P<text>[\w.:]{1,20})",
    ),
    _row("port_taken", "victim", "EADDRINUSE", r"port: (?P<text>\d{1,5}),.{0,200}EADDRINUSE"),
    _row("port_taken", "victim", "failed to bind to", r"failed to bind to \S{1,200}:(?P<text>\d{1,5}) \(errno: 98"),
    # The first collective of a group: all wait for the identifier that its first rank makes there.
    _row(
        "first_call",
        "waiter",
        "retrieving ncclUniqueId from [",
        r"retrieving ncclUniqueId from \[(?P<ranks>\d{1,7})\] via c10d key-value store.{0,200}? got error: "
        r"(?P<text>(?i:wait timeout|socket timeout).{0,200})",
    ),
    _row("store", "victim", "retrieving ncclUniqueId from [", r"retrieving ncclUniqueId from \["),
    _row(
        "no_meeting",
        "waiter",
        "The client socket has",
        r"The client socket has .{0,200}?trying to connect to \((?P<peer>[\w.:%-]{1,255}, \d{1,5})\)",
    ),
    _row("late_nodes", "waiter", "RendezvousTimeoutError", r"RendezvousTimeoutError"),
    _row("store", "victim", "DistStoreError", r"DistStoreError: (?P<text>.{0,120})"),
    _row("store", "victim", "recvValue failed", r"recvValue failed on"),
    _row("store", "victim", "sendBytes failed", r"sendBytes failed on"),
    _row("store", "victim", "TCPStore server has shut down", r"TCPStore server has shut down too early"),
    _row("store", "victim", "Failed to recv, got 0 bytes", r"Failed to recv, got 0 bytes"),
    _row("rendezvous", "victim", "a keep-alive heartbeat", r"failed to send a keep-alive heartbeat to the rendezvous"),
    _row("horovod", "victim", "Horovod has been shut down", r"Horovod has been shut down"),
    _row("store", "victim", "DistNetworkError", r"DistNetworkError"),
    _row(
        "memory_device",
        "own",
        "out of memory",
        r"(?:CUDA|HIP|XPU) out of memory\. Tried to allocate (?P<text>[\d.]{1,20} \w{1,5})",
    ),
    # NCCL's last error, below the exception of its rank.
    _row("memory_device", "own", "Cuda failure", r"^Cuda failure (?:\d{1,4} )?'out of memory'"),
    _row("memory_device", "own", "CUDA error: out of memory", r"(?:CUDA|HIP) error: out of memory"),
    _row(
        "memory_host",
        "own",
        "DefaultCPUAllocator",
        r"DefaultCPUAllocator: (?:can't allocate|not enough) memory: you tried to allocate (?P<text>\d{1,20} bytes)",
    ),
    # Ray's memory monitor: the sentence above it is no more than a title.
    _row("teardown", "teardown", "killed due to the node running low on memory", r"Task was killed due to the node"),
    _row(
        "memory_host",
        "own",
        "Memory on the node (IP",
        r"Memory on the node \(IP: (?P<node>[\w.:-]{2,253}), ID: \w{1,80}\) where the (?:task|lease) "
        r"\(.{1,400}?pid=(?P<of>\d{1,10}), memory used=(?P<text>[\d.]{1,20} ?\w{1,3})",
    ),
    _row(
        "memory_shared",
        "own",
        "insufficient shared memory",
        r"bus error encountered in worker.{0,80}insufficient shared memory",
    ),
    _row(
        "worker",
        "own",
        "DataLoader worker (pid",
        r"DataLoader worker \(pid (?P<pid>\d{1,10})\) is killed by signal: "
        r"(?P<text>Killed|Bus error|Segmentation fault|Aborted)",
    ),
    _row(
        "worker_ended",
        "teardown",
        "is killed by signal: Terminated",
        r"is killed by signal: (?:Terminated|Interrupt|Hangup)",
    ),
    _row(
        "worker",
        "own",
        "exited unexpectedly",
        r"DataLoader worker \(pid\(?s?\)? (?P<pid>\d{1,10})[\d, ]{0,400}\) exited unexpectedly",
    ),
    _row("disk", "own", "No space left on device", r"No space left on device"),
    _row("disk", "own", "Disk quota exceeded", r"Disk quota exceeded"),
    _row("disk", "own", "inline_container.cc", r"enforce fail at inline_container\.cc.{0,40}unexpected pos"),
    _row("disk", "own", "iostream error", r"iostream error"),
    _row(
        "asleep",
        "own",
        "stuck in uninterruptible sleep",
        r"[Ww]orker pid=(?P<pid>\d{1,10}) stuck in uninterruptible sleep",
        "2.15",
    ),
    _row("teardown", "teardown", "Some NCCL operations have failed or timed out", r"Some NCCL operations have failed"),
    _row("teardown", "teardown", "taking the entire process down", r"taking the entire process down"),
    _row("teardown", "teardown", "terminate called", r"terminate called"),
    _row("teardown", "teardown", "sigkill_handler", r"Killing subprocess (?P<pid>\d{1,10})"),
    _row("teardown", "teardown", "ActorDiedError", r"ActorDiedError"),
    _row("teardown", "teardown", "ProcessExitedException", r"ProcessExitedException"),
    _row("teardown", "teardown", "returned non-zero", r"returned non-zero exit status"),
    _row(
        "teardown",
        "teardown",
        "Horovod detected that one or more",
        r"Horovod detected that one or more processes exited",
    ),
)

_STOPPED = re.compile(r"Sending process (\d{1,10}) closing signal (SIG[A-Z]{2,6})")
_FORCED = re.compile(r"Unable to shutdown process (\d{1,10}) via .{0,100}(SIGKILL)")
_FAILED = re.compile(r"failed \(exitcode: (-?\d{1,4})\) local_rank: (\d{1,5}) \(pid: (\d{1,10})\)")
#: The number of the agent's process, in its own lines since PyTorch 2.4.
_NUMBERED = re.compile(r"[EWI]\d{4} [\d:.]{8,20} (\d{1,10}) torch/distributed/elastic/")
#: DeepSpeed's, beside the command of its node's last local rank, whichever has failed.
_RETURNED = re.compile(
    r"\[launch\.py:\d{1,5}:sigkill_handler\] .{0,60000}\] exits with return code = (?P<code>-?\d{1,4})"
)
#: Lightning's own launcher.
_CHILD = re.compile(r"Child process with PID (?P<pid>\d{1,10}) terminated with code (?P<code>-?\d{1,4})\.")
_AGAIN = re.compile(r"; {1,4}will restart worker group")
_SRUN = re.compile(
    r"srun: error: ([A-Za-z0-9.-]{1,255}): tasks? ([\d,-]{1,400}): "
    r"(Exited with exit code (\d{1,4})|Killed|Segmentation fault|Aborted|Terminated|Bus error|Out Of Memory)"
)
_SPAWN = re.compile(r"process (\d{1,7}) terminated with (?:signal (SIG[A-Z]{2,6})|exit code (\d{1,4}))")
_SLURM = re.compile(
    r"\*\*\* (?:JOB|STEP) \S{1,60} ON (\S{1,255}) CANCELLED AT \S{1,40}"
    r"(?: DUE TO (TIME LIMIT|PREEMPTION|NODE FAILURE))?"
)
_NODE_FAILED = re.compile(r"srun: error: Node failure on ([A-Za-z0-9.-]{1,255})")
_RAYS_NODE = re.compile(
    r"The node with node id: \w{1,80} and address: ([\w.:-]{1,255}) .{0,300}?has been marked dead because"
)
#: Why PBS (``=>> PBS: job killed: walltime 3607 exceeded limit 3600``) and LSF have ended a job.
_SCHEDULER = re.compile(
    r"PBS: job killed: (walltime|cput|p?v?mem)\b"
    r"|\bTERM_(RUNLIMIT|CPULIMIT|MEMLIMIT|SWAP|PREEMPT|OWNER|ADMIN): job killed"
)
_SCHEDULERS_REASONS = {
    **dict.fromkeys(("walltime", "cput", "RUNLIMIT", "CPULIMIT"), "time limit"),
    **dict.fromkeys(("mem", "vmem", "pmem", "pvmem", "MEMLIMIT", "SWAP"), "memory limit"),
    **dict.fromkeys(("OWNER", "ADMIN"), "cancelled"),
    "PREEMPT": "preemption",
}
_SHELL = re.compile(
    r"(?:^|\s)\S{1,400}: line \d{1,7}: {1,4}(?P<pid>\d{1,10}) (?P<how>Killed|Segmentation fault|Aborted|Bus error)\b"
)
_AGENT = re.compile(r"Received (?:Signals\.)?(SIG\w{2,6}|\d{1,2}) death signal|got signal: (\d{1,2})")
#: Of a command that a script or `kubectl exec` has run: only a signal says something of it.
_DIED_WITH = re.compile(r"died with <Signals\.SIG\w{2,6}: (\d{1,2})>|command terminated with exit code (1[3-5]\d)$")
#: Composer's launcher: which rank it saw fail first, and the process of each.
_COMPOSER = re.compile(r"\bRank (\d{1,7}) crashed with exit code (-?\d{1,4})\.")
_COMPOSER_RANK = re.compile(
    r"(?:ERROR:composer\.cli\.launcher:)?Global rank (\d{1,7}) \(PID (\d{1,10})\) exited with code "
)
#: horovodrun's, of each rank as it ends.
_HOROVODS = re.compile(r"Process (\d{1,7}) exit with status code (\d{1,4})\.$")
#: Open MPI's handler, in the process that crashed.
_CRASHED = re.compile(
    r"\[(?P<node>[A-Za-z0-9.-]{1,255}):(?P<pid>\d{1,10})\] Signal: [A-Z][a-z A-Z]{2,60} \((?P<code>4|6|7|8|11)\)"
)
_OOM_EVENT = re.compile(r"Detected (\d{1,6}) oom[-_ ]kill event(?:s|\(s\))? in (?:StepId=|step )?(\S{1,60})")
_SIGNALS = {"SIGKILL": -9, "SIGTERM": -15, "SIGSEGV": -11, "SIGABRT": -6, "SIGBUS": -7, "SIGILL": -4, "SIGINT": -2}
_SRUN_SIGNALS = {
    "Killed": -9,
    "Segmentation fault": -11,
    "Aborted": -6,
    "Terminated": -15,
    "Bus error": -7,
    "Out Of Memory": -9,
}


def group_of(text: str) -> tuple[str, int | None]:
    """The group that a line of PyTorch's speaks of, "" where it does not say, and the rank within it.

    >>> group_of("[PG ID 1 PG GUID 1(fsdp) Rank 4] failure")
    ('fsdp', 4)
    """
    found = _GROUP.search(text) or _PLAIN.search(text)
    if not found:
        return "", None
    words = found.groupdict()
    return words.get("desc") or words.get("guid") or "", int(words["rank"])


def statements(line: Line, rank: int | None, source: Source) -> Iterator[Statement]:
    """What ``line`` says; ``rank`` is its speaker's."""
    text = line.text
    yield from _of_launcher(text, line.node, source)
    if rank is None:
        rank = _in_group(text)
    for row in ROWS:
        if row.words in text and (found := row.pattern.search(text)):
            yield from _said(row, found, line, rank, source)
            return


def _in_group(text: str) -> int | None:
    """The speaker as its group counts: that is its rank in the default group; before 2.2 there is no other number."""
    if " Rank " not in text and "[Rank " not in text:
        return None
    group, rank = group_of(text)
    return rank if "[Rank " in text or group in ("default_pg", "0") else None


def classified(text: str) -> tuple[Row, re.Match[str]] | None:
    """The row that an exception's text belongs to."""
    for row in ROWS:
        if row.words in text and (found := row.pattern.search(text)):
            return row, found
    return None


def _said(row: Row, found: re.Match[str], line: Line, rank: int | None, source: Source) -> Iterator[Statement]:
    words = found.groupdict()
    group = group_of(line.text)[0]
    if row.name == "timeout":
        yield Timeout(
            rank=rank,
            node=line.node,
            source=source,
            group=group,
            seq=_number(words, "seq"),
            operation=words.get("op") or "",
            numel_in=_number(words, "nin"),
            numel_out=_number(words, "nout"),
        )
        return
    if row.name == "progress":
        enqueued, completed = _number(words, "enq"), _number(words, "comp")
        if completed <= enqueued:  # PyTorch 2.3 prints rubbish for a group that has done nothing.
            yield Progress(
                rank=rank, node=line.node, source=source, group=group, enqueued=enqueued, completed=completed
            )
        return
    yield failure(row, found, rank, line.node, source, line.text)


def failure(row: Row, found: re.Match[str], rank: int | None, node: str, source: Source, text: str) -> Failure:
    """The statement of a row of the table."""
    words = found.groupdict()
    ranks = words.get("ranks") or ""
    return Failure(
        rank=int(own) if (own := words.get("own")) else rank,
        node=words.get("node") or node,
        source=source,
        role=row.role,
        name=row.name,
        text=words.get("text") or words.get("number") or text[:400],
        peer=words.get("peer") or "",
        local_rank=_optional(words, "local") if words.get("local") else _optional(words, "dev"),
        ranks=tuple(int(one) for one in re.findall(r"\d{1,7}", ranks)),
        pid=_optional(words, "pid"),
        of_pid=_optional(words, "of"),
        device=words.get("device") or "",
    )


def _number(words: Groups, name: str) -> int:
    return int(words.get(name) or -1)


def _optional(words: Groups, name: str) -> int | None:
    word = words.get(name)
    return int(word) if word else None


def _of_launcher(text: str, node: str, source: Source) -> Iterator[Statement]:
    """What an agent or a scheduler says of processes."""
    if found := _STOPPED.search(text) or _FORCED.search(text):
        yield Stopped(node=node, source=source, pid=int(found[1]), signal=found[2])
    elif found := _FAILED.search(text):
        yield Exit(
            node=node,
            source=source,
            code=int(found[1]),
            local_rank=int(found[2]),
            pid=int(found[3]),
            first=True,
            agent=agent[1] if (agent := _NUMBERED.match(text)) else "",
        )
    elif found := _RETURNED.search(text) or _CHILD.search(text):
        pid = _optional(found.groupdict(), "pid")
        yield Exit(node=node, source=source, code=int(found["code"]), pid=pid, first=True)
    elif _AGAIN.search(text):
        yield Restarted(node=node, source=source)
    elif found := _SRUN.search(text):
        code = int(found[4]) if found[4] else _SRUN_SIGNALS[found[3]]
        for task in _tasks(found[2]):
            yield Exit(rank=task, node=found[1], source=source, code=as_signal(code))
        if found[3] == "Out Of Memory":
            yield Failure(node=found[1], source=source, role="own", name="oom_event", text=text[:300])
    else:
        yield from _of_process(text, node, source)


def _of_process(text: str, node: str, source: Source) -> Iterator[Statement]:
    """What a shell, a crash handler or a parent says of a process."""
    if found := _SHELL.search(text):
        yield Exit(node=node, source=source, code=_SRUN_SIGNALS[found["how"]], pid=int(found["pid"]))
    elif found := _DIED_WITH.search(text):
        yield Exit(node=node, source=source, code=-int(found[1] or int(found[2]) - 128))
    elif found := _CRASHED.match(text):
        yield Exit(node=found["node"], source=source, code=-int(found["code"]), pid=int(found["pid"]))
    elif found := _SPAWN.search(text):
        yield Exit(rank=int(found[1]), node=node, source=source, code=_SIGNALS.get(found[2] or "", int(found[3] or 1)))
    elif found := _COMPOSER.search(text):
        yield Exit(rank=int(found[1]), node=node, source=source, code=as_signal(int(found[2])), first=True)
    elif found := _HOROVODS.match(text):
        yield Exit(rank=int(found[1]), node=node, source=source, code=as_signal(int(found[2])))
    elif found := _COMPOSER_RANK.match(text):
        # How the others ended, whom it has ended itself, says nothing.
        yield Placed(rank=int(found[1]), node=node, source=source, pid=int(found[2]))
    else:
        yield from _of_outside(text, node, source)


def _of_outside(text: str, node: str, source: Source) -> Iterator[Statement]:
    if found := _SLURM.search(text):
        reason = (found[2] or "cancelled").lower()
        # The node in it, and before it, is the one whose daemon writes this, and that lives.
        yield Outside(
            node="" if found[2] == "NODE FAILURE" else node, source=source, reason=reason, strong=bool(found[2])
        )
    elif found := _NODE_FAILED.search(text):
        yield Outside(node=found[1], source=source, reason="node failure", strong=True)
    elif found := _RAYS_NODE.search(text):
        yield Outside(node=found[1], source=source, reason="lost node", strong=True)
    elif found := _SCHEDULER.search(text):
        yield Outside(node=node, source=source, reason=_SCHEDULERS_REASONS[found[1] or found[2]], strong=True)
    elif found := _AGENT.search(text):
        yield Outside(node=node, source=source, reason=f"signal {found[1] or found[2]}", strong=False)
    elif found := _OOM_EVENT.search(text):
        yield Failure(node=node, source=source, role="own", name="oom_event", text=text[:300])


def _tasks(text: str) -> Iterator[int]:
    for part in text.split(",")[:4096]:
        first, _, last = part.partition("-")
        if first.isdigit() and (not last or last.isdigit()):
            yield from range(int(first), min(int(last or first), int(first) + 65536) + 1)


def as_signal(code: int) -> int:
    """137 is 128 + 9: a shell or a container saw signal 9."""
    return 128 - code if 128 < code < 160 else code
