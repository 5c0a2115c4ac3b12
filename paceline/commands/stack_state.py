"""What ``paceline up`` writes down of itself, so that other commands find it: one file a stack, which its owner alone
may read and write.

Rule of this file: a process is known by its id and the time at which it started, in one boot and one namespace of
process ids, and is signalled through a descriptor of it: a recycled id is never taken for ours. A file that others may
write, that is too long or says nonsense, is passed over.
"""

import contextlib
import os
import select
import signal
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from paceline.decoders import json_decoder

#: More is not read of a file, and of no more files.
MOST_BYTES, MOST_FILES = 64 * 1024, 1000
#: Each address, as it is shown.
SERVICES = ("page", "broker", "forecaster", "control", "streams")


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """One process, whatever becomes of its number: ``ticks`` is when it started, by the clock of ``boot``."""

    pid: int
    ticks: int
    boot: str
    namespace: str


class Stack(msgspec.Struct, frozen=True, kw_only=True):
    """A running ``paceline up``: who it is, since when (Unix time), and where its parts answer."""

    process: Process
    started_s: float
    detached: bool
    logs: str
    addresses: dict[str, str] = {}
    ready: bool = False


@dataclass(frozen=True)
class Machine:
    """Where processes are looked up."""

    proc: Path = Path("/proc")

    def process(self, pid: int) -> Process | None:
        """The process that has the number ``pid`` now; None where there is none, or it has ended."""
        try:
            fields = (self.proc / str(pid) / "stat").read_text().rpartition(")")[2].split()
            boot = (self.proc / "sys/kernel/random/boot_id").read_text().strip()
            namespace = os.readlink(self.proc / "self/ns/pid")
            if fields[0] in ("Z", "X"):
                return None
            return Process(pid=pid, ticks=int(fields[19]), boot=boot, namespace=namespace)
        except (OSError, IndexError, ValueError):
            return None

    def runs(self, process: Process) -> bool:
        """Whether it still runs."""
        return self.process(process.pid) == process


def folder(environ: Mapping[str, str]) -> Path:
    """Where the files are: of the user who runs the command, by the XDG rules."""
    base = environ.get("XDG_STATE_HOME", "")
    home = os.path.expanduser("~")
    if not base.startswith("/"):
        base = f"{home}/.local/state" if home.startswith("/") else os.devnull  # Whose home is unknown has no such file.
    return Path(base) / "paceline"


def write(stack: Stack, place: Path) -> Path:
    """Write ``stack`` down in the folder ``place``, whole or not at all; the file.

    Raises:
        OSError: it cannot be written.
    """
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    file = _file(stack.process, place)
    temporary = file.with_suffix(".new")
    with contextlib.suppress(FileNotFoundError):
        temporary.unlink()
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as output:
        output.write(msgspec.json.encode(stack))
    temporary.replace(file)
    return file


def forget(stack: Stack, place: Path) -> None:
    """Remove what is written of ``stack``."""
    with contextlib.suppress(OSError):
        _file(stack.process, place).unlink()


def running(place: Path, machine: Machine) -> list[Stack]:
    """The stacks of this user that run on this ``machine``, the newest first. What is left of others of this boot goes.

    A home may be shared by machines: what another one wrote is neither listed nor removed.
    """
    found = []
    me = machine.process(os.getpid())
    for file in _files(place):
        stack = _read(file)
        if stack is None or me is None or _here(stack.process) != _here(me):
            continue
        if machine.runs(stack.process):
            found.append(stack)
        else:
            forget(stack, place)
    return sorted(found, key=lambda stack: stack.started_s, reverse=True)


def end(process: Process, patience_s: float, machine: Machine) -> bool:
    """SIGTERM to ``process``, SIGKILL after ``patience_s``; True where it has ended, of whatever, when this returns.

    Raises:
        OSError: it may not be signalled.
    """
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return True
    try:
        # From here on the descriptor is of one process. It is ours if that has started when ours did.
        if not machine.runs(process):
            return True
        for number, wait_s in ((signal.SIGTERM, patience_s), (signal.SIGKILL, 10.0)):
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, number)
            if select.select([descriptor], [], [], wait_s)[0]:
                return True
        return False
    finally:
        os.close(descriptor)


def _here(process: Process) -> tuple[str, str]:
    return process.boot, process.namespace


def _file(process: Process, place: Path) -> Path:
    return place / f"up-{process.boot[:8]}-{process.pid}-{process.ticks}.json"


def _files(place: Path) -> Iterator[Path]:
    with contextlib.suppress(OSError), os.scandir(place) as entries:
        names = [entry.name for entry, _ in zip(entries, range(MOST_FILES), strict=False)]
        yield from (place / name for name in sorted(names) if name.startswith("up-") and name.endswith(".json"))


def _read(file: Path) -> Stack | None:
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as held:
            seen = os.fstat(held.fileno())
            if not stat.S_ISREG(seen.st_mode) or seen.st_uid != os.getuid() or stat.S_IMODE(seen.st_mode) & 0o077:
                return None
            text = held.read(MOST_BYTES + 1)
        return None if len(text) > MOST_BYTES else _sensible(json_decoder(Stack).decode(text), file)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _sensible(stack: Stack, file: Path) -> Stack | None:
    """``stack``, unless it is not what ``file`` is named after, or has an id that no process has."""
    process = stack.process
    well = 1 < process.pid < 2**31 and "/" not in process.boot and _file(process, file.parent) == file
    return stack if well and set(stack.addresses) <= set(SERVICES) else None
