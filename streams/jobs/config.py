"""The thresholds of all verdicts on a job, and which of them may be changed while it runs.

Rule of this file: it joins the detectors' own configs, which stand beside the detectors with their reasons, and gives
those that may be changed one flat name.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from paceline.events import WARM_UP_STEPS
from paceline.settings import MOST_RANKS

from .. import changeable
from ..ingest.steps import StepsConfig
from .hang import HangConfig
from .node_silence import NodeSilenceConfig
from .pace import PaceConfig
from .slow_links import LinksConfig
from .straggler_config import StragglerConfig
from .structure import StructureConfig
from .tick_history import KEPT_TICKS
from .traffic import TrafficConfig


@dataclass(frozen=True)
class JobConfig:
    """What all detectors share, and each detector's own.

    Time is cut into **ticks**: runs of whole steps of at least ``tick_s`` together. A tick is what one look sees: short
    steps are averaged, so that a scheduler's hiccup of milliseconds is no evidence, and a step of seconds is one tick.
    """

    tick_s: float = 0.2
    #: A recording that begins in the middle of a run has none.
    warmup_steps: int = WARM_UP_STEPS
    #: Ranks of one job: those from this number on are left out.
    most_ranks: int = MOST_RANKS.default
    #: Steps after which ranks that were never heard are told.
    silent_steps: int = 50
    steps: StepsConfig = field(default_factory=StepsConfig)
    straggler: StragglerConfig = field(default_factory=StragglerConfig)
    structure: StructureConfig = field(default_factory=StructureConfig)
    pace: PaceConfig = field(default_factory=PaceConfig)
    traffic: TrafficConfig = field(default_factory=TrafficConfig)
    hang: HangConfig = field(default_factory=HangConfig)
    node_silence: NodeSilenceConfig = field(default_factory=NodeSilenceConfig)
    links: LinksConfig = field(default_factory=LinksConfig)


class Changeable(NamedTuple):
    """A threshold that may be changed while a job runs: between what, and the fields of ``JobConfig`` that it sets."""

    low: float
    high: float
    fields: tuple[str, ...]


#: By the name that people write. The thresholds that are not here shape the state that is remembered.
CHANGEABLE: dict[str, Changeable] = {
    "least_excess": Changeable(0.01, 10.0, ("straggler.least_excess", "structure.data.least_lost")),
    "least_cpu_wait": Changeable(0.01, 10.0, ("straggler.least_cpu_wait",)),
    "sigmas": Changeable(0.0, 20.0, ("straggler.sigmas",)),
    "floor": Changeable(0.0, 0.5, ("straggler.floor",)),
    "late_share": Changeable(0.5, 1.0, ("straggler.late_share",)),
    "recover_ticks": Changeable(2, KEPT_TICKS, ("straggler.recover_ticks",)),
    "cooldown_ticks": Changeable(0, 1000, ("straggler.cooldown_ticks",)),
    "link_times": Changeable(1.5, 1000.0, ("links.times",)),
    "link_rtt_s": Changeable(0.0, 10.0, ("links.rtt_s",)),
    "link_wait": Changeable(0.0, 1.0, ("links.wait",)),
    "least_stage": Changeable(0.01, 10.0, ("structure.stages.least_excess",)),
    "least_spread": Changeable(0.01, 10.0, ("structure.data.least_spread",)),
    "least_alike": Changeable(0.0, 1.0, ("structure.data.least_alike",)),
    "data_bound": Changeable(0.01, 1.0, ("structure.input.least_share",)),
    "communication_bound": Changeable(0.01, 1.0, ("traffic.least_share",)),
    "rated_bytes_per_s": Changeable(0.0, 1e13, ("traffic.rated_bytes_per_s",)),
    "least_slowdown": Changeable(0.02, 10.0, ("pace.least_slowdown",)),
    "hang_s": Changeable(5.0, 86_400.0, ("hang.least_s",)),
    "hang_times": Changeable(1.0, 1000.0, ("hang.times",)),
    "node_silent_s": Changeable(20.0, 86_400.0, ("node_silence.least_s",)),
}


def refusal(name: str, value: float) -> str | None:
    """Why threshold ``name`` cannot be ``value``, in words, or None."""
    return changeable.refusal(CHANGEABLE, name, value)


def default(name: str) -> float:
    """What threshold ``name`` is where nobody changed it.

    >>> default("hang_s")
    30.0
    """
    value: Any = JobConfig()
    for part in CHANGEABLE[name].fields[0].split("."):
        value = getattr(value, part)
    return float(value)


def changed(values: Mapping[str, float]) -> JobConfig:
    """The defaults with ``values``; what may not be changed, or not to that, stays as it is.

    >>> changed({"hang_s": 60.0, "least_excess": -1.0}).hang.least_s
    60.0
    """
    config = JobConfig()
    for name, value in values.items():
        if refusal(name, value) is None:
            for path in CHANGEABLE[name].fields:
                config = _with(config, path.split("."), value)
    return config


def _with(config: Any, path: list[str], value: float) -> Any:
    """``config`` with the field at ``path`` changed, of the type that it has."""
    name, *rest = path
    before = getattr(config, name)
    return dataclasses.replace(config, **{name: _with(before, rest, value) if rest else type(before)(value)})
