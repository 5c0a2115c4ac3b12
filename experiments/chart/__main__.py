"""``make helm-check``, its last part: the containers of the Helm chart without a cluster, until their probes say ready.

Helm renders the chart; each container is started by the program of its image, with the environment and arguments of its
manifest, each on an address of loopback: Kafka as the chart's own node (with --secure brokers that ask for TLS and a
login), the Job of the topics, and every service. Then each is asked by the probes of its pod, under the name of its
Service, and ended within its grace period.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paceline import wire
from paceline.events import NodeDescribed
from paceline.kafka.follow import BEGINNING, Follower
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.topic_admin import describe_topics
from paceline.terminal import say
from paceline.topics import NODE, TOPICS

from ..processes import RunError
from ..twin import checks
from ..twin.addresses import Addresses, own_network
from ..twin.compose import PROFILES, Service, services
from ..twin.natively import Natively
from ..twin.stack import Stack
from . import pods
from .render import VALUES, ToolsError, component, pod_of, template

#: Parts that nothing here can stand in for: the cluster's own API.
LEFT_OUT = ("annotator",)
OPTIONS = (
    "--set",
    "alerts.enabled=true,tokens.secret=tokens",
    "--set",
    "alerts.to[0]=alertmanager+http://alertmanager:9093",
)
#: Brokers with TLS and a login: those of docker-compose.yml, with its secrets.
SECURE = ("--set", "kafka.mode=external,kafka.external.brokers=kafka:29092,kafka.external.secret=kafka")
LOGIN = ("--set", "kafka.external.username=paceline")
HEARD_S = 60.0


class Chart:
    """One run; ``broken`` are the promises that did not hold."""

    def __init__(self, objects: list[dict[str, Any]], brokers: Mapping[str, Service], folder: Path) -> None:
        """``brokers`` are services of the twin that stand in for a Kafka of one's own."""
        made = [one for one in objects if pod_of(one) and component(one) not in LEFT_OUT]
        first = ("kafka", "topics")
        made.sort(key=lambda one: first.index(component(one)) if component(one) in first else len(first))
        self._objects = {component(one): one for one in made}
        self._services: Mapping[str, Service] = {
            name: pods.service(one, objects) for name, one in self._objects.items()
        }
        by_host = {**brokers, **{service.name: service for service in self._services.values()}}
        self._brokers = brokers
        self._addresses = Addresses(by_host, "0.0.0.0", own_network(os.getpid()))
        if "secrets" in brokers:
            brokers["secrets"].environ["KAFKA_NAMES"] = f"IP:{self._addresses['kafka']}"
        self._natively = Natively(self._addresses, folder)
        self._folder = folder
        self._served = {component(one) for one in objects if one["kind"] == "Service"}
        self.broken: list[str] = []

    def require(self, holds: object, words: str) -> None:
        """One promise."""
        say(("held:   " if holds else "BROKEN: ") + words)
        if not holds:
            self.broken.append(words)

    def run(self) -> None:
        """Start all, and ask each.

        Raises:
            RunError: one does not become what it must be.
        """
        began = time.monotonic()
        with Stack(self._natively, self._folder) as stack:
            running = self._start(stack)
            self.require(
                True, f"all {len(running)} are ready by their probes, {time.monotonic() - began:.0f} s after Kafka"
            )
            settings = BrokerSettings.from_environ(stack.programs[self._services["streams"].name].environ)
            there = describe_topics(settings, [topic.name for topic in TOPICS])
            missing = [topic.name for topic in TOPICS if topic.name not in there]
            self.require(not missing, f"the Job has made {len(there)} topics")
            self._heard(settings, lambda: stack.check(self._ended()))
            for name in running:
                self._answers(name)
            self._doctor(stack)
            self._end(stack, running)

    def _secrets(self) -> None:
        """What lies in Secrets that others make: of Kafka what it has made itself, and any tokens."""
        made = self._natively.volume("secrets")
        known = {"ca.pem": made / "ca.pem", "password": made / "paceline.password"}
        for one in self._objects.values():
            for volume, names in pods.files(one).items():
                for name in names:
                    text = known[name].read_text() if name in known else f"secret-of-{name}\n"
                    (self._natively.volume(volume) / name).write_text(text)

    def _start(self, stack: Stack) -> list[str]:
        """Start them in the order in which a cluster may; the names of those that go on."""
        stack.up(self._brokers)
        for name in self._brokers:
            if name != "kafka" and stack.processes[name].wait(120):
                raise RunError(f"{name} ended; it said: {stack.said(name)}")
        self._secrets()
        for name in ("kafka", "topics"):
            if name in self._services:
                stack.start(self._services[name])
            if name == "kafka" and name in self._services:
                stack.until_healthy(self._services[name])
        status = stack.processes[self._services["topics"].name].wait(300)
        self.require(status == 0, "the Job of the topics ends well")
        running = [name for name in self._services if name not in ("kafka", "topics", "doctor")]
        for name in running:
            stack.start(self._services[name])
        for name in running:
            stack.until_healthy(self._services[name])
        return running

    def _ended(self) -> tuple[str, ...]:
        return (self._services["topics"].name,)

    def _heard(self, settings: BrokerSettings, check: Any) -> None:
        """The collector tells of its node, by the name that the cluster gives it."""
        follower = Follower(settings, {NODE: BEGINNING}, "paceline-chart")

        def described() -> list[NodeDescribed]:
            events = [
                wire.decode(topic, record.value or b"") for topic, records in follower.poll(0.2) for record in records
            ]
            return [event for event in events if isinstance(event, NodeDescribed)]

        try:
            (one, *_) = checks.until(described, HEARD_S, "a node that tells of itself", check)
        finally:
            follower.close()
        self.require(one.node == pods.NODE, f"the collector's node is called {one.node}")

    def _answers(self, name: str) -> None:
        """By every probe, and under its Service's name; to a foreign one it does not."""
        one = self._objects[name]
        (container,) = (pod_of(one) or {})["spec"]["containers"]
        service = self._services[name]
        port = container["ports"][0]["containerPort"]
        base = f"http://{self._addresses[service.name]}:{port}"
        paths = {container[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "readiness", "liveness")}
        paths.add("/_stcore/metrics" if name == "ui" else "/metrics")
        told = {path: checks.status(base + path, f"{self._addresses[service.name]}:{port}") for path in sorted(paths)}
        self.require(set(told.values()) == {200}, f"{name}: {told}")
        path = container["livenessProbe"]["httpGet"]["path"]
        foreign = checks.status(base + path, "evil.example")
        self.require(foreign == 403, f"{name}: {foreign} to a foreign name")
        if name in self._served:
            own = checks.status(base + path, f"{service.name}:{port}")
            self.require(own == 200, f"{name}: {own} to its Service's name")

    def _doctor(self, stack: Stack) -> None:
        """`helm test`."""
        service = self._services["doctor"]
        stack.start(service)
        status = stack.processes[service.name].wait(120)
        self.require(status == 0, f"`helm test` ends with {status}; its last line: {stack.said(service.name)[-100:]}")

    def _end(self, stack: Stack, running: list[str]) -> None:
        """Each ends by itself within the time that its pod is given."""
        for name in running:
            grace_s = (pod_of(self._objects[name]) or {})["spec"]["terminationGracePeriodSeconds"]
            process = stack.processes[self._services[name].name]
            began = time.monotonic()
            process.terminate()
            try:
                process.wait(grace_s)
            except subprocess.TimeoutExpired:
                self.require(False, f"{name} ends within {grace_s} s")
            took = time.monotonic() - began
            self.require(
                process.returncode == 0, f"{name} ended after {took:.1f} of {grace_s} s, status {process.returncode}"
            )


