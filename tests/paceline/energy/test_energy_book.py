"""The accounts: each joule on one of them, however windows come, and what cannot be divided is not."""

import random

import msgspec
import pytest

from paceline.energy.energy_book import MOST_JOBS, MOST_NODES, EnergyBook
from paceline.events import DeviceWindow, HostWindow, JobDescribed, JobWindow, RankPlace

T0_S = 1_700_000_040.0


def device(minute=0, joules=30_000.0, uuid="GPU-a", node="node-0", length_s=60.0, **fields):
    return DeviceWindow(
        cluster="c",
        start_s=T0_S + length_s * minute,
        length_s=length_s,
        node=node,
        device=uuid,
        samples=60,
        mean={},
        max={},
        **{"energy_j": joules, "energy_source": "counter", "energy_by_job": {"a": joules}} | fields,
    )


def host(minute=0, cpu_j=6000.0, dram_j=msgspec.UNSET, node="node-0"):
    return HostWindow(
        cluster="c",
        start_s=T0_S + 60.0 * minute,
        length_s=60.0,
        node=node,
        samples=60,
        mean={},
        max={},
        cpu_energy_j=cpu_j,
        dram_energy_j=dram_j,
    )


def steps(minute=0, count=100, wait=0.25, job="a", attempt=0):
    return JobWindow(
        cluster="c",
        start_s=T0_S + 60.0 * minute,
        length_s=60.0,
        job=job,
        attempt=attempt,
        ranks=8,
        steps=count,
        first_step=0,
        last_step=count,
        step_median_s=0.6,
        step_p95_s=0.6,
        own_median_s=0.5,
        own_worst_s=0.6,
        worst_rank=0,
        wait_ratio=wait,
        phase_median_s={},
    )


#: Places of two ranks that share their data.
PAIR = {"dp": [0, 0], "tp": [0, 1], "pp": [0, 0]}


def described(job="a", node="node-0", ranks=2, batch_size=4, world_size=8, ended_s=None, **places):
    made = [
        RankPlace(
            rank=rank, local_rank=rank, node=node, device="", pid=1, **{name: one[rank] for name, one in places.items()}
        )
        for rank in range(ranks)
    ]
    return JobDescribed(
        cluster="c",
        producer="s",
        sequence=0,
        job=job,
        attempt=0,
        node=node,
        world_size=world_size,
        backend="nccl",
        framework="torch",
        started_s=T0_S - 1000.0,
        ended_s=ended_s,
        places=made,
        batch_size=batch_size,
    )


def book(*events):
    made = EnergyBook()
    for event in events:
        made.update(event)
    made.finish()
    return made


def test_a_job_has_the_joules_of_its_gpus():
    """All of its GPUs, on all of its nodes."""
    told = book(*(device(minute, uuid=uuid, node=node) for minute in range(3) for uuid in "xy" for node in "nm"))
    assert told.of("c", "a").gpu_j == 12 * 30_000.0
    assert (told.of("c", "a").since_s, told.of("c", "a").until_s) == (T0_S, T0_S + 180.0)


def test_every_joule_is_on_one_account():
    """Shares, what is nobody's, and gaps together are all that windows have."""
    told = book(
        device(0, energy_by_job={"a": 10_000.0, "b": 5_000.0}, energy_split="memory"),
        device(1, energy_by_job=msgspec.UNSET),
        device(2, energy_gap_j=7.0e6),
        host(0),
        host(1),
    )
    a, b, node = told.of("c", "a"), told.of("c", "b"), told.nodes["c", "node-0"]
    assert (a.gpu_j, b.gpu_j, node.idle_gpu_j) == (40_000.0, 5_000.0, 45_000.0)
    assert (a.cpu_j, b.cpu_j, node.idle_host_j) == (pytest.approx(4000.0), pytest.approx(2000.0), 6000.0)
    assert node.gap_j == 7.0e6
    assert (a.sources, a.splits, a.host_splits) == (["counter"], ["memory"], ["gpus"])


def test_windows_that_come_again_count_once():
    """A worker that died repeats them."""
    events = [one for minute in range(6) for one in (device(minute), host(minute), steps(minute))]
    again = [*events[:9], *events[3:]]
    assert book(*again).of("c", "a") == book(*events).of("c", "a")


