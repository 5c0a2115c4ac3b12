from pathlib import Path

from paceline.gpu.dcgm import FIELDS
from paceline.gpu.xids import XIDS
from streams.nodes import rules_page

DOCS = Path(__file__).parents[3] / "docs"


def test_the_page_is_up_to_date():
    """A changed rule changes its page in the same commit: run `make docs`."""
    assert (DOCS / "gpu-rules.md").read_text(encoding="utf-8") == rules_page.page(), "run `make docs`"


def test_every_metric_alias_and_code_is_on_the_page():
    """Nothing that the code reads is left unsaid."""
    text = rules_page.page()
    names = [field.name for field in FIELDS] + [alias.name for field in FIELDS for alias in field.aliases]

    assert [name for name in names if f"`{name}`" not in text] == []
    assert [code for code in XIDS if f"| {code} |" not in text] == []
