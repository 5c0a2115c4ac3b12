"""A job has no more ranks than the bound says: those beyond are left out, told, and cost no memory."""

from pathlib import Path

import msgspec
import pytest

from paceline import columns, topics, wire
from paceline.events import Finding, JobWindow, OpenCollective, RankFacts, RankWindow
from paceline.settings import MOST_RANKS, SettingError
from streams.ingest.rank_bound import within
from streams.ingest.speakers import SpeakersHeard
from streams.job_state import JobState
from streams.processor import Processor
from streams.windows.job_windows import MOST_CELLS
from tests.streams.job_lines import JobDiagnosis
from tests.timings import changed, listed, speaking

BOUND = 4
GOLDEN = Path(__file__).parents[2] / "paceline" / "golden"


@pytest.fixture
def events(make_training):
    """Six ranks on two nodes, of which rank 1 becomes slow; ranks 4 and 5 are beyond the bound."""
    return make_training(ranks=6, slow=1, seconds=25)


def said(processor, events):
    return [answer for event in events for _, answer in processor.update(topics.OP, event)]


@pytest.mark.long
def test_ranks_beyond_the_bound_are_left_out_and_told(events):
    """The others are judged, and what is found says how many ranks it does not speak of."""
    found = said(Processor(most_ranks=BOUND), events)
    findings = [one for one in found if isinstance(one, Finding)]
    assert findings[-1].ranks == [1]
    assert findings[-1].coverage.ranks_heard == BOUND
    assert findings[-1].coverage.notes == ["ranks left out (impossible rank: beyond 4 of one job): 2"]
    assert {one.rank for one in found if isinstance(one, RankWindow)} == set(range(BOUND))


@pytest.mark.slow
def test_a_job_within_the_bound_is_judged_as_without(events):
    """The bound itself is allowed, and changes no word."""
    assert said(Processor(most_ranks=6), events) == said(Processor(), events)


@pytest.mark.slow
@pytest.mark.parametrize("cut", [3, 20, 41])
def test_the_bound_holds_after_a_restart(events, cut):
    """Restored in the middle, the states go on with the same bound."""
    whole = said(Processor(most_ranks=BOUND), events)
    first, second = Processor(most_ranks=BOUND), Processor(most_ranks=BOUND)
    found = said(first, events[:cut])
    for key in first.states:
        second.restore(key, first.snapshot(key))
    assert found + said(second, events[cut:]) == whole


@pytest.mark.long
def test_the_bound_holds_when_thresholds_change(events):
    """Thresholds are changed while a job runs; the bound is not among them."""
    diagnosis = JobDiagnosis()
    diagnosis.bound_ranks(BOUND)
    diagnosis.line.configure({"sigmas": 4.0})
    findings = [found for event in events for found in diagnosis.update(event)]
    assert findings[-1].coverage.ranks_heard == BOUND


@pytest.mark.long
def test_no_table_is_longer_than_the_bound(events):
    """Rows, conditions and waiting ranks beyond it are left out too, also where the batch does not speak for them."""
    row = {"rank": [2**20 - 1], "step": [5], "start_s": [0.0], "step_s": [0.1], "phases": {"forward": [0.1]}}
    odd = speaking(changed(msgspec.structs.replace(events[0], producer="odd"), **row), range(3), 2**53)
    kept, beyond = within(odd, BOUND)
    assert [listed(one) for one in (kept.rank, kept.step_s, kept.phases["forward"])] == [[], [], []]
    assert (listed(kept.speakers.world_sizes), beyond) == ([BOUND] * 3, 0)
    state = JobState()
    state.bound_ranks(BOUND)
    for event in [*events[:10], odd, *events[10:]]:
        state.update(event)
    assert state.ingest.steps.ranks == BOUND
    assert sorted(state.ingest.nodes) == sorted(state.ingest.devices) == list(range(BOUND))
    assert max(one.starts_s.size for one in state.windows.steps) == BOUND


def test_who_stands_in_a_collective_is_bounded_alike(events):
    """It is kept by rank, too."""
    open_ = [
        OpenCollective(rank=rank, group="g", group_size=2, seq=1, operation="all_reduce", start_s=1.0)
        for rank in (0, 2**20 - 1)
    ]
    kept, beyond = within(msgspec.structs.replace(events[0], open=open_, now_s=2.0), 10)
    assert [one.rank for one in kept.open] == [0]
    assert beyond == 2**20 - 10


def hundredfold(event):
    """The same of a hundred times as many ranks."""
    rows = {name: listed(getattr(event, name)) * 100 for name in ("step", "start_s", "step_s")}
    rows["rank"] = [rank + 1000 * part for part in range(100) for rank in listed(event.rank)]
    phases = {word: listed(column) * 100 for word, column in event.phases.items()}
    return speaking(changed(event, phases=phases, **rows), range(100_000))


@pytest.mark.slow
def test_steps_of_many_ranks_that_wait_for_their_second_are_few(make_training):
    """Beyond a bound on steps times ranks they are summed up; the window says the same of them."""
    state, said = JobState(), []
    for event in make_training(ranks=1000, nodes=1, seconds=4, step_s=0.1):
        said += state.update(hundredfold(event))
        assert len(state.windows.steps) * 100_000 <= MOST_CELLS
    windows = [one for one in said if isinstance(one, JobWindow) and one.length_s == 1.0]
    assert [(one.ranks, one.steps) for one in windows] == [(100_000, 10)] * 3


@pytest.mark.parametrize("value", ["0", "1048577", "many"])
def test_the_setting_is_bounded_too(value):
    """What no rank number can reach is no bound."""
    with pytest.raises(SettingError, match="PACELINE_MOST_RANKS"):
        MOST_RANKS.read({"PACELINE_MOST_RANKS": value})
    assert MOST_RANKS.read({"PACELINE_MOST_RANKS": "8"}) == 8


def test_what_holds_for_a_rank_as_a_whole_is_bounded_alike():
    """Facts and breakdowns have ranks of their own, which the message need not speak for."""
    message = wire.decode(topics.OP, GOLDEN.joinpath("v2.1", "StepTimings.msgpack").read_bytes())
    most = max(columns.numbers(message.speakers.ranks)) + 1
    facts = RankFacts(ranks=[0, most], words={"nccl_version": ["2.27.5", "2.19.3"]})
    far = [msgspec.structs.replace(message.breakdowns[0], rank=rank) for rank in (0, most)]
    heard = SpeakersHeard()
    heard.hear(msgspec.structs.replace(message, facts=None, breakdowns=[]), most)
    kept, _, _, beyond = heard.hear(msgspec.structs.replace(message, facts=facts, breakdowns=far), most)
    assert kept.facts == RankFacts(ranks=[0], words={"nccl_version": ["2.27.5"]})
    assert [one.rank for one in kept.breakdowns] == [0]
    assert beyond == 1
