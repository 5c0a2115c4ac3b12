"""A real worker on a real broker: from produced batches to findings, killed, shared between two, and fed nonsense."""

import base64
import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import msgspec
import pytest

from paceline import topics, wire
from paceline.events import DeliveryAccount
from paceline.kafka import clients, embedded
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.topic_admin import describe_topics, ensure_topics
from streams.processor import Processor

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


class Workers:
    """Starts workers as their users do, and reads what they publish."""

    def __init__(self, settings: BrokerSettings, until: Callable[..., None], log_path) -> None:
        self.settings = settings
        self.until = until
        self.processes: list[subprocess.Popen[bytes]] = []
        self.log = log_path.open("ab")
        self.reader = clients.consumer(settings, topics.FINDING, topics.DEADLETTER, from_beginning=True)
        self.seen: list[tuple[str, dict[str, object]]] = []

    def start(self, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "streams", "--brokers", self.settings.address, *options]
        self.processes.append(subprocess.Popen(command, stdout=self.log, stderr=self.log))
        return self.processes[-1]

    def produce(self, events, topic=topics.OP) -> None:
        producer = clients.producer(self.settings, "test")
        for event in events:
            producer.send(topic.name, key=event.job.encode(), value=wire.encode(event))
        producer.flush()
        producer.close()

    def produce_raw(self, topic, key, value) -> None:
        producer = clients.producer(self.settings, "test")
        producer.send(topic.name, key=key, value=value).get(20)
        producer.close()

    def read(self) -> None:
        for records in self.reader.poll(timeout_ms=200).values():
            self.seen += [(record.topic, json.loads(record.value)) for record in records]

    def findings(self, *jobs: str) -> list[dict[str, object]]:
        """What was published on ``jobs``, in order, repetitions included."""
        self.read()
        return [value for topic, value in self.seen if topic == topics.FINDING.name and value["job"] in jobs]

    def dead_letters(self) -> list[dict[str, object]]:
        self.read()
        return [value for topic, value in self.seen if topic == topics.DEADLETTER.name]

    def put_aside(self) -> list[bytes]:
        """The first bytes of what went to the dead letters."""
        return [base64.b64decode(letter["excerpt"]) for letter in self.dead_letters()]

    def said(self) -> str:
        """What the workers logged."""
        return Path(self.log.name).read_text(errors="replace")

    def end(self) -> None:
        self.reader.close()
        for process in self.processes:
            process.terminate()
            process.wait()
        self.log.close()


@pytest.fixture
def workers(broker, until, tmp_path) -> Iterator[Workers]:
    made = Workers(broker, until, tmp_path / "worker.log")
    yield made
    made.end()


@pytest.fixture
def apache_workers(apache_kafka, until, tmp_path) -> Iterator[Workers]:
    ensure_topics(apache_kafka.settings)
    made = Workers(apache_kafka.settings, until, tmp_path / "worker.log")
    yield made
    made.end()


def expected(events) -> list[dict[str, object]]:
    """The findings of an uninterrupted run of the same code, in process."""
    processor = Processor()
    found = [
        found for event in events for topic, found in processor.update(topics.OP, event) if topic == topics.FINDING
    ]
    return [json.loads(wire.encode(finding)) for finding in found]


def upserted(findings) -> list[dict[str, object]]:
    """What a consumer holds that upserts by id and revision; repetitions must say the same."""
    kept: dict[tuple[object, object], dict[str, object]] = {}
    for finding in findings:
        key = (finding["id"], finding["revision"])
        assert kept.setdefault(key, finding) == finding, "a repeated revision says something else"
    return list(kept.values())


