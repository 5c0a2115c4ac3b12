"""Caps: how many samples fit into a rank's memory, kept from one start of a run to the next.

Rule of this file: one small file for each kind of run in the state folder; one that cannot be read says nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from torch import nn

from .worker import MOST_SAMPLES

#: Of a file no more is read: ours are shorter.
_MOST_CHARACTERS = 1000


def folder(environ: Mapping[str, str]) -> Path:
    """Where caps are kept: ``paceline/balance`` in the user's state folder."""
    home = environ.get("XDG_STATE_HOME") or os.path.join(
        environ.get("HOME") or os.path.expanduser("~"), ".local", "state"
    )
    return Path(home) / "paceline" / "balance"


def name_of(model: nn.Module, world: int, rank: int) -> str:
    """The file for ``rank`` of runs like this one: with as many ranks, and a model of the same layers."""
    shape = hashlib.sha256(f"{model}".encode()).hexdigest()[:16]
    return f"{shape}-{world}-{rank}.json"


class Caps:
    """What is kept of one rank at ``path``."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> int | None:
        """Samples that fit, as far as an earlier start found out."""
        try:
            with self._path.open(encoding="utf-8") as file:
                found = json.loads(file.read(_MOST_CHARACTERS))["most"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None
        return found if type(found) is int and 1 <= found <= MOST_SAMPLES else None

    def write(self, most: int) -> bool:
        """Keep ``most`` for the next start; False where it cannot be kept."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=self._path.parent, delete=False, encoding="utf-8") as file:
                json.dump({"most": most}, file)
            os.replace(file.name, self._path)
        except OSError:
            return False
        return True


def lowered(share: int, tile: int) -> int:
    """How many samples are tried after ``share`` were too many: an eighth less, in whole tiles.

    >>> lowered(64, 1), lowered(64, 16), lowered(1, 1)
    (56, 48, 0)
    """
    less = max(share - max(share // 8, 1), 0)
    return less - less % tile
