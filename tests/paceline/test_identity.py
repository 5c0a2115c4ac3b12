"""Which job, attempt and node the environment names."""

import pytest

from paceline.identity import attempt_of, job_of, labels_of, made_up, node_of

SLURM = {"SLURM_JOB_ID": "71"}
ARRAY = {"SLURM_JOB_ID": "73", "SLURM_ARRAY_JOB_ID": "70", "SLURM_ARRAY_TASK_ID": "3"}
TORCHRUN = {"TORCHELASTIC_RUN_ID": "r1"}
#: What `torchrun --standalone` passes on: a run id that it has made up.
STANDALONE = {"TORCHELASTIC_RUN_ID": "95a87e50-60b7-4fd3-8b94-87a4d2a57f4e", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "4"}
FALLBACK = {"PACELINE_JOB_FALLBACK": "made-up"}
MPIRUN = {"PMIX_NAMESPACE": "1478819841", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}
HYDRA = {"PMI_RANK": "3", "PMI_SIZE": "4", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "2"}
#: Rank 3, on node n2, of an ``mpiexec`` that was started on n1, in a Slurm allocation (seen with MPICH 4.0.2).
HYDRA_ON_N2 = HYDRA | {"SLURMD_NODENAME": "n1", "MPIR_CVAR_CH3_INTERFACE_HOSTNAME": "n2"}
#: A task of the second part of a heterogeneous job: all parts' tasks have the first one's number (Slurm 22.05).
HETEROGENEOUS = {"SLURM_JOB_ID": "4", "SLURM_JOB_ID_HET_GROUP_0": "4", "SLURM_JOB_ID_HET_GROUP_1": "5"}
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
        ({"KUBERNETES_JOB_NAME": "bert"}, "bert"),
        ({"KUBERNETES_JOB_NAME": "bert", "POD_NAMESPACE": "ml", "JOBSET_RESTART_ATTEMPT": "1"}, "ml.bert"),
        ({"KUBERNETES_JOB_NAME": "", "POD_NAMESPACE": "ml", **TORCHRUN}, "r1"),
        ({"KUBERNETES_JOB_NAME": "bert", "POD_NAMESPACE": "ml", **SLURM}, "71"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "garbage,,=,k8s.job.name"}, ""),
        (TORCHRUN | FALLBACK, "r1"),
        ({"TORCHELASTIC_RUN_ID": "none", **FALLBACK}, "made-up"),
        ({"TORCHELASTIC_RUN_ID": "none"}, ""),
        (STANDALONE | FALLBACK, "made-up"),
        (STANDALONE | FALLBACK | {"PACELINE_JOB": "mine"}, "mine"),
        (STANDALONE | SLURM, "71"),
        (STANDALONE, STANDALONE["TORCHELASTIC_RUN_ID"]),
        (STANDALONE | TWO_NODES | FALLBACK, STANDALONE["TORCHELASTIC_RUN_ID"]),
        ({"TORCHELASTIC_RUN_ID": "95a87e50-tuesday", **FALLBACK}, "95a87e50-tuesday"),
        ({"TORCHELASTIC_RUN_ID": "none", **TWO_NODES, **FALLBACK}, "n1-29500"),
        ({**TWO_NODES, "LOCAL_WORLD_SIZE": "8", **FALLBACK}, "made-up"),
        ({"PACELINE_JOB": "  ", **SLURM}, "71"),
        (HETEROGENEOUS, "4"),
        (MPIRUN | FALLBACK, "mpi-1478819841"),
        (MPIRUN | SLURM, "71"),
        (MPIRUN | {"MASTER_ADDR": "n1", "MASTER_PORT": "29500"}, "mpi-1478819841"),
        (MPIRUN | {"PMIX_NAMESPACE": "prterun-n1-77@1"}, "mpi-prterun-n1-77@1"),
        (MPIRUN | {"PMIX_NAMESPACE": " "} | FALLBACK, "made-up"),
        (HYDRA | FALLBACK, "made-up"),
        (HYDRA | {"MASTER_ADDR": "n1", "MASTER_PORT": "29500"} | FALLBACK, "n1-29500"),
        ({"RAY_JOB_ID": "02000000", **FALLBACK}, "ray-02000000"),
        ({"RAY_JOB_ID": "02000000", **TORCHRUN}, "r1"),
        ({"RAY_JOB_ID": "ffffffff", **FALLBACK}, ""),
        ({"RAY_JOB_ID": "ffffffff", **TORCHRUN}, "r1"),
        ({"RAY_JOB_ID": "ffffffff", **SLURM}, "71"),
    ],
)
def test_the_first_source_that_names_the_job_wins(environ: dict[str, str], job: str) -> None:
    """Own setting, Slurm, Kubernetes, torchrun, the meeting point of several nodes, MPI, Ray, the made-up name."""
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
        ({"JOBSET_RESTART_ATTEMPT": "2"}, 2),
        ({"JOBSET_RESTART_ATTEMPT": "1", "TORCHELASTIC_RESTART_COUNT": "4"}, 1004),
        ({"JOBSET_RESTART_ATTEMPT": "", "JOB_COMPLETION_INDEX": "3"}, 0),
        ({"JOBSET_RESTART_ATTEMPT": "9" * 5000}, 0),
        ({"SLURM_RESTART_COUNT": "1", "JOBSET_RESTART_ATTEMPT": "7"}, 1),
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
        (HYDRA_ON_N2, "n2"),
        (HYDRA_ON_N2 | {"MPIR_CVAR_CH3_INTERFACE_HOSTNAME": ""}, "n1"),
        (HYDRA | {"MPIR_CVAR_CH3_INTERFACE_HOSTNAME": "10.0.0.2"}, "host"),
    ],
)
def test_the_node_is_called_as_its_scheduler_calls_it(environ: dict[str, str], node: str) -> None:
    """So that timings and the collector's samples meet under one name."""
    assert node_of(environ, "host") == node


