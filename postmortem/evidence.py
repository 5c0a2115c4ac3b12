"""What the files say, one struct for each kind of statement.

Rule of this file: frozen data. A reader writes down who said what and where; what it means is decided elsewhere.
Times are not kept, for clocks of two hosts do not compare. ``source`` is a file with a line number where it has one.
"""

from typing import Literal

import msgspec

#: What a line says about its speaker: it waited, it lost a peer, it failed by itself, or it was being shut down.
Role = Literal["own", "waiter", "victim", "teardown"]


class Place(msgspec.Struct, frozen=True):
    """A line of code."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.function}".rstrip()


class Source(msgspec.Struct, frozen=True):
    """Where a statement stands: the kind of file, its name, the line (0 where it has none) and what it says."""

    kind: str
    file: str
    line: int = 0
    quote: str = ""


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """One statement. ``rank`` is None where the file does not say whose it is; ``node`` is "" where unknown."""

    rank: int | None = None
    node: str = ""
    source: Source


class Timeout(Said, frozen=True, kw_only=True):
    """A rank waited in vain in a collective. ``seq`` and sizes are -1, words "" where it does not say them. Several
    groups may share ``group``, the word for what they are for: ``guid`` is a group's own, ``within`` the rank in it."""

    group: str = ""
    guid: str = ""
    within: int | None = None
    seq: int = -1
    operation: str = ""
    numel_in: int = -1
    numel_out: int = -1


class Progress(Said, frozen=True, kw_only=True):
    """The last collectives of a rank in a group, which is named as that of a timeout."""

    group: str
    guid: str = ""
    within: int | None = None
    enqueued: int
    completed: int


class Failure(Said, frozen=True, kw_only=True):
    """Something went wrong at a rank: an exception, or a line by a library. ``name`` is the row of the table."""

    role: Role
    name: str
    text: str
    type: str = ""
    frames: tuple[Place, ...] = ()
    #: What the line names: the address of a peer, a local rank, ranks, a process, a device.
    peer: str = ""
    local_rank: int | None = None
    ranks: tuple[int, ...] = ()
    pid: int | None = None
    device: str = ""
    #: The local rank whose file it is in, where that is all that is known of the speaker.
    of_local: int | None = None
    #: The process that it is of, where that and the node are all that is known of the speaker.
    of_pid: int | None = None


class Exit(Said, frozen=True, kw_only=True):
    """How a process ended: a code as Python gives it, negative for a signal."""

    code: int
    pid: int | None = None
    local_rank: int | None = None
    first: bool = False
    #: When the agent noticed it, Unix seconds as if its clock were UTC.
    time_s: float | None = None
    #: The torchrun agent that saw it, as its log lines number it; "" where they do not.
    agent: str = ""


class StepEnded(Said, frozen=True, kw_only=True):
    """A launcher ends all processes of ``step`` that are left: how these end says nothing. ``over``: it has done so."""

    step: str = ""
    over: bool = False


class Restarted(Said, frozen=True, kw_only=True):
    """All ranks of this log were started again: what comes before is of an earlier attempt."""


class Stopped(Said, frozen=True, kw_only=True):
    """A launcher sent a process a signal."""

    pid: int
    signal: str


class Kernel(Said, frozen=True, kw_only=True):
    """A line of a node's kernel: ``name`` is the row of the table. ``time_s`` is its date by the node's clock, and
    ``age_s`` by how much the last lines of its file are younger; None where it has no date."""

    name: str
    pid: int | None = None
    pci: str = ""
    device: str = ""
    number: int = -1
    text: str = ""
    time_s: float | None = None
    age_s: float | None = None


class Outside(Said, frozen=True, kw_only=True):
    """Something outside the job ended it. ``strong`` where the line gives the reason; ``pod`` and ``job`` (a Job of
    Kubernetes) where it names one."""

    reason: str
    strong: bool
    pod: str = ""
    job: str = ""


class PodKilled(Said, frozen=True, kw_only=True):
    """A container reached its memory limit; ``node`` is where its pod ran."""

    pod: str
    container: str


