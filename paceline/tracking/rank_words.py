"""Reads what rank 0 says of its script's runs.

Rule of this file: pure, and safe from whatever arrives: it becomes a few short words or nothing.
"""

import msgspec

from paceline.decoders import json_decoder
from paceline.training.tracking_words import LONGEST, MOST_RUNS, TRACKERS, OpenRun


class _Said(msgspec.Struct):
    runs: list[tuple[str, str, str]]


_decoder = json_decoder(_Said)


def decode_runs(data: bytes) -> list[OpenRun] | None:
    """The runs that are open; None where no rank says that. Trackers that only another version knows are left out.

    >>> decode_runs(b'{"runs":[["mlflow","a1","http://host:5000"],["newer","",""]]}')
    [OpenRun(tracker='mlflow', run='a1', place='http://host:5000')]
    >>> decode_runs(b'{"runs":[["mlflow"]]}'), decode_runs(b'[')
    (None, None)
    """
    try:
        said = _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if len(said.runs) > MOST_RUNS or any(len(word) > LONGEST or "\0" in word for run in said.runs for word in run):
        return None
    return [OpenRun(*run) for run in said.runs if run[0] in TRACKERS]
