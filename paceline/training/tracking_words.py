"""What rank 0 and the process that tracks its job tell each other, over a local SEQPACKET socket of their own.

Rule of this file: as of ``messages``: data, by the standard library alone. No secret travels: an address goes without
its login. The rank says which runs of experiment trackers its script has open, as often as that changes; it is reported
points and texts where somebody in its process logs them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import NamedTuple

#: Environment variable with the path of the socket on which the tracking process listens.
TRACKING_VARIABLE = "PACELINE_TRACKING_SOCKET"
#: The largest message of either side, runs that are told at most, and the longest name of one.
MOST_BYTES = 65_536
MOST_RUNS = 16
LONGEST = 2048
#: Who keeps runs; the last is a callback in the script's own process.
MLFLOW, WANDB, TENSORBOARD, CALLBACK = TRACKERS = ("mlflow", "wandb", "tensorboard", "callback")
#: The step of a point, which has a metric of its own where a tracker's step axis is the script's.
STEP = "paceline/step"
_LOGIN = re.compile(r"(?<=://)[^/?#]*@")


class OpenRun(NamedTuple):
    """A run that is open: its id, and the address or folder where it is kept."""

    tracker: str
    run: str = ""
    place: str = ""


class Told(NamedTuple):
    """What is to be logged: numbers and texts by name, and tags; and by which trackers of those that rank 0 logs to."""

    values: dict[str, float]
    texts: dict[str, str]
    tags: list[str]
    #: A tracking process of an earlier version names none and means all.
    trackers: tuple[str, ...] = (WANDB, CALLBACK)


def without_secret(address: str) -> str:
    """``address`` without a login.

    >>> without_secret("https://ada:secret@mlflow.example.org/x"), without_secret("sqlite:///a@b.db")
    ('https://mlflow.example.org/x', 'sqlite:///a@b.db')
    """
    return _LOGIN.sub("", address)


def encode_runs(runs: Iterable[OpenRun]) -> bytes:
    """The runs that are open, as they travel; what cannot be a run is left out.

    >>> encode_runs([OpenRun("mlflow", "a1", "http://ada:secret@host"), OpenRun("mlflow", "b" * 3000)])
    b'{"runs":[["mlflow","a1","http://host"]]}'
    """
    told = [[run.tracker, run.run, without_secret(run.place)] for run in runs]
    told = [words for words in told if all(len(word) <= LONGEST for word in words)][:MOST_RUNS]
    return json.dumps({"runs": told}, separators=(",", ":")).encode()


def encode_told(told: Told) -> bytes:
    """``told`` as it travels."""
    return json.dumps(told._asdict(), separators=(",", ":"), allow_nan=False).encode()


def decode_told(data: bytes) -> Told | None:
    """What the tracking process told; None where that was something else.

    >>> decode_told(encode_told(Told({"paceline/step": 3}, {}, ["paceline:straggler"])))
    Told(values={'paceline/step': 3}, texts={}, tags=['paceline:straggler'], trackers=('wandb', 'callback'))
    >>> decode_told(b"["), decode_told(b'{"values":{"a":"b"},"texts":{},"tags":[]}')
    (None, None)
    """
    try:
        told = json.loads(data)
        values, texts, tags = dict(told["values"]), dict(told["texts"]), list(told["tags"])
        trackers = tuple(told.get("trackers", (WANDB, CALLBACK)))
    except (ValueError, TypeError, LookupError, RecursionError):
        return None
    numbers = all(type(value) in (int, float) for value in values.values())
    words = all(isinstance(word, str) for word in [*values, *texts, *texts.values(), *tags, *trackers])
    return Told(values, texts, tags, trackers) if numbers and words else None