def test_the_order_of_topics_changes_nothing():
    """Devices, hosts and jobs tell theirs in any order, each in its own."""
    kinds = [[device(m) for m in range(6)], [host(m) for m in range(6)], [steps(m) for m in range(6)]]
    usual = book(*(one for minute in zip(*kinds, strict=True) for one in minute)).of("c", "a")
    chance = random.Random(3)
    for _ in range(50):
        left, mixed = [list(kind) for kind in kinds], []
        while any(left):
            # Nobody is more than a window ahead of the others.
            slowest = max(map(len, left))
            mixed.append(chance.choice([kind for kind in left if kind and len(kind) >= slowest - 1]).pop(0))
        told = book(*mixed).of("c", "a")
        assert (told.gpu_j, told.joined) == (usual.gpu_j, usual.joined)
        assert told.cpu_j == pytest.approx(usual.cpu_j, rel=1e-9)


@pytest.mark.parametrize("back", [0, 100], ids=["the clock goes on", "the clock is set back"])
@pytest.mark.parametrize("kinds", [(device, host), (host, device)], ids=["GPU first", "host first"])
def test_a_hosts_joules_are_the_jobs_whatever_its_clock_does(back, kinds):
    """By how many of its GPUs each job had in that window, which is remembered as long after a clock was set back."""
    minutes = [*range(10), *range(10 - back, 20 - back)]
    told = book(*(kind(minute) for minute in minutes for kind in kinds))
    assert told.of("c", "a").cpu_j == 20 * 6000.0
    assert told.nodes["c", "node-0"].idle_host_j == 0.0


def test_other_lengths_are_not_counted_beside_it():
    """Six windows of ten seconds are the same joules once more."""
    told = book(device(0), *(device(number, 5_000.0, length_s=10.0) for number in range(6)))
    assert told.of("c", "a").gpu_j == 30_000.0


def test_a_step_has_the_joules_of_its_own_time():
    """Minutes without steps, or without joules, are in the sum and in no quotient."""
    told = book(*(device(minute) for minute in range(4)), *(steps(minute) for minute in range(2, 6))).of("c", "a")
    assert told.gpu_j == 120_000.0
    assert (told.joined.steps, told.step_j) == (200, 300.0)


def test_waiting_has_its_share():
    """Of each minute as much as the median rank waited in it; minutes that do not tell it count for nothing."""
    told = book(device(0), steps(0, wait=0.5), device(1), steps(1, wait=0.1), device(2), steps(2, wait=None))
    assert told.of("c", "a").waiting_ratio == pytest.approx(0.3)
    assert told.of("c", "a").waiting_j == pytest.approx(0.3 * 90_000.0)


def test_what_goes_on_is_told_so_far():
    """Quotients of a job that runs: of all windows but the newest, of which some nodes may not have told."""
    made = EnergyBook()
    for event in (device(0), steps(0), device(1), steps(1), device(2, 1.0), steps(2)):
        made.update(event)
    assert made.of("c", "a").step_j == 300.0
    assert made.of("c", "a").joined.steps == 0
    made.finish()
    assert made.of("c", "a").joined.steps == 300


def test_what_nobody_measured_is_none():
    """No joules, no account; no steps, no quotient; no waiting told, no waste."""
    assert book(steps(0)).of("c", "a") is None
    assert book(device(0, energy_j=msgspec.UNSET, energy_by_job=msgspec.UNSET)).of("c", "a") is None
    alone = book(device(0)).of("c", "a")
    assert (alone.step_j, alone.sample_j, alone.waiting_j, alone.cpu_j) == (None, None, None, None)
    assert book(device(0), steps(0, wait=None)).of("c", "a").waiting_j is None


def test_0_joules_are_measured():
    """0.0 is a value."""
    assert book(device(0, 0.0), host(0, 0.0)).of("c", "a").total_j == 0.0


@pytest.mark.parametrize(
    ("parts", "samples"),
    [
        ([described()], 32),
        ([described(batch_size=None)], None),
        ([described(), described(node="node-1", batch_size=8)], None),
        ([described(world_size=2, dp=[0, 1], tp=[0, 0], pp=[0, 0])], 8),
        ([described(world_size=4, **PAIR), described(node="node-1", world_size=4, **(PAIR | {"dp": [1, 1]}))], 8),
        # Half of the ranks have not reported their places, or have none to report.
        ([described(world_size=4, **PAIR)], None),
        ([described(world_size=4, dp=[0, 1]), described(node="node-1", world_size=4)], None),
        ([described(tp=[0, 1])], None),
        ([], None),
    ],
)
def test_samples_a_step_are_those_of_all_loaders(parts, samples):
    """A loader's batch times the ranks that have data of their own; unknown where that is."""
    told = book(device(0), steps(0), *parts).of("c", "a")
    assert told.samples_a_step == samples
    assert told.sample_j == (None if samples is None else pytest.approx(300.0 / samples))


