import json

import pytest
from msgspec.structs import replace

from paceline import events
from tests.ui.forecasts import suggestion
from ui.suggestion_book import PARAGRAPH, AnswerBook, SuggestionBook

NOW_S = 1_000_000.0


def entry(command_id, outcome="accepted", target="suggestion:x", reason="done"):
    return events.AuditEntry(
        command_id=command_id,
        cluster="default",
        target=target,
        action="accept",
        issuer="ada",
        time_s=NOW_S,
        service="streams",
        node="worker-1",
        outcome=outcome,
        reason=reason,
    )


def test_the_newest_revision_counts_whatever_the_order():
    """Repeated and late messages change nothing."""
    book = SuggestionBook()
    for revision, state in ((2, "accepted"), (1, "new"), (2, "dismissed"), (3, "applied"), (3, "new")):
        book.upsert(suggestion(1, NOW_S, revision=revision, state=state))
    assert [(one.revision, one.state) for one in book.all()] == [(3, "applied")]


def test_suggestions_are_bounded_and_closed_ones_go_first():
    """What is still to do outlives what is over; of each the newest."""
    book = SuggestionBook(most=80)
    for number in range(200):
        state = "withdrawn" if number % 2 else "new"
        book.upsert(suggestion(number, NOW_S + number, state=state))
    assert len(book.all()) <= 90
    assert sum(one.state == "new" for one in book.all()) > sum(one.state == "withdrawn" for one in book.all())
    assert max(one.updated_s for one in book.all()) >= NOW_S + 168


def test_a_huge_suggestion_is_cut_and_its_commands_are_whole_or_left_out():
    """Half a command is never offered to be copied, and nothing in one is invisible."""
    huge = "x" * 1_000_000
    book = SuggestionBook()
    book.upsert(
        suggestion(
            1,
            NOW_S,
            title=huge,
            reason=huge,
            manifest=huge,
            steps=[huge] * 1000,
            findings=[huge] * 1000,
            apply=["ls; \x1b[2Kreboot\u202e", "echo " + huge],
            ranks=list(range(10_000)),
            gain=events.Gain(basis=huge, currency=huge),
            evidence=[events.Evidence(name=huge, value=1.0, unit=huge, peers=None, rule=huge)] * 1000,
        )
    )
    (held,) = book.all()
    assert held.apply == ["ls; \\u001b[2Kreboot\\u202e", "# 1 left out: too long for this page"]
    assert len(str(held)) < 200_000
    assert len(held.reason) == PARAGRAPH
    assert held.reason.endswith("…")


@pytest.mark.parametrize("most", [3])
def test_answers_are_those_to_suggestions_and_bounded(most):
    """Other commands' entries are not kept; the oldest goes first."""
    book = AnswerBook(most)
    for number in range(5):
        book.take(entry(str(number)))
    book.take(entry("other", target="job:a"))
    assert list(book.all()) == ["2", "3", "4"]


def test_who_obeys_is_heard_before_who_refuses():
    """Several workers answer, and one of them holds the suggestion."""
    for order in (("refused", "accepted"), ("accepted", "refused")):
        book = AnswerBook()
        for outcome in order:
            book.take(entry("1", outcome))
        assert book.all()["1"].outcome == "accepted"


def test_a_copy_does_not_change():
    """What was handed out is not changed by what comes later."""
    book = SuggestionBook()
    book.upsert(suggestion(1, NOW_S))
    before = book.all()
    book.upsert(replace(suggestion(1, NOW_S), revision=2, state="withdrawn"))
    assert [one.state for one in before] == ["new"]
    assert json.dumps([one.id for one in before])
