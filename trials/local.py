"""The executor for this machine: a job is a session of processes of its own, on the devices that it names.

Rule of this file: what it starts, it ends. The kernel ends the job with us (``paceline.child``); whatever a job's
processes made of sessions and parents, their mark finds them.
"""

import contextlib
import hashlib
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from paceline import child

from . import job_folder, leftovers
from .executor import Ended, ExecutorError, Job
from .machine import numa_cpus
from .placement import numbered

#: From SIGTERM until what is left of a job is killed: time for its recording to end.
TERM_S = 30.0
LOG = "output.log"


class LocalExecutor:
    """Runs one job at a time, here. ``options`` has the trial's ``folder``."""

    parallel = 1

    def __init__(
        self,
        options: Mapping[str, Any],
        environ: Mapping[str, str] | None = None,
        asked: threading.Event | None = None,
    ) -> None:
        folder = str(Path(options["folder"]).absolute())
        self._mark = hashlib.sha256(folder.encode()).hexdigest()[:16]
        self._environ = dict(os.environ if environ is None else environ)
        self._running: dict[str, tuple[subprocess.Popen[bytes], float]] = {}

    def manifest(self, job: Job) -> str:
        """The command line, with the variables that it has beside ours."""
        told = {name: value for name, value in self._told(job).items() if name != leftovers.MARK}
        words = [f"{name}={shlex.quote(value)}" for name, value in sorted(told.items())]
        return " ".join([*words, *self._pinned(job), shlex.join(_words(job.command, "PORT"))])

    def start(self, job: Job) -> None:
        """Start ``job``, once nothing is left of what an earlier trial in this folder may have left."""
        if job.nodes != 1 or job.on:
            raise ExecutorError(f"{job.id}: {job.nodes} nodes; the local executor has this one")
        if left := leftovers.end(self._mark):
            raise ExecutorError(f"processes of an earlier trial do not end: {', '.join(map(str, left[:8]))}; kill them")
        job.folder.mkdir(parents=True, exist_ok=True)
        job_folder.cleared(job.folder)
        cpus = ",".join(map(str, _cpus(job) or ()))
        command = [*_bound(job), *_words(job.command, str(_free_port()))]
        launch = [sys.executable, "-P", "-m", f"{__package__}.launch", cpus, "--", *command]
        try:
            with (job.folder / LOG).open("wb") as log:
                process = child.spawn(launch, log, self._environ | self._told(job))
        except OSError as error:
            raise ExecutorError(f"{job.id}: cannot be started: {error.strerror}") from error
        self._running[job.id] = process, time.monotonic() + job.limit_s

    def _told(self, job: Job) -> dict[str, str]:
        """The variables that the job has beside ours."""
        devices = {} if job.gpus is None else {"CUDA_VISIBLE_DEVICES": ",".join(map(str, job.gpus))}
        order = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"} if job.gpus is not None else {}
        return {**job.environ, **devices, **order, leftovers.MARK: f"{self._mark}:{job.id}"}

    def _pinned(self, job: Job) -> list[str]:
        cpus = numbered(_cpus(job))
        return [*(["taskset", "-c", cpus] if cpus else []), *_bound(job)]

    def poll(self, job: Job) -> Ended | None:
        """How ``job`` ended; one over its limit is ended here."""
        if job.id not in self._running:
            return Ended("gone", None, (), "")
        process, deadline = self._running[job.id]
        if process.poll() is None:
            if time.monotonic() < deadline:
                return None
            self.stop(job)
            return self._ended("killed", process.returncode, job)
        self._sweep(job.id)
        return self._ended("ended", process.returncode, job)

    def _ended(self, how: Literal["ended", "killed"], status: int | None, job: Job) -> Ended:
        return Ended(how, status, job_folder.results(job.folder, 1), job_folder.last_lines(job.folder / LOG))

    def waits(self, job: Job) -> str:
        """Nothing waits here."""
        return ""

    def stop(self, job: Job) -> None:
        """End ``job``: first by asking, then by force."""
        if job.id in self._running:
            self._end(job.id)

    def _end(self, job_id: str) -> None:
        process, _ = self._running[job_id]
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(TERM_S)
        self._sweep(job_id)

    def _sweep(self, job_id: str) -> None:
        process, _ = self._running.pop(job_id)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if left := leftovers.end(f"{self._mark}:{job_id}"):
            raise ExecutorError(f"{job_id}: processes {', '.join(map(str, left[:8]))} do not end; kill them")

    def close(self) -> None:
        """End all that was started."""
        for job_id in list(self._running):
            self._end(job_id)


def _words(command: tuple[str, ...], port: str) -> list[str]:
    """``command`` with what only the node knows."""
    known = {"{nodes}": "1", "{node_rank}": "0", "{master}": "127.0.0.1", "{port}": port}
    out = []
    for word in command:
        for name, value in known.items():
            word = word.replace(name, value)
        out.append(word)
    return out


def _cpus(job: Job) -> tuple[int, ...] | None:
    """The CPUs of a job: its own, else those of its memory node, where the kernel tells them."""
    return job.cpus if job.cpus is not None or job.numa is None else numa_cpus(job.numa)


def _bound(job: Job) -> list[str]:
    """What keeps its memory on the memory node, where numactl is installed."""
    numactl = shutil.which("numactl") if job.numa is not None else None
    return [numactl, f"--membind={job.numa}"] if numactl else []


def _free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])
