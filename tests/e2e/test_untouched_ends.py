"""However a training process ends, its exit status and what it prints are as without Paceline."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S

SCRIPT = Path(__file__).parent / "scripts" / "ending.py"
RUN = [sys.executable, "-m", "paceline", "run", "--brokers", "none", "--record"]

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("pytorch")]


def ended(case, folder, before=()):
    """Exit status and both outputs of the script, and whether Paceline was in it; ``before``: what runs it."""
    folder.mkdir()
    out, err = folder / "out", folder / "err"
    script = shlex.join([sys.executable, str(SCRIPT), case, str(folder / "store")])
    command = [*before, "sh", "-c", f"exec {script} >{shlex.quote(str(out))} 2>{shlex.quote(str(err))}"]
    environ = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environ, capture_output=True, timeout=PATIENCE_S)
    return done.returncode, out.read_bytes(), err.read_bytes(), (folder / "store.timed").read_text()


@pytest.mark.parametrize(
    ("case", "word"),
    [
        ("exception", b"ValueError: user:secret@host"),
        ("thread", b"Exception in thread reader"),
        ("hook", b"own hook: ValueError bad"),
        ("status", b"loss 2"),
        ("words", b"no data"),
        ("kill", b"loss 2"),
        ("segfault", b"loss 2"),
        ("none", b"loss 2"),
    ],
)
def test_status_and_output_are_the_same_byte_for_byte(tmp_path, case, word):
    plain = ended(case, tmp_path / "plain")
    timed = ended(case, tmp_path / "timed", [*RUN, str(tmp_path / "run.jsonl"), "--"])
    # A shell, and whoever runs another program, ends with 128 + N where signal N ended that.
    assert timed[0] == (plain[0] if plain[0] >= 0 else 128 - plain[0])
    assert timed[1:3] == plain[1:3]
    assert word in plain[2], "the script came to its end"
    assert (plain[3], timed[3]) == ("False", "True")
