"""The panel that closes a run: words over a summary, and nothing made up."""

from pathlib import Path

import msgspec
import pytest

from paceline import columns, topics, wire
from paceline.events import Cost, Evidence, JobDescribed, ProbeCost
from streams.processor import Processor
from streams.reports.panel import panel
from streams.reports.summary import Summary


@pytest.fixture
def panel_of():
    """The panel of events."""

    def of(*events):
        summary = Summary()
        for event in events:
            summary.update(event)
        return panel(summary)

    return of


def test_nothing_heard_says_so(panel_of):
    """And asks what was run."""
    assert panel_of().startswith("paceline: no job reported anything")


def test_a_healthy_job_accuses_nobody(panel_of, make_training):
    """Who was compared, where the time went, what was heard."""
    lines = panel_of(*make_training(ranks=4, seconds=5)).splitlines()
    assert lines[0].startswith("paceline: job job, 4 ranks, 50 steps, median step ")
    assert "no rank holds this job back: 4 ranks compared" in lines[1]
    assert lines[-1].split() == ["Coverage", "4", "of", "4", "ranks,", "0", "messages", "missing"]


def test_one_rank_is_too_little_to_judge(panel_of, make_training):
    """There is nobody to compare it with, and its words are in the singular."""
    text = panel_of(*make_training(ranks=1, nodes=1, seconds=5))
    assert "1 rank, 50 steps" in text
    assert "One rank, 50 steps: there is no other rank to compare it with." in text


@pytest.mark.long
@pytest.mark.parametrize("seconds", [1, 10])
def test_one_process_is_told_that_it_is_alone(panel_of, make_training, seconds):
    """However long it runs: more steps bring no verdict, and what says so is not called confirmed."""
    events, processor = make_training(ranks=1, nodes=1, seconds=seconds), Processor()
    found = [said for event in events for _, said in processor.update(topics.OP, event)]
    found += [said for _, said in processor.finish()]
    (verdict,) = [line for line in panel_of(*events, *found).splitlines() if line.strip().startswith("Verdict")]
    assert verdict.split(maxsplit=1)[1] == f"One rank, {10 * seconds} steps: there is no other rank to compare it with."


def test_a_few_steps_are_too_little_to_judge(panel_of, make_training):
    """It says what there should be, and not that no rank holds the job back."""
    events, processor = make_training(ranks=2, seconds=1), Processor()
    found = [said for event in events for _, said in processor.update(topics.OP, event)]
    found += [said for _, said in processor.finish()]
    (verdict,) = [line for line in panel_of(*events, *found).splitlines() if line.strip().startswith("Verdict")]
    assert (
        "Too short to judge: a verdict needs 5 warm-up steps and then 10 measurements of at least 0.2 s. "
        "Received: 10 steps of 2 ranks." in verdict
    )


def test_messages_that_never_came_are_told(panel_of, make_training):
    """A gap in one producer's numbers."""
    events = make_training(ranks=2, seconds=5)
    assert "2 of 2 ranks, 1 messages missing" in panel_of(*events[:2], *events[3:])


def test_jobs_are_told_one_after_the_other(panel_of, make_training):
    """In the order in which they came."""
    text = panel_of(*make_training(seconds=1, job="b"), *make_training(seconds=1, job="a"))
    assert [line.split(",")[0] for line in text.splitlines() if "job" in line.split(",")[0].split()[:2]] == [
        "paceline: job b",
        "paceline: job a",
    ]


COST = ProbeCost(
    pairs=42,
    least_steps=40,
    most_steps=160,
    off_steps=5000,
    step_s=0.0061,
    added_s=8.2e-5,
    added_low_s=-1.5e-6,
    added_high_s=1.1e-4,
)


def described(node="node-0", **changes):
    """A node's description of a job with a measured cost, changed in parts."""
    return JobDescribed(
        cluster="c",
        producer=node,
        sequence=0,
        job="job",
        attempt=0,
        node=node,
        world_size=4,
        backend="gloo",
        framework="torch",
        started_s=1.0,
        places=[],
        probe_cost=msgspec.structs.replace(COST, **changes),
    )


