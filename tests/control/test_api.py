"""Control over HTTP: who may change what, what is refused and why, and gswarm's routes."""

import base64
import contextlib
import gzip
import hashlib
import itertools
import os
import secrets
import shutil
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple
from urllib.parse import quote

import httpx
import msgspec
import pytest
from fastapi import FastAPI, Request

from control.api import captures, gswarm, jobs, sessions, suggestions
from control.api.app import Parts, application
from control.book import Book
from control.captures import NOBODY, UNHEARD_S, CaptureBook
from control.changes import MOST_RECORDING, SessionChanges, Teller
from control.export.room import LEAST_FREE_BYTES, MOST_SENT
from control.following import BusReader
from control.launcher import Launcher
from control.meters import Meters
from control.sessions.folder import SessionFolder
from control.sessions.manifest import Manifest, Segment, read_definition, read_manifest
from control.sessions.segments import SegmentWriter
from control.sessions.store import SessionStore
from paceline import control_access, topics, wire
from paceline.events import AuditEntry, BalancePlan, CapturePiece, SessionState, Suggestion
from paceline.events.silence import CAPTURE_SILENT_S
from paceline.kafka.settings import BrokerSettings
from paceline.settings import CONTROL_TOKEN
from paceline.topics import Topic
from paceline.web.failures import RefusedError
from paceline.web.token import LONG, guard
from tests.control.conftest import host_samples
from tests.served_app import served

TOKEN = "let-me-in"
#: For HTTP: to load the certificates of the machine takes 60 ms a client.
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
MAY = {"Authorization": f"Bearer {TOKEN}", "X-Paceline-Issuer": "ada%40login"}
GOLDEN = Path(__file__).parents[1] / "paceline" / "golden"


class Message(NamedTuple):
    """A message of a broker's."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


class Recorders:
    """In place of processes: each session's lock is held until its recorder ends."""

    def __init__(self) -> None:
        self.locks: dict[str, int] = {}
        self.finishing: list[str] = []

    def start(self, folder: SessionFolder, *, finish: bool = False) -> None:
        self.locks[folder.name] = folder.take_lock()
        if finish:
            self.finishing.append(folder.name)

    def end(self, folder: SessionFolder, state: str) -> None:
        """Its recorder ends and leaves the session in that state; killed where it is none."""
        if state:
            manifest = read_manifest(folder.manifest)
            manifest.state = msgspec.structs.replace(manifest.state, state=state, stopped_s=time.time())
            folder.replace(folder.manifest, msgspec.json.encode(manifest))
        os.close(self.locks.pop(folder.name))

    def close(self) -> None:
        for lock in self.locks.values():
            os.close(lock)


class Bus:
    """In place of the brokers: what was published."""

    def __init__(self) -> None:
        self.away = False
        self.commands: list[tuple[str, str, dict[str, Any], str]] = []
        self.clusters: list[str] = []
        self.command_id = "0123456789abcdef"
        self.events: list[tuple[Topic, Any]] = []
        self.audited: list[tuple[str, str, str, str]] = []
        self.states: list[tuple[str, SessionState | None]] = []

    def check(self) -> None:
        if self.away:
            raise RefusedError(503, "brokers", "no broker at b:9092 (connection refused)")

    def command(self, target: str, action: str, arguments: dict[str, Any], issuer: str, cluster: str) -> str:
        self.check()
        self.clusters.append(cluster)
        self.commands.append((target, action, arguments, issuer))
        return self.command_id

    def event(self, topic: Topic, event: Any) -> None:
        wire.decode(topic, wire.encode(event))
        self.events.append((topic, event))

    def audit(self, action: str, target: str, issuer: str, reason: str, cluster: str | None = None) -> None:
        self.clusters += [] if cluster is None else [cluster]
        self.audited.append((action, target, issuer, reason))

    def state(self, name: str, state: SessionState | None) -> None:
        self.states.append((name, state))


class Control:
    """The service, with all that it would talk to in our hands."""

    def __init__(self, root: Path, token: str = TOKEN) -> None:
        self._client: httpx.Client | None = None
        self.book, self.bus, self.recorders = Book(), Bus(), Recorders()
        self.store, self.captures = SessionStore(root), CaptureBook()
        self.steady_s = 1000.0
        self.reader = BusReader(BrokerSettings(), self.book, self.captures, clock=lambda: self.steady_s)
        self.changes = SessionChanges(
            self.store,
            self.recorders,
            self.book,
            Teller(self.bus.state, self.bus.audit, self.bus.check),  # type: ignore[arg-type]
        )
        self.token, self.ending = token, threading.Event()
        self.reading = sessions.Reading(self.store, self.ending, time.monotonic)

    @property
    def client(self) -> httpx.Client:
        assert self._client is not None
        return self._client

    @contextlib.contextmanager
    def serving(self, until: Callable[..., None]) -> Iterator["Control"]:
        """Answer on a port of its own."""
        with (
            served(self.app(self.token), until) as address,
            httpx.Client(base_url=address, timeout=None, verify=NO_TLS) as client,
        ):
            self._client = client
            yield self
        self.recorders.close()

    def app(self, token: str) -> FastAPI:
        allowed = guard(token, CONTROL_TOKEN)

        def refusal(name: str, value: float) -> str | None:
            return None if name == "sigmas" and value > 0 else f"no threshold {name!r}; there are sigmas"

        routers = [
            sessions.router(self.changes, self.book, self.reading, "default", allowed),
            suggestions.router(self.book, self.bus, allowed),
            jobs.router(self.book, self.bus, "default", allowed, refusal),
            captures.router(self.captures, self.book, self.bus, "default", allowed, lambda: self.steady_s),
            gswarm.router(self.book, self.changes, "default", allowed),
        ]
        meters = Meters(lambda: True, lambda: 0, self.changes.states, self.changes.here)
        return application(Parts(routers, lambda: None, meters))

    def start(self, name: str = "s", **body: Any) -> Any:
        return self.client.post("/v1/sessions", json={"name": name, "all": True, **body}, headers=MAY)


@pytest.fixture
def control(tmp_path: Path, until: Callable[..., None]) -> Iterator[Control]:
    with Control(tmp_path / "sessions").serving(until) as one:
        yield one


def reason(response: Any) -> str:
    """Why it was refused."""
    return str(response.json()["detail"][0]["reason"])


