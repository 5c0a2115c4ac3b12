"""A suggestion's life: decided on, seen to be done, measured; expired, rested, limited, merged."""

from typing import get_args

import msgspec
import pytest

from paceline.events import (
    ANSWERABLE,
    CLOSED_SUGGESTIONS,
    OPEN_SUGGESTIONS,
    Cost,
    JobDescribed,
    RankPlace,
    SuggestionState,
)
from streams.advice.advice import Advice
from streams.advice.config import AdviceConfig, changed, refusal
from streams.advice.lifecycle import FINAL, TRANSITIONS, follow
from streams.episodes.crowd import Crowds
from tests.derived_events import finding

NOW_S = 1_800_000_000.0


def described(
    attempt: int, nodes: list[str], batch: int | None = None, job: str = "llama", **changes
) -> list[JobDescribed]:
    """A job of four ranks a node, as each of its nodes describes it."""
    return [
        JobDescribed(
            cluster="c",
            producer=f"{node}-{attempt}",
            sequence=0,
            job=job,
            attempt=attempt,
            node=node,
            world_size=4 * len(nodes),
            backend="nccl",
            framework="torch",
            started_s=NOW_S,
            places=[
                RankPlace(rank=4 * at + local, local_rank=local, node=node, device=f"cuda:{local}", pid=100 + local)
                for local in range(4)
            ],
            batch_size=batch,
            labels={"slurm_user": "ada"},
            **changes,
        )
        for at, node in enumerate(nodes)
    ]


@pytest.fixture
def heard(told, make_pace):
    """An advice that knows the time, and a job on two nodes that steps."""
    heard = told()
    for one in described(0, ["gpu-0", "gpu-1"], 64):
        heard.tell(one)
    for number in range(4):
        heard.tell(make_pace(number, 0.6))
    return heard


def run(heard, make_pace, first: int, count: int, step_s: float, attempt: int = 0) -> None:
    for number in range(first, first + count):
        heard.tell(make_pace(number, step_s, attempt=attempt))


def test_who_answers_by_the_contract_is_answered_by_the_table():
    by_table = {answer: {state for state, signal in TRANSITIONS if signal == answer} for answer in ANSWERABLE}
    assert by_table == {answer: set(states) for answer, states in ANSWERABLE.items()}


def test_every_state_of_the_contract_is_open_or_closed():
    assert sorted([*OPEN_SUGGESTIONS, *CLOSED_SUGGESTIONS]) == sorted(get_args(SuggestionState))
    assert {state for state, _ in TRANSITIONS if state} == set(OPEN_SUGGESTIONS)


def test_nothing_leaves_a_final_state():
    assert {state for state, _ in TRANSITIONS} & FINAL == set()
    assert follow("dismissed", "accept") == "dismissed"


def test_a_suspected_finding_gives_nothing(heard, make_finding):
    assert heard.tell(make_finding(state="suspected")) == []


def test_an_unsure_finding_gives_nothing(heard, make_finding):
    assert heard.tell(make_finding(confidence=0.3)) == []


def test_who_decided_and_why_is_told(heard, make_finding):
    (one,) = heard.tell(make_finding())
    (two,) = heard.command(one, "dismiss", "it is known")
    assert (two.state, two.by, two.because, two.revision) == ("dismissed", "ada", "it is known", 2)
    assert heard.command(one, "accept") == []


@pytest.mark.parametrize("action", ["explode", "", "Accept"])
def test_other_commands_change_nothing(heard, make_finding, action):
    (one,) = heard.tell(make_finding())
    assert heard.command(msgspec.structs.replace(one, id=one.id), action or "x") == []
    assert heard.command(msgspec.structs.replace(one, id="nobody-knows"), "accept") == []


def test_an_interval_that_narrows_is_told_again(heard, make_finding):
    """The same share of each step is lost, for more and more of the time: the low end was of the first minute."""
    cost = Cost(lost_s=4.0, gpu_hours=0.01, throughput_lost_ratio=0.2)
    (first,) = heard.tell(make_finding(cost=cost))
    (later,) = heard.tell(make_finding(revision=2, cost=msgspec.structs.replace(cost, lost_s=40.0)))
    assert later.gain.gpu_hours_per_day == first.gain.gpu_hours_per_day
    assert later.gain.gpu_hours_low > 1.5 * first.gain.gpu_hours_low
    assert heard.tell(make_finding(revision=3, cost=msgspec.structs.replace(cost, lost_s=41.0))) == []


