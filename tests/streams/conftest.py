"""Made-up training runs and samples, seeded, so the same arguments give the same events; and real workers."""

import contextlib
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import pytest

from paceline import columns
from paceline.events import (
    BalanceObserved,
    CollectiveCalls,
    CollectiveSums,
    Column,
    DeviceProcess,
    DeviceSamples,
    HostSamples,
    NodeDescribed,
    RankFacts,
    Speakers,
    StepTimings,
)
from paceline.kafka import clients, embedded
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.topic_admin import ensure_topics
from paceline.wire import sample_columns
from streams.balance.job_balance import JobBalance
from streams.ingest.collective_batch import CollectiveBatch, collective_batch
from streams.ingest.coverage import CoverageTracker
from tests.balanced_job import BalancedJob
from tests.rated_nodes import described, speed
from tests.streams.real_workers import Workers
from tests.timings import speakers

#: Shares of a healthy step. Rank-independent, so that nobody stands out.
SHARES = {"data": 0.05, "forward": 0.3, "backward": 0.3, "optimizer": 0.05, "communication": 0.3}


def training(
    ranks: int = 4,
    nodes: int = 2,
    seconds: int = 30,
    step_s: float = 0.1,
    slow: int | None = None,
    slow_from_s: int = 10,
    skew_s: float = 0.0,
    job: str = "job",
    t0_s: float = 1_700_000_000.0,
    silent: tuple[int, ...] = (),
    seed: int = 1,
) -> list[StepTimings]:
    """One batch a node and second. From ``slow_from_s`` on, rank ``slow`` computes half as long again."""
    dice = random.Random(seed)
    share = ranks // nodes
    steps = round(1 / step_s)
    made = []
    for second in range(seconds):
        lost_s = 0.3 * step_s if second >= slow_from_s and slow is not None else 0.0
        for node in range(nodes):
            mine = [rank for rank in range(node * share, (node + 1) * share) if rank not in silent]
            rows = [(rank, number) for number in range(steps) for rank in mine]
            parts = [_step(dice, rank == slow, step_s, lost_s) for rank, _ in rows]
            made.append(
                StepTimings(
                    cluster="c",
                    producer=f"{job}-{node}",
                    sequence=second,
                    job=job,
                    attempt=0,
                    node=f"node-{node}",
                    t0_s=t0_s + second + node * skew_s,
                    speakers=speakers(mine, ranks),
                    rank=columns.whole([rank for rank, _ in rows]),
                    step=columns.whole([second * steps + number for _, number in rows]),
                    start_s=_exact([round(number * step_s, 6) for _, number in rows]),
                    step_s=_exact([round(step_s + lost_s, 6)] * len(rows)),
                    phases={name: _exact([part[name] for part in parts]) for name in SHARES},
                )
            )
    return made


def _step(dice: random.Random, slow: bool, step_s: float, lost_s: float) -> dict[str, float]:
    """Seconds by phase; ``lost_s`` is what the slow rank takes longer, and the others wait."""
    parts = {}
    for name, share in SHARES.items():
        duration_s = share * step_s * (1 + 0.02 * dice.random())
        if name == "forward" and slow:
            duration_s += lost_s
        elif name == "communication":
            duration_s = 0.02 * step_s if slow and lost_s else duration_s + lost_s
        parts[name] = round(duration_s, 6)
    return parts


def _exact(seconds: Sequence[float]) -> Column:
    return columns.encoded("f8", seconds)


def device_samples(seconds: int = 90, **columns: list[object]) -> list[DeviceSamples]:
    """One message a second of a node with two GPUs. What ``columns`` does not give was not measured."""
    lists = {name: [None, None] for name in sample_columns(DeviceSamples)}
    return [
        DeviceSamples(
            cluster="c",
            producer="collector",
            sequence=second,
            node="node-0",
            t0_s=1_700_000_000.0 + second,
            uuids=["GPU-a", "GPU-b"],
            **{**lists, "device": [0, 1], "time_s": [0.25, 0.25], **columns},
        )
        for second in range(seconds)
    ]


def metered_samples(seconds: int = 90, reset_s: int | None = 31) -> list[DeviceSamples]:
    """A node with two GPUs of 300 and 500 W whose counters start again at ``reset_s``: the first has two jobs."""
    jobs = [("a", 0, 30), ("b", 0, 10), ("b", 1, 20)]
    users = [
        DeviceProcess(device=gpu, pid=pid, name="python", used_bytes=used, job=job)
        for pid, (job, gpu, used) in enumerate(jobs)
    ]
    made = []
    for second, event in enumerate(device_samples(seconds, power_w=[300.0, 500.0], power_limit_w=[700.0, 700.0])):
        since = reset_s if reset_s is not None and second >= reset_s else -1000
        counted = [watts * (second - since) for watts in (300.0, 500.0)]
        made.append(msgspec.structs.replace(event, energy_j=counted, processes=users))
    return made


