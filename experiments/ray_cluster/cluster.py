"""Two nodes of Ray on this machine: on each Ray's own daemon under ``paceline run``, as docs/slurm.md says.

Rule of this file: starting, asking and ending. Nothing is written outside of the folder.
"""

import contextlib
import secrets
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from paceline.child import kill_tree, spawn

from ..processes import ROOT, RunError, free_ports

#: What Paceline calls them; for Ray both are this machine.
NODES = ("n1", "n2")
#: Ray, PyTorch and the wheel: what `make ray-check` builds.
PROGRAMS = ROOT / ".venv-frameworks" / "bin"
#: Two cores that others use, too, start six programs in Python a node; each imports Ray.
START_S, STOP_S = 300.0, 60.0
_STARTED = "Ray runtime started"
#: A raylet ends itself where its agents have not said within 15 s which ports they serve on.
_AGENT_PORTS = ("dashboard_agent_listen_port", "metrics_agent_port", "metrics_export_port")


class Ray(contextlib.ExitStack):
    """The running cluster; ``environ`` is what daemons and drivers are started with."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        super().__init__()
        self.folder = folder
        port, *self._ports = free_ports(1 + 4 * len(NODES))
        self.environ = {**environ, "RAY_ADDRESS": f"127.0.0.1:{port}"}

    def __enter__(self) -> "Ray":
        """Start both nodes.

        Raises:
            RunError: one does not start.
        """
        if not (PROGRAMS / "ray").exists():
            raise RunError(f"no {PROGRAMS / 'ray'}; fix: make ray-check")
        address = self.environ["RAY_ADDRESS"]
        head = ["--head", "--port", address.rpartition(":")[2], "--include-dashboard", "false"]
        try:
            self._start(NODES[0], [*head, "--temp-dir", str(self.folder / "ray")])
            self._start(NODES[1], ["--address", address])
        except RunError:
            self.close()
            raise
        return self

    def _start(self, node: str, where: list[str]) -> None:
        """The recipe; beside it ports and sizes, because both nodes are one machine."""
        names = ("dashboard-agent-grpc", "dashboard-agent-listen", "runtime-env-agent", "metrics-export")
        own = [word for name in names for word in (f"--{name}-port", str(self._ports.pop()))]
        own += ["--num-cpus", "2", "--object-store-memory", "100000000", "--disable-usage-stats"]
        recipe = [str(PROGRAMS / "paceline"), "run", "--no-panel", "--", "ray", "start", *where, "--block"]
        known = {"PACELINE_NODE": node, "RAY_OVERRIDE_NODE_ID_FOR_TESTING": secrets.token_hex(28)}
        with self.log(node).open("ab") as log:
            process = spawn([*recipe, *own], log, {**self.environ, **known})
        self.callback(_end, process)
        self._until_started(node, process, known["RAY_OVERRIDE_NODE_ID_FOR_TESTING"])

    def log(self, name: str) -> Path:
        """What a node or a driver has printed."""
        return self.folder / f"{name}.log"

    def printed(self, name: str) -> str:
        """The end of it."""
        text = self.log(name).read_text(errors="replace") if self.log(name).exists() else ""
        return " / ".join(text.strip().splitlines()[-4:]) or "nothing"

    def _until_started(self, node: str, process: "subprocess.Popen[bytes]", number: str) -> None:
        end = time.monotonic() + START_S
        while _STARTED not in self.log(node).read_text(errors="replace"):
            if time.monotonic() > end or process.poll() is not None:
                raise RunError(f"Ray's node {node} did not start; it said: {self.printed(node)}")
            self._tell_ports(number)
            time.sleep(0.2)

    def _tell_ports(self, number: str) -> None:
        """-1, as agents without a dashboard say it themselves, but on a busy machine too late."""
        for session in (self.folder / "ray").glob("session_2*"):
            for name in _AGENT_PORTS:
                file = session / f"{name}_{number}"
                if not file.exists():
                    file.write_text("-1")

    @contextlib.contextmanager
    def driver(self, name: str, command: list[str], **environ: str) -> Iterator["subprocess.Popen[bytes]"]:
        """A script that connects to the cluster, on this machine and under no ``paceline run``."""
        with self.log(name).open("ab") as log:
            process = spawn([str(PROGRAMS / "python"), "-P", *command], log, {**self.environ, **environ})
        try:
            yield process
        finally:
            _end(process)


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.send_signal(signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(STOP_S)
        return
    kill_tree(process.pid)
    process.wait()
