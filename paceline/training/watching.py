"""Watching from inside a script: hooks into PyTorch, and a sidecar where ``paceline run`` has not started one.

Rule of this file: nothing here may fail the script. Ranks of a node find one sidecar by a path that all can tell: this
user's, for this job. The first rank of the node starts it, and it ends when its ranks have left. Each ``start`` after a
``stop`` has a sidecar of its own, for that of the one before may be ending.
"""

from __future__ import annotations

import contextlib
import hashlib
import multiprocessing
import os
import secrets
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import paceline
from paceline.identity import job_of, made_up
from paceline.launchers import launched, own_local_rank
from paceline.settings import CAPTURES, TOTAL_STEPS
from paceline.training.activation import activate, current, fail, session
from paceline.training.bootstrap.sitecustomize import follow_imports
from paceline.training.last_words import while_handled
from paceline.training.messages import SOCKET_VARIABLE
from paceline.training.ray_job import current_environment
from paceline.training.tracking_words import TRACKING_VARIABLE

#: A training run shorter than the sidecar's own start waits this long for it in the end.
PATIENCE_S = 15.0
#: What the script's folder or PYTHONPATH holds is the script's: the sidecar finds modules where Python's own
#: installation has them, then where this very package lies.
_ISOLATED = (
    "import runpy, sys; sys.path.append(sys.argv.pop(1)); runpy.run_module(sys.argv.pop(1), None, '__main__', True)"
)


class _Watching:
    """What this process has done for a sidecar of its own, until ``stop``."""

    def __init__(self) -> None:
        #: Variables of the environment that are ours, and their values.
        self.variables: dict[str, str] = {}
        #: The end of a pipe that the sidecar follows: it is readable there once this process and its forks have ended.
        self.held = -1
        #: How many sidecars this process has had before.
        self.before = 0

    def name(self, variable: str, path: Path) -> None:
        """Let what runs in this environment find ``path``."""
        self.variables[variable] = os.environ[variable] = str(path)

    def end(self) -> None:
        """Leave the environment as it was before."""
        for variable, value in self.variables.items():
            if os.environ.get(variable) == value:
                del os.environ[variable]
        self.before += bool(self.variables)
        self.variables = {}
        self.let_go()

    def hold(self) -> int:
        """Make the pipe; what it returns is the sidecar's end."""
        self.let_go()
        followed, self.held = os.pipe()
        return followed

    def let_go(self) -> None:
        """The sidecar is to wait for ranks that are there, and for no first one."""
        held, self.held = self.held, -1
        if held >= 0:
            with contextlib.suppress(OSError):  # The script may have closed it.
                os.close(held)


_watching = _Watching()


def start(
    *,
    record: str | None = None,
    track: bool = False,
    captures: bool = False,
    total_steps: int | None = None,
) -> None:
    """Time the training of this process from now on; ``record`` also writes a recording to that file.

    ``track``: points come back, for a callback in this process that logs them. ``captures``: ``paceline capture`` may
    have PyTorch's profiler run in this process for some steps; give it on every rank. ``total_steps``: a label of the
    job, by which its end is forecast.
    """
    try:
        if captures:
            os.environ[CAPTURES.name] = "1"
        if total_steps is not None:
            os.environ[TOTAL_STEPS.name] = str(total_steps)
        session().resume()
        if not os.environ.get(SOCKET_VARIABLE):
            path = _socket_path()
            # Where nothing tells the first rank of a node, all try, and the sidecar's lock lets one through.
            if own_local_rank(os.environ) == 0:
                _start_sidecar(path, record, track=track)
            if track:
                _watching.name(TRACKING_VARIABLE, _tracking_path(path))
            _watching.name(SOCKET_VARIABLE, path)
            session().patience_s = PATIENCE_S
        follow_imports()
        activate().rejoin()
    except Exception as error:
        fail(error)


def stop() -> None:
    """Send what was measured and time nothing, until the next ``start``."""
    try:
        try:
            running = current()
            if running is not None:
                running.end(while_handled())
                running.probe.stop()
        finally:
            _watching.end()
    except Exception as error:
        fail(error)


def _socket_path() -> Path:
    """Where this job's sidecar listens on this node: in a folder of this user alone."""
    uid = os.getuid()
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    # Slurm passes on what the node of the login calls so, which this one need not have.
    folder = Path(runtime if os.path.isdir(runtime) else tempfile.gettempdir()) / f"paceline-{uid}"
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if status.st_uid != uid or status.st_mode & 0o077 or folder.is_symlink():
        raise PermissionError(f"{folder} must be a folder of yours alone (mode 700)")
    child = (
        "LOCAL_RANK" in os.environ or launched(os.environ) is not None or multiprocessing.parent_process() is not None
    )
    job = job_of(current_environment()) or str(os.getppid() if child else os.getpid())
    # Ranks of a node start and stop together, so that they count alike.
    number = f"-{_watching.before}" if _watching.before else ""
    return folder / f"{hashlib.sha256(job.encode()).hexdigest()[:16]}{number}.sock"


def _tracking_path(path: Path) -> Path:
    return path.with_suffix(".tracking")


def _start_sidecar(path: Path, record: str | None, *, track: bool) -> None:
    options = ["--socket", str(path), "--until-empty"]
    options += [f"--job={made_up(sys.argv[:1], time.time(), secrets.token_hex(2))}"]
    options += [f"--record={Path(record).absolute()}"] if record else []
    followed = _watching.hold()
    options += ["--starter-fd", str(followed)]
    try:
        if track:
            _start_tracked(path, options, followed)
        else:
            _start("paceline.sidecar", options, followed)
    finally:
        os.close(followed)


def _start_tracked(path: Path, options: list[str], followed: int) -> None:
    reader, writer = os.pipe()
    try:
        _start("paceline.sidecar", [*options, "--tracking-fd", str(writer)], followed, writer)
        words = ["--socket", str(_tracking_path(path)), "--events-fd", str(reader), "--until-empty"]
        _start("paceline.tracking", words, reader)
    finally:
        os.close(reader)
        os.close(writer)


def _start(module: str, options: list[str], *fds: int) -> None:
    """Start ``module`` for as long as it has something to do; ``fds`` stay open in it.

    Standard output is the script's alone: whoever captures it waits for all that hold it.
    """
    home = str(Path(paceline.__file__).absolute().parents[1])
    command = [sys.executable, "-I", "-c", _ISOLATED, home, module, *options]
    environ = {name: value for name, value in os.environ.items() if name != SOCKET_VARIABLE}
    subprocess.Popen(  # noqa: S603
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env=environ,
        start_new_session=True,
        pass_fds=fds,
    )
