"""DCGM's fields: one row a field, one column a field, and the names it is exported under."""

import math

import pytest

from paceline.gpu import dcgm
from paceline.gpu.dcgm import FIELDS, WRONG_IDS
from paceline.gpu.limits import FP64_BLANK, INT64_BLANK
from paceline.gpu.sample_rows import DEVICE_COLUMNS

#: Columns of an exporter's sample that our own samples do not have.
EXPORTED_ONLY = {"fb_free_bytes", "memory_ratio", "sm_occupancy_ratio"}


def test_the_table_holds_together():
    """One row a field, names used once, columns that the events have."""
    ids = [field.field_id for field in FIELDS]
    names = [field.name for field in FIELDS] + [alias.name for field in FIELDS for alias in field.aliases]

    assert len(set(ids)) == len(ids)
    assert len(set(names)) == len(names)
    assert {field.column for field in FIELDS if field.column} - EXPORTED_ONLY <= set(DEVICE_COLUMNS)


@pytest.mark.parametrize("column", sorted({field.column for field in FIELDS if field.column}))
def test_fields_of_one_column_share_its_unit(column):
    """Whatever a column is filled from, it is in one unit, and the column's name says which."""
    (unit,) = {field.unit for field in FIELDS if field.column == column}
    endings = {"ratio": "_ratio", "bytes": "_bytes", "bytes/s": "_bytes_per_s", "W": "_w", "J": "_j", "MHz": "_mhz"}

    assert column.endswith(endings.get(unit, ""))


@pytest.mark.parametrize("constant", [dcgm.ECC_DBE_VOLATILE, dcgm.ECC_SBE_AGGREGATE, dcgm.ECC_DBE_AGGREGATE])
def test_a_field_spoken_of_by_name_is_in_the_table(constant):
    """A name given to other modules is a field's real name."""
    assert constant in {field.name for field in FIELDS}


@pytest.mark.parametrize(
    "blank", [FP64_BLANK, FP64_BLANK + 3, INT64_BLANK, INT64_BLANK + 3, -1, math.nan, math.inf, None]
)
def test_a_blank_is_not_measured(blank):
    """No value, not found, not supported, no permission: none of them is a number."""
    assert dcgm.measured(blank) is None


@pytest.mark.parametrize("value", [0, 0.0, 1.5, 2**40])
def test_a_number_is_measured(value):
    """Zero is one."""
    assert dcgm.measured(value) == value


def test_a_column_is_exported_under_dcgms_own_names():
    """The renamed field keeps its unit or not, as DCGM has it; names that only guides use are never asked for."""
    assert dict(dcgm.exported("sm_occupancy_ratio")) == {
        "DCGM_FI_PROF_SM_OCCUPANCY": 1.0,
        "DCGM_FI_PROF_SM_OCCUPANCY_RATIO": 1.0,
    }
    assert dict(dcgm.exported("fb_used_bytes")) == {"DCGM_FI_DEV_FB_USED": 2**20}
    assert list(dcgm.exported("cpu_ratio")) == []


@pytest.mark.parametrize(("wrong", "right"), [(wrong, right) for wrong, _, right in WRONG_IDS])
def test_an_id_put_right_is_a_field(wrong, right):
    """What a guide means by a wrong id is a field of the table, and another."""
    ids = {field.field_id for field in FIELDS}
    assert right in ids
    assert wrong != right
