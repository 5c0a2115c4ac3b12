"""What ``paceline doctor`` finds in what runs: readers that are behind, refused messages, services, spools."""

import contextlib
import http.server
import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from archive.writer import Writer
from paceline import topics, wire
from paceline.commands import doctor, running_checks, stack_state
from paceline.commands.checks import Check
from paceline.commands.running_checks import answer, keeping_up, kept, refused, waiting
from paceline.delivery.outbox import Message
from paceline.delivery.spool import Spool
from paceline.delivery.spool_depth import Depth, depth
from paceline.events import DeadLetter
from paceline.history.store import open_store
from paceline.kafka import clients
from paceline.kafka.backlog import GroupLag, Held, group_lags, held
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.topic_admin import ensure_topics
from paceline.words import age, many
from tests.archive.conftest import commit
from tests.derived_events import described
from tests.patience import PATIENCE_S

OP = topics.OP.name
#: The embedded broker lets a group begin after half of its session's time, 22 s otherwise.
QUICK_GROUP: dict[str, Any] = {"enable_auto_commit": False, "session_timeout_ms": 6000, "heartbeat_interval_ms": 1000}
LETTER = DeadLetter(reason="no JSON", topic=OP, partition=3, offset=7, time_s=1000.0, excerpt="")


@pytest.mark.parametrize(
    ("state", "behind", "expected"),
    [
        ("Stable", 0, "ok"),
        ("Stable", running_checks.LAG_WARN, "ok"),
        ("Stable", running_checks.LAG_WARN + 1, "warn"),
        ("Unknown", 5, "ok"),
        ("Empty", 0, "warn"),
        ("Empty", 1, "fail"),
    ],
)
def test_a_group_is_judged_by_who_reads_and_how_far(state: str, behind: int, expected: str):
    """Messages that wait for nobody fail; many that wait for somebody are a warning."""
    (found,) = keeping_up([GroupLag(topics.STREAMS_GROUP, state, {OP: behind, topics.HOST.name: 0})])
    assert (found.status, f"{many(behind, 'message')} behind" in found.says) == (expected, True)
    assert (found.fix is None) == (expected == "ok")
    assert ("op " in found.says) == bool(behind)


def group(state: str, lag: int, read: int) -> list[GroupLag]:
    return [GroupLag("paceline-export", "Stable", {OP: 9}, 1), GroupLag(topics.STREAMS_GROUP, state, {OP: lag}, read)]


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (group("Unknown", 5, 100), group("Unknown", 9, 100), True),
        (group("Stable", 5, 100), group("Stable", 9, 101), False),
        (group("Stable", 0, 100), group("Stable", 9, 100), False),
        (group("Stable", 5, 100), group("Stable", 0, 100), False),
        (group("Empty", 5, 100), group("Empty", 9, 100), False),
        ([], group("Stable", 9, 100), False),
    ],
)
def test_a_worker_hangs_where_messages_wait_and_none_is_committed(
    before: list[GroupLag], now: list[GroupLag], expected: bool
):
    """One that has just got its first message, that commits, or that is not there, does not hang."""
    assert running_checks.waits(before, now) == expected


def test_a_worker_that_hangs_fails():
    """A small lag is no comfort where nothing is read; other groups are not blamed for it."""
    export, streams = keeping_up(group("Unknown", 5, 100), stalled=True)
    assert (export.status, streams.status) == ("ok", "fail")
    assert "hangs or has not joined" in streams.says
    assert streams.fix


def test_a_state_that_the_broker_does_not_report_is_said_as_such():
    """The embedded broker lists groups without their states: that is no unknown lag."""
    (found,) = keeping_up([GroupLag(topics.STREAMS_GROUP, "Unknown", {OP: 3})])
    assert "(state not reported by this broker) is 3 messages behind" in found.says
    (found,) = keeping_up([GroupLag(topics.STREAMS_GROUP, "Stable", {OP: 1})])
    assert "(stable) is 1 message behind" in found.says


