"""Which rank of how many, by what torchrun, Horovod, MPI and Slurm put into the environment."""

import pytest

from paceline.launchers import Launched, launched, own_local_rank, spans_nodes, tasks_here

TORCHRUN = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}
HOROVOD = {"HOROVOD_RANK": "2", "HOROVOD_SIZE": "4", "HOROVOD_LOCAL_RANK": "0", "HOROVOD_HOSTNAME": "n2"}
OMPI = {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}
HYDRA = {"PMI_RANK": "3", "PMI_SIZE": "4", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "1"}
SRUN = {"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "4", "SLURM_LOCALID": "0", "SLURM_NTASKS": "4"}
#: What Slurm says to a rank of mpirun: where Open MPI's and MPICH's daemons are, a task a node (seen with Slurm 22.05).
DAEMON = {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2", "SLURM_LOCALID": "0"}
#: A batch script without srun, of a job with four tasks.
BATCH = {"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_LOCALID": "0"}


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, None),
        (TORCHRUN, Launched(5, 8, 1)),
        (HOROVOD, Launched(2, 4, 0)),
        (OMPI, Launched(3, 4, 1)),
        (HYDRA, Launched(3, 4, 0)),
        (SRUN, Launched(3, 4, 0)),
        (BATCH, Launched(0, 1, 0)),
        (OMPI | DAEMON, Launched(3, 4, 1)),
        (HYDRA | DAEMON, Launched(3, 4, 0)),
        (TORCHRUN | OMPI | DAEMON, Launched(5, 8, 1)),
        (HOROVOD | OMPI, Launched(2, 4, 0)),
        (SRUN | {"PMI_RANK": "3", "PMI_SIZE": "4"}, Launched(3, 4, 0)),
        (SRUN | {"RANK": "3", "WORLD_SIZE": "4", "SLURM_LOCALID": "1"}, Launched(3, 4, 1)),
        (DAEMON | {"PMI_RANK": "3", "PMI_SIZE": "4"}, Launched(3, 4, None)),
    ],
)
def test_the_innermost_launcher_says_who_this_is(environ: dict[str, str], expected: Launched | None) -> None:
    """Its numbers are taken together: none is completed but by a launcher that gives the same rank of as many."""
    assert launched(environ) == expected


@pytest.mark.parametrize("nonsense", ["-1", str(2**70), str(2**20), "two", "", "1.0", " 1", "٣"])
def test_a_rank_that_is_no_number_is_none(nonsense: str) -> None:
    """The launcher around it is asked then; where there is none, nobody is launched."""
    assert launched({"RANK": nonsense, "WORLD_SIZE": "4"}) is None
    assert launched({"RANK": nonsense} | OMPI) == Launched(3, 4, 1)


@pytest.mark.parametrize("nonsense", ["-1", str(2**70), "two", ""])
def test_a_world_that_is_no_number_is_as_large_as_the_rank_says(nonsense: str) -> None:
    assert launched(OMPI | {"OMPI_COMM_WORLD_SIZE": nonsense}) == Launched(3, 4, 1)
    assert launched({"RANK": "7", "WORLD_SIZE": nonsense}) == Launched(7, 8, None)


@pytest.mark.parametrize(
    ("environ", "local"),
    [({}, 0), (TORCHRUN, 1), (OMPI, 1), (BATCH, 0), ({"LOCAL_RANK": "3"}, 3), ({"RANK": "7"}, 0)],
)
def test_the_place_on_the_node_is_the_first_where_nothing_tells(environ: dict[str, str], local: int) -> None:
    assert own_local_rank(environ) == local


@pytest.mark.parametrize(
    ("environ", "tasks"),
    [
        ({}, 1),
        (TORCHRUN, 4),
        (HYDRA | {"MPI_LOCALNRANKS": "3"} | DAEMON, 3),
        (OMPI, 1),
        (BATCH, 1),
        (SRUN | {"SLURM_NODEID": "0", "SLURM_STEP_TASKS_PER_NODE": "3,1"}, 3),
        (SRUN | {"SLURM_NODEID": "1", "SLURM_STEP_TASKS_PER_NODE": "3,1"}, 1),
        (SRUN | {"SLURM_NODEID": "1", "SLURM_STEP_TASKS_PER_NODE": "2(x2)"}, 2),
        (SRUN | {"SLURM_NODEID": "2", "SLURM_STEP_TASKS_PER_NODE": "2(x2)"}, 1),
        (SRUN | {"SLURM_STEP_TASKS_PER_NODE": "2(x2)"}, 1),
        (SRUN | {"PMI_RANK": "3", "PMI_SIZE": "4", "SLURM_NODEID": "1", "SLURM_STEP_TASKS_PER_NODE": "2(x2)"}, 2),
        (SRUN | {"SLURM_NODEID": "-1", "SLURM_STEP_TASKS_PER_NODE": "x(x,"}, 1),
    ],
)
def test_tasks_on_this_node_are_counted_where_the_launcher_tells(environ: dict[str, str], tasks: int) -> None:
    """One where it does not, or tells nonsense."""
    assert tasks_here(environ) == tasks


@pytest.mark.parametrize(
    ("environ", "several"),
    [
        ({}, False),
        (TORCHRUN, True),
        (TORCHRUN | {"LOCAL_WORLD_SIZE": "8"}, False),
        (HYDRA, True),
        (HYDRA | {"MPI_LOCALNRANKS": "4"}, False),
        (SRUN, False),
    ],
)
def test_a_job_is_on_several_nodes_where_not_all_of_its_ranks_are_here(environ: dict[str, str], several: bool) -> None:
    assert spans_nodes(environ) == several