@pytest.mark.long
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/sessions"),
        ("POST", "/v1/sessions/s/stop"),
        ("POST", "/v1/sessions/s/recover"),
        ("DELETE", "/v1/sessions/s"),
        ("POST", "/v1/suggestions/x/accept"),
        ("PUT", "/v1/jobs/j/thresholds"),
        ("PUT", "/v1/jobs/j/plan"),
        ("POST", "/v1/jobs/j/captures"),
        ("POST", "/profiling/start"),
        ("POST", "/profiling/stop"),
    ],
)
def test_whoever_lacks_the_token_changes_nothing(
    tmp_path: Path, control: Control, until: Callable[..., None], method: str, path: str
) -> None:
    """401 without it or with another one; 403 where the service has none."""
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": TOKEN}):
        assert control.client.request(method, path, json={}, headers=headers).status_code == 401
    with Control(tmp_path / "without", token="").serving(until) as without:
        assert without.client.request(method, path, json={}, headers=MAY).status_code == 403
    assert control.bus.audited == control.bus.commands == control.bus.events == []


@pytest.mark.long
@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../x", "a b", "-x", ".x", "x" * 101, "a\n", "a\0", "é"])
def test_a_name_that_is_no_folder_is_refused(control: Control, name: str) -> None:
    response = control.start(name)
    assert response.status_code == 422
    assert response.json()["detail"][0]["field"] == "name"
    assert control.store.names() == []


@pytest.mark.long
@pytest.mark.parametrize(
    "body",
    [
        {},
        {"all": True, "job": "j"},
        {"nodes": []},
        {"all": True, "adaptive": True},
        {"all": True, "interval_s": 0.001},
        {"all": True, "interval_s": 1e9},
        {"all": True, "unknown": 1},
        {"all": "yes"},
    ],
)
def test_a_wish_that_makes_no_sense_is_refused(control: Control, body: dict[str, Any]) -> None:
    response = control.client.post("/v1/sessions", json={"name": "s", **body}, headers=MAY)
    assert response.status_code == 422


@pytest.mark.long
def test_a_session_that_exists_is_refused_by_name(control: Control) -> None:
    assert control.start().status_code == 201
    second = control.start()
    assert second.status_code == 409
    assert "choose another name" in reason(second)


@pytest.mark.long
def test_two_controls_on_one_folder_record_a_name_once(control: Control, until: Callable[..., None]) -> None:
    with Control(control.store.root).serving(until) as other:
        assert control.start("one").status_code == 201
        assert other.start("one").status_code == 409
        assert other.client.post("/v1/sessions/one/recover", headers=MAY).status_code == 409
        assert other.client.post("/v1/sessions/one/stop", headers=MAY).status_code == 202
    assert control.store.folder("one").stop_request() is not None


def report(control: Control, name: str, host: str, **about: Any) -> None:
    """A control on that host reports a session that it records."""
    golden = wire.decode(topics.SESSION, (GOLDEN / "v1.10" / "SessionState.json").read_bytes())
    state = msgspec.structs.replace(golden, name=name, state="recording", host=host, **about)
    control.book.update(topics.SESSION, name, state, b"", 0.0)


def test_a_name_that_another_control_records_elsewhere_is_refused(control: Control) -> None:
    report(control, "far", "far-away")
    response = control.start("far")
    assert response.status_code == 409
    assert "far-away" in reason(response)


@pytest.mark.long
def test_a_session_whose_folder_is_gone_can_be_deleted(control: Control) -> None:
    """The bus has it as one of this host: it is taken off the bus, which needs the brokers."""
    report(control, "gone", socket.gethostname())
    control.bus.away = True
    assert control.client.delete("/v1/sessions/gone", headers=MAY).status_code == 503
    control.bus.away = False
    assert control.client.delete("/v1/sessions/gone", headers=MAY).status_code == 204
    assert control.client.get("/v1/sessions").json()["sessions"] == []
    assert control.bus.states == [("gone", None)]
    assert control.bus.audited == [("session_delete", "session:gone", "ada@login", "")]
    assert control.client.delete("/v1/sessions/gone", headers=MAY).status_code == 404


@pytest.mark.long
def test_a_session_of_another_host_is_left_to_the_control_there(control: Control) -> None:
    """The refusal names the host."""
    report(control, "far", "far-away")
    response = control.client.delete("/v1/sessions/far", headers=MAY)
    assert (response.status_code, reason(response)) == (409, "'far' is on far-away; delete it with the control there")
    response = control.client.post("/v1/sessions/far/stop", headers=MAY)
    assert response.status_code == 404
    assert "far-away" in reason(response)
    assert control.bus.states == control.bus.audited == []


@pytest.mark.long
def test_a_life_from_start_to_deletion(control: Control) -> None:
    """Each step is told with who asked for it."""
    assert control.start("tuesday", job="j", all=False).json()["job"] == "j"
    assert control.client.delete("/v1/sessions/tuesday", headers=MAY).status_code == 409
    assert control.client.post("/v1/sessions/tuesday/stop", json={"because": "enough"}, headers=MAY).status_code == 202
    folder = control.store.folder("tuesday")
    assert folder.stop_request() is not None
    control.recorders.end(folder, "stopped")
    assert control.client.get("/v1/sessions/tuesday").json()["state"] == "stopped"
    assert control.client.post("/v1/sessions/tuesday/stop", headers=MAY).status_code == 409
    assert control.client.post("/v1/sessions/tuesday/recover", headers=MAY).status_code == 409
    assert control.client.delete("/v1/sessions/tuesday", headers=MAY).status_code == 204
    assert control.client.get("/v1/sessions/tuesday").status_code == 404
    assert [row[0] for row in control.bus.audited] == ["session_start", "session_stop", "session_delete"]
    assert {row[1:3] for row in control.bus.audited} == {("session:tuesday", "ada@login")}
    assert control.bus.states == [("tuesday", None)]


@pytest.mark.long
def test_a_session_whose_recorder_is_gone_is_interrupted_and_recovered(control: Control) -> None:
    control.start("cut")
    control.recorders.end(control.store.folder("cut"), "")
    assert control.client.get("/v1/sessions/cut").json()["state"] == "interrupted"
    assert control.client.post("/v1/sessions/cut/stop", headers=MAY).status_code == 409
    assert control.client.post("/v1/sessions/cut/recover", headers=MAY).status_code == 202
    assert control.recorders.finishing == ["cut"]


class Process:
    """In place of a recorder that has not written its first manifest: it holds the lock and does no more."""

    started: ClassVar[list["Process"]] = []

    def __init__(self, command: list[str], *, pass_fds: tuple[int], **_: Any) -> None:
        self.lock = os.dup(pass_fds[0])
        self.started.append(self)

    def poll(self) -> None:
        """It lives."""


