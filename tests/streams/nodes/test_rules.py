"""Readings of GPU numbers, by any of the names they come under."""

import math

import pytest

from streams.nodes import rules
from streams.nodes.relations import PROFILES, RELATIONS
from streams.nodes.rule_table import BANDS, QUOTIENTS

MIB = 1024**2
EXPORTED = {
    "DCGM_FI_DEV_GPU_UTIL": 92,
    "DCGM_FI_DEV_MEM_COPY_UTIL": 20,
    "DCGM_FI_DEV_FB_USED": 57_000,
    "DCGM_FI_DEV_FB_FREE": 24_000,
    "DCGM_FI_DEV_GPU_TEMP": 71,
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": 0.61,
    "DCGM_FI_PROF_SM_ACTIVE": 140737488355330.0,
}


def words(readings):
    return {(one.name, one.word) for one in readings}


@pytest.mark.parametrize(
    ("name", "value", "word"),
    [
        ("DCGM_FI_DEV_GPU_UTIL", 0, "under-used"),
        ("DCGM_FI_DEV_GPU_UTIL", 29.9, "under-used"),
        ("DCGM_FI_DEV_GPU_UTIL", 30, "moderate"),
        ("DCGM_FI_DEV_GPU_UTIL", 94.9, "good"),
        ("DCGM_FI_DEV_GPU_UTIL", 100, "at the limit"),
        ("DCGM_FI_DEV_GPU_UTIL_RATIO", 50, "moderate"),
        ("utilization_ratio", 0.5, "moderate"),
        ("DCGM_FI_DEV_MEM_COPY_UTIL", 85, "memory-bound"),
        ("DCGM_FI_DEV_MEM_COPY_UTIL", 20, "compute-bound"),
        ("DCGM_FI_DEV_MEM_COPY_UTIL", 50, "balanced"),
        ("DCGM_FI_PROF_SM_OCCUPANCY", 0.4, "low"),
        ("DCGM_FI_DEV_SM_OCCUPANCY", 40, "low"),
        ("DCGM_FI_DEV_SM_OCCUPANCY", 85, "excellent"),
        ("DCGM_FI_DEV_TENSOR_ACTIVE", 0, "unused"),
        ("DCGM_FI_DEV_TENSOR_ACTIVE", 60, "efficient"),
        ("DCGM_FI_PROF_TENSOR_UTIL_RATIO", 0.6, "efficient"),
        ("DCGM_FI_DEV_GPU_TEMP", 69, "cool"),
        ("DCGM_FI_DEV_GPU_TEMP", 96, "hot"),
        ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", 1, "critical"),
        ("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", 3, "watch"),
        ("DCGM_FI_DEV_FB_USED_RATIO", 0.95, "risk of out-of-memory"),
        ("memory_ratio", 0.7, "good"),
        ("power_ratio", 0.95, "at the limit"),
    ],
)
def test_a_number_has_its_reading(name, value, word):
    """Under its real name, its newer name, a wrong name with a wrong unit, or our column."""
    assert rules.reading(name, value).word == word


@pytest.mark.parametrize(
    "blank",
    [None, math.nan, math.inf, -1, 0x7FFFFFFFFFFFFFF0, 0x7FFFFFFFFFFFFFF3, 140737488355328.0, 140737488355330.0],
)
def test_a_blank_has_no_reading(blank):
    """DCGM's sentinels are dropped, never read as very large numbers."""
    assert rules.reading("DCGM_FI_DEV_GPU_TEMP", blank) is None
    assert rules.assess({"DCGM_FI_DEV_GPU_TEMP": blank}) == []


def test_zero_is_a_value():
    """0 % is read, not dropped."""
    assert rules.reading("DCGM_FI_DEV_GPU_UTIL", 0).value == 0.0


def test_an_unknown_name_is_refused():
    """A name that nobody uses is an error, not a silent nothing."""
    with pytest.raises(KeyError):
        rules.reading("DCGM_FI_DEV_MADE_UP", 1)


