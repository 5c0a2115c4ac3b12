"""Which findings are about a node or a switch as a whole, and how many a finding for many is about."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from paceline import topics, wire
from paceline.accused_units import accused_ranks, many_of, unit_of
from paceline.events import Evidence, Finding

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


def _for_many(value: float, unit: str, ranks: int) -> Finding:
    finding = wire.decode(topics.FINDING, RELEASED.read_bytes())
    assert isinstance(finding, Finding)
    count = Evidence(name="alike", value=value, unit=unit, peers=None, rule="")
    return msgspec.structs.replace(finding, ranks=list(range(ranks)), evidence=[count])


@pytest.mark.parametrize(
    ("value", "unit", "named", "accused"),
    [
        (300.0, "ranks", 256, 300),
        (3.0, "ranks", 256, 256),  # never fewer than it names
        (40.0, "nodes", 256, 256),
        (1e300, "ranks", 2, 2),
        (-1.0, "ranks", 2, 2),
        (float("nan"), "ranks", 2, 2),
        (5.0, "", 2, 2),
    ],
)
def test_a_finding_for_many_accuses_more_ranks_than_it_names(value: float, unit: str, named: int, accused: int) -> None:
    """Its evidence has the number; one that cannot be counts nothing."""
    assert accused_ranks(_for_many(value, unit, named)) == accused


@pytest.mark.parametrize(
    ("name", "unit", "accused"),
    [("missing", "ranks", 512), ("ended_first", "ranks", 512), ("missing", "nodes", 64), ("waiting", "ranks", 64)],
)
def test_a_hang_and_a_death_may_accuse_more_ranks_than_they_name(name: str, unit: str, accused: int) -> None:
    """They are no findings for many: whom they are about is not counted in anything else."""
    finding = wire.decode(topics.FINDING, RELEASED.read_bytes())
    assert isinstance(finding, Finding)
    count = Evidence(name=name, value=512.0, unit=unit, peers=None, rule="")
    finding = msgspec.structs.replace(finding, ranks=list(range(64)), evidence=[count])
    assert (accused_ranks(finding), many_of(finding)) == (accused, None)


def test_a_number_of_another_finding_counts_nothing() -> None:
    """Only a finding for many has it."""
    finding = wire.decode(topics.FINDING, RELEASED.read_bytes())
    assert isinstance(finding, Finding)
    assert many_of(finding) is None
    assert accused_ranks(finding) == len(finding.ranks)