def brokers_with_logins() -> dict[str, Service]:
    """Kafka of docker-compose.yml with TLS and SCRAM, and what makes its secrets and tells it its users."""
    found = services(*PROFILES["secure"])
    return {name: found[name] for name in found if name in ("secrets", "kafka", "users")}


def main() -> int:
    """Run it; 0 where every promise held."""
    made = argparse.ArgumentParser(prog="python -m experiments.chart")
    made.add_argument("--secure", action="store_true", help="with brokers of one's own that ask for TLS and a login")
    made.add_argument("--keep", metavar="DIR", type=Path, help="keep what the processes said here")
    options = made.parse_args()
    with tempfile.TemporaryDirectory(prefix="paceline-chart-", ignore_cleanup_errors=True) as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            more = (*SECURE, *LOGIN) if options.secure else ()
            objects = template(4, "--values", str(VALUES / "bundled.yaml"), *OPTIONS, *more)
            chart = Chart(objects, brokers_with_logins() if options.secure else {}, folder)
            chart.run()
        except (RunError, ToolsError, ValueError) as error:
            say(f"BROKEN: {error}")
            return 1
    say("all held" if not chart.broken else f"{len(chart.broken)} did not hold")
    return 1 if chart.broken else 0


if __name__ == "__main__":
    sys.exit(main())
