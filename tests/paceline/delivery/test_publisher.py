"""The publisher: never in its caller's way, one warning an outage, and an account that adds up whatever happens."""

import contextlib
import resource
import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec import UNSET, structs

from paceline import events, topics, wire
from paceline.delivery.publisher import Publisher
from paceline.delivery.segment import scan
from paceline.delivery.stats import Stats
from paceline.kafka import clients, embedded
from paceline.kafka.settings import BrokerSettings
from tests.heard import heard
from tests.patience import PATIENCE_S

Until = Callable[..., None]


def event(number: int, mark: str = "", size: int = 0) -> events.DeadLetter:
    return events.DeadLetter(
        reason=mark, topic="t", partition=0, offset=number, time_s=0.0, excerpt=uuid.uuid4().hex * (size // 32)
    )


def publish(publisher: Publisher, numbers: range, mark: str = "", size: int = 0) -> None:
    for number in numbers:
        publisher.publish(topics.DEADLETTER, event(number, mark, size))


def received(settings: BrokerSettings, mark: str, until_number: int) -> list[int]:
    """Numbers with ``mark`` on the bus, in order, up to and with ``until_number``."""
    got: list[int] = []
    with contextlib.closing(clients.consumer(settings, topics.DEADLETTER, from_beginning=True)) as consumer:
        for found in heard(topics.DEADLETTER, consumer):
            if found.reason == mark:
                got.append(found.offset)
                if found.offset == until_number:
                    return got
    return got


def adds_up(stats: Stats, published: int) -> bool:
    return published + stats.recovered == stats.sent + stats.pending + stats.spooled + stats.shed


@pytest.fixture
def nobody() -> Iterator[BrokerSettings]:
    """Brokers where nothing listens, held so that nothing will."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield BrokerSettings().with_brokers(f"127.0.0.1:{held.getsockname()[1]}")


@pytest.fixture
def warnings() -> list[str]:
    return []


@pytest.mark.landing
def test_events_arrive_in_order(broker: BrokerSettings, warnings: list[str]):
    """What is published is on the bus, in order, and counted as sent; nobody is warned."""
    mark = uuid.uuid4().hex
    publisher = Publisher(broker, client_id="test", on_warning=warnings.append)
    publish(publisher, range(200), mark)
    stats = publisher.close(PATIENCE_S)
    assert received(broker, mark, 199) == list(range(200))
    assert (stats.sent, stats.pending, stats.shed, warnings) == (200, 0, 0, [])


def test_the_key_is_the_events_own_unless_one_is_given(broker: BrokerSettings):
    """A job's events meet in one partition without the caller saying so."""
    mark = uuid.uuid4().hex
    described = events.NodeDescribed(
        cluster=mark,
        producer="p",
        sequence=0,
        node="n7",
        time_s=0,
        cpu_model=None,
        cpu_count=1,
        memory_total_bytes=1,
        kernel="",
    )
    publisher = Publisher(broker, client_id="test")
    publisher.publish(topics.NODE, described, timestamp_ms=1_700_000_000_000)
    publisher.publish(topics.NODE, described, key="other")
    publisher.close(PATIENCE_S)
    keys, stamps = [], []
    with contextlib.closing(clients.consumer(broker, topics.NODE, from_beginning=True)) as consumer:
        for row in consumer:
            if [one.cluster for one in heard(topics.NODE, [row])] == [mark]:
                keys.append(row.key)
                stamps.append(row.timestamp)
                if len(keys) == 2:
                    break
    assert sorted(keys) == [b"n7", b"other"]
    assert 1_700_000_000_000 in stamps


@pytest.mark.parametrize("brokers", ["", "nowhere.invalid:9092"])
def test_a_wrong_address_warns_once_and_keeps_everything(
    brokers: str, nobody: BrokerSettings, tmp_path: Path, warnings: list[str], until: Until
):
    """No exception, one warning that names address and folder, every event on disk."""
    settings = nobody.with_brokers(brokers) if brokers else nobody
    publisher = Publisher(settings, client_id="test", spool_dir=tmp_path / "spool", on_warning=warnings.append)
    publish(publisher, range(50))
    until(lambda: publisher.stats().spooled == 50)
    publish(publisher, range(50, 100))
    until(lambda: publisher.stats().spooled == 100)
    stats = publisher.close(PATIENCE_S)
    assert (stats.spooled, stats.shed, stats.outages, len(warnings)) == (100, 0, 1, 1)
    assert settings.address in warnings[0]
    assert str(tmp_path / "spool") in warnings[0]


def test_without_a_spool_the_newest_stay_in_memory(nobody: BrokerSettings, warnings: list[str]):
    """The bound holds; what is shed is counted, and at the end all is accounted for."""
    publisher = Publisher(nobody, client_id="test", on_warning=warnings.append, memory_bytes=20_000)
    publish(publisher, range(1000), size=320)
    during = publisher.stats()
    after = publisher.close(PATIENCE_S)
    assert adds_up(during, 1000)
    assert (after.sent, after.pending, after.shed, len(warnings)) == (0, 0, 1000, 1)
    assert after.shed_by_topic == {topics.DEADLETTER.name: 1000}


@pytest.mark.exactly_once
@pytest.mark.bus
def test_the_next_process_delivers_what_the_last_one_spooled(
    nobody: BrokerSettings, embedded_broker: embedded.EmbeddedBroker, tmp_path: Path, until: Until
):
    """An event outlives a process that never saw a broker, and comes before newer ones."""
    mark = uuid.uuid4().hex
    first = Publisher(nobody, client_id="test", spool_dir=tmp_path, on_warning=lambda line: None)
    publish(first, range(30), mark)
    first.close(PATIENCE_S)
    settings = BrokerSettings().with_brokers(embedded_broker.address)
    second = Publisher(settings, client_id="test", spool_dir=tmp_path)
    publish(second, range(30, 40), mark)
    stats = second.close(PATIENCE_S)
    assert received(settings, mark, 39) == list(range(40))
    assert (stats.recovered, stats.sent, stats.spooled) == (30, 40, 0)


def test_written_ahead_an_event_is_on_disk_when_publish_returns(nobody: BrokerSettings, tmp_path: Path):
    """Nothing is left to do for a process that may be killed the next moment; the account adds up."""
    publisher = Publisher(nobody, client_id="test", spool_dir=tmp_path, on_warning=lambda line: None, write_ahead=True)
    for number in range(20):
        publish(publisher, range(number, number + 1))
        held = [record for path in sorted(tmp_path.glob("*.spool")) for record in scan(path.read_bytes()).records]
        assert len(held) == number + 1
    stats = publisher.stats()
    assert (stats.pending, stats.spooled) == (0, 20)
    assert adds_up(publisher.close(PATIENCE_S), 20)


def test_written_ahead_to_a_disk_that_refuses_it_waits_in_memory(
    nobody: BrokerSettings, tmp_path: Path, warnings: list[str]
):
    """One line says so when the first event comes, another that Kafka is away; nothing raised, nothing uncounted."""
    (tmp_path / "file").write_text("")
    publisher = Publisher(
        nobody, client_id="test", spool_dir=tmp_path / "file" / "x", on_warning=warnings.append, write_ahead=True
    )
    publish(publisher, range(10))
    assert publisher.stats().pending == 10
    assert adds_up(publisher.close(PATIENCE_S), 10)
    assert 1 <= len(warnings) <= 2
    assert all("Not a directory. Events wait in memory" in line for line in warnings)


@pytest.mark.bus
def test_written_ahead_events_arrive_in_order(embedded_broker: embedded.EmbeddedBroker, tmp_path: Path, until: Until):
    """With the broker there they go from the disk at once, and leave nothing on it."""
    mark = uuid.uuid4().hex
    settings = BrokerSettings().with_brokers(embedded_broker.address)
    publisher = Publisher(settings, client_id="test", spool_dir=tmp_path, write_ahead=True)
    publish(publisher, range(500), mark)
    until(lambda: publisher.stats().sent == 500)
    assert received(settings, mark, 499) == list(range(500))
    assert not list(tmp_path.glob("*.spool"))
    publisher.close(PATIENCE_S)


@pytest.mark.bus
def test_a_long_queue_pushes_out_nothing_new(
    embedded_broker: embedded.EmbeddedBroker, nobody: BrokerSettings, tmp_path: Path, until: Until
):
    """While an outage's events go out, new ones line up behind them on disk: in memory they would not fit."""
    mark = uuid.uuid4().hex
    first = Publisher(nobody, client_id="test", spool_dir=tmp_path, on_warning=lambda line: None, write_ahead=True)
    publish(first, range(8_000), mark, size=3200)
    assert first.close(PATIENCE_S).spooled == 8_000
    settings = BrokerSettings().with_brokers(embedded_broker.address)
    second = Publisher(settings, client_id="test", spool_dir=tmp_path, memory_bytes=40_000)
    number = 8_000
    while second.stats().sent < 8_000:
        before = second.stats().sent
        publish(second, range(number, number + 5), mark, size=3200)
        number += 5
        until(lambda before=before: second.stats().sent > before)
    stats = second.close(PATIENCE_S)
    assert (stats.shed, stats.sent) == (0, number)
    assert received(settings, mark, number - 1) == list(range(number))


@pytest.mark.exactly_once
@pytest.mark.bus
def test_an_outage_of_the_embedded_broker_costs_nothing_published_during_it(
    tmp_path: Path, warnings: list[str], until: Until, free_port: Callable[[], int]
):
    """Stopped and started again, it has forgotten all it had (memory only); what came later arrives in order."""
    mark = uuid.uuid4().hex
    broker = embedded.start(free_port())
    settings = BrokerSettings().with_brokers(broker.address)
    publisher = Publisher(settings, client_id="test", spool_dir=tmp_path, on_warning=warnings.append)
    publish(publisher, range(100), mark)
    until(lambda: publisher.stats().sent == 100)
    broker.stop()
    publish(publisher, range(100, 200), mark)
    until(lambda: publisher.stats().spooled == 100)
    with embedded.start(broker.port):
        until(lambda: publisher.stats().sent == 200)
        publish(publisher, range(200, 250), mark)
        stats = publisher.close(PATIENCE_S)
        assert received(settings, mark, 249) == list(range(100, 250))
    assert (stats.sent, stats.spooled, stats.shed, stats.outages, len(warnings)) == (250, 0, 0, 1, 1)


@pytest.mark.exactly_once
@pytest.mark.landing
@pytest.mark.bus
def test_a_killed_apache_kafka_loses_nothing(
    new_apache_kafka: Callable[..., object], tmp_path: Path, warnings: list[str], until: Until
):
    """kill -9 in the middle of the stream: after the restart every event is there, before, during and after."""
    mark = uuid.uuid4().hex
    kafka = new_apache_kafka().start()
    publisher = Publisher(kafka.settings, client_id="test", spool_dir=tmp_path / "spool", on_warning=warnings.append)
    publish(publisher, range(100), mark)
    until(lambda: publisher.stats().sent)
    kafka.kill()
    publish(publisher, range(100, 200), mark)
    until(lambda: publisher.stats().spooled >= 100)
    kafka.start()
    publish(publisher, range(200, 300), mark)
    until(lambda: publisher.stats().sent == 300)
    stats = publisher.close(PATIENCE_S)
    got = received(kafka.settings, mark, 299)
    assert sorted(set(got)) == list(range(300))
    assert (stats.sent, stats.spooled, stats.shed, stats.outages, len(warnings)) == (300, 0, 0, 1, 1)


def test_a_folder_that_cannot_be_used_is_in_the_same_warning(
    nobody: BrokerSettings, tmp_path: Path, warnings: list[str], until: Until
):
    """Broker away and spool impossible: still one warning, which names both, and memory as the last resort."""
    (tmp_path / "file").write_text("")
    publisher = Publisher(nobody, client_id="test", spool_dir=tmp_path / "file" / "spool", on_warning=warnings.append)
    publish(publisher, range(10))
    until(lambda: warnings)
    assert publisher.stats().pending == 10
    stats = publisher.close(PATIENCE_S)
    assert (stats.spooled, stats.shed, len(warnings)) == (0, 10, 1)
    assert all(part in warnings[0] for part in ("connection refused", "Not a directory", "in memory"))


def test_a_disk_that_fills_up_is_survived(nobody: BrokerSettings, tmp_path: Path, warnings: list[str], until: Until):
    """What fits is on disk, the rest waits in memory: nothing raised, nothing uncounted."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    publisher = Publisher(nobody, client_id="test", spool_dir=tmp_path, on_warning=warnings.append)
    until(lambda: warnings)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        publish(publisher, range(100), size=3200)
        until(lambda: publisher.stats().spooled and publisher.stats().pending)
        during = publisher.stats()
        after = publisher.close(PATIENCE_S)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert adds_up(during, 100)
    assert adds_up(after, 100)
    assert (len(warnings), after.pending) == (1, 0)


@pytest.mark.bus
def test_an_event_that_is_too_large_does_not_stop_the_others(broker: BrokerSettings, warnings: list[str]):
    """It is refused, counted and told once; those behind it arrive."""
    mark = uuid.uuid4().hex
    publisher = Publisher(broker, client_id="test", on_warning=warnings.append, memory_bytes=64 * 1024 * 1024)
    publish(publisher, range(3), mark)
    publish(publisher, range(3, 4), mark, size=clients.MAX_MESSAGE_BYTES + 1000)
    publish(publisher, range(4, 6), mark)
    stats = publisher.close(PATIENCE_S)
    assert received(broker, mark, 5) == [0, 1, 2, 4, 5]
    assert (stats.sent, stats.shed, len(warnings)) == (5, 1, 1)


@pytest.mark.long
def test_a_server_that_accepts_and_says_nothing_holds_nobody_up(tmp_path: Path):
    """A hanging broker: publish and close return, and every event is accounted for."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        settings = BrokerSettings().with_brokers(f"127.0.0.1:{server.getsockname()[1]}")
        publisher = Publisher(settings, client_id="test", spool_dir=tmp_path, on_warning=lambda line: None)
        publish(publisher, range(20))
        stats = publisher.close(0.3)  # it is to run out
    assert (stats.spooled, stats.pending, stats.shed) == (20, 0, 0)


def test_a_warning_that_fails_does_not_end_delivery(nobody: BrokerSettings, tmp_path: Path, until: Until):
    """The caller's callback is the caller's: its error is logged, not raised."""

    def broken(line: str) -> None:
        raise RuntimeError(line)

    publisher = Publisher(nobody, client_id="test", spool_dir=tmp_path, on_warning=broken)
    publish(publisher, range(5))
    until(lambda: publisher.stats().spooled == 5)
    publisher.close(PATIENCE_S)


def test_after_close_events_are_counted_as_shed(nobody: BrokerSettings, tmp_path: Path):
    """A late event is neither an error nor forgotten; closing twice changes nothing."""
    publisher = Publisher(nobody, client_id="test", spool_dir=tmp_path, on_warning=lambda line: None)
    publisher.close(PATIENCE_S)
    publish(publisher, range(3))
    assert publisher.close(PATIENCE_S).shed == 3


def test_many_threads_may_publish_at_once(nobody: BrokerSettings, tmp_path: Path):
    """Every event of every thread is accounted for."""
    publisher = Publisher(nobody, client_id="test", spool_dir=tmp_path, on_warning=lambda line: None)
    threads = [threading.Thread(target=publish, args=(publisher, range(500))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stats = publisher.close(PATIENCE_S)
    assert (stats.spooled, stats.pending, stats.shed) == (2000, 0, 0)


def test_an_event_that_can_carries_the_account(
    broker: BrokerSettings, nobody: BrokerSettings, tmp_path: Path, until: Until
):
    """What was spooled while the brokers were away says so to whoever reads it; other events are as they were made."""
    golden = Path(__file__).parents[1] / "golden" / "v1" / "HostSamples.json"
    mark = uuid.uuid4().hex
    samples = structs.replace(wire.decode(topics.HOST, golden.read_bytes()), producer=mark)
    away = Publisher(nobody, client_id="test", spool_dir=tmp_path, on_warning=lambda line: None)
    for number in range(2):
        away.publish(topics.HOST, structs.replace(samples, sequence=number))
        until(lambda number=number: away.stats().spooled == number + 1)
    size = away.close(PATIENCE_S).spooled_bytes
    back = Publisher(broker, client_id="test", spool_dir=tmp_path)
    until(lambda: back.stats().sent == 2)
    back.publish(topics.HOST, structs.replace(samples, sequence=2))
    back.close(PATIENCE_S)
    got: list[events.HostSamples] = []
    with contextlib.closing(clients.consumer(broker, topics.HOST, from_beginning=True)) as consumer:
        for found in heard(topics.HOST, consumer):
            got += [found] if found.producer == mark else []
            if len(got) == 3:
                break
    first, second, last = (found.account for found in got)
    assert (first.spooled, second.spooled, last.spooled) == (0, 1, 0)
    assert (first.sent, last.sent, last.shed) == (0, 2, {})
    assert first.outages <= 1, "the brokers may be found away before the first event is made"
    assert 0 < second.spooled_bytes < size
    assert structs.replace(got[0], account=UNSET) == structs.replace(samples, sequence=0)
