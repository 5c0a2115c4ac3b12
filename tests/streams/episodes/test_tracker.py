"""One driver for every episode: what moves it, what is told of it, and when it rests."""

import pytest

from streams.episodes.tracker import Episode, Measured, Policy, Tracker


def tracker(**policy):
    return Tracker(Episode[str, Measured], Policy(**policy))


def run(machine, signals, subject="rank 1"):
    """(state, revision) of what is told of each signal, a tick each; None where nothing is."""
    told = []
    for now, signal in enumerate(signals):
        episode = machine.get(subject) or machine.begin(subject, now)
        episode.add_tick(now, 1.0, 0.5)
        said = machine.revise(subject, signal, now)
        told.append(said and (said.state, said.revision))
    return told


def test_every_change_of_state_is_one_revision():
    """Suspected, confirmed and recovered are told once each, and nothing in between."""
    assert run(tracker(), ["late", "late", "persistent", None, "calm"]) == [
        ("suspected", 1),
        None,
        ("confirmed", 2),
        None,
        ("recovered", 3),
    ]


def test_growth_is_told_at_every_doubling():
    """A confirmed episode is told again when it is twice as long as when it was told last."""
    told = run(tracker(), ["persistent"] * 16)
    assert [tick for tick, said in enumerate(told, 1) if said] == [1, 2, 4, 8, 16]


def test_growth_is_told_only_at_the_signals_of_the_policy():
    """A detector whose episodes only wait tells no growth."""
    told = run(tracker(growth_at=frozenset()), ["persistent"] * 16)
    assert [tick for tick, said in enumerate(told, 1) if said] == [1]


def test_what_does_not_start_a_doubling_leaves_growth_to_be_told_at_once():
    """Without a state that starts it, the first growth is told at the next tick."""
    told = run(tracker(doubles_from=frozenset()), ["persistent"] * 5)
    assert [tick for tick, said in enumerate(told, 1) if said] == [1, 2, 4]


def test_news_is_told_whatever_the_signal():
    """Another cause, or a fresh fact, is a revision without a change of state."""
    machine = tracker()
    machine.begin("rank 1", 0)
    machine.revise("rank 1", "late", 0)
    assert machine.revise("rank 1", None, 1, news=True).revision == 2


@pytest.mark.parametrize(("now", "rests"), [(5, True), (13, True), (14, False)])
def test_an_episode_that_ended_rests(now, rests):
    """For so long after an episode the next one may not begin, counted from its end."""
    machine = tracker(cooldown=10)
    run(machine, ["late", "persistent", "persistent", "persistent", "calm"])
    assert machine.rests("rank 1", "late", now) is rests
    assert machine.resting(now) == ({"rank 1"} if rests else set())


def test_a_rest_holds_back_only_the_signals_of_the_policy():
    """What is proof by itself begins an episode also in a rest."""
    machine = tracker(cooldown=10, rest_holds=frozenset({"late"}))
    run(machine, ["late", "calm"])
    assert machine.rests("rank 1", "late", 2)
    assert not machine.rests("rank 1", "persistent", 2)


def test_what_is_told_stays_as_it_was():
    """A copy is told: the episode goes on without it."""
    machine = tracker()
    episode = machine.begin("rank 1", 0)
    said = machine.revise("rank 1", "late", 0)
    episode.add_tick(7, 1.0, 1.0)
    assert (said.last_step, episode.last_step) == (0, 7)


def test_evidence_is_made_for_what_is_told_and_not_for_calm():
    """An expensive measurement is asked for only where something is told of a trouble."""
    machine, made = tracker(), []

    def measure():
        made.append(len(made))
        return Measured(margin=2.0)

    machine.begin("rank 1", 0)
    told = [machine.revise("rank 1", signal, 0, measure=measure) for signal in ("late", None, "persistent", "calm")]
    assert made == [0, 1]
    assert [said and said.measured.margin for said in told] == [2.0, None, 2.0, 2.0]


def test_subjects_are_apart():
    """One subject's episode says nothing of another's."""
    machine = tracker()
    run(machine, ["persistent"], "rank 1")
    run(machine, ["late"], "rank 2")
    assert {name: machine.get(name).state for name in machine.open()} == {"rank 1": "confirmed", "rank 2": "suspected"}


def test_a_restored_tracker_goes_on():
    """State is data: the next doubling and the rest are remembered."""
    machine = tracker(cooldown=10)
    run(machine, ["persistent"] * 3)
    run(machine, ["late", "calm"], "rank 2")
    again = tracker(cooldown=10)
    again.load(machine.state())
    assert again.state() == machine.state()
    assert again.rests("rank 2", "late", 5)
    assert [bool(said) for said in run(again, ["persistent"] * 2)] == [True, False]


def test_a_tick_costs_its_share_of_the_step():
    """A step that is longer by a quarter has lost a fifth of its time; one that is shorter has lost nothing."""
    episode = tracker().begin("rank 1", 3)
    episode.add_tick(10, 5.0, 0.25)
    episode.add_tick(20, 5.0, -0.25)
    assert (episode.first_step, episode.last_step, episode.length) == (3, 20, 2)
    assert (episode.span_s, episode.lost_s) == (10.0, 1.0)


def test_seconds_are_counted_by_the_samples():
    """Time that goes back takes nothing away."""
    episode = tracker().begin("GPU-0", 1000.0)
    for at_s, idle_s in ((1360.0, 720.0), (1300.0, 0.0), (1720.0, 720.0)):
        episode.extend_to(at_s, idle_s)
    assert (episode.length, episode.gpu_hours) == (720.0, 0.4)
