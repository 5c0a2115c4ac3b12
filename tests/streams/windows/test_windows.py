"""Windows: what they say of a job, and that no two clocks are ever mixed."""

import msgspec
import pytest

from paceline import columns, topics, wire
from paceline.events import NODE_WINDOWS_S, DeviceProcess, DeviceWindow, JobWindow, RankWindow
from paceline.sequences import Sequences
from streams.ingest import ingest as ingest_file
from streams.windows import job_windows as job_windows_file
from streams.windows.job_windows import PATIENCE_S
from streams.windows.node_windows import MOST_SUBJECTS, DeviceWindows, HostWindows
from tests.streams.job_lines import JobWindows
from tests.timings import changed, listed


def said(decision, events):
    return [found for event in events for found in decision.update(event)]


def job_windows(found, length_s=1.0):
    return [one for one in found if isinstance(one, JobWindow) and one.length_s == length_s]


def rank_windows(found, length_s=1.0):
    return [one for one in found if isinstance(one, RankWindow) and one.length_s == length_s]


@pytest.mark.long
def test_every_second_of_a_run_has_its_window(make_training):
    """Windows of 1 s, 10 s and 60 s are aligned, follow each other and lose no step."""
    found = said(JobWindows(), make_training(seconds=70))
    assert [one.start_s for one in job_windows(found)] == [1_700_000_000.0 + second for second in range(69)]
    assert sum(one.steps for one in job_windows(found)) == 690
    assert [one.start_s % 10 for one in job_windows(found, 10.0)] == [0.0] * 6
    assert [one.start_s % 60 for one in job_windows(found, 60.0)] == [0.0]
    assert {one.rank for one in rank_windows(found, 60.0)} == {0, 1, 2, 3}


def goodbyes(events):
    """``events``, and after the last of each producer its goodbye: a message without rows."""
    last = {event.producer: event for event in events}
    none = {"rank": columns.whole([]), "step": columns.whole([]), "start_s": columns.offsets([])}
    none |= {"step_s": columns.durations([]), "phases": {}, "collectives": None}
    return [msgspec.structs.replace(event, sequence=event.sequence + 1, ended=True, **none) for event in last.values()]


def counted(found, length_s):
    return sum(one.steps for one in job_windows(found, length_s)), job_windows(found, length_s)[-1].last_step


@pytest.mark.long
@pytest.mark.parametrize("cut", [None, 0, 3])
def test_when_all_have_said_goodbye_the_windows_hold_every_step(make_training, cut):
    """The last second, and the last window of each length, though no later step shows that they are over."""
    events = make_training(seconds=12)
    events += goodbyes(events)
    windows, found = JobWindows(), []
    for number, event in enumerate(events):
        if number == cut:
            windows = JobWindows.restore(windows.snapshot())
        found += windows.update(event)
    found += windows.finish()
    assert [counted(found, length_s) for length_s in (1.0, 10.0, 60.0)] == [(120, 119)] * 3
    assert {one.rank for one in rank_windows(found, 60.0)} == {0, 1, 2, 3}
    assert (windows.finish(), windows.conclude()) == ([], []), "and no step twice"


@pytest.mark.long
def test_a_job_whose_other_node_has_not_reported_yet_has_not_ended(make_training):
    """One node is through before the first message of the other comes, or while its last are on their way."""
    events = make_training(seconds=12)
    other = [event for event in events if event.node == "node-1"]
    for late in (other, other[-3:]):
        told = [event for event in events if event not in late]
        told += goodbyes([event for event in told if event.node == "node-0"])
        windows = JobWindows()
        found = said(windows, told) + windows.finish()
        found += said(windows, late + goodbyes(other)) + windows.finish()
        assert counted(found, 60.0) == (120, 119)


