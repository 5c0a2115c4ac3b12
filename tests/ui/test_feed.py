import math

import msgspec
import numpy as np
import pytest

from paceline import events, topics
from paceline.columns import durations, encoded, rows, whole
from tests.balanced_job import BalancedJob
from tests.ui.simulated_job import SimulatedJob
from ui.feed import JOBS, Feed
from ui.headline import headline


def test_a_job_is_held_with_its_ranks_steps_and_places(played):
    """What was told is what is shown."""
    view = played.view("default", "demo")
    assert view.step_s.shape == (4, 100)
    assert view.world_size == 4
    assert view.places[3] == "gpu-02 cuda:1"


def test_repeated_messages_add_nothing(simulated_job, tell):
    """Delivery is at least once: the same message again leaves every number as it was."""
    feed, sent = Feed(), list(simulated_job.timings(0.0, 0, 20))
    tell(feed, sent)
    before = feed.view("default", "demo")
    tell(feed, sent)
    assert np.array_equal(before.step_s, feed.view("default", "demo").step_s)
    assert feed.traffic["op"].sequences.repeated == 2


def test_missing_messages_are_counted(simulated_job, tell):
    """A gap in a producer's numbers is missing messages."""
    feed = Feed()
    batches = [list(simulated_job.timings(0.0, first, 2)) for first in range(0, 10, 2)]
    tell(feed, batches[0])
    tell(feed, batches[4])
    assert feed.missing == 6


def test_what_the_reader_skipped_itself_is_no_gap(simulated_job, tell):
    """Jumping forward is counted as skipped, not as missing."""
    feed = Feed()
    batches = [list(simulated_job.timings(0.0, first, 2)) for first in range(0, 10, 2)]
    tell(feed, batches[0])
    feed.skip("op", 6)
    tell(feed, batches[4])
    assert (feed.missing, feed.traffic["op"].skipped) == (0, 6)


def test_findings_are_upserted_by_id_and_revision(played, simulated_job, tell):
    """The same revision twice is one revision."""
    tell(played, [simulated_job.finding(2, 99, "confirmed")])
    episodes = played.view("default", "demo").episodes
    assert [[finding.revision for finding in episode] for episode in episodes] == [[1, 2]]


def test_a_later_attempt_starts_afresh(played, simulated_job, tell):
    """What an attempt did is not mixed with the next one's."""
    topic, event = next(iter(simulated_job.timings(0.0, 0, 5)))
    tell(played, [(topic, msgspec.structs.replace(event, attempt=1, producer="other"))])
    assert played.view("default", "demo").steps.size == 5


def test_another_run_of_the_same_attempt_starts_afresh(played, simulated_job, tell):
    """A name that is used again: steps from 0 are not written into those of the run before, which has ended."""
    tell(played, simulated_job.described(900.0, ended_s=1100.0), 1100.0)
    assert played.view("default", "demo").steps.size == 100
    tell(played, simulated_job.described(1200.0), 1200.0)
    tell(played, simulated_job.timings(1200.0, 0, 5), 1200.0)
    view = played.view("default", "demo")
    assert view.steps.tolist() == [0, 1, 2, 3, 4]
    assert view.episodes == []
    assert view.places[3] == "gpu-02 cuda:1", "all nodes describe the same run"
    tell(played, [simulated_job.finding(3, 99, "recovered")], 1201.0)
    assert played.lines(1201.0)[0].lost_s == 0, "the last word on a finding of the run before"
    tell(played, [simulated_job.finding(1, 99, "confirmed"), simulated_job.finding(2, 110, "confirmed")], 1202.0)
    assert [[one.revision for one in episode] for episode in played.view("default", "demo").episodes] == [[1, 2]]


def test_findings_reported_since_another_run_began_are_its_own(played, simulated_job, tell):
    """On a page that reads them before it reads when the run began: what comes of them later is shown."""
    tell(played, simulated_job.described(900.0, ended_s=990.0), 990.0)
    tell(played, simulated_job.described(995.0), 995.0)
    tell(played, [simulated_job.finding(3, 120, "confirmed")], 1010.0)
    assert [episode[-1].revision for episode in played.view("default", "demo").episodes] == [3]


def of_killed(sent):
    """What a sidecar of the run before sent, which described another one."""
    return [(topic, msgspec.structs.replace(event, producer=f"killed-{event.node}")) for topic, event in sent]


