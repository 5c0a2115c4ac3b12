"""What each service may do on the brokers is what it does there: no right is missing, and none is too many."""

import json

import pytest

from annotator import bus_reader
from control import following
from control.recorder.recording import RECORDED
from forecaster import consumer
from paceline import rights, topics
from paceline.__main__ import main
from paceline.alerts import alerting
from paceline.history.tables import ARCHIVED
from paceline.topics import TOPICS
from streams.cluster_events import ADVICE
from streams.faust_app import PASSED_ON
from streams.routes import ROUTES
from ui import reader

READ = {
    "annotator": {*bus_reader.STARTS},
    "archive": {*ARCHIVED},
    "forecaster": {*consumer.STARTS},
    "control": {*following.STARTS, *RECORDED},
    "page": {*reader.DERIVED, *reader.RAW},
    "alerts": {*alerting.TOPICS},
    # Commands are read by a reader of their own.
    "streams": {*(topics.BY_NAME[name] for name in ROUTES if name != ADVICE.name), *PASSED_ON} | {topics.COMMAND},
}


@pytest.mark.parametrize("name", READ)
def test_a_service_may_read_what_it_reads(name: str) -> None:
    """Those of control are all that it follows, and all that it may be told to record."""
    held = {*rights.SERVICES[name].reads}
    assert READ[name] <= held
    assert name == "control" or held == READ[name]


def test_every_topic_has_who_writes_it() -> None:
    written = {topic for service in rights.SERVICES.values() for topic in service.writes}
    assert set(TOPICS) == written


@pytest.mark.parametrize("name", ["page", "alerts", "annotator", "archive"])
def test_who_only_shows_writes_nothing(name: str) -> None:
    """Whoever takes such a service over changes nothing by it."""
    assert not rights.SERVICES[name].writes
    assert not rights.SERVICES[name].group


def test_those_on_the_jobs_nodes_read_nothing_of_others() -> None:
    """Users' code runs there: it hears what it is asked, and its plans."""
    for name in ("collectors", "training"):
        assert {*rights.SERVICES[name].reads} <= {topics.COMMAND, topics.PLAN}


def test_the_script_names_every_rule_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rights"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("acls --")]
    assert main(["rights", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert len(lines) == len({*lines}) == len(told)
    assert {one["principal"] for one in told} == {f"User:paceline-{name}" for name in rights.SERVICES}


@pytest.mark.parametrize("user", ["it's; rm -rf ~", "$(reboot)", "`x`", 'a"b', "CN=page,O=Example Inc"])
def test_a_name_is_one_word_of_the_script(user: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever characters it has."""
    import shlex

    assert main(["rights", "alerts", "--user", f"alerts={user}"]) == 0
    for line in capsys.readouterr().out.splitlines()[4:]:
        assert f"User:{user}" in shlex.split(line)


@pytest.mark.parametrize(
    "arguments", [["nobody"], ["--user", "nobody=x"], ["--user", "page"], ["--user", "page="], ["--user", "page=a\nb"]]
)
def test_a_service_or_user_that_is_none_is_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rights", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("paceline rights: ")


def test_a_collector_cannot_read_findings_and_the_page_cannot_write_them() -> None:
    """By the table; tests/paceline/kafka/test_doors.py tries it on Apache Kafka by each way to log in."""
    assert topics.FINDING not in rights.SERVICES["collectors"].uses
    assert topics.FINDING in rights.SERVICES["page"].reads
    assert [name for name, service in rights.SERVICES.items() if topics.FINDING in service.writes] == ["streams"]


def test_thresholds_and_nodes_have_who_writes_and_who_reads_them() -> None:
    """A threshold changes verdicts: people and control set it, workers obey it. Collectors alone tell of nodes."""

    def who(topic: topics.Topic, kind: str) -> set[str]:
        return {name for name, service in rights.SERVICES.items() if topic in getattr(service, kind)}

    assert who(topics.THRESHOLD, "writes") == {"control", "people"}
    assert who(topics.THRESHOLD, "reads") == {"streams", "control", "archive", "people"}
    assert who(topics.NODE, "writes") == {"collectors"}
    assert {"streams", "control", "people"} <= who(topics.NODE, "reads")


@pytest.mark.parametrize("principal", ["User:CN=page,O=Example", "User:8f0c4c5e-1b7e-4a51-9d7e-0a6f0c1d2e3f"])
def test_a_principal_is_what_the_login_gives(principal: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A certificate's subject, or a token's `sub`: as it is, to the letter."""
    assert main(["rights", "page", "--user", f"page={principal}", "--json"]) == 0
    assert {one["principal"] for one in json.loads(capsys.readouterr().out)} == {principal}
