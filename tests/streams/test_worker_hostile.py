"""A real worker that is sent what nobody should: numbers, nonsense and batches that stop neither it nor other jobs."""

import base64
from functools import partial

import pytest

from paceline import topics, wire
from paceline.events import BalanceObserved
from paceline.kafka import clients
from paceline.kafka.topic_admin import describe_topics
from tests.damaged_batches import put_damaged
from tests.streams.real_workers import expected, metric, ready, upserted

pytestmark = pytest.mark.e2e

#: Sequences of 54 and of 64 bits.
HUGE = (2**53 + 1, 2**64 - 1)


def billions(job: str, sequence: int, slow_s: float) -> BalanceObserved:
    """Two ranks share a batch of 2^31 samples, nearly all of which may be left out; the second takes so long."""
    return BalanceObserved(
        cluster="default",
        producer="p",
        sequence=sequence,
        job=job,
        attempt=0,
        node="n",
        t0_s=1.7e9 + sequence,
        version=0,
        batch=sequence,
        shares=[2**30] * 2,
        ready_s=[1.0, float(slow_s)],
        source="kafka",
        global_batch=2**31,
        conserve=False,
        flex=0.999,
    )


def _tells(letter: dict[str, object], job: str) -> bool:
    return job.encode() in base64.b64decode(str(letter["excerpt"]))


class TestOneWorker:
    """One worker is sent all of it, amid a job of each test's own."""

    def test_a_huge_number_neither_stops_nor_restarts_it(self, one_worker, make_training, request):
        """A number that no snapshot can hold is refused with its event; its job and others are judged by one worker."""
        job = f"beyond-{request.node.name}"
        events = make_training(job=job, slow=3, seconds=25)
        one_worker.produce(events[:10])
        message = wire.untyped(topics.OP, wire.encode(events[10]))
        for number in HUGE:
            huge = wire.encode_untyped(topics.OP, message | {"sequence": number})
            one_worker.produce_raw(topics.OP, job.encode(), huge)
        one_worker.produce(events[10:])
        wanted = expected(events)
        one_worker.until(lambda: len(one_worker.findings(job)) >= len(wanted))
        assert upserted(one_worker.findings(job)) == wanted
        one_worker.until(lambda: sum(_tells(letter, job) for letter in one_worker.dead_letters()) >= len(HUGE))
        assert {letter["reason"] for letter in one_worker.dead_letters() if _tells(letter, job)} <= {
            "Expected `int` <= 9007199254740992 - at `$.sequence`",
            "Integer value out of range - at `$.sequence`",
        }
        assert one_worker.processes[-1].poll() is None
        assert "starting again" not in one_worker.said()

    def test_a_flood_of_nonsense_holds_up_nobody(self, one_worker, make_training, request):
        """Thousands of refused messages before a job's own: each has its letter, and the job is judged."""
        job = f"flood-{request.node.name}"
        events = make_training(job=job, slow=3, seconds=25)
        producer = clients.producer(one_worker.settings, "test")
        for _ in range(3000):
            producer.send(topics.OP.name, key=job.encode(), value=b"nonsense of " + job.encode())
        producer.flush()
        producer.close()
        one_worker.produce(events)
        wanted = expected(events)
        one_worker.until(lambda: len(one_worker.findings(job)) >= len(wanted))
        assert upserted(one_worker.findings(job)) == wanted
        one_worker.until(lambda: sum(_tells(letter, job) for letter in one_worker.dead_letters()) >= 3000)
        assert "starting again" not in one_worker.said()

    def test_a_batch_of_billions_that_may_shrink_holds_up_nobody(self, one_worker, make_training, request):
        """Two small messages of a balanced job, one of whose ranks is slow: it has its plan, and others are judged."""
        job, balanced = f"beside-{request.node.name}", f"billions-{request.node.name}"
        events = make_training(job=job, slow=3, seconds=25)
        one_worker.produce(events[:10])
        one_worker.produce(
            [billions(balanced, number, slow_s) for number, slow_s in enumerate((1, 100))], topics.BALANCE
        )
        one_worker.produce(events[10:])
        wanted = expected(events)
        one_worker.until(lambda: len(one_worker.findings(job)) >= len(wanted))
        assert upserted(one_worker.findings(job)) == wanted
        one_worker.until(lambda: one_worker.plans(balanced))
        assert one_worker.processes[-1].poll() is None
        assert "starting again" not in one_worker.said()

    @pytest.mark.parametrize("codec", ["gzip", "zstd"])
    def test_a_batch_that_unpacks_to_too_much_is_passed_over(
        self, one_worker, worker_port, make_training, request, bomb, codec
    ):
        """Its job and the others go on, the worker does not start again, and says how many there were."""
        job = f"bombed-{codec}-{request.node.name}"
        events = make_training(job=job, slow=1, seconds=25)
        unread = partial(metric, worker_port, 'paceline_streams_unreadable_batches_total{topic="op"}')
        one_worker.until(lambda: ready(worker_port))
        before = unread()
        one_worker.produce(events[:20])
        bomb(one_worker.settings, topics.OP, codec)
        one_worker.produce(events[20:])
        wanted = expected(events)
        one_worker.until(lambda: len(one_worker.findings(job)) >= len(wanted))
        assert upserted(one_worker.findings(job)) == wanted
        one_worker.until(lambda: unread() >= before + 1)
        assert "starting again" not in one_worker.said()


def test_damaged_batches_are_passed_over(own_workers, make_training, request, free_port):
    """In every partition, amid a job's messages: it is judged as if they had not come, and each is counted once."""
    workers, job = own_workers, f"damaged-{request.node.name}"
    events = make_training(job=job, slow=1, seconds=25)
    workers.start("--web-port", str(port := free_port()))
    workers.produce(events[:20])
    count = describe_topics(workers.settings, [topics.OP.name])[topics.OP.name].partitions
    put = sum(len(put_damaged(workers.settings, topics.OP, number)) for number in range(count))
    workers.produce(events[20:])
    wanted = expected(events)
    workers.until(lambda: len(workers.findings(job)) >= len(wanted))
    assert upserted(workers.findings(job)) == wanted
    workers.until(lambda: metric(port, 'paceline_streams_lag_messages{topic="op"}', -1.0) == 0)
    assert metric(port, 'paceline_streams_unreadable_batches_total{topic="op"}') == put
    assert "starting again" not in workers.said()