@pytest.mark.long
@pytest.mark.parametrize("left", ["interrupted", "failed"])
def test_a_session_that_is_recovered_is_live_from_the_answer_on(
    control: Control, monkeypatch: pytest.MonkeyPatch, left: str
) -> None:
    """Its recorder takes a second to write a manifest: until then the session can be stopped and not deleted."""
    control.start("cut")
    control.recorders.end(control.store.folder("cut"), left)
    monkeypatch.setattr(control.changes, "_launcher", Launcher({}, None))
    monkeypatch.setattr("control.launcher.subprocess.Popen", Process)
    answer = control.client.post("/v1/sessions/cut/recover", headers=MAY)
    recovered = answer.json()
    assert (answer.status_code, recovered["state"], recovered["reason"]) == (202, "starting", "")
    assert recovered["stopped_s"] is None
    assert control.client.post("/v1/sessions/cut/stop", headers=MAY).json()["state"] == "starting"
    assert control.client.delete("/v1/sessions/cut", headers=MAY).status_code == 409
    os.close(Process.started.pop().lock)
    assert control.client.get("/v1/sessions/cut").json()["state"] == "interrupted"


@pytest.mark.long
def test_a_control_that_starts_goes_on_with_what_nobody_stopped(control: Control) -> None:
    for name in ("cut", "ended", "kept"):
        control.start(name)
    control.recorders.end(control.store.folder("cut"), "")
    control.recorders.end(control.store.folder("ended"), "stopped")
    again = Control(control.store.root)
    assert again.changes.go_on() == (["cut"], [])
    again.recorders.close()


@pytest.mark.long
@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"format": 2, "state": 1}', b'{"format": 1}', b"\xff\0", b"[" * 10_000]
)
def test_a_manifest_that_cannot_be_read_is_told_and_can_be_deleted(control: Control, content: bytes) -> None:
    control.start("odd")
    folder = control.store.folder("odd")
    control.recorders.end(folder, "")
    folder.manifest.write_bytes(content)
    told = control.client.get("/v1/sessions/odd")
    assert told.status_code == 409
    assert "manifest.json" in reason(told)
    (listed,) = control.client.get("/v1/sessions").json()["sessions"]
    assert listed["state"] == "damaged"
    assert control.client.get("/v1/sessions/odd/export").status_code == 409
    assert control.client.delete("/v1/sessions/odd", headers=MAY).status_code == 204


@pytest.mark.long
@pytest.mark.parametrize(
    "runs",
    [[[]], [[1]], [[0, 4], []], [[0, 4], [6]], [[1, 2, 3]], [[5, 1]], [[3, 4], [1, 2]], [[0, 5], [5, 9]]],
)
def test_a_manifest_whose_runs_of_numbers_are_none_is_damaged(control: Control, runs: list[Any]) -> None:
    """It is told as such by every route, and never a server error."""
    control.start("odd")
    folder = control.store.folder("odd")
    manifest = msgspec.json.decode(folder.manifest.read_bytes())
    proof = {"topic": "t", "producer": "collect-1", "runs": runs, "kept": 1}
    folder.manifest.write_bytes(msgspec.json.encode({**manifest, "proof": [proof]}))
    control.recorders.end(folder, "")
    for method, path in (("GET", ""), ("POST", "/stop"), ("POST", "/recover"), ("GET", "/stat"), ("GET", "/export")):
        answer = control.client.request(method, f"/v1/sessions/odd{path}", headers=MAY)
        assert (path, answer.status_code, "odd/manifest.json: damaged" in reason(answer)) == (path, 409, True)
    (listed,) = control.client.get("/v1/sessions").json()["sessions"]
    assert listed["state"] == "damaged"
    assert control.recorders.finishing == []
    assert control.client.delete("/v1/sessions/odd", headers=MAY).status_code == 204


@pytest.mark.slow
def test_a_manifest_from_the_future_is_refused_not_misread(control: Control) -> None:
    control.start("late")
    folder = control.store.folder("late")
    control.recorders.end(folder, "stopped")
    manifest = msgspec.json.decode(folder.manifest.read_bytes())
    folder.manifest.write_bytes(msgspec.json.encode({**manifest, "format": 99, "state": {"of": "tomorrow"}}))
    assert "of version 99" in reason(control.client.get("/v1/sessions/late"))


@pytest.mark.long
def test_a_segment_that_was_changed_is_not_exported(control: Control) -> None:
    control.start("bent")
    folder = control.store.folder("bent")
    (folder.path / "segment-000001.jsonl.gz").write_bytes(b"no gzip")
    manifest: Manifest = read_manifest(folder.manifest)
    manifest.segments = [
        Segment(file="segment-000001.jsonl.gz", messages=1, bytes=7, sha256="0" * 64, first_ms=0, last_ms=0)
    ]
    folder.manifest.write_bytes(msgspec.json.encode(manifest))
    control.recorders.end(folder, "stopped")
    response = control.client.get("/v1/sessions/bent/export")
    assert response.status_code == 409
    assert "SHA-256" in reason(response)


@pytest.mark.long
def test_a_folder_that_was_copied_is_a_session_of_its_own_name(control: Control) -> None:
    """Under a name that no session may have it is none, and the routes over all sessions answer."""
    original = recorded(control, "tuesday")
    for name in ("tuesday (copy)", "tuesday~", "tuesday.2"):
        shutil.copytree(original.path, original.path.with_name(name))
    shutil.rmtree(original.path)
    for path in ("/status", "/metrics", "/profiling/sessions"):
        assert control.client.get(path).status_code == 200
    (listed,) = control.client.get("/v1/sessions").json()["sessions"]
    assert listed["name"] == control.client.get("/v1/sessions/tuesday.2").json()["name"] == "tuesday.2"
    assert control.client.get("/v1/sessions/tuesday.2/export").status_code == 200


def recorded(control: Control, name: str, messages: int = 100) -> SessionFolder:
    """A session that is stopped, with one segment."""
    control.start(name)
    folder = control.store.folder(name)
    writer = SegmentWriter(folder.path, 1, time.monotonic)
    for number in range(messages):
        value = b'{"x":"' + os.urandom(400).hex().encode() + b'"}'
        writer.write(Message("paceline.finding.v1", 0, number, 1_800_000_000_000 + number, None, value), "k")
    manifest = read_manifest(folder.manifest)
    segment = writer.end()
    manifest.segments = [segment] if segment else []
    folder.replace(folder.manifest, msgspec.json.encode(manifest))
    control.recorders.end(folder, "stopped")
    return folder


