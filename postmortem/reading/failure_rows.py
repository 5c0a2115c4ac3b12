"""Kinds of lines that PyTorch, NCCL, gloo and frameworks write into a job's log: a table.

Rule of this file: pure data. A row has the words that a line must hold (looked for before its pattern is tried), a
pattern without nested repeats, and a role: waiter and victim never accuse their speaker. Sentences that guess at causes
("typically caused by", "may be") have no row: they are advice, not evidence.
"""

import re
from typing import NamedTuple

from ..evidence import Role

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
#: What CUDA and HIP say of a device that reported an error.
_OF_DEVICES = (
    r"device-side assert triggered|an illegal (?:memory access|instruction) was encountered|unspecified launch failure|"
    r"uncorrectable (?:ECC|NVLink) error|hardware stack error|misaligned address|the launch timed out"
)
#: What CUDA says where a process cannot use its GPU, or reach the others from it: of no peer that is gone.
_SET_UP = (
    r"initialization error|system not yet initialized|invalid device ordinal|operation not supported|"
    r"peer access is not supported between these two devices|no CUDA-capable device is detected|"
    r"CUDA driver version is insufficient for CUDA runtime version"
)
#: What NCCL says where a peer or the network is gone, or it does not know why: its last error says more.
_PEERS_GONE = (
    "remote process exited or there was a network error",
    "unhandled system error",
    "unhandled cuda error",
    "internal error",
)
_UNREACHABLE = (
    r"\b[Cc]onnect to (?P<peer>[\w.:%\[\]-]{1,255}<\d{1,5}>) failed : (?P<text>[A-Z][a-z]{1,20}(?: [a-z]{1,20}){0,6})"
)


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
    _row("timeout", "waiter", "Operation timed out after", r"\[TC\].{0,300}? Operation timed out after \d", "2.15"),
    _row("timeout", "waiter", "due to timeout", r"\[TC\].{0,300}? Aborting process .{0,30}?due to timeout", "2.15"),
    _row(
        "progress",
        "waiter",
        "ast enqueued",
        # What has started, and its operation, are said since the middle of 2026.
        r"[Ll]ast enqueued(?: NCCL)? work: (?P<enq>-?\d{1,19})(?:, last started work: -?\d{1,19}(?: \(\w{0,60}\))?)?"
        r", last completed(?: NCCL)? work: (?P<comp>-?\d{1,19})",
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
            rf"{maker} error: (?P<text>{_OF_DEVICES})",
        )
        for maker in ("CUDA", "HIP")
    ),
    _row(
        "cuda",
        "own",
        "borting with error",
        r"(?:\[pid:(?P<of>\d{1,10})\b.{0,60}?)?\b(?:Queue 0x\w{1,20}|callbackQueue) [Aa]borting with error ?: "
        r"(?P<text>HSA_STATUS_ERROR\w{0,60})",
    ),
    _row(  # Level Zero's, of Intel's GPUs
        "cuda",
        "own",
        "UR_RESULT_ERROR_",
        r"(?P<text>UR_RESULT_ERROR_(?:DEVICE_LOST|OUT_OF_RESOURCES|INVALID_KERNEL\w{0,40}|PROGRAM_\w{1,40}))",
    ),
    _row("memory_device", "own", "UR_RESULT_ERROR_", r"(?P<text>UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)"),
    # Every process that uses the GPU says so, the one whose kernel hung and all others.
    _row(
        "gpu_hang",
        "victim",
        "HW Exception by GPU",
        r"HW Exception by GPU (?P<device>node-\d{1,4})\b.{0,60}? reason ?: ?(?P<text>[A-Za-z ]{1,40})",
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
        rf"NCCL error(?: in: [^,]{{1,300}})?[:,] (?P<text>{'|'.join(_PEERS_GONE)})",
    ),
    _row(
        "peer_gone",
        "victim",
        "NCCL operation nccl",
        rf"NCCL operation nccl\w{{1,40}}\(.{{0,800}}?\) failed: (?P<text>{'|'.join(_PEERS_GONE)})",
    ),
    *(
        _row(
            "peer_gone",
            "victim",
            text,
            rf"(?:nccl hit async error|NCCL (?:Async Error|\w{{1,30}} failed)).{{0,80}}?(?P<text>{text})",
            "2.15",
        )
        for text in _PEERS_GONE
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
        "async event",
        _SPEAKER + r"(?:(?P<device>[\w.-]{1,40}):\d{1,4} )?Got (?:non-fatal )?async event ?: "
        r"(?P<text>port error|local catastrophic error)",
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
        r"[Mm]essage truncated : (?P<text>receiv(?:ed|ing) [\d,]{1,40} bytes instead of [\d,]{1,40})",
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
    # The monitor of each rank, of NVIDIA's resiliency extension (NVRx, NeMo): all ranks of a hang come to a stop.
    _row(
        "no_progress",
        "waiter",
        "heartbeat. Waited ",
        r"\[RankMon(?:itor)?Server[\w@.-]{0,300}:(?P<own>\d{1,7})\] Did not get (?:initial|subsequent) heartbeat\. "
        r"Waited (?P<text>[\d.]{1,20}) seconds",
    ),
    # JAX's: whom it waits for is in other lines (``coordinator.py``).
    _row(
        "task_barrier", "waiter", "Barrier timed out", r"Barrier timed out\. (?:Barrier_id|Id): (?P<text>\S{1,200}?)\. "
    ),
    _row("no_leader", "victim", "RPC to coordination service", r"Failed to send RPC to coordination service"),
    _row("task_fate", "victim", "distributed service detected fatal", r"JAX distributed service detected fatal errors"),
    # Ascend's collectives, and the codes of torch_npu for a stream that waited too long.
    _row("hccl", "waiter", "Notify register times out", r"Notify register times out"),
    _row("hccl", "waiter", "Getting socket times out", r"Getting socket times out"),
    _row(
        "hccl",
        "waiter",
        "error code is",
        r"NPU (?:function )?error(?:: ?.{0,80}?)?, error code is (?P<text>107020|507046|507048)\b",
    ),
    _row("hccl", "victim", "function error: Hccl", r"function error: (?P<text>Hccl\w{1,40}), error code is \d{1,6}"),
    _row("hccl", "victim", "HCCL error in", r"HCCL error in: "),
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
        r"(?:CUDA|HIP|XPU|NPU) out of memory\. Tried to allocate (?P<text>[\d.]{1,20} \w{1,5})",
    ),
    # NCCL's last error, below the exception of its rank.
    _row("memory_device", "own", "Cuda failure", r"^Cuda failure (?:\d{1,4} )?'out of memory'"),
    _row("cuda", "own", "Cuda failure", rf"Cuda failure (?:\d{{1,4}} )?'(?P<text>{_OF_DEVICES})"),
    _row("set_up", "own", "Cuda failure", rf"^Cuda failure (?:\d{{1,4}} )?'(?P<text>{_SET_UP})"),
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