def test_a_finding_that_recovers_withdraws_and_rests(heard, make_finding, make_pace):
    heard.tell(make_finding())
    (gone,) = heard.tell(make_finding(state="recovered", revision=2))
    assert gone.state == "withdrawn"
    assert heard.tell(make_finding(id="again")) == []
    run(heard, make_pace, 4, 62, 0.6)
    assert heard.said[-1].state == "new"
    assert heard.said[-1].id != gone.id


def test_what_was_dismissed_is_not_suggested_again_for_a_day(heard, make_finding, make_pace):
    (one,) = heard.tell(make_finding())
    heard.command(one, "dismiss")
    heard.tell(make_finding(id="again"))
    run(heard, make_pace, 4, 300, 0.6)
    assert [state for _, state in heard.states()] == ["new", "dismissed"]


def test_what_nobody_decides_on_expires(told, make_finding, make_pace):
    heard = told()
    heard.advice.config = heard.advice.ledger.config = changed({"new_s": 60.0})
    heard.tell(make_pace())
    heard.tell(make_finding())
    run(heard, make_pace, 1, 12, 0.6)
    assert heard.states() == [("feed_input", "new"), ("feed_input", "expired")]


def test_what_does_not_help_says_so(heard, make_finding, make_pace):
    """The finding is over, the steps are as long as before."""
    (one,) = heard.tell(make_finding())
    heard.command(one, "accept")
    run(heard, make_pace, 4, 4, 0.6)
    heard.tell(make_finding(state="recovered", revision=2))
    run(heard, make_pace, 8, 5, 0.6)
    last = heard.said[-1]
    assert last.state == "did_not_help"
    assert last.effect.before == last.effect.after == 0.6


@pytest.mark.parametrize("accepts", [True, False])
def test_a_balancer_that_tells_of_slow_ranks_has_done_what_was_suggested(heard, make_finding, make_pace, accepts):
    """Accepted or not: it is applied, and measured; that the straggler recovers withdraws nothing."""
    (one,) = heard.tell(make_finding(cause="worker_compute"))
    assert one.action == "rebalance"
    if accepts:
        heard.command(one, "accept")
    run(heard, make_pace, 4, 4, 0.6)
    (applied,) = heard.tell(make_finding("balanced_straggler", "worker_compute", id="b", first_step=-1, last_step=-1))
    assert (applied.id, applied.state) == (one.id, "applied")
    assert heard.tell(make_finding(cause="worker_compute", state="recovered", revision=2)) == []
    run(heard, make_pace, 8, 5, 0.4)
    assert heard.said[-1].state == "verified"
    assert (heard.said[-1].effect.before, heard.said[-1].effect.after) == (0.6, 0.4)


def test_what_a_balancer_does_already_is_not_suggested(heard, make_finding):
    """The slow rank takes less work before the straggler is certain; once it no longer does, it is suggested."""
    balanced = {"id": "b", "first_step": -1, "last_step": -1}
    heard.tell(make_finding("balanced_straggler", "worker_compute", **balanced))
    assert heard.tell(make_finding(cause="worker_compute")) == []
    heard.tell(make_finding("balanced_straggler", "worker_compute", **balanced, state="recovered", revision=2))
    (one,) = heard.tell(make_finding(cause="worker_compute", revision=2))
    assert one.action == "rebalance"


def test_an_attempt_that_was_balanced_says_nothing_of_the_next(heard, make_finding):
    """It ended balanced, and was started again without a balancer."""
    heard.tell(make_finding("balanced_straggler", "worker_compute", id="b", first_step=-1, last_step=-1))
    heard.advice = Advice.restore(heard.advice.snapshot())
    (one,) = heard.tell(make_finding(cause="worker_compute", attempt=1))
    assert one.action == "rebalance"


