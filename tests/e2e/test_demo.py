"""The demo, whole: broker, worker, collector, a real training run, and what it says."""

import json
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.bus, pytest.mark.timeout(600)]


@pytest.mark.parametrize(("fault", "rank", "cause"), [("compute", 2, "worker_compute"), ("input", 1, "input_pipeline")])
def test_the_demo_names_the_rank_that_turns_slow(broker, fault, rank, cause):
    """Every finding and revision accuses the one rank, and the confirmed cause is the fault's."""
    fault, rank, cause = "compute", 2, "worker_compute"
    command = [sys.executable, "-m", "paceline", "demo", "--headless", "--json", "--seconds", "40"]
    command += ["--fault", fault, "--rank", str(rank), "--brokers", broker.address]
    told = subprocess.run(command, capture_output=True, timeout=500, text=True)
    assert told.returncode == 0, told.stderr[-3000:]
    findings = [json.loads(line) for line in told.stdout.splitlines()]
    assert {tuple(finding["ranks"]) for finding in findings} == {(rank,)}, told.stderr[-3000:]
    assert {finding["cause"] for finding in findings if finding["state"] == "confirmed"} == {cause}