def test_labels_carry_what_schedulers_say_and_nothing_else() -> None:
    """Unknown variables stay at home, long values are cut."""
    labels = labels_of({"SLURM_JOB_NAME": "x" * 1000, "POD_NAMESPACE": "ml", "AWS_SECRET_ACCESS_KEY": "s"})
    assert labels == {"slurm_job_name": "x" * 200, "kubernetes_namespace": "ml"}


def test_labels_of_a_pod_say_where_it_is() -> None:
    """Pod, namespace, node and index; a NODE_NAME without a pod is some other program's."""
    pod = {"POD_NAME": "bert-w-1", "POD_NAMESPACE": "ml", "NODE_NAME": "gpu-7", "JOB_COMPLETION_INDEX": "1"}
    assert labels_of(pod) == {
        "kubernetes_pod": "bert-w-1",
        "kubernetes_namespace": "ml",
        "kubernetes_node": "gpu-7",
        "kubernetes_job_index": "1",
    }
    assert labels_of({"NODE_NAME": "agent-3"}) == {}


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


def test_a_switch_that_slurm_names_of_another_node_is_none() -> None:
    """Hydra's ranks on n2 have the topology of n1, where it was started."""
    topology = {"SLURM_TOPOLOGY_ADDR": "leaf1.n1", "SLURM_TOPOLOGY_ADDR_PATTERN": "switch.node"}
    assert labels_of({"SLURMD_NODENAME": "n1", **topology})["switch"] == "leaf1"
    assert "switch" not in labels_of(HYDRA_ON_N2 | topology)


@pytest.mark.parametrize(
    ("raw", "labels"),
    [
        ("5000", {"total_steps": "5000"}),
        ("", {}),
        ("0", {}),
        ("-1", {}),
        ("1e3", {}),
        ("9" * 5000, {}),
        ("many", {}),
    ],
)
def test_the_steps_that_a_job_means_to_take_are_a_label(raw: str, labels: dict[str, str]) -> None:
    """A number that cannot be is none: no rank fails for it."""
    assert labels_of({"PACELINE_TOTAL_STEPS": raw}) == labels


@pytest.mark.parametrize("command", [["torchrun", "a b/träin.py", "x"], ["./run me"], [""], []])
def test_a_made_up_name_is_plain_text(command: list[str]) -> None:
    """It becomes part of keys and addresses: no slash, no blank."""
    name = made_up(command, 1.7e9, "ab12")
    assert name.endswith("-ab12")
    assert not set(name) & set(" /\n")