def test_a_new_attempt_without_the_node_is_seen(heard, make_finding, make_pace):
    (one,) = heard.tell(make_finding(cause="link"))
    assert one.action == "move_job"
    heard.command(one, "accept")
    for each in described(1, ["gpu-0", "gpu-1"]):
        heard.tell(each)
    assert heard.open() == ["move_job"]
    for each in described(2, ["gpu-1", "gpu-2"]):
        heard.tell(each)
    assert heard.said[-1].state == "applied"
    run(heard, make_pace, 10, 5, 0.5, attempt=2)
    assert heard.said[-1].state == "verified"
    assert heard.said[-1].effect.after == 0.5


def test_a_smaller_batch_is_seen_and_memory_decides(heard, make_finding, make_pace):
    oom = make_finding("out_of_memory_risk", "memory_pressure", first_step=-1, last_step=-1, devices=["GPU-1"])
    (one,) = heard.tell(oom)
    assert one.action == "smaller_batch"
    heard.command(one, "accept")
    for each in described(1, ["gpu-0", "gpu-1"], 64):
        heard.tell(each)
    assert heard.said[-1].state == "accepted"
    for each in described(2, ["gpu-0", "gpu-1"], 32):
        heard.tell(each)
    assert heard.said[-1].state == "applied"
    run(heard, make_pace, 10, 45, 0.5, attempt=2)
    assert (heard.said[-1].state, heard.said[-1].effect.name) == ("verified", "findings")


def test_the_next_attempt_that_runs_well_ends_what_was_of_the_last(heard, make_finding, make_pace):
    heard.tell(make_finding())
    for each in described(1, ["gpu-0", "gpu-1"]):
        heard.tell(each)
    run(heard, make_pace, 10, 13, 0.5, attempt=1)
    assert heard.states() == [("feed_input", "new"), ("feed_input", "withdrawn")]


def test_gpus_that_were_freed_are_seen_and_measured(told, make_hour):
    heard = told(decide="accept")
    for window in make_hour(minutes=70, busy=0.2):
        heard.tell(window)
    assert heard.states() == [("consolidate", "new"), ("consolidate", "accepted")]
    for window in make_hour(minutes=90, first=70, gpus=3, busy=0.55):
        heard.tell(window)
    assert [state for _, state in heard.states()][-2:] == ["applied", "verified"]
    effect = heard.said[-1].effect
    assert (effect.name, effect.before) == ("gpu_busy", pytest.approx(0.2))
    assert effect.after == pytest.approx(0.55, abs=0.05)


def slow(make_finding, ranks, state="confirmed", revision=1, **changes):
    """A finding for each of ``ranks``, all for the same reason."""
    return [
        make_finding(
            cause="worker_compute", id=f"slow-{rank}", ranks=[rank], nodes=[f"gpu-{rank % 2}"], state=state,
            revision=revision, **changes,
        )
        for rank in ranks
    ]  # fmt: skip


def gathered(crowds, findings):
    return crowds.gather([("straggler: ranks", one) for one in findings])


@pytest.fixture
def many(heard, make_finding):
    """Eight slow ranks, and the suggestion of them; then a ninth, which is only suspected: one finding for all."""
    crowds = Crowds()
    for one in gathered(crowds, slow(make_finding, range(8))):
        heard.tell(one)
    (told,) = heard.last().values()
    assert (told.action, told.state, len(told.findings)) == ("rebalance", "new", 8)
    return crowds, told, gathered(crowds, slow(make_finding, [8], "suspected"))


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("first", ["ends", "begins"])
def test_findings_that_one_for_many_replaces_do_not_show_that_it_was_done(heard, many, make_pace, restart, first):
    """Accepted it stays so, whichever comes first; the pace is what it was, and no one did anything."""
    _, told, folded = many
    heard.command(told, "accept")
    for one in folded if first == "ends" else [folded[-1], *folded[:-1]]:
        heard.tell(one)
    if restart:
        heard.advice = Advice.restore(heard.advice.snapshot())
    run(heard, make_pace, 4, 20, 0.6)
    assert {state for _, state in heard.states()} == {"new", "accepted"}
    (last,) = heard.last().values()
    assert (last.state, last.ranks, last.findings[-1]) == ("accepted", list(range(9)), folded[-1].id)