def test_what_the_probe_cost_is_told_with_its_interval(panel_of, make_training):
    """And that it was off in some of the steps."""
    text = panel_of(*make_training(ranks=4, seconds=5), described(added_low_s=5.5e-5))
    assert (
        "  Probe    +0.082 ms a step, 95 % interval +0.055 to +0.110 ms (+0.90% to +1.80%), "
        "from 42 pairs of windows of 40 to 160 steps\n"
    ) in text
    assert text.endswith("4 of 4 ranks, 0 messages missing; the probe was off in 5000 steps")


@pytest.mark.parametrize(
    ("added_s", "low_s", "high_s", "words"),
    [
        (
            8.2e-5,
            -1.5e-6,
            1.1e-4,
            "at most 0.11 ms a step (1.8%), and perhaps nothing: 95 % interval +0.00 to +0.11 ms,",
        ),
        (
            1.234e-3,
            -2.111e-3,
            5.678e-3,
            "at most 5.7 ms a step (93%), and perhaps nothing: 95 % interval -2.1 to +5.7 ms,",
        ),
        (0.0, 0.0, 0.0, "none measurable: 95 % interval +0.000 to +0.000 ms a step,"),
        (-3e-4, -5e-4, -1e-4, "none measurable: 95 % interval -0.50 to -0.10 ms a step,"),
        (0.1234, 0.0456, 0.2567, "+123 ms a step, 95 % interval +46 to +257 ms (+748% to +4208%),"),
    ],
    ids=["holds_zero", "short_run", "no_width", "faster", "large"],
)
def test_no_digit_of_the_probe_s_cost_is_finer_than_its_interval(
    panel_of, make_training, added_s, low_s, high_s, words
):
    """Where nothing may be the truth, what it is at most is told."""
    cost = {"added_s": added_s, "added_low_s": low_s, "added_high_s": high_s}
    assert f"  Probe    {words} from 42 pairs" in panel_of(*make_training(ranks=4, seconds=5), described(**cost))


def test_it_is_told_node_by_node(panel_of, make_training):
    """A later description of a node replaces the one before."""
    events = [described(pairs=7), described(), described(node="node-1", pairs=9, most_steps=40)]
    lines = [line for line in panel_of(*make_training(ranks=4, seconds=5), *events).splitlines() if "Probe" in line]
    assert lines[0].startswith("  Probe    node-0: at most 0.11 ms")
    assert lines[1].endswith("from 9 pairs of windows of 40 steps")
    assert len(lines) == 2


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"pairs": 3, "short_pairs": 9, "needed_steps": 1300},
            "3 pairs of windows are long enough, 6 are needed (9 were too short); that takes a run of about "
            "1,300 steps\n",
        ),
        (
            {"pairs": 3, "short_pairs": 9},
            "3 pairs of windows are long enough, 6 are needed (9 were too short); let it run for longer",
        ),
        ({"pairs": 0, "apart_pairs": 9}, "in 9 pairs of windows the ranks were not switched together"),
        (
            {"pairs": 0, "off_steps": 0, "step_s": None, "needed_steps": 140},
            "no end of a step was seen, or too few; that takes a run of at least 140 steps; call",
        ),
    ],
)
def test_where_it_was_not_measured_it_says_why(panel_of, make_training, changes, words):
    """No figure is made up."""
    none = {"added_s": None, "added_low_s": None, "added_high_s": None}
    text = panel_of(*make_training(ranks=4, seconds=5), described(**none | changes))
    assert f"  Probe    cost not measured: {words}" in text


