"""Another cut for somebody's pipeline: which layers to move, what it should bring, and when a restart has paid.

Rule of this file: pure. It reads a finding's evidence, which it does not trust, and assumes: one stage a rank, the
schedule 1F1B, devices alike, layers of one stage alike. How many layers a stage has is known only where the job tells
(``PACELINE_LAYERS``); else shares of a stage's own layers are named, as if layers could be divided. Parameters are
never known, so moving them is not counted, and it says so.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from paceline.balance.recut import pipeline_step_s
from paceline.balance.stages import stages, stages_s
from paceline.balance.worker import SplitError
from paceline.events import Finding

from ..jobs.stage_imbalance import MICROBATCHES_NAME, MOST_STAGES, STAGE_NAME

#: The label with the layers of each stage, and how many layers are believed.
LAYERS_LABEL, MOST_LAYERS = "layers", 2000
_MOST_MICROBATCHES = 4096
#: Less than this share of a stage's layers is not worth a word.
_LEAST_SHARE = 0.03
_HOUR_S = 3600.0


class StageCut(NamedTuple):
    """What to move, in words; by which share steps become faster, with an interval; and how that comes about."""

    words: tuple[str, ...]
    ratio: float
    low: float
    high: float
    basis: str


def stage_cut(
    finding: Finding, labels: Mapping[str, str], step_s: float, restart_s: float, least_share: float
) -> StageCut | None:
    """The cut that ``finding`` asks for; None where it does not tell of every stage, or none is better.

    Args:
        finding: of stages that are uneven.
        labels: of the job.
        step_s: a step as it is now; 0 where it is not known.
        restart_s: what a restart costs, by assumption.
        least_share: of what an even cut would bring, what is left at worst: layers are whole.
    """
    took_s = _stages(finding)
    if len(took_s) < 2:
        return None
    microbatches = _microbatches(finding)
    layers = layers_of(labels, len(took_s))
    made = _in_layers(took_s, layers) if layers else _in_shares(took_s)
    if made is None:
        return None
    words, new_s = made
    # Where micro-batches are not told, as few as 1F1B takes are assumed, and endlessly many at best.
    count = microbatches or len(took_s)
    ratio = _gain(took_s, new_s, count)
    if not ratio > 0:
        return None
    sure = min(max(finding.confidence, 0.0), 1.0)
    best = ratio if microbatches else max(took_s) / max(new_s) - 1
    low = ratio * sure * (1.0 if layers else least_share)
    told = _basis(len(took_s), microbatches, bool(layers), sure)
    pays = _pays(step_s or pipeline_step_s([one / count for one in took_s], count), ratio, restart_s)
    return StageCut((words, pays), ratio, low, best * (2.0 - sure) if layers else best, told)


def layers_of(labels: Mapping[str, str], stages_told: int) -> list[int]:
    """The layers of each stage by the job's word; empty where it tells none, or what cannot be.

    >>> layers_of({"layers": "8,8,8,8"}, 4), layers_of({"layers": "8,8"}, 4), layers_of({"layers": "8,x"}, 2)
    ([8, 8, 8, 8], [], [])
    """
    parts = labels.get(LAYERS_LABEL, "").split(",")
    if len(parts) != stages_told or not all(part.isascii() and part.isdigit() and len(part) < 5 for part in parts):
        return []
    layers = [int(part) for part in parts]
    return layers if min(layers) > 0 and sum(layers) <= MOST_LAYERS else []


def _stages(finding: Finding) -> list[float]:
    """Seconds a step of each stage, from 0 on."""
    told = {one.name: one.value for one in finding.evidence}
    took_s: list[float] = []
    while len(took_s) < MOST_STAGES and (name := STAGE_NAME.format(len(took_s))) in told:
        took_s.append(told[name])
    return took_s if all(0 < one < 1e6 for one in took_s) else []


def _microbatches(finding: Finding) -> int:
    told = next((one.value for one in finding.evidence if one.name == MICROBATCHES_NAME), 0.0)
    return int(told) if 1 < told <= _MOST_MICROBATCHES else 0


def _in_layers(took_s: Sequence[float], layers: Sequence[int]) -> tuple[str, list[float]] | None:
    """The best cut in whole layers."""
    layers_s = [own_s / count for own_s, count in zip(took_s, layers, strict=True) for _ in range(count)]
    alike = [1.0] * len(layers)
    try:
        cut = stages(layers_s, alike)
    except SplitError:
        return None
    if cut == list(layers):
        return None
    words = f"Cut it into {_row(cut)} layers a stage in place of {_row(layers)}; layers of a stage are taken as alike."
    return words, stages_s(layers_s, alike, cut)


def _in_shares(took_s: Sequence[float]) -> tuple[str, list[float]] | None:
    """What goes over each border so that all stages are alike: a share of the layers of the stage that gives."""
    mean_s, over_s, moves = sum(took_s) / len(took_s), 0.0, []
    for stage in range(len(took_s) - 1):
        over_s += took_s[stage] - mean_s
        giver, taker = (stage, stage + 1) if over_s > 0 else (stage + 1, stage)
        share = min(abs(over_s) / took_s[giver], 1.0)
        if share >= _LEAST_SHARE:
            moves.append(f"about {share:.0%} of stage {giver}'s layers to stage {taker}")
    if not moves:
        return None
    words = f"Move {'; '.join(moves)}: layers of a stage are taken as alike (PACELINE_LAYERS=8,8,… tells how many)."
    return words, [mean_s] * len(took_s)


def _gain(before_s: Sequence[float], after_s: Sequence[float], microbatches: int) -> float:
    old, new = (pipeline_step_s([one / microbatches for one in cut], microbatches) for cut in (before_s, after_s))
    return old / new - 1


def _pays(step_s: float, ratio: float, restart_s: float) -> str:
    """When a restart has paid."""
    saved_s = step_s * ratio / (1 + ratio)
    steps = restart_s / saved_s
    hours = steps * step_s / (1 + ratio) / _HOUR_S
    return (
        f"A restart of {restart_s:.0f} s, which is an assumption (advice threshold restart_s), has paid after "
        f"{steps:.0f} steps, {hours:.1f} h; parameters are not known, so the time to move them is not counted."
    )


def _basis(count: int, microbatches: int, whole: bool, sure: float) -> str:
    slots = f"{microbatches} micro-batches" if microbatches else f"{count} micro-batches, and endlessly many at best"
    low = "" if whole else ", and whole layers leave half of it at worst"
    return (
        f"by 1F1B of {count} stages and {slots}, each behind the slowest stage, of stage times as they are; the low "
        f"end is as the finding is unsure ({sure:.0%}){low}"
    )


def _row(counts: Sequence[int]) -> str:
    return ", ".join(map(str, counts))
