"""Every stored recording is judged as it was when its findings were stored, byte by byte."""

import importlib.util
from pathlib import Path

import pytest

_spec = importlib.util.spec_from_file_location("rewrite", Path(__file__).with_name("rewrite.py"))
rewrite = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(rewrite)

MEANT = "if this difference is meant: make regression, and list it in CHANGELOG.md"


@pytest.mark.parametrize("name", rewrite.RECORDINGS)
def test_a_recording_is_judged_as_before(name):
    """Findings, the words for people and the windows have the stored bytes."""
    before, now = rewrite.stored(name), rewrite.output(name)
    if before != now:
        told = rewrite.differences(name, before, now)
        more = [f"... and {len(told) - 20} more"] if len(told) > 20 else []
        pytest.fail("\n".join([*told[:20], *more, MEANT]), pytrace=False)


def test_nothing_is_stored_for_a_recording_that_is_gone():
    """Each stored output belongs to a recording."""
    outputs = {path.name.split(".")[0] for path in rewrite.HERE.glob("*.*.*") if path.suffix in {".jsonl", ".txt"}}
    windows = {line.split(" ")[0] for line in rewrite.WINDOWS.read_text().splitlines()}
    assert outputs == windows == set(rewrite.RECORDINGS)


def test_a_difference_names_finding_and_field():
    """One changed number is told with the finding it is in, the field, and both values."""
    before = rewrite.stored("compute")
    changed = before.findings.replace('"severity":"info"', '"severity":"critical"', 1)
    (line,) = rewrite.differences("compute", before, rewrite.Output(changed, before.words, before.windows))
    assert "finding 5 (straggler-" in line
    assert "severity: was 'info', is 'critical'" in line
