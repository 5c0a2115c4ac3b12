"""What runtimes say of a GPU that hangs or cannot be used, and on Ascend of collectives that wait."""

import json

import pytest

from postmortem.deciding.decide import decide
from postmortem.reading.files import read

HUNG = "HW Exception by GPU node-4 (Agent handle: 0x{handle:x}) reason :GPU Hang\n"
AGENT = (
    "W0902 15:10:48.626000 810 torch/distributed/elastic/multiprocessing/api.py:900] Sending process 827 closing "
    "signal SIGTERM\nE0902 15:10:49.013000 810 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: "
    "-6) local_rank: 0 (pid: 825) of binary: /usr/bin/python\n"
)
WAITED = (
    "[rank{rank}]:[E902 15:10:28.85 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum=44, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, Timeout(ms)=600000) ran for 600013 "
    "milliseconds before timing out.\n"
)
RAISED = (
    '[rank{rank}]: Traceback (most recent call last):\n[rank{rank}]:   File "/src/train.py", line 93, in run\n'
    "[rank{rank}]:     torch.npu.synchronize()\n[rank{rank}]: RuntimeError: {text}\n"
)
SYNC = "npuSynchronizeDevice:torch_npu/csrc/core/npu/NPUStream.cpp:435 NPU function error: aclrtSynchronize, {code}"


def verdict(folder, **files):
    for name, text in files.items():
        (folder / f"{name}.log").write_text(text)
    return decide(read([str(folder)], 1 << 30).statements)


def test_a_gpu_that_hangs_ends_all_who_use_it_and_none_of_them_is_accused(tmp_path):
    """Each process says the same; the agent has seen the first of them abort."""
    found = verdict(tmp_path, job="".join(HUNG.format(handle=handle) for handle in range(4)) + AGENT)
    assert (found.kind, found.ranks, found.devices, found.sure) == ("device_fault", (), ("GPU node-4",), "likely")
    assert "GPU Hang" in found.cause


def test_behind_a_progress_bar_and_a_ranks_prefix_it_is_read_as_well(tmp_path):
    bar = " 41%|####      | 366/903 [5:15:39<6:53:09, 46.16s/it]"
    said = bar + HUNG.format(handle=1) + "[rank2]: " + HUNG.format(handle=2)
    found = verdict(tmp_path, job=said + WAITED.format(rank=0) + WAITED.format(rank=1))
    assert (found.kind, found.ranks, found.devices) == ("device_fault", (), ("GPU node-4",))
    assert found.victims == (0, 1, 2)


def test_a_rank_whose_own_access_was_the_fault_is_named_though_its_gpu_hung_of_it(tmp_path):
    said = "[rank3]: Memory access fault by GPU node-4 (Agent handle: 0x58) on address 0x7f. Reason: unknown.\n"
    found = verdict(tmp_path, job=said + "[rank1]: " + HUNG.format(handle=1) + "[rank3]: " + HUNG.format(handle=3))
    assert (found.kind, found.ranks, found.victims) == ("died", (3,), (1,))


def test_its_kernel_says_which_card_it_was(tmp_path):
    kernel = (
        "[Tue Sep  2 15:10:40 2025] amdgpu 0000:87:00.0: amdgpu: ring comp_1.1.0 timeout, signaled seq=5\n"
        "[Tue Sep  2 15:10:41 2025] amdgpu 0000:87:00.0: amdgpu: GPU reset begin!\n"
        "[Tue Sep  2 15:10:43 2025] amdgpu 0000:87:00.0: amdgpu: GPU reset(1) succeeded!\n"
    )
    for name, text in (("with", HUNG.format(handle=1) + AGENT), ("without", "")):
        folder = tmp_path / name
        folder.mkdir()
        found = verdict(folder, job=text or WAITED.format(rank=0), dmesg=kernel)
        assert (found.kind, found.devices) == ("device_fault", ("GPU 0000:87:00",))


def test_what_a_rank_raises_comes_before_its_drivers_reset(tmp_path):
    """The driver resets a GPU behind a program's own fault as well: alone it says less than the rank does."""
    kernel = "[Tue Sep  2 15:10:41 2025] amdgpu 0000:87:00.0: amdgpu: GPU reset begin!\n"
    raised = RAISED.format(rank=2, text="HIP error: an illegal memory access was encountered")
    found = verdict(tmp_path, job=raised + WAITED.format(rank=0), dmesg=kernel)
    assert (found.kind, found.ranks, found.victims) == ("died", (2,), (0,))


def test_a_reset_on_another_node_is_not_the_one_that_a_process_reports(tmp_path):
    kernel = "[Tue Sep  2 15:10:41 2025] amdgpu 0000:{pci}:00.0: amdgpu: GPU reset begin!\n"
    kernels = {"node-1.kernel": kernel.format(pci="87"), "node-2.kernel": kernel.format(pci="08")}
    found = verdict(tmp_path, **{"node-1": "[rank3]: " + HUNG.format(handle=1)}, **kernels)
    assert (found.kind, found.nodes, found.devices) == ("device_fault", ("node-1",), ("GPU 0000:87:00",))


