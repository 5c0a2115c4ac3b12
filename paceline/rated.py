"""What ``paceline benchmark`` measured on a node, in a file of that node: written by it, read by who starts work there.

Rule of this file: the standard library alone, for training processes read it, too. A file that is not there, or holds
something else, says nothing; every number in it is bounded. The name of the node is in the file's name, for nodes often
share a home.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import secrets
import stat
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from paceline.bounds import LATEST_S
from paceline.rated_names import CPU as CPU
from paceline.rated_names import FASTEST as FASTEST
from paceline.rated_names import HOST as HOST
from paceline.settings import RATED_FILE

LAYOUT = 1
#: What a file may hold.
MOST_BYTES, MOST_SPEEDS, MOST_VERSIONS, LONGEST_WORD = 2**20, 1024, 64, 256
#: No count is more, as in events.
MOST_COUNTED = 2**53


@dataclass(frozen=True)
class Speed:
    """One measured speed: ``paceline.events.RatedSpeed``, where there is no msgspec."""

    device: str
    name: str
    unit: str
    value: float
    low: float
    high: float
    samples: int
    time_s: float
    size_bytes: int | None = None
    ranks: int | None = None
    busy_ratio: float | None = None


@dataclass(frozen=True)
class Rated:
    """All that was measured on a node, and by which versions of libraries."""

    node: str
    time_s: float
    speeds: tuple[Speed, ...]
    versions: Mapping[str, str] = field(default_factory=dict)

    def of(self, device: str, name: str) -> float | None:
        """The value of a speed that has no size, as it was measured last; None where it was not."""
        values = [one.value for one in self.speeds if (one.device, one.name, one.size_bytes) == (device, name, None)]
        return values[-1] if values else None


def path_of(environ: Mapping[str, str], node: str) -> Path:
    """Where the ratings of ``node`` are kept: as configured, else in the user's state folder."""
    told = RATED_FILE.read(environ)
    if told:
        return Path(told)
    home = environ.get("XDG_STATE_HOME") or os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".local/state")
    name = re.sub(r"[^A-Za-z0-9._-]", "_", node).lstrip(".")[:LONGEST_WORD] or "node"
    return Path(home) / "paceline" / "rated" / f"{name}.json"


def read(path: Path) -> Rated | None:
    """What the file says; None where it is not there, cannot be read, or holds something else."""
    return look(path)[0]


def look(path: Path, node: str | None = None) -> tuple[Rated | None, str | None]:
    """What the file says (of ``node``, where one is named); and where it is there and says nothing, why."""
    try:
        held = _held(path)
    except FileNotFoundError:
        return None, None
    except OSError as error:
        return None, f"{path}: {error.strerror}"
    if len(held) > MOST_BYTES:
        return None, f"{path}: larger than {MOST_BYTES} bytes; write it again with `paceline benchmark`"
    try:
        rated = _understood(json.loads(held))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None, f"{path}: not what `paceline benchmark` writes; remove it and measure again"
    if node is not None and rated.node != node:
        return None, f"{path}: of node {rated.node}, not of {node}; PACELINE_NODE or --node says which this is"
    return rated, None


def _held(path: Path) -> bytes:
    """The file's first bytes, one more than it may have; nobody waits for the writer of a pipe."""
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(number, "rb") as file:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        return file.read(MOST_BYTES + 1)


def write(path: Path, rated: Rated) -> None:
    """Keep ``rated`` at ``path``; who reads meanwhile sees what was there before, or all of this.

    Raises:
        OSError: it cannot be written.
    """
    replace(path, json.dumps({"layout": LAYOUT, **asdict(rated)}, allow_nan=False, indent=1) + "\n")


def replace(path: Path, text: str) -> None:
    """Put ``text`` in the place of the file at ``path``, all of it or nothing, readable for everybody.

    Raises:
        OSError: it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    name = path.with_name(f".{path.name[:64]}-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        with name.open("x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        name.chmod(0o644)  # Collectors of other users read it.
        os.replace(name, path)
    except BaseException:  # Ctrl-C, too, leaves nothing behind.
        with contextlib.suppress(FileNotFoundError):
            name.unlink()
        raise


def _understood(held: Any) -> Rated:
    if held["layout"] != LAYOUT or len(held["speeds"]) > MOST_SPEEDS:
        raise ValueError
    if not isinstance(held["speeds"], list):
        raise ValueError
    speeds = tuple(map(speed_of, held["speeds"]))
    return Rated(_word(held["node"]), _number(held["time_s"], LATEST_S), speeds, versions_of(held["versions"]))


def versions_of(held: Any) -> dict[str, str]:
    """The versions that a document holds.

    Raises:
        ValueError, TypeError, AttributeError: something else.
    """
    if len(held) > MOST_VERSIONS:
        raise ValueError
    return {_word(name): _word(version) for name, version in held.items()}


def speed_of(held: Any) -> Speed:
    """The speed that a document holds.

    Raises:
        ValueError, KeyError, TypeError: something else.
    """
    words = [_word(held[name]) for name in ("device", "name", "unit")]
    numbers = [_number(held[name]) for name in ("value", "low", "high")]
    size, ranks, busy = held.get("size_bytes"), held.get("ranks"), held.get("busy_ratio")
    if not numbers[0] > 0 or not numbers[1] <= numbers[0] <= numbers[2]:
        raise ValueError
    return Speed(
        words[0],
        words[1],
        words[2],
        numbers[0],
        numbers[1],
        numbers[2],
        int(_number(held["samples"], MOST_COUNTED)),
        _number(held["time_s"], LATEST_S),
        None if size is None else int(_number(size, MOST_COUNTED)),
        None if ranks is None else int(_number(ranks, MOST_COUNTED)),
        None if busy is None else _number(busy),
    )


def _word(held: Any) -> str:
    if not isinstance(held, str) or not held.isprintable() or len(held) > LONGEST_WORD:
        raise ValueError
    return held


def _number(held: Any, most: float = FASTEST) -> float:
    if isinstance(held, bool) or not isinstance(held, (int, float)) or not 0 <= held <= most:  # NaN neither.
        raise ValueError
    return float(held)
