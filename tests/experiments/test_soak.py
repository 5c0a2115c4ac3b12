"""What `make soak` counts as left behind."""

import os
import signal
import subprocess
import sys
import uuid

import pytest

from experiments.soak.__main__ import MARK, left
from tests.patience import PATIENCE_S

#: A process that leaves its session and outlives its parent.
ESCAPES = "import os, time; os.fork() and os._exit(0); os.setsid(); time.sleep(1000)"


@pytest.mark.slow
def test_a_process_is_found_by_what_it_inherited():
    """Whatever its session, parent and command line say; once it has ended nothing is left."""
    mark = uuid.uuid4().hex
    assert left(mark, 0.0) == {}
    subprocess.run([sys.executable, "-c", ESCAPES], env={**os.environ, MARK: mark}, check=True)
    ((pid, line),) = left(mark, 0.0).items()
    assert ESCAPES in line
    os.kill(pid, signal.SIGKILL)
    assert left(mark, PATIENCE_S) == {}
