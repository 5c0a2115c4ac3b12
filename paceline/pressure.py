"""Pressure: the share of time in which something stood still for want of a processor, memory or a disk (Linux's PSI).

Rule of this file: a reader with the path as an argument. A file that is missing or says something else is None.
"""

from pathlib import Path


def pressure(path: Path) -> float | None:
    """PSI's ``some avg10`` in a /proc/pressure file, as a ratio; None where the kernel has no PSI or has it off."""
    try:
        text = path.read_text()
    except OSError:
        return None
    for line in text.splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "some":
            return _percent(rest)
    return None


def _percent(fields: str) -> float | None:
    for field in fields.split():
        name, _, raw = field.partition("=")
        if name == "avg10":
            try:
                return round(float(raw) / 100, 6)
            except ValueError:
                return None
    return None
