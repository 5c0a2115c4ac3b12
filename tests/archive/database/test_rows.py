"""Whatever jobs, nodes and people write, a row of it is one that both databases take."""

import json

import msgspec
import pytest

from archive.database import rows, texts
from paceline import topics, wire
from tests.archive.database.asked import batch
from tests.derived_events import HOSTILE, described, finding, suggestion

LONG = "ü" * 100_000


def test_no_text_of_a_row_holds_nul() -> None:
    """Neither a column, nor what is inside of JSON, nor a key there."""
    nul = "a\0b"
    told = batch(
        [
            finding(id=nul, job=nul, nodes=[nul], summary=nul, group=nul, exonerated=[nul]),
            described(job=nul, node=nul, labels={nul: nul}),
            suggestion(id=nul, title=nul, steps=[nul], findings=[nul]),
        ]
    )
    for row in (*told.findings, *told.jobs, *told.suggestions):
        written = msgspec.json.encode(row).decode()
        assert "\\u0000" not in written
        assert "␀" in bytes(row["event"]).decode()


def test_two_names_are_never_one() -> None:
    """Cut ones, ones with NUL, and the sign that stands for it."""
    names = [LONG, LONG + "x", "a\0b", "a␀b", "ab", "a\0\0b", LONG[:300], LONG[:301]]
    assert len({texts.name(one) for one in names}) == len(names)
    assert all(len(texts.name(one).encode()) <= texts.MOST_NAME_BYTES for one in names)


def test_a_name_that_is_cut_is_whole_letters() -> None:
    """However its bytes fall."""
    for shift in range(4):
        texts.name("x" * shift + "日" * 1000).encode()


def test_a_name_stays_as_it_is_where_it_can() -> None:
    """Escapes and markup are for those who show it to make harmless."""
    assert texts.name(HOSTILE) == HOSTILE


def test_a_long_sentence_is_whole_in_the_event() -> None:
    row = batch([finding(summary=LONG)]).findings[0]
    assert len(row["summary"]) == texts.MOST_LETTERS
    assert json.loads(bytes(row["event"]))["summary"] == LONG


def test_fields_of_a_later_version_are_kept() -> None:
    """The event's JSON is what came, not what this version knows of it."""
    sent = json.loads(wire.encode(finding())) | {"of_tomorrow": [1, {"two": None}]}
    value = json.dumps(sent).encode()
    assert rows.plain(topics.FINDING, wire.decode(topics.FINDING, value), value) == sent


def test_a_field_of_a_later_version_that_is_no_number_costs_that_field_alone() -> None:
    """1e999 is no number of 64 bits; what is known of the message is kept."""
    value = wire.encode(finding())[:-1] + b',"of_tomorrow":1e999}'
    event = wire.decode(topics.FINDING, value)
    assert rows.plain(topics.FINDING, event, value) == json.loads(wire.encode(finding()))


@pytest.mark.parametrize(("timestamp_ms", "heard"), [(-1, 2000.0), (0, 0.0), (1_500_000, 1500.0), (2**63 - 1, 2000.0)])
def test_nothing_is_heard_after_now(timestamp_ms: int, heard: float) -> None:
    """Also where a producer's clock is wrong, or the message has no time."""
    assert rows.heard_s(timestamp_ms, 2000.0) == heard


def test_a_finding_of_many_nodes_is_found_by_a_bounded_number() -> None:
    assert len(rows.of_nodes("f", [f"n{number}" for number in range(20_000)])) == rows.MOST_NODES
