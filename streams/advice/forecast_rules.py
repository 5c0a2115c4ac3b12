"""From the forecast of free GPUs to when a job should start.

Rule of this file: pure. A forecast is believed only where its back-test beat the naive one.
"""

from paceline.events import Forecast
from paceline.events.suggestions import Gain

from ..episodes.finding import number
from .config import AdviceConfig
from .proposal import Proposal

#: The series that is read, behind the cluster's name.
SERIES = "/cluster/free_gpus"
SOURCE = "forecast of free GPUs"
#: Moments of a back-test that it takes to be believed.
_LEAST_MOMENTS = 3
_RULE_BACKTEST = "mean pinball loss of the model, beside the naive one's, which it must beat"


def propose(forecast: Forecast, config: AdviceConfig) -> Proposal | None:
    """What the forecast asks for; None where GPUs are free now, none come free, or nobody can be sure."""
    if not believed(forecast):
        return None
    median = _column(forecast, 0.5)
    sure = _column(forecast, 1.0 - config.free_probability)
    if not median or not sure or median[0] > config.free_now:
        return None
    steps = range(len(sure))
    soon = (
        at for at in steps if (at + 1) * forecast.interval_s >= config.free_after_s and sure[at] >= config.free_gpus
    )
    first = next(soon, None)
    if first is None:
        return None
    wait_s = (first + 1) * forecast.interval_s
    return Proposal(
        action="start_later",
        target=f"cluster:{forecast.cluster}",
        source=SOURCE,
        began=f"{int(forecast.time_s // 3600)}",
        severity="info",
        title=f"Start what waits for GPUs in {wait_s / 60:.0f} minutes: {sure[first]:.0f} come free",
        reason=(
            f"No GPU is free now; in {config.free_probability:.0%} of cases {sure[first]:.0f} and more are free "
            f"{wait_s / 60:.0f} minutes after the newest value."
        ),
        evidence=(
            number("free_now", median[0], "GPUs", None, f"reported up to {config.free_now:g}"),
            number("free_then", sure[first], "GPUs", None, f"reported from {config.free_gpus:g}"),
            number("backtest", forecast.backtest.loss or 0.0, "GPUs", forecast.backtest.naive_loss, _RULE_BACKTEST),
        ),
        gain=Gain(basis="a job that starts then does not wait in the queue, or on half of its GPUs"),
        steps=(
            f"Submit it to start then (Slurm: sbatch --begin=now+{wait_s / 60:.0f}minutes), or let it queue.",
            "Look at the forecast page before: it may have changed.",
        ),
        lasts_s=max(wait_s, forecast.interval_s),
    )


def believed(forecast: Forecast) -> bool:
    """Whether the forecast is of free GPUs, and its model was better than the naive one."""
    test = forecast.backtest
    if not forecast.series.endswith(SERIES) or test.loss is None or test.naive_loss is None:
        return False
    return test.moments >= _LEAST_MOMENTS and test.loss < test.naive_loss and forecast.interval_s > 0.0


def _column(forecast: Forecast, level: float) -> list[float]:
    """The values at the highest level that is no higher than ``level``."""
    at = [index for index, one in enumerate(forecast.levels) if one <= level + 1e-9]
    if not at or any(len(row) != len(forecast.levels) for row in forecast.values):
        return []
    return [row[at[-1]] for row in forecast.values]
