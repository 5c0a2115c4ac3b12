"""A real MLflow server on SQLite, as a process.

Rule of this file: it starts, answers and ends; what it keeps stays in its folder, so that it can be started again.
"""

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from experiments.processes import free_port

READY_S = 300.0
#: No word to its makers, and none of the processes that work on jobs of another kind.
QUIET = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}


class MlflowServer:
    """The server over ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self.address = f"http://127.0.0.1:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "MlflowServer":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start it and wait until it answers."""
        words = ["server", "--backend-store-uri", f"sqlite:///{self._folder / 'mlflow.db'}", "--workers", "1"]
        words += ["--artifacts-destination", str(self._folder / "artifacts"), "--host", "127.0.0.1"]
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "mlflow", *words, "--port", str(self._port)],
                stdout=log,
                stderr=log,
                cwd=self._folder,
                env={**os.environ, **QUIET},
                start_new_session=True,
            )
        deadline = time.monotonic() + READY_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"mlflow server did not start: {(self._folder / 'server.log').read_text()[-800:]}")
            time.sleep(0.2)

    def stop(self) -> None:
        """End it and its workers, which are in its session."""
        if self._process is not None:
            os.killpg(self._process.pid, 15)
            try:
                self._process.wait(20.0)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, 9)
                self._process.wait()
        self._process = None

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.address}/health", timeout=5.0) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            return False