@pytest.mark.parametrize("steps", [200, 6_000])
def test_a_run_that_was_killed_without_a_goodbye_makes_way_for_the_next(simulated_job, tell, steps):
    """Its steps are counted from 0: they are shown, not those of the run before, of which some come late."""
    feed = Feed()
    tell(feed, simulated_job.described(900.0))
    for first in range(0, steps, 200):
        tell(feed, simulated_job.timings(900.0 + 0.1 * first, first, 200))
    tell(feed, simulated_job.described(5_000.0))
    for first in range(0, 100, 20):
        tell(feed, simulated_job.timings(5_000.0 + 2.0 * first, first, 20))
    tell(feed, of_killed(simulated_job.timings(900.0 + 0.1 * steps, steps, 20)))
    view = feed.view("default", "demo")
    assert view.steps.tolist() == list(range(100))
    assert np.isfinite(view.step_s).all()
    assert view.at_s[0] >= 5_000.0
    assert view.phase_steps == 100 - events.WARM_UP_STEPS


def test_steps_from_before_the_run_that_is_described_are_passed_over(simulated_job, tell):
    """A page that starts finds those of the run before still on the bus, and only the next one's description."""
    feed = Feed()
    tell(feed, simulated_job.described(5_000.0))
    tell(feed, of_killed(simulated_job.timings(900.0, 5_000, 20)))
    assert feed.view("default", "demo").steps.size == 0
    tell(feed, simulated_job.timings(5_001.0, 0, 20))
    assert feed.view("default", "demo").steps.tolist() == list(range(20))


def test_rows_that_come_late_begin_no_run(simulated_job, tell):
    """A node's spool is sent after an outage: its steps began before the newest that is shown."""
    feed = Feed()
    tell(feed, simulated_job.timings(940.0, 20, 80))
    tell(feed, simulated_job.timings(900.0, 0, 20), 2_000.0)
    assert feed.view("default", "demo").steps.tolist() == list(range(100))


def test_a_clock_that_is_set_back_freezes_nothing(simulated_job, tell):
    """Windows and steps of before are dated an hour ahead; later steps are the newer ones, and the job can end."""
    feed = Feed()
    tell(feed, simulated_job.described(4_500.0))
    tell(feed, [*simulated_job.timings(4_590.0, 0, 100), simulated_job.window(4_600.0, 99)])
    tell(feed, [*simulated_job.timings(1_000.0, 100, 100), simulated_job.window(1_010.0, 199)])
    view = feed.view("default", "demo")
    assert (view.window.last_step, headline(view).as_of_s) == (199, 1_010.0)
    tell(feed, simulated_job.described(4_500.0, ended_s=1_020.0, exit_status=0))
    assert feed.view("default", "demo").ended_s == 1_020.0


def test_an_earlier_attempts_late_messages_are_passed_over(played, simulated_job, tell):
    """A straggling message of the attempt before changes nothing."""
    topic, event = next(iter(simulated_job.timings(0.0, 0, 5)))
    tell(played, [(topic, msgspec.structs.replace(event, attempt=-1, producer="other"))])
    assert played.view("default", "demo").steps.size == 100


@pytest.mark.parametrize("column", ["rank", "step"])
def test_fractions_for_whole_numbers_are_an_error(simulated_job, column):
    """A wide row of rank one and a half is told to the reader, and not rounded to some other rank."""
    topic, event = next(iter(simulated_job.timings(0.0, 0, 1)))
    with pytest.raises(ValueError, match="whole numbers"):
        Feed().update(topic.short, msgspec.structs.replace(event, **{column: durations([1.5, 1.5])}), 0.0)


@pytest.mark.parametrize(
    ("column", "numbers"),
    [
        ("rank", encoded("u8", [2**63 + 1, 2**64 - 1])),
        ("rank", whole([2**20, 2**20])),
        ("step", encoded("u8", [2**63 + 1, 2**53 + 1])),
        ("step_s", durations([math.nan, -1.0])),
        ("step_s", encoded("f8", [math.inf, 1e300])),
    ],
)
def test_impossible_numbers_of_wide_rows_are_not_shown(simulated_job, tell, column, numbers):
    """Ranks, steps and times that cannot be leave what is shown as it was."""
    feed = Feed()
    tell(feed, simulated_job.timings(900.0, 0, 10))
    before = feed.view("default", "demo")
    topic, event = next(iter(simulated_job.timings(910.0, 9, 1)))
    tell(feed, [(topic, msgspec.structs.replace(event, **{column: numbers}))])
    after = feed.view("default", "demo")
    assert np.array_equal(after.step_s, before.step_s)


def test_starts_that_cannot_be_are_passed_over(simulated_job, tell):
    """A start in no year of ours leaves the step's time open, and its seconds are shown."""
    feed = Feed()
    for topic, event in simulated_job.timings(900.0, 0, 1):
        tell(feed, [(topic, msgspec.structs.replace(event, start_s=encoded("f8", [math.nan, math.inf])))])
    view = feed.view("default", "demo")
    assert np.isnan(view.at_s).all()
    assert not np.isnan(view.step_s).any()