@pytest.mark.parametrize(
    "line",
    [
        "xe 0000:2c:00.0: [drm] GT0: Engine reset: engine_class=ccs, logical_mask: 0x1, guc_id=3",
        "i915 0000:2c:00.0: [drm] GPU HANG: ecode 12:1:85dcfdfb, in python3 [4711]",
    ],
)
def test_a_reset_by_intels_driver_is_read_and_a_lost_device_is_its_ranks(tmp_path, line):
    kernel = f"[Tue Sep  2 15:10:41 2025] {line}\n"
    found = verdict(tmp_path, job=WAITED.format(rank=0), dmesg=kernel)
    assert (found.kind, found.devices, found.sure) == ("device_fault", ("GPU 0000:2c:00",), "likely")
    lost = RAISED.format(rank=2, text="level_zero backend failed with error: 20 (UR_RESULT_ERROR_DEVICE_LOST)")
    found = verdict(tmp_path, job=WAITED.format(rank=0) + lost, dmesg=kernel)
    assert (found.kind, found.ranks, found.victims) == ("died", (2,), (0,))
    assert "the device reported an error" in found.cause


def test_the_process_that_intels_driver_names_is_its_ranks(tmp_path):
    (tmp_path / "placed.json").write_text(json.dumps({"2": {"node": "node-1", "pid": 4711}}))
    kernel = "i915 0000:2c:00.0: [drm] GPU HANG: ecode 12:1:85dcfdfb, in python3 [4711]\n"
    found = verdict(tmp_path, job=WAITED.format(rank=0), dmesg=kernel)
    assert (found.kind, found.ranks, found.victims) == ("device_fault", (2,), (0,))


def test_a_reset_of_a_gpu_that_the_job_does_not_use_explains_nothing(tmp_path):
    """The node's own display hangs now and then: the driver names its process. Else exits say more."""
    hang = "[Tue Sep  2 15:10:41 2025] i915 0000:00:02.0: [drm] GPU HANG: ecode 12:1:85dcfdfb{}\n"
    killed = "srun: error: node-1: task 3: Killed\n"
    for process in (", in Xorg [1812]", ""):
        found = verdict(tmp_path, job=WAITED.format(rank=0) + killed, dmesg=hang.format(process))
        assert (found.kind, found.ranks) == ("died", (3,))
    found = verdict(tmp_path, job=WAITED.format(rank=0), dmesg=hang.format(", in Xorg [1812]"))
    assert found.kind != "device_fault"


def test_a_card_that_left_the_bus_is_a_fault_of_the_device(tmp_path):
    kernel = "[Tue Sep  2 15:10:40 2025] amdgpu 0000:08:00.0: amdgpu: device lost from bus!\n"
    found = verdict(tmp_path, job=WAITED.format(rank=0), dmesg=kernel)
    assert (found.kind, found.devices, found.sure) == ("device_fault", ("GPU 0000:08:00",), "certain")
    assert "a fall off the bus" in found.cause


@pytest.mark.parametrize(
    "line",
    [
        ":0:rocdevice.cpp :3587: 99 us:  Callback: Queue 0x7e6a7d80 aborting with error : {error}: why. code: 0x29",
        ":0:rocdevice.cpp :3603: 15 us:  Callback: Queue 0x7f3dd800 Aborting with error : {error}: why. Code: 0x29",
        ":0:rocdevice.cpp :2594: 30 us: 39: [tid:0x7f71] Device::callbackQueue aborting with error : {error}: why.",
    ],
)
def test_a_queue_that_aborts_is_an_error_of_that_ranks_device(tmp_path, line):
    """In the words of several versions of ROCm."""
    said = "[rank3]: " + line.format(error="HSA_STATUS_ERROR_MEMORY_APERTURE_VIOLATION") + "\n"
    found = verdict(tmp_path, job=said + WAITED.format(rank=0))
    assert (found.kind, found.ranks) == ("died", (3,))
    assert "HSA_STATUS_ERROR_MEMORY_APERTURE_VIOLATION" in found.cause


@pytest.mark.parametrize(
    "text",
    [
        SYNC.format(code="error code is 507046"),
        SYNC.format(code="error code is 507048"),
        "NPUStream.cpp:370 NPU error, error code is 107020.",
        "torch_npu/csrc/framework/OpParamMaker.cpp:281 OPS function error: HcclAllreduce, error code is 6",
        "[ERROR] HCCL error in: torch_npu/csrc/distributed/ProcessGroupHCCL.cpp:64",
    ],
)
def test_who_waited_on_ascend_is_not_accused(tmp_path, text):
    """Its exception says that a collective came to nothing: the reason is another rank's."""
    found = verdict(tmp_path, job=RAISED.format(rank=7, text=text))
    assert found.ranks == ()
    assert 7 in found.victims


