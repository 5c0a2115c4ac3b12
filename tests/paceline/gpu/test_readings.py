import math

import pynvml
import pytest

from paceline.gpu import readings


@pytest.mark.parametrize("blank", [0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF, 0x7FFFFFFFFFFFFFF0, 0x7FFFFFFFFFFFFFF3, -1, None])
def test_blanks_are_no_value(blank):
    """NVML's and DCGM's sentinels never pass as numbers."""
    assert readings.whole(blank) is None
    assert readings.scaled(blank, 1e-3) is None


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_no_value(odd):
    """NaN and infinity, which JSON cannot say, are no value."""
    assert readings.scaled(odd, 1.0) is None
    assert readings.ratio(odd) is None


def test_zero_is_a_value():
    """0 is a measurement."""
    assert (readings.whole(0), readings.scaled(0, 1e-3), readings.ratio(0)) == (0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("kind", "slot", "value", "expected"),
    [
        (pynvml.NVML_VALUE_TYPE_DOUBLE, "dVal", 1.5, 1.5),
        (pynvml.NVML_VALUE_TYPE_UNSIGNED_INT, "uiVal", 7, 7),
        (pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, "ullVal", 2**40, 2**40),
        (pynvml.NVML_VALUE_TYPE_SIGNED_INT, "siVal", -3, None),
        (99, "ullVal", 1, None),
    ],
)
def test_a_field_is_read_by_its_type(kind, slot, value, expected):
    """The union in NVML's field value is read by its tag; an unknown tag is no value."""
    found = pynvml.c_nvmlFieldValue_t()
    found.valueType = kind
    setattr(found.value, slot, value)

    assert readings.field(found) == expected


def test_a_refused_field_is_no_value():
    """A field that NVML refused holds garbage and is not read."""
    found = pynvml.c_nvmlFieldValue_t()
    found.nvmlReturn, found.valueType = pynvml.NVML_ERROR_NOT_SUPPORTED, 3

    assert readings.field(found) is None
