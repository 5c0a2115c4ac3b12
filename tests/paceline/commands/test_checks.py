"""What ``paceline doctor`` finds, and the mend it names."""

import json
import sys

import pytest

from paceline import topics
from paceline.commands import checks, doctor, running_checks
from paceline.gpu.amd import AmdSmi
from paceline.gpu.driver import AbsentError
from paceline.kafka.settings import BrokerSettings
from tests.paceline.gpu.fake_amdsmi import DRIVER_NOT_LOADED, NOT_FOUND, FakeAmdSmi

TABLE = {topic.name: topic.partitions for topic in topics.TOPICS}


def status(found: list[checks.Check]) -> list[str]:
    return [check.status for check in found]


def test_topics_as_in_the_table_are_well():
    """One line, no mend."""
    assert status(checks.compare(TABLE)) == ["ok"]


def test_a_missing_topic_is_a_warning_and_named():
    """It will be made by whoever needs it first, so nothing fails."""
    found = checks.compare({name: count for name, count in TABLE.items() if name != topics.OP.name})
    assert (status(found), "op" in found[0].says) == (["warn"], True)


def test_another_partition_count_fails_with_the_way_out():
    """A topic that the broker made by itself has one partition, and streams cannot join it."""
    found = checks.compare({**TABLE, topics.OP.name: 1})
    assert (status(found), topics.OP.name in found[0].fix) == (["fail"], True)


def test_all_topics_may_have_another_number_of_partitions_and_none_alone():
    """As the embedded broker of `up` has them."""
    fewer = {topic.name: topic.split(2) for topic in topics.TOPICS}
    (found,) = checks.compare(fewer)
    assert (found.status, found.says.split("; ")[1]) == ("ok", "those with a key have 2 partitions")
    assert status(checks.compare({**fewer, topics.OP.name: 12}))[0] == "fail"


def test_foreign_topics_are_nobodys_business():
    """Other topics on the same Kafka are not mentioned."""
    assert status(checks.compare({**TABLE, "orders": 3})) == ["ok"]


def test_what_a_login_may_not_see_is_neither_missing_nor_said_to_exist():
    """It says how many it has seen; of none it says nothing."""
    seen = {topics.OP.name, topics.HOST.name}
    unseen = set(TABLE) - seen
    (found,) = checks.compare({name: TABLE[name] for name in seen}, unseen)
    assert (found.status, found.says) == (
        "ok",
        "the 2 that this login may see exist; those with a key have 12 partitions",
    )
    assert checks.compare({}, TABLE) == []


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (BrokerSettings(), "ok"),
        (BrokerSettings(brokers=("kafka-1:9092",)), "warn"),
        (BrokerSettings(brokers=("kafka-1:9092",), security_protocol="SASL_PLAINTEXT"), "warn"),
        (BrokerSettings(brokers=("kafka-1:9092",), security_protocol="SASL_SSL"), "ok"),
    ],
)
def test_an_open_network_is_warned_of(settings: BrokerSettings, expected: str):
    """In the clear is well on this machine alone."""
    assert checks.login(settings).status == expected


def test_without_nvml_gpus_are_not_measured_and_nothing_fails(monkeypatch: pytest.MonkeyPatch):
    """A node without the package is told how to get it."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    found = checks.nvml()
    assert (found.status, "[collectors]" in found.fix) == ("warn", True)


@pytest.mark.parametrize(
    ("cards", "init_error", "said"),
    [
        (2, None, ("ok", "2 GPU (AMD Instinct MI300X)")),
        (0, DRIVER_NOT_LOADED, ("warn", "AMD driver (amdgpu) not loaded: AMD's GPUs are not measured here")),
    ],
)
def test_amds_gpus_have_a_line_where_rocm_is(monkeypatch: pytest.MonkeyPatch, cards, init_error, said):
    """And none elsewhere."""
    monkeypatch.setattr(checks.amd, "load", lambda: AmdSmi(FakeAmdSmi(cards, init_error)))
    assert [(one.status, one.says) for one in checks.amd_smi()] == [said]


def test_without_rocm_amd_has_no_line(monkeypatch: pytest.MonkeyPatch):
    """Most nodes have none."""

    def absent():
        raise AbsentError("no AMD SMI")

    monkeypatch.setattr(checks.amd, "load", absent)
    assert checks.amd_smi() == []


def test_a_card_of_amds_that_does_not_answer_is_a_warning(monkeypatch: pytest.MonkeyPatch):
    """The library is closed all the same."""
    smi = FakeAmdSmi(1)
    smi.cards[0].lost = NOT_FOUND
    monkeypatch.setattr(checks.amd, "load", lambda: AmdSmi(smi))
    (found,) = checks.amd_smi()
    assert (found.status, found.says, smi.open) == ("warn", "a GPU does not answer: GPU is lost", False)


def test_a_healthy_broker_gives_status_0(
    own_broker: BrokerSettings, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """Every line is readable by a program, and none fails."""
    monkeypatch.setattr(running_checks, "LOCAL", {})  # Whatever else runs on this machine.
    code = doctor.main(["--json", "--brokers", own_broker.address])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    named = {"python", "nvml", "broker", "login", "advertised", "topics", "clock", "lag", "dead letters"}
    assert {row["name"] for row in rows} >= named
    assert (code, [row for row in rows if row["status"] == "fail"]) == (0, [])


@pytest.mark.bus
def test_the_clock_is_measured_against_the_brokers_stamp(apache_kafka: object):
    """On one machine the offset is within what the measurement can tell."""
    offset_s, uncertain_s = checks.clock_offset(apache_kafka.settings)
    assert abs(offset_s) <= uncertain_s


def test_no_broker_gives_status_1_and_the_mend(capsys: pytest.CaptureFixture[str]):
    """The line names the address, the cause and what to start."""
    assert doctor.main(["--brokers", "127.0.0.1:1"]) == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert all(part in last for part in ("fail", "127.0.0.1:1", "connection refused", "paceline up"))


def test_a_wrong_setting_is_a_failed_check(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """The doctor does not give up on what it is asked to find."""
    monkeypatch.setenv("PACELINE_SECURITY_PROTOCOL", "TLS")
    assert doctor.main(["--brokers", "127.0.0.1:9"]) == 1
    assert "PACELINE_SECURITY_PROTOCOL" in capsys.readouterr().out.splitlines()[-1]
