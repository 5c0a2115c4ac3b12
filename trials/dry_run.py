"""What a trial would do: its placements, how long it takes, and the first job of each, before anything runs.

Rule of this file: pure, apart from asking the executor for its words.
"""

from math import ceil
from pathlib import Path

from .candidates import Candidates, Impossible
from .executor import Executor, ExecutorError
from .halving import Place
from .jobs import expected_s, job
from .spec import Spec


def refused(
    candidates: Candidates,
    executor: Executor,
    spec: Spec,
    command: tuple[str, ...],
    folder: Path,
    paceline: tuple[str, ...],
) -> tuple[Candidates, dict[int, str]]:
    """``candidates`` without what the executor cannot do, and the manifest of each that it can."""
    manifests: dict[int, str] = {}
    impossible = list(candidates.impossible)
    for one in candidates.possible:
        try:
            made = job(spec, Place(0, 0, one.number), one, command, folder, paceline)
            manifests[one.number] = executor.manifest(made)
        except ExecutorError as error:
            impossible.append(Impossible(one, str(error)))
    possible = tuple(one for one in candidates.possible if one.number in manifests)
    return Candidates(possible, tuple(impossible), candidates.varied), manifests


def placements(candidates: Candidates) -> str:
    """Which placements there are, and why others are none."""
    lines = [f"  {one.number:>3}  {candidates.label(one)}" for one in candidates.possible]
    out = [f"    -  {candidates.label(one.placement)}: impossible: {one.reason}" for one in candidates.impossible]
    return "\n".join([counted(len(lines), "placement"), *lines, *out])


def rungs(spec: Spec, count: int, parallel: int) -> tuple[str, float | None]:
    """The plan of rungs, and its seconds at least; None where steps are counted."""
    lines, total, left = [], 0.0, count
    for rung in range(spec.rungs):
        each = expected_s(spec, rung)
        runs = left * spec.repeats
        measured = (
            f"{spec.seconds * spec.eta**rung:g} s"
            if spec.seconds is not None
            else f"{round((spec.steps or 0) * spec.eta**rung)} steps"
        )
        lines.append(
            f"  rung {rung + 1}: {counted(left, 'placement')}, {counted(spec.repeats, 'run')} of {measured} each"
        )
        total += (each or 0.0) * ceil(runs / max(parallel, 1))
        left = max(spec.keep, ceil(left / spec.eta))
        if left <= spec.keep:
            break
    seconds = total if spec.seconds is not None else None
    tail = (
        "as long as the steps take"
        if seconds is None
        else f"about {duration(seconds)}, longer where placements are alike"
    )
    return "\n".join([*lines, f"  in all: {tail}"]), seconds


def counted(count: int, what: str) -> str:
    """A number with its noun.

    >>> counted(1, "run"), counted(2, "run")
    ('1 run', '2 runs')
    """
    return f"{count} {what}" + "s" * (count != 1)


def duration(seconds: float) -> str:
    """As people say it.

    >>> duration(42), duration(605), duration(7300)
    ('42 s', '10 min', '2.0 h')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
