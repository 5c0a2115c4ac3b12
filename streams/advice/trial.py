"""Before and after: what is measured of a suggestion that somebody accepted, and whether it has helped.

Rule of this file: pure arithmetic. Which number is looked at follows from the action; where that one is not measured,
it is whether the finding comes back.
"""

from statistics import median
from typing import Literal

import msgspec

from paceline.events import MEDIUM_WINDOW_S
from paceline.events.suggestions import Effect

from .config import AdviceConfig

#: A job's step time; samples a second, where the batch changed; how busy its GPUs are; how many GPUs it has; findings.
Measure = Literal["pace", "rate", "use", "gpus", "calm"]
#: Windows kept from before.
MOST_BEFORE = 12

#: Action -> what shows that it has helped. All others: no finding for a while.
MEASURES: dict[str, Measure] = {
    "rebalance": "pace",
    "feed_input": "pace",
    "give_cpus": "pace",
    "overlap_communication": "pace",
    "move_job": "pace",
    "tune_host": "pace",
    "fix_cooling": "pace",
    "raise_power_cap": "pace",
    "align_configuration": "pace",
    "cordon_node": "pace",
    "replace_device": "pace",
    "mixed_precision": "pace",
    "inspect_job": "pace",
    "larger_batch": "rate",
    "consolidate": "use",
    "scale_out": "use",
    "free_devices": "gpus",
}


class Trial(msgspec.Struct, kw_only=True):
    """What was measured: step times before and after, numbers of GPUs and of their use before."""

    before: list[float] = []
    after: list[float] = []
    #: Windows still to be left out: what closes now began before.
    skip: int = 1
    batch_before: int | None = None
    ranks_before: int | None = None
    use_before: float | None = None
    gpus_before: int | None = None

    def pace(self, step_s: float, *, applied: bool) -> None:
        """A window's median step time, before or after it was applied."""
        if self.skip > 0:
            self.skip -= 1
        elif applied:
            self.after = [*self.after, step_s]
        else:
            self.before = [*self.before[1 - MOST_BEFORE :], step_s]


class Now(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the target now; None where it is not measured."""

    waited_s: float
    batch: int | None = None
    use: float | None = None
    calm: bool = True


def result(action: str, trial: Trial, now: Now, config: AdviceConfig) -> tuple[bool, Effect] | None:
    """Whether it has helped, and by how much; None while that cannot be told yet."""
    measure = MEASURES.get(action, "calm")
    if measure == "rate" and not (trial.batch_before and now.batch):
        measure = "use"
    if measure in ("pace", "rate") and trial.before:
        return _of_steps(measure, trial, now, config)
    if measure == "use" and trial.use_before is not None:
        if now.waited_s < config.use_s or now.use is None:
            return None
        effect = _effect("gpu_busy", "ratio", trial.use_before, now.use, config.use_s, config.use_s)
        return _better(effect, config, more=action != "scale_out"), effect
    if now.calm and now.waited_s < config.calm_s:
        return None
    name, unit, before = (
        ("idle_gpus", "GPUs", trial.gpus_before or 1) if measure == "gpus" else ("findings", "findings", 1)
    )
    effect = _effect(name, unit, before, 0 if now.calm else before, config.calm_s, min(now.waited_s, config.calm_s))
    return now.calm, effect


def _of_steps(measure: Measure, trial: Trial, now: Now, config: AdviceConfig) -> tuple[bool, Effect] | None:
    if len(trial.after) < config.pace_windows:
        return None
    before, after = median(trial.before), median(trial.after[: config.pace_windows])
    times = (MEDIUM_WINDOW_S * len(trial.before), MEDIUM_WINDOW_S * config.pace_windows)
    if measure == "pace":
        effect = _effect("step_median", "s/step", before, after, *times)
        return _better(effect, config, more=False), effect
    rates = ((trial.batch_before or 0) / before, (now.batch or 0) / after)
    effect = _effect("samples", "samples/s", *rates, *times)
    return _better(effect, config, more=True), effect


def _better(effect: Effect, config: AdviceConfig, *, more: bool) -> bool:
    if more:
        return effect.after >= effect.before * (1.0 + config.helped_ratio)
    return effect.after <= effect.before * (1.0 - config.helped_ratio)


def _effect(name: str, unit: str, before: float, after: float, before_s: float, after_s: float) -> Effect:
    return Effect(
        name=name, unit=unit, before=round(before, 6), after=round(after, 6), before_s=before_s, after_s=after_s
    )
