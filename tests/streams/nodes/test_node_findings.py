"""What is said of an episode on a node: who, since when, why, how sure and how grave."""

import pytest

from streams.nodes.node_episodes import Fact, NodeEpisode, NodeEvidence, Tenant
from streams.nodes.node_findings import job_key, said

HOT = Fact(name="throttled", value=0.75, unit="ratio", rule="told from 0.5", peers=0.0, says="heat in 75 %")
CLOCK = Fact(name="sm_clock", value=900.0, unit="MHz", rule="beside the highest", severity="info")
GRAVE = Fact(name="lost", value=1.0, unit="", rule="refused", says="lost", advice="drain it", severity="critical")
MINE = Tenant("mine", (3, 1), ("GPU-0",))
#: 2023-11-05 01:02:03 UTC; a day of one digit.
AT_S = 1_699_146_123.0


@pytest.fixture
def words():
    """What is said of an episode of these facts; a confirmed fault of a job's GPU, where nothing else is given."""

    def make(*facts, kind="device_fault", subject="clocks GPU-0", tenant=MINE, ended="", **more):
        given = {"first": AT_S, "last": AT_S + 90.0, "length": 90.0, "state": "confirmed", "revision": 1, **more}
        seen = NodeEvidence(
            kind=kind, subject=subject, tenant=tenant, facts={fact.name: fact for fact in facts}, ended=ended
        )
        return said(NodeEpisode(subject=f"{kind} {subject}", cause="unknown", evidence=seen, **given), "node-7")

    return make


def test_a_fault_is_told_by_its_first_sentence_then_the_others(words):
    """Who, what, since when by the node's clock; what is no sentence is evidence alone; advice with a capital."""
    assert words(HOT, CLOCK, GRAVE).summary == (
        "GPU-0 on node-7 (job mine, ranks 1, 3): heat in 75 %, since 5 Nov 01:02:03 UTC; lost. Drain it."
    )


def test_a_fault_of_which_nothing_is_said_is_told_by_its_subject(words):
    """No facts at all, or none with a sentence."""
    for facts in ((), (CLOCK,)):
        assert words(*facts).summary == (
            "GPU-0 on node-7 (job mine, ranks 1, 3): clocks GPU-0, since 5 Nov 01:02:03 UTC."
        )


@pytest.mark.parametrize(
    ("kind", "first"),
    [
        ("idle_device", "GPU-0 on node-7 (job mine, ranks 1, 3) does nothing since 5 Nov 01:02:03 UTC"),
        ("out_of_memory_risk", "GPU-0 on node-7 (job mine, ranks 1, 3) is filling up since 5 Nov 01:02:03 UTC"),
        ("load_imbalance", "The GPUs of job mine on node-7 are not equally busy since 5 Nov 01:02:03 UTC"),
    ],
)
def test_the_other_kinds_begin_with_what_they_are(words, kind, first):
    """Then every sentence, behind a colon where there is one; only what is idle tells its device-hours."""
    idle = " 0.25 device-hours are spent on it." if kind == "idle_device" else ""
    assert words(CLOCK, kind=kind, gpu_hours=0.25).summary == f"{first}.{idle}"
    assert words(HOT, GRAVE, kind=kind, gpu_hours=0.25).summary == f"{first}: heat in 75 %; lost.{idle} Drain it."


def test_one_rank_is_singular_and_many_are_cut_off(words):
    """In order; a job without ranks is named alone, and who is nobody is said to be none."""
    alone = words(HOT, tenant=Tenant("mine", (4,), ("GPU-0",)))
    assert alone.summary.startswith("GPU-0 on node-7 (job mine, rank 4):")
    many = words(HOT, tenant=Tenant("mine", tuple(range(11, -1, -1)), ("GPU-0",)))
    assert "(job mine, ranks 0, 1, 2, 3, 4, 5, 6, 7):" in many.summary
    assert many.subject.ranks == tuple(range(12))
    assert words(HOT, tenant=Tenant("mine", (), ("GPU-0",))).summary.startswith("GPU-0 on node-7 (job mine):")
    assert words(HOT, tenant=Tenant(devices=("GPU-0",))).summary.startswith("GPU-0 on node-7 (no job):")


def test_the_host_has_a_memory_and_no_device(words):
    """Of an episode without devices."""
    told = words(HOT, kind="out_of_memory_risk", subject="host memory", tenant=Tenant("mine", (0,)))
    assert told.summary.startswith("The memory of node-7 (job mine, rank 0) is filling up")
    assert told.subject.devices == ()


