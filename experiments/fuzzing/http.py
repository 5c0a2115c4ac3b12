"""HTTP: requests that OpenAPI allows and that it does not, to every route of forecaster and control, in process.

    python -m experiments.fuzzing.http "http forecaster POST /v1/forecast" 20000

Rule of this file: whatever is sent to any route, the answer is one that OpenAPI declares, and never a server error.
Most requests hold the token, and half of them names of things that are there: what is behind shall be reached.
"""

import atexit
import os
import random
import shutil
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from fastapi import FastAPI
from hypothesis import HealthCheck, given, seed, settings

from control.api import app as control_app
from control.api import captures, gswarm, jobs, sessions, suggestions
from control.book import Book
from control.captures import CaptureBook
from control.changes import SessionChanges, Teller
from control.launcher import Launcher
from control.meters import Meters
from control.outgoing import Outgoing
from control.sessions.folder import SessionFolder
from control.sessions.manifest import Definition
from control.sessions.store import SessionStore
from forecaster.api.app import application
from forecaster.api.executor import ForecastExecutor
from forecaster.memory import Memory
from forecaster.models.registry import shipped
from paceline import wire
from paceline.delivery.publisher import Publisher
from paceline.events import BalancePlan, JobDescribed, Suggestion
from paceline.settings import CONTROL_TOKEN
from paceline.topics import JOB, PLAN, SUGGESTION, Topic
from paceline.web.token import guard

if TYPE_CHECKING:  # It takes half a second, which those who only want the routes' names need not spend.
    import schemathesis

TOKEN = "let-me-in"
GOLDEN = Path(__file__).parents[2] / "tests" / "paceline" / "golden"


def _golden(topic: Topic, kind: type) -> Any:
    return wire.decode(topic, sorted(GOLDEN.glob(f"*/{kind.__name__}.json"))[-1].read_bytes())


SUGGESTED, DESCRIBED, PLANNED = _golden(SUGGESTION, Suggestion), _golden(JOB, JobDescribed), _golden(PLAN, BalancePlan)
#: What control knows of, by the name of a path's parameter.
KNOWN = {
    "name": ("left", "recorded", "held"),
    "id": (SUGGESTED.id,),
    "said": ("accept", "dismiss"),
    "job": (PLANNED.job, DESCRIBED.job),
}


class _Nowhere:
    """In place of a publisher: what it is given is an event."""

    def publish(self, topic: Topic, event: Any) -> None:
        """Take an event."""
        wire.decode(topic, wire.encode(event))

    def publish_encoded(self, topic: str, key: str, value: bytes) -> None:
        """Take what is an event already, or none."""


class _NoRecorders(Launcher):
    """Sessions are recorded by nobody: every third is left by its recorder at once."""

    def __init__(self) -> None:
        super().__init__({}, None)
        self._locks: list[int] = []
        self._started = 0

    def start(self, folder: SessionFolder, *, finish: bool = False) -> None:
        """Take the lock, as a recorder does."""
        lock = folder.take_lock()
        self._started += 1
        if self._started % 3 == 1:
            os.close(lock)
        else:
            self._locks.append(lock)


def forecaster() -> FastAPI:
    """The forecaster with its shipped models and no bus."""
    return application(ForecastExecutor(shipped(), 1), Memory(), TOKEN)


def control() -> FastAPI:
    """Control without a bus, which knows of a suggestion and of a job whose batches are shared out."""
    book, traces = Book(), CaptureBook()
    for topic, event in ((SUGGESTION, SUGGESTED), (JOB, DESCRIBED), (PLAN, PLANNED)):
        book.update(topic, wire.key_of(topic, event) or "", event, wire.encode(event), 0.0)
    outgoing = Outgoing(cast(Publisher, _Nowhere()), "default", lambda: None)
    folder = tempfile.mkdtemp(prefix="paceline-fuzz-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    store, recorders = SessionStore(Path(folder)), _NoRecorders()
    for name in KNOWN["name"]:
        recorders.start(store.create(Definition(name=name, id=name, cluster="default", started_s=0.0), "here"))
    changes = SessionChanges(store, recorders, book, Teller(outgoing.session, outgoing.audit, outgoing.check))
    allowed = guard(TOKEN, CONTROL_TOKEN)
    routers = [
        sessions.router(changes, book, sessions.Reading(store, threading.Event(), time.monotonic), "default", allowed),
        suggestions.router(book, outgoing, allowed),
        jobs.router(book, outgoing, "default", allowed, lambda name, value: None),
        captures.router(traces, book, outgoing, "default", allowed),
        gswarm.router(book, changes, "default", allowed),
    ]
    meters = Meters(lambda: True, lambda: 0, changes.states, changes.here)
    return control_app.application(control_app.Parts(routers, lambda: None, meters))


SERVICES = {"forecaster": forecaster, "control": control}


def names() -> list[str]:
    """A target for each route and method that each service declares."""
    return [
        _name(service, method, path)
        for service, made in SERVICES.items()
        for path, methods in made().openapi()["paths"].items()
        for method in methods
    ]


def operations(service: str, schema: Any) -> dict[str, Any]:
    """The operations of a service's schema that schemathesis has loaded, by the names of their targets."""
    found = [result.ok() for result in schema.get_all_operations()]
    return {_name(service, operation.method, operation.path): operation for operation in found}


def ask(operation: Any, requests: int, number: int) -> int:
    """Send ``requests`` to a route, seeded by ``number``; how many were sent.

    Raises:
        BaseException: an answer that the interface does not declare, with the request that led to it.
    """
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

    checks = [not_a_server_error, response_schema_conformance, status_code_conformance]
    sent = 0

    @seed(number)
    @settings(max_examples=requests, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy())
    def keeps_its_word(case: "schemathesis.Case[Any]") -> None:
        nonlocal sent
        sent += 1
        if sent % 2:
            for name in {*KNOWN} & {*(case.path_parameters or ())}:
                case.path_parameters[name] = KNOWN[name][sent // 2 % len(KNOWN[name])]
        bearer = {"Authorization": f"Bearer {TOKEN}"} if sent % 8 else None
        # Its own limit is 10 s: half a million numbers take longer where the processors are shared.
        case.call_and_validate(checks=checks, headers=bearer, timeout=120)

    keeps_its_word()
    return sent


def _name(service: str, method: str, path: str) -> str:
    return f"http {service} {method.upper()} {path}"


def main(name: str, requests: int) -> None:
    """Ask one route of a service of its own."""
    import schemathesis

    number = random.SystemRandom().randrange(2**32)
    print(f"seed {number}", flush=True)
    service = name.split()[1]
    operation = operations(service, schemathesis.openapi.from_asgi("/openapi.json", SERVICES[service]()))[name]
    print(f"{ask(operation, requests, number)} requests")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(sys.argv[1], int(sys.argv[2]))
