"""Which job, attempt and node the environment names."""

import pytest

from paceline.identity import attempt_of, job_of, labels_of, made_up, node_of

SLURM = {"SLURM_JOB_ID": "71"}
ARRAY = {"SLURM_JOB_ID": "73", "SLURM_ARRAY_JOB_ID": "70", "SLURM_ARRAY_TASK_ID": "3"}
TORCHRUN = {"TORCHELASTIC_RUN_ID": "r1"}
FALLBACK = {"PACELINE_JOB_FALLBACK": "made-up"}
TWO_NODES = {"MASTER_ADDR": "n1", "MASTER_PORT": "29500", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4"}


@pytest.mark.parametrize(
    ("environ", "job"),
    [
        ({}, ""),
        ({"PACELINE_JOB": "mine", **SLURM, **TORCHRUN}, "mine"),
        (SLURM | TORCHRUN, "71"),
        (ARRAY | TORCHRUN, "70_3"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "k8s.namespace.name=ml,k8s.job.name=bert", **TORCHRUN}, "ml.bert"),
        ({"KUBERNETES_JOB_NAME": "bert", "POD_NAMESPACE": "ml"}, "ml.bert"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "garbage,,=,k8s.job.name"}, ""),
        (TORCHRUN | FALLBACK, "r1"),
        ({"TORCHELASTIC_RUN_ID": "none", **FALLBACK}, "made-up"),
        ({"TORCHELASTIC_RUN_ID": "none", **TWO_NODES, **FALLBACK}, "n1-29500"),
        ({**TWO_NODES, "LOCAL_WORLD_SIZE": "8", **FALLBACK}, "made-up"),
        ({"PACELINE_JOB": "  ", **SLURM}, "71"),
    ],
)
def test_the_first_source_that_names_the_job_wins(environ: dict[str, str], job: str) -> None:
    """Own setting, Slurm, Kubernetes, torchrun, the meeting point of several nodes, the made-up name."""
    assert job_of(environ) == job


@pytest.mark.parametrize(
    ("environ", "attempt"),
    [
        ({}, 0),
        ({"SLURM_RESTART_COUNT": "2"}, 2),
        ({"TORCHELASTIC_RESTART_COUNT": "3"}, 3),
        ({"SLURM_RESTART_COUNT": "1", "TORCHELASTIC_RESTART_COUNT": "0"}, 1000),
        ({"SLURM_RESTART_COUNT": "-1"}, 0),
        ({"TORCHELASTIC_RESTART_COUNT": "x"}, 0),
    ],
)
def test_attempts_grow_over_requeues_and_restarts(environ: dict[str, str], attempt: int) -> None:
    """Two different attempts of a job never share a number; nonsense counts as the first."""
    assert attempt_of(environ) == attempt


@pytest.mark.parametrize(
    ("environ", "node"),
    [
        ({}, "host"),
        ({"NODE_NAME": "k8s"}, "k8s"),
        ({"SLURMD_NODENAME": "slurm", "NODE_NAME": "k8s"}, "slurm"),
        ({"PACELINE_NODE": "mine", "SLURMD_NODENAME": "slurm"}, "mine"),
    ],
)
def test_the_node_is_called_as_its_scheduler_calls_it(environ: dict[str, str], node: str) -> None:
    """So that timings and the collector's samples meet under one name."""
    assert node_of(environ, "host") == node


def test_labels_carry_what_schedulers_say_and_nothing_else() -> None:
    """Unknown variables stay at home, long values are cut."""
    labels = labels_of({"SLURM_JOB_NAME": "x" * 1000, "POD_NAMESPACE": "ml", "AWS_SECRET_ACCESS_KEY": "s"})
    assert labels == {"slurm_job_name": "x" * 200, "kubernetes_namespace": "ml"}


@pytest.mark.parametrize(
    ("address", "pattern", "switch"),
    [
        ("core.leaf2.node17", "switch.switch.node", "leaf2"),
        ("block3.node17", "block.node", "block3"),
        ("node17", "node", None),
        ("core.leaf2.node17", "switch.node", None),
        ("core.leaf2", "switch.switch", None),
        (".node17", "switch.node", None),
        ("s" * 999 + ".n", "switch.node", "s" * 200),
    ],
)
def test_the_switch_is_the_nearest_that_slurm_names(address: str, pattern: str, switch: str | None) -> None:
    """Where its topology plugin knows the network; what does not fit together names nothing."""
    labels = labels_of({"SLURM_TOPOLOGY_ADDR": address, "SLURM_TOPOLOGY_ADDR_PATTERN": pattern})
    assert labels.get("switch") == switch


@pytest.mark.parametrize("command", [["torchrun", "a b/träin.py", "x"], ["./run me"], [""], []])
def test_a_made_up_name_is_plain_text(command: list[str]) -> None:
    """It becomes part of keys and addresses: no slash, no blank."""
    name = made_up(command, 1.7e9, "ab12")
    assert name.endswith("-ab12")
    assert not set(name) & set(" /\n")