def test_the_parts_of_a_difference_sum_to_it_and_the_cost_says_of_how_many_steps_it_is(panel_of, make_training, found):
    """Overlays lie inside the phases, and are not added to them."""
    rows = {"own_time": (0.22, 0.138), "excess_data": (0.052, 0.0), "excess_forward": (0.03, 0.0)}
    rows |= {"excess_gc": (0.02, 0.0), "lateness": (0.0754, 0.0)}
    evidence = [Evidence(name=k, value=v, unit="s/step", peers=peers, rule="") for k, (v, peers) in rows.items()]
    slow = msgspec.structs.replace(
        found, kind="straggler", ranks=[2], cause="input_pipeline", evidence=evidence, first_step=10, last_step=338,
        cost=Cost(lost_s=34.9, gpu_hours=0.01, throughput_lost_ratio=0.4),
    )  # fmt: skip
    text = panel_of(*make_training(ranks=4, seconds=5), slow)
    assert "works 220 ms a step, its peers 138 ms (data +52.0 ms, forward +30.0 ms; within them gc +20.0 ms)" in text
    assert "Cost     34.9 s lost in 329 steps, 106 ms each on average, 40% of the throughput in that time" in text


@pytest.mark.parametrize(
    ("parts", "shown"),
    [
        ({"data": 0.131, "forward": -0.049}, ""),  # as an older Paceline reported them
        ({"forward": 0.08, "cpu_wait": -1934.0}, " (forward +80.0 ms)"),
        ({"forward": 0.08, "cpu_wait": 20.65}, " (forward +80.0 ms)"),
        ({"forward": 0.06, "backward": 0.06, "data": 0.02}, " (forward +60.0 ms, data +20.0 ms)"),
        ({"gc": 0.02, "cpu_wait": 0.07}, " (cpu wait +70.0 ms)"),
        ({"data": float("nan"), "forward": float("inf")}, ""),
    ],
)
def test_a_part_that_is_negative_or_larger_than_the_difference_is_none(panel_of, found, parts, shown):
    """Whoever sent it: the parts that are shown are in the difference together."""
    rows = {"own_time": (0.22, 0.138)} | {f"excess_{name}": (value, 0.0) for name, value in parts.items()}
    evidence = [Evidence(name=k, value=v, unit="s/step", peers=peers, rule="") for k, (v, peers) in rows.items()]
    slow = msgspec.structs.replace(found, kind="straggler", state="confirmed", ranks=[2], evidence=evidence)
    assert f"works 220 ms a step, its peers 138 ms{shown}\n" in panel_of(slow)


@pytest.mark.parametrize(
    ("count", "unit", "who"), [(300, "ranks", "300 ranks (0-255, …)"), (40, "nodes", "40 nodes (ranks 0-255)")]
)
def test_a_finding_for_many_counts_what_it_does_not_name(panel_of, found, count, unit, who):
    """It names 256 ranks at most, and counts nodes where it is about nodes."""
    alike = Evidence(name="alike", value=float(count), unit=unit, peers=None, rule="")
    many = msgspec.structs.replace(
        found, kind="straggler", state="confirmed", ranks=[*range(256)], nodes=[], group=None, evidence=[alike]
    )
    assert f"  Verdict  {who}" in panel_of(many)


@pytest.mark.slow
def test_steps_too_short_for_its_windows_are_named(panel_of, make_training):
    """To run for longer would not help."""
    none = {"pairs": 0, "short_pairs": 80, "added_s": None}
    text = panel_of(*make_training(ranks=4, seconds=5, step_s=0.0005), described(**none))
    assert "steps of less than 1 ms are too short" in text


def test_ranks_that_only_tell_how_they_are_set_up_were_not_compared(panel_of, make_training):
    """A log of NCCL has no step: nobody is cleared by it."""
    (event,) = make_training(ranks=2, nodes=1, seconds=1)
    none = columns.whole([])
    rows = {"rank": none, "step": none, "start_s": none, "step_s": none, "phases": {}}
    text = panel_of(msgspec.structs.replace(event, **rows))
    assert "not enough to judge: no steps and no collectives were received" in text
    assert "no rank holds this job back" not in text


