"""Files of /proc, read at most so far: what cannot be read is empty."""

from pathlib import Path

_MOST_BYTES = 16_384


def text_of(path: Path) -> str:
    """The start of a file; "" where it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES).decode(errors="replace")
    except OSError:
        return ""


def stat_of(folder: Path) -> list[str]:
    """The words of a process's or thread's ``stat`` from its state on; none where it cannot be read."""
    # The name stands in brackets and may hold anything, brackets too.
    return text_of(folder / "stat").rpartition(")")[2].split()
