"""What each client does with what it has read, where the brokers become another cluster."""

import io
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from annotator.book import Book as AnnotatorBook
from annotator.bus_reader import BusReader as AnnotatorReader
from archive.archiver import Archiver
from archive.database.mirror import DatabaseMirror
from archive.merging import Days
from control.book import Book
from control.captures import CaptureBook
from control.following import BusReader
from control.recorder.recording import OTHER_BROKERS, Recording
from control.sessions.manifest import Definition, read_manifest
from control.sessions.store import SessionStore
from forecaster.consumer import EventConsumer
from forecaster.history import SeriesSubject
from forecaster.memory import Memory
from paceline import wire
from paceline.alerts.alerting import Alerting
from paceline.alerts.run import Loop
from paceline.command_reader import CommandReader
from paceline.command_rules import Action, CommandRules, Reader
from paceline.commands import record, suggestions, tail
from paceline.delivery.publisher import Publisher
from paceline.events import BalancePlan, Command
from paceline.history.store import open_store
from paceline.kafka import embedded, follow
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.topic_admin import ensure_topics
from paceline.otlp.run import Loop as OtlpLoop
from paceline.recording import read
from paceline.sidecar.plan_reader import PlanReader
from paceline.top.reader import Reader as TopReader
from paceline.topics import COMMAND, FINDING, JOB, PLAN, SUGGESTION, Topic
from tests.derived_events import described, finding, suggestion
from tests.paceline.kafka.made_up_brokers import MadeUpBrokers
from tests.patience import PATIENCE_S
from ui.reader import DERIVED
from ui.reader import Reader as PageReader

SETTINGS = BrokerSettings()


class Client(NamedTuple):
    """A client: what reads, and the names of jobs that it knows."""

    run: Callable[[], object]
    jobs: Callable[[], set[str]]


def control(stop: threading.Event) -> Client:
    book = Book()
    reader = BusReader(SETTINGS, book, CaptureBook())
    reader._stop = stop
    return Client(reader._run, lambda: set(book.running()))


def forecaster(stop: threading.Event) -> Client:
    memory = Memory()
    reader = EventConsumer(SETTINGS, memory)
    reader._stop = stop
    return Client(reader._run, lambda: {state.job for state in memory.running()})


def top(stop: threading.Event) -> Client:
    reader = TopReader(SETTINGS)
    reader._stop = stop
    return Client(reader._run, lambda: {row.job for row in reader.picture(None, None).jobs})


def page(stop: threading.Event) -> Client:
    reader = PageReader(SETTINGS)
    reader._stop = stop
    return Client(lambda: reader._run("derived", DERIVED), lambda: {job for _, job in reader._feed.jobs})


def alerts(stop: threading.Event) -> Client:
    alerting = Alerting([], lambda line: None)
    loop = Loop(SETTINGS, alerting, lambda state: None, lambda line: None, stop)
    return Client(lambda: loop.run(once=False), lambda: {job for _, job in alerting.book.jobs})


def annotator(stop: threading.Event) -> Client:
    book = AnnotatorBook("c")
    reader = AnnotatorReader(SETTINGS, book, threading.Lock(), stop, lambda line: None)
    return Client(reader._run, lambda: {part.job.name for part in book.parts.values()})


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> MadeUpBrokers:
    monkeypatch.setattr(follow, "ASK_S", 0.0)
    monkeypatch.setattr(follow, "SELDOM_ASK_S", 0.0)
    return MadeUpBrokers(monkeypatch)


def then_another(brokers: MadeUpBrokers, topic: Topic, event: Any, stop: threading.Event) -> None:
    """Once all is read, another cluster answers that holds ``event``; once that is read, the client is stopped."""

    def begin() -> None:
        brokers.begin("second")
        brokers.put(topic, wire.encode(event))

    brokers.then = [begin, stop.set]


@pytest.mark.parametrize("make", [control, forecaster, top, page, alerts])
def test_what_is_shown_and_changed_is_of_this_cluster_alone(
    brokers: MadeUpBrokers, make: Callable[[threading.Event], Client]
):
    """A job of the other one is not there, one of the same name is new."""
    stop = threading.Event()
    brokers.put(JOB, wire.encode(described(job="old")), wire.encode(described(job="both", ended_s=950.0)))
    client = make(stop)
    then_another(brokers, JOB, described(job="both"), stop)
    client.run()
    assert client.jobs() == {"both"}