def test_a_severity_of_a_newer_version_on_a_node_comes_after_what_is_critical(panel_of, found):
    of_node = msgspec.structs.replace(
        found, kind="device_fault", state="confirmed", job="", first_step=-1, last_step=-1, nodes=["n1"], ranks=[]
    )
    newer = msgspec.structs.replace(of_node, id="newer", severity="fatal", summary="the newer one")
    worst = msgspec.structs.replace(of_node, id="worst", severity="critical", summary="the critical one")
    text = panel_of(newer, worst)
    assert 0 < text.index("the critical one") < text.index("the newer one")


def test_a_slow_node_is_named_with_its_ranks(panel_of, make_training, found):
    """And not the first of them."""
    node = msgspec.structs.replace(
        found, kind="straggler", state="confirmed", ranks=[2, 3], nodes=["n1"], group=None, cause="worker_compute"
    )
    text = panel_of(*make_training(ranks=4, seconds=5), node)
    assert "  Verdict  node n1 (ranks 2-3) held the job back, steps " in text


def test_many_slow_ranks_are_counted_and_the_numbers_are_of_one(panel_of, make_training, found):
    """Their number, also where not all of them are named."""
    alike = Evidence(name="alike", value=512.0, unit="ranks", peers=None, rule="")
    own = Evidence(name="own_time", value=0.2, unit="s/step", peers=0.1, rule="")
    many = msgspec.structs.replace(
        found, kind="straggler", state="confirmed", ranks=[*range(256)], nodes=["n1", "n2"], group=None,
        cause="throttling", evidence=[alike, own], summary="512 ranks have findings of the same kind.",
    )  # fmt: skip
    text = panel_of(*make_training(ranks=4, seconds=5), many)
    assert "  Verdict  512 ranks (0-255, …) on 2 nodes held the job back, steps " in text
    assert "  Why      512 ranks have findings of the same kind.\n" in text


def exchanging(events, work_s, step_s, waited_s=0.0):
    """The same job, whose ranks work and take so long a step, and spend so much of it in collectives, all or each."""
    for event in events:
        ranks = list(map(int, columns.numbers(event.rank)))
        waits = [waited_s[rank] if isinstance(waited_s, list) else waited_s for rank in ranks]
        phases = {"communication": columns.durations(waits)}
        phases["forward"] = columns.durations([work_s[rank] for rank in ranks])
        yield msgspec.structs.replace(
            event, collectives=None, phases=phases, step_s=columns.durations([step_s[rank] for rank in ranks])
        )


def test_ranks_without_a_phase_spent_none_in_it(panel_of, make_training):
    """One of three saves: the median rank does not, and shares add up to no more than all of the time."""
    saved = []
    for event in exchanging(make_training(ranks=3, nodes=1, seconds=5), [0.08] * 3, [0.1] * 3, 0.02):
        ranks = list(map(int, columns.numbers(event.rank)))
        spent = columns.durations([0.015 if rank == 0 else float("nan") for rank in ranks])
        saved.append(msgspec.structs.replace(event, phases=event.phases | {"checkpoint": spent}))
    assert "  Time     median rank: forward 80%, waiting for others 20%\n" in panel_of(*saved)


@pytest.mark.parametrize(
    ("work_s", "step_s", "words"),
    [
        (
            [0.1, 0.1, 0.1],
            [0.1, 0.1, 0.1],
            "not enough to judge: no collective of torch.distributed was seen, and all 3 ranks work equally long. If "
            "they exchange by another library (Horovod, MPI), waiting counts as work, so no rank can be named or "
            "cleared",
        ),
        (
            [0.1, 0.1, 0.15],
            [0.1, 0.1, 0.15],
            "no rank is named: no collective of torch.distributed was seen, and their steps take 100 ms to 150 ms, so "
            "as far as is measured these ranks do not wait for each other",
        ),
        ([0.1, 0.1, 0.15], [0.15, 0.15, 0.15], "no rank holds this job back: 3 ranks compared"),
    ],
    ids=["alike", "apart", "another_library"],
)
def test_without_a_collective_the_steps_say_whether_ranks_wait(panel_of, make_training, work_s, step_s, words):
    """A probe sees every collective of torch.distributed; those of Horovod and of MPI it does not see."""
    events = make_training(ranks=3, nodes=1, seconds=5)
    text = panel_of(*exchanging(events, work_s, step_s), described())
    assert f"  Verdict  {words}\n  Why      median rank works " in text


