"""Every kind of fault that the simulator knows has the suggestion that is right for it, and no other."""

import ast

import pytest

import paceline.balance
from simulator.fault import EXPECTED
from streams.reports.suggestions import page

#: A fault -> the action, and its target.
RIGHT = {
    "compute:rank=3,from=40": ("rebalance", "job:simulated"),
    "throttle:rank=3,size=0.4,from=40": ("fix_cooling", "node:node-0000"),
    "throttle:rank=3,size=0.4,from=40,reason=brake": ("fix_cooling", "node:node-0000"),
    "throttle:rank=3,size=0.4,from=40,reason=power": ("raise_power_cap", "node:node-0000"),
    "input:rank=3,from=40": ("feed_input", "job:simulated"),
    "gc:rank=3,from=40": ("tune_host", "job:simulated"),
    "cpu:rank=3,from=40": ("give_cpus", "job:simulated"),
    "host:rank=3,from=40": ("tune_host", "job:simulated"),
    "memory:rank=3,from=40": ("tune_host", "job:simulated"),
    "link:rank=3,from=40": ("move_job", "job:simulated"),
    "hang:rank=3,from=100,seconds=120": ("restart_job", "job:simulated"),
    "slowdown:from=80,size=0.4": ("inspect_job", "job:simulated"),
    "silent:node=1,from=40": ("inspect_node", "node:node-0001"),
}
#: What a fault needs more than one node and 120 steps of half a second: a silence is confirmed after a minute of it.
SHAPES = {
    "silent:node=1,from=40": {"ranks": 16, "steps": 180},
    "link:rank=3,from=40": {"ranks": 16},
    "hang:rank=3,from=100,seconds=120": {"ranks": 16},
}


def test_every_kind_of_fault_is_here():
    assert {fault.partition(":")[0] for fault in RIGHT} == set(EXPECTED)


@pytest.mark.slow
@pytest.mark.parametrize("fault", RIGHT)
def test_a_fault_has_the_suggestion_that_is_right_for_it(fault, events_of, told):
    heard = told()
    for event in events_of(fault, **{"ranks": 8, **SHAPES.get(fault, {})}):
        heard.tell(event)
    heard.conclude()
    kept = [one for one in heard.last().values() if one.state == "new"]
    assert [(one.action, one.target) for one in kept] == [RIGHT[fault]]
    (one,) = kept
    assert one.findings
    assert one.evidence
    assert one.steps
    assert one.title
    assert one.gain.basis
    assert one.expires_s > one.created_s


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "action"),
    [
        ({"pp": 4, "microbatches": 8, "ranks": 8, "steps": 90, "stage_skew": {3: 1.3}}, "rebalance"),
        ({"ranks": 8, "microbatches": 4, "steps": 90, "uneven": 0.5}, "rebalance"),
        ({"ranks": 8, "steps": 120, "communication": 0.6}, "overlap_communication"),
    ],
)
def test_what_is_no_rank_s_fault_has_its_own(shape, action, events_of, told):
    heard = told()
    for event in events_of(**shape):
        heard.tell(event)
    assert heard.open() == [action]


@pytest.mark.slow
def test_a_healthy_job_has_none(events_of, told):
    heard = told()
    for event in events_of(steps=200):
        heard.tell(event)
    heard.conclude()
    assert heard.said == []


@pytest.mark.slow
def test_a_suggestion_comes_with_the_confirmation(events_of, told):
    """In a demo of a minute and a half nobody waits for the next window."""
    heard = told()
    for event in events_of("gc:rank=3,from=40", ranks=8):
        said = heard.tell(event)
        if getattr(event, "state", "") == "confirmed":
            break
    assert [one.state for one in said] == ["new"]


@pytest.mark.slow
def test_what_is_accepted_is_seen_to_be_done_and_measured(events_of, told):
    """The fault ends after somebody accepted: before and after are the step times."""
    heard = told(decide="accept")
    for event in events_of("compute:rank=3,size=0.5,from=60,to=140", steps=300):
        heard.tell(event)
    states = [state for _, state in heard.states()]
    assert states[:2] == ["new", "accepted"]
    assert states[-2:] == ["applied", "verified"]
    effect = heard.said[-1].effect
    assert effect.unit == "s/step"
    assert effect.before == pytest.approx(0.73, abs=0.05)
    assert effect.after == pytest.approx(0.51, abs=0.03)


@pytest.mark.slow
def test_what_recovers_by_itself_is_withdrawn(events_of, told):
    heard = told()
    for event in events_of("compute:rank=3,size=0.5,from=60,to=140", steps=300):
        heard.tell(event)
    assert [state for _, state in heard.states()][-1] == "withdrawn"
    assert heard.open() == []


@pytest.mark.slow
def test_a_slow_rank_comes_with_the_lines_that_balance_its_job(events_of, told):
    """They are Python, and the names that they import are those that users import."""
    heard = told()
    for event in events_of("compute:rank=3,from=40", ranks=8):
        heard.tell(event)
    heard.conclude()
    (one,) = (one for one in heard.last().values() if one.state == "new")
    tree = ast.parse(one.manifest)
    imported = {
        (node.module, alias.name) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert imported == {("paceline.balance", name) for name in paceline.balance._LATER}
    assert "balancer.backward(loss)" in one.manifest
    assert "| balancer.backward(loss)" in page([one])
