"""What ``sacct`` says of Slurm's jobs, as rows of the archive's table.

Rule of this file: pure. It expects lines of ``FIELDS`` with ``|`` between them, none of which a user words, and Unix
times (``ENVIRON``). A job's name is its user's, and may hold lines that look like jobs: names come from an answer of
their own, and of a job that is told there alone nothing is believed. What does not fit is counted.
"""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from paceline.events import LATEST_S

#: What is asked, and how times are to be told.
FIELDS = (
    "JobIDRaw", "JobID", "User", "Account", "Partition", "State", "ExitCode", "Submit", "Start", "End", "NNodes",
    "NodeList", "AllocTRES",
)  # fmt: skip
NAME_FIELDS = ("JobIDRaw", "JobName")
ENVIRON = {"SLURM_TIME_FORMAT": "%s", "TZ": "UTC", "LC_ALL": "C"}
LONGEST = 200
#: A list of nodes is as long as they are named unlike; a cluster of ten thousand fits easily.
LONGEST_NODES = 20_000
_STARTED = re.compile(r"[0-9]{1,12}")
Job = dict[str, Any]


def jobs_of(text: str, names: str, cluster: str, left_out: Counter[str]) -> list[Job]:
    """The jobs that have started, each once, by number; ``left_out`` counts lines that are none."""
    named = _names(names)
    jobs: dict[str, Job] = {}
    for line in text.splitlines():
        told = line.split("|")
        if len(told) != len(FIELDS):
            left_out["lines of another form"] += 1
            continue
        job = _job(dict(zip(FIELDS, told, strict=True)), cluster)
        if job is None:
            left_out["lines that tell no number or time"] += 1
        elif job["start_s"] is not None:  # The others wait, or never ran.
            jobs[job["job"]] = {**job, "name": named.get(job["slurm_job_id"])}
    return [jobs[name] for name in sorted(jobs)]


def _names(text: str) -> dict[str, str]:
    """Number -> name; a number that is told twice, for a name holds a line like that of another job, has none."""
    lines = [line.partition("|") for line in text.split("\n")]
    counted = Counter(number for number, bar, _ in lines if bar)
    return {number: name[:LONGEST] for number, bar, name in lines if bar and counted[number] == 1}


def _job(told: Mapping[str, str], cluster: str) -> Job | None:
    number = told["JobIDRaw"]
    submit_s, start_s, end_s = (_time(told[name]) for name in ("Submit", "Start", "End"))
    exit_status, exit_signal = _exit(told["ExitCode"])
    if not _STARTED.fullmatch(number) or submit_s is None:
        return None
    array, task = _array(told["JobID"])
    words = {"user_name": "User", "account": "Account", "partition": "Partition"}
    return {
        "cluster": cluster,
        "job": f"{array}_{task}" if array and task else number,
        "slurm_job_id": number,
        "array_job_id": array,
        **{column: told[name][:LONGEST] or None for column, name in words.items()},
        "state": (told["State"].split() or [""])[0][:LONGEST] or None,
        "exit_status": exit_status,
        "exit_signal": exit_signal,
        "submit_s": submit_s,
        "start_s": start_s,
        "end_s": end_s,
        "wait_s": None if start_s is None else max(0.0, start_s - submit_s),
        "node_count": _whole(told["NNodes"]),
        "nodes": told["NodeList"][:LONGEST_NODES] or None,
        "gpus": gpus_of(told["AllocTRES"]),
    }


def _time(raw: str) -> float | None:
    """Unix time; None for what has not come (``Unknown``, ``None``, 0)."""
    return float(raw) if raw.isascii() and raw.isdigit() and 0.0 < float(raw[:20]) <= LATEST_S else None


def _whole(raw: str) -> int | None:
    return int(raw) if raw.isascii() and raw.isdigit() and len(raw) <= 9 else None


def _exit(raw: str) -> tuple[int | None, int | None]:
    """Status and signal.

    >>> _exit("3:0"), _exit("0:9"), _exit("")
    ((3, 0), (0, 9), (None, None))
    """
    status, _, signal = raw.partition(":")
    return _whole(status), _whole(signal)


def _array(raw: str) -> tuple[str | None, str | None]:
    """The number of an array of jobs, and which of it this is.

    >>> _array("12_3"), _array("12"), _array("12+1"), _array("12_[4-9%2]")
    (('12', '3'), (None, None), (None, None), ('12', None))
    """
    match = re.fullmatch(r"([0-9]{1,12})_(?:([0-9]{1,12})|\[.*\])", raw)
    return (match[1], match[2]) if match else (None, None)


def gpus_of(tres: str) -> int | None:
    """How many GPUs were given: all of them, or the sum by type where that is all that is told; None where no word is.

    >>> gpus_of("billing=4,cpu=4,gres/gpu:a100=2,gres/gpu=2,node=1"), gpus_of("gres/gpu:a100=2,gres/gpu:v100=1")
    (2, 3)
    >>> gpus_of("cpu=4,node=1"), gpus_of("")
    (0, None)
    """
    told = dict(part.partition("=")[::2] for part in tres.split(","))
    if not tres:
        return None
    if "gres/gpu" in told:
        return _whole(told["gres/gpu"])
    typed = [_whole(count) for name, count in told.items() if name.startswith("gres/gpu:")]
    return sum(count for count in typed if count is not None)