def test_the_subject_is_the_node_and_knows_no_steps(words):
    """Ranks in order; uneven GPUs accuse none of theirs."""
    subject = words(HOT).subject
    assert (subject.kind, subject.name, subject.nodes) == ("device_fault", "node-7 clocks GPU-0", ("node-7",))
    assert (subject.ranks, subject.devices, subject.has_steps) == ((1, 3), ("GPU-0",), False)
    uneven = words(HOT, kind="load_imbalance", tenant=Tenant("mine", (0, 1), ("GPU-0", "GPU-1")))
    assert (uneven.subject.ranks, uneven.subject.devices) == ((), ("GPU-0", "GPU-1"))


def test_every_fact_is_evidence_and_how_long_it_lasted(words):
    """Also facts without a sentence; 0.0 is a value, None is nothing to compare with."""
    evidence = words(HOT, CLOCK, length=90.12345).evidence
    assert [(one.name, one.value, one.unit, one.peers, one.rule) for one in evidence] == [
        ("throttled", 0.75, "ratio", 0.0, "told from 0.5"),
        ("sm_clock", 900.0, "MHz", None, "beside the highest"),
        ("lasted", 90.123, "s", None, "from 5 Nov 01:02:03 UTC by the node's clock"),
    ]


@pytest.mark.parametrize(
    ("facts", "state", "severity"),
    [
        ((), "confirmed", "info"),
        ((CLOCK,), "confirmed", "info"),
        ((HOT, CLOCK), "confirmed", "warning"),
        ((HOT, GRAVE, CLOCK), "confirmed", "critical"),
        ((HOT, GRAVE), "suspected", "warning"),
        ((HOT,), "suspected", "warning"),
        ((CLOCK,), "suspected", "info"),
    ],
)
def test_it_is_as_grave_as_its_gravest_fact(words, facts, state, severity):
    """What is only suspected is at most a warning."""
    assert words(*facts, state=state).severity == severity


@pytest.mark.parametrize(
    ("subject", "state", "confidence"),
    [
        ("clocks GPU-0", "suspected", 0.6),
        ("clocks GPU-0", "confirmed", 0.95),
        ("clocks GPU-0", "recovered", 0.95),
        ("program GPU-0", "suspected", 0.6),
        ("program GPU-0", "confirmed", 0.6),
        ("programs GPU-0", "confirmed", 0.95),
    ],
)
def test_what_lasted_is_sure_and_what_a_program_did_is_not(words, subject, state, confidence):
    """Errors that programs cause are no proof of a fault of the GPU."""
    assert words(HOT, subject=subject, state=state).confidence == confidence


def test_who_is_cleared_is_said(words):
    """The GPU of a program's error, and the GPUs of an uneven job; nobody else."""
    assert words(HOT, subject="program GPU-0").cleared == ("the GPU: such errors are the program's own as a rule",)
    assert words(HOT, kind="load_imbalance").cleared == (
        "the GPUs: how busy they are follows from the work they are given",
    )
    assert words(HOT).cleared == ()


def test_what_is_over_says_why_and_when_it_began(words):
    """By itself, or because whom it concerned has gone."""
    assert words(HOT, state="recovered").over == (
        "GPU-0 on node-7 (job mine, ranks 1, 3): over, no sign of it any more; it began 5 Nov 01:02:03 UTC."
    )
    gone = words(HOT, state="recovered", ended="mine no longer has it").over
    assert gone.endswith(": over, mine no longer has it; it began 5 Nov 01:02:03 UTC.")


def test_the_clock_is_in_utc_wherever_the_analysis_runs(words, monkeypatch):
    """The zone of the process changes no word; nor do the first and the last second there can be."""
    import time

    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        told = words(HOT).summary
    time.tzset()
    assert "since 5 Nov 01:02:03 UTC" in told
    assert "since 1 Jan 00:00:00 UTC" in words(HOT, first=0.0).summary
    assert "UTC" in words(HOT, first=1e11).summary


def test_the_job_is_that_of_the_tenant_and_has_no_attempt():
    """Nobody's device belongs to the job \"\"."""
    for tenant, job in ((MINE, "mine"), (Tenant(devices=("GPU-0",)), "")):
        seen = NodeEvidence(kind="device_fault", subject="clocks GPU-0", tenant=tenant, facts={})
        episode = NodeEpisode(subject="any", cause="unknown", first=0.0, last=0.0, evidence=seen)
        assert job_key(episode, "c") == ("c", job, 0)