@pytest.mark.long
def test_at_the_end_of_a_recording_the_windows_hold_every_step(make_training):
    """Also those of ranks that say no goodbye, and that reach less far than others."""
    events = make_training(seconds=12)
    killed = [event for event in events if event.node == "node-1" or event.t0_s < 1_700_000_009.0]
    for told in (events, killed):
        windows = JobWindows()
        found = said(windows, told) + windows.conclude()
        assert [counted(found, length_s) for length_s in (1.0, 10.0, 60.0)] == [(120, 119)] * 3
    assert JobWindows().conclude() == JobWindows().expire() == []


def test_producers_without_end_are_not_all_remembered(make_training, monkeypatch):
    """Their names come from outside: those that say no goodbye are forgotten with their numbers."""
    monkeypatch.setattr(ingest_file, "MOST_PRODUCERS", 2)
    windows, first = JobWindows(), make_training(seconds=1)[0]
    windows.ingest.roster.sequences = Sequences(most=2)
    for number in range(50):
        windows.update(msgspec.structs.replace(first, producer=f"p{number}", sequence=0))
        assert len(windows.ingest.reporting) <= 5
    assert {"p49"} <= windows.ingest.reporting


def test_the_worst_rank_is_named_and_the_median_is_not_moved_by_it(make_training):
    """One slow rank shows as the worst; the median rank's own time stays what it is."""
    window = job_windows(said(JobWindows(), make_training(seconds=5, slow=2, slow_from_s=0)))[-1]
    assert window.worst_rank == 2
    assert window.own_median_s == pytest.approx(0.07, rel=0.05)
    assert window.own_worst_s > 1.3 * window.own_median_s
    assert window.step_median_s == pytest.approx(0.13)


@pytest.mark.long
@pytest.mark.parametrize("skew_s", [-7200.3, 0.0, 5.5, 86_400.7])
def test_clocks_apart_by_hours_change_no_duration(make_training, skew_s):
    """The second node's clock may be anywhere: the windows are the same, on the first node's clock."""
    assert said(JobWindows(), make_training(seconds=12, skew_s=skew_s)) == said(JobWindows(), make_training(seconds=12))


@pytest.mark.long
def test_nodes_that_arrive_in_another_order_give_the_same_windows(make_training):
    """Messages of two nodes may interleave in any way that keeps each node's order."""
    events = make_training(seconds=12)
    late = [event for event in events if event.node == "node-1"]
    early = [event for event in events if event.node == "node-0"]
    shifted = [*early[:4], *(one for pair in zip(early[4:], late, strict=False) for one in pair), *late[8:]]
    assert sorted(map(msgspec.json.encode, said(JobWindows(), shifted))) == sorted(
        map(msgspec.json.encode, said(JobWindows(), events))
    )


@pytest.mark.long
def test_a_rank_that_never_speaks_delays_the_windows_but_does_not_stop_them(make_training):
    """A silent rank is waited for, then no longer; what the others did is told."""
    found = job_windows(said(JobWindows(), make_training(seconds=40, silent=(3,))))
    assert {one.ranks for one in found} == {3}
    assert len(found) > 40 - PATIENCE_S - 3


@pytest.mark.long
@pytest.mark.parametrize("quiet", ["node-0", "node-1"])
def test_a_node_that_falls_silent_does_not_stop_the_windows(make_training, quiet):
    """Also where it was the one whose clock the windows followed."""
    events = make_training(seconds=60, skew_s=1000.0)
    kept = [event for event in events if event.node != quiet or event.sequence < 20]
    found = job_windows(said(JobWindows(), kept))
    assert found[-1].ranks == 2
    assert found[-1].last_step > 450


def second_of(found, step):
    """The second in which ``step`` is."""
    return next(one.start_s for one in job_windows(found) if one.first_step <= step <= one.last_step)


@pytest.mark.long
def test_steps_that_the_reference_has_not_reported_go_on_in_its_time(make_training):
    """Its node falls silent; the others' clocks are days ahead, and no window is."""
    events = make_training(seconds=60, skew_s=200_000.0)
    kept = [event for event in events if event.node != "node-0" or event.sequence < 20]
    windows = JobWindows()
    found = said(windows, kept) + windows.conclude()
    usual = said(JobWindows(), make_training(seconds=60))
    assert [second_of(found, step) for step in range(0, 550, 50)] == [
        second_of(usual, step) for step in range(0, 550, 50)
    ]


