"""The demo, whole: broker, worker, collector, a real training run, and what it says."""

import json
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.training, pytest.mark.bus, pytest.mark.timeout(600)]


@pytest.mark.parametrize(
    ("kafka", "fault", "rank", "cause"),
    [(None, "compute", 2, "worker_compute"), ("apache_kafka", "input", 1, "input_pipeline")],
)
def test_the_demo_names_the_rank_that_turns_slow(request, kafka, fault, rank, cause):
    """On a broker of its own and on Apache Kafka every revision accuses the one rank, and the cause is the fault's."""
    command = [sys.executable, "-m", "paceline", "demo", "--headless", "--json", "--seconds", "40"]
    command += ["--fault", fault, "--rank", str(rank)]
    command += ["--brokers", request.getfixturevalue(kafka).address] if kafka else []
    told = subprocess.run(command, capture_output=True, timeout=500, text=True)
    assert told.returncode == 0, told.stderr[-3000:]
    findings = [json.loads(line) for line in told.stdout.splitlines()]
    assert {tuple(finding["ranks"]) for finding in findings} == {(rank,)}, told.stderr[-3000:]
    assert {finding["cause"] for finding in findings if finding["state"] == "confirmed"} == {cause}
