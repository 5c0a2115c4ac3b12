"""Folders that torchrun makes for the output of its workers: their numbers are local ranks, and seldom ranks."""

import pytest

from postmortem.deciding.decide import decide
from postmortem.reading.files import read

RAISED = (
    '{0}Traceback (most recent call last):\n{0}  File "/app/train.py", line 10, in step\n{0}ValueError: bad label\n'
)
LOST = "RuntimeError: [/g/gloo/transport/tcp/pair.cc:561] Connection closed by peer [10.0.0.2]:1234.\n"
#: Node gpu-b has ranks 4 to 7.
TABLE = """\
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-11-20_09:00:00
  host      : gpu-b
  rank      : 5 (local_rank: 1)
  exitcode  : 1 (pid: 4122)
  error_file: <N/A>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-20_09:00:00
  host      : gpu-b
  rank      : 4 (local_rank: 0)
  exitcode  : 1 (pid: 4121)
  error_file: <N/A>
============================================================
"""


def verdict(folder, **files):
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path = path.with_name(path.name + ".log")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return decide(read([str(folder)], 1 << 30).statements)


def test_a_local_rank_is_no_rank(tmp_path):
    found = verdict(tmp_path, x__attempt_0__0__stderr=LOST, x__attempt_0__1__stderr=RAISED.format(""))
    assert (found.ranks, found.line, found.sure) == ((), "/app/train.py:10 step", "unsure")
    assert "local rank 1 of its node" in found.cause


def test_the_rank_in_a_line_of_the_file_is_the_rank(tmp_path):
    own = "[rank5]:[W1120 09:00:00.1 ProcessGroupGloo.cpp:1] gloo\n" + RAISED.format("")
    found = verdict(tmp_path, x__attempt_0__0__stderr=LOST, x__attempt_0__1__stderr=own)
    assert found.ranks == (5,)


@pytest.mark.parametrize(("folder", "ranks"), [("gpu-b", (5,)), ("gpu-a", ()), ("logs", ())])
def test_a_table_says_the_rank_only_of_the_folder_of_its_node(tmp_path, folder, ranks):
    """Another node's local rank 1 is another rank."""
    files = {f"{folder}__attempt_0__1__stderr": RAISED.format(""), "agent": TABLE}
    found = verdict(tmp_path, **files)
    assert found.ranks == ranks


def test_two_ranks_in_one_file_leave_it_unknown(tmp_path):
    own = "[rank5]: step\n[rank6]: step\n" + RAISED.format("")
    assert verdict(tmp_path, x__attempt_0__1__stderr=own).ranks == ()


def test_a_folder_that_only_looks_alike_has_no_local_rank(tmp_path):
    found = verdict(tmp_path, x__1__stderr=RAISED.format(""))
    assert "the log does not say whose it is" in found.cause
