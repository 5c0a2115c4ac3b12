"""The command itself, as a process."""

import contextlib
import os
import signal
import subprocess
import sys

import pytest

from paceline import recording, wire
from paceline.kafka import clients
from paceline.topics import DEVICE, HOST, NODE, resolve
from tests.collectors.kubelet import Kubelet, answer, pod

pytestmark = pytest.mark.e2e
COMMAND = [sys.executable, "-m", "collectors"]


@pytest.fixture
def collect():
    """Starts the command; whatever is still running at the end is killed."""
    with contextlib.ExitStack() as running:

        def start(*argv, **options):
            process = subprocess.Popen([*COMMAND, *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
            running.enter_context(process)
            running.callback(process.kill)
            return process

        yield start


def events(lines):
    """The events of a recording's lines, by topic, decoded as a worker would."""
    found = {}
    for number, line in enumerate(lines):
        entry = recording.parse(number, line)
        found.setdefault(entry.topic, []).append(wire.decode(resolve(entry.topic), entry.value))
    return found


def unasked(err):
    """The lines on standard error, but for those of a machine that stands still: a sample or a broker is late."""
    late = (b"a call to the driver or the kernel does not return", b" samples come again", b"a sampling thread hangs")
    return [line for line in err.splitlines() if not any(words in line for words in (*late, b"Events wait "))]


def test_once_on_this_machine(collect):
    """With no broker and whatever GPUs are here, one sample of the host and the inventory come out, status 0."""
    process = collect("--stdout", "--once", "--interval", "0.2", "--node", "here")
    out, _ = process.communicate()
    found = events(out.splitlines(keepends=True))

    assert process.returncode == 0
    assert (len(found[HOST.name]), len(found[NODE.name])) == (1, 1)
    assert found[HOST.name][0].node == "here"


def test_its_disk_is_bounded_by_the_setting_of_all_spools(collect, tmp_path):
    """One that is no size is refused before anything begins."""
    environ = {**os.environ, "PACELINE_SPOOL_BYTES": "many"}
    process = collect("--spool", str(tmp_path), "--brokers", "127.0.0.1:9", "--once", env=environ)
    _, err = process.communicate()
    assert (process.returncode, b"PACELINE_SPOOL_BYTES='many'" in err) == (1, True), err


def test_pods_are_told_by_the_kubelet_that_is_named(collect, tmp_path):
    """Also of simulated GPUs, and in a single sample; a socket that is not there is a reason and one line."""
    kubelet = Kubelet(tmp_path / "kubelet.sock").start()
    kubelet.answer = answer(pod("llm-0", "GPU-51ed0000-0000-4000-8000-000000000000"))
    sample = ("--stdout", "--once", "--interval", "0.1", "--simulate", "1")
    out, err = collect(*sample, "--pod-resources", str(kubelet.path)).communicate()
    kubelet.stop()
    missed, said = collect(*sample, "--pod-resources", str(tmp_path / "none.sock")).communicate()

    assert err == b""
    assert [one.pod for one in events(out.splitlines(keepends=True))[NODE.name][-1].pods] == ["llm-0"]
    reason = events(missed.splitlines(keepends=True))[NODE.name][-1].not_measured["pods"]
    assert reason.startswith("no socket of the kubelet at")
    assert said.count(b"\n") == 1


@pytest.mark.landing
def test_simulated_gpus_are_published(collect):
    """A run of a second with simulated GPUs is a recording that decodes, device rows included."""
    process = collect("--stdout", "--seconds", "2", "--simulate", "2", "--interval", "0.1")
    out, err = process.communicate()
    found = events(out.splitlines(keepends=True))

    assert process.returncode == 0
    assert unasked(err) == []
    assert len(found[DEVICE.name][0].uuids) == 2
    assert sum(len(event.time_s) for event in found[DEVICE.name]) > 4


def test_no_driver_is_one_log_line(collect, tmp_path):
    """Without a driver that works there is exactly one line about it, structured, and it says what is missing."""
    (tmp_path / "libnvidia-ml.so.1").touch()  # comes before that of this machine, which may have one
    process = collect("--stdout", "--seconds", "2", env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)})
    _, err = process.communicate()

    (line,) = unasked(err)
    assert b"level=warning" in line
    assert b"GPUs not measured" in line


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_good_order(collect, number):
    """SIGTERM and Ctrl-C end it with status 0, and what was sampled is written whole."""
    process = collect("--stdout", "--simulate", "1")
    first = process.stdout.readline()
    process.send_signal(number)
    rest, _ = process.communicate()

    assert process.returncode == 0
    assert events([first, *rest.splitlines(keepends=True)])
    assert rest == b"" or rest.endswith(b"\n")


def test_a_reader_that_leaves_ends_it(collect):
    """`paceline collect --stdout | head` ends, without a traceback."""
    process = collect("--stdout", "--simulate", "1")
    process.stdout.readline()
    process.stdout.close()
    err = process.stderr.read()

    assert process.wait() == 0
    assert unasked(err) == []


def test_no_broker_does_not_stop_it(collect):
    """With nobody at the brokers' address it runs to its end, says so once, and ends with status 0."""
    process = collect("--seconds", "2", "--simulate", "1", "--brokers", "127.0.0.1:9")
    _, err = process.communicate()

    assert process.returncode == 0
    assert err.count(b"127.0.0.1:9") >= 1
    assert b"Traceback" not in err


def test_a_wrong_setting_is_one_line():
    """A wrong setting: one line with its name, and status 2, through the `paceline` command."""
    done = subprocess.run(
        [sys.executable, "-m", "paceline", "collect", "--once"],
        env={**os.environ, "PACELINE_BROKERS": "nowhere"},
        capture_output=True,
        check=False,
    )

    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1
    assert b"PACELINE_BROKERS" in done.stderr


def test_it_reaches_the_bus(collect, broker):
    """What it publishes is on the topics, under the node's key, in order."""
    process = collect("--seconds", "3", "--simulate", "2", "--node", "bus-test", "--brokers", broker.address)
    _, err = process.communicate()
    assert process.returncode == 0
    assert unasked(err) == []

    with contextlib.closing(clients.consumer(broker, DEVICE, NODE, HOST, from_beginning=True)) as reader:
        found = {}
        while not {DEVICE.name, NODE.name, HOST.name} <= set(found):
            for records in reader.poll(timeout_ms=2000).values():
                for record in records:
                    if record.key == b"bus-test":  # others use these brokers, too, for garbage as well
                        found.setdefault(record.topic, []).append(record.value)

    for topic in (DEVICE, NODE, HOST):
        decoded = [wire.decode(topic, value) for value in found[topic.name]]
        assert {event.node for event in decoded} == {"bus-test"}
        assert [event.sequence for event in decoded] == list(range(len(decoded)))


def test_it_answers_commands_for_its_node(collect, broker):
    """It knows one action and says which; with commands forbidden it refuses."""
    ask = [sys.executable, "-W", "ignore", "-m", "paceline", "ask", "--brokers", broker.address]
    ask += ["--wait", "240", "--expires", "600", "--anyway"]  # The collector has reported nothing yet.
    for node, options, said in (
        ("asked", [], "collectors on asked: unknown action: known here: sample\n"),
        ("unasked", ["--no-commands"], "collectors on unasked: refused: no commands are obeyed here (--no-commands)\n"),
    ):
        collect("--simulate", "1", "--node", node, "--brokers", broker.address, *options)
        done = subprocess.run([*ask, f"node:{node}", "dance"], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (1, said, "")
