"""``paceline ask``: what is asked of a real sidecar comes back; what is no command is told at once."""

import importlib.util
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from paceline import topics, wire
from paceline.commands import ask
from paceline.commands.asking import _answers, told
from paceline.events import AuditEntry, Command
from paceline.kafka import clients
from paceline.kafka.follow import BEGINNING, NOW, Follower
from paceline.kafka.settings import BrokerSettings
from paceline.reported_reader import read_reported
from paceline.visible import visible
from tests.patience import PATIENCE_S

_spec = importlib.util.spec_from_file_location("rank", Path(__file__).parents[1] / "training" / "rank.py")
assert _spec is not None
assert _spec.loader is not None
rank = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(rank)


def read_all(broker: BrokerSettings, topic: topics.Topic) -> set[bytes | None]:
    """The keys of all that ``topic`` holds."""
    keys = set()
    with Follower(broker, {topic: BEGINNING}, "test") as follower:
        while not follower.caught_up:
            keys |= {record.key for _, records in follower.poll() for record in records}
    return keys


Ask = Callable[..., "subprocess.CompletedProcess[str]"]
#: As long as an answer may take on a busy machine; the command waits no longer than it has to for what is asked here.
WAIT_S = "240"


class Running:
    """A sidecar with one rank, of a job of the test's own."""

    def __init__(self, settings: BrokerSettings, folder: Path, until: Callable[..., object], *options: str) -> None:
        self.job = f"asked-{uuid.uuid4().hex}"
        path = folder / "ranks"
        command = ["--socket", str(path), "--brokers", settings.address, *options]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "paceline.sidecar", *command],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PACELINE_NODE": "n1", "PACELINE_SPOOL_DIR": str(folder / "spool")},
        )
        until(path.exists)
        self.speaker = rank.Speaker(str(path))
        self.speaker.say(rank.hello(job=self.job))
        until(lambda: self.has_reported(settings))

    def has_reported(self, settings: BrokerSettings) -> bool:
        reported = read_reported(settings, "default", "test")
        return reported is not None and reported.refuses_job(self.job) is None

    def end(self) -> str:
        self.speaker.close()
        _, said = self.process.communicate()
        return said.decode()


@pytest.fixture
def sidecar(broker: BrokerSettings, tmp_path: Path, until: Callable[..., object]) -> Iterator[Callable[..., Running]]:
    made: list[Running] = []

    def start(*options: str) -> Running:
        made.append(Running(broker, tmp_path, until, *options))
        return made[-1]

    yield start
    for one in made:
        one.process.kill()
        one.end()


@pytest.fixture
def asking(broker: BrokerSettings) -> Ask:
    """Runs the command as a user would."""

    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-W", "ignore", "-m", "paceline", "ask", "--expires", "600"]
        command += [*words, "--brokers", broker.address]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    return run


@pytest.mark.landing
@pytest.mark.e2e
def test_a_sidecar_is_asked_and_answers(sidecar: Callable[..., Running], asking: Ask) -> None:
    """With who asked, in the audit log; and the run goes on."""
    job = sidecar().job
    done = asking(
        f"job:{job}", "full_rows", "--arg", "seconds=60", "--issuer", "ada@login-1", "--json", "--wait", WAIT_S
    )
    assert (done.returncode, done.stderr) == (0, "")
    entry = wire.decode(topics.AUDIT, done.stdout.encode())
    assert (entry.service, entry.node, entry.outcome) == ("sidecar", "n1", "accepted")
    assert (entry.target, entry.action, entry.issuer) == (f"job:{job}", "full_rows", "ada@login-1")
    assert entry.reason == "every collective is sent for 60 s"


@pytest.mark.e2e
def test_what_is_not_obeyed_is_told_and_is_status_1(sidecar: Callable[..., Running], asking: Ask) -> None:
    """Both an action and arguments that it does not know, in a line each."""
    running = sidecar()
    unknown = asking(f"job:{running.job}", "dance", "--wait", WAIT_S)
    wrong = asking(f"job:{running.job}", "full_rows", "--arg", "seconds=soon", "--wait", WAIT_S)
    assert (unknown.returncode, wrong.returncode) == (1, 1)
    assert unknown.stdout == "sidecar on n1: unknown action: known here: capture, full_rows\n"
    assert wrong.stdout.startswith("sidecar on n1: refused: arguments: Expected `float`, got `str`")
    assert running.end() == ""
    assert running.process.returncode == 0


@pytest.mark.e2e
def test_a_run_without_commands_refuses_and_says_so(sidecar: Callable[..., Running], asking: Ask) -> None:
    """As the audit log tells."""
    done = asking(f"job:{sidecar('--no-commands').job}", "full_rows", "--arg", "seconds=60", "--wait", WAIT_S)
    assert done.returncode == 1
    assert done.stdout == "sidecar on n1: refused: no commands are obeyed here (--no-commands)\n"