def test_beside_one_who_waited_on_ascend_the_one_that_failed_is_named(tmp_path):
    job = RAISED.format(rank=7, text=SYNC.format(code="error code is 507048"))
    found = verdict(
        tmp_path, job=job + RAISED.format(rank=2, text="NPU out of memory. Tried to allocate 2.00 GiB (NPU 2)")
    )
    assert (found.kind, found.ranks, found.victims) == ("died", (2,), (7,))
    assert "out of device memory (RuntimeError: 2.00 GiB)" in found.cause


def test_another_error_of_an_npu_is_its_ranks_own(tmp_path):
    found = verdict(tmp_path, job=RAISED.format(rank=7, text=SYNC.format(code="error code is 507015")))
    assert (found.kind, found.ranks) == ("died", (7,))


def test_who_raises_in_a_collective_of_a_library_that_is_not_known_is_not_surely_the_first(tmp_path):
    """Its words may mean that a peer is gone; what a call refuses of its own rank is that rank's."""
    frame = '[rank7]:   File "/x/site-packages/torch/distributed/distributed_c10d.py", line 4632, in barrier\n'
    words = "oneCCL: atl_ofi.cpp:1101 wait: EXCEPTION: fi_cq_read failed"
    for error, sure in (("RuntimeError", "unsure"), ("ValueError", "certain")):
        raised = RAISED.format(rank=7, text=words).replace("[rank7]: RuntimeError", f"{frame}[rank7]: {error}")
        found = verdict(tmp_path, job=raised + WAITED.format(rank=0))
        assert (found.kind, found.ranks, found.sure) == ("died", (7,), sure)
        assert ("a collective raised it" in found.cause) == (sure == "unsure")


CUDA = (
    '[rank{rank}]: Traceback (most recent call last):\n[rank{rank}]:   File "/src/train.py", line 37, in main\n'
    "[rank{rank}]: torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:77, unhandled cuda error (run with "
    "NCCL_DEBUG=INFO for details), NCCL version 2.29.2\n[rank{rank}]: ncclUnhandledCudaError: Call to CUDA function "
    "failed.\n[rank{rank}]: Last error:\n[rank{rank}]: Cuda failure {text}\n"
)


@pytest.mark.parametrize(
    "text", ["3 'initialization error'", "'peer access is not supported between these two devices'"]
)
def test_a_rank_that_cannot_use_its_gpu_is_named_by_nccls_last_error(tmp_path, text):
    found = verdict(tmp_path, job=CUDA.format(rank=1, text=text) + WAITED.format(rank=0))
    assert (found.kind, found.ranks, found.victims, found.sure) == ("died", (1,), (0,), "likely")
    assert text.rpartition("'")[0].rpartition("'")[2] in found.cause


def test_where_no_rank_can_it_is_the_nodes(tmp_path):
    """As without the fabric manager, which GPUs that are joined by switches need."""
    job = "".join(CUDA.format(rank=rank, text="802 'system not yet initialized'") for rank in range(4))
    found = verdict(tmp_path, job=job)
    assert (found.ranks, found.victims) == ((), (0, 1, 2, 3))
    assert "the nodes' or the program's" in found.cause
    assert "nvidia-smi -q" in found.next


def test_what_nccl_warns_of_while_it_goes_on_is_no_error(tmp_path):
    warned = "node-1:4711:4711 [1] misc/cudawrap.cc:36 NCCL WARN Cuda failure 3 'initialization error'\n"
    found = verdict(tmp_path, job=warned + WAITED.format(rank=0))
    assert "could not be used" not in found.cause


def test_an_exception_of_another_rank_is_as_likely(tmp_path):
    other = (
        '[rank0]: Traceback (most recent call last):\n[rank0]:   File "/src/train.py", line 5, in main\n[rank0]: {}\n'
    )
    job = CUDA.format(rank=1, text="3 'initialization error'") + other.format("ValueError: bad config")
    found = verdict(tmp_path, job=job)
    assert (found.ranks, found.sure) == ((0, 1), "unsure")


@pytest.mark.parametrize(
    "text", ["205 'mapping of buffer object failed'", "1 'invalid argument'", "999 'unknown error'"]
)
def test_what_may_follow_from_a_peer_that_is_gone_accuses_nobody(tmp_path, text):
    job = CUDA.format(rank=0, text=text) + "srun: error: node-1: task 1: Killed\n"
    found = verdict(tmp_path, job=job)
    assert (found.kind, found.ranks, found.victims) == ("died", (1,), (0,))