def test_from_batches_to_findings(workers, make_training, request):
    """What a worker publishes on the bus is what the processor says in process.

    Nonsense in between goes aside, and so does a well-formed event whose numbers no machine can hold; their jobs go on.
    """
    job, other = f"plain-{request.node.name}", f"huge-{request.node.name}"
    events, others = make_training(job=job, slow=2, seconds=25), make_training(job=other, slow=3, seconds=25)
    huge = msgspec.structs.replace(others[0], producer="odd", step=[2**80] * len(others[0].step))
    workers.start()
    workers.produce([*others[:10], huge, *others[10:]])
    workers.produce(events[:20])
    nonsense = [b'{"job": nonsense ' + job.encode(), b"\xff\x00" + job.encode()]
    workers.produce_raw(topics.OP, job.encode(), nonsense[0])
    workers.produce_raw(topics.OP, None, nonsense[1])
    workers.produce(events[20:])
    wanted = expected(events)
    assert wanted
    workers.until(lambda: len(workers.findings(job)) >= len(wanted))
    assert upserted(workers.findings(job)) == wanted
    # Other tests leave letters of their own on this broker.
    excerpts = {base64.b64encode(message).decode() for message in nonsense}
    workers.until(lambda: excerpts <= {letter["excerpt"] for letter in workers.dead_letters()})
    letters = [letter for letter in workers.dead_letters() if letter["excerpt"] in excerpts]
    assert {letter["topic"] for letter in letters} == {topics.OP.name}
    assert all(letter["reason"] and letter["offset"] >= 0 for letter in letters)
    workers.until(lambda: len(workers.findings(other)) >= len(expected(others)))
    assert upserted(workers.findings(other)) == expected(others)
    workers.until(lambda: any(other.encode() in message for message in workers.put_aside()))


def test_sigterm_ends_it_in_good_order(workers, make_training, request, free_port):
    """SIGTERM: everything is stored and committed, status 0; the next worker reads nothing again."""
    job = f"term-{request.node.name}"
    events = make_training(job=job, slow=1, seconds=25)
    first = workers.start()
    workers.produce(events)
    wanted = expected(events)
    workers.until(lambda: len(workers.findings(job)) >= len(wanted))
    first.terminate()
    assert first.wait() == 0
    workers.start("--web-port", str(port := free_port()))
    workers.until(lambda: _ready(port))
    more = make_training(job=job + "-next", slow=1, seconds=25)
    workers.produce(more)
    workers.until(lambda: len(workers.findings(job + "-next")) >= len(expected(more)))
    assert workers.findings(job) == wanted
    assert "made again" not in workers.said()
    shown = f'paceline_step_seconds{{training_job="{job}-next"}} '
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        assert shown in answer.read().decode()


def test_killed_in_the_middle_it_loses_nothing(apache_workers, make_training):
    """kill -9 of the worker, twice: no finding is lost; one said again has the same id, revision and content."""
    workers = apache_workers
    jobs = ["killed-a", "killed-b", "killed-c"]
    runs = {job: make_training(job=job, slow=number, seconds=40, seed=number) for number, job in enumerate(jobs)}
    wanted = {job: expected(events) for job, events in runs.items()}
    mixed = [event for row in zip(*runs.values(), strict=True) for event in row]
    workers.start()
    workers.produce(mixed[:80])
    for job in jobs:
        workers.until(lambda job=job: workers.findings(job))
    workers.processes[-1].kill()
    workers.produce(mixed[80:150])
    workers.start()
    known = len(workers.findings(*jobs))
    workers.until(lambda: len(workers.findings(*jobs)) > known)
    workers.processes[-1].kill()
    workers.produce(mixed[150:])
    workers.start()
    for job in jobs:
        workers.until(lambda job=job: len(upserted(workers.findings(job))) >= len(wanted[job]))
        assert upserted(workers.findings(job)) == wanted[job]


def test_two_workers_say_what_one_says(workers, make_training, request, free_port):
    """A second worker joins in the middle; together they find what one alone would have found."""
    jobs = [f"shared-{number}-{request.node.name}" for number in range(6)]
    runs = {job: make_training(job=job, slow=number % 4, seconds=30, seed=number) for number, job in enumerate(jobs)}
    mixed = [event for row in zip(*runs.values(), strict=True) for event in row]
    workers.start()
    workers.produce(mixed[:150])
    workers.until(lambda: workers.findings(*jobs))
    workers.start("--web-port", str(port := free_port()))
    workers.until(lambda: _ready(port))
    workers.produce(mixed[150:])
    for job in jobs:
        wanted = expected(runs[job])
        workers.until(lambda job=job, wanted=wanted: len(upserted(workers.findings(job))) >= len(wanted))
        assert upserted(workers.findings(job)) == wanted


