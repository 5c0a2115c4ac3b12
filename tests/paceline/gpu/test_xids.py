"""XIDs: every code has its part, meaning and advice; programs' own faults prove nothing against the GPU."""

import pytest

from paceline.gpu.xids import PARTS, SILENT, XIDS, xid


@pytest.mark.parametrize("code", XIDS)
def test_a_code_has_part_meaning_and_advice(code):
    """Nobody is left with a number."""
    entry = XIDS[code]
    assert entry.part in PARTS
    assert entry.meaning
    assert entry.advice


@pytest.mark.parametrize("code", [code for code, entry in XIDS.items() if entry.part == "program"])
def test_a_fault_of_the_program_proves_nothing(code):
    """Most XIDs accuse no hardware."""
    assert (XIDS[code].proof, XIDS[code].severity) == (False, "warning")


@pytest.mark.parametrize("code", [code for code, entry in XIDS.items() if entry.severity == "critical"])
def test_what_is_critical_is_proof(code):
    """A sign alone drains no node."""
    assert XIDS[code].proof


def test_a_code_is_either_told_or_silent():
    """What only accompanies others has no row."""
    assert not SILENT & set(XIDS)
    assert [xid(code) for code in sorted(SILENT)] == [None] * len(SILENT)


def test_an_unknown_code_is_told_as_unknown():
    """Never guessed."""
    entry = xid(9999)
    assert entry is not None
    assert (entry.meaning, entry.proof) == ("not in this table", False)