def test_without_any_worker_ever_that_is_said():
    """A stack whose streams were never started judges nobody."""
    found = keeping_up([GroupLag("paceline-export", "Stable", {})])
    assert [(check.status, check.fix is None) for check in found] == [("ok", True), ("warn", False)]
    assert "paceline streams" in str(found[1].fix)


@pytest.mark.parametrize(("age_s", "expected"), [(10.0, "warn"), (running_checks.RECENT_S + 1.0, "ok")])
def test_the_newest_dead_letter_says_why(age_s: float, expected: str):
    """How many, how long ago, of which topic, and the reason."""
    found = refused(Held(12, wire.encode(LETTER)), LETTER.time_s + age_s)
    assert found.status == expected
    assert all(part in found.says for part in ("12;", age(LETTER.time_s + age_s, LETTER.time_s), OP, "no JSON"))


def test_a_dead_letter_that_is_none_is_told():
    """Whoever may write the topic may write nonsense: it is shown as such."""
    assert refused(Held(1, b"{torn"), 0.0).status == "warn"
    assert refused(Held(1, None), 0.0).status == "warn"
    assert refused(Held(0, None), 0.0).status == "ok"


@pytest.mark.parametrize(("age_s", "expected"), [(1.0, "ok"), (running_checks.STUCK_S + 1.0, "warn")])
def test_a_spool_that_does_not_empty_is_a_warning(age_s: float, expected: str):
    """What has waited for a moment is on its way."""
    found = waiting(Path("/spool"), Depth(5, 640, 1000.0), 1000.0 + age_s)
    assert (found.status, "5 messages, 640 bytes" in found.says) == (expected, True)


def test_the_depth_of_a_spool_is_read_while_it_is_in_use(tmp_path: Path):
    """Messages, bytes and age of all spools below a folder; what is delivered no longer counts."""
    spools = [Spool(tmp_path / name, 10**6) for name in ("a", "b")]
    for number, spool in enumerate(spools):
        for _ in range(3 + number):
            spool.append(Message(OP, b"k", b"value", 0))
    found = depth(tmp_path)
    assert (found.messages, found.bytes) == (7, sum(spool.size for spool in spools))
    assert found.oldest_s is not None
    for spool in spools:
        spool.done(len(spool.read()))
        spool.close()
    assert depth(tmp_path) == Depth(0, 0, None)
    assert running_checks.spool(tmp_path).status == "ok"
    assert running_checks.spool(tmp_path / "nowhere").status == "info"


class Ready(http.server.BaseHTTPRequestHandler):
    """Answers as a service does; the path is the status."""

    def do_GET(self) -> None:
        self.send_response(int(self.path.removeprefix("/")))
        self.end_headers()
        with contextlib.suppress(OSError):  # Nobody reads all of it.
            self.wfile.write(b"joining the group\nmore\n" + b"x" * 10**6)

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def service() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Ready) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("status", "must", "expected"),
    [(200, True, "ok"), (503, True, "fail"), (503, False, "fail"), (404, True, "fail"), (404, False, "warn")],
)
def test_a_service_is_asked_whether_it_is_ready(service: str, status: int, must: bool, expected: str):
    """What it waits for is told; a foreign program on a usual port is no failure."""
    found = answer("streams", f"{service}/{status}", must=must)
    assert (found.status, found.says.endswith("joining the group")) == (expected, True)


@pytest.mark.long
def test_a_process_that_hangs_is_no_service_that_is_not_run(monkeypatch: pytest.MonkeyPatch):
    """Its port takes the connection, and no answer comes."""
    monkeypatch.setattr(running_checks, "ANSWER_S", 0.1)
    monkeypatch.setenv("PACELINE_PATIENCE", "1")
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        found = answer("streams", f"http://127.0.0.1:{hanging.getsockname()[1]}/readyz", must=False)
    assert (found.status, "hangs" in found.says) == ("fail", True)


