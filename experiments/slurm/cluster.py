"""Slurm's own daemons in a folder: munge, accounting, a controller, and a slurmd for each of two nodes of this machine.

Rule of this file: starting, asking and ending. Nothing is written outside of the folder, and what jobs left running is
ended with the daemons.
"""

import contextlib
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from paceline.child import spawn

from ..processes import ROOT, RunError, free_ports
from . import accounting

NODES = ("n1", "n2")
#: Daemons of a machine that nobody else uses start in a second.
START_S, ANSWER_S = 60.0, 60.0
#: The user of the job that is not root's.
NOBODY = "nobody"
PROGRAMS = (
    "munged", "mariadbd", "mariadb-install-db", "slurmdbd", "slurmctld", "slurmd", "srun", "sbatch", "scontrol",
    "scancel", "squeue", "sinfo", "sacct", "sacctmgr",
)  # fmt: skip

_CONF = """\
ClusterName=paceline
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
# cred_expire is how long a job that is started again waits.
AuthInfo=socket={folder}/munge/socket,cred_expire=5
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={ports[3]}
# With another munged than the machine's this is its socket.
AccountingStoragePass={folder}/munge/socket
SlurmdParameters=config_overrides
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
KillWait=10
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=4
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=4
PartitionName=all Nodes=ALL Default=YES State=UP OverSubscribe=YES
TaskProlog={folder}/scripts/task-prolog.sh
TaskEpilog={folder}/scripts/task-epilog.sh
"""


