"""How far ranks are from their nearest peers: both ends of a connection count, and what was measured last."""

import math

import pytest

from streams.jobs.distances import Distances
from tests.streams.conftest import joined
from tests.timings import Link, Peer, linked


def end(rank):
    return f"10.0.0.{rank}:29500"


def sample(rank, **rtt_s):
    """What ``rank`` measured of its connections: ``to_1=0.001`` is its round trip to rank 1."""
    peers = [Peer(end(rank), end(int(name[3:])), rtt) for name, rtt in rtt_s.items()]
    return Link(rank, 0.0, connections=len(peers), peers=peers)


def told(distances, samples):
    """The distance of each rank that the samples, as columns, tell of."""
    ranks, rtts_s = distances.update(joined(linked(samples)).links)
    return dict(zip(ranks.tolist(), rtts_s.tolist(), strict=True))


@pytest.fixture
def ring():
    """A ring of three in which each sends to the next; what leads to rank 2 or away from it is slow."""
    return [sample(0, to_1=0.001), sample(1, to_2=0.040), sample(2, to_0=0.040)]


def test_a_rank_is_as_far_as_its_nearest_peer(ring):
    """The neighbours of the far rank have a fast connection on their other side, measured by either end."""
    assert told(Distances(), ring) == {0: 0.001, 1: 0.001, 2: 0.040}


def test_the_order_of_the_samples_changes_nothing(ring):
    """Also where the far end is named only later in the batch."""
    assert told(Distances(), ring[::-1]) == told(Distances(), ring)


def test_the_same_sample_again_changes_nothing(ring):
    """A rank's new sample takes the place of its last, at both ends."""
    distances = Distances()
    told(distances, ring)
    before = distances.rtts_s.copy()
    assert told(distances, ring) == {0: 0.001, 1: 0.001, 2: 0.040}
    assert distances.rtts_s.tolist() == before.tolist()


def test_what_was_measured_last_counts(ring):
    """A connection that has become quick is quick for both."""
    distances = Distances()
    told(distances, ring)
    assert told(distances, [sample(1, to_2=0.001)]) == {1: 0.001}
    assert told(distances, [sample(2, to_0=0.040)]) == {2: 0.001}


def test_a_round_trip_of_zero_is_a_value():
    """0.0 is the shortest there is; only None is not measured."""
    assert told(Distances(), [sample(0, to_1=0.0), sample(1, to_0=0.002)]) == {0: 0.0, 1: 0.0}


@pytest.mark.parametrize("rtt_s", [None, math.nan, math.inf, -0.001])
def test_what_is_no_round_trip_is_left_out(rtt_s):
    """The end that only received measures nothing; nor does what cannot be."""
    assert told(Distances(), [sample(0, to_1=rtt_s)]) == {}
    assert told(Distances(), [sample(0, to_1=rtt_s), sample(1, to_0=0.002)]) == {0: 0.002, 1: 0.002}


def test_a_far_end_that_nobody_names_still_counts_for_the_near_one():
    """The sampling rank is as far as that."""
    assert told(Distances(), [sample(0, to_9=0.003)]) == {0: 0.003}


def test_no_samples_and_samples_without_connections_say_nothing():
    """An empty batch, a single rank, a rank whose connections were idle."""
    distances = Distances()
    assert told(distances, []) == {}
    assert told(distances, [sample(0)]) == {}


@pytest.mark.slow
def test_ends_that_are_remembered_are_bounded():
    """A rank that opens new connections without end does not fill the memory."""
    distances = Distances()
    for port in range(1000):
        told(distances, [Link(1, 0.0, peers=[Peer(f"10.0.0.1:{port}", end(2), 0.001)])])
    assert len(distances.owners) <= 128


def test_restored_both_ends_know_the_connection(ring):
    """State is data; what is derived of it is worked out again."""
    distances, again = Distances(), Distances()
    told(distances, ring)
    again.load(distances.state())
    assert told(again, [sample(1, to_2=0.002)]) == told(distances, [sample(1, to_2=0.002)])
