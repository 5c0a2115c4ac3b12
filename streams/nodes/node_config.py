"""The thresholds of the verdicts on a node, few, each with its reason and source.

Rule of this file: numbers only. Where the table of rules has the number, it is taken from there.
"""

from dataclasses import dataclass

from paceline.gpu.dcgm import MOST_NVLINK_CRC_PER_S, MOST_PCIE_REPLAYS_PER_MIN, MOST_RETIRED_PAGES

from ..episodes.persistence import Lasting
from .relations import MULTI_GPU_APART
from .rules import bound

_SOON = Lasting(30.0, 120.0, 60.0)
_REPLAYS = Lasting(0.0, 120.0, 120.0)
#: Input, checkpoints and evaluations on the CPU take tens of seconds: idle is minutes on end without any work.
_IDLE = Lasting(300.0, 600.0, 10.0, share=1.0)
_MEMORY = Lasting(0.0, 30.0, 120.0)


@dataclass(frozen=True)
class NodeConfig:
    """What counts as a fault, as idle, as full, as uneven, and for how long."""

    #: One look: samples of so many seconds together. Collectors sample once a second, at most once a minute.
    tick_s: float = 5.0
    #: Samples farther apart than this: what was before says nothing of what is now.
    gap_s: float = 150.0
    #: A GPU without a sample for longer than this makes room, where a node has had more names than are followed: all
    #: that is remembered of it is older by then.
    gone_s: float = 2 * 3600.0
    #: A fault is over when the GPU has answered for so long without another sign of it.
    fault_calm_s: float = 600.0
    #: After an episode, a new one of the same kind may not be suspected for so long.
    cooldown_s: float = 60.0
    #: A reason that is a fault (paceline.gpu.throttle) in this share of a look's samples: not the power cap.
    throttled_share: float = 0.5
    throttled: Lasting = _SOON
    #: An idle link trains down to save power, so width and generation are judged only while the GPU is this busy.
    loaded_ratio: float = 0.5
    link: Lasting = _SOON
    #: DCGM's health check.
    replays_per_min: float = float(MOST_PCIE_REPLAYS_PER_MIN)
    nvlink_crc_per_s: float = float(MOST_NVLINK_CRC_PER_S)
    replays: Lasting = _REPLAYS
    #: Corrected errors are a sign when they go on: so many rises within an hour.
    corrected_rises: int = 2
    corrected_within_s: float = 3600.0
    #: DCGM's limit of retired pages; NVIDIA replaces a card from there.
    retired_most: int = MOST_RETIRED_PAGES
    #: Idle below the first, busy from the second; in between nothing is said of a look.
    idle_ratio: float = 0.03
    busy_ratio: float = 0.10
    idle: Lasting = _IDLE
    #: Memory: the table's band, and a trend that would fill it soon. Frameworks keep what they once had, so a high
    #: level that stands still is no risk.
    memory_ratio: float = bound("memory_ratio", "risk of out-of-memory")
    #: Least rise over a trend's span, as a share of the whole: below that it is noise of allocators.
    memory_rise: float = 0.005
    memory: Lasting = _MEMORY
    #: GPUs of one job on this node: the table's 5 %, over means of a minute.
    apart_ratio: float = MULTI_GPU_APART
    apart_window_s: float = 60.0
    apart: Lasting = _SOON
    #: The spread asked for beyond the noise of the means, as in the straggler's verdict.
    sigmas: float = 3.0


#: GPUs a node may have; what names more is not believed.
MOST_DEVICES = 256
