"""The tracking process: what a rank, a sidecar and an analyzer tell it goes to MLflow, and no tracker holds it up.

Rule of this file: the process is real, and so is MLflow's client in it. At the other end is a server that keeps what it
gets (``make integration-check`` has MLflow's own), none at all, or one that never answers.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from paceline.training.tracking_words import OpenRun, Told, decode_told, encode_runs
from streams.told_file import ToldFile
from tests.derived_events import finding
from tests.http_receiver import Answer, Received, Receiver
from tests.paceline.tracking.steps import line, message
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.e2e


class Tracking:
    """The process, and the other ends of what it reads."""

    def __init__(self, folder: Path, until: Callable[..., Any], *options: str, environ: dict[str, str] | None = None):
        self.until, self.path, self.sequence, self.number = until, folder / "tracking", 0, 1
        reader, self.writer = os.pipe()
        self.told = ToldFile(str(folder / "told.jsonl"))
        words = ["--socket", str(self.path), "--told", str(folder / "told.jsonl"), "--events-fd", str(reader)]
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "paceline.tracking", *words, *options],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(reader,),
            text=True,
            env={**os.environ, **(environ or {})},
        )
        os.close(reader)
        until(lambda: self.path.exists() or self.process.poll() is not None)

    def rank(self, *runs: OpenRun) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.connect(str(self.path))
        connection.send(encode_runs(runs))
        return connection

    def step(self, step: int) -> None:
        self.sequence += 1
        os.write(self.writer, line(message(self.sequence, [step])))

    def next_steps(self, condition: Callable[[], Any]) -> None:
        """Step until ``condition`` holds: a point that is made before the rank is heard goes nowhere."""

        def stepped() -> Any:
            self.step(self.number)
            self.number += 1
            return condition()

        self.until(stepped)

    def end(self) -> str:
        """All others have ended; what is said."""
        os.close(self.writer)
        return self.process.communicate()[1]


@pytest.fixture
def track(tmp_path: Path, until: Callable[..., Any]) -> Iterator[Callable[..., Tracking]]:
    made: list[Tracking] = []

    def start(*options: str, **environ: str) -> Tracking:
        made.append(Tracking(tmp_path, until, *options, environ=environ))
        return made[-1]

    yield start
    for one in made:
        one.process.kill()
        one.process.communicate()


def logged(server: Receiver) -> list[dict[str, Any]]:
    return [json.loads(one.body) for one in list(server.received) if one.path.endswith("/log-batch")]


def steps(server: Receiver, run: str) -> list[int]:
    return [
        metric["step"]
        for told in logged(server)
        for metric in told.get("metrics", [])
        if told["run_id"] == run and metric["key"] == "paceline/step_s"
    ]


@pytest.mark.landing
def test_points_and_findings_are_in_the_run_that_is_open(
    track: Callable[..., Tracking], until: Callable[..., Any]
) -> None:
    """Runs after each other have each their own; where none is open nothing is logged."""
    with Receiver() as server:
        server.answers = [(200, {"Content-Type": "application/json"}, b"{}")]
        tracking, address = track("--track", "mlflow", "--track", "wandb"), f"http://{server.at}"
        inside = OpenRun("wandb", "x")  # What tells this test which points were made.
        rank = tracking.rank(OpenRun("mlflow", "first", address), inside)
        rank.settimeout(PATIENCE_S)
        tracking.next_steps(lambda: steps(server, "first"))
        tracking.told.finding(finding())
        until(lambda: any(tag["key"] == "paceline.findings" for told in logged(server) for tag in told.get("tags", [])))
        rank.send(encode_runs([inside]))
        closed = tracking.number
        for step in (10**6, 10**6 + 1):  # The first may be made before the rank is heard.
            tracking.step(step)
            while _next(rank).values["paceline/step"] < step:
                pass
        rank.send(encode_runs([OpenRun("mlflow", "second", address), inside]))
        tracking.number = 2 * 10**6
        tracking.next_steps(lambda: steps(server, "second"))
        rank.close()
        said = tracking.end()
        counts = [
            metric["value"]
            for told in logged(server)
            for metric in told.get("metrics", [])
            if metric["key"] == "paceline/findings"
        ]
    assert all(step <= closed or step == 10**6 for step in steps(server, "first"))
    assert all(step >= 2 * 10**6 for step in steps(server, "second"))
    assert {told["run_id"] for told in logged(server)} == {"first", "second"}
    assert counts[0] == 0
    assert counts[-1] == 1
    assert "MLflow has all" in said


def test_what_a_server_in_trouble_did_not_take_is_sent_again_and_what_it_refuses_is_counted(
    track: Callable[..., Tracking], until: Callable[..., Any]
) -> None:
    with Receiver() as server:
        well = (200, {"Content-Type": "application/json"}, b"{}")
        gone = (
            404,
            {"Content-Type": "application/json"},
            b'{"error_code":"RESOURCE_DOES_NOT_EXIST","message":"no run"}',
        )
        server.answers = [(500, {}, b"trouble"), (503, {}, b"busy"), well]
        tracking = track("--track", "auto")
        rank = tracking.rank(OpenRun("mlflow", "a", f"http://{server.at}"))
        tracking.next_steps(lambda: len(logged(server)) >= 3)
        first, _, third = (told["metrics"] for told in logged(server)[:3])
        server.answers = [gone]
        refused = tracking.number
        tracking.next_steps(lambda: any(step > refused for step in steps(server, "a")))
        said = tracking.end()
        rank.close()
    assert third[: len(first)] == first
    assert "entries were not logged" in said
    assert "RESOURCE_DOES_NOT_EXIST" in said


WELL = (200, {"Content-Type": "application/json"}, b"{}")


def answered(status: int, code: str, where: Callable[[dict[str, Any]], bool]) -> Callable[[Received], Answer | None]:
    """Answers so to what ``where`` holds for."""
    text = json.dumps({"error_code": code, "message": "no"}).encode() if code else b"<html>no</html>"
    return lambda received: (status, WELL[1], text) if where(json.loads(received.body)) else WELL


def has(step: int) -> Callable[[dict[str, Any]], bool]:
    return lambda told: any(metric["step"] == step for metric in told.get("metrics", []))


def taken(server: Receiver, run: str) -> set[int]:
    """The steps that were not only sent to ``run``."""
    return {step for one in list(server.received) if server.judge(one) == WELL for step in _steps(one, run)}


def _steps(received: Received, run: str) -> set[int]:
    told = json.loads(received.body)
    return {metric["step"] for metric in told.get("metrics", []) if told["run_id"] == run}


@pytest.mark.parametrize(("status", "code"), [(400, "INVALID_PARAMETER_VALUE"), (413, ""), (422, "")])
def test_of_what_is_refused_in_one_request_one_entry_is_dropped(
    track: Callable[..., Tracking], until: Callable[..., Any], status: int, code: str
) -> None:
    """What waited behind a server in trouble goes in one request, and of it one entry is refused."""
    with Receiver() as server:
        server.answers = [(503, {}, b"busy")]
        tracking = track("--track", "mlflow")
        rank = tracking.rank(OpenRun("mlflow", "a", f"http://{server.at}"))
        tracking.next_steps(lambda: len(set(steps(server, "a"))) >= 4)
        waiting = set(steps(server, "a"))
        bad = sorted(waiting)[1]
        server.judge = answered(status, code, has(bad))
        until(lambda: waiting - {bad} <= taken(server, "a"))
        rank.close()
        said = tracking.end()
        assert bad in {step for one in server.received for step in _steps(one, "a")}
        assert bad not in taken(server, "a")
    assert "MLflow: 1 of " in said


def test_a_login_that_is_refused_is_told_at_once_and_what_waited_goes_on_when_it_is_right(
    track: Callable[..., Tracking],
) -> None:
    with Receiver() as server:
        server.answers = [(401, {}, b"who are you")]
        tracking = track("--track", "mlflow")
        rank = tracking.rank(OpenRun("mlflow", "a", f"http://{server.at}"))
        tracking.next_steps(lambda: steps(server, "a"))
        assert tracking.process.stderr is not None
        told = tracking.process.stderr.readline()
        refused = set(steps(server, "a"))
        server.judge = answered(200, "", lambda told: False)
        tracking.next_steps(lambda: refused <= taken(server, "a"))
        rank.close()
        said = tracking.end()
    assert "MLflow answered 401" in told
    assert "MLFLOW_TRACKING_TOKEN" in told
    assert "MLflow has all" in said


def test_a_run_for_which_the_server_fails_holds_up_no_other(track: Callable[..., Tracking]) -> None:
    """Nor is what it waits with lost."""
    with Receiver() as server:
        server.judge = answered(500, "INTERNAL_ERROR", lambda told: told["run_id"] == "bad")
        tracking, address = track("--track", "mlflow"), f"http://{server.at}"
        rank = tracking.rank(OpenRun("mlflow", "bad", address))
        tracking.next_steps(lambda: steps(server, "bad"))
        waiting = set(steps(server, "bad"))
        rank.send(encode_runs([OpenRun("mlflow", "good", address)]))
        tracking.next_steps(lambda: taken(server, "good"))
        server.judge = answered(200, "", lambda told: False)
        tracking.next_steps(lambda: waiting <= taken(server, "bad"))
        rank.close()
        assert "MLflow has all" in tracking.end()


@pytest.mark.parametrize("silent", [True, False], ids=["never answers", "closed port"])
def test_a_tracker_that_is_away_is_told_in_a_line_at_the_end(
    track: Callable[..., Tracking], free_port: Callable[[], int], silent: bool
) -> None:
    """And it ends within its bound; no login of the address is in the line."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(8)
        port = listener.getsockname()[1] if silent else free_port()
        address = f"http://ada:secret@127.0.0.1:{port}"
        # Its bound is what ends it: more patience makes the test longer, and not surer.
        tracking = track("--track", "mlflow", MLFLOW_RUN_ID="a1", MLFLOW_TRACKING_URI=address, PACELINE_PATIENCE="1")
        tracking.step(1)
        said = tracking.end()
    assert tracking.process.returncode == 0
    (told,) = said.splitlines()
    assert "of 2 entries were not logged" in told or "of 1 entries were not logged" in told
    assert "secret" not in told