def test_the_end_of_the_one_for_many_shows_that_it_was_done(heard, many, make_finding, make_pace):
    """All are as fast as their peers again, and the steps are shorter."""
    crowds, told, folded = many
    heard.command(told, "accept")
    for one in folded:
        heard.tell(one)
    run(heard, make_pace, 4, 4, 0.6)
    for one in gathered(crowds, slow(make_finding, range(9), "recovered", 3)):
        heard.tell(one)
    assert heard.last()[told.id].state == "applied"
    run(heard, make_pace, 8, 5, 0.4)
    assert heard.last()[told.id].state == "verified"


def test_what_is_new_stays_new_while_one_for_many_replaces_its_findings(heard, many, make_finding):
    """Also where that one suggests nothing, as its members have several causes; it goes when that one ends."""
    crowds, told, folded = many
    for one in folded[:-1]:
        heard.tell(one)
    heard.tell(msgspec.structs.replace(folded[-1], cause="unknown"))
    assert heard.states() == [("rebalance", "new")] * len(heard.said)
    for one in gathered(crowds, slow(make_finding, range(9), "recovered", 3)):
        heard.tell(one)
    assert heard.last()[told.id].state == "withdrawn"


def test_a_finding_that_is_replaced_twice_goes_with_the_last(heard, make_finding):
    """A rank's by its node's, and that by one for many nodes."""
    (told,) = heard.tell(make_finding())
    heard.tell(make_finding(state="recovered", revision=2, replaced_by="node"))
    heard.tell(make_finding(id="node", state="recovered", revision=2, replaced_by="many"))
    assert heard.last()[told.id].state == "new"
    heard.tell(make_finding(id="many", state="recovered", revision=2))
    assert heard.last()[told.id].state == "withdrawn"


def test_two_findings_of_one_action_are_one_suggestion(heard, make_finding):
    heard.tell(make_finding())
    (two,) = heard.tell(make_finding(id="other", ranks=[5]))
    assert (two.revision, two.ranks, len(two.findings)) == (2, [3, 5], 2)
    assert heard.tell(make_finding(state="recovered", revision=2)) == []
    assert heard.tell(make_finding(id="other", state="recovered", revision=2))[0].state == "withdrawn"


def test_faults_on_one_node_are_one_cordon(heard, make_finding):
    """It stands for what else is asked of that node."""
    heard.tell(make_finding(cause="throttling"))
    heard.tell(make_finding(cause="link"))
    fault = {"severity": "critical", "first_step": -1, "last_step": -1}
    heard.tell(make_finding("device_fault", "unknown", id="f1", devices=["GPU-1"], **fault))
    heard.tell(make_finding("device_fault", "unknown", id="f2", devices=["GPU-2"], **fault))
    assert heard.open() == ["cordon_node"]
    (one,) = [each for each in heard.last().values() if each.state == "new"]
    assert one.devices == ["GPU-1", "GPU-2"]
    assert one.apply[0].startswith("scontrol update nodename=gpu-0 state=drain reason=")


@pytest.mark.parametrize(
    ("devices", "command"),
    [
        (["cuda:3"], "nvidia-smi"),
        (["cpu"], "top"),
        (["cpu", "cpu"], "top"),
        (["cpu", "xpu:0"], "nvidia-smi"),
        ([], "nvidia-smi"),
    ],
)
def test_where_a_slow_rank_computes_is_what_is_looked_at(heard, make_finding, devices, command):
    """CPUs only where all that is told are CPUs."""
    (one,) = heard.tell(make_finding(cause="worker_compute", devices=devices))
    assert [line.split("'")[1].split()[0] for line in one.apply] == [command]


