"""From a placement and its place in the trial to the job that an executor starts.

Rule of this file: pure.
"""

import shlex
from pathlib import Path

from .executor import Job
from .halving import Place
from .placement import Placement, filled, numbered
from .plan import ANALYSE_S, TERM_S, Measuring
from .spec import NODE_WORDS, Spec

#: What a start takes before anybody has measured it: interpreter, PyTorch, the process group; and the end of it.
STARTS_S, ENDS_S = 20.0, 10.0
#: A run by steps may take so long where the spec does not say.
BY_STEPS_S = 3600.0


def measured_s(spec: Spec, rung: int) -> float | None:
    """For how long a run of ``rung`` is measured; None where it is so many steps."""
    return None if spec.seconds is None else spec.seconds * spec.eta**rung


def expected_s(spec: Spec, rung: int, starts_s: float = STARTS_S) -> float | None:
    """About how long such a run takes; None where nobody can tell."""
    measured = measured_s(spec, rung)
    return None if measured is None else starts_s + measured + ENDS_S


def measuring(spec: Spec, place: Place, placement: Placement, folder: Path) -> Measuring:
    """How the run at ``place`` is measured."""
    seconds = measured_s(spec, place.rung)
    limit_s = spec.limit_s or spec.start_s + spec.hang_s + (BY_STEPS_S if seconds is None else 5 * seconds)
    return Measuring(
        job=place.job,
        folder=str(folder / place.job),
        nodes=placement.nodes or 1,
        warm_up=spec.warm_up,
        seconds=seconds,
        steps=None if spec.steps is None else round(spec.steps * spec.eta**place.rung),
        start_s=spec.start_s,
        hang_s=spec.hang_s,
        limit_s=limit_s,
    )


def variables(placement: Placement) -> dict[str, str]:
    """What a script finds of its placement in its environment, beside the variables that the spec sets."""
    return {variable(name): value for name, value in placement.values().items()} | placement.environ


def variable(dimension: str) -> str:
    """The variable in which a script finds a value of its placement.

    >>> variable("batch_size")
    'PACELINE_TRIAL_BATCH_SIZE'
    """
    return f"PACELINE_TRIAL_{dimension.upper()}"


def job(
    spec: Spec,
    place: Place,
    placement: Placement,
    command: tuple[str, ...],
    folder: Path,
    paceline: tuple[str, ...],
) -> Job:
    """The job of ``place``; ``paceline`` is how the program is called where it runs."""
    plan = measuring(spec, place, placement, folder)
    words = filled(command, placement.values(), NODE_WORDS)
    return Job(
        id=place.job,
        command=(*paceline, "trial", "--inside", plan.encoded(), "{node_rank}", "--", *words),
        folder=folder / place.job,
        expected_s=expected_s(spec, place.rung) or BY_STEPS_S,
        limit_s=plan.limit_s + TERM_S + ANALYSE_S + ENDS_S,
        nodes=placement.nodes or 1,
        on=placement.on or (),
        ranks_per_node=placement.ranks or 1,
        gpus=placement.gpus,
        cpus=placement.cpus,
        numa=placement.numa,
        environ=variables(placement),
    )


def by_hand(placement: Placement, command: tuple[str, ...]) -> str:
    """The command line that runs ``command`` so, for a person to copy."""
    told = {**variables(placement)}
    if placement.gpus is not None:
        told |= {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(map(str, placement.gpus))}
    words = [f"{name}={shlex.quote(value)}" for name, value in told.items()]
    if placement.cpus is not None:
        words.append(f"taskset -c {numbered(placement.cpus)}")
    if placement.numa is not None:
        bound = "" if placement.cpus is not None else f"--cpunodebind={placement.numa} "
        words.append(f"numactl {bound}--membind={placement.numa}")
    values = placement.values()
    if (placement.nodes or 1) == 1:
        values |= {"nodes": "1", "node_rank": "0", "master": "127.0.0.1", "port": "29500"}
    return " ".join([*words, shlex.join(filled(command, values, NODE_WORDS))])