def test_the_annotator_ends_and_has_read_nothing_of_it(brokers: MadeUpBrokers):
    """What it wrote is of the first."""
    stop = threading.Event()
    brokers.put(JOB, wire.encode(described(job="old")))
    client = annotator(stop)
    then_another(brokers, JOB, described(job="new"), stop)
    client.run()
    assert client.jobs() == {"old"}


def test_the_forecaster_keeps_series_and_publishes_anew(brokers: MadeUpBrokers):
    """What was measured, sent or back-filled holds for its time."""
    memory = Memory()
    memory.put(SeriesSubject("mine", "W", 1.0, "posted"), [1.0, 2.0], [3.0, 4.0])
    before = memory.clusters
    memory.begin_cluster()
    assert memory.find("mine") is not None
    assert memory.clusters == before + 1


@pytest.mark.long
def test_no_plan_of_the_other_cluster_is_handed_on(brokers: MadeUpBrokers):
    """Not even one that had come already."""
    plans = [
        BalancePlan(cluster="c", job="train", attempt=0, time_s=1.0, version=number, shares=[1, 1], made_by="streams")
        for number in (1, 2)
    ]
    reader = PlanReader(SETTINGS, "test")
    reader._jobs = {"train"}
    brokers.put(PLAN, wire.encode(plans[0]))
    brokers.key = b"train"
    then_another(brokers, PLAN, plans[1], reader._stop)
    reader._follow()
    assert [plan.version for plan in reader._waiting] == [2]


