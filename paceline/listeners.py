"""Who listens at a port of this machine, for messages that say that it is taken.

Rule of this file: it reads Linux's ``/proc`` and never fails; what another user's process is, or another system's, is
not known. Of a command line only what cannot be a secret is shown.
"""

import os
from pathlib import Path
from typing import NamedTuple

from paceline.visible import visible

_PROC = Path("/proc")
#: A socket that listens, as ``/proc/net/tcp`` has it.
_LISTENS = "0A"
#: So many parents of a process may be started by Paceline, too.
_MOST_PARENTS = 8
_LONGEST = 60
#: Commands that start other programs as their services: a broker.
_STARTERS = ("paceline up", "paceline demo")


class Listener(NamedTuple):
    """A process, and its command without options."""

    pid: int
    command: str

    def __str__(self) -> str:
        return f"{self.command} (pid {self.pid})"


def listener(port: int, proc: Path = _PROC) -> Listener | None:
    """The process that listens at ``port``; of Paceline's services the command that has started them."""
    sockets = {f"socket:[{inode}]" for inode in _inodes(port, proc)}
    pid = next((pid for pid in pids(proc) if sockets & _open(proc / str(pid) / "fd")), None) if sockets else None
    if pid is None:
        return None
    found = Listener(pid, command_of(pid, proc))
    for _ in range(_MOST_PARENTS):
        pid = _parent(pid, proc)
        command = command_of(pid, proc) if pid else ""
        if command not in _STARTERS and not (_is_ours(found.command) and _is_ours(command)):
            break
        found = Listener(pid, command)
    return found


def taken(port: int, proc: Path = _PROC) -> str:
    """Who listens at ``port``, and how to end it."""
    found = listener(port, proc)
    if found is None:
        return "something listens there already"
    if found.command == "paceline up":
        return f"{found} listens there already; `paceline down` ends it"
    return f"{found} listens there already; `kill {found.pid}` ends it"


def _is_ours(command: str) -> bool:
    return command.split(" ")[0] == "paceline"


def _inodes(port: int, proc: Path) -> list[str]:
    lines = [line for name in ("tcp", "tcp6") for line in _text(proc / "net" / name).splitlines()[1:]]
    fields = [line.split() for line in lines]
    at = f":{port:04X}"
    return [one[9] for one in fields if len(one) > 9 and one[3] == _LISTENS and one[1].endswith(at)]


def pids(proc: Path = _PROC) -> list[int]:
    """All processes of this machine that can be seen."""
    try:
        return sorted(int(name) for name in os.listdir(proc) if name.isdecimal())
    except OSError:
        return []


def _open(folder: Path) -> set[str]:
    found = set()
    try:
        for name in os.listdir(folder):
            found.add(os.readlink(folder / name))
    except OSError:  # It has ended, or is another user's.
        pass
    return found


def _parent(pid: int, proc: Path) -> int:
    fields = _text(proc / str(pid) / "stat").rpartition(")")[2].split()
    return int(fields[1]) if len(fields) > 1 and fields[1].isdecimal() else 0


def command_of(pid: int, proc: Path = _PROC) -> str:
    """The program and what it runs: ``paceline up``, ``python train.py``."""
    words = [word for word in _text(proc / str(pid) / "cmdline").split("\0") if word]
    names = [os.path.basename(word) for word in words[:8]]
    if "paceline" in names:
        return visible(" ".join(names[names.index("paceline") :][:2]))[:_LONGEST]
    script = [name for name, word in zip(names[1:2], words[1:2], strict=True) if not word.startswith("-")]
    return visible(" ".join([*names[:1], *script]))[:_LONGEST] or "a process"


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
