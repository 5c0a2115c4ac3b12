"""Throttle reasons: each bit once, NVML's own, and what it says of speed and of hardware."""

from pathlib import Path

import pynvml
import pytest

from paceline.gpu import throttle
from paceline.gpu.throttle import FAULTS, POWER_CAP, REASONS, SLOWING, in_words


def test_every_bit_of_nvml_is_there_once():
    """No bit twice, no two in one, none missing, none made up."""
    bits = [reason.bit for reason in REASONS]

    assert all(bit.bit_count() == 1 for bit in bits)
    assert len(set(bits)) == len(bits)
    assert sum(bits) == pynvml.nvmlClocksThrottleReasonAll


@pytest.mark.parametrize("reason", REASONS, ids=lambda reason: reason.name)
def test_a_reason_has_nvmls_name(reason):
    """The binding has the bit under the same name."""
    assert getattr(pynvml, f"nvmlClocksThrottleReason{reason.name}") == reason.bit


def test_words_are_told_apart():
    """No word is used twice."""
    assert len({reason.word for reason in REASONS}) == len(REASONS)


def test_what_is_a_fault_slows():
    """A fault is one because it takes speed away."""
    assert FAULTS & ~SLOWING == 0


def test_the_power_cap_slows_and_is_no_fault():
    """It can be why a rank is behind peers that are not capped alike; it accuses no hardware."""
    assert POWER_CAP.bit & SLOWING
    assert not POWER_CAP.bit & FAULTS


@pytest.mark.parametrize(
    ("mask", "word"),
    [
        (throttle.HARDWARE_THERMAL.bit | throttle.HARDWARE_SLOWDOWN.bit, "hardware thermal slowdown"),
        (throttle.POWER_BRAKE.bit | throttle.HARDWARE_SLOWDOWN.bit, "external power brake"),
        (throttle.SOFTWARE_THERMAL.bit | POWER_CAP.bit, "software thermal slowdown"),
        (POWER_CAP.bit | 0x1, "power cap"),
    ],
)
def test_a_mask_is_told_by_its_gravest_reason(mask, word):
    """The reason behind a hardware slowdown tells more than that there is one."""
    assert in_words(mask) == word


@pytest.mark.parametrize("mask", [0, 0x1, 0x2, 0x10, 0x100])
def test_a_clock_that_somebody_set_is_no_slowdown(mask):
    """Idle, applications clocks, sync boost and display clocks are what was asked for."""
    assert not mask & SLOWING


@pytest.mark.parametrize("page", ["collectors.md", "gpu-rules.md"])
def test_the_pages_give_the_same_legend(page):
    """What a page says of the bits is the table."""
    assert throttle.legend() in (Path(__file__).parents[3] / "docs" / page).read_text(encoding="utf-8")
