"""Which findings are about a node or a switch as a whole."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from paceline import topics, wire
from paceline.accused_units import unit_of
from paceline.events import Finding

RELEASED = Path(__file__).parent / "golden" / "v1.5" / "Finding.json"


@pytest.mark.parametrize(
    ("changes", "unit"),
    [
        ({"ranks": [3], "nodes": ["n1"]}, ""),
        ({"ranks": [3, 4], "nodes": ["n1"]}, "node n1"),
        ({"ranks": [3, 4], "nodes": ["n1"], "group": "dp"}, "node n1"),
        ({"ranks": [3, 4], "nodes": ["n1", "n2"], "group": "switch s1"}, "switch s1"),
        ({"ranks": [3, 4], "nodes": []}, ""),
        ({"kind": "node_silent", "ranks": [3], "nodes": ["n1"]}, "node n1"),
        ({"kind": "node_silent", "ranks": [], "nodes": ["n1"]}, ""),
        ({"kind": "hang", "ranks": [3, 4], "nodes": ["n1"]}, ""),
    ],
)
def test_several_ranks_of_one_node_or_switch_are_that(changes: dict[str, Any], unit: str) -> None:
    """One rank is a rank, and who is missing from a collective is no unit."""
    finding = wire.decode(topics.FINDING, RELEASED.read_bytes())
    assert isinstance(finding, Finding)
    plain: dict[str, Any] = {"kind": "straggler", "group": None}
    assert unit_of(msgspec.structs.replace(finding, **(plain | changes))) == unit
