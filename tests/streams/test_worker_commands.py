"""A real worker and commands: it answers those for streams, and asks the sidecars of a slow job for full rows."""

import os
import subprocess
import sys

import pytest

from paceline import topics, wire
from paceline.kafka import clients

pytestmark = pytest.mark.e2e


@pytest.fixture
def commands(workers):
    """The commands for a target that are on the broker now; other tests leave nonsense there."""
    consumer = clients.consumer(workers.settings, topics.COMMAND, from_beginning=True)
    seen = []

    def poll():
        for records in consumer.poll(timeout_ms=200).values():
            seen.extend((record.key, record.value) for record in records)

    def read(target):
        workers.until(lambda: poll() or consumer.assignment())
        ends = consumer.end_offsets(list(consumer.assignment()))
        workers.until(lambda: poll() or all(consumer.position(at) >= end for at, end in ends.items()))
        return [wire.decode(topics.COMMAND, value) for key, value in seen if key == target.encode()]

    yield read
    consumer.close()


def answer(workers, *words):
    """What `paceline ask streams` prints: one line, from the one worker that there is."""
    command = [sys.executable, "-W", "ignore", "-m", "paceline", "ask", "streams", *words, "--json"]
    command += ["--wait", "240", "--expires", "600"]
    environ = {**os.environ, "PACELINE_BROKERS": workers.settings.address}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environ)
    assert done.stderr == ""
    return wire.decode(topics.AUDIT, done.stdout.encode())


def test_full_rows_are_asked_for_once_a_job_is_suspected(workers, make_training, request, commands):
    """One command, in force for two minutes; and who asks the worker itself is answered."""
    job = f"asked-{request.node.name}"
    workers.start()
    workers.produce(make_training(job=job, slow=2, seconds=25))
    workers.until(lambda: commands(f"job:{job}"))
    (command,) = commands(f"job:{job}")
    assert (command.action, command.issuer, command.cluster) == ("full_rows", "paceline-streams", "c")
    entry = answer(workers, "dance", "--issuer", "ada@login-1")
    assert (entry.service, entry.outcome, entry.issuer) == ("streams", "unknown_action", "ada@login-1")
    assert len(commands(f"job:{job}")) == 1


def test_a_worker_without_commands_gives_none_and_refuses_all(workers, make_training, request, commands):
    """It finds what it finds, and says in the audit log that it was asked in vain."""
    job = f"unasked-{request.node.name}"
    workers.start("--no-commands")
    workers.produce(make_training(job=job, slow=2, seconds=25))
    workers.until(lambda: workers.findings(job))
    entry = answer(workers, "dance")
    assert (entry.service, entry.outcome) == ("streams", "refused")
    assert "--no-commands" in entry.reason
    # A command would have gone out before the answer, by the same sender.
    assert entry.command_id in [command.id for command in commands("streams")]
    assert commands(f"job:{job}") == []
