"""Which process uses which GPU, and the job and rank it belongs to.

Rule of this file: of a process's environment, only the job's id and the rank leave it. A process id that a driver gives
may belong to another process namespace: a job is claimed only for a process that has one of its device files open.
"""

import pwd
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from paceline.events import DeviceProcess
from paceline.gpu.driver import Driver, Running
from paceline.identity import job_of
from paceline.launchers import launched
from paceline.settings import SettingError

from .cgroup_pods import pod_uid
from .device import Device
from .mig import MigInstance

COLUMN = "processes"


class Owner(NamedTuple):
    """What is known of a process."""

    name: str
    user: str | None
    job: str | None
    rank: int | None


class _Seen(NamedTuple):
    """A process as it was looked up: when it was born, its owner, and the UID of its pod."""

    born: str
    owner: Owner
    pod: str | None


class ProcessOwners:
    """Looks processes up, once in the life of each."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._owners: dict[int, _Seen] = {}

    def of(self, pid: int, files: tuple[str, ...], name: Callable[[int], str]) -> Owner:
        """The owner of ``pid``; ``name`` is asked where /proc does not tell the name.

        ``files`` is how the paths of device files begin, one of which the process must have open.
        """
        born = self._born(pid)
        seen = self._owners.get(pid)
        # A process that has not opened its GPU yet, or has gone, is asked again.
        if seen is not None and seen.born == born and seen.owner.job is not None:
            return seen.owner
        owner = self._look(pid, files, name)
        self._owners[pid] = _Seen(born, owner, self._pod(pid, files))
        return owner

    def pod(self, pid: int) -> str | None:
        """The UID of the pod that ``pid`` was seen in, or None."""
        seen = self._owners.get(pid)
        return None if seen is None else seen.pod

    def keep(self, pids: set[int]) -> None:
        """Forget every process but these."""
        self._owners = {pid: seen for pid, seen in self._owners.items() if pid in pids}

    def _born(self, pid: int) -> str:
        """When ``pid`` started, in the kernel's ticks: tells it from a later process of the same number."""
        try:
            return (self._proc / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()[19]
        except (OSError, IndexError):
            return ""

    def _pod(self, pid: int, files: tuple[str, ...]) -> str | None:
        folder = self._proc / str(pid)
        try:
            with (folder / "cgroup").open("rb") as text:
                uid = pod_uid(text.read(_MOST_CGROUP_BYTES).decode(errors="replace"))
            return uid if uid is not None and _has_gpu_open(folder, files) else None
        except OSError:
            return None

    def _look(self, pid: int, files: tuple[str, ...], name: Callable[[int], str]) -> Owner:
        folder = self._proc / str(pid)
        try:
            title = (folder / "comm").read_text(errors="replace").strip()
        except OSError:
            return Owner(name(pid), None, None, None)
        try:
            uid = folder.stat().st_uid
            environ = read_environ(folder / "environ") if _has_gpu_open(folder, files) else {}
        except OSError:
            # Another user's process, or one that has just ended.
            return Owner(title, None, None, None)
        return Owner(title, _user(uid), *identity(environ))


#: Twelve hierarchies of cgroups v1, with long paths, are not as much.
_MOST_CGROUP_BYTES = 65_536


def identity(environ: dict[str, str]) -> tuple[str | None, int | None]:
    """Job and rank that ``environ`` names."""
    try:
        job = job_of(environ) or None
    except SettingError:
        job = None
    told = launched(environ) if job else None
    return job, None if told is None else told.rank


def read_environ(path: Path) -> dict[str, str]:
    """The variables in /proc/PID/environ.

    Raises:
        OSError: no right to read it, or the process has ended.
    """
    pairs = (entry.partition(b"=") for entry in path.read_bytes().split(b"\0"))
    return {key.decode(errors="replace"): value.decode(errors="replace") for key, sign, value in pairs if sign}


def _has_gpu_open(folder: Path, files: tuple[str, ...]) -> bool:
    return any(str(link.readlink()).startswith(files) for link in (folder / "fd").iterdir() if link.is_symlink())


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def processes(
    driver: Driver | None, devices: Sequence[Device | MigInstance], owners: ProcessOwners
) -> tuple[list[DeviceProcess], dict[str, str]]:
    """The processes on ``devices``, by place in that list, and why some devices do not tell.

    One that an instance of a GPU tells is not told of the whole GPU again.
    """
    running: list[DeviceProcess] = []
    why: dict[str, str] = {}
    parts = {device.parent for device in devices if device.parent}
    for place, device in enumerate(devices):
        if driver is None or device.uuid in parts:
            continue
        try:
            answered = driver.running(device.handle)
        except driver.errors() as error:
            why[f"{COLUMN}[{device.index}]"] = driver.reason(error)
            continue
        for process in answered:
            owner = owners.of(process.pid, driver.files, partial(_name, driver, process))
            running.append(
                DeviceProcess(device=place, pid=process.pid, used_bytes=process.used_bytes, **owner._asdict())
            )
    owners.keep({process.pid for process in running})
    return running, why


def _name(driver: Driver, process: Running, pid: int) -> str:
    return process.name or driver.process_name(pid)
