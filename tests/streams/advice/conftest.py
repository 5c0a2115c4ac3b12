"""Simulated jobs and fleets, and windows by hand, through the processor and the advice."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
import pytest

from paceline.events import Command, DeviceWindow, Event, Finding, JobWindow
from paceline.events.suggestions import Suggestion
from simulator.fault import parse
from simulator.job import Job
from simulator.spec import Spec
from streams.advice.advice import Advice
from streams.processor import Processor
from streams.routes import ROUTES

NOW_S = 1_800_000_000.0


class Told:
    """An advice, and all that it said; ``decide`` accepts or dismisses what is new at once."""

    def __init__(self, advice: Advice | None = None, decide: str = "") -> None:
        self.advice = advice or Advice()
        self.decide = decide
        self.said: list[Suggestion] = []

    def tell(self, event: Event) -> list[Suggestion]:
        said = self.advice.update(event)
        self.said += said
        for one in said:
            if self.decide and one.state == "new":
                self.command(one, self.decide)
        return said

    def command(self, one: Suggestion, action: str, because: str = "as you say", name: str = "1") -> list[Suggestion]:
        return self.tell(
            Command(
                id=name,
                cluster=one.cluster,
                target=f"suggestion:{one.id}",
                action=action,
                arguments={"because": because},
                expires_s=0.0,
                issuer="ada",
            )
        )

    def conclude(self) -> None:
        self.said += self.advice.conclude()

    def last(self) -> dict[str, Suggestion]:
        """Every suggestion as it was told last."""
        return {one.id: one for one in self.said}

    def open(self) -> list[str]:
        """The actions of what is not over."""
        return sorted(one.action for one in self.last().values() if one.state in ("new", "accepted", "applied"))

    def states(self) -> list[tuple[str, str]]:
        return [(one.action, one.state) for one in self.said]


def derived(messages: Iterable[Any]) -> Iterator[Event]:
    """What nodes and jobs say, and what the processor makes of it."""
    processor = Processor()
    for message in messages:
        yield message.event
        if message.topic.name in ROUTES:
            yield from (event for _, event in processor.update(message.topic, message.event))
    yield from (event for _, event in processor.finish())


@pytest.fixture
def told() -> Callable[..., Told]:
    return Told


@pytest.fixture(scope="session")
def events_of() -> Callable[..., list[Event]]:
    """All events of a simulated job with these faults; the same job is simulated and judged once."""
    made: dict[str, tuple[Event, ...]] = {}

    def make(*faults: str, **shape: Any) -> list[Event]:
        spec = Spec(**{"ranks": 16, "steps": 120, "faults": tuple(map(parse, faults)), **shape})
        if repr(spec) not in made:
            made[repr(spec)] = tuple(derived(Job(spec).messages()))
        return list(made[repr(spec)])

    return make


@pytest.fixture
def events_in() -> Callable[[Iterable[Any]], Iterator[Event]]:
    return derived


@pytest.fixture
def make_hour() -> Callable[..., Iterator[DeviceWindow]]:
    """Windows of a minute of a job's GPUs, minute by minute; ``busy`` and ``columns``: of the minute and the GPU."""

    def make(
        job: str = "llama",
        busy: float | Callable[[int, int], float] = 0.2,
        *,
        gpus: int = 8,
        minutes: int = 62,
        node: str = "gpu-0",
        ahead_s: float = 0.0,
        first: int = 0,
        **columns: float,
    ) -> Iterator[DeviceWindow]:
        for minute in range(first, first + minutes):
            for gpu in range(gpus):
                used = busy if isinstance(busy, float) else busy(minute, gpu)
                mean = {"utilization_ratio": used, "fb_used_bytes": 56e9, "fb_total_bytes": 80e9, **columns}
                yield DeviceWindow(
                    cluster="c",
                    start_s=NOW_S + ahead_s + 60.0 * minute,
                    length_s=60.0,
                    node=node,
                    device=f"GPU-{node}-{gpu}",
                    samples=6,
                    mean=mean,
                    max=mean,
                    job=job,
                )

    return make


@pytest.fixture
def make_pace() -> Callable[..., JobWindow]:
    """Ten seconds of a job's steps."""

    def make(number: int = 0, step_s: float = 0.5, job: str = "llama", attempt: int = 0) -> JobWindow:
        return JobWindow(
            cluster="c",
            start_s=NOW_S + 10.0 * number,
            length_s=10.0,
            job=job,
            attempt=attempt,
            ranks=8,
            steps=int(10 / step_s),
            first_step=0,
            last_step=0,
            step_median_s=step_s,
            step_p95_s=step_s,
            own_median_s=step_s,
            own_worst_s=step_s,
            worst_rank=0,
            wait_ratio=None,
            phase_median_s={},
        )

    return make


@pytest.fixture
def make_finding() -> Callable[..., Finding]:
    """A confirmed finding; its id is a function of the arguments that tell it apart."""

    def make(kind: str = "straggler", cause: str = "input_pipeline", **changes: Any) -> Finding:
        job, node = changes.get("job", "llama"), changes.get("node", "gpu-0")
        plain = {
            "id": changes.get("id", f"{kind}-{cause}-{job}-{node}"),
            "revision": 1,
            "kind": kind,
            "state": "confirmed",
            "cluster": "c",
            "job": job,
            "attempt": 0,
            "cause": cause,
            "ranks": [3],
            "stage": None,
            "group": None,
            "nodes": [node],
            "devices": ["cuda:3"],
            "first_step": 60,
            "last_step": 90,
            "severity": "warning",
            "confidence": 0.95,
            "cost": {"lost_s": 6.0, "gpu_hours": 0.013, "throughput_lost_ratio": 0.2},
            "coverage": {"ranks_expected": 8, "ranks_heard": 8, "events_missing": 0},
            "evidence": [{"name": "excess", "value": 0.25, "unit": "ratio", "peers": None, "rule": "from 0.05"}],
            "exonerated": [],
            "summary": f"Rank 3 on {node} works 600 ms a step where its peers work 460 ms, since step 60.",
        }
        changes.pop("node", None)
        return msgspec.convert({**plain, **changes}, Finding)

    return make
