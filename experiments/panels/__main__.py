"""Ask a real Prometheus, which scraped the running stack, for every panel and every recording rule.

Broker, two workers, forecaster, control, two collectors with simulated GPUs, alerts, Alertmanager and Prometheus are
started; a
simulated fleet trains with a slow rank and a slow input, and some messages are lost on purpose. An expression that
answers nothing, a metric that an alert names and nobody tells, a target that is down: each is a failure.
"""

import argparse
import contextlib
import json
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from paceline.kafka.errors import BusError
from paceline.terminal import say

from ..processes import RunError
from . import asked, troubles
from .asked import Asked
from .stack import SCRAPE_S, Stack, stack

EXAMPLES = """examples:
  python -m experiments.panels               all of it, about four minutes
  python -m experiments.panels --keep DIR    keep what the processes said
"""
#: The job whose panels are asked: the one with a slow rank.
JOB = "llama"
#: How long expressions may take to answer something; forecasts need two minutes of a job, findings one.
PATIENCE_S = 420.0
#: How long a rule may take to alert on a finding: it holds its own for a minute first.
RULES_S = 150.0


class Prometheus:
    """Asked by its HTTP interface."""

    def __init__(self, url: str, begin_s: float) -> None:
        self._url, self._begin_s = url, begin_s

    def get(self, path: str, **parameters: str) -> Any:
        """What it answers.

        Raises:
            RunError: it refuses.
        """
        body = urllib.parse.urlencode(parameters).encode()
        try:
            with urllib.request.urlopen(f"{self._url}/api/v1/{path}", body or None, timeout=60.0) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise RunError(f"Prometheus refuses {parameters}: {error.read(500).decode(errors='replace')}") from error

    def series(self, expression: str) -> int:
        """How many series answered a number at some time since the beginning."""
        span = {"start": f"{self._begin_s:.0f}", "end": f"{time.time():.0f}", "step": str(SCRAPE_S)}
        found = self.get("query_range", query=expression, **span)["result"]
        return sum(any(value != "NaN" for _, value in one["values"]) for one in found)


def main(argv: list[str]) -> int:
    """Ask all; 1 where something does not answer."""
    made = argparse.ArgumentParser(
        prog="experiments.panels",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--keep", metavar="DIR", type=Path, help="keep what the processes said in this folder")
    options = made.parse_args(argv)
    with contextlib.ExitStack() as held:
        folder = options.keep or Path(held.enter_context(tempfile.TemporaryDirectory(prefix="paceline-panels-")))
        folder.mkdir(parents=True, exist_ok=True)
        began_s = time.time()
        try:
            broken = _asked(held.enter_context(stack(folder)), began_s)
        except RunError as error:
            say(str(error))
            return 1
    for words in broken:
        say(f"BROKEN: {words}")
    say(f"{len(broken)} broken, in {time.time() - began_s:.0f} s")
    return 1 if broken else 0


def _asked(there: Stack, began_s: float) -> list[str]:
    """What did not answer."""
    server = Prometheus(there.prometheus, began_s)
    wanted = [*asked.of_dashboards(JOB), *asked.recorded()]
    say(f"{len(wanted)} expressions, Prometheus at {there.prometheus}")
    counts = _until_all_answer(there, server, wanted)
    for one in wanted:
        print(f"{counts[one]:5d}  {one.where}  {one.expression}")
    broken = [f"{one.where}: nothing answers {one.expression}" for one in wanted if not counts[one]]
    return [*broken, *_unknown(server), *_down(server), *_told_twice(there)]


def _until_all_answer(there: Stack, server: Prometheus, wanted: list[Asked]) -> dict[Asked, int]:
    """Series by expression, when all have answered or patience has ended; troubles go on meanwhile."""
    counts = dict.fromkeys(wanted, 0)
    end_s, sequence = time.monotonic() + PATIENCE_S, 0
    troubles.spoil(there.settings)
    while time.monotonic() < end_s and not all(counts.values()):
        try:
            troubles.send(there.settings, sequence)
            sequence += 3
        except BusError as error:  # A busy machine; the next turn tries again.
            say(f"no troubles sent in this turn: {error}")
        # Somebody asks the forecaster, so that its answers take some time.
        with urllib.request.urlopen(f"{there.forecaster}/healthz", timeout=30.0) as answer:
            answer.read()
        time.sleep(2 * SCRAPE_S)
        for one in wanted:
            counts[one] = counts[one] or server.series(one.expression)
        missing = [one.where for one, count in counts.items() if not count]
        say(f"{len(missing)} do not answer yet: {', '.join(missing[:4])}")
    return {one: server.series(one.expression) for one in wanted}


def _unknown(server: Prometheus) -> list[str]:
    """Metrics that alerts name and nobody tells."""
    known = set(server.get("label/__name__/values"))
    return [
        f"{one.where} asks for {name}, which nobody tells"
        for one in asked.alerted()
        for name in asked.metrics(one.expression)
        if name not in known
    ]


def _down(server: Prometheus) -> list[str]:
    """Targets that did not answer, and rules that failed."""
    targets = server.get("targets")["activeTargets"]
    down = [f"{one['scrapeUrl']}: {one['lastError']}" for one in targets if one["health"] != "up"]
    rules = [rule for group in server.get("rules")["groups"] for rule in group["rules"]]
    return [*down, *(f"{one['name']}: {one['lastError']}" for one in rules if one["health"] != "ok")]


def _told_twice(there: Stack) -> list[str]:
    """A finding that both `paceline alerts` and a rule tell: there must be one, and the rule's be kept back."""
    end_s = time.monotonic() + RULES_S
    both: list[dict[str, Any]] = []
    while time.monotonic() < end_s and not both:
        time.sleep(SCRAPE_S)
        with urllib.request.urlopen(f"{there.alertmanager}/api/v2/alerts", timeout=30.0) as answer:
            alerts = json.load(answer)
        told = {_subject(one) for one in alerts if one["labels"].get("source") == "finding"}
        both = [one for one in alerts if one["labels"].get("source") == "rule" and _subject(one) in told]
    say(f"{len(both)} findings came to Alertmanager by both ways")
    loud = [f"told twice: {one['labels']}" for one in both if not one["status"]["inhibitedBy"]]
    return loud if both else ["no finding came to Alertmanager by both ways"]


def _subject(alert: dict[str, Any]) -> tuple[str | None, ...]:
    return tuple(alert["labels"].get(name) for name in ("job", "node", "kind"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
