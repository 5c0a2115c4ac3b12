"""A job bound by its communication: how much of the time goes into transfers, and how fast they are."""

import pytest

from paceline.bus_turns import TURNS
from streams.jobs.traffic import Traffic, TrafficConfig, said
from tests.timings import Link, linked

RANKS = 4
MIB = 1 << 20


@pytest.fixture
def run(make_calls, join):
    """Judge a second a message, of which ranks wait so long; (second, state) of what is told, and the last episode."""

    def judge(waits, seconds=40, traffic=None, start=0, rated=None, config=None, **calls):
        traffic, told, last = traffic or Traffic(config or TrafficConfig()), [], None
        for second in range(start, start + seconds):
            rows = [(rank, second, float(second), wait) for rank, wait in enumerate(waits)]
            links = linked([Link(0, 0.001, rated_bytes_per_s=rated)])
            batch = join(make_calls(rows, members=RANKS, size=MIB, **calls), links)
            episode = traffic.update(batch)
            if episode is not None:
                told.append((second, episode.state))
                last = episode
        return told, last

    return judge


def test_it_fires_when_every_rank_stands_in_transfers(run):
    """Windows of ten seconds: suspected after two, confirmed after three."""
    told, episode = run([0.6] * RANKS)
    assert [state for _, state in told] == ["suspected", "confirmed"]
    assert told[0][0] == 20
    assert episode.measured.least_share == pytest.approx(0.6, abs=0.05)


@pytest.mark.parametrize(("wait_s", "states"), [(12.0, []), (90.0, ["suspected", "confirmed"])])
def test_what_is_computed_between_the_transfers_of_long_steps_counts(make_calls, join, wait_s, states):
    """Steps of two minutes that end in transfers: a message holds those of one step, and nothing of its computing."""
    traffic, told = Traffic(TrafficConfig()), []
    for step in range(12):
        rows = [(rank, step, 120.0 * step, wait_s) for rank in range(RANKS)]
        told.append(traffic.update(join(make_calls(rows, members=RANKS, size=MIB))))
    assert list(dict.fromkeys(one.state for one in told if one is not None)) == states


def test_a_clock_that_is_set_back_costs_no_more_than_a_window(make_calls, join):
    """An hour back in the middle of a job: it is judged on, and not only when the clock has caught up."""
    traffic, told = Traffic(TrafficConfig()), []
    for second in range(120):
        at_s = second - 3600.0 * (second >= 15)
        rows = [(rank, second, at_s, 0.6) for rank in range(RANKS)]
        told.append(traffic.update(join(make_calls(rows, members=RANKS, size=MIB))))
    assert "confirmed" in [one.state for one in told if one is not None]


def test_a_rank_that_was_away_for_a_while_is_compared_over_what_was_heard(make_calls, join):
    """What it did meanwhile is not known: it is not taken for computing."""
    traffic, told = Traffic(TrafficConfig()), []
    for second in range(120):
        heard = range(RANKS) if not 30 <= second < 75 else range(RANKS - 1)
        rows = [(rank, second, float(second), 0.6) for rank in heard]
        told.append(traffic.update(join(make_calls(rows, members=len(heard), size=MIB))))
    assert list(dict.fromkeys(one.state for one in told if one is not None)) == ["suspected", "confirmed"]


def test_waiting_for_a_slow_rank_is_no_communication(run):
    """Who comes last waits for nobody: only the shortest wait of a collective counts."""
    assert run([0.6, 0.6, 0.6, 0.05])[0] == []


def test_time_between_two_ranks_is_left_out(run):
    """Sends and receives of a pipeline are mostly its bubble."""
    assert run([0.6] * RANKS, operation="send")[0] == []


@pytest.mark.parametrize(
    ("operation", "times"), [("all_reduce", 1.5), ("all_gather", 3.0), ("reduce_scatter", 0.75), ("broadcast", 1.0)]
)
def test_bus_bandwidth_is_that_of_nccls_own_tests(run, operation, times):
    """Bytes over the shortest time, times what the operation moves over the busiest link."""
    speed = run([0.5] * RANKS, operation=operation)[1].measured.speeds[0]
    assert (speed.operation, speed.power) == (operation, 20)
    assert speed.bytes_per_s == pytest.approx(MIB / 0.5 * times)
    assert operation in TURNS


@pytest.mark.parametrize(("rated", "cause"), [(None, "unknown"), (4e6, "unknown"), (25e9, "link")])
def test_links_far_under_their_rating_are_the_cause(run, rated, cause):
    """3.1 MB/s of 4 MB/s is much to move; of 25 GB/s it is a slow link."""
    assert run([0.5] * RANKS, rated=rated)[1].cause == cause


def test_what_people_say_of_their_links_counts(run):
    """A rating from the thresholds stands before the one of the kernel."""
    config = TrafficConfig(rated_bytes_per_s=4e6)
    episode = run([0.5] * RANKS, rated=25e9, config=config)[1]
    assert episode.measured.rated_bytes_per_s == 4e6
    assert "all_reduce of 1MiB: 0.00 GB/s of 0.00 rated" in said(episode, config).summary


