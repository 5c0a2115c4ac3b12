"""The thresholds of the advice, few, each with its reason: what makes a suggestion, how often, and when it has helped.

Rule of this file: numbers only. ``CHANGEABLE`` names those that may be set, with their limits and the setting's words;
docs/suggestions.md is made from it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from paceline.gpu.use import IDLE_RATIO

from .. import changeable


@dataclass(frozen=True)
class AdviceConfig:
    """What is worth a suggestion, and what became of it."""

    # How GPUs are used: over an hour, of all GPUs that a job has.
    #: Windows of a minute a GPU that must have been heard in the hour.
    hour_windows: int = 54
    #: A minute under this is idle: the table of docs/gpu-rules.md has nothing to say of a GPU below it.
    idle_ratio: float = IDLE_RATIO
    #: GPUs idle for more than this share of an hour, or busy for less than that on average, are more than it needs.
    idle_share: float = 0.6
    low_use: float = 0.3
    #: How busy those that remain should be when work is put together, and when there are enough of them.
    aimed_use: float = 0.7
    #: GPUs as busy as this over an hour have no room left: inference and interactive jobs wait.
    full_use: float = 0.95
    #: Used less than this of the time and of their memory, GPUs have room for a larger batch.
    batch_use: float = 0.7
    batch_memory: float = 0.6
    #: Tensor cores that work less than this while multiprocessors work at least that much.
    tensor_ratio: float = 0.001
    tensor_sm_ratio: float = 0.5
    #: What was suggested of an hour is withdrawn when its number is on the other side of the bar by this much.
    clear_ratio: float = 0.05
    #: How sure the kind of a job must be.
    kind_probability: float = 0.6
    #: A forecast says that GPUs come free: so sure, so many more than now (fewer are free then), no sooner than that.
    free_probability: float = 0.8
    free_gpus: float = 8.0
    free_after_s: float = 600.0

    # Findings.
    #: Jobs whose stragglers on one device, or one node, make a case against the hardware.
    repeated_jobs: int = 2
    #: Faults that were told of one device until it is replaced rather than reset.
    repeated_faults: int = 2
    #: Least confidence in a finding.
    confidence: float = 0.5
    #: The same for a fault of a device: what programs cause is no fault of hardware.
    fault_confidence: float = 0.9
    #: A new cut of a pipeline: what a restart costs, by assumption, and what whole layers leave of its gain at worst.
    restart_s: float = 300.0
    whole_layers: float = 0.5

    # How often.
    #: Suggestions that may be new within an hour, in a cluster and for one job.
    new_an_hour: int = 20
    new_an_hour_job: int = 4
    #: The same is not suggested again for so long after it was dismissed, and after it was over otherwise.
    dismissed_rest_s: float = 86_400.0
    rest_s: float = 600.0
    #: A gain is told again once it, or an end of its interval, has changed by this share of it.
    news_ratio: float = 0.2
    #: How long a new and an accepted suggestion wait for somebody.
    new_s: float = 86_400.0
    accepted_s: float = 7 * 86_400.0

    # Before and after.
    #: Windows of ten seconds whose median is the pace, before and after; the first one after is left out.
    pace_windows: int = 3
    #: How long use is measured, and how long there must be no finding where nothing else can be measured.
    use_s: float = 1200.0
    calm_s: float = 300.0
    #: How much better it must be to have helped.
    helped_ratio: float = 0.03
    #: An applied suggestion that could not be measured for so long is over.
    measured_s: float = 7200.0
    #: Windows of a new attempt after which findings of the one before speak no more.
    fresh_windows: int = 12

    # Money.
    #: The price of a GPU for an hour, and its currency; 0 says nothing of money.
    gpu_hour_price: float = 0.0
    currency: str = ""


class Changeable(NamedTuple):
    """A threshold that may be set: between what, and what it is, in words."""

    low: float
    high: float
    words: str


CHANGEABLE: dict[str, Changeable] = {
    "idle_ratio": Changeable(0.0, 0.5, "a GPU is idle in a minute in which it is less busy than this"),
    "idle_share": Changeable(0.1, 1.0, "consolidate: GPUs idle for more than this share of an hour"),
    "low_use": Changeable(0.0, 0.9, "consolidate: GPUs busy for less than this on average over an hour"),
    "aimed_use": Changeable(0.1, 1.0, "how busy GPUs should be where work is put together or spread"),
    "full_use": Changeable(0.5, 1.0, "scale_out: GPUs of inference or interactive jobs busier than this for an hour"),
    "batch_use": Changeable(0.0, 1.0, "larger_batch: GPUs of training busy for less than this, from low_use on"),
    "batch_memory": Changeable(0.0, 1.0, "larger_batch: of GPU memory used no more than this"),
    "tensor_ratio": Changeable(0.0, 1.0, "mixed_precision: tensor cores active for less than this"),
    "tensor_sm_ratio": Changeable(0.0, 1.0, "mixed_precision: while multiprocessors are active for this and more"),
    "kind_probability": Changeable(0.0, 1.0, "how probable the kind of a job must be"),
    "free_probability": Changeable(0.5, 1.0, "start_later: how sure the forecast must be"),
    "free_gpus": Changeable(1.0, 1e6, "start_later: so many GPUs come free and fewer are now; all of a small cluster"),
    "free_after_s": Changeable(60.0, 86_400.0, "start_later: no sooner than this, in seconds"),
    "repeated_jobs": Changeable(2, 100, "cordon_node: jobs in which a device or node was a straggler"),
    "repeated_faults": Changeable(2, 100, "replace_device: critical faults of one device"),
    "confidence": Changeable(0.0, 1.0, "how sure a finding must be"),
    "fault_confidence": Changeable(0.0, 1.0, "how sure a fault of a device must be"),
    "restart_s": Changeable(
        0.0, 86_400.0, "rebalance of a pipeline: seconds that a restart costs, for when it has paid"
    ),
    "new_an_hour": Changeable(1, 10_000, "new suggestions in an hour"),
    "new_an_hour_job": Changeable(1, 1000, "new suggestions in an hour for one job or node"),
    "dismissed_rest_s": Changeable(0.0, 3.2e7, "seconds for which what was dismissed is not suggested again"),
    "rest_s": Changeable(0.0, 3.2e7, "the same after it was over otherwise"),
    "new_s": Changeable(60.0, 3.2e7, "seconds after which a new suggestion expires"),
    "accepted_s": Changeable(60.0, 3.2e7, "seconds after which an accepted suggestion expires"),
    "pace_windows": Changeable(1, 6, "windows of ten seconds whose median is the step time before and after"),
    "use_s": Changeable(60.0, 86_400.0, "seconds over which the use of GPUs is measured afterwards"),
    "calm_s": Changeable(10.0, 86_400.0, "seconds without a finding, where nothing else is measured"),
    "helped_ratio": Changeable(0.0, 1.0, "verified: better by this share"),
    "measured_s": Changeable(60.0, 3.2e7, "seconds after which what cannot be measured expires"),
    "gpu_hour_price": Changeable(0.0, 1e6, "price of a GPU for an hour; 0: no money is shown"),
}


def refusal(name: str, value: float) -> str | None:
    """Why threshold ``name`` cannot be ``value``, in words, or None."""
    return changeable.refusal(CHANGEABLE, name, value)


def changed(values: Mapping[str, float], currency: str = "") -> AdviceConfig:
    """The defaults with ``values``.

    >>> changed({"low_use": 0.25}).low_use
    0.25

    Raises:
        ValueError: a threshold that does not exist, or not with that value.
    """
    config = AdviceConfig(currency=currency[:16])
    for name, value in values.items():
        if reason := refusal(name, value):
            raise ValueError(reason)
        wanted: dict[str, Any] = {name: type(getattr(config, name))(value)}
        config = replace(config, **wanted)
    return config
