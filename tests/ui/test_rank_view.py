import msgspec
import numpy as np

import ui.feed
from paceline import events
from tests.ui.simulated_job import SimulatedJob
from ui.feed import Feed


def staged(job, stages):
    """The job's description with a pipeline stage a rank."""
    for topic, event in job.described(900.0):
        places = [msgspec.structs.replace(place, pp=stages[place.rank]) for place in event.places]
        yield topic, msgspec.structs.replace(event, places=places)


def test_a_rank_is_compared_with_its_own_stage(simulated_job, tell):
    """Ranks of another stage do other work; the cohort has the rank itself, too."""
    feed = Feed()
    tell(feed, staged(simulated_job, [0, 1, 0, 1]))
    tell(feed, simulated_job.timings(900.0, 0, 30))
    view = feed.rank("default", "demo", 2)
    assert (view.stage, view.cohort.tolist()) == (0, [0, 2])
    assert feed.rank("default", "demo", 3).cohort.tolist() == [1, 3]


def test_the_jobs_picture_knows_the_stages(simulated_job, tell):
    """It compares ranks as their own page does."""
    feed = Feed()
    tell(feed, simulated_job.timings(900.0, 0, 30))
    assert feed.view("default", "demo").stages.tolist() == [-1] * 4
    tell(feed, staged(simulated_job, [0, 1, 0, 1]))
    assert feed.view("default", "demo").stages.tolist() == [0, 1, 0, 1]


def test_the_median_is_the_cohorts_step_by_step(played):
    """The slow rank computes nearly twice as long from step 60 on; its peers' median does not."""
    view = played.rank("default", "demo", 2)
    slow = view.steps >= 60
    assert np.nanmedian(view.own_s["backward"][slow] / view.median_s["backward"][slow]) > 1.8
    assert np.nanmedian(view.own_s["backward"][~slow] / view.median_s["backward"][~slow]) < 1.1
    assert np.isfinite(view.at_s).all()


def test_machines_stand_beside_those_of_the_same_ten_seconds(simulated_job, tell):
    """A peer that was not heard then does not count; one that is silent for good leaves a gap."""
    feed = Feed()
    tell(feed, simulated_job.described(900.0))
    for at_s in (900.0, 910.0, 920.0):
        tell(feed, simulated_job.machines(at_s), at_s)
    late = [one for one in simulated_job.machines(930.0) if one[1].node == "gpu-01"]
    tell(feed, late, 930.0)
    view = feed.rank("default", "demo", 0)
    assert view.gpu.at_s.tolist() == [900.0, 910.0, 920.0, 930.0]
    assert view.gpu.peers == 3
    assert np.isfinite(view.gpu.median["power_w"]).all()
    assert np.isfinite(view.host.median["cpu_ratio"]).tolist() == [True, True, True, False]


def test_a_rank_that_nobody_told_of_is_none(played):
    """Nor is there one in a job that nobody told of."""
    assert played.rank("default", "demo", 4) is None
    assert played.rank("default", "other", 0) is None


def test_a_rank_without_machines_has_its_phases(simulated_job, tell):
    """No collector runs: GPU and host are not there, the rest is."""
    feed = Feed()
    tell(feed, simulated_job.timings(900.0, 0, 10))
    view = feed.rank("default", "demo", 1)
    assert (view.gpu, view.host) == (None, None)
    assert view.own_s[events.STEP].shape == (5,)  # The first five of an attempt warm up.


def test_there_is_no_median_of_nobody(tell):
    """One node, then one rank: no peer's host, no other rank, no number in their place."""
    job, feed = SimulatedJob(ranks=4, nodes=1, slow_rank=2, job="demo"), Feed()
    tell(feed, [*job.described(900.0), *job.timings(900.0, 0, 30), *job.machines(900.0)], 900.0)
    view = feed.rank("default", "demo", 0)
    assert (view.gpu.peers, view.host.peers) == (3, 0)
    assert np.isnan(view.host.median["cpu_ratio"]).all()
    alone, feed = SimulatedJob(ranks=1, nodes=1, slow_rank=0, job="demo"), Feed()
    tell(feed, [*alone.described(900.0), *alone.timings(900.0, 0, 30)], 900.0)
    view = feed.rank("default", "demo", 0)
    assert np.isfinite(view.own_s["forward"]).all()
    assert np.isnan(view.median_s["forward"]).all()


def test_a_host_that_was_never_measured_is_no_peer(simulated_job, tell):
    """A collector on one of two nodes: the median is of nobody."""
    feed = Feed()
    tell(feed, [*simulated_job.described(900.0), *simulated_job.timings(900.0, 0, 10)], 900.0)
    tell(feed, [one for one in simulated_job.machines(900.0) if one[1].node == "gpu-01"], 900.0)
    assert feed.rank("default", "demo", 0).host.peers == 0


def test_many_jobs_share_one_budget(monkeypatch, tell):
    """Beyond it the jobs heard longest ago keep fewer steps, the newest all of its own."""
    one = SimulatedJob(ranks=8, nodes=1, job="0")
    feed = Feed()
    tell(feed, one.timings(0.0, 0, 50))
    alone = feed.jobs["default", "0"].cells
    monkeypatch.setattr(ui.feed, "CELLS", 3 * alone)
    for number in range(1, 8):
        tell(feed, SimulatedJob(ranks=8, nodes=1, job=str(number)).timings(0.0, 0, 50), float(number))
    assert sum(held.cells for held in feed.jobs.values()) <= 3 * alone
    assert feed.jobs["default", "7"].cells == alone
    assert feed.view("default", "0").steps.size > 0
