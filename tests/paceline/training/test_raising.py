"""Collectives that raise: they have no result, so that nobody takes them for ended."""

import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments.forking import Forking

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("pytorch")]


def test_what_raised_has_not_ended_and_nobody_waits_for_it(
    new_listener: Callable[[], Any], two_ranks: Callable[[], Forking], scripts: Path
) -> None:
    """A call, a wait and a backward with a gradient reducer, told apart by their bytes: 20, 24 and 12."""
    listener, forked = new_listener(), two_ranks()
    listener.run(*forked.command, str(scripts / "raising.py"), environ=forked.environ)
    stayed, left = listener.heard
    ended = [Counter(row.bytes for row in heard.collectives) for heard in (stayed, left)]
    assert ended[0] == ended[1], forked.said()
    assert (ended[0][16], ended[0][20], ended[0][24]) == (3, 0, 0)
    assert stayed.decoder.open(math.inf) == left.decoder.open(math.inf) == []
