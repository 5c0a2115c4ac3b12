"""``paceline tail``: JSON Lines on standard output, nothing else there, and a clean end."""

import json
import math
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator

import pytest

from paceline import events, topics, wire
from paceline.commands import tail
from paceline.delivery.publisher import Publisher
from paceline.kafka import clients, embedded
from paceline.kafka.settings import BrokerSettings
from paceline.sidecar.batch import Batcher, Origin, Outgoing
from paceline.sidecar.rank_rows import PARTS, Report, StepRow
from paceline.training.messages import Hello
from tests.patience import PATIENCE_S

Start = Callable[..., "subprocess.Popen[str]"]


def publish(settings: BrokerSettings, *jobs: str) -> None:
    publisher = Publisher(settings, client_id="test")
    for number, job in enumerate(jobs):
        described = events.JobDescribed(
            cluster="c",
            producer="p",
            sequence=number,
            job=job,
            attempt=0,
            node="n",
            world_size=1,
            backend="gloo",
            framework="torch",
            started_s=0.0,
            places=[],
        )
        publisher.publish(topics.JOB, described)
    assert publisher.close(PATIENCE_S).sent == len(jobs)


def steps_of(job: str) -> list[Outgoing]:
    """A step of two ranks, as a sidecar sends it."""
    batcher = Batcher(Origin("c", "n", "p"))
    for rank in (0, 1):
        key = batcher.join(
            Hello(
                rank=rank, world_size=2, local_rank=rank, pid=1, device="cpu", backend="gloo", framework="torch",
                job=job, attempt=0, started_s=1000.0,
            )
        )  # fmt: skip
        seconds = tuple({"data": 0.5, "gc": 0.25 if rank else math.nan}.get(name, math.nan) for name in PARTS)
        batcher.update(key, rank, Report([StepRow(7, 1000.0, 0.5, seconds)], []))
    return batcher.end(1001.0)


#: A topic to which no test sends noise: the embedded broker may begin a batch early where one asks for what is new.
CLEAN = "profile"


@pytest.fixture
def start(broker: BrokerSettings) -> Iterator[Start]:
    """Starts the command as a user would, and waits until it misses nothing."""
    running: list[subprocess.Popen[str]] = []

    def started(*options: str, through: tuple[str, ...] = ()) -> "subprocess.Popen[str]":
        command = [*through, sys.executable, "-m", "paceline", "tail", *options, "--brokers", broker.address]
        environ = {**os.environ, "PYTHONWARNINGS": "ignore"}
        running.append(
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ)
        )
        assert "listening" in running[-1].stderr.readline()
        return running[-1]

    yield started
    for process in running:
        process.kill()
        process.communicate()


def test_events_come_as_they_are_published(start: Start, broker: BrokerSettings):
    """Each is one line of JSON, flushed at once; another job's are not among them."""
    job = uuid.uuid4().hex
    process = start("job", "--job", job)
    publish(broker, "other", job, job)
    found = [json.loads(process.stdout.readline()) for _ in range(2)]
    assert [row["job"] for row in found] == [job, job]


def test_commands_to_a_job_and_their_answers_are_of_that_job(start: Start, broker: BrokerSettings):
    """They name it in their target."""
    job = uuid.uuid4().hex
    process = start("command", "--job", job)
    producer = clients.producer(broker, "test")
    for target in ("streams", f"job:{job}2", f"job:{job}"):
        said = events.Command(id="i", cluster="c", target=target, action="a", expires_s=1.0, issuer="u")
        producer.send(topics.COMMAND.name, wire.encode(said)).get(PATIENCE_S)
    producer.close()
    assert json.loads(process.stdout.readline())["target"] == f"job:{job}"


def test_from_the_beginning_it_starts_with_what_is_kept(start: Start, broker: BrokerSettings):
    """Events from before the command come too, and before newer ones."""
    job = uuid.uuid4().hex
    publish(broker, job)
    process = start("job", "--job", job, "--from-beginning")
    found = [json.loads(process.stdout.readline())]
    publish(broker, job, job)
    found += [json.loads(process.stdout.readline()) for _ in range(2)]
    assert [(row["job"], row["sequence"]) for row in found] == [(job, 0), (job, 0), (job, 1)]


def test_it_ends_by_itself_after_the_given_time(broker: BrokerSettings):
    """Status 0, however little came."""
    assert tail.main(["job", "--job", uuid.uuid4().hex, "--seconds", "0.1", "--brokers", broker.address]) == 0