@pytest.mark.long
def test_a_message_of_the_reference_that_is_lost_moves_no_window(make_training):
    """A second later it reports again, and its clock holds."""
    events = make_training(seconds=20, skew_s=-3600.0)
    kept = [event for event in events if (event.node, event.sequence) != ("node-0", 8)]
    found, usual = said(JobWindows(), kept), said(JobWindows(), make_training(seconds=20))
    last = job_windows(found)[-1].last_step
    assert last > 150
    assert [second_of(found, step) for step in range(last)] == [second_of(usual, step) for step in range(last)]


@pytest.mark.long
@pytest.mark.parametrize(("back_s", "follows"), [(3.0, False), (7200.0, True)])
def test_a_clock_that_is_set_back_a_little_is_waited_for_and_one_set_back_far_is_followed(
    make_training, back_s, follows
):
    """All steps are in a window, none in two, and those of an hour are not in one."""
    events = [
        msgspec.structs.replace(event, t0_s=event.t0_s - back_s * (event.sequence >= 10))
        for event in make_training(seconds=30)
    ]
    windows = JobWindows()
    found = said(windows, events) + windows.conclude()
    assert sum(one.steps for one in job_windows(found)) == 300
    assert (min(one.start_s for one in job_windows(found)) < 1_700_000_000.0) == follows
    assert max(one.steps for one in job_windows(found)) <= (20 if follows else 50)


@pytest.mark.long
def test_steps_of_a_second_beyond_the_room_for_them_are_summed_up(make_training, monkeypatch):
    """What they amount to is the same but for the medians, which are of parts."""
    usual = said(JobWindows(), make_training(seconds=8))
    monkeypatch.setattr(job_windows_file, "MOST_CELLS", 12)
    found = said(JobWindows(), make_training(seconds=8))
    assert len(found) == len(usual)
    for this, that in zip(job_windows(found), job_windows(usual), strict=True):
        assert (this.start_s, this.steps, this.first_step, this.last_step) == (
            that.start_s, that.steps, that.first_step, that.last_step,
        )  # fmt: skip
        assert this.phase_median_s == pytest.approx(that.phase_median_s, abs=2e-6)


def with_data(event, seconds):
    """``event`` with so many seconds of data in each row."""
    return changed(event, phases=event.phases | {"data": [seconds] * len(listed(event.rank))})


def test_a_phase_of_zero_seconds_is_told_and_one_not_measured_is_not(make_training):
    """0.0 is a value; a phase that a producer never tells is left out."""
    events = [with_data(event, 0.0) for event in make_training(seconds=5)]
    window = rank_windows(said(JobWindows(), events))[0]
    assert window.phase_mean_s["data"] == 0.0
    assert "checkpoint" not in window.phase_mean_s


def test_a_phase_that_is_longer_than_any_step_is_left_out(make_training):
    """A column holds more than the wire's numbers may be, and the window of its rank can be read all the same."""
    events = [with_data(event, 1e11) for event in make_training(seconds=5)]
    for window in (found := said(JobWindows(), events)):
        assert wire.decode(topics.WINDOW, wire.encode(window)) == window
    assert "data" not in rank_windows(found)[0].phase_mean_s
    assert "forward" in rank_windows(found)[0].phase_mean_s


def test_without_communication_the_waiting_is_unknown(make_training):
    """A job whose waiting is not measured has no wait ratio, not one of 0."""
    events = [
        msgspec.structs.replace(event, phases={word: event.phases[word] for word in ("data", "forward", "backward")})
        for event in make_training(seconds=5)
    ]
    assert job_windows(said(JobWindows(), events))[0].wait_ratio is None


