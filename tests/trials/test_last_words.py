"""What a training said at its end, without what torchrun says of it."""

import pytest

from trials.last_words import memory_said, without_torchrun

TORCHRUN = """\
W1125 13:51:00.100000 12 torch/distributed/run.py:851] Setting OMP_NUM_THREADS to 1
{own}W1125 13:51:05.101000 12 torch/distributed/elastic/api.py:1010] Sending process 14 closing signal SIGTERM
E1125 13:51:05.180000 12 torch/distributed/elastic/api.py:984] failed (exitcode: 1) local_rank: 0 (pid: 13)
Traceback (most recent call last):
  File "/bin/torchrun", line 8, in <module>
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
  exitcode  : 1 (pid: 13)
"""


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", "out of memory"),
        ("RuntimeError: DefaultCPUAllocator: can't allocate memory: you tried", "out of memory"),
        ("MemoryError", "out of memory"),
        ("terminate called after throwing an instance of 'std::bad_alloc'", "out of memory"),
        (
            "traceback : Signal 9 (SIGKILL) received by PID 4",
            "a rank was killed, out of the machine's memory most likely",
        ),
        ("traceback : Signal 11 (SIGSEGV) received by PID 4", ""),
        ("MyMemoryErrors: 0", ""),
        ("", ""),
    ],
)
def test_memory_in_an_output(output, said):
    """As PyTorch, C++ and torchrun say it."""
    assert memory_said(output) == said


def test_what_the_ranks_said_is_left():
    """Torchrun's warnings and its report are not the cause."""
    assert without_torchrun(TORCHRUN.format(own="[rank0]: KeyError: 'x'\n")) == "[rank0]: KeyError: 'x'\n"


@pytest.mark.parametrize("output", [TORCHRUN.format(own=""), "", "no torchrun\nat all"])
def test_where_nothing_else_was_said_all_stays(output):
    """Better than nothing."""
    assert without_torchrun(output) == output