def test_a_rank_that_logs_itself_is_told_points_and_findings(track: Callable[..., Tracking]) -> None:
    """W&B's, which must be logged from inside; and nothing of it goes anywhere else."""
    tracking = track("--track", "wandb")
    rank = tracking.rank(OpenRun("wandb", "x"))
    rank.settimeout(0.1)  # it is to run out
    points: list[Told] = []

    def is_told() -> bool:  # Steps that end before the rank is heard are told to nobody.
        with contextlib.suppress(TimeoutError):
            points.append(_next(rank))
        return any("paceline/step_s" in point.values for point in points)

    tracking.next_steps(is_told)
    told = points[-1]
    assert 0 <= told.values["paceline/step"] < tracking.number
    assert told.values["paceline/step_s"] == pytest.approx(0.5)
    rank.settimeout(PATIENCE_S)
    tracking.told.finding(finding())
    while not (told := _next(rank)).texts:
        pass
    assert told.values["paceline/findings"] == 1
    assert told.tags == ["paceline:straggler"]
    rank.close()
    assert tracking.end() == ""


def test_what_a_rank_says_that_is_no_word_of_it_costs_nothing(track: Callable[..., Tracking]) -> None:
    """Bytes that say nothing, and ranks that are killed while they speak; who comes after them is heard."""
    tracking = track("--track", "wandb")
    for said in (b"", b"\xff" * 60_000, b"{", b'{"runs": [[1]]}', encode_runs([OpenRun("wandb", "x")])[:-3]):
        with tracking.rank() as gone, contextlib.suppress(OSError):
            gone.send(said)
    rank = tracking.rank(OpenRun("wandb", "x"))
    rank.settimeout(0.1)  # it is to run out
    points: list[Told] = []

    def is_told() -> bool:
        with contextlib.suppress(TimeoutError):
            points.append(_next(rank))
        return bool(points)

    tracking.next_steps(is_told)
    rank.close()
    assert tracking.end() == ""
    assert tracking.process.returncode == 0


