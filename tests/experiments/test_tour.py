"""What the tour demands of the simulated cluster: each job's own finding and suggestion, and none for healthy ones."""

import dataclasses
from types import SimpleNamespace

import pytest
import yaml

from experiments.chromium import key_class
from experiments.tour.expected import EXPECTED, HEALTHY, unlike
from experiments.tour.stack import CLUSTER


@dataclasses.dataclass
class Said:
    """Findings and suggestions as they should be."""

    findings: list
    suggestions: list


@pytest.fixture
def said():
    findings = [
        SimpleNamespace(job=job, kind=one.kind, cause=one.cause or "unknown", ranks=list(one.ranks), summary="…")
        for job, one in EXPECTED.items()
    ]
    suggestions = [SimpleNamespace(job=job, action=one.action, state="new", title="…") for job, one in EXPECTED.items()]
    return Said(findings, suggestions)


def test_all_as_expected_is_nothing_to_tell(said):
    assert unlike(said.findings, said.suggestions) == []


@pytest.mark.parametrize("job", EXPECTED)
def test_what_is_missing_is_told(said, job):
    kept = [one for one in said.findings if one.job != job]
    assert [words.split(":")[0] for words in unlike(kept, said.suggestions)] == [job]
    kept = [one for one in said.suggestions if one.job != job]
    assert [words.split(":")[0] for words in unlike(said.findings, kept)] == [job]


def test_a_wrong_rank_or_cause_is_told(said):
    said.findings[0].ranks = [10]
    said.findings[1].cause = "link"
    assert len(unlike(said.findings, said.suggestions)) == 2


@pytest.mark.parametrize("job", HEALTHY)
def test_nothing_is_said_of_healthy_jobs(said, job):
    """But of a node that is silent, and what was withdrawn."""
    silent = SimpleNamespace(job=job, kind="node_silent", cause="unknown", ranks=[], summary="…")
    over = SimpleNamespace(job=job, action="inspect_node", state="withdrawn", title="…")
    assert unlike([*said.findings, silent], [*said.suggestions, over]) == []
    wrong = SimpleNamespace(job=job, kind="straggler", cause="link", ranks=[1], summary="…")
    assert (
        len(unlike([*said.findings, wrong], [*said.suggestions, SimpleNamespace(**{**vars(over), "state": "new"})]))
        == 2
    )


def test_every_job_with_a_fault_is_expected():
    jobs = yaml.safe_load(CLUSTER.read_text())["jobs"]
    assert {job["name"] for job in jobs if "faults" in job} <= set(EXPECTED)
    assert set(EXPECTED) | set(HEALTHY) <= {job["name"] for job in jobs}


def test_names_become_selectors():
    assert key_class(" suggestion-a/b c:1 ") == ".st-key-suggestion-a-b-c-1"