def test_a_message_without_rows_says_that_the_job_is_there(simulated_job, tell):
    """A node whose ranks stand in a collective tells so and closes no step: the job has been heard, with its places."""
    feed = Feed()
    topic, event = next(iter(simulated_job.timings(900.0, 0, 1)))
    none = whole([])
    bare = {"rank": none, "step": none, "start_s": none, "step_s": none, "phases": {}}
    tell(feed, [(topic, msgspec.structs.replace(event, **bare))], 950.0)
    view = feed.view("default", "demo")
    assert (view.last_s, view.steps.size, view.world_size) == (950.0, 0, 4)


def test_jobs_are_bounded_and_the_longest_silent_is_forgotten(tell):
    """One job more than there is room for drops the one heard longest ago."""
    feed = Feed()
    for number in range(JOBS + 1):
        tell(feed, SimulatedJob(2, 1, 0, 0, f"job-{number}").described(0.0), float(number))
    assert len(feed.jobs) == JOBS
    assert feed.view("default", "job-0") is None


def test_running_jobs_come_first_and_the_newest_of_them(tell):
    """An ended job never comes before a running one, nor one that was killed without a goodbye and is silent."""
    feed, older = Feed(), SimulatedJob(2, 1, 0, 0, "older")
    tell(feed, older.described(0.0), 1.0)
    tell(feed, SimulatedJob(2, 1, 0, 0, "newer").described(0.0), 2.0)
    tell(feed, SimulatedJob(2, 1, 0, 0, "ended").described(0.0, ended_s=3.0, exit_status=0), 3.0)
    assert [line.job for line in feed.lines(4.0)] == ["newer", "older", "ended"]
    tell(feed, older.described(0.0), 100.0)
    assert [line.job for line in feed.lines(101.0)] == ["older", "newer", "ended"]


def test_a_job_has_ended_only_when_all_its_nodes_have(simulated_job, tell):
    """One node's end is not the job's."""
    feed = Feed()
    first, second = simulated_job.described(0.0, ended_s=9.0, exit_status=0)
    tell(feed, [first])
    assert feed.view("default", "demo").ended_s is None
    tell(feed, [second])
    assert feed.view("default", "demo").ended_s == 9.0


def test_a_node_with_a_sidecar_a_task_has_ended_when_all_of_its_parts_have(simulated_job, tell):
    """Two descriptions of one node; the later one does not stand for both."""
    feed = Feed()
    (topic, running), *_ = simulated_job.described(0.0)
    ended = list(simulated_job.described(0.0, ended_s=9.0))
    part = {"part": "1", "places": [], "producer": "another"}
    tell(feed, [(topic, msgspec.structs.replace(running, **part)), *ended])
    assert feed.view("default", "demo").ended_s is None
    tell(feed, [(topic, msgspec.structs.replace(ended[0][1], **part))])
    assert feed.view("default", "demo").ended_s == 9.0
    assert feed.lines(1000.0)[0].nodes == tuple(sorted({event.node for _, event in ended}))


def test_a_job_whose_killed_pod_was_replaced_has_ended_when_the_next_one_has(tell):
    """The dead one said no goodbye, and its ranks are not counted twice."""
    feed = Feed()

    def told(pod, at_s, ended_s=None):
        ((topic, event),) = SimulatedJob(2, 1, 0, 0, "demo").described(at_s, ended_s=ended_s)
        tell(
            feed, [(topic, msgspec.structs.replace(event, labels={"kubernetes_pod": pod}, producer=pod + str(ended_s)))]
        )

    told("a", 1.0)
    told("b", 9.0)
    assert feed.view("default", "demo").ended_s is None
    told("b", 9.0, 20.0)
    assert feed.view("default", "demo").ended_s == 20.0


def test_one_failed_node_fails_the_job(simulated_job, tell):
    """The exit status that is not 0 is the one shown."""
    feed = Feed()
    tell(feed, [next(simulated_job.described(0.0, 9.0, 0)), list(simulated_job.described(0.0, 9.0, 1))[1]])
    assert feed.view("default", "demo").exit_status == 1


def test_dead_letters_are_kept_and_bounded():
    """The newest dead letters stay."""
    feed = Feed()
    for offset in range(80):
        letter = events.DeadLetter(reason="no JSON", topic="t", partition=0, offset=offset, time_s=0.0, excerpt="")
        feed.update(topics.DEADLETTER.short, letter, 0.0)
    assert [letter.offset for letter in feed.dead_letters] == list(range(30, 80))


