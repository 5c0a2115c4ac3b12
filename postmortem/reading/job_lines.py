"""Lines that PyTorch, NCCL, gloo, launchers and schedulers write into a job's log: what each says, and of whom.

Rule of this file: pure. What ranks and libraries write is in the table ``failure_rows``; what launchers and schedulers
say of processes is here.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from ..evidence import (
    Exit,
    Failure,
    Outside,
    Placed,
    Progress,
    Restarted,
    Source,
    Statement,
    StepEnded,
    Stopped,
    Timeout,
)
from .failure_rows import ROWS, Row
from .prefixes import Line

_GROUP = re.compile(
    r"\[PG (?:ID \d{1,9} PG GUID )?(?P<guid>[\w.:-]{1,120}?)(?: ?\((?P<desc>[^()]{1,200})\))? Rank (?P<rank>\d{1,7})\]"
)
_PLAIN = re.compile(r"\[(?:PG (?P<guid>\d{1,9}) )?Rank (?P<rank>\d{1,7})\]")
#: In lines of the library that is PyTorch's default for NCCL since 2.15.
_NCCL2 = re.compile(r"\[TC\]\[rank=(?P<rank>\d{1,7})\]\[name=(?P<guid>[^\]]{0,200})\]")
Groups = dict[str, str | None]

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
#: srun, which ends all tasks once one has failed.
_STEP_ENDED = re.compile(
    r"srun: (?:(?:launch/slurm: _step_signal: )?Terminating (?:StepId=|job step )(?P<step>[\w.+-]{1,60})"
    r"|Job step aborted: |Force Terminated (?:StepId=|job step )(?P<over>[\w.+-]{1,60}))"
)
#: HPE's mpiexec (PALS): the first process that failed, and maybe one that it has ended itself.
_PALS = re.compile(
    r"(?:(?P<node>[A-Za-z0-9.-]{1,255}): )?rank (?P<rank>\d{1,7}) "
    r"(?:died from signal (?P<signal>\d{1,2})(?: and dumped core)?|exited with code (?P<code>[1-9]\d{0,2}))$"
)
#: A node's daemon, of its own task.
_STEPD = re.compile(r"slurmstepd(?:-[\w.-]{1,80})?: error: get_exit_code task (\d{1,7}) died by signal: (\d{1,2})$")
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
_SIGNALS = {
    "SIGKILL": -9,
    "SIGTERM": -15,
    "SIGSEGV": -11,
    "SIGABRT": -6,
    "SIGBUS": -7,
    "SIGILL": -4,
    "SIGINT": -2,
    "SIGHUP": -1,
}
_SRUN_SIGNALS = {
    "Killed": -9,
    "Segmentation fault": -11,
    "Aborted": -6,
    "Terminated": -15,
    "Bus error": -7,
    "Out Of Memory": -9,
}


class Group(NamedTuple):
    """The group that a line of PyTorch's speaks of, "" where it does not say; its own name; and the rank within it."""

    name: str = ""
    guid: str = ""
    within: int | None = None


def group_of(text: str) -> Group:
    """The group of a line: by what it is for, where the line says that.

    >>> group_of("[PG ID 1 PG GUID 3(fsdp) Rank 4] failure"), group_of("[PG ID 1 PG GUID 3(undefined) Rank 4]").name
    (Group(name='fsdp', guid='3', within=4), '3')
    >>> group_of("[TC][rank=4][name=3] Operation timed out after 600000 ms")
    Group(name='3', guid='3', within=4)
    """
    found = _GROUP.search(text) or _PLAIN.search(text) or _NCCL2.search(text)
    if not found:
        return Group()
    words = found.groupdict()
    guid, purpose = words.get("guid") or "", words.get("desc") or ""
    return Group(guid if purpose in ("", "undefined") else purpose, guid, int(words["rank"]))


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
    if " Rank " not in text and "[Rank " not in text and "[TC][rank=" not in text:
        return None
    group, _, rank = group_of(text)
    return rank if "[Rank " in text or group in ("default_pg", "0") else None


def classified(text: str) -> tuple[Row, re.Match[str]] | None:
    """The row that an exception's text belongs to."""
    for row in ROWS:
        if row.words in text and (found := row.pattern.search(text)):
            return row, found
    return None


def _said(row: Row, found: re.Match[str], line: Line, rank: int | None, source: Source) -> Iterator[Statement]:
    words = found.groupdict()
    group, guid, within = group_of(line.text)
    if row.name == "timeout":
        yield Timeout(
            rank=rank,
            node=line.node,
            source=source,
            group=group,
            guid=guid,
            within=within,
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
                rank=rank,
                node=line.node,
                source=source,
                group=group,
                guid=guid,
                within=within,
                enqueued=enqueued,
                completed=completed,
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
    elif found := _STEP_ENDED.search(text):
        step = found["step"] or found["over"] or ""
        yield StepEnded(node=node, source=source, step=step, over=found["over"] is not None)
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
    elif found := _PALS.match(text):
        code = -int(found["signal"]) if found["signal"] else as_signal(int(found["code"]))
        yield Exit(rank=int(found["rank"]), node=found["node"] or node, source=source, code=code)
    elif found := _STEPD.search(text):
        yield Exit(rank=int(found[1]), node=node, source=source, code=-int(found[2]))
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
        yield Outside(node=node, source=source, reason=_signal(found[1] or found[2]), strong=False)
    elif found := _OOM_EVENT.search(text):
        yield Failure(node=node, source=source, role="own", name="oom_event", text=text[:300])


def _signal(text: str) -> str:
    """By name, where Python's agent has only its number."""
    numbers = {str(-number): name for name, number in _SIGNALS.items()}
    return f"signal {numbers.get(text, text)}"


def _tasks(text: str) -> Iterator[int]:
    for part in text.split(",")[:4096]:
        first, _, last = part.partition("-")
        if first.isdigit() and (not last or last.isdigit()):
            yield from range(int(first), min(int(last or first), int(first) + 65536) + 1)


def as_signal(code: int) -> int:
    """137 is 128 + 9: a shell or a container saw signal 9."""
    return 128 - code if 128 < code < 160 else code
