"""No message takes more than bounded work, memory and answers, whatever numbers in range it combines.

Every event that a decision is told of, with extreme numbers in every pair of its fields, twice and more, amid sound
messages of the same producer. What is done is counted, so that no verdict depends on the machine.
"""

import random
import struct
from typing import Any

import pytest

from experiments.fuzzing import extremes
from experiments.fuzzing.bus import golden
from paceline import topics, wire
from paceline.events import BalanceObserved
from paceline.topics import Topic
from streams.balance.job_balance import JobBalance
from streams.balance.rank_findings import RankFindings
from streams.cluster_events import ADVICE, Heard, concerns
from streams.episodes.crowd import MOST_SINGLE
from streams.processor import Processor
from streams.routes import ROUTES
from tests.work_done import counted

#: What one message may bring: answers, steps of Python (0.05 s of a core of 2026), and bytes that are held meanwhile.
MOST_ANSWERS, MOST_STEPS, MOST_BYTES = 100, 250_000, 10_000_000
#: What PACELINE_MOST_RANKS is set to here: the tables of a job are as long as its highest rank, which one message says.
MOST_RANKS = 4096
#: Pairs of each event that are tried in ring 1.
SOME = 3
#: Fields of a message up to which every pair of them is tried in ring 2, and of the up to 16 pairs of what they may be
#: set to so many, others in every run.
FEW, EACH = 16, 4
#: Pairs of a message of more fields that one run of ring 2 tries, others in every run: each is counted line by line.
MANY = 50


def _told() -> dict[str, tuple[Topic, bytes]]:
    """Every golden message of a topic that a decision hears, by topic and event."""
    found = {}
    for topic in topics.TOPICS:
        for number, data in enumerate(golden(topic)):
            event = wire.decode(topic, data)
            if topic.name in ROUTES or concerns(event):
                found[f"{topic.name}-{type(event).__name__}-{number}"] = (topic, data)
    return found


TOLD = _told()


def test_every_event_that_is_routed_is_tried() -> None:
    """A new event has a golden message, and so is in here."""
    tried = {topic.name for topic, _ in TOLD.values()}
    assert set(ROUTES) - tried == {ADVICE.name}
    assert len(TOLD) > 20


def judged(topic: Topic, whole: Any, odd: tuple[extremes.Odd, ...]) -> int:
    """Give a processor of its own the messages; how many of them passed the wire."""
    try:
        return _judged(topic, whole, odd)
    except Exception as error:
        error.add_note(f"{odd} in {whole}")  # What repeats it.
        raise


def _judged(topic: Topic, whole: Any, odd: tuple[extremes.Odd, ...]) -> int:
    processor, passed = Processor(most_ranks=MOST_RANKS), 0
    for number, message in enumerate(extremes.messages(whole, odd)):
        data = extremes.packed(topic, message)
        try:
            event = wire.decode(topic, data)
        except wire.WireError:
            continue
        passed += 1
        told: list[tuple[Topic, Any]] = [(topic, event)] if topic.name in ROUTES else []
        told += [(ADVICE, Heard(topic, event, 1.7e9 + number))] if concerns(event) else []
        for target, one in told:
            with counted(MOST_STEPS, MOST_BYTES):
                answers = processor.update(target, one)
            assert len(answers) <= MOST_ANSWERS, f"{len(answers)} answers to {len(data)} bytes"
            for reply, answer in answers:
                wire.decode(reply, wire.encode(answer))
    for key in list(processor.states):
        with counted(MOST_STEPS, MOST_BYTES):
            data = processor.snapshot(key)
        processor.restore(key, data)
    return passed


@pytest.mark.long
@pytest.mark.parametrize("name", TOLD)
def test_some_pairs_of_extreme_numbers_take_bounded_work(name: str) -> None:
    """A few of all pairs, the same every time."""
    topic, data = TOLD[name]
    rng = random.Random(name)
    whole = rng.choice(extremes.bases(extremes.plain(topic, data)))
    some = list(extremes.some_pairs(topic, whole, rng, SOME))
    assert sum(judged(topic, whole, odd) for odd in some) >= 2 * len(some) > 0


def balanced(sequence: int, ready_s: list[float], share: int, **changed: Any) -> BalanceObserved:
    """A job of two ranks or more that may leave out nearly all of its batch."""
    told: dict[str, Any] = {
        "cluster": "default",
        "producer": "p",
        "sequence": sequence,
        "job": "hostile",
        "attempt": 0,
        "node": "n",
        "t0_s": 1e9 + sequence,
        "version": 0,
        "batch": sequence,
        "shares": [share] * len(ready_s),
        "ready_s": ready_s,
        "source": "kafka",
        "tile": 1,
        "conserve": False,
        "flex": 0.999,
    }
    return BalanceObserved(**told | changed)


