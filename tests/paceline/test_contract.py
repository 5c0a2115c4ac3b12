"""What readers of events take for granted of the contract's constants."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from paceline import events, identity, topics, wire
from paceline.events import (
    ARCHIVE_WINDOW_S,
    JOB_WINDOWS_S,
    NODE_WINDOWS_S,
    RANK_LIMIT,
    SEVERITIES,
    SEVERITY_ORDER,
    FindingState,
    Severity,
)
from paceline.events.findings import OPEN_FINDINGS, STATE_ORDER
from paceline.settings import LONGEST_NAME, MOST_RANKS


@pytest.mark.parametrize("lengths_s", [JOB_WINDOWS_S, NODE_WINDOWS_S])
def test_windows_of_one_length_fill_those_of_the_next(lengths_s):
    """The worker sums each level from the one below; an archive's windows hold whole ones of all."""
    assert all(long_s > short_s and long_s % short_s == 0.0 for short_s, long_s in pairwise(lengths_s))
    assert all(ARCHIVE_WINDOW_S % length_s == 0.0 for length_s in lengths_s)


def test_windows_of_machines_are_as_long_as_some_of_jobs():
    """An account of energy reads both."""
    assert set(NODE_WINDOWS_S) <= set(JOB_WINDOWS_S)


@pytest.mark.parametrize("length_s", JOB_WINDOWS_S)
def test_a_length_is_equal_after_the_wire(length_s):
    """JSON has no type for it, and readers compare with ``==``."""
    window = events.DeviceWindow(
        cluster="c", start_s=0.0, length_s=length_s, node="n", device="d", samples=1, mean={}, max={}
    )
    assert msgspec.json.decode(msgspec.json.encode(window), type=events.DeviceWindow).length_s == length_s
    assert msgspec.json.decode(msgspec.json.encode(window).replace(b".0", b""), type=events.DeviceWindow) == window


def test_every_word_has_its_place():
    assert get_args(Severity) == SEVERITIES
    assert sorted(SEVERITY_ORDER, key=SEVERITY_ORDER.__getitem__) == list(reversed(SEVERITIES))
    assert set(STATE_ORDER) == set(get_args(FindingState)) > set(OPEN_FINDINGS)


def test_ranks_end_at_the_limit():
    assert msgspec.convert(RANK_LIMIT - 1, events.Rank) == RANK_LIMIT - 1
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(RANK_LIMIT, events.Rank)
    assert MOST_RANKS.default <= RANK_LIMIT == MOST_RANKS.read({MOST_RANKS.name: str(RANK_LIMIT)})


#: Whole texts: of a finding, a suggestion, a forecast or a refusal, which few hold and nobody keys anything by.
TEXTS = {
    *("notes", "exonerated", "summary", "line", "others_line", "worker_line", "sure", "next"),
    *("currency", "basis", "title", "reason", "risk_reason", "steps", "apply", "manifest", "because", "by"),
    *("excerpt", "series", "target", "findings", "kind_probabilities"),
}


def texts(kind: Any, seen: set[Any]) -> set[str]:
    """The fields of ``kind``, and of all structs in it, that hold text of any length."""
    found: set[str] = set()
    waiting = [("", msgspec.inspect.type_info(kind))]
    while waiting:
        field, part = waiting.pop()
        if isinstance(part, msgspec.inspect.StrType) and part.max_length is None and part.pattern is None:
            found.add(field)
        if isinstance(part, msgspec.inspect.StructType) and part.cls not in seen:
            seen.add(part.cls)
            waiting += [(one.name, one.type) for one in part.fields]
        held = [getattr(part, name, None) for name in ("item_type", "key_type", "value_type")]
        held += [*getattr(part, "types", ()), *getattr(part, "item_types", ())]
        waiting += [(field, one) for one in held if one is not None]
    return found


def test_every_name_on_the_bus_is_bounded():
    """Whoever reads names keeps many of them: of jobs, nodes, devices, producers, phases, labels."""
    seen: set[Any] = set()
    found = set().union(*(texts(topic.event, seen) for topic in topics.BY_NAME.values()))
    assert found <= TEXTS
    assert events.JobDescribed in seen
    assert events.StepTimings in seen


def test_a_name_that_is_too_long_is_refused_and_the_longest_of_our_own_is_not():
    """Five times what our own producers cut theirs to."""
    golden = json.loads((Path(__file__).parent / "golden" / "v1" / "JobDescribed.json").read_bytes())
    for field in ("cluster", "job", "node", "producer"):
        longest = json.dumps(golden | {field: "x" * 1024}).encode()
        assert getattr(wire.decode(topics.JOB, longest), field) == "x" * 1024
        with pytest.raises(wire.WireError, match=field):
            wire.decode(topics.JOB, json.dumps(golden | {field: "x" * 1025}).encode())
    assert 5 * LONGEST_NAME <= 1024
    assert LONGEST_NAME == identity.LONGEST
