"""Lists in the documentation and the help are those of the code."""

import argparse
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from paceline import rights, topics
from paceline.command_rules import TARGETS
from paceline.commands import replay
from paceline.events import ACCEPT, CAPTURE, DISMISS, FULL_ROWS, SAMPLE, CaptureAsked, FullRows, Sample
from simulator import __main__ as simulate
from simulator import fleet_command
from simulator.fault import EXPECTED
from ui import feed, reader
from ui.page_app import PATHS
from ui.screens import navigation

ROOT = Path(__file__).parents[2]
#: What each kind of target answers to, as the docs have to tell it: actions, with the arguments that are theirs.
ACTIONS = {
    "job": {FULL_ROWS: FullRows, CAPTURE: CaptureAsked},
    "node": {SAMPLE: Sample},
    "suggestion": {ACCEPT: None, DISMISS: None},
    "streams": {},
}


def text(path: str) -> str:
    return (ROOT / path).read_text()


def test_the_table_of_commands_names_every_action_and_argument() -> None:
    """And the actions are those that sidecars and collectors offer."""
    from collectors.actions import actions as of_collectors
    from paceline.sidecar.actions import actions as of_sidecars

    nothing = SimpleNamespace()
    offered = {"job": set(of_sidecars(nothing, lambda: 0.0, None)), "node": set(of_collectors(nothing, lambda: 0.0))}
    assert {kind: set(ACTIONS[kind]) for kind in offered} == offered
    assert set(ACTIONS) == set(TARGETS)
    _, _, table = text("docs/deploy.md").partition("| target | who answers | actions |")
    rows = dict(re.findall(r"^\| `(\w+)(?::\w+)?` \| [^|]+ \| ([^|]+) \|$", table.split("\n\n")[0], re.MULTILINE))
    for kind, actions in ACTIONS.items():
        assert (kind, "none yet" in rows[kind]) == (kind, not actions)
        for action, arguments in actions.items():
            for word in (action, *(arguments.__struct_fields__ if arguments else ())):
                assert f"`{word}`" in rows[kind], f"docs/deploy.md, {kind}: {word}"


@pytest.mark.parametrize("path", ["docs/monitoring.md", "docs/existing-prometheus.md"])
def test_the_number_of_alerts_is_that_of_the_rules(path: str) -> None:
    there = len(re.findall(r"^\s*- alert:", text("deploy/prometheus/rules/alerts.yml"), re.MULTILINE))
    assert there
    assert re.findall(r"(\d+) alerts", text(path)) == [str(there)]


def test_one_user_for_all_is_given_the_rights_of_every_service() -> None:
    """A service that the loop leaves out would wait for topics that its user may not read."""
    (listed,) = re.findall(r"for s in ([\w ]+); do paceline rights \$s", text("docs/existing-kafka.md"))
    assert listed.split() == list(rights.default_principals())


def test_the_addresses_of_the_page_are_its_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    paths: list[str] = []

    def page(show: object, **about: object) -> SimpleNamespace:
        paths.append(str(about.get("url_path", "")))
        return SimpleNamespace(run=lambda: None)

    streamlit = SimpleNamespace(Page=page, navigation=lambda pages, position: pages[0])
    monkeypatch.setattr(navigation, "st", streamlit)
    monkeypatch.setattr(navigation.links, "keep", lambda: None)
    navigation.run(SimpleNamespace())  # type: ignore[arg-type]
    assert {path for path in paths if path} == set(PATHS)
    listed = re.search(r"in its address: (.*?)\. ", text("docs/page.md"), re.DOTALL)
    assert listed
    assert {f"`/{path}`" for path in paths if path} == set(re.findall(r"`/\w+`", listed[1]))


def test_pipeline_health_shows_what_the_page_reads_and_nothing_else() -> None:
    """Of what is not read no last message is known: `never` would be wrong."""
    read = {topic.short for topic in (*reader.RAW, *reader.DERIVED)}
    assert {topic.short for topic in topics.TOPICS} - feed.UNREAD == read - {"deadletter"}


def test_the_topics_that_a_managed_kafka_is_paid_for_are_counted() -> None:
    """How many, how many partitions the most have, and all partitions together."""
    found = re.search(
        r"Of the (\d+) topics the two logs have one partition and the others twelve; that is (\d+) in all",
        text("docs/existing-kafka.md"),
    )
    assert found is not None
    assert [int(number) for number in found.groups()] == [
        len(topics.TOPICS),
        sum(one.partitions for one in topics.TOPICS),
    ]
    assert sorted(one.partitions for one in topics.TOPICS) == [1, 1, *[12] * (len(topics.TOPICS) - 2)]


def test_the_help_of_simulate_names_every_kind_of_fault() -> None:
    (listed,) = re.findall(r"Kinds:\s(.*)", simulate.EXAMPLES, re.DOTALL)
    assert set(EXPECTED) <= set(re.findall(r"\w+", listed))


@pytest.mark.parametrize("parser", [replay.parser, simulate.parser, fleet_command.parser])
def test_as_fast_as_possible_is_one_word_and_0_is_taken_too(parser: object) -> None:
    made = parser()  # type: ignore[operator]
    assert isinstance(made, argparse.ArgumentParser)
    (option,) = [action for action in made._actions if action.dest == "speed"]
    assert "max" in str(option.help)
    assert option.type is not None
    assert [option.type(word) for word in ("max", "0")] == [0.0, 0.0]  # type: ignore[operator]
    assert "--speed 0" not in made.format_help() + text("docs/operations.md") + text("docs/simulate.md")


@pytest.mark.parametrize(
    "path", [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"], ids=lambda path: path.name
)
def test_where_the_panel_of_a_recording_is_promised_it_is_asked_for(path: Path) -> None:
    """`paceline analyze FILE` alone prints findings, one a line."""
    promised = [line for line in path.read_text().splitlines() if "paceline analyze " in line and "panel" in line]
    assert [line for line in promised if "--panel" not in line] == []
