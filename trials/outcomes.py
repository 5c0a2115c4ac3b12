"""From how a job ended to the run that the journal keeps and the decision takes.

Rule of this file: pure.
"""

from .executor import Ended, Job
from .halving import Outcome, Place, Run
from .last_words import memory_said, without_torchrun
from .result import NodeResult, Told, decode, together

#: Lines and characters of a failed run's output that are kept.
MOST_LINES, MOST_SAID = 20, 4096

OUTCOMES = {
    "measured": "measured",
    "crashed": "crashed",
    "hung": "hung",
    "out_of_memory": "out of memory",
    "gone": "lost by its executor",
}


def told_of(place: Place, made: Job, ended: Ended, samples: int | None, took_s: float) -> Told:
    """What the journal keeps of a job that ended. ``samples`` are those a step that its placement asks for."""
    results = [found for one in ended.results if (found := decode(one, made.id)) is not None]
    result = together(results)
    if result is None:
        outcome, reason = _without_result(ended)
        result = NodeResult(
            job=made.id, node="", outcome=outcome, reason=reason, said=_tail(without_torchrun(ended.said))
        )
    if samples is None and result.batch_size is not None and result.world_size is not None:
        samples = result.batch_size * result.world_size
    return Told(
        rung=place.rung,
        repeat=place.repeat,
        placement=place.placement,
        attempt=place.attempt,
        outcome=result.outcome,
        reason=result.reason,
        blocks_s=result.blocks_s if result.outcome == "measured" else [],
        samples=samples,
        steps=result.steps,
        batch_size=result.batch_size,
        phases=result.phases,
        findings=result.findings,
        versions=result.versions,
        said=result.said,
        started_s=result.started_s,
        took_s=took_s,
    )


def _without_result(ended: Ended) -> tuple[Outcome, str]:
    if ended.how == "killed":
        return "hung", "over its time limit; killed"
    if ended.how == "gone":
        return "gone", "its end is not known"
    if memory := memory_said(ended.said):
        return "out_of_memory", f"{memory} (status {ended.status})"
    return "crashed", f"status {ended.status}, and no result"


def _tail(text: str) -> str:
    return "\n".join(text.splitlines()[-MOST_LINES:])[-MOST_SAID:]


def run_of(told: Told) -> Run:
    """A line of the journal as the decision takes it."""
    place = Place(told.rung, told.repeat, told.placement, told.attempt)
    return Run(place, told.outcome, tuple(told.blocks_s), told.samples)
