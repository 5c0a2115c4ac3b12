"""The stack that is scraped: broker, all services, alerts, Alertmanager, and Prometheus as shipped.

Rule of this file: starting and ending. The services are the product's own commands on simulated GPUs and a simulated
fleet; Prometheus reads ``deploy/prometheus``, with compose's names exchanged for ports of this machine.
"""

import contextlib
import os
import shutil
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from paceline.kafka import embedded
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.topic_admin import ensure_topics

from ..processes import ROOT, RunError, free_ports, started, until

PYTHON = (sys.executable, "-m")
DEPLOY = ROOT / "deploy"
FLEET = Path(__file__).parent / "fleet.yaml"
#: Seconds between two scrapes, shorter than the shipped 15 so that rates are there sooner.
SCRAPE_S = 5
COLLECTORS = 2


class Stack(NamedTuple):
    """Where its parts answer."""

    settings: BrokerSettings
    prometheus: str
    alertmanager: str
    forecaster: str


@contextlib.contextmanager
def stack(folder: Path) -> Iterator[Stack]:
    """All of it, running."""
    alertmanager = program("prometheus-alertmanager", "alertmanager")
    prometheus = program("prometheus")
    ports = free_ports(9 + COLLECTORS)
    streams, forecaster, control, archive, alerts, page, manager, server, other, *collectors = ports
    with contextlib.ExitStack() as held:
        broker = held.enter_context(embedded.start())
        settings = BrokerSettings().with_brokers(broker.address)
        ensure_topics(settings)
        ours = {name: value for name, value in os.environ.items() if not name.startswith("PACELINE_")}
        environ = {**ours, "PACELINE_BROKERS": settings.address, "OMP_NUM_THREADS": "1", "PACELINE_SPOOL_DIR": "none"}
        environ["PACELINE_CONTROL_TOKEN"] = "panels"

        def start(name: str, command: list[str], ready: str) -> None:
            process = held.enter_context(started(command, folder / f"{name}.log", environ))
            until(process, lambda: answers(ready), name)

        start("alertmanager", [
            alertmanager, f"--config.file={DEPLOY / 'alertmanager' / 'alertmanager.yml'}",
            f"--storage.path={folder / 'alertmanager'}", f"--web.listen-address=127.0.0.1:{manager}",
            "--cluster.listen-address=",
        ], f"http://127.0.0.1:{manager}/-/ready")  # fmt: skip
        for number, port in enumerate(collectors):
            command = [*PYTHON, "collectors", "--simulate", "4", "--node", f"node-{number}", "--web-port", str(port)]
            start(f"collector-{number}", command, f"http://127.0.0.1:{port}/readyz")
        start("streams-0", [*PYTHON, "streams", "--web-port", str(streams)], f"http://127.0.0.1:{streams}/readyz")
        start("streams-1", [*PYTHON, "streams", "--web-port", str(other)], f"http://127.0.0.1:{other}/readyz")
        start(
            "forecaster",
            [*PYTHON, "forecaster", "--port", str(forecaster)],
            f"http://127.0.0.1:{forecaster}/readyz",
        )
        command = [*PYTHON, "control", "--port", str(control), "--sessions-dir", str(folder / "sessions")]
        start("control", command, f"http://127.0.0.1:{control}/readyz")
        command = [*PYTHON, "archive", "--to", str(folder / "archive"), "--web-port", str(archive)]
        start("archive", command, f"http://127.0.0.1:{archive}/readyz")
        start("alerts", [
            *PYTHON, "paceline", "alerts", "--to", f"alertmanager+http://127.0.0.1:{manager}",
            "--state", str(folder / "alerts.json"), "--web-port", str(alerts),
        ], f"http://127.0.0.1:{alerts}/healthz")  # fmt: skip
        start("page", [*PYTHON, "ui", "--port", str(page)], f"http://127.0.0.1:{page}/_stcore/health")
        config = folder / "prometheus.yml"
        places = {
            "paceline-streams": [streams, other], "paceline-forecaster": [forecaster],
            "paceline-control": [control], "paceline-archive": [archive],
            "paceline-collectors": collectors, "paceline-alerts": [alerts], "paceline-ui": [page],
            "prometheus": [server], "alertmanager": [manager],
        }  # fmt: skip
        config.write_text(yaml.safe_dump(here(places, manager)))
        start("prometheus", [
            prometheus, f"--config.file={config}", f"--storage.tsdb.path={folder / 'prometheus'}",
            f"--web.listen-address=127.0.0.1:{server}",
        ], f"http://127.0.0.1:{server}/-/ready")  # fmt: skip
        fleet = [*PYTHON, "paceline", "simulate", "fleet", str(FLEET), "--brokers", settings.address]
        held.enter_context(started(fleet, folder / "fleet.log", environ))
        at = "http://127.0.0.1:"
        yield Stack(settings, f"{at}{server}", f"{at}{manager}", f"{at}{forecaster}")


def here(places: dict[str, list[int]], alertmanager: int) -> dict[str, Any]:
    """The shipped configuration of Prometheus, with ports of this machine for the names of compose."""
    config: dict[str, Any] = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text(encoding="utf-8"))
    config["global"] = {"scrape_interval": f"{SCRAPE_S}s", "evaluation_interval": f"{SCRAPE_S}s"}
    config["rule_files"] = [str(DEPLOY / "prometheus" / rules) for rules in config["rule_files"]]
    config["alerting"] = {
        "alertmanagers": [{"static_configs": [{"targets": [f"127.0.0.1:{alertmanager}"]}]}],
    }
    kept = []
    for job in config["scrape_configs"]:
        if job["job_name"] == "dcgm-exporter":  # There is none without a GPU: tests/deploy has a stock one's text.
            continue
        for discovery in ("dns_sd_configs", "static_configs"):
            job.pop(discovery, None)
        ports = places[job["job_name"]]
        kept.append({**job, "static_configs": [{"targets": [f"127.0.0.1:{port}" for port in ports]}]})
    config["scrape_configs"] = kept
    return config


def program(*names: str) -> str:
    """The first of these programs that is here.

    Raises:
        RunError: none is.
    """
    for name in names:
        if found := shutil.which(name):
            return found
    raise RunError(f"no {names[0]} here; fix: sudo apt-get install {names[0]}")


def answers(url: str) -> bool:
    """Whether 200 comes from there."""
    try:
        with urllib.request.urlopen(url, timeout=5.0) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False