def test_restored_in_a_window_it_goes_on(run):
    """State is data."""
    traffic, again = Traffic(TrafficConfig()), Traffic(TrafficConfig())
    run([0.6] * RANKS, traffic=traffic, seconds=25)
    again.load(traffic.state())
    after = {"seconds": 20, "start": 25}
    assert run([0.6] * RANKS, traffic=again, **after) == run([0.6] * RANKS, traffic=traffic, **after) != ([], None)


def test_each_time_that_a_job_is_bound_is_an_episode_of_its_own(run):
    """It may have no step numbers: a second finding of the first one's id would be taken for a late revision."""
    traffic, names = Traffic(TrafficConfig()), []
    for start in (0, 100):
        for at, waits in ((start, 0.6), (start + 50, 0.05)):
            told, last = run([waits] * RANKS, seconds=50, start=at, traffic=traffic)
            names.append((told[-1][1], said(last, TrafficConfig()).subject.name))
        again = Traffic(TrafficConfig())
        again.load(traffic.state())
        traffic = again
    first, second = "traffic", "traffic time 2"
    assert names == [("confirmed", first), ("recovered", first), ("confirmed", second), ("recovered", second)]


NCCL_GROUP = "0x7f8c496ae9f661 all_reduce"


def timed(make_calls, join, second, took_s, ranks=range(RANKS)):
    """A collective of 1 MiB in which the last rank to come stood ``took_s``, as NCCL's rows tell it."""
    rows = [(rank, second, float(second), took_s + 0.4 * (rank > 0)) for rank in ranks]
    return join(make_calls(rows, members=RANKS, size=MIB, group=NCCL_GROUP))


@pytest.mark.parametrize(("took_s", "cause"), [(0.00005, "unknown"), (0.5, "link")])
def test_nccls_own_times_tell_how_fast_links_are(run, make_calls, join, took_s, cause):
    """By the host's clock a collective begins when it is issued, long before its turn on the device: half a second for
    1 MiB is no slow link where NCCL took 50 µs for it. How much everybody waits stays the host's."""
    traffic, last = Traffic(TrafficConfig()), None
    for second in range(40):
        traffic.update_by_nccl(timed(make_calls, join, second, took_s))
        last = run([0.5] * RANKS, seconds=1, start=second, traffic=traffic, rated=25e9)[1] or last
    assert last.cause == cause
    assert [(one.operation, one.power) for one in last.measured.speeds] == [("all_reduce", 20)]
    assert last.measured.speeds[0].bytes_per_s == pytest.approx(MIB / took_s * 1.5)
    assert last.measured.least_share == pytest.approx(0.5, abs=0.05)


def test_nccls_times_bound_nobody_by_themselves(run, make_calls, join):
    """They are the same collectives again: no waiting is counted twice."""
    traffic = Traffic(TrafficConfig())
    for second in range(60):
        traffic.update_by_nccl(timed(make_calls, join, second, 0.9))
        assert run([0.05] * RANKS, seconds=1, start=second, traffic=traffic) == ([], None)


def test_a_transfer_counts_when_all_nodes_have_told_it(run, make_calls, join):
    """Who came last may be on the other; state is data meanwhile."""
    traffic, again = Traffic(TrafficConfig()), Traffic(TrafficConfig())
    traffic.update_by_nccl(timed(make_calls, join, 0, 0.00005, ranks=[1, 2]))
    assert traffic.speeds_by_nccl.fastest(9) == ()
    again.load(traffic.state())
    again.update_by_nccl(timed(make_calls, join, 0, 0.00005, ranks=[0, 3]))
    assert [one.bytes_per_s for one in again.speeds_by_nccl.fastest(9)] == [pytest.approx(MIB / 0.00005 * 1.5)]
    further = Traffic(TrafficConfig())
    further.load(again.state())
    assert further.speeds_by_nccl.fastest(9) == again.speeds_by_nccl.fastest(9)


def test_members_that_told_no_span_are_compared_with_nobody(run):
    """A message may name members of a group that never speak, with any number: nothing changes for the others."""
    alone, _ = run([0.6] * RANKS, seconds=25)
    traffic = Traffic(TrafficConfig())
    told, _ = run([0.6] * RANKS, seconds=5, traffic=traffic)
    for group in traffic.members:
        traffic.members[group].update({RANKS, 255, 262_143})
    more, _ = run([0.6] * RANKS, seconds=20, traffic=traffic, start=5)
    assert told + more == alone != []


def test_sums_of_one_node_count_as_those_that_nodes_tell_in_parts(make_summed, join):
    """Whether all members tell at once or one after the other; sends and receives of both are left out."""
    rows = [(3, 0, 0, 2, 2 * MIB, 0.5, 0.75), (3, 0, 1, 1, MIB, 0.5, 0.5), (4, 0, 0, 1, MIB, 0.25, 0.5)]
    words = {"operations": ("all_reduce", "send")}
    whole, parts = Traffic(TrafficConfig()), Traffic(TrafficConfig())
    whole.update(join(make_summed(*rows, members=8, **words)))
    parts.update(join(make_summed(*rows, members=3, **words)))
    assert parts.waited == {}
    parts.update(join(make_summed(*rows, members=5, **words)))
    assert whole.waited == parts.waited == {"world": 0.75}
    assert whole.steps == parts.steps == [3, 4]
    assert whole.speeds.state() == parts.speeds.state() != []
    assert whole.open == parts.open == {}