def test_ctrl_c_ends_it_without_a_trace(start: Start):
    """Status 130 and not a word more."""
    process = start(CLEAN, "--job", uuid.uuid4().hex)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate()
    assert (process.returncode, output, errors) == (130, "", "")


def test_in_the_background_it_leaves_ctrl_c_to_others_and_ends_at_sigterm(start: Start, broker: BrokerSettings):
    """A shell that is not interactive starts it with SIGINT ignored, so that a Ctrl-C ends what is in front alone."""
    job = uuid.uuid4().hex
    process = start("job", "--job", job, through=("sh", "-c", 'trap "" INT; exec "$@"', "sh"))
    process.send_signal(signal.SIGINT)
    publish(broker, job)
    assert json.loads(process.stdout.readline())["job"] == job
    process.send_signal(signal.SIGTERM)
    output, errors = process.communicate()
    assert (process.returncode, output, errors) == (-signal.SIGTERM, "", "")


def test_it_ends_when_its_reader_has_gone(start: Start):
    """`paceline tail … | head -1` does not wait for one more event."""
    process = start(CLEAN, "--job", uuid.uuid4().hex)
    process.stdout.close()
    assert process.wait() == 0
    assert process.stderr.read() == ""


def test_what_is_no_json_is_skipped_and_said(start: Start, broker: BrokerSettings):
    """Noise on the topic stays off standard output."""
    producer = clients.producer(broker, "test")
    for number, value in enumerate((b"\xff\x00 noise", b"[1]", b"[" * 100_000, b'{"later":"field"}')):
        # The topic is compacted, so each has a key of its own; other tests may write to it.
        producer.send(topics.THRESHOLD.name, key=b"%d" % number, value=value).get(PATIENCE_S)
    producer.close()
    process = start("threshold", "--from-beginning")
    assert ["skipped" in process.stderr.readline() for _ in range(3)] == [True] * 3
    while process.stdout.readline() != '{"later":"field"}\n':
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.communicate()[1] == ""


def test_columns_of_raw_numbers_are_lists(start: Start, broker: BrokerSettings):
    """Of the topics that are MessagePack; what is not measured is null, noise is skipped and said."""
    job = uuid.uuid4().hex
    (message,) = (item for item in steps_of(job) if item.topic is topics.OP)
    process = start("op", "--job", job)
    producer = clients.producer(broker, "test")
    for value in (b"\xc1 noise", wire.encode(message.event)):
        producer.send(topics.OP.name, key=job.encode(), value=value).get(PATIENCE_S)
    producer.close()
    row = json.loads(process.stdout.readline())
    assert "skipped a message that is no op" in process.stderr.readline()
    assert (row["rank"], row["step"], row["phases"]) == ([0, 1], [7, 7], {"data": [0.5, 0.5], "gc": [None, 0.25]})


@pytest.mark.parametrize("options", [["nonsense"], ["job", "--seconds", "soon"], ["job", "--seconds", "-1"], []])
def test_a_wrong_command_line_is_status_2(options: list[str], capsys: pytest.CaptureFixture[str]):
    """And the line on standard error names what is wrong."""
    try:
        code = tail.main(options)
    except SystemExit as stop:
        code = stop.code
    assert code == 2
    assert (options[-1] if options else "TOPIC") in capsys.readouterr().err


def test_no_broker_is_status_1(capsys: pytest.CaptureFixture[str]):
    """One line, with the address."""
    assert tail.main(["job", "--brokers", "127.0.0.1:1"]) == 1
    assert "127.0.0.1:1: connection refused" in capsys.readouterr().err


@pytest.mark.slow
def test_a_topic_that_is_not_there_yet_is_waited_for():
    """On a fresh broker it says so, and prints the first event that makes the topic."""
    with embedded.start() as fresh:
        settings = BrokerSettings().with_brokers(fresh.address)
        command = [sys.executable, "-W", "ignore", "-m", "paceline", "tail", "job", "--brokers", fresh.address]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            try:
                assert "does not exist yet" in process.stderr.readline()
                publish(settings, "first")
                assert json.loads(process.stdout.readline())["job"] == "first"
            finally:
                process.kill()


def test_a_name_does_nothing_to_the_terminal(broker: BrokerSettings, start: Start) -> None:
    """C1 and marks of direction are written out, and the JSON tells the very name."""
    name = f"{uuid.uuid4()}\x1b[2J\x9b2J\u202e\u2029"
    process = start("job", "--job", name)
    publish(broker, name)
    line = process.stdout.readline()
    assert line.removesuffix("\n").isprintable()
    assert json.loads(line)["job"] == name
