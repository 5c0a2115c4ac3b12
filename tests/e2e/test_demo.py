"""The demo, whole: broker, worker, collector, a real training run, and what it says.

What judges no slowness of a rank runs beside other tests. Two of the demos show two things each: one that is terminated
and one that is killed, once they have said what they are to say.
"""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import urllib.request
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from experiments.soak.__main__ import MARK, left
from tests.locked_environment import locked_environment
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.bus


class Demo(NamedTuple):
    """What a demo came to that was ended once it had said enough."""

    told: list[dict[str, Any]]
    status: int
    said: str
    #: Its processes just before, and those that were left in the end.
    before: dict[int, str]
    left: dict[int, str]


def demo_until(
    enough: Callable[[list[dict[str, Any]]], bool], sent: signal.Signals, folder: Path, *command: str | Path
) -> Demo:
    """Run a demo, send it ``sent`` once what it told is ``enough``, and wait until nothing of it runs."""
    mark, told = uuid.uuid4().hex, list[dict[str, Any]]()
    environ = {**os.environ, MARK: mark}
    with (
        (folder / "said").open("w+b") as said,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True, env=environ) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            told.append(json.loads(line))
            if enough(told):
                break
        before = left(mark, 0.0)
        process.send_signal(sent)
        process.stdout.read()
    words = (folder / "said").read_text(errors="replace")
    return Demo(told, process.returncode, words, before, left(mark, PATIENCE_S))


def confirmed(told: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [line for line in told if line.get("state") == "confirmed" and "action" not in line]


def suggested(told: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [line for line in told if "action" in line]


@pytest.fixture(scope="module")
def terminated(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """In the environment of `make demo`, with all its services: terminated once a rank is confirmed and what to do is
    told, on any machine."""
    folder = tmp_path_factory.mktemp("terminated")
    programs = locked_environment(folder / "demo", Path("deploy/requirements/demo-stack.lock"))
    command = [programs / "paceline", "demo", "--json", "--seconds", "600", "--fault", "input"]
    return demo_until(lambda told: bool(confirmed(told) and suggested(told)), signal.SIGTERM, folder, *command)


@pytest.mark.training
@pytest.mark.landing
def test_the_slow_rank_is_confirmed_with_its_cause_and_what_to_do(terminated):
    """Nobody else is confirmed."""
    found = confirmed(terminated.told)
    assert {(tuple(finding["ranks"]), finding["cause"]) for finding in found} == {((2,), "input_pipeline")}
    suggestion = suggested(terminated.told)[0]
    assert suggestion["action"] == "feed_input"
    assert suggestion["findings"] == [found[0]["id"]]


@pytest.mark.training
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


@pytest.mark.training
def test_a_demo_that_is_terminated_ends_quietly_and_leaves_nothing_behind(terminated):
    """Status 143, no word of its launcher about the signal, nothing running, and no message for another broker."""
    assert len(terminated.before) > 8, terminated.before
    assert terminated.status == 143, terminated.said
    assert "[train]" in terminated.said
    assert not re.search("Traceback|SignalException|death signal", terminated.said), terminated.said
    assert terminated.left == {}


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """Killed once a rank that hangs is confirmed."""
    command = [sys.executable, "-m", "paceline", "demo", "--headless", "--json", "--seconds", "600", "--fault", "hang"]

    def enough(told: list[dict[str, Any]]) -> bool:
        return any(finding["kind"] == "hang" for finding in confirmed(told))

    return demo_until(enough, signal.SIGKILL, tmp_path_factory.mktemp("killed"), *command)


@pytest.mark.e2e
@pytest.mark.xdist_group("pytorch-waits")
def test_the_demo_names_the_line_of_the_rank_that_hangs(killed):
    """While it hangs: who has not come, at which line, and what to run next."""
    hangs = [line for line in killed.told if line.get("kind") == "hang"]
    assert {tuple(finding["ranks"]) for finding in hangs} == {(2,)}
    assert re.search(r"example\.py:\d+ train$", hangs[-1]["line"])
    assert hangs[-1]["next"].startswith("py-spy dump --pid ")


@pytest.mark.e2e
@pytest.mark.xdist_group("pytorch-waits")
def test_a_demo_that_is_killed_leaves_nothing_behind(killed):
    """Not its services, its broker, its sidecars or its ranks, which are in sessions of their own and hang."""
    assert len(killed.before) > 8, killed.before
    assert killed.left == {}


@pytest.mark.e2e
@pytest.mark.xdist_group("pytorch")
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