def test_a_device_that_fails_again_is_to_be_replaced(heard, make_finding):
    fault = {"severity": "critical", "first_step": -1, "last_step": -1, "devices": ["GPU-1"]}
    heard.tell(make_finding("device_fault", "unknown", id="f1", **fault))
    heard.tell(make_finding("device_fault", "unknown", id="f1", state="recovered", revision=2, **fault))
    heard.tell(make_finding("device_fault", "unknown", id="f2", **fault))
    assert heard.open() == ["replace_device"]


def test_gpus_of_one_name_on_two_nodes_do_not_fail_for_each_other(heard, make_finding):
    """A GPU that was lost before it was opened has no UUID: each node has a GPU 0."""
    fault = {"severity": "critical", "first_step": -1, "last_step": -1, "devices": ["GPU 0"]}
    for number, node in enumerate(("a", "b", "b")):
        one = {"id": f"f{number}", "nodes": [node], **fault}
        heard.tell(make_finding("device_fault", "unknown", **one))
        heard.tell(make_finding("device_fault", "unknown", state="recovered", revision=2, **one))
        assert [each.target for each in heard.last().values() if each.action == "replace_device"] == (
            ["device:b/GPU 0"] if number == 2 else []
        )


@pytest.mark.parametrize(
    "changes",
    [{"severity": "warning"}, {"severity": "critical", "confidence": 0.6}],
    ids=["warning", "a program's XID"],
)
def test_a_sign_is_no_fault(heard, make_finding, changes):
    assert heard.tell(make_finding("device_fault", "unknown", **changes)) == []


def test_a_node_that_was_slow_in_two_jobs_is_to_be_drained(heard, make_finding):
    """It stays so when the second job is over, and stands for the job's own."""
    heard.tell(make_finding(cause="worker_compute"))
    heard.tell(make_finding(cause="worker_compute", state="recovered", revision=2))
    heard.tell(make_finding(cause="worker_compute", job="resnet"))
    assert heard.open() == ["cordon_node"]
    heard.tell(make_finding(cause="worker_compute", job="resnet", state="recovered", revision=2))
    assert heard.open() == ["cordon_node"]
    (one,) = [each for each in heard.last().values() if each.action == "cordon_node"]
    assert one.evidence[0].value == 2.0


@pytest.mark.parametrize(
    ("nodes", "devices", "expected"),
    [
        (["gpu-0"], ("cpu", "cpu"), ["rebalance", "rebalance"]),
        (["gpu-0"], ("cuda:1", "cuda:2"), ["rebalance", "rebalance"]),
        (["gpu-0"], ("cuda:1", "cuda:1"), ["cordon_node"]),
        (["gpu-0", "gpu-9"], ("cuda:1", "cuda:2"), ["cordon_node"]),
        (["gpu-0", "gpu-9"], ("cpu", "cpu"), ["cordon_node"]),
    ],
)
def test_a_node_is_drained_on_evidence_against_the_node(told, make_finding, nodes, devices, expected):
    """Two jobs, each with one slow rank there. Its peers on the same machine were fast: another core, another GPU."""
    heard = told()
    for one in described(0, ["gpu-7"], job="elsewhere"):
        heard.tell(one)
    for rank, (job, device) in enumerate(zip(("llama", "resnet"), devices, strict=True), 1):
        for one in described(0, nodes, job=job):
            heard.tell(one)
        heard.tell(make_finding(cause="worker_compute", job=job, ranks=[rank], devices=[device]))
    assert heard.open() == expected


def test_the_only_node_is_never_drained(told, make_finding):
    """There is nowhere else to go; what each job can do about it stays."""
    heard = told()
    for job in ("llama", "resnet"):
        for one in described(0, ["gpu-0"], job=job):
            heard.tell(one)
        heard.tell(make_finding(cause="worker_compute", job=job))
    assert heard.open() == ["rebalance", "rebalance"]


def test_the_same_job_twice_says_nothing_of_the_node(heard, make_finding):
    heard.tell(make_finding(cause="worker_compute"))
    heard.tell(make_finding(cause="worker_compute", id="later"))
    assert heard.open() == ["rebalance"]


def test_slow_code_in_two_jobs_says_nothing_of_the_node(heard, make_finding):
    heard.tell(make_finding(cause="garbage_collection"))
    heard.tell(make_finding(cause="garbage_collection", job="resnet"))
    assert heard.open() == ["tune_host", "tune_host"]


