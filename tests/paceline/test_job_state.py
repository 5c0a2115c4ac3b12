"""What a running job is doing, by its findings: the worst open one, in a few words."""

import pytest

from paceline.job_state import RUNNING, job_state, runs_twice
from paceline.words import label, verdict
from tests.derived_events import finding, two_runs

HANG = {"kind": "hang", "cause": "unknown", "ranks": [2], "first_step": 44, "last_step": 44}
STAGE = {"kind": "stage_imbalance", "ranks": [], "nodes": [], "stage": 3}


@pytest.mark.parametrize(
    ("changes", "word", "words"),
    [
        (HANG | {"line": "train.py:45 evaluate"}, "stuck", "stuck at step 44: rank 2, train.py:45 evaluate"),
        (HANG | {"line": None}, "stuck", "stuck at step 44: rank 2"),
        (HANG, "stuck", "stuck at step 44: rank 2"),
        (HANG | {"state": "suspected"}, "stuck", "probably stuck at step 44: rank 2"),
        (HANG | {"state": "of 2030"}, "stuck", "probably stuck at step 44: rank 2"),
        (HANG | {"first_step": -1}, "stuck", "stuck: rank 2"),
        (HANG | {"state": "recovered"}, "running", "running"),
        (HANG | {"kind": "collective_mismatch"}, "stuck", "stuck at step 44: rank 2"),
        (HANG | {"kind": "order_deadlock", "ranks": [], "group": "world"}, "stuck", "stuck at step 44: group world"),
        (HANG | {"kind": "network", "first_step": -1, "state": "suspected"}, "stuck", "probably stuck: rank 2"),
        (HANG | {"kind": "waiting"}, "running", "running"),
        ({}, "slow", "slow: rank 3"),
        (STAGE, "slow", "uneven stages: stage 3"),
        ({"kind": "tilted_rack"}, "slow", "tilted rack: rank 3"),
        ({"state": "suspected"}, "running", "running"),
        ({"state": "recovered"}, "running", "running"),
        ({"kind": "insufficient_data", "ranks": []}, "running", "running"),
    ],
)
def test_the_state_is_what_the_finding_says(changes: dict[str, object], word: str, words: str) -> None:
    """Open hangs from the first suspicion on, of the rest what is confirmed."""
    assert job_state([finding(**changes)]) == (word, words)


def test_without_findings_a_job_runs() -> None:
    assert job_state([]) == RUNNING


@pytest.mark.parametrize(("state", "twice"), [("confirmed", True), ("suspected", True), ("recovered", False)])
def test_a_second_run_of_its_name_makes_no_job_slow_and_hides_nothing(state: str, twice: bool) -> None:
    both = two_runs(state=state, severity="critical")
    assert (job_state([both]), runs_twice([both])) == (RUNNING, twice)
    assert job_state([both, finding()]).words == "slow: rank 3"
    assert job_state([finding(kind="configuration_mismatch")]).word == "slow"
    assert not runs_twice([finding(kind="configuration_mismatch"), finding()])


@pytest.mark.parametrize("worse", [0, 1])
def test_the_worst_finding_counts_in_any_order(worse: int) -> None:
    """A hang before all else, even a suspected one; then the severe, then what costs most."""
    pairs = [
        (finding(id="h", **HANG | {"state": "suspected"}), finding(severity="critical"), "stuck"),
        (finding(severity="critical", ranks=[7]), finding(id="f2", severity="info"), "slow: rank 7"),
        (finding(id="f2", ranks=[7]), finding(severity="grave", cost=finding().cost.__class__(
            lost_s=0.0, gpu_hours=0.0, throughput_lost_ratio=0.0)), "slow: rank 7"),
        (finding(id="h", **HANG), finding(id="a", **HANG | {"state": "suspected", "ranks": [1]}), "stuck at"),
    ]  # fmt: skip
    for first, second, wanted in pairs:
        both = [first, second] if worse else [second, first]
        assert wanted in job_state(both).words


@pytest.mark.parametrize(
    ("changes", "shown", "line"),
    [
        (HANG | {"line": "train.py:45 evaluate"}, "Hang, train.py:45 evaluate", "Hang: rank 2, train.py:45 evaluate"),
        (HANG, "Hang", "Hang: rank 2"),
        (STAGE | {"cause": "unknown"}, "Uneven stages", "Uneven stages: stage 3"),
        ({"cause": "unknown"}, "Straggler, cause unknown", "Straggler: rank 3, cause unknown"),
        ({}, "slow computation on the worker", "Straggler: rank 3, slow computation on the worker"),
    ],
)
def test_a_label_says_the_kind_where_the_cause_is_unknown(changes: dict[str, object], shown: str, line: str) -> None:
    """And where in the code, if that is known; so does the verdict of alerts and tables."""
    assert (label(finding(**changes)), verdict(finding(**changes))) == (shown, line)


def test_a_line_of_any_length_stays_short() -> None:
    long = finding(**HANG, line="x" * 10_000)
    assert max(len(job_state([long]).words), len(label(long)), len(verdict(long))) < 200