@pytest.mark.long
def test_a_long_gap_in_the_steps_is_survived(make_training):
    """After an outage of many steps the windows go on with the steps there are."""
    events = make_training(seconds=30)
    far = [
        changed(event, step=[step + 50_000 for step in listed(event.step)]) if event.sequence > 10 else event
        for event in events
    ]
    found = job_windows(said(JobWindows(), far))
    assert found[-1].first_step > 50_000


@pytest.mark.long
def test_sampled_steps_are_whole_in_their_windows(make_training):
    """Steps thousands apart, of which only each second one comes in order, take the room of those that there are."""
    events = make_training(seconds=30)
    usual = job_windows(said(JobWindows(), events))
    sampled = [changed(event, step=[100 + 7000 * step for step in listed(event.step)]) for event in events]
    found = job_windows(said(JobWindows(), sampled))
    assert [(one.start_s, one.steps, one.ranks) for one in found] == [
        (one.start_s, one.steps, one.ranks) for one in usual
    ]
    assert [one.first_step for one in found] == [100 + 7000 * one.first_step for one in usual]


@pytest.mark.long
def test_odd_step_numbers_silence_nobody(make_training):
    """A step of another age, or far ahead, now and then: the windows are those of the others."""
    events = make_training(seconds=30)
    odd = [
        changed(event, step=[*listed(event.step)[:-1], listed(event.step)[-1] + far])
        for event, far in zip(events, [0, 0, 2**40, 0, 0, 2**50, 0] * len(events), strict=False)
    ]
    found, usual = (job_windows(said(JobWindows(), some)) for some in (odd, events))
    assert [one.start_s for one in found] == [one.start_s for one in usual]
    assert sum(one.steps for one in found) == sum(one.steps for one in usual)


def test_a_large_job_tells_only_its_worst_ranks_every_second(make_training):
    """At most a hundred rank windows a second; the job's window is over all ranks all the same."""
    found = said(JobWindows(), make_training(ranks=150, nodes=2, seconds=4, step_s=0.5, slow=149, slow_from_s=0))
    ranks = {one.rank for one in rank_windows(found) if one.start_s == 1_700_000_000.0}
    assert len(ranks) == 100
    assert 149 in ranks
    assert job_windows(found)[0].ranks == 150


def test_a_device_window_is_mean_and_maximum_of_what_was_measured(make_device_samples):
    """Zero counts, None does not; a column that is never measured is not there."""
    found = said(DeviceWindows(), make_device_samples(utilization_ratio=[0.0, 1.0], power_w=[None, 250.0]))
    first = {one.device: one for one in found if one.length_s == 10.0 and one.start_s == 1_700_000_000.0}
    assert first["GPU-a"].mean == {"utilization_ratio": 0.0}
    assert first["GPU-b"].mean == {"utilization_ratio": 1.0, "power_w": 250.0}
    assert first["GPU-a"].samples == 10
    assert isinstance(first["GPU-a"], DeviceWindow)


def test_idle_is_no_throttling(make_device_samples):
    """Of the clock-event reasons only those count that take speed away."""
    found = said(DeviceWindows(), make_device_samples(throttle_reasons=[0x1, 0x40]))
    assert [one.mean["throttled_ratio"] for one in found[:2]] == [0.0, 1.0]


def test_a_host_window_leaves_out_what_was_not_measured(make_host_samples):
    """Only measured columns are in it."""
    found = said(HostWindows(), make_host_samples(cpu_ratio=[0.0]))
    assert found[0].mean == {"cpu_ratio": 0.0}


def test_a_host_window_tells_of_a_quota_and_of_none_where_a_collector_knows_none(make_host_samples):
    """An older collector leaves the columns out."""
    limited = make_host_samples(cpu_quota_count=[4.0], cpu_throttled_ratio=[0.25])
    older = [msgspec.structs.replace(one, cpu_quota_count=[], cpu_throttled_ratio=[]) for one in limited]
    assert said(HostWindows(), limited)[0].mean == {"cpu_quota_count": 4.0, "cpu_throttled_ratio": 0.25}
    found = said(HostWindows(), older)
    assert found[0].samples > 0
    assert found[0].mean == {}