def test_what_holds_a_job_back_comes_before_fewer_gpus(told, make_hour, make_finding):
    heard = told()
    for window in make_hour(minutes=70, busy=0.2):
        heard.tell(window)
    assert heard.open() == ["consolidate"]
    heard.tell(make_finding("data_bound", "input_pipeline"))
    assert heard.open() == ["feed_input"]


def test_room_for_a_batch_and_idle_tensor_cores(told, make_hour, make_pace):
    heard = told()
    heard.tell(make_pace())
    for window in make_hour(minutes=70, busy=0.6, fb_used_bytes=20e9):
        heard.tell(window)
    assert heard.open() == ["larger_batch"]
    heard = told()
    heard.tell(make_pace())
    for window in make_hour(minutes=70, busy=0.9, sm_active_ratio=0.8, tensor_active_ratio=0.0):
        heard.tell(window)
    assert heard.open() == ["mixed_precision"]


def test_tensor_cores_that_nobody_measured_are_not_idle(told, make_hour, make_pace):
    heard = told()
    heard.tell(make_pace())
    for window in make_hour(minutes=70, busy=0.9, sm_active_ratio=0.8):
        heard.tell(window)
    assert heard.said == []


def test_less_than_an_hour_says_nothing(told, make_hour):
    heard = told()
    for window in make_hour(minutes=50, busy=0.2):
        heard.tell(window)
    heard.conclude()
    assert heard.said == []


