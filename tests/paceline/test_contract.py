"""What readers of events take for granted of the contract's constants."""

from itertools import pairwise
from typing import get_args

import msgspec
import pytest

from paceline import events
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
from paceline.settings import MOST_RANKS


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
