"""The proof that nothing is missing, of producers whose names come from outside."""

import msgspec
import pytest

from control.sessions import proof as proofs
from control.sessions.proof import Proof
from paceline.selection import Head

LONG = "x" * 100_000


def test_names_of_any_length_are_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages of producers beyond it are counted as unproved; who is followed stays so, and after a restart, too."""
    monkeypatch.setattr(proofs, "MOST_NAME_BYTES", 2**20)
    proof = Proof()
    for at in range(60):
        proof.note("host", Head(producer=f"{at}{LONG}", sequence=0), kept=True)
    assert len(proof.told()) == 10
    assert len(msgspec.json.encode(proof.told())) < 2**21
    assert proof.unproved == 50
    again = Proof(proof.told(), proof.unproved)
    assert not again.note("host", Head(producer=f"0{LONG}", sequence=0), kept=True)
    again.note("host", Head(producer=f"new{LONG}", sequence=0), kept=True)
    assert again.unproved == proof.unproved + 1


def test_gaps_of_all_producers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond that it is no longer known which numbers are missing, but how many are, also after a restart."""
    monkeypatch.setattr(proofs, "MOST_RUNS", 100)
    proof = Proof()
    for sequence in range(0, 60, 2):
        for at in range(5):
            proof.note("host", Head(producer=f"p{at}", sequence=sequence), kept=True)
        assert sum(len(one.runs) for one in proof.told()) <= 100
    assert proofs.missing(proof.told()) == 5 * 29
    again = Proof(proof.told())
    assert not again.note("host", Head(producer="p0", sequence=0), kept=True)
    again.note("host", Head(producer="p0", sequence=100), kept=True)
    assert sum(len(one.runs) for one in again.told()) <= 100
    assert proofs.missing(again.told()) == 5 * 29 + 41
    again.note("host", Head(producer="p0", sequence=101), kept=True)
    assert proofs.missing(again.told()) == 5 * 29 + 41
