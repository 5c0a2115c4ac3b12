"""A real worker on a real broker: from produced batches to findings, killed, shared between two, and measured."""

import base64
from contextlib import closing
from functools import partial
from urllib.request import urlopen

import msgspec
import pytest

from paceline import topics
from paceline.events import Column, DeliveryAccount
from paceline.kafka import clients
from paceline.kafka.topic_admin import ensure_topics
from streams.faust_app import CHANGELOG, NEEDED
from streams.processor import IDLE_S, MOST_PUSH_S
from tests.patience import PATIENCE_S
from tests.streams.real_workers import expected, metric, ready, upserted

pytestmark = pytest.mark.e2e


class TestOneWorker:
    """What one worker makes of each test's own job."""

    @pytest.mark.landing_on("apache")
    def test_from_batches_to_findings(self, one_worker, make_training, request):
        """What a worker publishes on the bus is what the processor says in process.

        Nonsense in between goes aside, and so does an event whose column is torn; their jobs go on.
        """
        job, other = f"plain-{request.node.name}", f"torn-{request.node.name}"
        events, others = make_training(job=job, slow=2, seconds=25), make_training(job=other, slow=3, seconds=25)
        torn = msgspec.structs.replace(others[0], producer="odd", step=Column("u4", others[0].step.data + b"\0"))
        one_worker.produce([*others[:10], torn, *others[10:]])
        one_worker.produce(events[:20])
        nonsense = [b'{"job": nonsense ' + job.encode(), b"\xff\x00" + job.encode()]
        one_worker.produce_raw(topics.OP, job.encode(), nonsense[0])
        one_worker.produce_raw(topics.OP, None, nonsense[1])
        one_worker.produce(events[20:])
        wanted = expected(events)
        assert wanted
        one_worker.until(lambda: len(one_worker.findings(job)) >= len(wanted))
        assert upserted(one_worker.findings(job)) == wanted
        # Other tests leave letters of their own on this broker.
        excerpts = {base64.b64encode(message).decode() for message in nonsense}
        one_worker.until(lambda: excerpts <= {letter["excerpt"] for letter in one_worker.dead_letters()})
        letters = [letter for letter in one_worker.dead_letters() if letter["excerpt"] in excerpts]
        assert {letter["topic"] for letter in letters} == {topics.OP.name}
        assert all(letter["reason"] and letter["offset"] >= 0 for letter in letters)
        wanted = expected(others)
        one_worker.until(lambda: len(one_worker.findings(other)) >= len(wanted))
        assert upserted(one_worker.findings(other)) == wanted
        one_worker.until(lambda: any(other.encode() in message for message in one_worker.put_aside()))

    def test_gaps_lag_and_senders_are_in_its_metrics(self, one_worker, worker_port, make_training, request):
        """Two messages that never came, one that is none, what the sidecar says of itself; nothing is left to read."""
        job = f"numbers-{request.node.name}"
        account = DeliveryAccount(sent=3, spooled=41, shed={topics.OP.name: 5})
        first, _, _, last = make_training(job=job, nodes=1, seconds=4)
        one_worker.until(lambda: ready(worker_port))
        refused = partial(
            metric, worker_port, 'paceline_streams_refused_messages_total{reason="undecodable",topic="op"}'
        )
        refused_before = refused()
        before = metric(worker_port, 'paceline_streams_missing_messages_total{topic="op"}')
        one_worker.produce([first, msgspec.structs.replace(last, account=account)])
        one_worker.produce_raw(topics.OP, job.encode(), b"nonsense")
        who = f'{{node="node-0",training_job="{job}"}}'
        one_worker.until(lambda: metric(worker_port, f"paceline_sidecar_spooled_messages{who}") == 41)
        one_worker.until(lambda: refused() >= refused_before + 1)
        assert metric(worker_port, 'paceline_streams_missing_messages_total{topic="op"}') >= before + 2
        assert metric(worker_port, "paceline_streams_ready ") == 1
        one_worker.until(lambda: metric(worker_port, 'paceline_streams_lag_messages{topic="op"}', -1.0) == 0)


def test_a_forgotten_job_leaves_the_changelog(own_workers, make_training, request, until):
    """An hour of other jobs' time after its last event, a job's stored state is deleted: its last record is empty.

    When it runs again, with the next worker, its findings have ids of their own.
    """
    old, new = f"old-{request.node.name}", f"new-{request.node.name}"
    workers = own_workers
    ensure_topics(workers.settings, NEEDED)
    first = workers.start()
    night = make_training(job=old, seconds=15, slow=1, slow_from_s=3)
    workers.produce(night)
    last: dict[str, bytes | None] = {}

    def seen(job):
        for records in reader.poll(timeout_ms=200).values():
            last.update({record.key.decode(): record.value for record in records})
        return next((value or b"deleted" for key, value in last.items() if f'"{job}"' in key), None)

    with closing(clients.consumer(workers.settings, CHANGELOG, from_beginning=True)) as reader:
        until(lambda: seen(old) not in (None, b"deleted"))
        (event,) = make_training(job=new, seconds=1, nodes=1)
        hour = range(int(IDLE_S / MOST_PUSH_S) + 2)
        t0_s = event.t0_s + MOST_PUSH_S
        workers.produce([msgspec.structs.replace(event, sequence=n, t0_s=t0_s + MOST_PUSH_S * n) for n in hour])
        until(lambda: seen(old) == b"deleted")
        until(lambda: seen(new) not in (None, b"deleted"))
    before = {one["id"] for one in workers.findings(old)}
    assert before == {one["id"] for one in expected(night)}
    first.terminate()
    assert first.wait() == 0
    workers.start()
    next_night = make_training(job=old, seconds=15, slow=1, slow_from_s=3, t0_s=night[0].t0_s + 86_400.0)
    workers.produce([msgspec.structs.replace(one, producer=f"{one.producer} again") for one in next_night])
    until(lambda: len({one["id"] for one in workers.findings(old)}) == 2 * len(before))


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
    workers.until(lambda: ready(port))
    more = make_training(job=job + "-next", slow=1, seconds=25)
    workers.produce(more)
    further = len(expected(more))
    workers.until(lambda: len(workers.findings(job + "-next")) >= further)
    assert workers.findings(job) == wanted
    assert "made again" not in workers.said()
    shown = f'paceline_step_seconds{{training_job="{job}-next"}} '
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE_S) as answer:
        assert shown in answer.read().decode()


@pytest.mark.exactly_once
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


@pytest.mark.exactly_once
def test_two_workers_say_what_one_says(workers, make_training, request, free_port):
    """A second worker joins in the middle; together they find what one alone would have found."""
    jobs = [f"shared-{number}-{request.node.name}" for number in range(6)]
    runs = {job: make_training(job=job, slow=number % 4, seconds=30, seed=number) for number, job in enumerate(jobs)}
    mixed = [event for row in zip(*runs.values(), strict=True) for event in row]
    workers.start()
    workers.produce(mixed[:150])
    workers.until(lambda: workers.findings(*jobs))
    workers.start("--web-port", str(port := free_port()))
    workers.until(lambda: ready(port))
    workers.produce(mixed[150:])
    for job in jobs:
        wanted = expected(runs[job])
        workers.until(lambda job=job, wanted=wanted: len(upserted(workers.findings(job))) >= len(wanted))
        assert upserted(workers.findings(job)) == wanted