@pytest.mark.parametrize("time_s", [1e11, -1e11], ids=["far ahead", "before 1970"])
def test_rows_at_an_impossible_time_are_left_out(make_device_samples, make_host_samples, time_s):
    """Their windows would begin at a time that no reader takes; the rows before and after have theirs."""
    made = [(DeviceWindows, make_device_samples(seconds=25)), (HostWindows, make_host_samples(seconds=25))]
    for decision, events in made:
        far = msgspec.structs.replace(events[5], producer="far", time_s=[time_s] * len(events[5].time_s))
        assert said(decision(), [*events[:5], far, *events[5:]]) == said(decision(), events) != []


@pytest.mark.parametrize("number", [1e30, -1e30])
def test_a_mean_of_the_largest_numbers_can_be_read(make_device_samples, number):
    """Rounding of a sum takes it no farther than a number may be."""
    events = make_device_samples(seconds=25, nvlink_rx_bytes_per_s=[number, number])
    for window in said(DeviceWindows(), [msgspec.structs.replace(one, device=[0, 0]) for one in events]):
        assert wire.decode(topics.WINDOW, wire.encode(window)) == window


def devices_in_turn(make_device_samples, first, count, t0_s):
    """Two minutes of two devices at a time, of two jobs, which then are no more: each pair has names of its own."""
    jobs = [DeviceProcess(device=gpu, pid=gpu, name="python", used_bytes=1, job=f"job-{gpu}") for gpu in (0, 1)]
    for number in range(first, first + count, 2):
        for event, second in zip(make_device_samples(seconds=3), (0.0, 60.0, 120.0), strict=True):
            yield msgspec.structs.replace(
                event,
                uuids=[f"MIG-{number}", f"MIG-{number + 1}"],
                producer=f"{event.producer}-{number}",
                t0_s=1_700_000_000.0 + t0_s + 200.0 * (number - first) + second,
                processes=jobs,
            )


@pytest.mark.parametrize("restart", [False, True])
def test_a_node_whose_devices_change_has_windows_of_the_newest(make_device_samples, restart):
    """MIG cut again and again makes more names than a node may have devices: those not measured for longest go."""
    windows = DeviceWindows()
    before = said(windows, devices_in_turn(make_device_samples, 0, MOST_SUBJECTS, 0.0))
    assert len({one.device for one in before}) == MOST_SUBJECTS
    windows = DeviceWindows.restore(windows.snapshot()) if restart else windows
    after = said(windows, devices_in_turn(make_device_samples, MOST_SUBJECTS, 2, 100_000.0))
    assert {(one.device, one.length_s) for one in after} == {
        (f"MIG-{MOST_SUBJECTS + place}", length_s) for place in (0, 1) for length_s in NODE_WINDOWS_S
    }
    held = {subject for subject, _ in windows.open}
    assert len(windows.open) == len(held) * len(NODE_WINDOWS_S) == MOST_SUBJECTS * len(NODE_WINDOWS_S)
    assert held == {f"MIG-{number}" for number in range(2, MOST_SUBJECTS + 2)}
    assert windows.tenants.tenants.keys() == held
    assert {one.job for one in after} == {"job-0", "job-1"}
    assert {f"MIG-{MOST_SUBJECTS}", f"MIG-{MOST_SUBJECTS + 1}"} <= windows.users.uses.keys()


def test_more_devices_at_a_time_than_a_node_may_have_take_no_window_from_each_other(make_device_samples):
    """The first so many keep theirs: names of devices come from outside."""
    windows, found = DeviceWindows(), []
    for event in make_device_samples(seconds=25)[::8]:
        for number in range(0, MOST_SUBJECTS + 20, 2):
            uuids = [f"GPU-{number}", f"GPU-{number + 1}"]
            found += windows.update(msgspec.structs.replace(event, uuids=uuids, producer=f"{event.producer}-{number}"))
    assert {one.device for one in found} == {f"GPU-{number}" for number in range(MOST_SUBJECTS)}
