"""Whether a pipeline is worth cutting anew: from what layers and devices took to a new cut, its gain and what it costs.

Rule of this file: pure. It assumes the schedule 1F1B with one stage a rank, times in seconds a micro-batch (forward and
backward together), each layer measured where it is now, and one common reference measured on every stage. A layer's
own cost is what it took over how much slower than the fastest its device was at the reference; so the reference must
be work of the layers' kind. What is no number is no reason to stop a training run: the cut then stays, and it says why.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from .stages import PARAMETER_BYTES, Move, move, stages, stages_s
from .worker import SplitError

#: Standard errors by which a gain must be over the least one: two are passed by chance once in forty times.
SURE = 2.0


class Measurement(NamedTuple):
    """What the stages measured; ``layers_s`` and ``layer_errors_s`` on the devices that the layers are on now.

    Args:
        layers_s: seconds a micro-batch, shape (layers,).
        layer_errors_s: their standard errors, shape (layers,).
        references_s: seconds of the common reference, shape (stages,).
        reference_errors_s: their standard errors, shape (stages,).
        step_s: a step as it is now.
    """

    layers_s: Sequence[float]
    layer_errors_s: Sequence[float]
    references_s: Sequence[float]
    reference_errors_s: Sequence[float]
    step_s: float


class Terms(NamedTuple):
    """What a new cut must be worth.

    Args:
        microbatches: a step's.
        parameters: of each layer, shape (layers,).
        steps_left: in which it can pay.
        restart_s: from the last step before to the first one after, without the moving.
        bytes_per_s: at which weights and the optimizer's state are moved.
        parameter_bytes: that move with a parameter.
        least_gain: by which share steps must become faster, over what noise explains.
    """

    microbatches: int
    parameters: Sequence[int]
    steps_left: int
    restart_s: float
    bytes_per_s: float
    parameter_bytes: int = PARAMETER_BYTES
    least_gain: float = 0.03


class Recut(NamedTuple):
    """What was decided: ``after`` is the cut to go on with, and ``why`` says in words why it is that one.

    ``best`` is the best cut there is, ``gain`` by which share steps are faster with it, ``noise`` its standard error.
    """

    before: list[int]
    best: list[int]
    after: list[int]
    step_s: tuple[float, float]
    gain: float
    noise: float
    move: Move
    why: str

    @property
    def pays(self) -> bool:
        """Whether the cut changes."""
        return self.after != self.before


def recut(seen: Measurement, before: Sequence[int], terms: Terms) -> Recut:
    """Decides whether to go on with the cut ``before`` or with the best one.

    >>> seen = Measurement([3.0, 1.0, 1.0, 1.0], [0.0] * 4, [1.0, 1.0], [0.0, 0.0], step_s=18.0)
    >>> terms = Terms(microbatches=4, parameters=[10] * 4, steps_left=100, restart_s=30.0, bytes_per_s=1e9)
    >>> made = recut(seen, [2, 2], terms)
    >>> made.after, made.step_s, made.pays, round(made.move.break_even_steps)
    ([1, 3], (18.0, 15.0), True, 10)
    """
    try:
        return _compared(seen, list(before), terms)
    except SplitError as error:
        now = list(before)
        return Recut(now, now, now, (seen.step_s, seen.step_s), 0.0, 0.0, Move(0, 0.0, 0.0), f"the cut stays: {error}")


def even(layers: int, count: int) -> list[int]:
    """As many layers a stage as can be alike; the first stages have one more.

    >>> even(7, 3)
    [3, 2, 2]

    Raises:
        SplitError: there are fewer layers than stages.
    """
    if not 1 <= count <= layers:
        raise SplitError(f"{layers} layers cannot fill {count} stages: use fewer ranks, or a model of more layers")
    return [layers // count + (stage < layers % count) for stage in range(count)]


def pipeline_step_s(stage_s: Sequence[float], microbatches: int) -> float:
    """Seconds of a step of 1F1B: the first micro-batch through all stages, each further one behind the slowest.

    Of stages alike that is ``(microbatches + stages - 1)`` times one.

    >>> pipeline_step_s([1.0, 1.0, 1.0], 8), pipeline_step_s([1.0, 2.0, 1.0], 8)
    (10.0, 18.0)
    """
    return sum(stage_s) + (microbatches - 1) * max(stage_s)


def bubble(stage_s: Sequence[float], microbatches: int, step_s: float) -> float:
    """The share of a step for which stages wait, on average.

    >>> bubble([1.0, 1.0], 3, 4.0)
    0.25
    """
    used = microbatches * sum(stage_s) / len(stage_s)
    return max(1.0 - used / step_s, 0.0) if step_s > 0 else 0.0


def slowness(references_s: Sequence[float]) -> list[float]:
    """By which factor each stage's device is slower than the fastest, shape (stages,).

    Raises:
        SplitError: a time is none.

    >>> slowness([2.0, 4.0])
    [1.0, 2.0]
    """
    wrong = next((one for one in references_s if not 0 < one < math.inf), None)
    if wrong is not None or not references_s:
        raise SplitError(f"the reference took {wrong!r} s on a stage: measure it again")
    return [one / min(references_s) for one in references_s]


def alone_s(seen: Measurement, before: Sequence[int]) -> list[float]:
    """What each layer takes on the fastest device, shape (layers,)."""
    homes = _homes(seen, before)
    slow = slowness(seen.references_s)
    return [took / slow[home] for took, home in zip(seen.layers_s, homes)]


def _homes(seen: Measurement, before: Sequence[int]) -> list[int]:
    """The stage of each layer."""
    homes = [stage for stage, count in enumerate(before) for _ in range(count)]
    shapes = (len(seen.layers_s), len(seen.layer_errors_s)), (len(seen.references_s), len(seen.reference_errors_s))
    if shapes != ((len(homes),) * 2, (len(before),) * 2):
        raise SplitError(f"what was measured is not of {len(homes)} layers on {len(before)} stages")
    return homes


def _compared(seen: Measurement, before: list[int], terms: Terms) -> Recut:
    if not 0 < seen.step_s < math.inf:
        raise SplitError(f"a step took {seen.step_s!r} s: measure it again")
    layers_s, slow = alone_s(seen, before), slowness(seen.references_s)
    best = stages(layers_s, slow)
    old, new = (pipeline_step_s(stages_s(layers_s, slow, cut), terms.microbatches) for cut in (before, best))
    step_s = (seen.step_s, max(seen.step_s - (old - new), new))
    gain = step_s[0] / step_s[1] - 1 if step_s[1] > 0 else 0.0
    errors = (_error_s(seen, before, cut) for cut in (before, best))
    noise = terms.microbatches * math.sqrt(sum(error * error for error in errors)) / seen.step_s
    rates = {"bytes_per_s": terms.bytes_per_s, "restart_s": terms.restart_s}
    moved = move(terms.parameters, before, best, step_s=step_s, parameter_bytes=terms.parameter_bytes, **rates)
    why = _objection(best == before, gain, noise, moved, terms)
    after = best if why is None else before
    return Recut(before, best, after, step_s, gain, noise, moved, why or "the cut changes: it pays")


def _objection(same: bool, gain: float, noise: float, moved: Move, terms: Terms) -> str | None:
    """Why the cut stays; None where it changes."""
    if same:
        return "the cut stays: no other is faster"
    if not gain >= terms.least_gain + SURE * noise:
        bar = f"{terms.least_gain + SURE * noise:.1%}: {terms.least_gain:.0%} plus twice the noise of {noise:.1%}"
        return f"the cut stays: a gain of {gain:.1%} is below the threshold of {bar}"
    if not moved.break_even_steps < terms.steps_left:
        return f"the cut stays: it pays after {moved.break_even_steps:.0f} steps, and {terms.steps_left} are left"
    return None


def _error_s(seen: Measurement, before: Sequence[int], cut: Sequence[int]) -> float:
    """The standard error of the time of the slowest stage of ``cut``, whichever that is by chance."""
    homes, slow = _homes(seen, before), slowness(seen.references_s)
    took_s = stages_s(alone_s(seen, before), slow, cut)
    unsure = [error / took for error, took in zip(seen.reference_errors_s, seen.references_s)]
    highest_s, first = 0.0, 0
    for stage, count in enumerate(cut):
        square, of_devices_s = 0.0, 0.0
        for layer in range(first, first + count):
            there = slow[stage] / slow[homes[layer]]
            square += (seen.layer_errors_s[layer] * there) ** 2
            if homes[layer] != stage:  # what has not moved was measured where it stands
                of_devices_s += seen.layers_s[layer] * there * math.hypot(unsure[stage], unsure[homes[layer]])
        error_s = math.sqrt(square + of_devices_s**2)
        if not error_s >= 0:
            return error_s
        highest_s = max(highest_s, took_s[stage] + error_s)
        first += count
    return max(highest_s - max(took_s), 0.0)
