"""Episodes on one node: looks over seconds to what is worth telling."""

import msgspec
import pytest

from streams.episodes.persistence import Lasting
from streams.nodes.node_config import NodeConfig
from streams.nodes.node_episodes import Fact, NodeEpisodes, Tenant, Watched

CLOCKS = Watched("device_fault", "clocks GPU-0", "throttling", Lasting(10.0, 20.0, 10.0))
MINE = Tenant("mine", (0,), ("GPU-0",))


def fact(value=1.0, name="throttled"):
    return Fact(name=name, value=value, unit="ratio", rule="told from 0.5")


@pytest.fixture
def episodes():
    """With the thresholds as they are."""
    return NodeEpisodes(NodeConfig())


def look(episodes, seconds, bad=True, tenant=MINE, **more):
    """(second, state) of what is told of a look at each of ``seconds``."""
    facts = [fact()] if bad else []
    told = [(at_s, episodes.look(CLOCKS, at_s, (bad, facts), tenant, **more)) for at_s in seconds]
    return [(at_s, episode.state) for at_s, episode in told if episode]


BAD = [0.0, 5.0, 10.0, 15.0, 20.0]


def test_what_lasts_is_suspected_confirmed_and_over(episodes):
    """By the clock of the samples; it began one look before the first."""
    assert look(episodes, BAD) == [(10.0, "suspected"), (20.0, "confirmed")]
    assert episodes.get(CLOCKS).first == -5.0
    assert look(episodes, [25.0, 30.0, 35.0], bad=False) == [(30.0, "recovered")]
    assert episodes.get(CLOCKS) is None


def test_a_look_that_could_not_see_is_no_look(episodes):
    """None between others changes nothing."""
    told = look(episodes, [0.0, 5.0]) + look(episodes, [7.0], bad=None) + look(episodes, [10.0])
    assert told == [(10.0, "suspected")]
    assert look(NodeEpisodes(NodeConfig()), BAD, bad=None) == []


def test_a_clock_that_jumps_begins_to_count_again(episodes):
    """Set back, or with a gap: nothing has lasted yet."""
    assert look(episodes, [1000.0, 1005.0, 5.0, 10.0]) == []
    assert look(episodes, [10.0 + 151.0 + 5.0 * number for number in range(2)]) == []


def test_each_look_adds_what_it_cost(episodes):
    """Half a GPU that stood still from the start of the episode on, while it is bad; a clock set back costs nothing."""
    look(episodes, BAD, idle_gpus=0.5)
    hours = episodes.get(CLOCKS).gpu_hours
    assert hours == pytest.approx(0.5 * 25.0 / 3600)
    look(episodes, [25.0], bad=False, idle_gpus=0.5)
    look(episodes, [15.0], idle_gpus=0.5)
    assert episodes.get(CLOCKS).gpu_hours == hours


IDLE = Watched("idle_device", "idle GPU-0", "unknown", Lasting(300.0, 600.0, 10.0, share=1.0))


def look_idle(episodes, seconds, idle=True):
    """Whether one GPU stands still, at each of ``seconds``."""
    for at_s in seconds:
        episodes.look(IDLE, at_s, (idle, [fact()] if idle else []), MINE, idle_gpus=1.0)


def restored(episodes):
    again = NodeEpisodes(NodeConfig())
    again.load(msgspec.msgpack.decode(msgspec.msgpack.encode(episodes.state()), strict=False))
    return again


ELEVEN_MIN = [5.0 * number for number in range(133)]


