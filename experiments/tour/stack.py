"""The stack that the tour visits, by the product's own commands: `paceline up`, `simulate fleet`, and a real run.

Rule of this file: starting and ending; what is seen is for others.
"""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from paceline.kafka.settings import BrokerSettings

from ..processes import ROOT, answers, free_ports, started, until

PACELINE = (sys.executable, "-m", "paceline")
CLUSTER = ROOT / "simulator" / "examples" / "cluster.yaml"
REAL_RANK, REAL_S = 2, 60
#: What the forecast page is shown with: three days until now, of a cluster of its own.
OFFICE = "office"


class Run(NamedTuple):
    """A real run: what it is called, the script that trains, and what is wrong with ``REAL_RANK`` in it."""

    job: str
    script: str
    fault: str


REAL = Run("real-run", "paceline.training.example", "input")
BALANCED = Run("balanced-run", "paceline.balance.example", "compute")


class Stack(NamedTuple):
    """Where it is, and where its processes say what they do."""

    settings: BrokerSettings
    page: str
    folder: Path
    environ: dict[str, str]


@contextlib.contextmanager
def stack(folder: Path, token: str) -> Iterator[Stack]:
    """Broker, workers, collector, forecaster, control and a page on which ``token`` may accept."""
    broker, page, forecaster, control = free_ports(4)
    ports = ["--port", str(broker), "--ui-port", str(page)]
    ports += ["--forecaster-port", str(forecaster), "--control-port", str(control)]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PACELINE_")}
    environ |= {"PACELINE_UI_TOKEN": token, "XDG_DATA_HOME": str(folder)}  # Sessions of others are none of ours.
    with started([*PACELINE, "up", *ports], folder / "up.log", environ) as up:
        until(up, lambda: answers(broker) and answers(page) and answers(forecaster), "paceline up")
        environ |= {"PACELINE_CONTROL_URL": f"http://127.0.0.1:{control}"}
        yield Stack(BrokerSettings(brokers=(f"127.0.0.1:{broker}",)), f"http://127.0.0.1:{page}", folder, environ)


@contextlib.contextmanager
def cluster(there: Stack) -> Iterator["subprocess.Popen[bytes]"]:
    """Twenty jobs on 512 GPUs, from now on and at their own pace."""
    command = [*PACELINE, "simulate", "fleet", str(CLUSTER), "--brokers", there.settings.address]
    with started(command, there.folder / "cluster.log", dict(os.environ)) as running:
        yield running


@contextlib.contextmanager
def real_run(there: Stack, run: Run) -> Iterator["subprocess.Popen[bytes]"]:
    """Four processes that train."""
    python = [sys.executable, "-P", "-m"]
    launch = [*python, "torch.distributed.run", "--standalone", "--nproc-per-node", "4", "--no-python"]
    script = [*python, run.script, "--fault", run.fault, "--rank", str(REAL_RANK)]
    options = ["--quiet", "--job", run.job, "--brokers", there.settings.address, "--"]
    command = [*PACELINE, "run", *options, *launch, *script, "--seconds", str(REAL_S)]
    with started(command, there.folder / f"{run.job}.log", {**os.environ, "OMP_NUM_THREADS": "1"}) as running:
        yield running


def session(there: Stack, name: str) -> Any:
    """A session with its proof, as a terminal has it.

    Raises:
        subprocess.CalledProcessError: there is none.
    """
    command = [*PACELINE, "session", "status", name, "--json"]
    return json.loads(subprocess.run(command, env=there.environ, check=True, capture_output=True).stdout)


def history(there: Stack, folder: Path) -> None:
    """Three days of the office's GPUs, at once.

    Raises:
        subprocess.CalledProcessError: they could not be sent.
    """
    days = (CLUSTER.parent / "days.yaml").read_text()
    spec = folder / "office.yaml"
    spec.write_text(f"cluster: {OFFICE}\n{days}")
    sent = ["--start", "3d", "--speed", "max", "--brokers", there.settings.address]
    subprocess.run([*PACELINE, "simulate", "fleet", str(spec), *sent], check=True, cwd=ROOT)
