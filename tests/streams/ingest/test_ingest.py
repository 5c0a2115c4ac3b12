"""One way in: what comes twice, for whom a message speaks, and who has said goodbye is found out once for all."""

import msgspec
import pytest

from paceline.events import RankWindow
from streams.ingest.ingest import Ingest
from streams.ingest.steps import StepsConfig
from streams.job_state import JobState
from tests.timings import speaking


@pytest.fixture
def ingest():
    return Ingest(StepsConfig(), most_ranks=64)


@pytest.fixture
def events(make_training):
    return make_training(seconds=4)


def test_a_message_is_admitted_once(ingest, events):
    assert ingest.admit(events[0]) is not None
    assert ingest.admit(events[0]) is None


def test_the_two_topics_of_a_producer_have_numbers_of_their_own(ingest, events, make_calls):
    """Steps and collectives of one sidecar; a gap in the one is missing from what rests on it alone."""
    calls = msgspec.structs.replace(make_calls([(0, 0, 1.0, 0.1)], members=2), producer=events[0].producer, sequence=9)
    assert ingest.admit(events[0]) is not None
    assert ingest.admit(calls) is not None
    assert ingest.admit(msgspec.structs.replace(calls, sequence=12)) is not None
    assert (ingest.coverage.counts().events_missing, ingest.collectives_coverage.counts().events_missing) == (0, 2)


def test_a_message_is_fresh_where_its_producer_speaks_for_others_than_before(ingest, events):
    """Also by what it says of its node; then its ranks are placed again."""
    mine = [event for event in events if event.node == "node-0"]
    first, second = ingest.admit(mine[0]), ingest.admit(mine[1])
    third = ingest.admit(msgspec.structs.replace(mine[2], node="node-7"))
    assert [one.fresh for one in (first, second, third)] == [True, False, True]
    assert {ingest.nodes[rank] for rank in third.who.ranks} == {"node-7"}


def test_ranks_beyond_the_bound_are_in_no_part_of_it(events):
    few = Ingest(StepsConfig(), most_ranks=3)
    for event in events:
        few.admit(event)
    assert sorted(few.nodes) == sorted(few.devices) == sorted(few.units) == sorted(few.roster.worlds) == [0, 1, 2]
    assert "beyond 3 of one job" in few.coverage.counts().notes[0]


def test_a_job_has_ended_when_all_of_its_ranks_have_said_goodbye(ingest, events):
    """Not when all of those have that have reported yet."""
    last = {event.node: event for event in events}
    assert not ingest.ended
    ingest.admit(msgspec.structs.replace(last["node-0"], ended=True))
    assert not ingest.ended
    ingest.admit(last["node-1"])
    assert not ingest.ended
    ingest.admit(msgspec.structs.replace(last["node-1"], sequence=last["node-1"].sequence + 1, ended=True))
    assert ingest.ended


def test_who_judges_and_who_sums_up_read_the_same_steps(events):
    """One table: neither has steps that the other lacks."""
    state = JobState()
    said = [one for event in events for one in state.update(event)]
    assert said
    assert state.diagnosis.ingest is state.windows.ingest is state.ingest


def test_a_row_of_a_rank_that_its_message_does_not_speak_for_has_no_window(events):
    """Nor has any that no message speaks for."""
    state, found = JobState(), []
    for event in events:
        found += state.update(speaking(event, [0, 1], 3) if event.node == "node-0" else speaking(event, [2], 3))
    found += state.conclude()
    assert {one.rank for one in found if isinstance(one, RankWindow)} == {0, 1, 2}
