"""Jobs of many nodes: messages that wait for each other change nothing of what is said, and none is lost."""

import msgspec
import pytest

from paceline import columns, events, topics
from simulator.fault import parse
from simulator.job import Job
from simulator.spec import Spec
from streams.ingest import gather
from streams.jobs.collective_verdicts import Collectives
from streams.processor import AT_ONCE, Processor
from streams.routes import ROUTES


@pytest.fixture(scope="module")
def messages():
    """Of 24 nodes, with one slow rank: (topic, event) in the order in which they are sent."""
    faults = (parse("compute:rank=77,size=0.4,from=30"),)
    spec = Spec(ranks=192, steps=60, step_s=0.5, faults=faults, seed=5)
    return [(message.topic, message.event) for message in Job(spec).messages() if message.topic.name in ROUTES]


def said(processor, messages):
    found = [answer for topic, event in messages for answer in processor.update(topic, event)]
    return found + processor.finish()


@pytest.fixture(scope="module")
def whole(messages):
    """What is said of the messages, told in one go."""
    return said(Processor(), messages)


def words(found):
    """Sorted."""
    return sorted((topic.name, repr(event)) for topic, event in found)


@pytest.mark.slow
def test_waiting_changes_nothing_that_is_said(messages, whole, monkeypatch):
    """Judged one by one and three at a time, the findings and the windows are the same."""
    assert any(getattr(event, "ranks", None) == [77] for _, event in whole)
    monkeypatch.setattr(gather, "PARTS", 10**9)
    assert words(said(Processor(), messages)) == words(whole)


@pytest.mark.slow
def test_what_waits_survives_a_restart(messages, whole):
    """Stored and read back while messages wait, nothing is lost and nothing said twice."""
    found, processor = [], Processor()
    for number, (topic, event) in enumerate(messages):
        found += processor.update(topic, event)
        if number % 101 == 100:
            kept = {key: processor.snapshot(key) for key in processor.states}
            processor = Processor()
            for key, data in kept.items():
                processor.restore(key, data)
    assert words(found + processor.finish()) == words(whole)


def test_no_more_than_an_eighth_of_the_producers_wait(messages):
    """A job of one node never waits; of 24 nodes the third message is judged with the two before it."""
    batch = next(event for topic, event in messages if topic.short == "op")
    waiting = gather.Gather()
    assert waiting.push(batch, gather.enough(1, backlog=False)) == [batch]
    assert [len(waiting.push(batch, gather.enough(24, backlog=False))) for _ in range(6)] == [0, 0, 3, 0, 0, 3]


def test_from_a_backlog_all_producers_wait_for_each_other(messages):
    """What is at hand already costs no time to wait for."""
    batch = next(event for topic, event in messages if topic.short == "op")
    waiting = gather.Gather()
    assert [len(waiting.push(batch, gather.enough(4, backlog=True))) for _ in range(8)] == [0, 0, 0, 4, 0, 0, 0, 4]


@pytest.mark.slow
def test_a_backlog_changes_nothing_that_is_said(messages, whole):
    """Offline, and while a worker catches up, more is judged together; the words stay."""
    processor = Processor()
    processor.backlog = True
    assert words(said(processor, messages)) == words(whole)


@pytest.fixture(scope="module", params=[8, 2, 1], ids=["one node", "two nodes", "four nodes"])
def small(request):
    """A job of a few nodes, whose rank 1 turns slow: two messages are missing, ten come twice, and rank 0 collects."""
    faults = (parse("compute:rank=1,size=0.4,from=100"), parse("gc:rank=0,size=2,from=300,every=7"))
    spec = Spec(ranks=4, steps=500, step_s=0.3, faults=faults, seed=5, ranks_a_node=request.param)
    sent = [(message.topic, message.event) for message in Job(spec).messages() if message.topic.name in ROUTES]
    return [*sent[:31], *sent[33:60], *sent[50:]]


def held(processor):
    """How many messages each job holds back."""
    states = [state.decisions["JobState"] for state, _ in processor.states.values()]
    return [len(decision.held.waiting) for decision in states]