HUGE = {
    "a sequence of 71 bits": b'"sequence":1180591620717411303424',
    "a sequence of 64 bits": b'"sequence":18446744073709551615',
}


def test_a_huge_number_neither_stops_nor_restarts_it(workers, make_training, request):
    """An event with a number that no snapshot can hold is refused; its job and all others are judged by one worker."""
    job = f"beyond-{request.node.name}"
    events = make_training(job=job, slow=3, seconds=25)
    worker = workers.start()
    workers.produce(events[:10])
    for number in HUGE.values():
        workers.produce_raw(topics.OP, job.encode(), wire.encode(events[10]).replace(b'"sequence":5', number, 1))
    workers.produce(events[10:])
    wanted = expected(events)
    workers.until(lambda: len(workers.findings(job)) >= len(wanted))
    assert upserted(workers.findings(job)) == wanted
    workers.until(lambda: sum(_tells(letter, job) for letter in workers.dead_letters()) >= len(HUGE))
    assert {letter["reason"] for letter in workers.dead_letters() if _tells(letter, job)} <= {
        "Expected `int` <= 9007199254740992 - at `$.sequence`",
        "Integer value out of range - at `$.sequence`",
    }
    assert worker.poll() is None
    assert "starting again" not in workers.said()


def test_a_flood_of_nonsense_holds_up_nobody(workers, make_training, request):
    """Thousands of refused messages before a job's own: each has its letter, and the job is judged."""
    job = f"flood-{request.node.name}"
    events = make_training(job=job, slow=3, seconds=25)
    workers.start()
    producer = clients.producer(workers.settings, "test")
    for _ in range(3000):
        producer.send(topics.OP.name, key=job.encode(), value=b"nonsense of " + job.encode())
    producer.flush()
    producer.close()
    workers.produce(events)
    wanted = expected(events)
    workers.until(lambda: len(workers.findings(job)) >= len(wanted))
    assert upserted(workers.findings(job)) == wanted
    workers.until(lambda: sum(_tells(letter, job) for letter in workers.dead_letters()) >= 3000)
    assert "starting again" not in workers.said()


def _tells(letter: dict[str, object], job: str) -> bool:
    return job.encode() in base64.b64decode(str(letter["excerpt"]))


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_a_batch_that_unpacks_to_too_much_is_passed_over(
    workers, make_training, request, free_port, bomb, codec, tmp_path
):
    """Its job and the others go on, the worker does not start again, and says how many there were."""
    job = f"bombed-{codec}-{request.node.name}"
    events = make_training(job=job, slow=1, seconds=25)
    workers.start("--web-port", str(port := free_port()))
    workers.produce(events[:20])
    bomb(workers.settings, topics.OP, codec)
    workers.produce(events[20:])
    workers.until(lambda: len(workers.findings(job)) >= len(expected(events)))
    assert upserted(workers.findings(job)) == expected(events)
    workers.until(lambda: _metric(port, 'paceline_streams_unreadable_batches_total{topic="op"}') >= 1)
    assert "starting again" not in (tmp_path / "worker.log").read_text()


def test_gaps_lag_and_senders_are_in_its_metrics(workers, make_training, request, free_port):
    """Two messages that never came, one that is none, and what the sidecar says of itself; nothing is left to read."""
    job = f"numbers-{request.node.name}"
    account = DeliveryAccount(sent=3, spooled=41, shed={topics.OP.name: 5})
    first, _, _, last = make_training(job=job, nodes=1, seconds=4)
    workers.start("--web-port", str(port := free_port()))
    workers.until(lambda: _ready(port))
    before = _metric(port, 'paceline_streams_missing_messages_total{topic="op"}')
    workers.produce([first, msgspec.structs.replace(last, account=account)])
    workers.produce_raw(topics.OP, job.encode(), b"nonsense")
    who = f'{{node="node-0",training_job="{job}"}}'
    workers.until(lambda: _metric(port, f"paceline_sidecar_spooled_messages{who}") == 41)
    workers.until(
        lambda: _metric(port, 'paceline_streams_refused_messages_total{reason="undecodable",topic="op"}') >= 1
    )
    assert _metric(port, 'paceline_streams_missing_messages_total{topic="op"}') >= before + 2
    assert _metric(port, "paceline_streams_ready ") == 1
    workers.until(lambda: _metric(port, 'paceline_streams_lag_messages{topic="op"}', -1.0) == 0)


