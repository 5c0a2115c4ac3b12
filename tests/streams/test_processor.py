"""Events find the state of their key; idle states are forgotten; one wrong clock makes nobody else look idle."""

import msgspec
import pytest

from paceline import topics
from paceline.events import Finding, NodeDescribed
from streams.keyed_state import Key, state_key
from streams.processor import Processor
from tests.derived_events import finding


class Echo:
    """A decision that counts its events."""

    def __init__(self):
        self.count = 0

    def update(self, event):
        self.count += 1
        return []

    def snapshot(self):
        return str(self.count).encode()

    @classmethod
    def restore(cls, data):
        made = cls()
        made.count = int(data)
        return made


ROUTES = {topics.OP.name: (Echo,), topics.DEVICE.name: (Echo,)}


def counts(processor):
    return {key.name: state.decisions["Echo"].count for key, (state, _) in processor.states.items()}


@pytest.mark.slow
def test_jobs_do_not_mix(make_training):
    """Findings of two jobs in one stream are those of each job alone."""
    runs = {job: make_training(job=job, slow=1, seconds=18, slow_from_s=6) for job in ("a", "b")}

    def findings(events):
        processor = Processor()
        return [
            found for event in events for _, found in processor.update(topics.OP, event) if isinstance(found, Finding)
        ]

    mixed = findings([event for row in zip(*runs.values(), strict=True) for event in row])
    assert mixed
    for job, events in runs.items():
        assert [found for found in mixed if found.job == job] == findings(events)


def test_attempts_and_clusters_are_jobs_of_their_own(make_training):
    """The same name in another cluster, or started again, is another state."""
    event = make_training(seconds=1)[0]
    processor = Processor(ROUTES)
    for changed in ({}, {"attempt": 1}, {"cluster": "d"}):
        processor.update(topics.OP, msgspec.structs.replace(event, **changed))
    assert len(processor.states) == 3


def test_an_idle_job_is_forgotten_and_named_once(make_training):
    """After an hour of stream time without an event, and its stored state may go."""
    processor = Processor(ROUTES, idle_s=60.0)
    processor.update(topics.OP, make_training(job="old", seconds=1)[0])
    for event in make_training(job="new", seconds=70):
        processor.update(topics.OP, event)
    assert list(counts(processor)) == ["new"]
    assert [key.name for key in processor.take_forgotten()] == ["old"]
    assert processor.take_forgotten() == []


class Lasting(Echo):
    """A decision with a last word."""

    def conclude(self):
        return [finding(job="old", revision=100)]

    def expire(self):
        return [finding(job="old", revision=self.count)]


def test_a_job_that_was_killed_has_its_last_word_once_it_is_forgotten(make_training):
    """It never said goodbye; whoever deletes its stored state asks for it, and it is said once."""
    processor = Processor({topics.OP.name: (Lasting,)}, idle_s=60.0)
    old, *_ = make_training(job="old", seconds=1)
    for event in [old, *make_training(job="new", seconds=70)]:
        processor.update(topics.OP, event)
    (key,) = processor.take_forgotten()
    assert [(topic.short, said.job, said.revision) for topic, said in processor.flush(key)] == [("finding", "old", 1)]
    assert processor.flush(key) == []


def test_in_a_recording_it_concludes_as_at_the_end(make_training):
    """All that the recording holds of it is known."""
    processor = Processor({topics.OP.name: (Lasting,)}, idle_s=60.0, recorded=True)
    old, *_ = make_training(job="old", seconds=1)
    for event in [old, *make_training(job="new", seconds=70)]:
        processor.update(topics.OP, event)
    assert [said.revision for _, said in processor.flush(state_key(topics.OP, old))] == [100]


def test_last_words_that_nobody_asks_for_do_not_fill_the_memory(make_training):
    """As of states: those of the jobs forgotten first go. A worker asks only for those that it stores."""
    processor = Processor({topics.OP.name: (Lasting,)}, idle_s=5.0, most_states=10)
    (event, *_) = make_training(seconds=1)
    for number in range(100):
        one = msgspec.structs.replace(event, job=f"job-{number}", t0_s=event.t0_s + 9.0 * number)
        processor.update(topics.OP, one)
    words = [processor.flush(key) for key in processor.take_forgotten()]
    assert len(words) == 99
    assert [bool(said) for said in words] == [False] * 89 + [True] * 10


def test_a_job_that_goes_on_after_all_or_makes_room_for_others_has_no_last_word(make_training):
    """The one is restored from what is stored of it; of the other more events may follow."""
    processor = Processor({topics.OP.name: (Lasting,)}, idle_s=60.0)
    old, *_ = make_training(job="old", seconds=1)
    for event in [old, *make_training(job="new", seconds=70), old]:
        processor.update(topics.OP, event)
    assert processor.flush(state_key(topics.OP, old)) == []
    processor = Processor({topics.OP.name: (Lasting,)}, most_states=1)
    for event in (old, make_training(job="new", seconds=1)[0]):
        processor.update(topics.OP, event)
    (key,) = processor.take_forgotten()
    assert processor.flush(key) == []