def facts(seconds: int = 24, ranks: int = 8, odd: int | None = None) -> list[StepTimings]:
    """What the ranks of two nodes say of themselves, one a second; now and then ``odd`` has another NCCL."""
    half = ranks // 2
    made = []
    for number in range(seconds):
        own = list(range(half)) if number % 2 == 0 else list(range(half, ranks))
        versions = ["2.19.3" if rank == odd and number // 4 % 2 else "2.27.5" for rank in own]
        words = {"nccl_version": versions, "transport_inside": ["P2P/CUMEM" if rank % 2 else "SHM" for rank in own]}
        made.append(
            StepTimings(
                cluster="c",
                producer=f"sidecar-{number % 2}",
                sequence=number // 2,
                job="job",
                attempt=0,
                node=f"node-{number % 2}",
                t0_s=1_700_000_000.0 + number,
                speakers=Speakers(
                    ranks=columns.whole(own), world_sizes=columns.whole([ranks] * half), devices=[""] * half
                ),
                rank=columns.whole([]),
                step=columns.whole([]),
                start_s=columns.encoded("f8", []),
                step_s=columns.encoded("f8", []),
                phases={},
                facts=RankFacts(ranks=own, words=words),
            )
        )
    return made


def host_samples(seconds: int = 90, **columns: list[object]) -> list[HostSamples]:
    """One message a second of a host. What ``columns`` does not give was not measured."""
    lists = {name: [None] for name in sample_columns(HostSamples)}
    return [
        HostSamples(
            cluster="c",
            producer="collector",
            sequence=second,
            node="node-0",
            t0_s=1_700_000_000.0 + second,
            **{**lists, "time_s": [0.25], "cpu_ratio_per_core": [[]], **columns},
        )
        for second in range(seconds)
    ]


def calls(
    rows: list[tuple[int, int, float, float]],
    *,
    members: int,
    operation: str = "all_reduce",
    group: str = "default",
    size: int = 1 << 20,
    sequence: int = 0,
) -> CollectiveCalls:
    """A message with one group's collectives: (rank, number, start, wait) a row; the step is the number."""
    nothing = columns.whole([0] * len(rows))
    return CollectiveCalls(
        cluster="default",
        producer="sidecar-0",
        sequence=sequence,
        job="job",
        attempt=0,
        node="node-0",
        phases=True,
        t0_s=0.0,
        speakers=speakers(range(members), members),
        groups=[group],
        group_sizes=columns.whole([members]),
        operations=[operation],
        rank=columns.whole([row[0] for row in rows]),
        step=columns.whole([row[1] for row in rows]),
        seq=columns.whole([row[1] for row in rows]),
        group=nothing,
        operation=nothing,
        bytes=columns.whole([size] * len(rows)),
        start_s=_exact([row[2] for row in rows]),
        duration_s=_exact([row[3] for row in rows]),
        wait_s=_exact([row[3] for row in rows]),
    )


def summed_calls(
    *rows: tuple[int, int, int, int, int, float, float],
    groups: Sequence[str] = ("world",),
    operations: Sequence[str] = ("all_reduce", "barrier"),
    members: int = 4,
) -> StepTimings:
    """What a node of so many ``members`` sums: (step, group, operation, calls, bytes, wait, duration) a row."""
    step, group, operation, calls, size, wait_s, took_s = zip(*rows, strict=True) if rows else ((),) * 7
    nothing = columns.whole([])
    part = CollectiveSums(
        groups=list(groups),
        group_sizes=columns.whole([8] * len(groups)),
        operations=list(operations),
        step=columns.whole(step),
        group=columns.whole(group),
        operation=columns.whole(operation),
        count=columns.whole(calls),
        members=columns.whole([members] * len(step)),
        bytes=columns.whole(size),
        wait_s=columns.encoded("f8", wait_s),
        duration_s=columns.encoded("f8", took_s),
        reached_rank=nothing,
        reached_group=nothing,
        reached_seq=nothing,
        span_rank=nothing,
        span_first_s=nothing,
        span_last_s=nothing,
        span_waited_s=nothing,
    )
    return StepTimings(
        cluster="c",
        producer="p",
        sequence=0,
        job="job",
        attempt=0,
        node="node-0",
        t0_s=0.0,
        speakers=Speakers(ranks=nothing, world_sizes=nothing, devices=[]),
        rank=nothing,
        step=nothing,
        start_s=nothing,
        step_s=nothing,
        phases={},
        collectives=part,
    )


def joined(*messages: CollectiveCalls | StepTimings) -> CollectiveBatch:
    """Messages as the one batch that the detectors see."""
    return collective_batch(messages, CoverageTracker())


def observations(seconds: int = 60, slow_from_s: int | None = 20) -> list[BalanceObserved]:
    """What a balanced job tells, second by second; its ranks follow the plans that it is proposed."""
    job, decision, made = BalancedJob(), JobBalance(), []
    for second in range(seconds):
        if second == slow_from_s:
            job.speeds[3] /= 3
        made.append(job.observed())
        for plan in decision.update(made[-1]):
            job.follow(plan)
    return made


def ratings(seconds: int = 60, nodes: int = 5, slow: int | None = 2) -> list[NodeDescribed]:
    """What nodes tell in turn, one a second; node ``slow`` does less when it is measured again, and later as before."""
    made = []
    for second in range(seconds):
        at, turn = second % nodes, second // nodes
        value = 60e9 if at == slow and turn % 3 == 1 else 100e9
        rated = [speed("cpu", "gemm_float32", value, turn), speed("cpu", "memory_triad", 2e10, turn, unit="bytes/s")]
        made.append(described(f"node-{at}", turn, rated, time_s=second))
    return made


@pytest.fixture(scope="session")
def make_ratings() -> Callable[..., list[NodeDescribed]]:
    return ratings


@pytest.fixture(scope="session")
def make_training() -> Callable[..., list[StepTimings]]:
    return training


@pytest.fixture
def make_device_samples() -> Callable[..., list[DeviceSamples]]:
    return device_samples


@pytest.fixture
def make_metered_samples() -> Callable[..., list[DeviceSamples]]:
    return metered_samples


@pytest.fixture
def make_facts() -> Callable[..., list[StepTimings]]:
    return facts


@pytest.fixture
def make_observations() -> Callable[..., list[BalanceObserved]]:
    return observations


@pytest.fixture
def make_host_samples() -> Callable[..., list[HostSamples]]:
    return host_samples


@pytest.fixture
def workers(broker, until, tmp_path) -> Iterator[Workers]:
    made = Workers(broker, until, tmp_path / "worker.log")
    yield made
    made.end()


EACH = [pytest.param("embedded_broker", marks=pytest.mark.bus), pytest.param("apache_kafka", marks=pytest.mark.bus)]


@pytest.fixture(scope="class", params=EACH, ids=["embedded", "apache"])
def one_worker(
    request: pytest.FixtureRequest, until, tmp_path_factory: pytest.TempPathFactory, worker_port: int
) -> Iterator[Workers]:
    """A worker on each of the two brokers in turn, which the tests of a class share: none of them ends it."""
    settings = BrokerSettings().with_brokers(request.getfixturevalue(request.param).address)
    ensure_topics(settings)
    made = Workers(settings, until, tmp_path_factory.mktemp("one-worker") / "worker.log")
    made.start("--web-port", str(worker_port))
    yield made
    made.end()


@pytest.fixture(scope="class")
def worker_port(free_port: Callable[[], int]) -> int:
    """Where ``one_worker`` tells of itself."""
    return free_port()


@pytest.fixture
def apache_workers(apache_kafka, until, tmp_path) -> Iterator[Workers]:
    ensure_topics(apache_kafka.settings)
    made = Workers(apache_kafka.settings, until, tmp_path / "worker.log")
    yield made
    made.end()


@pytest.fixture(scope="module")
def own_kafka(new_apache_kafka_of_module: Callable[..., Any]) -> BrokerSettings:
    """Apache Kafka for a file's tests, one after the other: it takes far longer to start than to be emptied."""
    settings: BrokerSettings = new_apache_kafka_of_module().start().settings
    return settings


def emptied(settings: BrokerSettings) -> bool:
    """Delete all topics and groups; whether there are none, for a group stays until its last member is gone."""
    with contextlib.closing(clients.admin(settings)) as admin:
        groups = [group["group_id"] for group in admin.list_groups()]
        names = [name for name in admin.list_topics() if not name.startswith("__")]
        if groups:
            admin.delete_groups(groups)
        if names:
            admin.delete_topics(names, raise_errors=False)
    return not groups and not names


@pytest.fixture(params=EACH, ids=["embedded", "apache"])
def own_workers(request: pytest.FixtureRequest, until, tmp_path) -> Iterator[Workers]:
    """Workers on a broker where nobody else is and nothing is left of others, whose topics the test may delete."""
    with contextlib.ExitStack() as stack:
        if request.param == "apache_kafka":
            settings = request.getfixturevalue("own_kafka")
            until(lambda: emptied(settings))
        else:
            settings = BrokerSettings().with_brokers(stack.enter_context(embedded.start()).address)
        ensure_topics(settings)
        made = Workers(settings, until, tmp_path / "worker.log")
        stack.callback(made.end)
        yield made


@pytest.fixture
def make_calls() -> Callable[..., CollectiveCalls]:
    """Makes one message of collectives."""
    return calls


@pytest.fixture
def join() -> Callable[..., CollectiveBatch]:
    """Makes the batch that the detectors see of a few messages."""
    return joined


@pytest.fixture
def make_summed() -> Callable[..., StepTimings]:
    """See ``summed_calls``."""
    return summed_calls