def test_a_host_without_gpus_is_shared_by_ranks():
    """Training on processors: by who described himself there, while he was there."""
    told = book(
        described("a", ranks=3),
        described("b", ranks=1),
        described("old", ranks=9, ended_s=T0_S - 1.0),
        host(0),
        host(1),
    )
    assert (told.of("c", "a").cpu_j, told.of("c", "b").cpu_j) == (9000.0, 3000.0)
    assert told.of("c", "a").host_splits == ["ranks"]
    assert told.of("c", "old") is None


def test_joules_that_cannot_be_are_bounded_by_their_window():
    """A sender that gives a job more than the GPU took, or less than nothing."""
    told = book(device(0, 100.0, energy_by_job={"a": 1e30, "b": -5.0}))
    assert (told.of("c", "a").gpu_j, told.of("c", "b").gpu_j) == (100.0, 0.0)


@pytest.mark.slow
def test_accounts_are_bounded():
    """Thousands of jobs and nodes push out those heard longest ago."""
    made = EnergyBook()
    for number in range(MOST_NODES + 5):
        made.update(device(0, node=f"n{number}", energy_by_job={f"job-{number}": 1.0}))
    assert (len(made.jobs), len(made.nodes)) == (MOST_JOBS, MOST_NODES)
    for number in range(1000):
        made.update(device(number, uuid=f"GPU-{number % 300}"))
        made.update(host(number))
        made.update(steps(number))
        made.update(described(f"j{number % 300}"))
    node = made.nodes["c", "node-0"]
    assert max(len(node.counted), len(node.present)) <= 256
    assert max(len(node.holders), len(node.hosts)) <= 8
    assert len(made.jobs["c", "a"].open) <= 9


def older(number, joules, length_s=300.0, **fields):
    """Five minutes of a GPU as an archive has them later, ``length_s`` of which have data."""
    made = device(0, joules, length_s=length_s, **fields)
    return msgspec.structs.replace(made, start_s=1_700_000_100.0 + 300.0 * number)


def test_five_minutes_and_minutes_are_one_account():
    """An archive replaces minutes with five; neither is lost, and steps are joined with the joules of their time."""
    start = round((1_700_000_100.0 - T0_S) / 60.0)
    kept = EnergyBook(60.0, longer=True)
    windows = [older(0, 150_000.0), older(1, 120_000.0, length_s=240.0)]
    windows += [device(start + 10 + at) for at in range(5)]
    for event in [*windows, *windows, *(steps(start + at) for at in range(15))]:
        kept.update(event)
    kept.finish()
    told = kept.of("c", "a")
    assert told.gpu_j == 420_000.0
    assert told.step_j == pytest.approx(420_000.0 / 1500)
    assert told.waiting_ratio == pytest.approx(0.25)


def test_two_jobs_on_a_gpu_within_five_minutes_have_their_joules_each():
    """They have a row each from one start on; a row that comes again is a repetition."""
    kept = EnergyBook(60.0, longer=True)
    rows = [older(0, 60_000.0, length_s=120.0, job="a")]
    rows += [older(0, 90_000.0, length_s=180.0, job="b", energy_by_job={"b": 90_000.0})]
    for row in rows + rows:
        kept.update(row)
    kept.finish()
    assert (kept.of("c", "a").gpu_j, kept.of("c", "b").gpu_j) == (60_000.0, 90_000.0)


def test_of_one_length_longer_windows_tell_the_same_joules_again():
    """As in a recording, which has both."""
    assert book(device(0), older(0, 150_000.0)).of("c", "a").gpu_j == 30_000.0


def test_waiting_is_weighted_by_steps_within_five_minutes():
    """A minute of few steps does not outweigh the others."""
    start = round((1_700_000_100.0 - T0_S) / 60.0)
    kept = EnergyBook(60.0, longer=True)
    for event in (older(0, 150_000.0), steps(start, 300, wait=0.0), steps(start + 1, 100, wait=1.0)):
        kept.update(event)
    kept.finish()
    assert kept.of("c", "a").waiting_ratio == pytest.approx(0.25)