@pytest.mark.long
@pytest.mark.parametrize("bits", [10, 30, 31])
@pytest.mark.parametrize("flex", [0.0, 0.999, 1 - 2**-40])
def test_two_messages_of_a_job_with_a_large_batch_take_bounded_work(bits: int, flex: float) -> None:
    """One rank turns out to be 100 times slower: what is left out for it is not tried sample by sample."""
    decision, plans = JobBalance(), []
    for sequence, slow_s in enumerate((1.0, 100.0)):
        event = balanced(sequence, [1.0, slow_s], 2**bits, flex=flex)
        event = wire.decode(topics.BALANCE, wire.encode(event))
        with counted(MOST_STEPS, MOST_BYTES):
            plans += decision.update(event)
    assert len(plans) == (bits < 31)  # A share of more than 2^31 samples cannot be told to a rank.


@pytest.mark.parametrize("changed", [{"shares": [2**31] * 3}, {"version": 2**53}, {"shares": [2**31, 1, 1]}])
def test_no_plan_is_proposed_that_no_rank_can_read(changed: dict[str, Any]) -> None:
    """A version or a share beyond what the wire lets pass: what is proposed is read as it was written."""
    decision = JobBalance()
    for sequence in range(4):
        event = balanced(sequence, [1.0, 9.0, 100.0 ** (sequence % 2)], 2**20, **changed)
        for plan in decision.update(event):
            assert wire.decode(topics.PLAN, wire.encode(plan)) == plan


@pytest.mark.parametrize("most", [[1, 1, 1], [1], [2**31] * 7])
def test_limits_for_other_ranks_than_there_are_change_nothing(most: list[int]) -> None:
    """A sender may give a list of any length."""
    told = [JobBalance(), JobBalance()]
    for sequence in range(3):
        ready = [1.0, 100.0 ** (sequence > 0)]
        plain, odd = (
            told[0].update(balanced(sequence, ready, 64)),
            told[1].update(balanced(sequence, ready, 64, most=most)),
        )
        assert odd == plain


@pytest.mark.long
@pytest.mark.parametrize("start_s", [1e17, 1e30])
def test_collectives_at_a_time_without_an_end_take_bounded_work(start_s: float) -> None:
    """So far in the future a second more is the same number: no loop waits for it to pass."""
    name = next(name for name in TOLD if "CollectiveCalls" in name)
    topic, data = TOLD[name]
    for whole in extremes.bases(extremes.plain(topic, data)):
        rows = len(whole["seq"][1])
        starts = extremes.Odd(("start_s",), ["f4", struct.pack(f"<{rows}f", *[start_s] * rows)])
        assert judged(topic, whole, (extremes.Odd(("seq",), ["u1", b"\xff" * rows]), starts)) > 2


@pytest.mark.slow
@pytest.mark.parametrize("caps", ["none", "one below", "all below"])
def test_a_message_of_thousands_of_ranks_takes_work_by_the_rank(caps: str) -> None:
    """Their limits, their speeds and their findings."""
    ranks = 2048
    most: list[int | None] = {"none": [], "one below": [7, *[9] * (ranks - 1)], "all below": [7] * ranks}[caps]
    decisions = (JobBalance(), RankFindings())
    for sequence in range(3):
        ready = [1.0 + (rank % 7 == 0) for rank in range(ranks)]
        event = balanced(sequence, ready, 8, most=most, flex=0.5, ran_out=[sequence] * ranks)
        for decision in decisions:
            with counted(300 * ranks):
                assert len(decision.update(event)) <= 2 * MOST_SINGLE


@pytest.mark.long
def test_a_micro_batch_of_a_rank_without_a_step_breaks_nothing() -> None:
    """However many ranks there are said to be."""
    topic, data = TOLD["paceline.op.v2-StepTimings-0"]
    many = extremes.Odd(("speakers", "world_sizes"), ["u1", b"\xff\xff"])
    beyond = extremes.Odd(("microbatches", "rank"), ["u1", b"\xff\xff\xff\xff"])
    judged(topic, next(iter(extremes.bases(extremes.plain(topic, data)))), (many, beyond))


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.xdist_group(f"work {name}")) for name in TOLD])
def test_pairs_of_fields_with_extreme_numbers_take_bounded_work(name: str) -> None:
    """Of messages of few fields every pair of them; of others some, and of numbers some, chosen anew in every run."""
    topic, data = TOLD[name]
    rng = random.Random()
    for whole in extremes.bases(extremes.plain(topic, data)):
        few = len(extremes.places(whole)) <= FEW
        made = extremes.pairs(topic, whole, rng, EACH) if few else extremes.some_pairs(topic, whole, rng, MANY)
        for odd in made:
            judged(topic, whole, odd)
