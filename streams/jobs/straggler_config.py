"""The thresholds of the straggler verdict, few, each with its reason.

Rule of this file: numbers only. A threshold is fixed on injected faults and on jobs it was not set on, never on the
demo alone.
"""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class StragglerConfig:
    """What counts as late, for how long, and how sure."""

    #: Ticks of unbroken lateness before a rank is suspected, and before it is confirmed. One slow step is noise
    #: (Minder: precision 0.76 without a continuity rule, 0.90 with one).
    suspect_ticks: int = 5
    confirm_ticks: int = 10
    #: The same for long ticks, in which a hiccup of the machine weighs little.
    suspect_long_ticks: int = 3
    #: Longer looks, for what is too small to stand out of the noise of ten ticks: a median of n errs by 1/sqrt(n).
    longer_looks: tuple[int, ...] = (20, 40)
    #: Share of those ticks in which the rank must have been late, and the same for the longer looks.
    late_share: float = 0.8
    late_share_longer: float = 0.65
    #: Ticks of calm before an episode ends, and ticks after it in which a new one may not begin.
    recover_ticks: int = 8
    cooldown_ticks: int = 10
    #: How many ticks back an episode may have begun, at most.
    onset_ticks: int = 40
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


def of_long_ticks(config: StragglerConfig) -> StragglerConfig:
    """The same for ticks of ten: fewer of them, for each is an average, and no longer looks."""
    return replace(
        config,
        suspect_ticks=4,
        suspect_long_ticks=4,
        confirm_ticks=8,
        longer_looks=(),
        recover_ticks=4,
        cooldown_ticks=8,
        # No farther than to the end of the last one, or the two would have one id.
        onset_ticks=12,
    )