def _next(rank: socket.socket) -> Told:
    told = decode_told(rank.recv(65_536))
    assert told is not None
    return told


def test_a_script_that_opens_no_run_is_told_so(track: Callable[..., Tracking], until: Callable[..., Any]) -> None:
    tracking = track("--track", "mlflow", "--track", "wandb")
    rank = tracking.rank()
    tracking.step(1)
    rank.settimeout(PATIENCE_S)
    rank.close()
    assert tracking.end() == "paceline: no run of mlflow, wandb was open in rank 0: nothing was logged\n"


def test_who_sends_garbage_loses_the_connection_and_nobody_else_does(track: Callable[..., Tracking]) -> None:
    tracking = track("--track", "wandb")
    rank = tracking.rank(OpenRun("wandb", "x"))
    rank.settimeout(PATIENCE_S)
    other = tracking.rank()
    other.settimeout(PATIENCE_S)
    other.send(b"\xff" * 1000)
    assert other.recv(10) == b""
    os.write(tracking.writer, b"\x00\xffno line\n[]\n" + b"{" * 1000 + b"\n")
    tracking.step(1)
    assert _next(rank).values["paceline/step"] == 1
    rank.close()
    other.close()
    tracking.end()


def test_a_folder_of_tensorboard_gets_points_and_the_summary(track: Callable[..., Tracking], tmp_path: Path) -> None:
    tracking = track("--track", f"tensorboard={tmp_path / 'runs'}")
    tracking.step(1)
    tracking.told.panel("nobody is slow")
    assert tracking.end() == ""
    (path,) = (tmp_path / "runs" / "paceline").iterdir()
    assert b"paceline/step_s" in path.read_bytes()
    assert b"nobody is slow" in path.read_bytes()
