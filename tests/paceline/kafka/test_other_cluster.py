"""What each client does with what it has read, where the brokers become another cluster."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from annotator.book import Book as AnnotatorBook
from annotator.bus_reader import BusReader as AnnotatorReader
from control.book import Book
from control.captures import CaptureBook
from control.following import BusReader
from forecaster.consumer import EventConsumer
from forecaster.history import SeriesSubject
from forecaster.memory import Memory
from paceline import wire
from paceline.alerts.alerting import Alerting
from paceline.alerts.run import Loop
from paceline.commands import record
from paceline.events import BalancePlan
from paceline.kafka import follow
from paceline.kafka.settings import BrokerSettings
from paceline.recording import read
from paceline.sidecar.plan_reader import PlanReader
from paceline.top.reader import Reader as TopReader
from paceline.topics import JOB, PLAN, Topic
from tests.derived_events import described
from tests.paceline.kafka.made_up_brokers import MadeUpBrokers
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