def test_an_exporters_sample_is_assessed():
    """Every number that was exported and has a rule, and what follows from two of them together."""
    assert words(rules.assess(EXPORTED)) == {
        ("utilization_ratio", "good"),
        ("memory_controller_ratio", "compute-bound"),
        ("temperature_celsius", "normal"),
        ("tensor_active_ratio", "efficient"),
        ("memory_ratio", "good"),
        ("utilization_ratio", "compute-bound"),
    }


def test_the_same_sample_in_our_columns_reads_the_same():
    """Columns and exporter names lead to one table."""
    ours = {
        "utilization_ratio": 0.92,
        "memory_controller_ratio": 0.20,
        "fb_used_bytes": 57_000 * MIB,
        "fb_total_bytes": 81_000 * MIB,
        "temperature_celsius": 71.0,
        "tensor_active_ratio": 0.61,
        "sm_active_ratio": None,
    }

    assert words(rules.assess(ours)) == words(rules.assess(EXPORTED))


def test_the_share_of_memory_leaves_the_drivers_reserve_out():
    """FB_USED / (FB_USED + FB_FREE), whatever FB_TOTAL says."""
    found = rules.columns(
        {
            "DCGM_FI_DEV_FB_USED": 60,
            "DCGM_FI_DEV_FB_FREE": 20,
            "DCGM_FI_DEV_FB_TOTAL": 100,
            "DCGM_FI_DEV_FB_RESERVED": 20,
        }
    )

    assert found["memory_ratio"] == 0.75


@pytest.mark.parametrize(
    ("sample", "word"),
    [
        ({"utilization_ratio": 0.4, "memory_controller_ratio": 0.9}, "memory-bound"),
        ({"utilization_ratio": 0.9, "temperature_celsius": 88.0}, "throttling risk"),
        (
            {"utilization_ratio": 0.4, "pcie_rx_bytes_per_s": 40e9, "pcie_generation": 5, "pcie_width": 16},
            "input-bound",
        ),
    ],
)
def test_relations_hold_over_several_numbers(sample, word):
    """Two numbers together say more than each alone."""
    assert word in {one.word for one in rules.assess(sample)}


def test_what_is_missing_is_not_guessed():
    """A relation with a number that is not measured does not hold."""
    assert words(rules.assess({"utilization_ratio": 0.9})) == {("utilization_ratio", "good")}
    assert rules.assess({}) == []


def test_a_job_outside_of_its_profile():
    """Below and above what such a job usually shows; what is inside or not measured is not mentioned."""
    found = rules.against("training", {"utilization_ratio": 0.5, "temperature_celsius": 90.0, "memory_ratio": 0.7})

    assert [one.word for one in found] == ["below training's usual", "above training's usual"]


def test_the_table_holds_together():
    """Bands are of names that there are, and rise to infinity; every quotient has its bands."""
    assert set(BANDS) <= set(rules.NAMES)
    assert {quotient.name for quotient in QUOTIENTS} <= set(BANDS)
    for bands in BANDS.values():
        assert [band.below for band in bands] == sorted(band.below for band in bands)
        assert bands[-1].below == math.inf


@pytest.mark.parametrize("quotient", QUOTIENTS, ids=lambda quotient: quotient.name)
def test_a_quotient_is_made_of_the_columns_it_names(quotient):
    """With all of them it is there; without one of the two sides it is not measured."""
    sample = dict.fromkeys(quotient.columns, 1.0)
    assert rules.columns(sample)[quotient.name] > 0.0
    assert quotient.name not in rules.columns({quotient.columns[0]: 1.0})
    assert quotient.name not in rules.columns({quotient.columns[-1]: 1.0})


def test_relations_and_profiles_use_known_numbers():
    """Their names are columns or numbers made of them."""
    used = {name for one in RELATIONS for name, _, _ in one.terms} | {name for one in PROFILES for name in one.ranges}

    assert used <= set(rules.NAMES)
