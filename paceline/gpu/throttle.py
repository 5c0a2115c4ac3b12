"""NVML's clock-event reasons: why a GPU runs below the clock that was asked of it, each bit once.

Rule of this file: data, from nvml.h and NVIDIA's pages on nvmlClocksEventReasons; how often a reason must be there to
matter is the business of those who judge.

Two questions are asked of a reason, and the power cap answers them differently. ``slows``: does it take the clock below
the one asked for? nvml.h says so of the power cap ("reducing the clocks below requested clocks"), so a rank whose peers
are not capped alike may be slow because of it. ``fault``: does it point to hardware that needs fixing: heat, a power
brake, a slowdown by the hardware? The power cap does not: the limit is somebody's setting, and reaching it is usual
under full load. A clock that somebody set (applications clocks, sync boost, display clocks) is the clock asked for.
"""

from typing import NamedTuple


class Reason(NamedTuple):
    """A bit: its name after ``nvmlClocksEventReason``, its word for people, and what it says of speed and hardware."""

    bit: int
    name: str
    word: str
    slows: bool = False
    fault: bool = False


HARDWARE_THERMAL = Reason(0x40, "HwThermalSlowdown", "hardware thermal slowdown", slows=True, fault=True)
POWER_BRAKE = Reason(0x80, "HwPowerBrakeSlowdown", "external power brake", slows=True, fault=True)
#: Set beside the two above, and alone where the power draw trips the fast trigger: so they tell more.
HARDWARE_SLOWDOWN = Reason(0x8, "HwSlowdown", "hardware slowdown", slows=True, fault=True)
SOFTWARE_THERMAL = Reason(0x20, "SwThermalSlowdown", "software thermal slowdown", slows=True, fault=True)
POWER_CAP = Reason(0x4, "SwPowerCap", "power cap", slows=True)

#: Every reason, those that slow first and of them the gravest first: the hardware ones halve the clock at least.
REASONS = (
    HARDWARE_THERMAL,
    POWER_BRAKE,
    HARDWARE_SLOWDOWN,
    SOFTWARE_THERMAL,
    POWER_CAP,
    Reason(0x1, "GpuIdle", "idle"),
    Reason(0x2, "ApplicationsClocksSetting", "applications clocks"),
    Reason(0x10, "SyncBoost", "sync boost"),
    Reason(0x100, "DisplayClockSetting", "display clocks"),
    # NVIDIA gives these two a name and no more: they count for nothing until it says what they do.
    Reason(0x200, "BoardLimit", "board limit"),
    Reason(0x400, "Reliability", "reliability"),
)
#: The bits that slow, and those of them that are a fault, as masks.
SLOWING = sum(reason.bit for reason in REASONS if reason.slows)
FAULTS = sum(reason.bit for reason in REASONS if reason.fault)


def in_words(mask: int) -> str:
    """The gravest reason in ``mask`` that slows, in words.

    >>> in_words(0x1 | 0x8 | 0x40), in_words(0x4), in_words(0x1)
    ('hardware thermal slowdown', 'power cap', 'throttling')
    """
    return next((reason.word for reason in REASONS if reason.slows and mask & reason.bit), "throttling")


def legend() -> str:
    """The bits that slow, each with its word, in the order of the bits."""
    slowing = sorted(reason for reason in REASONS if reason.slows)
    return ", ".join(f"{reason.bit:#x} {reason.word}" for reason in slowing)
