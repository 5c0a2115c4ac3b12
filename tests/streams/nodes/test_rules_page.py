"""docs/gpu-rules.md: made from the tables, complete, and honest about what feeds a rule."""

from pathlib import Path

import pytest

from collectors.column_sources import SOURCES
from paceline.gpu.dcgm import FIELDS
from paceline.gpu.xids import XIDS
from streams.nodes import rules_page

DOCS = Path(__file__).parents[3] / "docs"


def test_the_page_is_up_to_date():
    """A changed rule changes its page in the same commit: run `make docs`."""
    assert (DOCS / "gpu-rules.md").read_text(encoding="utf-8") == rules_page.page(SOURCES), "run `make docs`"


def test_every_metric_alias_and_code_is_on_the_page():
    """Nothing that the code reads is left unsaid."""
    text = rules_page.page(SOURCES)
    names = [field.name for field in FIELDS] + [alias.name for field in FIELDS for alias in field.aliases]

    assert [name for name in names if f"`{name}`" not in text] == []
    assert [code for code in XIDS if f"| {code} |" not in text] == []


@pytest.mark.parametrize(
    ("names", "fed"),
    [
        (["temperature_celsius"], "NVML collector, dcgm-exporter"),
        (["sm_active_ratio"], "NVML collector, from Hopper on, dcgm-exporter"),
        (["pcie_ratio", "utilization_ratio"], "NVML collector, dcgm-exporter"),
        (["sm_occupancy_ratio"], "dcgm-exporter"),
        (["nvlink_ratio"], "NVML collector, dcgm-exporter and NVML collector"),
        (["nvlink_ratio", "pcie_ratio"], "NVML collector, dcgm-exporter and NVML collector"),
    ],
)
def test_a_rule_says_what_feeds_it(names, fed):
    """A rule is fed where all that it needs is; a rule that nothing feeds says so."""
    assert rules_page.fed_by(names, SOURCES) == fed
