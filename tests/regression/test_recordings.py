"""Every stored recording is judged as it was when its findings were stored, byte by byte."""

import importlib.util
import json
from pathlib import Path

import pytest

_spec = importlib.util.spec_from_file_location("rewrite", Path(__file__).with_name("rewrite.py"))
rewrite = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(rewrite)

MEANT = "if this difference is meant: make regression, and list it in CHANGELOG.md"


@pytest.mark.landing
@pytest.mark.slow
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


def said(*findings):
    """What was printed for findings that cost ``findings`` seconds."""
    lines = [
        json.dumps({"id": "straggler-1", "revision": number, "summary": "Rank 2.", "cost": {"lost_s": lost_s}}) + "\n"
        for number, lost_s in enumerate(findings, 1)
    ]
    return rewrite.Output("".join(lines), "", "")


def test_a_difference_names_finding_and_field():
    """One changed number is told with the finding it is in, the field, and both values."""
    assert rewrite.differences("job", said(1.0, 2.0), said(1.0, 2.5)) == [
        "job, finding 2 (straggler-1 r2), cost.lost_s: was 2.0, is 2.5"
    ]


def test_a_finding_too_many_is_one_line():
    """What is new or gone is told by its summary, not field by field."""
    assert rewrite.differences("job", said(1.0), said(1.0, 2.0)) == ["job, finding 2 (straggler-1 r2) is new: Rank 2."]
