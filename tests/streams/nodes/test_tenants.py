"""Who uses each GPU: a job that restarts is away for seconds, one that left for a minute."""

import msgspec
import pytest

from paceline.events import DeviceProcess
from streams.nodes.node_config import MOST_DEVICES
from streams.nodes.node_episodes import Tenant
from streams.nodes.tenants import VACANT_S, Tenants, claims

MINE, YOURS, NOBODY = Tenant("mine", (0, 1), ("GPU-0",)), Tenant("yours", (0,), ("GPU-0",)), Tenant(devices=("GPU-0",))


def after(*seen):
    """The tenants after (second, who) of GPU-0, and what the last look told."""
    tenants = Tenants()
    for at_s, tenant in seen:
        moved = tenants.update({"GPU-0": tenant}, at_s)
    return tenants, moved


def test_a_gpu_nobody_was_seen_on_belongs_to_nobody():
    """It is named all the same."""
    tenants = Tenants()
    assert tenants.of("GPU-9") == Tenant(devices=("GPU-9",))
    assert (tenants.jobs(), tenants.only(), tenants.update({}, 0.0)) == ({}, Tenant(), {})


def test_the_first_tenant_takes_it_from_nobody_known():
    """Nothing is passed on before somebody was there."""
    tenants, moved = after((0.0, MINE))
    assert moved == {}
    assert (tenants.of("GPU-0"), tenants.jobs(), tenants.ranks("mine")) == (MINE, {"mine": ["GPU-0"]}, {0, 1})


def test_another_job_has_it_at_once():
    """And who had it is told."""
    tenants, moved = after((0.0, MINE), (1.0, YOURS))
    assert moved == {"GPU-0": MINE}
    assert tenants.of("GPU-0") == YOURS


@pytest.mark.parametrize(("away_s", "left"), [(0.0, False), (VACANT_S - 0.1, False), (VACANT_S, True)])
def test_a_job_has_left_when_nobody_was_seen_for_a_minute(away_s, left):
    """Before that it may be restarting."""
    tenants, moved = after((0.0, MINE), (10.0, NOBODY), (10.0 + away_s, NOBODY))
    assert (tenants.of("GPU-0"), moved) == ((NOBODY, {"GPU-0": MINE}) if left else (MINE, {}))


def test_a_job_that_comes_back_was_never_away():
    """The minute begins again with its next absence."""
    seen = ((0.0, MINE), (10.0, NOBODY), (30.0, MINE), (60.0, NOBODY), (100.0, NOBODY))
    tenants, moved = after(*seen)
    assert (tenants.of("GPU-0"), moved) == (MINE, {})


def test_a_clock_set_back_keeps_nobody_for_ever():
    """An absence that would end before it began is over."""
    tenants, moved = after((1000.0, MINE), (1010.0, NOBODY), (10.0, NOBODY))
    assert (tenants.of("GPU-0"), moved) == (NOBODY, {"GPU-0": MINE})


def test_ranks_that_change_are_no_move():
    """The same job, of which another rank was seen."""
    tenants, moved = after((0.0, MINE), (1.0, msgspec.structs.replace(MINE, ranks=(5,))))
    assert (tenants.ranks("mine"), moved) == ({5}, {})


def test_the_one_job_of_a_node():
    """With all its ranks in order; of two jobs none is the one."""
    tenants = Tenants()
    tenants.update({"GPU-1": Tenant("mine", (3,), ("GPU-1",)), "GPU-0": MINE}, 0.0)
    assert tenants.only() == Tenant("mine", (0, 1, 3))
    tenants.update({"GPU-1": Tenant("yours", (0,), ("GPU-1",))}, 1.0)
    assert tenants.only() == Tenant()


def test_restored_it_waits_on():
    """State is data, also of a GPU that is empty for a while."""
    tenants, _ = after((0.0, MINE), (10.0, NOBODY))
    again = Tenants()
    again.load(tenants.state())
    assert again.update({"GPU-0": NOBODY}, 10.0 + VACANT_S) == {"GPU-0": MINE}


def process(device=0, job="mine", rank=0, used_bytes=1):
    return DeviceProcess(device=device, pid=1, name="python", used_bytes=used_bytes, job=job, rank=rank)


def claimed(make_node, *processes, **more):
    return claims(msgspec.structs.replace(make_node(1)[0], processes=list(processes), **more))


def test_processes_claim_their_gpus(make_node):
    """A GPU without processes is claimed by nobody, and one process may be of no job."""
    tenants = claimed(make_node, process(rank=1), process(rank=0), process(device=1, job=None))
    assert tenants == {"GPU-0": MINE, "GPU-1": Tenant(devices=("GPU-1",))}


@pytest.mark.parametrize("turned", [False, True])
def test_of_several_jobs_the_one_with_the_most_memory_has_it(make_node, turned):
    """Added up over its processes, in any order; of a tie the first by name, and unknown memory is none."""
    shared = [process(used_bytes=3), process(rank=1, used_bytes=3), process(job="yours", used_bytes=5)]
    tie = [process(job="b", used_bytes=None), process(job="a", used_bytes=0)]
    for processes, job in ((shared, "mine"), (tie, "a")):
        assert claimed(make_node, *processes[:: -1 if turned else 1])["GPU-0"].job == job


@pytest.mark.parametrize("rank", [None, -1, 2**20, 2**62])
def test_a_rank_that_cannot_be_is_no_rank(make_node, rank):
    """The job has the GPU all the same."""
    assert claimed(make_node, process(rank=rank))["GPU-0"] == Tenant("mine", (), ("GPU-0",))


def test_what_does_not_tell_its_processes_is_left_out(make_node):
    """One GPU of the node, or all of them: nobody is taken for gone."""
    assert list(claimed(make_node, not_measured={"processes[1]": "denied"})) == ["GPU-0"]
    assert claimed(make_node, process(), not_measured={"processes": "denied"}) == {}


def test_gpus_are_counted_past_those_that_did_not_open(make_node):
    """Reasons bear the driver's number of a GPU, processes its place among those that opened."""
    gone = {"device[0]": "GPU is lost", "processes[2]": "denied"}
    assert list(claimed(make_node, process(device=1), not_measured=gone)) == ["GPU-0"]


def test_more_gpus_than_a_node_can_have_are_not_believed(make_node):
    """And a process on one that is not there claims nothing."""
    uuids = [f"GPU-{number}" for number in range(MOST_DEVICES + 5)]
    assert len(claimed(make_node, process(device=10**6), uuids=uuids)) == MOST_DEVICES