def _metric(port: int, name: str, unsaid: float = 0.0) -> float:
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return next((float(line.split()[-1]) for line in lines if line.startswith(name)), unsaid)


def _ready(port: int) -> bool:
    return _readiness(port) == "ready\n"


def _readiness(port: int) -> str:
    """What the worker says of itself; nothing while nobody answers."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=60) as answer:
            return answer.read().decode()
    except HTTPError as error:
        with error:
            return error.read().decode()
    except OSError:
        return ""


@pytest.fixture(params=["embedded", "apache"])
def own_workers(request, until, tmp_path) -> Iterator[Workers]:
    """Workers on a broker of the test's own, whose topics it may delete."""
    with contextlib.ExitStack() as stack:
        if request.param == "apache":
            settings = request.getfixturevalue("new_apache_kafka")().start().settings
        else:
            settings = BrokerSettings().with_brokers(stack.enter_context(embedded.start()).address)
        ensure_topics(settings)
        made = Workers(settings, until, tmp_path / "worker.log")
        stack.callback(made.end)
        yield made


def delete(settings: BrokerSettings, topic) -> Callable[..., bool]:
    """Delete ``topic``. What is returned makes what it is given, where it is missing; whether there is another one."""
    before = describe_topics(settings, [topic.name])[topic.name]
    with contextlib.closing(clients.admin(settings)) as admin:
        admin.delete_topics([topic.name])

    def remade(wanted=()) -> bool:
        ensure_topics(settings, wanted)
        return describe_topics(settings, [topic.name]).get(topic.name, before).id != before.id

    return remade


@pytest.mark.parametrize("when", ["while it works", "while it is stopped", "by itself"])
def test_a_topic_that_is_made_again_is_read_from_its_beginning(own_workers, make_training, until, when, free_port):
    """Its offsets begin at 0 again: below those that were committed in the old one. It is told once.

    Where nobody makes it again the worker, not ready meanwhile, does, and starts again once, not on and on.
    """
    first, second = make_training(job="first", slow=2, seconds=25), make_training(job="second", slow=3, seconds=25)
    worker = own_workers.start("--web-port", str(port := free_port()))
    own_workers.produce(first)
    until(lambda: len(own_workers.findings("first")) >= len(expected(first)))
    until(lambda: _metric(port, "paceline_streams_uncommitted_events") == 0)
    if when == "while it is stopped":
        worker.terminate()
        worker.wait()
    remade = delete(own_workers.settings, topics.OP)
    if when == "by itself":
        until(lambda: _readiness(port) == "no topic paceline.op.v1\n")
    until(lambda: remade(() if when == "by itself" else [topics.OP]))
    own_workers.produce(second)
    if when == "while it is stopped":
        worker = own_workers.start()
    until(lambda: len(own_workers.findings("second")) >= len(expected(second)))
    assert upserted(own_workers.findings("second")) == expected(second)
    assert upserted(own_workers.findings("first")) == expected(first)
    assert own_workers.said().count("paceline.op.v1 was deleted and made again") == 1
    assert own_workers.said().count("starting again") == (when != "while it is stopped")
    assert worker.poll() is None


def test_a_topic_that_is_made_again_with_other_partitions_ends_it(own_workers, until, free_port):
    """A job's events would no longer meet in one worker: a line says what is wrong and what to do, and status 1."""
    worker = own_workers.start("--web-port", str(port := free_port()))
    until(lambda: _ready(port))
    remade, fewer = delete(own_workers.settings, topics.OP), msgspec.structs.replace(topics.OP, partitions=5)
    until(lambda: remade([fewer]))
    assert worker.wait() == 1
    assert "paceline.op.v1 has 5 partitions, and must have 12: delete it" in own_workers.said()