def test_a_recording_ends_and_holds_one_cluster(
    brokers: MadeUpBrokers, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """Status 1, and a line that says why."""
    monkeypatch.setattr(record.signal, "signal", lambda *_: None)
    file = tmp_path / "recording.jsonl"
    brokers.put(JOB, wire.encode(described(job="old")))
    then_another(brokers, JOB, described(job="new"), threading.Event())
    assert record.main(["--output", str(file), "--from-beginning", "--brokers", "127.0.0.1:1"]) == 1
    assert "another cluster now" in capsys.readouterr().err
    assert [wire.decode(JOB, line.value).job for line in read(str(file))] == ["old"]


def test_the_archive_goes_on_with_a_gap_for_each_partition(brokers: MadeUpBrokers, tmp_path: Path):
    """Rows of both, and where the other begins."""
    stop = threading.Event()
    brokers.put(FINDING, wire.encode(finding(id="old")), wire.encode(finding(id="older")))
    store = open_store(str(tmp_path), {})
    archiver = Archiver(SETTINGS, store, [FINDING], Days(), 0.0, stop)
    then_another(brokers, FINDING, finding(id="new"), stop)
    archiver._run()
    manifest = store.newest()
    assert manifest is not None
    assert archiver.totals()["rows"] == 3
    assert [(gap.topic, gap.partition, gap.expected, gap.remade) for gap in manifest.gaps] == [
        (FINDING.name, 0, 2, True)
    ]


def test_its_database_goes_on(brokers: MadeUpBrokers, tmp_path: Path):
    """Rows of both."""
    url, stop = f"sqlite:///{tmp_path / 'archive.db'}", threading.Event()
    brokers.put(FINDING, wire.encode(finding(id="old")), wire.encode(finding(id="older")))
    mirror = DatabaseMirror(SETTINGS, url, stop)
    then_another(brokers, FINDING, finding(id="new"), stop)
    mirror._run()
    assert mirror.rows["finding"] == 3


def test_a_recorder_ends_and_its_session_holds_one_cluster(brokers: MadeUpBrokers, tmp_path: Path):
    """It is interrupted, and goes on when it finds its own cluster again."""
    stop = threading.Event()
    brokers.put(JOB, wire.encode(described(job="old")))
    definition = Definition(name="s", id="id", cluster="c", started_s=1.0)
    folder = SessionStore(tmp_path / "sessions").create(definition, "here")
    then_another(brokers, JOB, described(job="new"), stop)
    Recording(folder, SETTINGS, lambda state: None, stop, free_bytes=lambda: 2**40).run()
    told = read_manifest(folder.manifest)
    assert (told.state.state, told.state.messages, told.gaps) == ("interrupted", 1, [])
    assert told.state.reason.startswith(OTHER_BROKERS)


class Kept:
    """In place of a sender: what it was given."""

    def __init__(self) -> None:
        self.batches: list[Any] = []

    def add(self, batch: Any) -> None:
        self.batches.append(batch)


def test_otlp_sends_what_the_other_cluster_finds_whatever_it_sent_before(brokers: MadeUpBrokers):
    """A job of the same name has findings of the same ids."""
    stop, logs, lines = threading.Event(), Kept(), list[str]()
    loop = OtlpLoop(SETTINGS, logs, None, lines.append, stop)
    begun = loop._choice
    brokers.put(FINDING, wire.encode(finding(id="before it came")))

    def begin() -> None:
        brokers.begin("second")
        brokers.put(FINDING, wire.encode(finding(id="f")))

    brokers.then = [lambda: brokers.put(FINDING, wire.encode(finding(id="f"))), begin, stop.set]
    loop.run()
    assert len(logs.batches) == 2
    assert loop._choice is not begun, "half a step of the first is not completed by the second"
    assert any("another cluster now" in line for line in lines)


def test_tail_says_so_and_goes_on(brokers: MadeUpBrokers, capsys: pytest.CaptureFixture[str]):
    """What it prints is of both, and standard error says where the other begins."""

    def leave() -> None:
        raise BrokenPipeError

    output = io.StringIO()
    brokers.put(JOB, wire.encode(described(job="old")))
    then_another(brokers, JOB, described(job="new"), threading.Event())
    brokers.then[1] = leave
    with pytest.raises(BrokenPipeError):
        tail.follow(SETTINGS, JOB, None, True, None, output)
    assert [json.loads(line)["job"] for line in output.getvalue().splitlines()] == ["old", "new"]
    assert "another cluster now" in capsys.readouterr().err


def test_suggestions_says_so_and_lists_those_of_the_other(
    brokers: MadeUpBrokers, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """Also one of the same id, of which the other has an earlier revision."""

    def leave() -> None:
        raise BrokenPipeError

    brokers.put(SUGGESTION, wire.encode(suggestion(revision=3, title="Of the first")))
    then_another(brokers, SUGGESTION, suggestion(revision=1, title="Of the second"), threading.Event())
    brokers.then.append(leave)
    brokers.then[1] = lambda: None
    with pytest.raises(BrokenPipeError):
        suggestions.main(["--watch", "--all", "--brokers", "127.0.0.1:1"])
    told = capsys.readouterr()
    assert told.out.index("Of the first") < told.out.index("Of the second")
    assert "another cluster now" in told.err


@pytest.mark.long
def test_a_command_that_both_clusters_hold_is_obeyed_once(brokers: MadeUpBrokers):
    """By its id; one that only the other holds is obeyed, too."""
    obeyed: list[str] = []
    rules = CommandRules(
        Reader("sidecar", "n", "c"),
        {"note": Action(msgspec.Struct, lambda target, _: obeyed.append(target) or "noted")},  # type: ignore[func-returns-value]
        obeys=True,
        since_s=time.time(),
    )
    reader = CommandReader(SETTINGS, "test", rules, lambda topic, entry: None)
    reader._targets = {"job:train"}
    asked = [
        Command(id=name, cluster="c", target="job:train", action="note", expires_s=time.time() + 60, issuer="test")
        for name in ("both", "second")
    ]
    brokers.put(COMMAND, wire.encode(asked[0]))

    def begin() -> None:
        brokers.begin("second")
        brokers.put(COMMAND, *map(wire.encode, asked))

    brokers.then = [begin, reader._stop.set]
    reader._follow()
    while not reader._waiting.empty():
        rules.judge(reader._waiting.get(), time.time(), {"job:train"})
    assert obeyed == ["job:train"] * 2


@pytest.mark.bus
@pytest.mark.parametrize("spooled", [False, True])
def test_a_publisher_sends_what_it_holds_and_goes_on(
    tmp_path: Path, until: Callable[..., None], free_port: Callable[[], int], spooled: bool
):
    """From memory, and from a spool: what the first has not taken is on the second, in order, and nothing twice."""
    port, numbers = free_port(), list[int]()
    with embedded.start(port) as first:
        settings = BrokerSettings().with_brokers(first.address)
        ensure_topics(settings, [JOB])
        publisher = Publisher(settings, client_id="test", spool_dir=tmp_path if spooled else None)
        publisher.publish(JOB, described(sequence=0))
        until(lambda: publisher.stats().sent == 1)
        first.process.kill()
        first.process.wait()
        for number in (1, 2):
            publisher.publish(JOB, described(sequence=number))
        with embedded.start(port):
            ensure_topics(settings, [JOB])
            publisher.publish(JOB, described(sequence=3))
            with follow.Follower(settings, {JOB: follow.BEGINNING}, "test", resume=True) as follower:

                def all_there() -> bool:
                    for _, records in follower.poll():
                        numbers.extend(wire.decode(JOB, one.value).sequence for one in records if one.value)
                    return len(numbers) >= 3

                until(all_there)
            publisher.close(PATIENCE_S)
    assert numbers == [1, 2, 3]