@pytest.mark.parametrize(("must", "expected"), [(True, "fail"), (False, "info")])
def test_where_nothing_listens_only_a_named_service_is_missed(free_port: Callable[[], int], must: bool, expected: str):
    """Not every node runs every service."""
    assert answer("page", f"http://127.0.0.1:{free_port()}/", must=must).status == expected


def test_services_are_asked_where_up_has_started_them():
    """At the ports of the newest stack, where they must answer; what it does not run, at the usual one."""
    process = stack_state.Process(pid=70, ticks=1, boot="b", namespace="n")
    page, streams = "http://127.0.0.1:28501", "http://127.0.0.1:23456"
    newest = stack_state.Stack(
        process=process, started_s=2.0, detached=True, logs="", addresses={"page": page, "streams": streams}
    )
    older = msgspec.structs.replace(newest, started_s=1.0, addresses={"page": "http://127.0.0.1:1"})
    found = {place.name: place for place in running_checks.places({}, [newest, older], own_tls=True)}
    assert (found["page"].url, found["page"].must) == (f"{page}/_stcore/health", True)
    assert (found["streams"].url, found["streams"].must) == (f"{streams}/readyz", True)
    assert (found["forecaster"].url, found["forecaster"].must) == ("https://127.0.0.1:8000/readyz", False)
    alone = running_checks.places({}, [], own_tls=False)
    assert {place.name: place.url for place in alone} == running_checks.LOCAL
    assert not any(place.must for place in alone)


def test_control_is_asked_where_the_settings_say():
    """Whatever a stack on this machine has."""
    (control,) = [
        place
        for place in running_checks.places({"PACELINE_CONTROL_URL": "https://control.test:28002/"}, [], own_tls=False)
        if place.name == "control"
    ]
    assert (control.url, control.must, control.named) == ("https://control.test:28002/readyz", True, True)


def test_what_is_not_there_is_not_called_ok():
    """A dash in the terminal, and a word of its own in JSON."""
    assert doctor.line(Check("streams", "info", "not run here")).startswith("-     streams")


@pytest.mark.parametrize("url", ["file:///etc/passwd", "http://", "http://[", "http://127.0.0.1:999999/", "nonsense"])
def test_what_is_no_address_fails_in_a_line(url: str):
    """Nothing but HTTP is asked."""
    found = answer("service", url, must=True)
    assert (found.status, "\n" in found.says) == ("fail", False)


@pytest.fixture
def own_topic(broker: BrokerSettings) -> topics.Topic:
    """A topic that no other test reads."""
    made = topics.Topic(f"paceline.test-{uuid.uuid4().hex}.v1", DeadLetter, "none", "raw", topics.HOUR_MS, 2)
    ensure_topics(broker, [made])
    return made


def test_lag_is_what_a_group_has_not_committed(broker: BrokerSettings, own_topic: topics.Topic):
    """Partitions of its topics that it has not committed count whole; a reader without a group is none of ours."""
    name = f"paceline-test-{uuid.uuid4().hex}"
    with contextlib.closing(clients.producer(broker, "test")) as producer:
        for partition in (0, 1):
            for _ in range(4):
                producer.send(own_topic.name, b"x", partition=partition).get(PATIENCE_S)  # type: ignore[call-arg]
    with contextlib.closing(
        clients.consumer(broker, own_topic, group=name, from_beginning=True, **QUICK_GROUP)
    ) as reader:
        while not reader.poll(timeout_ms=500):
            pass
        ends = reader.end_offsets(sorted(reader.assignment()))
        reader.commit()
        done = sum(reader.committed(at) or 0 for at in reader.assignment())
    (found,) = group_lags(broker, name)
    assert done > 0
    assert (found.lag, found.read) == ({own_topic.name: sum(ends.values()) - done}, done)
    assert found.state in ("Empty", "Unknown")