def test_phases_are_seconds_a_step(played):
    """The mean of each phase over the steps a rank closed adds up to its step."""
    view = played.view("default", "demo")
    parts = sum(view.phase_s[name] for name in events.PHASES if np.isfinite(view.phase_s[name]).all())
    assert np.allclose(
        view.phase_s["step"], np.nansum([view.phase_s[name] for name in events.PHASES], axis=0), rtol=1e-3
    )
    assert parts.shape == (4,)


def thousand_s(event):
    """The fields of ``event`` that tell how long all took, as if that were 1,000 s."""
    long = durations([1000.0] * rows(event.rank))
    return {"step_s": long, "phases": dict.fromkeys(event.phases, long)}


@pytest.mark.parametrize("first", [0, 1000])
def test_phases_leave_the_warm_up_out(simulated_job, tell, first):
    """The first five steps of an attempt, wherever it begins, are in the heatmap and not in the phases."""
    feed = Feed()
    slow = [
        (topic, msgspec.structs.replace(event, **thousand_s(event)))
        for topic, event in simulated_job.timings(900.0, first, 5)
    ]
    tell(feed, slow)
    tell(feed, simulated_job.timings(905.0, first + 5, 20))
    view = feed.view("default", "demo")

    assert view.phase_steps == 20
    assert float(np.nanmax(view.phase_s["step"])) < 10
    assert view.step_s.shape[1] == 25


def test_topics_of_balancers_are_listed_once_one_was_heard(tell):
    """Most have none."""
    feed, job = Feed(), BalancedJob()
    assert not {"balance", "plan"} & {line.topic for line in feed.topics()}
    tell(feed, [(topics.PLAN, job.plan()), (topics.BALANCE, job.observed())])
    assert {"balance", "plan"} <= {line.topic for line in feed.topics()}


def test_findings_of_a_job_that_ended_are_not_open(played, simulated_job, tell, snapshot_of):
    """What held it back is over with it; what it cost stays."""
    (before,) = snapshot_of(played).jobs
    tell(played, simulated_job.described(900.0, ended_s=1000.0, exit_status=0))
    (after,) = snapshot_of(played).jobs
    assert (before.findings, before.open, before.confirmed) == (1, 1, 1)
    assert (after.findings, after.open, after.confirmed) == (1, 0, 0)
    assert after.lost_s == before.lost_s > 0


def test_no_second_of_a_job_is_lost_twice(played, tell, snapshot_of):
    """Of findings on the same steps the largest counts, as in reports."""
    (before,), (key,) = snapshot_of(played).jobs, played.jobs
    (held,) = [episode[-1] for episode in played.view(*key).episodes]
    cost = msgspec.structs.replace(held.cost, lost_s=held.cost.lost_s / 2, gpu_hours=held.cost.gpu_hours / 2)
    tell(played, [(topics.FINDING, msgspec.structs.replace(held, id="more", kind="slowdown", ranks=[], cost=cost))])
    (after,) = snapshot_of(played).jobs
    assert (before.findings, after.findings) == (1, 2)
    assert after.lost_s == pytest.approx(before.lost_s)
    assert after.lost_gpu_hours == pytest.approx(before.lost_gpu_hours)


def test_what_is_said_of_a_job_after_its_end_counts(played, simulated_job, tell, snapshot_of):
    """The last revision, with the whole cost and the last steps, may follow the goodbye."""
    tell(played, simulated_job.described(900.0, ended_s=1000.0, exit_status=0))
    (key,) = played.jobs
    (held,) = [episode[-1] for episode in played.view(*key).episodes]
    cost = msgspec.structs.replace(held.cost, lost_s=58.2)
    last = msgspec.structs.replace(held, revision=held.revision + 1, last_step=780, cost=cost)
    tell(played, [(topics.FINDING, last)])
    assert [(line.lost_s, line.open) for line in snapshot_of(played).jobs] == [(58.2, 0)]
    assert played.view(*key).episodes[0][-1].last_step == 780


def test_what_the_logs_of_an_ended_job_say_is_the_jobs(played, simulated_job, tell):
    """It counts no steps and names the ranks' nodes; it is no finding of a node, which would stay open."""
    tell(played, simulated_job.described(900.0, ended_s=1000.0, exit_status=1))
    (key,) = played.jobs
    (held,) = [episode[-1] for episode in played.view(*key).episodes]
    verdict = msgspec.structs.replace(held, id="died-1", kind="died", first_step=-1, last_step=-1, nodes=["n"])
    tell(played, [(topics.FINDING, verdict)])
    assert verdict in [episode[-1] for episode in played.view(*key).episodes]
    assert played.node_findings.episodes() == []
