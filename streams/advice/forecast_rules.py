"""From the forecasts of free GPUs, an hour and a day ahead, to when a job should start.

Rule of this file: pure. A forecast is believed only where its back-test beat the naive one. Moments are told by the
clock: minutes from now on would be wrong a minute later.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

from paceline.events import Forecast
from paceline.events.suggestions import Gain

from ..cluster_events import FREE_GPUS_SERIES
from ..episodes.finding import number
from .config import AdviceConfig
from .proposal import Proposal

#: The series that are read, behind the cluster's name, and what each is called as a source of a suggestion.
_HOUR_AHEAD, _DAY_AHEAD = "forecast of free GPUs", "forecast of free GPUs, a day ahead"
SOURCES = dict(zip(FREE_GPUS_SERIES, (_HOUR_AHEAD, _DAY_AHEAD), strict=True))
#: GPUs must stay free for so long, or for the rest of the forecast: what is gone in a minute is of no use to a job.
_HOLD_S = 3600.0
#: So many times those that are waited for: then nobody waits.
_PLENTY = 2.0
#: The share of the doubt that is allowed: the first of many moments is chosen, so of what is said more must come true.
#: On two made-up clusters 82 % did where 80 % were asked for, and 65 % without this.
_DOUBT = 0.5
#: Nobody plans by what is forecast for later.
_FARTHEST_S = 2 * 86_400.0
#: Moments of a back-test that it takes to be believed.
_LEAST_MOMENTS = 3
_RULE_BACKTEST = "mean pinball loss of the model, beside the naive one's, which it must beat"


def source(forecast: Forecast) -> str | None:
    """What it is called as a source; None of a series of something else.

    >>> from paceline.events import Backtest
    >>> given = {"unit": "GPUs", "time_s": 0.0, "interval_s": 60.0, "model": "ensemble", "levels": [], "values": []}
    >>> test = Backtest(moments=0, steps=0, loss=None, naive_loss=None)
    >>> source(Forecast(cluster="c", series="c/cluster/free_gpus", history=0, backtest=test, **given))
    'forecast of free GPUs'
    >>> source(Forecast(cluster="c", series="c/node/n/free_gpus", history=0, backtest=test, **given))
    """
    return SOURCES.get(forecast.series.removeprefix(forecast.cluster))


def outdated(forecast: Forecast, config: AdviceConfig) -> bool:
    """Whether what was proposed of this source holds no more; between this and a proposal nothing changes.

    It holds no more where twice as many GPUs are free now as are waited for, where so many come free at no moment, and
    where the forecast is not believed any more.
    """
    free, sure, wanted = (
        _newest(forecast),
        _sure(forecast, config),
        _wanted(forecast, config),
    )
    plenty = _within(forecast, _PLENTY * wanted)
    if free is None or free >= plenty or not sure or not _believed(forecast):
        return True
    return _first(sure, wanted, forecast.interval_s, 0.0) is None


def propose(forecast: Forecast, config: AdviceConfig) -> Proposal | None:
    """What the forecast asks for; None where enough GPUs are free now, none come free, or nobody can be sure."""
    name, free, sure = source(forecast), _newest(forecast), _sure(forecast, config)
    wanted = _wanted(forecast, config)
    if name is None or not _believed(forecast) or free is None or not sure or free >= wanted:
        return None
    # So many more than now: of those that are free already nothing has to be said.
    then = _within(forecast, free + wanted)
    at = _first(sure, then, forecast.interval_s, config.free_after_s)
    if at is None:
        return None
    wait_s = (at + 1) * forecast.interval_s
    start_s = forecast.time_s + wait_s
    clock = f"{datetime.fromtimestamp(start_s, UTC):%H:%M} UTC"
    few = "No GPU is" if free < 0.5 else f"{free:.0f} {'GPU is' if round(free) == 1 else 'GPUs are'}"
    are = "is" if round(sure[at]) == 1 else "are"
    return Proposal(
        action="start_later",
        target=f"cluster:{forecast.cluster}",
        source=name,
        began=f"{int(forecast.time_s // 3600)}",
        severity="info",
        title=f"Start what waits for GPUs at {clock}: {sure[at]:.0f} {are} free then",
        reason=(
            f"{few} free now; from {clock} on there {are} {sure[at]:.0f} or more with "
            f"{config.free_probability:.0%} probability, by the forecast of "
            f"{datetime.fromtimestamp(forecast.time_s, UTC):%H:%M} UTC."
        ),
        evidence=(
            number("free_now", free, "GPUs", None, f"reported below {wanted:g}"),
            number("free_then", sure[at], "GPUs", None, f"reported from {then:g}"),
            number("backtest", forecast.backtest.loss or 0.0, "GPUs", forecast.backtest.naive_loss, _RULE_BACKTEST),
        ),
        gain=Gain(basis="a job that starts then does not wait in the queue, or on half of its GPUs"),
        steps=(
            f"Submit it to start then (Slurm: sbatch --begin=$(date -d @{start_s:.0f} +%FT%T)), or let it queue.",
            "Look at the forecast page before: it may have changed.",
        ),
        lasts_s=wait_s,
    )


def _wanted(forecast: Forecast, config: AdviceConfig) -> float:
    """How many free GPUs are worth a word: as configured, or all of a smaller cluster's."""
    return _within(forecast, config.free_gpus)


def _within(forecast: Forecast, gpus: float) -> float:
    """So many, or all that the cluster has."""
    return gpus if forecast.maximum is None else min(gpus, forecast.maximum)


def _sure(forecast: Forecast, config: AdviceConfig) -> list[float]:
    """How many GPUs are surely free, step by step."""
    return _column(forecast, _DOUBT * (1.0 - config.free_probability))


def _newest(forecast: Forecast) -> float | None:
    """How many GPUs are free by the newest value; where that is missing, by the first step's median."""
    if forecast.recent_values and forecast.recent_values[-1] is not None:
        return forecast.recent_values[-1]
    median = _column(forecast, 0.5)
    return median[0] if median else None


def _first(sure: Sequence[float], least: float, interval_s: float, after_s: float) -> int | None:
    """The first step, no sooner than ``after_s``, from which on ``least`` stay free."""
    hold = max(1, round(_HOLD_S / interval_s))
    steps = (at for at in range(len(sure)) if after_s <= (at + 1) * interval_s <= _FARTHEST_S)
    return next((at for at in steps if min(sure[at : at + hold]) >= least), None)


def _believed(forecast: Forecast) -> bool:
    """Whether its model was better than the naive one."""
    test = forecast.backtest
    if test.loss is None or test.naive_loss is None:
        return False
    return test.moments >= _LEAST_MOMENTS and test.loss < test.naive_loss and forecast.interval_s > 0.0


def _column(forecast: Forecast, level: float) -> list[float]:
    """The values at the highest level that is no higher than ``level``."""
    at = [index for index, one in enumerate(forecast.levels) if one <= level + 1e-9]
    if not at or any(len(row) != len(forecast.levels) for row in forecast.values):
        return []
    return [row[at[-1]] for row in forecast.values]
