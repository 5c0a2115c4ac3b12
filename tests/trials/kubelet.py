"""A kubelet for the cluster of the tests: what a pod is to run, runs as a process of this machine.

Rule of this file: environment, words, signals, logs and statuses as the kubelet has them. All pods share this machine's
network, so the names of pods are its loopback, and the port where ranks meet is a free one.
"""

import base64
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from tests.annotator.api_objects import Object
from tests.patience import PATIENCE_S
from tests.trials.kube_cluster import Cluster

BIN = Path(sys.executable).parent
_KEYED = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")
_EXPRESSION = re.compile(r"\$(\$|\(([^)]*)\))")


class Kubelet:
    """Runs what is scheduled, until ``close``."""

    def __init__(self, cluster: Cluster, folder: Path, port: int) -> None:
        self.cluster, self._folder, self._port = cluster, folder, port
        cluster.lingers = True
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._own: list[Path] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        for process in self.processes.values():
            process.kill()
            process.wait()
        for own in self._own:
            shutil.rmtree(own, ignore_errors=True)

    def _run(self) -> None:
        while not self._stop.is_set():
            for pod in self.cluster.pods():
                self._see(pod)
            self._stop.wait(0.05)

    def _see(self, pod: Object) -> None:
        meta = pod["metadata"]
        process = self.processes.get(meta["name"])
        if process is None:
            if meta.get("deletionTimestamp") or pod["status"]["phase"] != "Pending":
                self.cluster.vanish(pod)
            else:
                self._start(pod)
        elif process.poll() is not None:
            self._ended(pod, process.returncode)
        elif meta.get("deletionTimestamp"):
            self._end(pod, process)
        else:
            self.cluster.logs[meta["name"]] = self._log(meta["name"]).read_bytes()

    def _start(self, pod: Object) -> None:
        environ = self._environ(pod)
        if environ is None:
            self.cluster.waiting("CreateContainerConfigError", "secret not found", pod)
            return
        container, job = pod["spec"]["containers"][0], pod["metadata"]["ownerReferences"][0]["name"]
        words = [_expanded(word, environ) for word in container["command"]]
        words = [word.replace(f"{job}-0.{job}", "127.0.0.1").replace("29500", str(self._port)) for word in words]
        own = Path(tempfile.mkdtemp(prefix="pod-"))  # Short, as a pod's /tmp is: sockets lie in it.
        self._own.append(own)
        image = {"PATH": f"{BIN}:/usr/bin:/bin", "HOME": "/nonexistent", "OMP_NUM_THREADS": "1", "LANG": "C.UTF-8"}
        with self._log(pod["metadata"]["name"]).open("wb") as log:
            self.processes[pod["metadata"]["name"]] = subprocess.Popen(
                words, stdout=log, stderr=log, env={**image, **environ, "TMPDIR": str(own)}, cwd=own,
                start_new_session=True,
            )  # fmt: skip
        self.cluster.begin(pod)

    def _environ(self, pod: Object) -> dict[str, str] | None:
        """The container's variables; None while a Secret is missing."""
        container = pod["spec"]["containers"][0]
        made: dict[str, str] = {}
        for one in container.get("envFrom", []):
            try:
                secret = self.cluster.get("Secret", one["secretRef"]["name"], pod["metadata"]["namespace"])
            except KeyError:
                return None
            made |= {key: base64.b64decode(value).decode() for key, value in secret.get("data", {}).items()}
            made |= secret.get("stringData", {})
        return made | {one["name"]: _value(one, pod) for one in container["env"]}

    def _ended(self, pod: Object, status: int) -> None:
        if pod["metadata"].get("deletionTimestamp"):
            self.cluster.vanish(pod)
        elif pod["status"]["phase"] == "Running":
            self.cluster.finish(
                status if status >= 0 else 128 - status, self._log(pod["metadata"]["name"]).read_bytes(), pod
            )

    def _end(self, pod: Object, process: "subprocess.Popen[bytes]") -> None:
        """SIGTERM to what is the container's first process; SIGKILL to all after the grace."""
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(pod["spec"]["terminationGracePeriodSeconds"])
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.cluster.vanish(pod)

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"


def _value(variable: dict[str, Any], pod: Object) -> str:
    if "valueFrom" not in variable:
        return str(variable["value"])
    path = variable["valueFrom"]["fieldRef"]["fieldPath"]
    keyed = _KEYED.fullmatch(path)
    if keyed is not None:
        return str(pod["metadata"].get(keyed[1], {}).get(keyed[2], ""))
    meta = pod["metadata"]
    return {"metadata.name": meta["name"], "metadata.namespace": meta["namespace"], "spec.nodeName": "node-1"}[path]


def _expanded(word: str, environ: dict[str, str]) -> str:
    """``$(NAME)`` where there is such a variable; ``$$`` is a dollar."""
    return _EXPRESSION.sub(lambda found: "$" if found[1] == "$" else environ.get(found[2], found[0]), word)


def running(word: str) -> list[int]:
    """Processes whose command line has ``word`` in it."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word.encode() in path.read_bytes() and path.parent.name != str(os.getpid()):
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def gone(word: str, within_s: float = PATIENCE_S) -> bool:
    """Whether all of them end."""
    end = time.monotonic() + within_s
    while running(word):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True