class Call(Said, frozen=True, kw_only=True):
    """A collective of a rank. ``done`` is None where the file does not say."""

    group: str
    label: str
    seq: int
    operation: str
    numel_in: int = -1
    numel_out: int = -1
    size: int = -1
    dtype: str = ""
    done: bool | None = None
    started: bool | None = None
    place: Place | None = None
    #: Its position among the calls of its rank.
    order: int = 0


class Dump(Said, frozen=True, kw_only=True):
    """A rank's flight recorder, without its entries: groups with members, and the last number enqueued by group.
    ``counted``: the numbers of its entries can be known; where they cannot, it has no calls here."""

    version: str
    backend: str
    members: dict[str, tuple[int, ...]]
    enqueued: dict[str, int]
    counted: bool = True


class NoDump(Said, frozen=True, kw_only=True):
    """A rank's flight recorder could not be read, and why: what it has called is not known."""

    reason: str


class Stack(Said, frozen=True, kw_only=True):
    """A thread's stack, innermost frame first; ``worker`` for a process that loads data for the rank."""

    frames: tuple[Place, ...]
    pid: int | None = None
    worker: bool = False
    main: bool = True


class Process(Said, frozen=True, kw_only=True):
    """A look at a process in /proc."""

    pid: int
    parent: int | None = None
    state: str = ""
    wchan: str = ""
    file: str = ""


class Look(Said, frozen=True, kw_only=True):
    """One of several looks at a rank: its stack, and counters that grow while it works. ``turn`` orders them."""

    turn: int
    frames: tuple[Place, ...]
    counters: dict[str, float]


class Placed(Said, frozen=True, kw_only=True):
    """Where a rank runs."""

    pid: int | None = None
    gpu: int | None = None
    pci: str = ""
    local_rank: int | None = None
    addresses: tuple[str, ...] = ()
    world: int | None = None
    #: The folder of its output, as its agent names it.
    folder: str = ""


class Present(Said, frozen=True, kw_only=True):
    """A rank wrote something: it exists. Of some only the local rank is known."""

    local_rank: int | None = None


class Stalled(Said, frozen=True, kw_only=True):
    """A row of Horovod's report of a stall: ranks that are missing in these operations, or, where its version lists
    them instead, that are ready. ``more``: it leaves some operations out. Without operations it is a report's head."""

    operations: tuple[str, ...] = ()
    missing: tuple[int, ...] = ()
    ready: tuple[int, ...] = ()
    more: bool = False
    #: So many lines follow it in its file.
    after: int = 0


class RasReport(Said, frozen=True, kw_only=True):
    """A report of NCCL's RAS: ``report`` is its first line, which all of its statements carry. 0 is unknown."""

    report: int
    #: Its local time, in words that sort; "" in text, which has none.
    time: str = ""
    processes: int = 0
    gpus: int = 0


class RasGroup(Said, frozen=True, kw_only=True):
    """A row of its table: communicators of ``size`` ranks that are alike. The words are as RAS writes them."""

    report: int
    group: int
    communicators: int
    size: int
    status: str
    errors: str


class RasRanks(Said, frozen=True, kw_only=True):
    """What RAS says of so many ranks of a communicator, or of one of them, whose number there is ``member``.

    ``about`` is an operation, of which they have launched ``value``; or "status", "error", "missing", or "place", with
    the word in ``value``. A member's number is that of its communicator: a rank of the job only where that has all.
    """

    report: int
    communicator: str
    group: int
    about: str
    value: int | str = ""
    ranks: int = 1
    member: int | None = None
    pid: int | None = None
    gpu: str = ""


class RasProcess(Said, frozen=True, kw_only=True):
    """Processes that RAS could not reach: one, or how many where ``pid`` is None. ``dead``: it has given them up."""

    report: int
    dead: bool
    count: int = 1
    pid: int | None = None
    gpu: str = ""


Statement = (
    Timeout
    | Progress
    | Failure
    | Exit
    | Stopped
    | Kernel
    | Outside
    | Call
    | Dump
    | NoDump
    | Stack
    | Process
    | Look
    | Placed
    | Present
    | PodKilled
    | Restarted
    | StepEnded
    | Stalled
    | RasReport
    | RasGroup
    | RasRanks
    | RasProcess
)
