"""What `make bench-idle` counts: every process of a stack, and its own time, from what the kernel says."""

import subprocess
import sys

import pytest

from experiments.idle.__main__ import told, used

#: A process that works, and its parent, which waits for it and does not.
PARENT = "import subprocess, sys; subprocess.run([sys.executable, '-Ic', 'while True: pass'])"


@pytest.mark.slow
def test_the_time_of_a_process_is_its_own(until):
    """It is told apart from that of its parent, which waits."""
    parent = subprocess.Popen([sys.executable, "-Ic", PARENT])
    try:
        until(lambda: len(used(parent.pid)) == 2)
        until(lambda: max(one.processor_s for one in used(parent.pid).values()) >= 1.0)
        found = {pid: one for (pid, _), one in used(parent.pid).items()}
        assert found[parent.pid].processor_s < 0.5
        assert all(one.memory > 2**20 for one in found.values())
    finally:
        subprocess.run(["pkill", "-P", str(parent.pid)], check=True)
        parent.wait()
    assert used(parent.pid) == {}


def test_the_largest_is_first_and_all_are_summed():
    machine = {"date": "2026-11-28", "processor": "x", "cores": 2, "python": "3.11.7", "load_before": 0.0}
    rounds = [("nothing", [("ui", 0.5, 60.0), ("broker", 3.25, 19.0)])]
    lines = told({"machine": machine, "quick": False, "took_s": 1.0, "rounds": rounds}).splitlines()[-3:]
    assert lines[0] == "| nothing | broker | 3.25 % | 19 MiB |"
    assert lines[-1].endswith("| 3.75 % | 79 MiB |")
