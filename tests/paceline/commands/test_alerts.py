"""``paceline alerts``: from the bus to a receiver, once each over restarts, with no secret in what it prints."""

import json
import signal
import subprocess
import sys
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from paceline import events, topics
from paceline.commands import alerts
from paceline.delivery.publisher import Publisher
from paceline.install import install
from paceline.kafka.settings import BrokerSettings
from paceline.visible import visible
from tests.derived_events import HOSTILE, described, finding, suggestion
from tests.http_receiver import Receiver

SECRET = "s3cr3t"
#: A command that ends by itself, on a machine that is busy.
PATIENCE_S = 240.0
Start = Callable[..., "subprocess.Popen[str]"]
Until = Callable[..., None]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        yield running


@pytest.fixture
def job() -> str:
    return f"alerts-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts ``paceline alerts`` with a state file of the test's own."""
    running: list[subprocess.Popen[str]] = []

    def begin(*options: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "paceline", "alerts", "--state", str(tmp_path / "state.json"), *options]
        running.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return running[-1]

    yield begin
    for each in running:
        each.kill()
        each.communicate()


def publish(settings: BrokerSettings, *told: events.Finding | events.Suggestion | events.JobDescribed) -> None:
    of = {events.Finding: topics.FINDING, events.Suggestion: topics.SUGGESTION, events.JobDescribed: topics.JOB}
    publisher = Publisher(settings, client_id="test")
    for event in told:
        publisher.publish(of[type(event)], event)
    assert publisher.close(PATIENCE_S).sent == len(told)


def said(receiver: Receiver, job: str) -> list[tuple[str, str]]:
    """What was told of ``job``: source and status of each alert, in order."""
    told = [alert for received in receiver.received for alert in json.loads(received.body)["alerts"]]
    return [(alert["labels"]["source"], alert["status"]) for alert in told if alert["labels"].get("job") == job]


def test_what_holds_is_told_once_and_told_when_it_is_over(
    broker: BrokerSettings, start: Start, receiver: Receiver, job: str
) -> None:
    """Over restarts, and through the end of the job; --once ends when all is told."""
    options = ("--brokers", broker.address, "--once", "--to", f"http://{receiver.at}/{SECRET}")

    def run_once() -> str:
        process = start(*options)
        output, errors = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, output) == (0, ""), errors
        return errors

    publish(broker, finding(id=job, job=job), suggestion(id=job, job=job, expires_s=4e9), described(job=job))
    assert SECRET not in run_once()
    assert sorted(said(receiver, job)) == [("finding", "firing"), ("suggestion", "firing")]
    run_once()
    assert len(said(receiver, job)) == 2
    publish(broker, suggestion(id=job, revision=2, state="dismissed", job=job), described(job=job, ended_s=2e9))
    run_once()
    assert sorted(said(receiver, job)[2:]) == [("finding", "resolved"), ("suggestion", "resolved")]


@pytest.mark.bus
def test_it_goes_on_until_it_is_stopped_and_tries_again(
    broker: BrokerSettings, start: Start, receiver: Receiver, job: str, until: Until
) -> None:
    receiver.answers = [(503, {}, b"later"), (200, {}, b"ok")]
    process = start("--brokers", broker.address, "--to", f"http://{receiver.at}/")
    publish(broker, finding(id=job, job=job, summary=HOSTILE))
    until(lambda: len(receiver.received) > 1 and said(receiver, job))
    assert process.stderr is not None
    errors = ""
    for line in process.stderr:  # It says so when it has the answer, which comes after the message.
        errors += line
        if "arrives again" in line:
            break
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=PATIENCE_S)[1] == ""
    assert process.returncode == 0
    assert "answered 503: later; retried until it arrives" in errors
    assert all(line.isprintable() for line in errors.splitlines())