def test_an_hour_on_the_edge_does_not_go_to_and_fro(told, make_hour):
    heard = told()
    for window in make_hour(minutes=600, busy=lambda minute, gpu: 0.29 if minute // 10 % 12 < 6 else 0.31):
        heard.tell(window)
    assert [state for _, state in heard.states()] == ["new"]


def test_no_more_are_new_in_an_hour_than_asked_for(heard, make_finding, make_pace):
    """The others wait their turn; what weighs most goes first."""
    for number in range(30):
        heard.tell(make_finding(job=f"job-{number}"))
    assert len(heard.said) == AdviceConfig().new_an_hour
    run(heard, make_pace, 4, 370, 0.6)
    assert len(heard.said) == 30


def test_money_is_told_where_there_is_a_price(told, make_finding, make_pace):
    heard = told(Advice(changed({"gpu_hour_price": 2.5}, "EUR")))
    heard.tell(make_pace())
    (one,) = heard.tell(make_finding())
    assert one.gain.money_per_day == pytest.approx(one.gain.gpu_hours_per_day * 2.5)
    assert one.gain.currency == "EUR"


@pytest.mark.parametrize(("name", "value"), [("nobody", 1.0), ("low_use", 7.0), ("low_use", float("nan"))])
def test_a_threshold_that_cannot_be_is_refused(name, value):
    assert refusal(name, value)
    with pytest.raises(ValueError, match=name):
        changed({name: value})


def test_what_is_said_of_a_job_after_its_end_counts(heard):
    """The last revision, with the whole cost, may follow the goodbyes of its nodes: the gain is that revision's."""
    cost = Cost(lost_s=20.4, gpu_hours=0.05, throughput_lost_ratio=0.2)
    first = finding(cluster="c", job="llama", nodes=["gpu-0"], ranks=[2], cost=cost)
    (told,) = heard.tell(first)
    end(heard)
    whole = Cost(lost_s=40.3, gpu_hours=0.1, throughput_lost_ratio=0.4)
    (revised,) = heard.tell(msgspec.structs.replace(first, revision=2, cost=whole))
    assert (revised.id, revised.state) == (told.id, "new")
    assert revised.gain.gpu_hours_per_day > told.gain.gpu_hours_per_day
    assert revised.title == f"Next run: {told.title}"


def end(heard, attempt=0):
    """Both of its nodes say that the job has ended."""
    return [
        said for one in described(attempt, ["gpu-0", "gpu-1"], 64, ended_s=NOW_S + 60.0) for said in heard.tell(one)
    ]


@pytest.mark.parametrize("accepted", [False, True])
def test_what_is_advised_of_an_ended_job_is_for_its_next_run(heard, make_finding, accepted):
    """Said once, by whichever node leaves last; who accepted it has still to do it."""
    (told,) = heard.tell(make_finding())
    if accepted:
        heard.command(told, "accept")
    (revised,) = end(heard)
    assert (revised.id, revised.state) == (told.id, "accepted" if accepted else "new")
    assert revised.title == f"Next run: {told.title}"
    assert revised.reason == f"The job has ended; this is for its next run. {told.reason}"
    assert revised.gain == told.gain
    assert end(heard) == []


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("kind", ["hang", "died"])
def test_what_a_job_ended_of_is_to_be_mended_before_its_next_run(heard, make_finding, kind, late):
    """Whether the finding comes before its end or after; nothing waits any more, so nothing is gained by the hour."""
    found = make_finding(id="h", kind=kind, cause="unknown")
    if late:
        end(heard)
        (told,) = heard.tell(found)
    else:
        (first,) = heard.tell(found)
        assert "Next run" not in first.title
        (told,) = end(heard)
    assert (told.action, told.state, told.title[:10]) == ("restart_job", "new", "Next run: ")
    assert told.gain.gpu_hours_per_day is None
    assert told.apply == []
    assert "py-spy" not in " ".join(told.steps), "its processes are gone"
    run_again = described(1, ["gpu-0", "gpu-1"], 64)
    for one in run_again:
        heard.tell(one)
    assert heard.open() == ["restart_job"]


def test_the_last_words_on_a_hang_come_after_its_job(heard, make_finding):
    """How long it hung in all is known once it has ended."""
    hang = make_finding(id="h", kind="hang", cause="unknown", summary="Blocked for 27 s.")
    heard.tell(hang)
    end(heard)
    (last,) = heard.tell(msgspec.structs.replace(hang, revision=2, summary="Blocked for 48 s."))
    assert last.reason.endswith("Blocked for 48 s.")
    assert heard.tell(msgspec.structs.replace(hang, revision=3, summary="Blocked for 48 s.")) == []


def test_a_job_that_was_ended_from_outside_has_nothing_to_mend(heard, make_finding):
    """No rank is to blame: a person or the scheduler ended it."""
    assert heard.tell(make_finding(id="d", kind="died", cause="unknown", ranks=[])) == []


def test_what_can_be_done_while_a_job_runs_ends_with_it(heard, make_finding):
    """GPUs that it held for nothing are free."""
    (told,) = heard.tell(make_finding("idle_device", "unused", devices=["GPU-1"]))
    (gone,) = end(heard)
    assert (told.action, gone.id, gone.state) == ("free_devices", told.id, "withdrawn")
    assert heard.open() == []


def test_advice_on_a_node_outlives_its_jobs_as_it_is(heard, make_finding):
    """The node is there for the next job, whoever's."""
    (told,) = heard.tell(make_finding(cause="throttling"))
    assert told.target.startswith("node:")
    assert end(heard) == []
    assert heard.last()[told.id].title == told.title


def test_the_next_run_is_told_of_as_it_is(heard, make_finding, make_pace):
    """A newer attempt that is slow as well: what is advised is of that one, which runs."""
    heard.tell(make_finding())
    end(heard)
    for one in described(1, ["gpu-0", "gpu-1"], 64):
        heard.tell(one)
    run(heard, make_pace, 20, 2, 0.6, attempt=1)
    said = heard.tell(make_finding(id="f2", attempt=1, cost=Cost(lost_s=9.0, gpu_hours=1.0, throughput_lost_ratio=0.9)))
    assert [one.title.startswith("Next run: ") for one in said] == [False]


def test_restored_after_its_end_it_is_of_the_next_run_still(heard, make_finding):
    """State is data: nothing is said twice."""
    heard.tell(make_finding())
    end(heard)
    again = Advice.restore(heard.advice.snapshot())
    assert [
        said for one in described(0, ["gpu-0", "gpu-1"], 64, ended_s=NOW_S + 60.0) for said in again.update(one)
    ] == []
