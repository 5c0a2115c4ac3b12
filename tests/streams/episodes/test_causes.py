"""Every cause has its row; a rank's excess is judged by the rows in their order."""

import re
from pathlib import Path
from typing import get_args

import pytest

from paceline.events import (
    CAUSE_ADVICE,
    CAUSE_WORDS,
    CPU_THROTTLED,
    OVERLAYS,
    PHASES,
    QUOTA_ADVICE,
    Cause,
    Evidence,
    advice_on,
)
from streams.episodes.causes import CAUSES, judge, slowing_all, standing_out
from streams.jobs.lateness_bar import JUDGED
from tests.derived_events import finding

ROOT = Path(__file__).resolve().parents[3]


def test_every_cause_has_one_row_and_a_short_word():
    """What the contract can say, the analysis can explain and the page can name."""
    assert set(CAUSES) == set(CAUSE_WORDS) == set(CAUSE_ADVICE) == set(get_args(Cause))


@pytest.mark.parametrize("cause", CAUSES)
def test_a_row_is_complete_and_names_what_is_there(cause):
    """Words are there; parts are phases and overlays of the contract; a quiet part is judged."""
    row = CAUSES[cause]
    assert row.words
    assert {*row.parts, *(row.parts_with_loader or ())} <= {*PHASES, *OVERLAYS}
    assert row.overlay is bool(set(row.parts) & set(OVERLAYS))
    assert row.behind_computing in ("", *OVERLAYS)
    assert row.stands_out in ("", *JUDGED[1:])


@pytest.mark.parametrize(
    ("parts", "has_loader", "cause"),
    [
        ({"forward": 0.08, "data": 0.02}, True, "worker_compute"),
        ({"data": 0.08, "forward": 0.02}, True, "input_pipeline"),
        ({"prepare": 0.1}, False, "input_pipeline"),
        ({"prepare": 0.1}, True, "worker_compute"),
        ({"backward": 0.1, "gc": 0.08}, True, "garbage_collection"),
        ({"backward": 0.1, "cpu_wait": 0.06, "gc": 0.06}, True, "garbage_collection"),
        ({"backward": 0.1, "cpu_wait": 0.04}, True, "worker_compute"),
        ({"idle": 0.08, "forward": 0.02}, True, "host_bound"),
        ({"idle": 0.04, "forward": 0.06}, True, "worker_compute"),
        ({"backward": 0.1, "host_bound": 0.3}, True, "host_bound"),
        ({"backward": 0.1, "host_bound": 0.081}, True, "host_bound"),
        ({"backward": 0.1, "host_bound": 0.079}, True, "worker_compute"),
        ({"backward": 0.1, "host_bound": -0.3}, True, "worker_compute"),
        ({"backward": 0.1, "host_bound": 0.1, "gc": 0.06}, True, "garbage_collection"),
        ({"backward": 0.1, "host_bound": 0.1, "cpu_wait": 0.06}, True, "cpu_contention"),
        ({"data": 0.1, "host_bound": 0.1}, True, "input_pipeline"),
        ({"prepare": 0.1, "host_bound": 0.1}, True, "host_bound"),
        ({"host_bound": 0.1}, True, "unknown"),
        ({"checkpoint": 0.1}, True, "unknown"),
        ({"forward": -0.1}, True, "unknown"),
        ({}, True, "unknown"),
    ],
)
def test_the_first_row_that_explains_half_is_the_cause(parts, has_loader, cause):
    """Overlays before phases; time before the forward is input only where no loader accounts for it."""
    assert judge(parts, has_loader, 0.5).cause == cause


def test_a_host_that_was_named_stays_named_with_less():
    """A share that goes up and down around the bar does not change the word each time."""
    parts = {"backward": 0.1, "host_bound": 0.061}
    assert [judge(parts, True, 0.5, named).cause for named in ("host_bound", "unknown", "worker_compute")] == [
        "host_bound",
        "worker_compute",
        "worker_compute",
    ]
    assert judge({"backward": 0.1, "host_bound": 0.059}, True, 0.5, "host_bound").cause == "worker_compute"


def test_what_was_tried_before_is_cleared_with_its_number():
    """A verdict says what it is not."""
    verdict = judge({"forward": 0.08, "data": 0.02}, has_loader=True, least_share=0.5)
    assert verdict.share == pytest.approx(0.8)
    assert verdict.cleared == [
        "garbage collection: 0% of the extra time",
        "cpu contention: 0% of the extra time",
        "input pipeline: 20% of the extra time",
    ]


@pytest.mark.parametrize(
    ("parts", "cleared"),
    [
        (
            {"backward": 0.1, "host_bound": 0.3},
            "worker compute: in 100% of the extra time the device had nothing to do",
        ),
        ({"data": 0.1, "host_bound": 0.09}, "worker compute: in 90% of the extra time the device had nothing to do"),
        ({"backward": 0.1, "host_bound": 0.02}, "host bound: 20% of the extra time"),
        ({"backward": 0.1, "host_bound": -0.02}, "host bound: 0% of the extra time"),
    ],
)
def test_a_device_that_waits_for_its_host_is_cleared(parts, cleared):
    """Whatever its host does instead; and a host that its device does not wait for is, too."""
    assert judge(parts, has_loader=True, least_share=0.5).cleared[-1] == cleared


def test_parts_that_stand_out_and_parts_that_slow_everybody():
    """A quiet part speaks for its cause alone; computing that grows on all ranks has no cause that can be told."""
    assert [standing_out(part) for part in ("input", "gc", "starved", "outside")] == [
        "input_pipeline",
        "garbage_collection",
        "cpu_contention",
        None,
    ]
    assert [slowing_all(part) for part in ("prepare", "gc", "backward", "cpu_wait")] == [
        "input_pipeline",
        "garbage_collection",
        "unknown",
        "unknown",
    ]


def test_the_example_in_contributing_fits_the_files():
    """Every line around the made-up cause stands in the file that the diff names, in that order."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    diff = re.search(r"```diff\n(.*?)```", text, re.DOTALL)[1].splitlines()
    lines: list[str] = []
    for line in diff:
        if line.startswith("--- a/"):
            lines = (ROOT / line.removeprefix("--- a/")).read_text().splitlines()
        elif line.startswith(" "):
            assert line[1:] in lines, line
            lines = lines[lines.index(line[1:]) + 1 :]
        else:
            assert line.startswith("+")


@pytest.mark.parametrize(
    ("cause", "share", "quota"),
    [("cpu_contention", 0.38, True), ("cpu_contention", 0.01, False), ("worker_compute", 0.38, False)],
)
def test_a_quota_that_was_hit_is_to_be_raised(cause, share, quota):
    """In place of a search for other programs; a cause of a later version has no advice."""
    evidence = [Evidence(name=CPU_THROTTLED, value=share, unit="ratio", peers=None, rule="")]
    assert advice_on(finding(cause=cause, evidence=evidence)) == (QUOTA_ADVICE if quota else CAUSE_ADVICE[cause])
    assert advice_on(finding(cause=cause)) == CAUSE_ADVICE[cause]
    assert advice_on(finding(cause="of a later version")) == ""
    assert advice_on(finding(cause=cause, next="py-spy dump --pid 41")) == "py-spy dump --pid 41"
    assert advice_on(finding(cause=cause, next=None)) == CAUSE_ADVICE[cause]
