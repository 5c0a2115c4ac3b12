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