def test_what_a_group_reads_by_its_nature_counts_uncommitted(broker: BrokerSettings, own_topic: topics.Topic):
    """A worker that hangs before it has joined has committed nothing of what waits for it."""
    name = f"paceline-test-{uuid.uuid4().hex}"
    other = topics.Topic(f"paceline.test-{uuid.uuid4().hex}.v1", DeadLetter, "none", "raw", topics.HOUR_MS, 1)
    ensure_topics(broker, [other])
    with contextlib.closing(clients.producer(broker, "test")) as producer:
        for topic in (own_topic, other):
            producer.send(topic.name, b"x", partition=0).get(PATIENCE_S)  # type: ignore[call-arg]
    with contextlib.closing(clients.consumer(broker, other, group=name, from_beginning=True, **QUICK_GROUP)) as reader:
        while not reader.poll(timeout_ms=500):
            pass
        reader.commit()
    (found,) = group_lags(broker, name, {name: [own_topic, other]})
    assert found.lag == {own_topic.name: 1, other.name: 0}


def test_the_newest_message_of_a_topic_is_found(broker: BrokerSettings, own_topic: topics.Topic):
    """How many there are, and the last of them."""
    assert held(broker, own_topic) == Held(0, None)
    mark = uuid.uuid4().hex.encode()
    with contextlib.closing(clients.producer(broker, "test")) as producer:
        for _ in range(600):  # More than one poll brings.
            producer.send(own_topic.name, b"older", partition=0)  # type: ignore[call-arg]
        producer.flush()
        producer.send(own_topic.name, mark, partition=0).get(PATIENCE_S)  # type: ignore[call-arg]
    assert held(broker, own_topic) == Held(601, mark)


@pytest.mark.long
def test_the_sidecars_spools_are_looked_at_without_being_named(tmp_path: Path):
    """Where they are by default, or where the environment says; not where there are to be none."""

    def looked_at(place: str) -> list[str]:
        environ = {"PACELINE_BROKERS": "127.0.0.1:1", "PACELINE_SPOOL_DIR": place}
        return [check.says for check in doctor.examine(None, environ) if check.name == "spool"]

    assert [str(tmp_path) in says for says in looked_at(str(tmp_path))] == [True]
    assert looked_at("none") == []
    assert "no such folder" in looked_at(str(tmp_path / "absent"))[0]
    assert not (tmp_path / "absent").exists(), "asking makes nothing"


@pytest.mark.parametrize(("age_s", "status"), [(0.0, "ok"), (-60.0, "ok"), (7200.0, "warn")])
def test_an_archive_is_well_while_somebody_writes_it(tmp_path: Path, age_s: float, status: str):
    """A clock that is behind is no trouble; what a quiet bus looks like is told with the warning."""
    where = str(tmp_path)
    commit(Writer(open_store(where, {})), [described()])
    newest = open_store(where, {}).newest()
    assert newest is not None
    check = kept(where, newest, newest.time_s + age_s)
    assert (check.status, "1 row in 1 file," in check.says) == (status, True)


def test_an_archive_is_asked_where_the_settings_name_one(tmp_path: Path):
    """Without one there is nothing to say; one that is not there yet, and one that cannot be read, have a mend."""
    assert running_checks.archive({}) == []
    [missing] = running_checks.archive({"PACELINE_ARCHIVE": str(tmp_path / "none")})
    assert (missing.status, missing.fix) == ("warn", f"paceline archive --to {tmp_path / 'none'}")
    (tmp_path / "manifest").mkdir()
    (tmp_path / "manifest" / "000000000001.json.gz").write_bytes(b"no gzip")
    [broken] = running_checks.archive({"PACELINE_ARCHIVE": str(tmp_path)})
    assert (broken.status, bool(broken.fix)) == ("fail", True)
    [foreign] = running_checks.archive({"PACELINE_ARCHIVE": "gs://user:secret@bucket/x"})
    assert (foreign.status, "secret" in foreign.says) == ("fail", False)