@pytest.mark.parametrize("restart", [False, True])
def test_a_time_without_looks_costs_no_more_than_the_longest_gap(episodes, restart):
    """The collector was off for ten hours, or the node's clock stepped forward: nobody saw a GPU stand still."""
    look_idle(episodes, ELEVEN_MIN)
    seen = episodes.get(IDLE).gpu_hours
    assert seen == pytest.approx(665.0 / 3600)
    episodes = restored(episodes) if restart else episodes
    look_idle(episodes, [660.0 + 36_000.0])
    assert episodes.get(IDLE).gpu_hours == pytest.approx(seen + 150.0 / 3600)
    assert episodes.get(IDLE).gpu_hours < 0.25


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("between", [None, False])
def test_looks_that_see_something_else_cost_nothing(episodes, between, restart):
    """Between two looks that see a GPU stand still it was a little busy, or for a moment: that time is left out."""
    look_idle(episodes, ELEVEN_MIN)
    seen = episodes.get(IDLE).gpu_hours
    look_idle(episodes, [665.0, 670.0] if between is None else [665.0], idle=between)
    episodes = restored(episodes) if restart else episodes
    look_idle(episodes, [675.0])
    since_s = 5.0 if between is None else 10.0
    assert episodes.get(IDLE).gpu_hours == pytest.approx(seen + since_s / 3600)


def test_a_fact_of_another_name_is_news_and_a_newer_value_is_not(episodes):
    """The newest of each name is kept; 0.0 is a value."""
    revise = episodes.revise
    assert revise(CLOCKS, 0.0, "persistent", [fact()], MINE).revision == 1
    assert revise(CLOCKS, 0.5, None, [fact(0.0)], MINE) is None
    told = revise(CLOCKS, 0.7, None, [fact(3.0, "sm_clock")], MINE)
    assert {name: one.value for name, one in told.measured.facts.items()} == {"throttled": 0.0, "sm_clock": 3.0}


def test_calm_without_an_episode_is_no_news(episodes):
    """Nor is no signal at all."""
    assert episodes.revise(CLOCKS, 0.0, "calm", [], MINE) is None
    assert episodes.revise(CLOCKS, 0.0, None, [fact()], MINE) is None
    assert episodes.end(CLOCKS, 0.0, "gone") is None


def test_after_an_episode_it_rests_but_for_proof(episodes):
    """What is only suspected waits a minute; what is sure is told."""
    for signal in ("persistent", "calm"):
        episodes.revise(CLOCKS, 100.0, signal, [fact()] if signal != "calm" else [], MINE)
    assert episodes.revise(CLOCKS, 130.0, "late", [fact()], MINE) is None
    assert episodes.revise(CLOCKS, 131.0, "persistent", [fact()], MINE).state == "confirmed"
    assert episodes.end(CLOCKS, 132.0, "gone").state == "recovered"
    assert episodes.revise(CLOCKS, 132.0 + 60.0, "late", [fact()], MINE).state == "suspected"


def test_one_that_is_ended_says_why_and_counts_again(episodes):
    """The looks that led to it are forgotten with it."""
    look(episodes, BAD)
    assert episodes.end(CLOCKS, 21.0, "mine no longer has it").measured.ended == "mine no longer has it"
    assert look(episodes, [25.0]) == []


def test_what_is_forgotten_does_not_rest(episodes):
    """Without a word, and told anew at once."""
    look(episodes, BAD)
    episodes.forget(CLOCKS)
    assert episodes.get(CLOCKS) is None
    assert episodes.revise(CLOCKS, 21.0, "late", [fact()], MINE).revision == 1


def test_subjects_and_kinds_are_apart(episodes):
    """The memory of a GPU may be faulty and full at once; whom it concerned at first is kept."""
    full = CLOCKS._replace(kind="out_of_memory_risk")
    episodes.revise(CLOCKS, 0.0, "late", [fact()], MINE)
    episodes.revise(full, 0.0, "late", [fact()], Tenant("yours"))
    episodes.revise(CLOCKS, 1.0, "persistent", [fact()], Tenant("yours"))
    assert [episodes.get(one).measured.tenant.job for one in (CLOCKS, full)] == ["mine", "yours"]


def test_restored_it_confirms_when_it_would_have(episodes):
    """State is data, also through bytes."""
    look(episodes, BAD[:3])
    assert look(restored(episodes), BAD[3:]) == [(20.0, "confirmed")]
