"""docs/metrics.md: made from the tables in the code, complete, and each name once."""

import importlib.util
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent.parent / "docs"
SPEC = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
assert SPEC is not None
assert SPEC.loader is not None
generate = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(generate)
METERS = [meter for service in generate.SERVICES for meter in service.meters]
#: Tables of sources; the rest is generated or says what is.
FOLDERS = ("paceline", "annotator", "archive", "collectors", "streams", "forecaster")


def test_the_page_is_what_the_tables_say():
    """After a change of them `make docs` has run."""
    assert (DOCS / "metrics.md").read_text(encoding="utf-8") == generate.PAGES["metrics.md"], "run `make docs`"


def test_every_metric_is_declared_once():
    """With a prefix, a meaning, and labels that the page explains; units are base units."""
    names = [meter.sample for meter in METERS]
    assert len(set(names)) == len(names)
    for meter in METERS:
        assert re.fullmatch(r"paceline_[a-z0-9_]+", meter.sample)
        assert meter.help.endswith(".")
        assert set(meter.labels) <= generate.LABELS.keys()
        assert not {"step", "pid", "message", "quantile", "le"} & set(meter.labels)
    assert {label for meter in METERS for label in meter.labels} == generate.LABELS.keys()


@pytest.mark.long
def test_no_metric_is_made_elsewhere():
    """Every name that a service's code holds is in a table."""
    root = DOCS.parent
    names = {meter.name for meter in METERS}
    told = {
        word
        for folder in FOLDERS
        for file in (root / folder).rglob("*meters.py")
        for word in re.findall(r'"(paceline_[a-z0-9_]+[a-z0-9])"', file.read_text(encoding="utf-8"))
    }
    assert told <= names
    made = [
        file.relative_to(root).as_posix()
        for folder in FOLDERS
        for file in (root / folder).rglob("*.py")
        if re.search(r"(Counter|Gauge)MetricFamily|prometheus_client import .*(Gauge|Summary)", file.read_text("utf-8"))
    ]
    assert made == ["paceline/exposition.py"]