def test_a_dry_run_prints_and_sends_nothing(
    broker: BrokerSettings, start: Start, receiver: Receiver, job: str, tmp_path: Path
) -> None:
    publish(broker, finding(id=job, job=job, nodes=[HOSTILE]))
    where = ("--to", f"slack+http://{receiver.at}/{SECRET}", "--to", "smtp://127.0.0.1:9?to=a@b")
    process = start("--brokers", broker.address, "--dry-run", "--once", *where)
    output, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, errors
    assert all(visible(line) == line for line in output.splitlines())
    assert SECRET not in output + errors
    assert "--- slack at " in output
    assert "To: a@b" in output
    assert receiver.received == []
    assert not (tmp_path / "state.json").exists()


@pytest.mark.slow
def test_a_test_needs_no_broker(receiver: Receiver, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--to", f"http://{receiver.at}/{SECRET}", "--to", f"slack+http://{receiver.at}/", "--command", "cat"]
    assert alerts.main(["--test", *where]) == 0
    assert len(receiver.received) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("arrived") == 3
    assert SECRET not in said.err
    assert alerts.main(["--test", "--command", "false"]) == 1


@pytest.mark.long
def test_addresses_with_a_secret_come_from_a_file(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "to").write_text(f"http://u:p@{receiver.at}/a http://{receiver.at}/b\n")
    monkeypatch.setenv("PACELINE_ALERTS_TO_FILE", str(tmp_path / "to"))
    assert alerts.main(["--test"]) == 0
    assert sorted(received.path for received in receiver.received) == ["/a", "/b"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "no destination"),
        (["--to", "gopher://a/"], "not a kind of address"),
        (["--to", f"https://u:{SECRET}@a/"], "passwords on the command line are visible to other users"),
        (["--command", "'"], "--command: No closing quotation"),
        (["--command", ""], "names no program"),
    ],
)
def test_what_cannot_be_is_said_before_anything_starts(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert alerts.main(options) == 2
    errors = capsys.readouterr().err
    assert said in errors
    assert SECRET not in errors


def test_without_a_broker_once_ends_and_says_why(
    free_port: Callable[[], int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address = f"127.0.0.1:{free_port()}"
    options = ["--once", "--command", "cat", "--state", str(tmp_path / "s"), "--brokers", address]
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    try:
        assert alerts.main(options) == 1
    finally:
        for number, handler in zip((signal.SIGTERM, signal.SIGINT), before, strict=True):
            signal.signal(number, handler)
    errors = capsys.readouterr().err
    assert f"sending findings of severity warning and above from {address} to " in errors
    assert "Connection refused" in errors


@pytest.mark.slow
@pytest.mark.bus
def test_it_serves_how_telling_goes(
    broker: BrokerSettings, start: Start, receiver: Receiver, job: str, until: Until, free_port: Callable[[], int]
) -> None:
    """With --web-port: ready when all has been read, and a message that arrived is counted."""
    port = free_port()
    start("--brokers", broker.address, "--to", f"http://{receiver.at}/", "--web-port", str(port))
    publish(broker, finding(id=job, job=job))

    def asked(path: str) -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE_S) as answer:
                return str(answer.read().decode())
        except OSError:
            return ""

    until(lambda: asked("/readyz") == "ready\n")
    counted = 'paceline_alerts_sent_total{destination="webhook",outcome="arrived"}'
    until(
        lambda: any(line.startswith(counted) and not line.endswith(" 0.0") for line in asked("/metrics").splitlines())
    )


@pytest.mark.slow
def test_metrics_need_what_tells_them() -> None:
    """Without prometheus-client there are alerts all the same; a port for metrics is refused with what to install."""
    argv = ["alerts", "--to", "http://127.0.0.1:9/", "--web-port", "9402", "--brokers", "127.0.0.1:9"]
    without = "import sys; sys.modules['prometheus_client'] = None; from paceline.__main__ import main"
    ended = subprocess.run(
        [sys.executable, "-c", f"{without}; sys.exit(main({argv}))"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ended.returncode == 2
    assert f"--web-port needs prometheus-client; {install('alerts')}" in ended.stderr


@pytest.mark.parametrize("port", ["-1", "65536", "http"])
def test_a_port_that_is_none_is_refused(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        alerts.main(["--to", "http://127.0.0.1:9/", "--web-port", port])
    assert port in capsys.readouterr().err
