"""Real workers, from findings to suggestions and to what is said to them: killed, shared, without brokers."""

import itertools
import uuid

import msgspec
import pytest

from paceline.kafka.topic_admin import ensure_topics
from tests.streams.real_workers import Workers, expected, upserted

pytestmark = pytest.mark.e2e


@pytest.fixture
def make_cluster(make_training):
    """A job with a slow rank, in a cluster of the test's own: how much is suggested at a time is counted by cluster."""

    def make(cluster, **arguments):
        return [msgspec.structs.replace(event, cluster=cluster) for event in make_training(slow=2, **arguments)]

    return make


@pytest.fixture
def cluster():
    return f"cluster-{uuid.uuid4().hex}"


def first(workers, cluster):
    """The first suggestion for a cluster, once it is there."""
    return workers.until(lambda: workers.suggestions(cluster))[0]


def told_in_order(workers, cluster):
    """What became of the one suggestion for a cluster, and its id: each state once, its revisions without a gap.

    While it is new it is told again whenever its estimate has changed.
    """
    said = upserted(workers.suggestions(cluster))
    assert [one["revision"] for one in said] == [*range(1, len(said) + 1)]
    (id_,) = {one["id"] for one in said}
    return id_, [state for state, _ in itertools.groupby(one["state"] for one in said)]


def answer(workers, command):
    """The one answer to a command."""
    workers.until(lambda: workers.answers(command))
    (entry,) = workers.answers(command)
    return entry


class TestOneWorker:
    """What one worker answers, each test in a cluster of its own."""

    @pytest.mark.landing_on("embedded")
    def test_a_finding_leads_to_a_suggestion_that_is_accepted(self, one_worker, make_cluster, cluster):
        """With what it rests on; who accepts is answered, and finds the next revision. It is not accepted twice."""
        events = make_cluster(cluster, job="a", seconds=25)
        one_worker.produce(events)
        suggestion = first(one_worker, cluster)
        (found,) = {finding["id"] for finding in expected(events)}
        assert (suggestion["findings"], suggestion["target"], suggestion["state"]) == ([found], "job:a", "new")
        id_ = suggestion["id"]
        entry = answer(one_worker, one_worker.ask(cluster, id_, "accept", arguments={"because": "it is right"}))
        assert (entry["outcome"], entry["service"], entry["target"]) == ("accepted", "streams", f"suggestion:{id_}")
        one_worker.until(lambda: told_in_order(one_worker, cluster) == (id_, ["new", "accepted"]))
        latest = one_worker.suggestions(cluster)[-1]
        assert (latest["by"], latest["because"]) == ("ada", "it is right")
        again = answer(one_worker, one_worker.ask(cluster, id_, "accept"))
        assert (again["outcome"], again["reason"]) == ("refused", "it is accepted; accept is for what is new")

    @pytest.mark.parametrize(
        ("id_", "fields", "outcome", "reason"),
        [
            ("nothing-1", {}, "refused", "no such suggestion"),
            ("nothing-1", {"expires_s": 1.0}, "expired", "it expired"),
            ("nothing-1", {"action": "dance"}, "unknown_action", "accept, dismiss"),
            ("nothing-1", {"arguments": {"because": 7}}, "refused", "arguments: Expected `str`"),
        ],
    )
    def test_what_cannot_be_done_is_answered_with_the_reason(self, one_worker, cluster, id_, fields, outcome, reason):
        """By one worker, though the cluster was never heard of."""
        entry = answer(one_worker, one_worker.ask(cluster, id_, **{"action": "accept", **fields}))
        assert entry["outcome"] == outcome
        assert reason in entry["reason"]


@pytest.mark.exactly_once
def test_killed_in_between_nothing_is_lost_or_told_twice(workers, make_cluster, cluster):
    """kill -9 after the suggestion, and after the command: the next worker knows both."""
    workers.start()
    events = make_cluster(cluster, job="a", seconds=40)
    workers.produce(events[:60])
    id_ = first(workers, cluster)["id"]
    workers.processes[-1].kill()
    command = workers.ask(cluster, id_, "dismiss", arguments={"because": "planned"})
    workers.start()
    assert answer(workers, command)["outcome"] == "accepted"
    workers.processes[-1].kill()
    workers.produce(events[60:])
    workers.start()
    late = workers.ask(cluster, id_, "accept")
    workers.until(lambda: workers.answers(late))
    assert {entry["outcome"] for entry in workers.answers(late)} == {"refused"}
    assert {entry["outcome"] for entry in workers.answers(command)} == {"accepted"}
    workers.until(lambda: told_in_order(workers, cluster) == (id_, ["new", "dismissed"]))


@pytest.mark.exactly_once
def test_two_workers_advise_as_one(workers, make_cluster):
    """Clusters and jobs lie in partitions of both: what one finds, the other may be the one to make something of."""
    jobs = {f"cluster-{uuid.uuid4().hex}": f"job-{uuid.uuid4().hex}" for _ in range(6)}
    workers.start()
    workers.start()
    for cluster, job in jobs.items():
        workers.produce(make_cluster(cluster, job=job, seconds=25))
    for cluster, job in jobs.items():
        suggestion = first(workers, cluster)
        assert (suggestion["job"], suggestion["cluster"]) == (job, cluster)
        assert answer(workers, workers.ask(cluster, suggestion["id"], "accept"))["outcome"] == "accepted"
        wanted = suggestion["id"], ["new", "accepted"]
        workers.until(lambda cluster=cluster, wanted=wanted: told_in_order(workers, cluster) == wanted)


def test_without_commands_suggestions_are_made_and_none_is_accepted(workers, make_cluster, cluster):
    """And the audit log says so."""
    workers.start("--no-commands")
    workers.produce(make_cluster(cluster, job="a", seconds=25))
    entry = answer(workers, workers.ask(cluster, first(workers, cluster)["id"], "accept"))
    assert (entry["outcome"], "--no-commands" in entry["reason"]) == ("refused", True)
    assert {one["state"] for one in workers.suggestions(cluster)} == {"new"}


def test_brokers_that_come_back_find_what_was_advised(new_apache_kafka, make_cluster, cluster, until, tmp_path):
    """Kafka is killed under the worker after the suggestion; started again, the command is obeyed."""
    kafka = new_apache_kafka().start()
    ensure_topics(kafka.settings)
    workers = Workers(kafka.settings, until, tmp_path / "worker.log")
    try:
        workers.start()
        workers.produce(make_cluster(cluster, job="a", seconds=25))
        id_ = first(workers, cluster)["id"]
        kafka.kill()
        kafka.start()
        assert answer(workers, workers.ask(cluster, id_, "accept"))["outcome"] == "accepted"
        # The answer is on another topic, and may be read first.
        workers.until(lambda: told_in_order(workers, cluster) == (id_, ["new", "accepted"]))
    finally:
        workers.end()
