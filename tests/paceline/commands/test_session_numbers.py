"""What a session says in numbers, as a table for a person."""

from typing import Any

import pytest

from paceline.commands.session_table import listed, numbers, one

STAT: dict[str, Any] = {
    "session": "tuesday",
    "started_s": 1_795_694_692.524,
    "duration_s": 125.0,
    "missing_messages": 3,
    "gaps": [],
    "messages_by_topic": {"paceline.host.v1": 40, "paceline.op.v2": 2},
    "nodes": ["n1"],
    "gpus": 0,
    "utilization_ratio": {"mean": 0.11664909233578968, "max": 1.0},
    "memory_ratio": {"mean": None, "max": None},
    "power_w": {"mean": 0.0, "max": 0.0},
    "energy_j": 3.6e6,
    "step_time_s": {"resnet\x1b[2J": {"p50": 0.08123456789, "p95": None, "steps": 7}},
    "findings": [{"kind": "straggler", "state": "confirmed", "first_s": 1_795_694_700.524, "summary": "Rank 2."}],
}


def test_numbers_are_rounded_and_what_was_not_measured_is_a_dash() -> None:
    lines = dict(
        line.split(None, 1) for line in numbers(STAT).replace("GPU ", "GPU-").replace("p t", "p-t").split("\n")
    )
    assert lines["GPU-utilisation"] == "11.7 % on average, 100 % at most"
    assert (lines["GPU-memory"], lines["GPU-power"]) == ("-", "0 W on average, 0 W at most")
    assert (lines["duration"], lines["messages"], lines["missing"]) == ("2 min 5 s", "42", "3")
    assert lines["energy"] == "1 kWh"
    assert "median 81.2 ms, 95 % within -, 7 steps" in lines["step-time"]
    assert lines["finding"] == "straggler, confirmed, from 8 s on: Rank 2."
    assert "\x1b" not in numbers(STAT)


def test_an_answer_that_lacks_everything_is_still_a_table() -> None:
    assert "not ended" in numbers({})


def test_without_a_producer_nothing_is_proved() -> None:
    """`nothing is missing` of nobody would be wrong."""
    assert "no numbered message was received yet" in one({"name": "z", "producers": 0, "missing": 0})
    assert "every message of 2 producers" in one({"name": "z", "producers": 2, "missing": 0})


@pytest.mark.parametrize(
    ("held", "missing"),
    [
        ({"producers": 0, "missing": 0}, "-"),
        ({}, "-"),
        ({"producers": 0, "missing": 0, "gap_count": 2}, "0 and 2 gaps"),
        ({"producers": 2, "missing": 0}, "0"),
        ({"producers": 2, "missing": 7}, "7"),
    ],
)
def test_a_session_that_received_no_numbered_message_lists_no_count(held: dict[str, Any], missing: str) -> None:
    heading, line = listed(
        [{"name": "tuesday", "state": "recording", "messages": 0, "started_s": 1.8e9, **held}]
    ).split("\n")
    start = heading.index("MISSING")
    assert line[start : heading.index("STARTED")].strip() == missing


def test_a_list_says_why_a_session_is_as_it_is() -> None:
    """With what to type; those that record have no reason."""
    told = [
        {"name": "a", "state": "recording"},
        {"name": "b", "state": "interrupted", "reason": "gone\x1b; recover it"},
    ]
    assert listed(told).splitlines()[3:] == ["b: gone\\u001b; recover it"]
    many = [{"name": f"s{number}", "reason": "r"} for number in range(23)]
    assert listed(many).splitlines()[-1] == "and 3 more with a reason: --json"
