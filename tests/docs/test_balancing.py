"""The script in docs/balancing.md runs as it stands on the page."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "balancing.md"


@pytest.mark.xdist_group("pytorch")
@pytest.mark.e2e
def test_the_script_of_the_page_trains_on_two_ranks(tmp_path: Path) -> None:
    """It tells a loss, and shares that make up the global batch."""
    script = tmp_path / "train.py"
    script.write_text(re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[0])
    command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script)]
    environ = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
        "OMP_NUM_THREADS": "1",
    }
    environ["XDG_STATE_HOME"] = str(tmp_path / "state")
    done = subprocess.run(
        [sys.executable, *command], env=environ, capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 0, done.stderr
    told = re.fullmatch(r"loss \d+\.\d+, samples a rank \((\d+), (\d+)\)\n", done.stdout)
    assert told is not None, done.stdout
    assert int(told[1]) + int(told[2]) == 256


def test_the_lines_that_are_added_are_those_of_every_place() -> None:
    """Whoever copies them from the page gets what suggestions show."""
    page = PAGE.read_text(encoding="utf-8")
    for line in (
        "sampler = BalancedSampler(dataset, global_batch=256, seed=0)",
        "balancer = balance(model, optimizer, sampler)",
        "balancer.backward(loss)",
    ):
        assert line in page
