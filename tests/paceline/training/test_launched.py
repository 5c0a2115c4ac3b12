"""Who a process says it is where mpirun, srun or Horovod have started it, and which of them are ranks."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

#: A loop with a communicator of its own, as mpi4py or JAX have: the script tells of its steps.
TOLD = """
from paceline import training
with training.watch():
    for _ in range(3):
        with training.phase("forward"):
            sum(range(20000))
        training.step()
"""
STEPPED = """
import sys
if "horovod" in sys.argv:
    import horovod.torch
import torch
from paceline import training
weight = torch.nn.Parameter(torch.ones(4))
optimizer = torch.optim.SGD([weight], lr=0.1)
with training.watch():
    for _ in range(5):
        (weight * 2).sum().backward()
        optimizer.step()
"""
MPIRUN = {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}
MPIRUN |= {"PMIX_NAMESPACE": "77"}
#: What Slurm says to Open MPI's daemon on the second node.
DAEMON = {"SLURM_JOB_ID": "9", "SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2", "SLURM_LOCALID": "0"}
HOROVOD = {"HOROVOD_RANK": "1", "HOROVOD_SIZE": "2", "HOROVOD_LOCAL_RANK": "0"}


@pytest.mark.parametrize(
    ("environ", "job", "who"),
    [(MPIRUN, "mpi-77", (3, 4, 1)), (MPIRUN | DAEMON, "9", (3, 4, 1)), (HOROVOD, "", (1, 2, 0)), ({}, "", (0, 1, 0))],
    ids=["mpirun", "mpirun in Slurm", "Horovod", "alone"],
)
def test_who_tells_of_its_steps_is_a_rank_by_its_launcher(
    new_listener: Callable[[], Any], environ: dict[str, str], job: str, who: tuple[int, int, int]
) -> None:
    listener = new_listener()
    done = listener.run("-c", TOLD, environ=environ)
    assert (done.returncode, done.stderr) == (0, "")
    (heard,) = listener.heard
    hello = heard.hello
    assert (hello.rank, hello.world_size, hello.local_rank) == who
    assert hello.job == job
    assert len(heard.steps()) == 3


def test_several_that_train_apart_are_no_ranks_of_one_job(new_listener: Callable[[], Any]) -> None:
    """As the trials of a search for hyperparameters do, that one srun starts: they would be taken for each other."""
    listener = new_listener()
    environ = {"SLURM_JOB_ID": "9", "SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"}
    done = listener.run("-c", STEPPED, environ=environ)
    assert (done.returncode, done.stderr) == (0, "")
    assert listener.heard == []


TORCHRUN = {"RANK": "1", "WORLD_SIZE": "3", "LOCAL_RANK": "1", "TORCHELASTIC_RUN_ID": "none"}
#: A rank that starts another training, in its own environment.
STARTS = (
    STEPPED
    + """
import subprocess
if "child" not in sys.argv:
    subprocess.run([sys.executable, "-c", sys.argv[1], sys.argv[1], "child"], check=True)
"""
)
#: It steps before it joins a group of its own, as a rank that looks for a learning rate does.
JOINS = (
    STEPPED
    + """
    import os, socket
    import torch.distributed as dist
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=0, world_size=1)
    for _ in range(4):
        (weight * 2).sum().backward()
        optimizer.step()
    dist.destroy_process_group()
"""
)


def test_torchruns_ranks_are_ranks_whether_they_join_a_group_or_not(new_listener: Callable[[], Any]) -> None:
    """They are one job's; what does not communicate is said of it by who compares them."""
    listener = new_listener()
    done = listener.run("-c", STEPPED, environ=TORCHRUN)
    assert (done.returncode, done.stderr) == (0, "")
    (heard,) = listener.heard
    assert (heard.hello.rank, heard.hello.world_size, heard.hello.local_rank) == (1, 3, 1)
    assert len(heard.steps()) >= 4


def test_what_a_rank_of_torchruns_starts_is_no_rank(new_listener: Callable[[], Any]) -> None:
    """It has the same environment, and the same number."""
    listener = new_listener()
    done = listener.run("-c", STARTS, STARTS, environ=TORCHRUN)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(listener.heard) == 1


def test_steps_before_a_group_is_joined_are_not_counted_with_those_after(new_listener: Callable[[], Any]) -> None:
    """Other ranks may have none of them: from there on all count the same steps."""
    listener = new_listener()
    done = listener.run("-c", JOINS, environ=TORCHRUN | {"RANK": "0"})
    assert (done.returncode, done.stderr) == (0, "")
    alone, joined = listener.heard
    assert joined.hello.backend == "gloo"
    assert {row.step for row in alone.rows} == set(range(5))
    assert {row.step for row in joined.rows} == set(range(4))


def test_horovods_ranks_join_no_group_and_are_ranks(new_listener: Callable[[], Any], tmp_path: Path) -> None:
    """Only its name is here: Horovod itself is built where it runs."""
    (tmp_path / "horovod").mkdir()
    (tmp_path / "horovod" / "__init__.py").touch()
    (tmp_path / "horovod" / "torch.py").touch()
    listener = new_listener()
    done = listener.run("-c", STEPPED, "horovod", environ=HOROVOD | {"PYTHONPATH": str(tmp_path)})
    assert (done.returncode, done.stderr) == (0, "")
    (heard,) = listener.heard
    assert (heard.hello.rank, heard.hello.world_size) == (1, 2)
    assert len(heard.steps()) >= 4
