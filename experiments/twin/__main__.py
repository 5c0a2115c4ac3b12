"""``make twin``: the services of docker-compose.yml without containers, until the demo's culprit is named.

The real Compose reads the file; each service is started by the program of its image, with the environment and the
command that the file gives it, in the file's order, each on an address of loopback: Apache Kafka, workers, collector,
forecaster, control, page, alerts, Prometheus and Alertmanager. What has no program here is said.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from paceline.events import Finding
from paceline.kafka.settings import BrokerSettings
from paceline.terminal import say

from ..processes import RunError
from . import checks
from .addresses import Addresses, own_network
from .compose import PROFILES, Service, gateway, services
from .natively import UNPUBLISHED, Natively
from .stack import Stack

EXAMPLES = """\
examples:
  python -m experiments.twin             the stack as `docker compose --profile demo up` starts it, three minutes
  python -m experiments.twin --secure    with TLS and logins, as deploy/secure.env says
  python -m experiments.twin --browser   and the culprit's name on the page, in Chromium
  python -m experiments.twin --keep DIR  keep what the processes said
"""
#: The demo trains for two minutes; a busy machine starts slowly.
FOUND_S, TOLD_S = 240.0, 90.0
#: Ports at which a service tells its health and metrics, as the file has them.
WEB = {"streams": 6066, "forecaster": 8000, "control": 8002, "alerts": 9402, "collectors": 9401}


class Twin:
    """One run; ``broken`` are the promises that did not hold."""

    def __init__(self, stack: Stack, found: Mapping[str, Service], addresses: Addresses) -> None:
        self._stack, self._found, self._addresses = stack, found, addresses
        self.broken: list[str] = []

    def require(self, holds: object, words: str) -> None:
        """One promise."""
        say(("held:   " if holds else "BROKEN: ") + words)
        if not holds:
            self.broken.append(words)

    def url(self, name: str) -> str:
        """Where a service answers."""
        port = WEB.get(name) or UNPUBLISHED.get(name) or next(iter(self._found[name].published.values()))
        return f"http://{self._addresses[name]}:{port}"

    def run(self, browser: bool) -> None:
        """Start all, wait for the finding, and ask whoever should know of it.

        Raises:
            RunError: the stack does not start, or nobody is found.
        """
        began = time.monotonic()
        left = self._stack.up(self._found)
        say(f"not started, for this machine has no such program: {', '.join(left) or 'nothing'}")
        ends = tuple(name for name in self._found if name in ("secrets", "users", "topics", "demo"))
        for name, service in self._found.items():
            if name not in (*left, *ends):
                self._stack.until_healthy(service)
        self.require(True, f"every service is healthy, {time.monotonic() - began:.0f} s after the first was started")

        def check() -> None:
            self._stack.check(ends)

        findings = checks.Findings(BrokerSettings.from_environ(self._stack.programs["streams"].environ))
        try:
            one = checks.until(findings.confirmed, FOUND_S, "a confirmed finding of the demo", check)
        finally:
            findings.close()
        self.require(list(one.ranks) == [2] and one.cause == "worker_compute", f"found: {one.summary}")
        say(f"{time.monotonic() - began:.0f} s after the first service was started")
        self._metrics(check)
        held = checks.until(lambda: checks.alerts(self.url("alertmanager")), TOLD_S, "an alert in Alertmanager", check)
        told = [labels["kind"] for labels in held if "kind" in labels]
        self.require(len(told) == len(set(told)), f"Alertmanager tells each kind of finding of {one.job} once: {told}")
        self._names()
        if browser:
            self._page(one)
        check()

    def _metrics(self, check: Callable[[], None]) -> None:
        """Prometheus reaches every service that runs, and knows of the finding."""
        prometheus = self.url("prometheus")
        series = 'paceline_findings{training_job=~"demo-.*",state="confirmed"}'
        found = checks.until(lambda: checks.values(prometheus, series), TOLD_S, f"{series} in Prometheus", check)
        self.require(found, f"Prometheus has the finding: {found[0]['metric']}")
        running = self._stack.processes
        silent = [
            job for job, up in checks.targets(prometheus).items() if not up and job.removeprefix("paceline-") in running
        ]
        self.require(not silent, f"Prometheus reaches every service; not: {', '.join(silent) or 'none'}")

    def _names(self) -> None:
        """Asked by the name of compose they answer, and by that of another site they do not."""
        for name, port in WEB.items():
            url = f"{self.url(name)}/healthz"
            own, foreign = checks.status(url, f"{name}:{port}"), checks.status(url, "evil.example")
            self.require((own, foreign) == (200, 403), f"{name}: {own} to its name, {foreign} to a foreign one")

    def _page(self, one: Finding) -> None:
        """The page names the culprit to who looks."""
        from ..chromium import launched

        with launched() as chromium:
            tab = chromium.new_page()
            tab.goto(f"{self.url('ui')}/job?job={one.job}")
            card = tab.locator("[class*=st-key-finding-]", has_text="ank 2").filter(visible=True).first
            card.wait_for(timeout=120_000)
            self.require(True, f"on the page: {' '.join(card.inner_text().split())[:120]}")


def main() -> int:
    """Run it; 0 where every promise held."""
    made = argparse.ArgumentParser(
        prog="python -m experiments.twin", epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--secure", action="store_true", help="with TLS and logins")
    made.add_argument("--browser", action="store_true", help="look at the page, too")
    made.add_argument("--keep", metavar="DIR", type=Path, help="keep what the processes said here")
    options = made.parse_args()
    with tempfile.TemporaryDirectory(prefix="paceline-twin-", ignore_cleanup_errors=True) as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            found = services(*PROFILES["secure" if options.secure else "demo"])
            addresses = Addresses(found, gateway(), own_network(os.getpid()))
            if options.secure and "secrets" in found:
                found["secrets"].environ["KAFKA_NAMES"] = f"IP:{addresses['kafka']}"
            with Stack(Natively(addresses, folder), folder) as stack:
                twin = Twin(stack, found, addresses)
                twin.run(options.browser)
        except RunError as error:
            say(f"BROKEN: {error}")
            return 1
    say("all held" if not twin.broken else f"{len(twin.broken)} did not hold")
    return 1 if twin.broken else 0


if __name__ == "__main__":
    sys.exit(main())