@pytest.mark.slow
def test_a_backlog_changes_nothing_that_is_said_of_a_small_job(small):
    """Its messages are judged many at a time; the words, and what each finding knew when it was made, stay."""
    alone, processor = Processor(), Processor()
    found = said(alone, small)
    assert {tuple(event.ranks) for topic, event in found if topic.short == "finding"} >= {(1,)}
    processor.backlog, most, together = True, 0, []
    for topic, event in small:
        together += processor.update(topic, event)
        most = max(most, *held(processor))
    assert most == AT_ONCE - 1
    assert words(together + processor.finish()) == words(found)


@pytest.mark.slow
def test_whatever_comes_between_meets_a_small_job_as_it_would_have(small):
    """Thresholds, restarts, and a backlog that ends and begins: none waits for what is held back."""
    first = small[0][1]
    odd = range(150, len(small), 23)
    stern = events.Thresholds(cluster=first.cluster, job=first.job, attempt=first.attempt, values={"least_excess": 0.5})

    def run(*, backlog):
        found, processor = [], Processor()
        for number, (topic, event) in enumerate(small):
            processor.backlog = backlog and number % 61 < 50
            if number == odd[0]:
                found += processor.update(topics.THRESHOLD, stern)
            if number in odd:
                kept = {key: processor.snapshot(key) for key in processor.states}
                processor = Processor()
                for key, data in kept.items():
                    processor.restore(key, data)
                processor.backlog = backlog
            found += processor.update(topic, event)
        return found + processor.finish()

    assert words(run(backlog=True)) == words(run(backlog=False))


@pytest.mark.slow
def test_a_message_that_cannot_be_judged_costs_no_more_than_those_it_waited_with(small, monkeypatch):
    """What comes behind them is judged as before, and the slow rank is named; of its job some seconds are missing."""
    bad = small[len(small) // 2][1]
    look = Collectives.look

    def looked(self, admitted):
        if admitted.message is bad:
            raise ValueError("a message that nobody expected")
        return look(self, admitted)

    monkeypatch.setattr(Collectives, "look", looked)
    processor, found, refused = Processor(), [], 0
    processor.backlog = True
    for topic, event in small:
        try:
            found += processor.update(topic, event)
        except ValueError:
            refused += 1
    found += processor.finish()
    assert refused == 1
    stragglers = [event for topic, event in found if topic.short == "finding" and event.kind == "straggler"]
    named = {tuple(event.ranks) for event in stragglers}
    assert {(1,)} <= named <= {(0,), (1,)}  # Rank 0 stalls in every seventh step, which may take longer to be sure of.
    last = max(event.last_step for topic, event in found if hasattr(event, "last_step"))
    assert last > max(columns.numbers(bad.step)) + 100


@pytest.mark.long
@pytest.mark.parametrize(("most", "waiting"), [(24, 3), (6, 0)])
def test_no_more_messages_wait_of_many_jobs_than_of_few(small, monkeypatch, most, waiting):
    """Those that wait are held in memory: of six jobs four each, or one; and none where a node has but one of them."""
    monkeypatch.setattr("streams.processor.MOST_WAITING", most)
    steps = [message for message in small if message[0] is topics.OP]
    processor = Processor()
    for number, (topic, event) in enumerate(steps[:31]):
        processor.backlog = number >= 28
        for job in range(6):
            processor.update(topic, msgspec.structs.replace(event, job=f"job-{job}"))
    nodes = len({event.node for _, event in steps})
    assert held(processor) == [waiting if most // 6 >= 2 * nodes else 0] * 6


def test_what_waits_is_handed_out_in_order_and_once(messages):
    """The same message twice is two messages: who repeats itself is judged elsewhere."""
    batches = [event for topic, event in messages if topic.short == "op"][:3]
    waiting = gather.Gather()
    for batch in (*batches, batches[0]):
        assert waiting.push(batch, 10**6) == []
    assert waiting.drain() == [*batches, batches[0]]
    assert waiting.drain() == []


def test_before_a_producer_is_known_nothing_waits(messages):
    """0 producers: the first message of a job."""
    batch = next(event for topic, event in messages if topic.short == "op")
    assert gather.Gather().push(batch, gather.enough(0, backlog=False)) == [batch]


def test_restored_it_holds_what_waited(messages):
    """Plain data, and the same messages again."""
    batch = next(event for topic, event in messages if topic.short == "op")
    waiting, again = gather.Gather(), gather.Gather()
    waiting.push(batch, 100)
    again.load(waiting.state())
    assert again.drain() == [batch]
