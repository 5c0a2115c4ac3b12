"""What a trial knows its own objects in a cluster by: made up once, and kept in the trial's folder.

Rule of this file: a door to one small file. A mark that is damaged is none, and another one is made up.
"""

import re
import secrets
from pathlib import Path

FILE = "kubernetes-mark"


def of(folder: Path) -> str:
    """The mark of the trial in ``folder``; a new one, which is not kept yet, where it has none."""
    return _read(folder) or secrets.token_hex(8)


def keep(folder: Path, mark: str) -> None:
    """Write it down, all at once, before anything bears it.

    Raises:
        OSError: the folder cannot be written.
    """
    if _read(folder) == mark:
        return
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = folder / f"{FILE}.new"
    new.write_text(mark)
    new.replace(folder / FILE)


def _read(folder: Path) -> str:
    try:
        with (folder / FILE).open(errors="replace") as file:
            told = file.read(100).strip()
    except OSError:
        return ""
    return told if re.fullmatch(r"[0-9a-f]{16}", told) else ""