def test_a_recording_ends_with_the_last_words_of_jobs_that_fell_silent_in_it(make_training):
    """Nobody asks for them before."""
    processor = Processor({topics.OP.name: (Lasting,)}, idle_s=60.0)
    for event in [make_training(job="old", seconds=1)[0], *make_training(job="new", seconds=70)]:
        processor.update(topics.OP, event)
    assert next(said.revision for _, said in processor.finish()) == 1
    assert len(processor.finish()) == 1


def test_a_clock_years_ahead_does_not_make_others_idle(make_training):
    """One job whose clock is wrong pushes stream time only a little."""
    processor = Processor(ROUTES)
    good = make_training(job="good", seconds=60, nodes=1)
    wild = make_training(job="wild", seconds=60, nodes=1, t0_s=4_000_000_000.0)
    for row in zip(good, wild, strict=True):
        for event in row:
            processor.update(topics.OP, event)
    assert counts(processor) == {"good": 60, "wild": 60}


def test_many_clocks_hours_ahead_do_not_make_others_idle(make_training):
    """Each pushes by its own progress: what 16 nodes say in a second is a second, not minutes."""
    processor = Processor(ROUTES, idle_s=60.0)
    good = make_training(job="good", seconds=12, nodes=1)
    wild = make_training(job="wild", seconds=12, nodes=16, ranks=16, t0_s=good[0].t0_s + 8 * 3600.0)
    for at, event in enumerate(good):
        for one in [event, *wild[at * 16 : (at + 1) * 16]]:
            processor.update(topics.OP, one)
    assert counts(processor) == {"good": len(good), "wild": len(wild)}
    assert processor.now_s == pytest.approx(12.0, abs=1.5)


@pytest.mark.parametrize(
    ("starts_s", "passed_s"),
    [
        ([0.0, 5.0, 10.0], 10.0),
        ([0.0, 5.0, 2.0, 7.0], 7.0),
        ([0.0, 100.0, 105.0], 15.0),
        ([0.0, 4.0, -86_400.0, -86_395.0], 9.0),
        ([0.0, 5.0, 5.0, 5.0], 5.0),
    ],
    ids=["in order", "two topics", "a jump", "set back by a day", "the same again"],
)
def test_stream_time_is_a_producers_progress(make_training, starts_s, passed_s):
    """Late batches push nothing, jumps a little, and a clock that was set goes on from there."""
    processor = Processor(ROUTES)
    (event, *_) = make_training(seconds=1)
    for start_s in starts_s:
        processor.update(topics.OP, msgspec.structs.replace(event, t0_s=event.t0_s + start_s))
    assert processor.now_s == passed_s


def test_of_too_many_producers_the_one_heard_least_recently_is_new_again(make_training, monkeypatch):
    """Their number is bounded."""
    monkeypatch.setattr("streams.processor._MOST_PRODUCERS", 2)
    processor = Processor(ROUTES)
    (event, *_) = make_training(seconds=1)
    for producer, start_s in (("a", 0.0), ("b", 0.0), ("a", 1.0), ("c", 0.0), ("b", 9.0), ("a", 2.0)):
        processor.update(topics.OP, msgspec.structs.replace(event, producer=producer, t0_s=event.t0_s + start_s))
    assert processor.now_s == 1.0


def test_a_flood_of_job_names_does_not_fill_the_memory(make_training):
    """The number of states is bounded; the longest idle go."""
    processor = Processor(ROUTES, most_states=10)
    event = make_training(seconds=1)[0]
    for number in range(100):
        processor.update(topics.OP, msgspec.structs.replace(event, job=f"job-{number}"))
    assert list(counts(processor)) == [f"job-{number}" for number in range(90, 100)]


def test_a_unit_is_put_back(make_training):
    """Snapshot and restore through the processor keep the state of a key."""
    event = make_training(seconds=1)[0]
    key = state_key(topics.OP, event)
    first, second = Processor(ROUTES), Processor(ROUTES)
    first.update(topics.OP, event)
    second.restore(key, first.snapshot(key))
    second.update(topics.OP, event)
    assert counts(second) == {"job": 2}


def test_a_key_survives_its_text():
    """Whatever stands in a job's name."""
    key = Key("job", 'c"|#', "a/b\n\u00e9", 3)
    assert Key.read(key.text()) == key


def test_what_comes_before_any_time_is_known_is_kept(make_training):
    """A worker that starts reads inventories first, and what is stored: neither bears the time of a batch."""
    event = make_training(job="running", seconds=1)[0]
    unknown = dict.fromkeys(("cpu_model", "cpu_count", "memory_total_bytes", "kernel"))
    inventory = NodeDescribed(
        cluster="c", producer="p", sequence=0, node="node-7", time_s=event.t0_s, devices=[], **unknown
    )
    stored = Processor(ROUTES)
    stored.update(topics.OP, make_training(job="stored", seconds=1)[0])
    (key,) = stored.states
    processor = Processor()
    processor.update(topics.NODE, inventory)
    processor.restore(key, stored.snapshot(key))
    processor.update(topics.OP, event)
    assert [one.name for one in processor.states] == ["node-7", "stored", "running"]
    assert processor.take_forgotten() == []