def test_where_a_collective_was_seen_or_could_be_missed_ranks_are_not_asked_whether_they_wait(panel_of, make_training):
    """A trace may hold collectives that are not recognised."""
    events, alike = make_training(ranks=3, nodes=1, seconds=5), [0.1] * 3
    assert "torch.distributed" not in panel_of(*exchanging(events, alike, alike, 0.01), described())
    assert "torch.distributed" not in panel_of(*exchanging(events, alike, alike))


@pytest.mark.parametrize(
    ("waited_s", "verdict"),
    [
        (
            [0.04, 0.004],
            "no rank is slow all the time, but rank 1 works 35.9 ms a step longer than the others on average",
        ),
        ([0.004, 0.004], "no rank holds this job back"),
    ],
)
def test_the_verdict_does_not_deny_what_the_next_line_shows(panel_of, make_training, waited_s, verdict):
    """Single steps take long, which no finding names; where the others did not wait, that held up nothing."""
    events = exchanging(make_training(ranks=2, nodes=1, seconds=5), [0.0247, 0.0606], [0.0646] * 2, waited_s)
    assert (
        f"  Verdict  {verdict}: 2 ranks compared\n  Why      rank 0 works 24.7 ms a step, rank 1 60.6 ms\n"
    ) in panel_of(*events)


def test_of_two_ranks_both_are_named(panel_of, make_training):
    """The median of both is neither's."""
    text = panel_of(*exchanging(make_training(ranks=2, nodes=1, seconds=5), [0.052, 0.053], [0.1] * 2, 0.02))
    assert "  Why      rank 0 works 52.0 ms a step, rank 1 53.0 ms\n" in text


HUNG = Cost(lost_s=49.0, gpu_hours=0.027, throughput_lost_ratio=1.0)


def test_a_hang_that_ended_is_the_verdict_with_its_cost(panel_of, make_training, found):
    """Not that no rank holds the job back."""
    summary = "Ranks 0 and 2 were blocked for 49 s; rank 1 came late. Next: look."
    hang = msgspec.structs.replace(
        found, kind="hang", state="recovered", ranks=[1], first_step=29, last_step=29, cost=HUNG, summary=summary
    )
    lines = panel_of(*make_training(ranks=3, nodes=1, seconds=5), hang).splitlines()
    assert lines[1:4] == [
        "  Verdict  hang (recovered): Ranks 0 and 2 were blocked for 49 s; rank 1 came late",
        "  Next     look",
        "  Cost     49.0 s lost, 100% of the throughput in that time, 0.0270 device-hours",
    ]
    assert "no rank" not in "".join(lines)


@pytest.mark.parametrize(("state", "lost_s"), [("suspected", 49.0), ("confirmed", 0.0)])
def test_a_finding_whose_cost_does_not_count_stays_beside_the_verdict(panel_of, make_training, found, state, lost_s):
    """A suspicion may be withdrawn."""
    cost = msgspec.structs.replace(HUNG, lost_s=lost_s)
    whole = msgspec.structs.replace(found, kind="slowdown", state=state, revision=2, ranks=[], cost=cost)
    text = panel_of(*make_training(ranks=3, nodes=1, seconds=5), whole)
    assert "  Verdict  no rank holds this job back" in text
    assert f"  Also     slowdown ({state})" in text
    assert "  Cost" not in text


