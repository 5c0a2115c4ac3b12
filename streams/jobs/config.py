"""The thresholds of the straggler verdict, few, each with its reason.

Rule of this file: numbers only. A threshold is fixed on injected faults and on jobs it was not set on, never on the
demo alone.
"""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Config:
    """What counts as late, for how long, and how sure.

    Time is cut into **ticks**: runs of whole steps of at least ``tick_s`` together. A tick is what one look sees: short
    steps are averaged, so that a scheduler's hiccup of milliseconds is no evidence, and a step of seconds is one tick.
    """

    tick_s: float = 0.2
    #: The first steps of an attempt allocate, compile and connect; they say nothing of what follows. A recording that
    #: begins in the middle of a run has none.
    warmup_steps: int = 5
    #: Ticks of unbroken lateness before a rank is suspected, and before it is confirmed. One slow step is noise
    #: (Minder: precision 0.76 without a continuity rule, 0.90 with one).
    suspect_ticks: int = 5
    confirm_ticks: int = 10
    #: The same for ticks of ``long_tick_s`` and more, in which a hiccup of the machine weighs little.
    suspect_long_ticks: int = 3
    long_tick_s: float = 1.0
    #: Longer looks, for what is too small to stand out of the noise of ten ticks: a median of n errs by 1/sqrt(n).
    longer_looks: tuple[int, ...] = (20, 40)
    #: Share of those ticks in which the rank must have been late, and the same for the longer looks.
    late_share: float = 0.8
    late_share_longer: float = 0.65
    #: Ticks of calm before an episode ends, and ticks after it in which a new one may not begin.
    recover_ticks: int = 8
    cooldown_ticks: int = 10
    #: Least excess over the peers, as a share of the step without it, that is worth a word.
    least_excess: float = 0.05
    #: The same for lateness that is time without a processor, in jobs whose ranks all share cores with others:
    #: neighbours come and go. Where the typical rank hardly ever waits for a processor the bar is ``least_excess``.
    least_cpu_wait: float = 0.25
    #: How steeply the one goes over into the other, with the typical rank's share of time without a processor.
    cpu_wait_slope: float = 5.0
    #: Spread that no cohort is ever tighter than, as a share of the step.
    floor: float = 0.01
    #: The verdict asks for ``sigmas + sqrt(2 ln ranks)`` spreads: the largest of n healthy ranks grows like the root.
    sigmas: float = 3.0
    #: Peers must have waited for at least this share of the excess; otherwise nobody was held back by it.
    waited_share: float = 0.25
    #: A part of the excess, judged on its own, must be borne out by at least this share of the whole.
    borne_share: float = 0.5
    #: A cause must explain this share of the excess, else it is unknown.
    cause_share: float = 0.5
    #: Steps after which ranks that were never heard are told.
    silent_steps: int = 50
    #: Verdicts on the whole job are given for windows of at least so many ticks and steps.
    window_ticks: int = 10
    window_steps: int = 10
    #: The same for ticks of ``long_tick_s`` and more, each a step of its own.
    window_long: int = 5
    #: A stage is longer when its compute is by this share over the mean of all stages.
    least_stage: float = 0.1
    #: Micro-batches differ in length when their times spread by this share of the mean in forward and backward, with
    #: this correlation (ByteDance's study: 0.9), over at least so many pairs; noise of the two passes is unrelated.
    least_spread: float = 0.08
    least_alike: float = 0.85
    least_pairs: int = 40
    #: A job is bound by its input when every rank spends this share of the step on it.
    data_bound: float = 0.3
    #: A job is bound by its communication when the rank that waits least stands in transfers for this share of the
    #: time, over spans of at least ``traffic_s``.
    communication_bound: float = 0.4
    traffic_s: float = 10.0
    #: What the links between ranks should carry one way, in bytes a second, for comparison with the measured bus
    #: bandwidth; 0 is what the nodes' network interfaces are rated at, where the kernel tells.
    rated_bytes_per_s: float = 0.0
    #: The job as a whole has turned slow when its pace over this many ticks and seconds is by this share, and by this
    #: many times the noise of a tick, over what it was in at least twice as many ticks before.
    pace_ticks: int = 15
    pace_longer: tuple[int, ...] = (30, 60)
    pace_s: float = 5.0
    least_slowdown: float = 0.15
    pace_sigmas: float = 3.0
    #: A collective hangs when ranks have stood in it for this long, and this many times longer than ever before;
    #: it is confirmed at twice that. A rank that evaluates alone for a minute is no hang in a job that has seen one.
    hang_s: float = 30.0
    hang_times: float = 5.0
    #: How long ranks that speak wait for one that does not, on their own clock, and the most steps kept meanwhile.
    patience_s: float = 10.0
    pending_steps: int = 8192
    #: A link is slow when its round trip is this many times its peers' and at least ``link_rtt_s`` above them, in
    #: ``link_samples`` samples on end, while waiting takes ``link_wait`` of the time.
    link_times: float = 5.0
    link_rtt_s: float = 0.002
    link_samples: int = 4
    link_wait: float = 0.2


#: Ticks of history that every look has at hand.
RING = 40
#: Rank numbers above this are taken for garbage, not for a job.
MOST_RANKS = 1_000_000

#: What may be changed while a job runs, and between what. The others shape the state that is remembered.
CHANGEABLE: dict[str, tuple[float, float]] = {
    "least_excess": (0.01, 10.0),
    "least_cpu_wait": (0.01, 10.0),
    "sigmas": (0.0, 20.0),
    "floor": (0.0, 0.5),
    "late_share": (0.5, 1.0),
    "recover_ticks": (2, RING),
    "cooldown_ticks": (0, 1000),
    "link_times": (1.5, 1000.0),
    "link_rtt_s": (0.0, 10.0),
    "link_wait": (0.0, 1.0),
    "least_stage": (0.01, 10.0),
    "least_spread": (0.01, 10.0),
    "least_alike": (0.0, 1.0),
    "data_bound": (0.01, 1.0),
    "communication_bound": (0.01, 1.0),
    "rated_bytes_per_s": (0.0, 1e13),
    "least_slowdown": (0.02, 10.0),
    "hang_s": (5.0, 86_400.0),
    "hang_times": (1.0, 1000.0),
}


def refusal(name: str, value: float) -> str | None:
    """Why threshold ``name`` cannot be ``value``, in words, or None."""
    if name not in CHANGEABLE:
        return f"no threshold {name!r}; there are {', '.join(CHANGEABLE)}"
    low, high = CHANGEABLE[name]
    if not (math.isfinite(value) and low <= value <= high):
        return f"{name}={value:g}: not between {low:g} and {high:g}"
    return None


def changed(values: Mapping[str, float]) -> Config:
    """The defaults with ``values``; what may not be changed, or not to that, stays as it is."""
    fit = {name: value for name, value in values.items() if refusal(name, value) is None}
    whole = {"recover_ticks", "cooldown_ticks"}
    fields: dict[str, Any] = {name: int(value) if name in whole else value for name, value in fit.items()}
    return dataclasses.replace(Config(), **fields)