@pytest.mark.bus
@pytest.mark.parametrize("kind", ["job", "node"])
def test_a_job_or_node_that_has_not_reported_is_refused_at_once(
    kind: str, broker: BrokerSettings, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is sent and nobody is waited for: the name is wrong, and the line says which there are."""
    name = f"nobody-{uuid.uuid4().hex}"
    action = "full_rows" if kind == "job" else "sample"
    assert ask.main([f"{kind}:{name}", action, "--wait", "86400", "--brokers", broker.address]) == 2
    said = capsys.readouterr().err
    assert f"no {kind} '{name}' has reported; " in said
    assert "send it nevertheless with --anyway" in said
    asked = read_all(broker, topics.COMMAND)
    assert f"{kind}:{name}".encode() not in asked


@pytest.mark.bus
def test_nobody_there_is_said_and_is_status_1(broker: BrokerSettings, capsys: pytest.CaptureFixture[str]) -> None:
    """After the time that was given, with the topic that they must be able to read."""
    words = [f"job:{uuid.uuid4().hex}", "full_rows", "--anyway", "--wait", "0.5"]  # it is to run out
    status = ask.main([*words, "--brokers", broker.address])
    said = capsys.readouterr()
    assert (status, said.out, said.err.count("\n")) == (1, "", 1)
    assert "no answer within 0.5 s" in said.err


@pytest.mark.bus
def test_what_is_sent_is_what_was_written(broker: BrokerSettings, capsys: pytest.CaptureFixture[str]) -> None:
    """Numbers, true, false and null are what they look like, quoted or other words are text; nobody is waited for."""
    target = f"job:{uuid.uuid4().hex}"
    words = ["--arg", "seconds=1.5", "--arg", "ranks=8", "--arg", "all=true", "--arg", "note=a=b", "--arg", 'id="8"']
    assert (
        ask.main([target, "any", *words, "--anyway", "--wait", "0", "--expires", "30", "--brokers", broker.address])
        == 0
    )
    assert capsys.readouterr() == ("", "")
    consumer = clients.consumer(broker, topics.COMMAND, from_beginning=True)
    row = next(row for row in consumer if row.key == target.encode())
    consumer.close()
    command = wire.decode(topics.COMMAND, row.value)
    assert isinstance(command, Command)
    assert command.arguments == {"seconds": 1.5, "ranks": 8, "all": True, "note": "a=b", "id": "8"}
    assert 0 < command.expires_s - row.timestamp / 1000 <= 30.1
    assert "@" in command.issuer


@pytest.mark.bus
def test_only_answers_to_this_command_count(broker: BrokerSettings, capsys: pytest.CaptureFixture[str]) -> None:
    """The audit log holds others, and may hold what is no entry; a name in one does nothing to the terminal."""
    command = Command(id="mine", cluster="c", target="job:j", action="a", expires_s=1.0, issuer="i")
    entry = AuditEntry(
        command_id="mine",
        cluster="c",
        target="job:j",
        action="a",
        issuer="i",
        time_s=1.0,
        service="sidecar",
        node="n\x1b[2J",
        outcome="accepted",
        reason="done",
    )
    foreign = json.loads(wire.encode(entry)) | {"command_id": "another"}
    with Follower(broker, {topics.AUDIT: NOW}, "test", resume=True) as follower:
        follower.connect()
        producer = clients.producer(broker, "test")
        for value in (b"nonsense", json.dumps(foreign).encode(), wire.encode(entry)):
            producer.send(topics.AUDIT.name, value=value).get(PATIENCE_S)
        producer.close()
        answers = _answers(follower, command, 60.0)
        assert next(answers) == entry
    assert visible(told(entry)) == "sidecar on n\\u001b[2J: accepted: done"


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ([], "TARGET"),
        (["job:a"], "ACTION"),
        (["resnet-7", "full_rows"], "'resnet-7': write job:NAME, node:NAME, suggestion:ID or streams"),
        (["job:", "full_rows"], "'job:': write"),
        (["streams:a", "full_rows"], "'streams:a': write"),
        (["job:a", "full_rows", "--arg", "seconds"], "'seconds': write NAME=VALUE"),
        (["job:a", "full_rows", "--arg", "=60"], "'=60': write NAME=VALUE"),
        (["job:a", "full_rows", "--expires", "7200"], "allowed: 1 to 3600"),
        (["job:a", "full_rows", "--expires", "nan"], "allowed: 1 to 3600"),
        (["job:a", "full_rows", "--wait", "-1"], "allowed: 0 to 86400"),
        (["job:" + "a" * 300, "full_rows"], "$.target"),
        (["job:a", "x" * 65], "$.action"),
        (["job:a", "full_rows", "--issuer", ""], "$.issuer"),
        (["job:a", "full_rows", "--arg", "seconds=" + "9" * 30], "no command"),
        (["job:\udcff", "full_rows"], "no command"),
    ],
    ids=str,
)
def test_what_is_no_command_is_status_2_before_any_broker_is_asked(
    words: list[str], part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """And the line on standard error names what is wrong."""
    try:
        status = ask.main([*words, "--brokers", "127.0.0.1:1"] if words else [])
    except SystemExit as ended:
        status = ended.code
    assert status == 2
    assert part in capsys.readouterr().err


def test_no_broker_is_one_line_and_status_1(capsys: pytest.CaptureFixture[str]) -> None:
    """With the address."""
    assert ask.main(["job:a", "full_rows", "--brokers", "127.0.0.1:1"]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "127.0.0.1:1: connection refused" in said