def test_beside_a_slow_rank_steps_are_not_priced_twice(panel_of, make_training, found):
    """A slowdown holds the same steps as the straggler; a hang does not."""
    slow = msgspec.structs.replace(found, kind="straggler", state="confirmed", ranks=[1], cost=HUNG)
    whole = msgspec.structs.replace(found, id="w", kind="slowdown", state="confirmed", ranks=[], cost=HUNG)
    hang = msgspec.structs.replace(found, id="h", kind="hang", state="recovered", ranks=[1], cost=HUNG)
    assert panel_of(*make_training(ranks=3, nodes=1, seconds=5), slow, whole, hang).count("  Cost") == 2


def test_a_silent_node_is_told_in_place_of_who_was_compared(panel_of, make_training, found):
    """Not all were."""
    silent = msgspec.structs.replace(found, kind="node_silent", state="confirmed", ranks=[2, 3], nodes=["n1"])
    text = panel_of(*make_training(ranks=4, seconds=5), silent)
    assert "  Verdict  node silent (confirmed): " in text
    assert "no rank holds this job back" not in text


def test_it_ends_with_the_rank_that_died_and_what_to_do(panel_of, make_training, found):
    summary = "Died: rank 2, 3 s before the others: ValueError at train.py:88; rank 0 only lost a peer. Next: look."
    died = msgspec.structs.replace(found, kind="died", state="confirmed", ranks=[2], summary=summary)
    lines = panel_of(*make_training(ranks=4, seconds=5), died).splitlines()
    assert lines[-2:] == [
        "  Died     rank 2, 3 s before the others: ValueError at train.py:88; rank 0 only lost a peer",
        "  Next     look",
    ]
    assert "died (confirmed)" not in "".join(lines)


def test_a_rank_that_runs_again_has_not_died(panel_of, make_training, found):
    died = msgspec.structs.replace(found, kind="died", state="recovered", ranks=[2])
    assert "  Died" not in panel_of(*make_training(ranks=4, seconds=5), died)


@pytest.fixture
def found():
    """A finding on the made-up job, of an earlier version."""
    released = Path(__file__).parents[2] / "paceline" / "golden" / "v1.5" / "Finding.json"
    finding = wire.decode(topics.FINDING, released.read_bytes())
    return msgspec.structs.replace(finding, cluster="c", job="job", attempt=0, first_step=20, last_step=30)


@pytest.mark.parametrize(
    ("ranks", "next_"), [([], ["py-spy dump --pid 4121 on node gpu-3"]), ([2], ["py-spy", "read the traceback"])]
)
def test_a_job_that_hung_until_it_was_ended_is_told_what_to_do_about_the_hang(
    panel_of, make_training, found, ranks, next_
):
    """Whoever ended it knows that; that its steps were too few to compare ranks says nothing of a hang."""
    blocked = "Ranks 0 and 2 have been blocked; rank 1 has not called it. Next: py-spy dump --pid 4121 on node gpu-3."
    hang = msgspec.structs.replace(found, id="h", kind="hang", state="confirmed", ranks=[1], summary=blocked)
    events, processor = make_training(ranks=2, seconds=1), Processor()
    short = [said for event in events for _, said in processor.update(topics.OP, event)]
    short += [said for _, said in processor.finish()]
    summary = "Died: no rank is to blame: ended from outside. Next: read the traceback."
    died = msgspec.structs.replace(found, id="d", kind="died", state="confirmed", ranks=ranks, summary=summary)
    lines = [line.split(maxsplit=1) for line in panel_of(*events, *short, hang, died).splitlines()]
    assert [words for label, words in lines if label == "Verdict"] == [
        "hang (confirmed): Ranks 0 and 2 have been blocked; rank 1 has not called it"
    ]
    told = [words for label, words in lines if label == "Next"]
    assert all(words.startswith(start) and not words.endswith(".") for words, start in zip(told, next_, strict=True))