@pytest.mark.long
@pytest.mark.parametrize("value", ["bytes=zz", "lines=0-", "bytes=999999999999-", "bytes=0-10"])
def test_no_range_leaves_a_file_behind(control: Control, value: str, until: Callable[..., None]) -> None:
    """An export is sent whole, whatever part of it is asked for."""
    recorded(control, "a")
    before = set(control.store.root.iterdir())
    for _ in range(10):
        answer = control.client.get("/v1/sessions/a/export", headers={"Range": value})
        assert (answer.status_code, len(answer.content.splitlines())) == (200, 100)
    assert set(control.store.root.iterdir()) == before
    until(lambda: control.reading.room.held == 0)


@pytest.mark.slow
def test_readers_that_leave_free_what_they_held(control: Control, until: Callable[..., None]) -> None:
    """Of more than may be held at a time, the others are told so; none of the files has a name."""
    recorded(control, "a", 12_000)
    before = set(control.store.root.iterdir())
    url = control.client.base_url
    readers = []
    for _ in range(MOST_SENT):
        reader = socket.socket()
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.connect((url.host, url.port))
        reader.sendall(b"GET /v1/sessions/a/export HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert reader.recv(12) == b"HTTP/1.1 200"
        readers.append(reader)
    assert control.reading.room.held == MOST_SENT
    assert set(control.store.root.iterdir()) == before
    refused = control.client.get("/v1/sessions/a/export")
    assert (refused.status_code, "being sent" in reason(refused)) == (503, True)
    for reader in readers:
        reader.close()
    until(lambda: control.reading.room.held == 0)
    assert control.client.get("/v1/sessions/a/export").status_code == 200


@pytest.mark.slow
def test_exports_leave_a_recording_its_room(control: Control, until: Callable[..., None]) -> None:
    """Where little is free, or exports would take more than is left."""
    recorded(control, "a", 12_000)
    for free, status in ((LEAST_FREE_BYTES - 1, 507), (LEAST_FREE_BYTES, 200)):
        control.reading.room._free_bytes = lambda free=free: free  # type: ignore[misc]
        assert control.client.get("/v1/sessions/a/export").status_code == status
    shrinking = iter([2**40, 2**40, *[LEAST_FREE_BYTES - 1] * 1000])
    control.reading.room._free_bytes = lambda: next(shrinking)
    answer = control.client.get("/v1/sessions/a/export")
    assert (answer.status_code, "MiB are free" in reason(answer)) == (507, True)
    until(lambda: control.reading.room.held == 0)


@pytest.mark.long
def test_an_export_ends_with_the_service_and_with_its_time(control: Control) -> None:
    recorded(control, "a")
    control.ending.set()
    assert control.client.get("/v1/sessions/a/export").status_code == 503
    assert control.client.get("/v1/sessions/a/stat").status_code == 503
    control.ending.clear()
    seconds = itertools.count(0, 1000)
    control.reading._clock = lambda: float(next(seconds))
    assert "more than 600 s" in reason(control.client.get("/v1/sessions/a/export"))


@pytest.mark.long
def test_a_damaged_session_has_no_numbers_and_says_why(control: Control) -> None:
    """A wrong byte, and a segment that is gone."""
    folder = recorded(control, "a")
    (segment,) = folder.path.glob("segment-*")
    content = bytearray(segment.read_bytes())
    content[100] ^= 1
    segment.write_bytes(content)
    answer = control.client.get("/v1/sessions/a/stat")
    assert (answer.status_code, "SHA-256" in reason(answer)) == (409, True)
    segment.unlink()
    answer = control.client.get("/v1/sessions/a/stat")
    assert (answer.status_code, "No such file" in reason(answer)) == (409, True)


@pytest.mark.long
def test_sessions_are_read_for_two_at_a_time(control: Control) -> None:
    """Numbers cost as much as a file."""
    recorded(control, "a")
    with control.reading.room.work(), control.reading.room.work():
        assert control.client.get("/v1/sessions/a/stat").status_code == 503
        assert control.client.get("/v1/sessions/a/export").status_code == 503
    assert control.client.get("/v1/sessions/a/stat").status_code == 200


@pytest.mark.slow
def test_of_many_who_start_the_last_session_one_may(control: Control) -> None:
    """Sessions are counted while one is started, not before."""
    for number in range(MOST_RECORDING - 1):
        control.start(f"s{number}")
    with ThreadPoolExecutor(8) as pool:
        codes = list(pool.map(lambda number: control.start(f"more{number}").status_code, range(8)))
    assert sorted(codes) == [201] + [409] * 7


@pytest.mark.slow
@pytest.mark.parametrize("left", ["interrupted", "failed", ""])
def test_of_many_who_recover_the_last_session_one_may(control: Control, left: str) -> None:
    """A session counts from when it has a recorder, though its manifest tells of none before that writes one."""
    for name in ("a", "b", "c"):
        control.start(name)
        control.recorders.end(control.store.folder(name), left)
    for number in range(MOST_RECORDING - 1):
        control.start(f"s{number}")

    def recover(name: str) -> int:
        return control.client.post(f"/v1/sessions/{name}/recover", headers=MAY).status_code

    with ThreadPoolExecutor(3) as pool:
        assert sorted(pool.map(recover, ("a", "b", "c"))) == [202, 409, 409]
    assert control.start("more").status_code == 409
    (recovered,) = control.recorders.finishing
    control.recorders.end(control.store.folder(recovered), "stopped")
    assert control.start("more").status_code == 201


@pytest.mark.slow
def test_a_control_that_starts_goes_on_with_as_many_as_it_may(control: Control) -> None:
    """Those that have a recorder count, and what is left is told; once others have ended there is room for it."""
    names = [f"s{number:02}" for number in range(MOST_RECORDING + 4)]
    for name in names[:MOST_RECORDING]:
        control.start(name)
    for name in names[2:MOST_RECORDING]:
        control.recorders.end(control.store.folder(name), "interrupted")
    for name in names[MOST_RECORDING:]:
        control.start(name)
        control.recorders.end(control.store.folder(name), "interrupted")
    again = Control(control.store.root)
    assert again.changes.go_on() == (names[2:MOST_RECORDING], names[MOST_RECORDING:])
    assert again.changes.go_on() == ([], names[MOST_RECORDING:])
    again.recorders.end(again.store.folder("s05"), "stopped")
    assert again.changes.go_on() == (names[MOST_RECORDING:][:1], names[MOST_RECORDING:][1:])
    again.recorders.close()


@pytest.mark.parametrize("length", [LONG, 43, 200])
def test_who_guesses_at_a_long_token_locks_nobody_out(length: int) -> None:
    """Behind a proxy and on loopback all clients have one address: the right token is taken whatever came before."""
    token = "t" * length
    allowed = guard(token, CONTROL_TOKEN, lambda: 0.0)
    request = Request({"type": "http", "client": ("127.0.0.1", 1), "headers": []})
    for number in range(100):
        with pytest.raises(RefusedError) as refused:
            allowed(request, f"Bearer {number}")
        assert refused.value.status == 401
        allowed(request, f"Bearer {token}")


def test_a_token_that_control_makes_is_long() -> None:
    """Nobody is locked out where no token was chosen."""
    assert len(secrets.token_urlsafe(control_access._TOKEN_BYTES)) >= LONG


def test_a_short_token_is_guessed_ten_times_and_no_more(control: Control) -> None:
    """Not even a right one is looked at then, until a while later; requests without any are no guesses."""
    now_s = [0.0]
    allowed = guard(TOKEN, CONTROL_TOKEN, lambda: now_s[0])
    request = Request({"type": "http", "client": ("10.0.0.7", 1), "headers": []})
    other = Request({"type": "http", "client": ("10.0.0.8", 1), "headers": []})

    def status(token: str | None, asker: Request = request) -> int:
        try:
            allowed(asker, token)
        except RefusedError as error:
            return error.status
        return 200

    assert {status(None) for _ in range(100)} == {401}
    assert [status(f"Bearer guess{number}") for number in range(12)] == [401] * 10 + [429] * 2
    assert status(f"Bearer {TOKEN}") == 429
    assert status(f"Bearer {TOKEN}", other) == 200, "another address is not kept out"
    now_s[0] += 6.0
    assert status(f"Bearer {TOKEN}") == 200


@pytest.mark.long
def test_a_format_that_nobody_knows_is_refused(control: Control) -> None:
    control.start()
    for path in ("export?format=pickle", "plot?format=exe"):
        response = control.client.get(f"/v1/sessions/s/{path}")
        assert response.status_code == 422
        assert "there are" in reason(response)


@pytest.mark.slow
def test_an_empty_session_is_exported_in_every_format(control: Control) -> None:
    control.start()
    for path in ("jsonl", "frames", "parquet", "csv"):
        assert control.client.get(f"/v1/sessions/s/export?format={path}").status_code == 200
    for path in ("html", "png", "pdf"):
        assert control.client.get(f"/v1/sessions/s/plot?format={path}").status_code == 200
    assert control.client.get("/v1/sessions/s/stat").json()["gpus"] == 0
    assert not list(control.store.root.glob(".export-*"))


def suggestion() -> Suggestion:
    """One that is new."""
    golden = sorted(GOLDEN.glob("v1*/Suggestion.json"))[0].read_bytes()
    return msgspec.structs.replace(wire.decode(topics.SUGGESTION, golden), state="new")


@pytest.mark.long
def test_a_suggestion_is_accepted_by_a_command(control: Control) -> None:
    one = suggestion()
    control.book.update(topics.SUGGESTION, one.id, one, b"", 0.0)
    response = control.client.post(f"/v1/suggestions/{one.id}/accept", json={"because": "drained"}, headers=MAY)
    assert response.status_code == 202
    assert control.bus.commands == [(f"suggestion:{one.id}", "accept", {"because": "drained"}, "ada@login")]
    assert control.bus.clusters == [one.cluster], "whoever advises that cluster hears it"


@pytest.mark.long
def test_what_cannot_be_said_to_a_suggestion_is_refused(control: Control) -> None:
    one = suggestion()
    assert control.client.post(f"/v1/suggestions/{one.id}/accept", headers=MAY).status_code == 404
    over = msgspec.structs.replace(one, state="verified")
    control.book.update(topics.SUGGESTION, one.id, over, b"", 0.0)
    response = control.client.post(f"/v1/suggestions/{one.id}/accept", headers=MAY)
    assert response.status_code == 409
    assert "verified" in reason(response)
    assert control.client.post(f"/v1/suggestions/{one.id}/praise", headers=MAY).status_code == 404


def test_brokers_that_are_away_are_told(control: Control) -> None:
    one = suggestion()
    control.book.update(topics.SUGGESTION, one.id, one, b"", 0.0)
    control.bus.away = True
    assert control.client.post(f"/v1/suggestions/{one.id}/dismiss", headers=MAY).status_code == 503


@pytest.mark.long
def test_what_came_of_a_command_is_told(control: Control) -> None:
    golden = wire.decode(topics.AUDIT, (GOLDEN / "v1" / "AuditEntry.json").read_bytes())
    entry: AuditEntry = msgspec.structs.replace(golden, command_id="abc")
    control.book.update(topics.AUDIT, "", entry, b"", 0.0)
    assert control.client.get("/v1/commands/abc").json()["answers"][0]["outcome"] == entry.outcome
    assert control.client.get("/v1/commands/other").json()["answers"] == []
    assert len(control.client.get("/v1/audit").json()["entries"]) == 1


@pytest.mark.long
def test_thresholds_are_checked_and_told(control: Control) -> None:
    path = "/v1/jobs/resnet/thresholds"
    for values in ({"sigmas": -1.0}, {"other": 1.0}):
        assert control.client.put(path, json={"values": values}, headers=MAY).status_code == 422
    assert control.client.put(path, content=b'{"values": {"sigmas": NaN}}', headers=MAY).status_code == 422
    assert control.client.put(path, json={"values": {"sigmas": 4.0}}, headers=MAY).status_code == 200
    ((topic, event),) = control.bus.events
    assert (topic, event.job, event.values) == (topics.THRESHOLD, "resnet", {"sigmas": 4.0})
    control.book.update(topic, "resnet", event, b"", 0.0)
    assert control.client.get(path).json()["values"] == {"sigmas": 4.0}


def describe(control: Control, job: str, **about: Any) -> None:
    """A node has described its part of a job of four ranks."""
    golden = wire.decode(topics.JOB, sorted(GOLDEN.glob("v1*/JobDescribed.json"))[0].read_bytes())
    told = {"node": "n1", "attempt": 0, "world_size": 4, "started_s": 10.0, "ended_s": None, "labels": {}, "places": []}
    event = msgspec.structs.replace(golden, job=job, **{"cluster": "default", **told, **about})
    control.book.update(topics.JOB, "", event, b"", 0.0)


@pytest.mark.long
def test_a_job_of_another_cluster_is_reached_there(control: Control) -> None:
    """Brokers may serve several clusters; a job is where it was described, and unknown ones are ours."""
    describe(control, "resnet", cluster="east")
    for job, cluster in (("resnet", "east"), ("unknown", "default")):
        answer = control.client.put(f"/v1/jobs/{job}/thresholds", json={"values": {"sigmas": 4.0}}, headers=MAY)
        assert control.bus.events[-1][1].cluster == answer.json()["cluster"] == control.bus.clusters.pop() == cluster
    control.client.post("/v1/jobs/resnet/captures", json={"ranks": [0]}, headers=MAY)
    assert control.bus.clusters == ["east"]


@pytest.mark.long
def test_a_job_whose_name_holds_slashes_is_reached(control: Control) -> None:
    """Thresholds, plan and captures, also where the name ends as a route does; an empty name is none."""
    for job in ("lab/llm-70b", "lab/plan"):
        path = f"/v1/jobs/{quote(job, safe='')}"
        describe(control, job)
        plan = msgspec.structs.replace(plan_of("default", 16, 16), job=job)
        control.book.update(topics.PLAN, job, plan, b"", 0.0)
        sent = {"values": {"sigmas": 4.0}}
        assert control.client.put(f"{path}/thresholds", json=sent, headers=MAY).status_code == 200
        assert control.client.get(f"{path}/thresholds").json()["job"] == job
        assert control.client.get(f"{path}/plan").json()["job"] == job
        assert control.client.put(f"{path}/plan", json={"shares": [20, 12]}, headers=MAY).status_code == 202
        assert control.client.post(f"{path}/captures", json={"ranks": [0]}, headers=MAY).json()["job"] == job
    assert [event.job for _, event in control.bus.events] == ["lab/llm-70b"] * 2 + ["lab/plan"] * 2
    assert control.client.put("/v1/jobs//thresholds", json=sent, headers=MAY).status_code == 422
    assert "/v1/jobs/{job}/thresholds" in control.client.get("/openapi.json").json()["paths"]


def plan_of(cluster: str, *shares: int) -> BalancePlan:
    return BalancePlan(
        cluster=cluster, job="train", attempt=0, time_s=1.0, version=4, shares=[*shares], made_by="streams"
    )


@pytest.mark.long
def test_a_name_that_two_clusters_have_is_refused_with_both(control: Control) -> None:
    """Of what changes or shows a job; nothing is published."""
    for cluster, size in (("east", 8), ("west", 4)):
        describe(control, "train", cluster=cluster, world_size=size)
        control.book.update(topics.PLAN, "train", plan_of(cluster, 16, 16), b"", 0.0)
    for method, path, body in (
        ("POST", "/v1/jobs/train/captures", {"ranks": [6]}),
        ("PUT", "/v1/jobs/train/thresholds", {"values": {"sigmas": 4.0}}),
        ("GET", "/v1/jobs/train/thresholds", None),
        ("PUT", "/v1/jobs/train/plan", {"shares": [20, 12]}),
        ("GET", "/v1/jobs/train/plan", None),
        ("POST", "/v1/sessions", {"name": "s", "job": "train"}),
    ):
        response = control.client.request(method, path, json=body, headers=MAY)
        assert (path, response.status_code) == (path, 409)
        assert response.json()["detail"][0]["field"] == "cluster"
        assert reason(response) == "'train' runs in east and west: name one with cluster=..."
    assert control.bus.events == control.bus.commands == control.store.names() == []


@pytest.mark.long
def test_of_two_jobs_of_one_name_the_one_whose_cluster_is_named_is_meant(control: Control) -> None:
    for cluster, size in (("east", 8), ("west", 4)):
        describe(control, "train", cluster=cluster, world_size=size)
        control.book.update(topics.PLAN, "train", plan_of(cluster, *[32 // size] * size), b"", 0.0)
    path = "/v1/jobs/train"

    def captured(cluster: str) -> Any:
        return control.client.post(f"{path}/captures", json={"ranks": [6], "cluster": cluster}, headers=MAY)

    begun = captured("east").json()
    assert (begun["cluster"], begun["ranks"][0]["rank"]) == ("east", 6)
    assert reason(captured("west")) == "no rank 6 in 'train': ranks run from 0 to 3"
    assert reason(captured("north")) == "no job 'train' in north; running jobs: train in west, train in east"
    for cluster, sigmas in (("east", 4.0), ("west", 5.0)):
        body = {"values": {"sigmas": sigmas}, "cluster": cluster}
        assert control.client.put(f"{path}/thresholds", json=body, headers=MAY).status_code == 200
        control.book.update(topics.THRESHOLD, "train", control.bus.events[-1][1], b"", 0.0)
    assert control.client.get(f"{path}/thresholds?cluster=east").json()["values"] == {"sigmas": 4.0}
    body = {"shares": [9, 7, 8, 8], "cluster": "west"}
    assert control.client.put(f"{path}/plan", json=body, headers=MAY).json()["cluster"] == "west"
    assert len(control.client.get(f"{path}/plan?cluster=east").json()["shares"]) == 8
    assert control.bus.clusters == ["east", "east", "west", "west"]


@pytest.mark.long
def test_of_two_jobs_of_one_name_the_one_that_runs_is_meant(control: Control) -> None:
    """The other has ended, in a later attempt and with fewer ranks."""
    describe(control, "train", cluster="east", world_size=8)
    describe(control, "train", cluster="west", attempt=1, started_s=9.0, ended_s=20.0)
    answer = control.client.post("/v1/jobs/train/captures", json={"ranks": [6]}, headers=MAY)
    assert (answer.status_code, answer.json()["cluster"]) == (202, "east")
    named = control.client.post("/v1/jobs/train/captures", json={"ranks": [0], "cluster": "west"}, headers=MAY)
    assert (named.status_code, reason(named)) == (409, "'train' has ended in west; running job: train in east")
    assert control.start("a", all=False, job="train").json()["cluster"] == "east"
    begun = control.start("b", all=False, job="train", cluster="west").json()
    assert begun["warnings"] == [
        "job 'train' has ended in west; it is recorded as soon as it reports; running job: train in east"
    ]
    assert read_definition(control.store.folder("b").definition).only_cluster == "west"
    assert control.bus.clusters == ["east"]


@pytest.mark.long
def test_a_plan_keeps_the_ranks_and_the_batch(control: Control) -> None:
    path = "/v1/jobs/resnet/plan"
    assert control.client.put(path, json={"shares": [8, 8]}, headers=MAY).status_code == 404
    plan = BalancePlan(
        cluster="default", job="resnet", attempt=1, time_s=1.0, version=4, shares=[16, 16], made_by="streams"
    )
    control.book.update(topics.PLAN, "resnet", plan, b"", 0.0)
    for shares in ([32], [16, 15], [32, 0]):
        assert control.client.put(path, json={"shares": shares}, headers=MAY).status_code == 422
    assert control.client.put(path, json={"shares": [20, 12]}, headers=MAY).status_code == 202
    ((_, event),) = control.bus.events
    assert (event.version, event.attempt, event.shares, event.made_by) == (5, 1, [20, 12], "control")


@pytest.mark.long
def test_a_bad_plan_on_the_bus_does_not_keep_a_person_from_proposing(control: Control) -> None:
    """What the ranks follow counts; the proposal is for their run, and of a version that they take."""
    plan = BalancePlan(
        cluster="default", job="resnet", attempt=1, time_s=1.0, version=4, first_batch=9, shares=[16, 16],
        made_by="streams", run=5,
    )  # fmt: skip
    before = msgspec.structs.replace(plan, run=4, version=90)
    far = msgspec.structs.replace(plan, version=2**53, first_batch=None)
    for event in (before, plan, far, msgspec.structs.replace(far, version=5, run=4)):
        control.book.update(topics.PLAN, "resnet", event, b"", 0.0)
    assert control.client.put("/v1/jobs/resnet/plan", json={"shares": [20, 12]}, headers=MAY).status_code == 202
    ((_, event),) = control.bus.events
    assert (event.version, event.run) == (5, 5)
    control.book.update(topics.PLAN, "resnet", msgspec.structs.replace(plan, version=2**53), b"", 0.0)
    assert control.client.put("/v1/jobs/resnet/plan", json={"shares": [20, 12]}, headers=MAY).status_code == 409


@pytest.mark.long
def test_gswarms_routes_start_and_stop(control: Control) -> None:
    client = control.client
    assert client.get("/").status_code == 200
    assert client.get("/status").json()["is_profiling"] is False
    assert client.post("/profiling/stop", headers=MAY).status_code == 409
    name = client.post("/profiling/start", json={"freq": 5, "host": "ignored"}, headers=MAY).json()["name"]
    assert client.get(f"/v1/sessions/{name}").json()["interval_s"] == pytest.approx(0.2)
    assert client.get("/status").json()["sessions"] == [name]
    client.post("/profiling/start", json={"name": "second"}, headers=MAY)
    assert client.post("/profiling/stop", headers=MAY).status_code == 409
    assert client.post("/profiling/stop", json={"name": "second"}, headers=MAY).json()["success"] is True
    assert {row["name"] for row in client.get("/profiling/sessions").json()["sessions"]} == {name, "second"}


@pytest.mark.long
def test_a_client_that_falls_silent_is_unhealthy(control: Control) -> None:
    for node, ago_s in (("awake", 1.0), ("silent", 31.0)):
        event = host_samples(node, f"collect-{node}", 0)
        control.book.update(topics.HOST, node, event, wire.encode(event), time.time() - ago_s)
    told = {row["client_id"]: row["healthy"] for row in control.client.get("/clients").json()["clients"]}
    assert told == {"awake": True, "silent": False}
    assert control.client.get("/metrics/latest").json()["gpu_id"] == []


@pytest.mark.long
def test_a_foreign_name_is_refused(until: Callable[..., None]) -> None:
    parts = Parts([], lambda: None, Meters(lambda: True, lambda: 0, list, list), names=("127.0.0.1",))
    with served(application(parts), until) as address:
        assert httpx.get(f"{address}/healthz").status_code == 200
        assert httpx.get(f"{address}/healthz", headers={"host": "evil.example"}).status_code == 403


@pytest.mark.long
def test_those_who_ask_for_all_sessions_have_each_manifest_read_once(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that has a hundred thousand producers takes a second to read."""
    for name in ("a", "b", "c"):
        control.start(name)
    control.recorders.end(control.store.folder("c"), "stopped")
    read: list[str] = []

    def counted(path: Path) -> Manifest:
        read.append(path.parent.name)
        return read_manifest(path)

    monkeypatch.setattr("control.sessions.store.read_manifest", counted)
    for path in ("/v1/sessions", "/status", "/profiling/sessions", "/metrics") * 2:
        assert control.client.get(path).status_code == 200
    assert max(map(read.count, read)) == 1


@pytest.mark.long
def test_metrics_tell_sessions_by_state(control: Control) -> None:
    control.start("one")
    text = control.client.get("/metrics").text
    assert 'paceline_control_sessions{state="starting"} 1.0' in text


@pytest.mark.long
def test_metrics_of_this_disk_leave_out_sessions_of_other_controls(control: Control) -> None:
    """Those are on another disk; the number of sessions counts them."""
    report(control, "far", "far-away", bytes=7, missing=5)
    text = control.client.get("/metrics").text
    assert 'paceline_control_sessions{state="recording"} 1.0' in text
    assert "paceline_control_session_bytes 0.0" in text
    assert "paceline_control_session_missing_messages 0.0" in text


@pytest.mark.slow
def test_the_interface_keeps_its_word(control: Control) -> None:
    """Whatever is sent to any route, the answer is one that OpenAPI declares, and never a server error."""
    import schemathesis

    from experiments.fuzzing import http

    schema = schemathesis.openapi.from_url(f"{control.client.base_url}/openapi.json")
    operations = http.operations("control", schema)
    assert set(operations) == {name for name in http.names() if name.startswith("http control ")}
    assert len(operations) >= 25
    for operation in operations.values():
        assert http.ask(operation, 8, 0) >= 1


@pytest.mark.long
def test_a_capture_of_what_there_is_not_is_refused_with_what_there_is(control: Control) -> None:
    """Of an unknown job, one that has ended, and ranks beyond the last; nothing is asked of anybody."""

    def refused(job: str, *ranks: int) -> tuple[int, str]:
        response = control.client.post(f"/v1/jobs/{job}/captures", json={"ranks": ranks}, headers=MAY)
        return response.status_code, response.json()["detail"][0]["reason"]

    assert refused("nope", 0) == (404, "no job 'nope'; there is no running job")
    describe(control, "resnet")
    describe(control, "past")
    describe(control, "past", ended_s=20.0)
    assert refused("nope", 0) == (404, "no job 'nope'; running job: resnet")
    assert refused("past", 0) == (409, "'past' has ended; running job: resnet")
    assert refused("resnet", 2, 5, 4) == (422, "no rank 4, 5 in 'resnet': ranks run from 0 to 3")
    assert control.bus.commands == []
    # A later attempt is smaller; what an earlier one says again changes nothing, and a new run of that name counts.
    describe(control, "resnet", attempt=1, world_size=2, started_s=30.0)
    describe(control, "resnet")
    assert refused("resnet", 2) == (422, "no rank 2 in 'resnet': ranks run from 0 to 1")
    describe(control, "past", started_s=50.0, world_size=0)
    assert control.client.post("/v1/jobs/past/captures", json={"ranks": [9]}, headers=MAY).status_code == 202


@pytest.mark.long
def test_while_the_brokers_are_away_the_cause_is_the_answer(control: Control) -> None:
    """Nothing begins that could not go on: no session, no recovery, no capture."""
    control.start("s")
    control.recorders.end(control.store.folder("s"), "")
    control.bus.away = True
    for path, body in (
        ("/v1/sessions", {"name": "z", "all": True}),
        ("/v1/sessions/s/recover", None),
        ("/v1/jobs/nope/captures", {"ranks": [0]}),
        ("/profiling/start", {"name": "z"}),
    ):
        response = control.client.post(path, json=body, headers=MAY)
        assert (path, response.status_code) == (path, 503)
        assert response.json()["detail"][0]["reason"] == "no broker at b:9092 (connection refused)"
    assert control.store.names() == ["s"]


@pytest.mark.long
def test_a_session_of_what_nobody_reports_is_begun_with_a_warning(control: Control) -> None:
    """It may begin before the job; a job and nodes that report are begun without a word."""
    describe(control, "resnet")
    control.book.update(topics.HOST, "n1", host_samples("n1", "p", 0), b"", time.time())
    assert control.start("a", all=False, job="resnet").json()["warnings"] == []
    assert control.start("b", all=False, nodes=["n1"]).json()["warnings"] == []
    begun = control.start("c", all=False, job="nope").json()
    assert (begun["state"], begun["job"]) == ("starting", "nope")
    (warning,) = begun["warnings"]
    assert warning == "job 'nope' has not reported yet; it is recorded as soon as it reports; running job: resnet"
    (warning,) = control.start("d", all=False, nodes=["n1", "n7", "n8"]).json()["warnings"]
    assert warning == "not reported yet: nodes 'n7', 'n8'; they are recorded as soon as they report; node: n1"
    assert control.start("e", keep=True).status_code == 422


def trace_piece(capture: str, content: bytes) -> CapturePiece:
    """The trace of rank 2 of resnet, whole."""
    return CapturePiece(
        cluster="default",
        job="resnet",
        attempt=0,
        node="n1",
        rank=2,
        capture=capture,
        pieces=1,
        bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        content=base64.b64encode(content).decode(),
    )


@pytest.mark.long
@pytest.mark.parametrize("set_by_s", [CAPTURE_SILENT_S + 1.0, -8 * 3600.0])
def test_a_wall_clock_that_is_set_moves_no_wait_of_a_capture(
    control: Control, monkeypatch: pytest.MonkeyPatch, set_by_s: float
) -> None:
    """A trace on its way is taken, and that nobody answers is told after a minute."""
    wall_s = [1_800_000_000.0]
    for module in ("control.api.captures.time", "control.following.time"):
        monkeypatch.setattr(module, SimpleNamespace(time=lambda: wall_s[0], monotonic=time.monotonic))
    describe(control, "resnet")

    def ask(*ranks: int) -> str:
        answer = control.client.post("/v1/jobs/resnet/captures", json={"ranks": ranks}, headers=MAY)
        return str(answer.json()["capture"])

    def states(capture: str) -> list[tuple[str, str]]:
        rows = control.client.get(f"/v1/captures/{capture}").json()["ranks"]
        return [(row["state"], row["reason"]) for row in rows]

    golden = wire.decode(topics.AUDIT, (GOLDEN / "v1" / "AuditEntry.json").read_bytes())
    accepted = {"outcome": "accepted", "reason": "3 steps of ranks 2 are being captured"}
    unheard = ask(3)
    control.bus.command_id = "fedcba9876543210"
    capture = ask(2)
    entry = msgspec.structs.replace(golden, command_id=control.bus.command_id, **accepted)
    control.reader._take(topics.AUDIT, [Message(topics.AUDIT.name, 0, 0, 0, None, wire.encode(entry))])
    wall_s[0] += set_by_s
    assert states(capture) == [("running", "")]
    assert states(unheard) == [("asked", "")]
    control.captures.update(trace_piece(capture, b"x"))
    assert states(capture) == [("done", "")]
    control.steady_s += UNHEARD_S + 1.0
    assert states(unheard) == [("failed", NOBODY)]


@pytest.mark.long
def test_a_capture_is_asked_for_and_its_traces_are_handed_out(control: Control) -> None:
    describe(control, "resnet", world_size=8)
    response = control.client.post("/v1/jobs/resnet/captures", json={"ranks": [5, 2, 5], "steps": 3}, headers=MAY)
    assert response.status_code == 202
    capture = response.json()["capture"]
    arguments = {"capture": capture, "ranks": "2,5", "steps": 3}
    assert control.bus.commands == [("job:resnet", "capture", arguments, "ada@login")]
    content = gzip.compress(b"{}")
    control.captures.update(trace_piece(capture, content))
    told = control.client.get(f"/v1/captures/{capture}").json()
    assert [(row["rank"], row["state"]) for row in told["ranks"]] == [(2, "done"), (5, "asked")]
    assert control.client.get(f"/v1/captures/{capture}/traces/2").content == content
    assert control.client.get(f"/v1/captures/{capture}/traces/5").status_code == 409
    assert control.client.get(f"/v1/captures/{capture}/traces/7").status_code == 404
    assert control.client.get("/v1/captures/none").status_code == 404
    assert len(control.client.get("/v1/captures").json()) == 1


@pytest.mark.long
@pytest.mark.parametrize("body", [{}, {"ranks": []}, {"ranks": [-1]}, {"ranks": [2**20]}, {"ranks": [1], "steps": 21}])
def test_a_capture_that_makes_no_sense_is_refused(control: Control, body: dict[str, Any]) -> None:
    assert control.client.post("/v1/jobs/resnet/captures", json=body, headers=MAY).status_code == 422
