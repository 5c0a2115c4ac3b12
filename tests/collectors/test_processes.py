import os
import pwd

import pynvml
import pytest

from collectors.processes import ProcessOwners, identity, processes

#: How the paths of NVIDIA's device files begin.
NVIDIA = ("/dev/nvidia",)
USER = pwd.getpwuid(os.getuid()).pw_name


@pytest.fixture
def proc(tmp_path):
    """Writes a process into a tree like /proc."""

    def write(pid, environ=(), gpu=True, born=1):
        folder = tmp_path / str(pid)
        (folder / "fd").mkdir(parents=True, exist_ok=True)
        (folder / "comm").write_text("python3\n")
        (folder / "stat").write_text(f"{pid} (a ) b) S " + " ".join(["0"] * 18) + f" {born} 0\n")
        (folder / "environ").write_bytes(b"\0".join(entry.encode() for entry in environ) + b"\0")
        link = folder / "fd" / "3"
        link.unlink(missing_ok=True)
        link.symlink_to("/dev/nvidia0" if gpu else "/dev/null")

    write.root = tmp_path
    return write


def owner(proc, pid):
    return ProcessOwners(proc.root).of(pid, NVIDIA, lambda pid: "from NVML")


def test_a_process_belongs_to_the_job_it_names(proc):
    """Job, rank, user and name come from the process itself."""
    proc(7, ["PACELINE_JOB=llm", "RANK=3", "SECRET=x"])

    assert owner(proc, 7) == ("python3", USER, "llm", 3)


def test_a_process_without_a_gpu_open_claims_no_job(proc):
    """A process number from another namespace meets a stranger here: no job is claimed for it."""
    proc(7, ["PACELINE_JOB=llm", "RANK=3"], gpu=False)

    assert owner(proc, 7)[2:] == (None, None)


def test_a_process_that_is_not_here_keeps_nvmls_name(proc):
    """A process that /proc does not show has the name that NVML gives and nothing else."""
    assert owner(proc, 4711) == ("from NVML", None, None, None)


def test_a_reused_process_number_is_looked_up_again(proc):
    """Another process under the same number is another process."""
    owners = ProcessOwners(proc.root)
    proc(7, ["PACELINE_JOB=first"], born=1)
    first = owners.of(7, NVIDIA, str).job
    proc(7, ["PACELINE_JOB=second"], born=2)

    assert (first, owners.of(7, NVIDIA, str).job) == ("first", "second")


def test_a_known_process_is_not_read_again(proc):
    """The environment of a process is read once in its life."""
    owners = ProcessOwners(proc.root)
    proc(7, ["PACELINE_JOB=llm"])
    owners.of(7, NVIDIA, str)
    (proc.root / "7" / "environ").unlink()

    assert owners.of(7, NVIDIA, str).job == "llm"


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"SLURM_JOB_ID": "12", "SLURM_PROCID": "5"}, ("12", 5)),
        ({"TORCHELASTIC_RUN_ID": "none", "PACELINE_JOB_FALLBACK": "train-1", "RANK": "0"}, ("train-1", 0)),
        ({"PMIX_NAMESPACE": "9", "OMPI_COMM_WORLD_RANK": "3"}, ("mpi-9", 3)),
        ({"SLURM_JOB_ID": "12", "SLURM_PROCID": "1", "OMPI_COMM_WORLD_RANK": "3"}, ("12", 3)),
        ({"RANK": "2"}, (None, None)),
        ({"PACELINE_JOB": "a", "RANK": "-1"}, ("a", None)),
        ({"PACELINE_JOB": "a", "RANK": "many"}, ("a", None)),
        ({"PACELINE_JOB": "a", "RANK": "9" * 30}, ("a", None)),
    ],
)
def test_identity(environ, expected):
    """The job is named as everywhere in Paceline; a rank without a job, or no number, is none."""
    assert identity(environ) == expected


def test_processes_name_their_device_by_place(proc, nvml, gpus):
    """A process on the second GPU points at the second UUID; memory that NVML does not tell is None."""
    proc(7, ["PACELINE_JOB=llm", "RANK=1"])
    nvml.gpus[1].processes = [(7, None)]
    (found,), why = processes(gpus.driver, gpus.devices, ProcessOwners(proc.root))

    assert (found.device, found.pid, found.used_bytes, found.job, found.rank) == (1, 7, None, "llm", 1)
    assert why == {}


def test_a_device_that_hides_its_processes_says_so(nvml, gpus, proc):
    """No permission on one GPU is a reason for that GPU; the other's processes are there."""
    nvml.gpus[0].refuse["nvmlDeviceGetComputeRunningProcesses"] = pynvml.NVML_ERROR_NO_PERMISSION
    nvml.gpus[1].processes = [(7, 1024)]
    found, why = processes(gpus.driver, gpus.devices, ProcessOwners(proc.root))

    assert ([process.pid for process in found], why) == ([7], {"processes[0]": "no permission"})


def test_a_driver_without_the_newest_call_is_asked_by_the_one_before(nvml, gpus, proc):
    """As R470, which the binding answers for with an error that is not NVML's own."""
    for gpu in nvml.gpus:
        gpu.refuse["nvmlDeviceGetComputeRunningProcesses"] = pynvml.NVML_ERROR_FUNCTION_NOT_FOUND
    nvml.gpus[1].processes = [(7, 1024)]
    found, why = processes(gpus.driver, gpus.devices, ProcessOwners(proc.root))

    assert ([(process.device, process.pid) for process in found], why) == ([(1, 7)], {})


def test_a_library_that_does_not_fit_the_driver_is_a_reason(nvml, gpus, proc):
    """The binding's own error for it costs the processes of that GPU and nothing else."""

    @pynvml.throwOnVersionMismatch
    def unversioned(handle):
        raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)

    nvml.nvmlDeviceGetComputeRunningProcesses = nvml.nvmlDeviceGetComputeRunningProcesses_v2 = unversioned

    assert processes(gpus.driver, gpus.devices, ProcessOwners(proc.root)) == (
        [],
        {f"processes[{index}]": "not known to this driver" for index in range(2)},
    )
