"""What is suggested where a job stands still: what the stream found of it, or `paceline why`."""

from typing import Any

import pytest

from paceline.events import JobDescribed, RankPlace

NODES = ("gpu-0", "gpu-1")
HANG: dict[str, Any] = {"cause": "unknown", "severity": "critical", "cost": {"lost_s": 0.0, "gpu_hours": 0.0,
                        "throughput_lost_ratio": 0.0}}  # fmt: skip


def described(node: str, **changes: Any) -> JobDescribed:
    """The job as one of its nodes describes it."""
    first = 4 * NODES.index(node)
    return JobDescribed(
        cluster="c", producer=node, sequence=0, job="llama", attempt=0, node=node, world_size=8, backend="nccl",
        framework="torch", started_s=1.8e9, batch_size=64, labels={"slurm_user": "ada"},
        places=[
            RankPlace(rank=first + local, local_rank=local, node=node, device=f"cuda:{local}", pid=100 + local)
            for local in range(4)
        ],
        **changes,
    )  # fmt: skip


@pytest.fixture
def heard(told):
    """An advice that knows where the ranks of a job run, and in which processes."""
    heard = told()
    for node in NODES:
        heard.tell(described(node))
    return heard


@pytest.mark.parametrize(
    ("kind", "changes", "action", "target", "commands"),
    [
        ("hang", {}, "restart_job", "job:llama", ["ssh gpu-0 'py-spy dump --pid 103'"]),
        ("collective_mismatch", {}, "inspect_job", "job:llama", ["ssh gpu-0 'py-spy dump --pid 103'"]),
        (
            "order_deadlock",
            {"ranks": [], "victims": [1, 4]},
            "inspect_job",
            "job:llama",
            ["ssh gpu-0 'py-spy dump --pid 101'", "ssh gpu-1 'py-spy dump --pid 100'"],
        ),
        ("network", {"ranks": [], "nodes": ["gpu-1"]}, "inspect_node", "node:gpu-1", ["ssh gpu-1 'ip -s link'"]),
        ("network", {"ranks": [], "nodes": []}, "inspect_node", "job:llama", []),
        ("waiting", {"severity": "info"}, "inspect_job", "job:llama", []),
    ],
)
def test_each_kind_says_what_to_do_where(heard, make_finding, kind, changes, action, target, commands):
    """With the node and the process of those accused; of those who wait, where nobody is."""
    (one,) = heard.tell(make_finding(kind, **HANG | changes))
    assert (one.action, one.target) == (action, target)
    assert one.apply[: len(commands)] == commands
    assert bool(one.apply) == bool(commands)
    assert one.steps


@pytest.mark.parametrize("kind", ["hang", "collective_mismatch", "order_deadlock", "network"])
def test_the_finding_s_own_next_step_comes_first(heard, make_finding, kind):
    """It knows the process: a stopped one is continued."""
    (one,) = heard.tell(make_finding(kind, **HANG, next="kill -CONT 4121 on node gpu-0"))
    assert one.steps[0] == "Next: kill -CONT 4121 on node gpu-0"


def test_a_next_step_from_outside_becomes_no_command_and_no_second_line(heard, make_finding):
    """It is text, of any length, from whoever may send findings."""
    (one,) = heard.tell(make_finding("hang", **HANG, next="look\n\x1b[2J; reboot" + "x" * 5000))
    assert one.steps[0].isprintable()
    assert len(one.steps[0]) < 400
    assert not any("reboot" in command for command in one.apply)


@pytest.mark.parametrize("kind", ["collective_mismatch", "order_deadlock", "waiting"])
def test_what_is_to_be_changed_in_the_code_is_for_the_next_run(heard, make_finding, kind):
    """The job has ended: `paceline why` is asked afterwards, mostly."""
    (one,) = heard.tell(make_finding(kind, **HANG))
    revised = [said for node in NODES for said in heard.tell(described(node, ended_s=1.8e9 + 60.0))]
    assert [(said.id, said.state, said.title) for said in revised] == [(one.id, "new", f"Next run: {one.title}")]