class Slurm(contextlib.ExitStack):
    """The running cluster; ``environ`` is what jobs are submitted with."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        super().__init__()
        self.folder = folder
        self.environ = {**environ, "SLURM_CONF": str(folder / "slurm.conf")}
        self.python = Path(sys.executable)
        #: Why jobs of other users cannot run it; "" where they can.
        self.not_for_all = ""
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> "Slurm":
        """Start it all.

        Raises:
            RunError: what is missing here, or does not start.
        """
        missing = [name for name in PROGRAMS if shutil.which(name) is None]
        if missing:
            raise RunError(f"no {', '.join(missing)} here; fix: deploy/system-packages.sh slurm")
        if os.geteuid() != 0:
            raise RunError("slurmd starts jobs as their users: run this as root")
        self._write()
        try:
            self._start()
        except RunError:
            self.close()
            raise
        return self

    def _write(self) -> None:
        host, ports = socket.gethostname(), free_ports(5)
        munge = self.folder / "munge"
        # Jobs' users reach the socket in it, and read what tells them of the cluster.
        munge.mkdir(mode=0o711)
        self.folder.chmod(0o755)
        (self.folder / "state").mkdir()
        for node in NODES:
            (self.folder / f"spool-{node}").mkdir()
        key = munge / "key"
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o400)
        (self.folder / "slurm.conf").write_text(_CONF.format(host=host, ports=ports, folder=self.folder))
        accounting.write(self.folder, host, (ports[4], ports[3]), secrets.token_hex(16))
        scripts = self.folder / "scripts"
        shutil.copytree(ROOT / "deploy" / "slurm", scripts)
        try:
            self.python = _python_for_all(self.folder / "python")
        except RunError as error:
            self.not_for_all = str(error)
        conf = f"python={self.python}\nbootstrap={ROOT}/paceline/training/bootstrap\n"
        (scripts / "task.conf").write_text(conf)

    def _start(self) -> None:
        munge, conf = self.folder / "munge", str(self.folder / "slurm.conf")
        places = [f"--{name}-file={munge}/{name}" for name in ("key", "pid", "log", "seed")]
        self._daemon("munged", ["--foreground", "--force", f"--socket={munge}/socket", *places])
        self._until(lambda: (munge / "socket").exists(), "munged")
        self._daemon("mariadbd", accounting.database_options(self.folder))
        self._until(lambda: (self.folder / "mariadb.sock").exists(), "mariadbd")
        self._daemon("slurmdbd", ["-D"])
        self._until(self._accounted, "slurmdbd")
        self._daemon("slurmctld", ["-D", "-f", conf])
        self._until(lambda: "UP" in self._said("scontrol", "ping"), "slurmctld")
        for node in NODES:
            self._daemon(f"slurmd-{node}", ["-D", "-N", node, "-f", conf])
        self._until(lambda: self._said("sinfo", "-h", "-o", "%D %t").split() == ["2", "idle"], "slurmd-n2")

    def _accounted(self) -> bool:
        """Whether accounting knows the cluster; it is told of it as soon as it listens."""
        self._said("sacctmgr", "-i", "add", "cluster", "paceline")
        return self._said("sacctmgr", "-nP", "show", "cluster", "format=cluster") == "paceline"

    def _daemon(self, name: str, options: list[str]) -> None:
        program = shutil.which(name.partition("-")[0])
        assert program is not None, "looked for before"
        with (self.folder / f"{name}.log").open("ab") as log:
            self._daemons[name] = process = spawn([program, *options], log, self.environ)
        self.callback(_end, process)

    def _until(self, condition: "object", who: str) -> None:
        end = time.monotonic() + START_S
        while not condition():  # type: ignore[operator]
            if time.monotonic() > end or self._daemons[who].poll() is not None:
                last = (self.folder / f"{who}.log").read_text(errors="replace").strip().splitlines()[-2:]
                raise RunError(f"{who} did not start; it said: {' / '.join(last) or 'nothing'}")
            time.sleep(0.1)

    def _said(self, *command: str) -> str:
        done = subprocess.run(command, env=self.environ, capture_output=True, text=True, check=False, timeout=ANSWER_S)
        return done.stdout.strip()

    def ask(self, *command: str) -> str:
        """What a command of Slurm's says.

        Raises:
            RunError: it fails.
        """
        done = subprocess.run(command, env=self.environ, capture_output=True, text=True, check=False, timeout=ANSWER_S)
        if done.returncode:
            raise RunError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout.strip()

    def submit(self, name: str, script: str, *options: str) -> str:
        """Submit a batch script; the job's number. ``--wrap`` among the options stands for the script."""
        path = self.folder / f"{name}.sh"
        path.write_text(f"#!/bin/bash\n{script}\n")
        told = ["sbatch", "--parsable", "-J", name, "-o", str(self.folder / f"{name}.%a.out"), *options]
        return self.ask(*told, *([] if "--wrap" in options else [str(path)])).partition(";")[0]

    def state(self, job: str) -> str:
        """How a job stands, in Slurm's word; "" once it is forgotten."""
        said = self._said("squeue", "-h", "-t", "all", "-o", "%T", "-j", job)
        return said.splitlines()[0] if said else ""

    def printed(self, name: str) -> str:
        """The last words of a job."""
        files = sorted(self.folder.glob(f"{name}.*.out"))
        lines = [line for file in files for line in file.read_text(errors="replace").strip().splitlines()]
        return " / ".join(lines[-6:]) or "nothing"

    @contextlib.contextmanager
    def without_controller(self) -> Iterator[None]:
        """Nobody answers who asks the controller, until the block ends."""
        controller = self._daemons["slurmctld"]
        controller.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            controller.send_signal(signal.SIGCONT)

    def left(self) -> list[str]:
        """The processes of jobs, and of what the prolog started, that still run: none, where all has ended."""
        mark = f"SLURM_CONF={self.folder}/slurm.conf".encode()
        daemons = {process.pid for process in self._daemons.values()}
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                environ = (folder / "environ").read_bytes()
                if mark in environ and b"SLURM_JOB_ID=" in environ and int(folder.name) not in daemons:
                    found.append(f"{folder.name} {(folder / 'comm').read_text().strip()}")
        return found


def _python_for_all(path: Path) -> Path:
    """A Python with this environment's packages that every user may run, written to ``path``.

    The environment's own may lie in root's home: then the system's, where it is of the same version.

    Raises:
        RunError: there is none.
    """
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    group = pwd.getpwnam(NOBODY).pw_gid
    packages = f"{ROOT}:{ROOT}/.venv/lib/python{version}/site-packages"
    for program in (sys.executable, f"/usr/bin/python{version}"):
        path.write_text(f'#!/bin/sh\nPYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}{packages}" exec {program} "$@"\n')
        path.chmod(0o755)
        words = [str(path), "-c", "import msgspec, torch"]
        done = subprocess.run(words, user=NOBODY, group=group, extra_groups=[], capture_output=True, check=False)
        if done.returncode == 0:
            return path
    raise RunError(f"no Python {version} that other users may run: use a checkout outside of root's home")


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(10.0)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
