"""The demo, whole: broker, worker, collector, a real training run, and what it says."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import urllib.request
import uuid
from pathlib import Path

import pytest

from experiments.soak.__main__ import MARK, left
from tests.locked_environment import locked_environment
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.training, pytest.mark.bus]


@pytest.mark.landing
def test_the_slow_rank_is_confirmed_with_its_cause_and_what_to_do(tmp_path):
    """In the environment of `make demo`. Nobody else is confirmed. It ends once both are there, on any machine."""
    programs = locked_environment(tmp_path / "demo", Path("deploy/requirements/demo-stack.lock"))
    command = [programs / "paceline", "demo", "--json", "--seconds", "600", "--fault", "input"]
    confirmed, suggested = [], []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            told = json.loads(line)
            if "action" in told:
                suggested.append(told)
            elif told["state"] == "confirmed":
                confirmed.append(told)
            if confirmed and suggested:
                process.send_signal(signal.SIGINT)
                break
        process.stdout.read()
    assert {(tuple(finding["ranks"]), finding["cause"]) for finding in confirmed} == {((2,), "input_pipeline")}
    assert suggested[0]["action"] == "feed_input"
    assert suggested[0]["findings"] == [confirmed[0]["id"]]


@pytest.mark.parametrize(
    ("kafka", "fault", "rank", "cause", "action"),
    [
        (None, "compute", 2, "worker_compute", "rebalance"),
        ("apache_kafka", "input", 1, "input_pipeline", "feed_input"),
    ],
)
def test_the_demo_names_the_rank_that_turns_slow(request, kafka, fault, rank, cause, action):
    """On a broker of its own and on Apache Kafka every revision accuses the one rank, and the cause is the fault's.

    What to do about it is told as it comes and last, and as an object of its own.
    """
    command = [sys.executable, "-m", "paceline", "demo", "--headless", "--json", "--seconds", "40"]
    command += ["--fault", fault, "--rank", str(rank)]
    command += ["--brokers", request.getfixturevalue(kafka).address] if kafka else []
    # After the run it waits for findings on their way, 2 s and as many times as long as programs are patient here.
    told = subprocess.run(
        command, capture_output=True, timeout=500, text=True, env={**os.environ, "PACELINE_PATIENCE": "5"}
    )
    assert told.returncode == 0, told.stderr[-3000:]
    lines = [json.loads(line) for line in told.stdout.splitlines()]
    findings = [line for line in lines if "action" not in line]
    suggestions = [line for line in lines if "action" in line]
    assert {tuple(finding["ranks"]) for finding in findings} == {(rank,)}, told.stderr[-3000:]
    assert {finding["cause"] for finding in findings if finding["state"] == "confirmed"} == {cause}
    assert {suggestion["action"] for suggestion in suggestions} == {action}, told.stderr[-3000:]
    assert {id_ for suggestion in suggestions for id_ in suggestion["findings"]} <= {one["id"] for one in findings}
    assert f"suggested: {suggestions[0]['title']}" in told.stderr
    last = told.stderr.splitlines()
    newest = suggestions[-1]  # Once the job has ended it is for the next run.
    _, *how = last[last.index(f"paceline: what to do: {newest['title']}") :]
    told_of = [newest[name] for name in ("steps", "apply")] + [newest["manifest"].splitlines()]
    assert len(how) == sum(map(len, told_of))
    assert all(line.startswith("paceline:   ") for line in how)


def test_the_demo_names_the_line_of_the_rank_that_hangs():
    """While it hangs: who has not come, at which line, and what to run next."""
    command = [sys.executable, "-m", "paceline", "demo", "--headless", "--json", "--seconds", "600", "--fault", "hang"]
    hangs = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            told = json.loads(line)
            hangs += [told] if told.get("kind") == "hang" else []
            if hangs and hangs[-1]["state"] == "confirmed":
                process.send_signal(signal.SIGINT)
                break
        process.stdout.read()
    assert {tuple(finding["ranks"]) for finding in hangs} == {(2,)}
    assert re.search(r"example\.py:\d+ train$", hangs[-1]["line"])
    assert hangs[-1]["next"].startswith("py-spy dump --pid ")


def test_a_demo_that_is_killed_leaves_nothing_behind():
    """Not its services, its broker, its sidecars or its ranks, which are in sessions of their own."""
    mark = uuid.uuid4().hex
    command = [sys.executable, "-m", "paceline", "demo", "--headless", "--json", "--seconds", "600"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, MARK: mark}) as process:
        assert process.stdout is not None
        process.stdout.readline()  # A finding: its ranks train.
        before = left(mark, 0.0)
        process.kill()
    assert len(before) > 8, before
    assert left(mark, PATIENCE_S) == {}


def test_a_demo_that_is_terminated_ends_quietly_and_leaves_nothing_behind():
    """Status 143, no word of its launcher about the signal, nothing running, and no message for another broker."""
    mark = uuid.uuid4().hex
    command = [sys.executable, "-m", "paceline", "demo", "--headless", "--json", "--seconds", "600"]
    environ = {**os.environ, MARK: mark}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ) as process:
        assert process.stdout is not None
        process.stdout.readline()  # A finding: its ranks train.
        before = left(mark, 0.0)
        process.terminate()
        _, said = process.communicate()
    assert len(before) > 8, before
    assert process.returncode == 143, said
    assert "[train]" in said
    assert not re.search("Traceback|SignalException|death signal", said), said
    assert left(mark, PATIENCE_S) == {}


def test_at_a_terminal_the_page_stays_until_ctrl_c():
    """Training has ended, and the page answers still; Ctrl-C ends all of it with the status of training."""
    master, terminal = pty.openpty()
    code = "import sys; from paceline.commands import demo, page_hold; held = page_hold.stays; "
    # A short run for the test's sake; by --seconds it would end by itself.
    code += "page_hold.stays = lambda **told: held(**{**told, 'timed': False}); sys.exit(demo.main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "--seconds", "5", "--ranks", "2", "--rank", "1", "--fault", "none"]
    environ = {name: value for name, value in os.environ.items() if name not in ("CI", "DISPLAY", "WAYLAND_DISPLAY")}
    options = ["--no-forecaster", "--no-control"]
    with subprocess.Popen(
        [*command, *options], stdin=terminal, stderr=terminal, stdout=subprocess.DEVNULL, env=environ
    ) as process:
        os.close(terminal)
        said = ""
        while "Ctrl-C ends" not in said:
            said += os.read(master, 65536).decode(errors="replace")
        address = re.findall(r"the page stays at (http://\S+?);", said)[-1]
        with urllib.request.urlopen(address, timeout=PATIENCE_S) as answer:
            assert answer.status == 200
        process.send_signal(signal.SIGINT)
        assert process.wait() == 0
    os.close(master)
