"""A job bound by its communication: how much of the time goes into transfers, and how fast they are."""

import pytest

from paceline.events import LinkSample
from streams.jobs.traffic import FACTORS, Traffic, TrafficConfig, said

RANKS = 4
MIB = 1 << 20


@pytest.fixture
def run(make_calls, join):
    """Judge a second a message, of which ranks wait so long; (second, state) of what is told, and the last episode."""

    def judge(waits, seconds=40, traffic=None, start=0, rated=None, config=None, **calls):
        traffic, told, last = traffic or Traffic(config or TrafficConfig()), [], None
        for second in range(start, start + seconds):
            rows = [(rank, second, float(second), wait) for rank, wait in enumerate(waits)]
            links = [LinkSample(rank=0, connections=1, rtt_s=0.001, retransmits=0, rated_bytes_per_s=rated)]
            batch = join(make_calls(rows, members=RANKS, size=MIB, links=links, **calls))
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
    assert told[0][0] == 21
    assert episode.measured.least_share == pytest.approx(0.6, abs=0.05)


def test_waiting_for_a_slow_rank_is_no_communication(run):
    """Who comes last waits for nobody: only the shortest wait of a collective counts."""
    assert run([0.6, 0.6, 0.6, 0.05])[0] == []


def test_time_between_two_ranks_is_left_out(run):
    """Sends and receives of a pipeline are mostly its bubble."""
    assert run([0.6] * RANKS, operation="send")[0] == []


@pytest.mark.parametrize(("operation", "times"), [("all_reduce", 1.5), ("all_gather", 0.75), ("broadcast", 1.0)])
def test_bus_bandwidth_is_that_of_nccls_own_tests(run, operation, times):
    """Bytes over the shortest time, times what the operation moves over the busiest link."""
    speed = run([0.5] * RANKS, operation=operation)[1].measured.speeds[0]
    assert (speed.operation, speed.power) == (operation, 20)
    assert speed.bytes_per_s == pytest.approx(MIB / 0.5 * times)
    assert operation in FACTORS


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
    again.load(traffic.snapshot())
    after = {"seconds": 20, "start": 25}
    assert run([0.6] * RANKS, traffic=again, **after) == run([0.6] * RANKS, traffic=traffic, **after) != ([], None)
