"""What a node says of its run is checked like anything from outside, and bounded."""

import msgspec
import pytest

from trials.estimate import Interval
from trials.result import MOST_BYTES, NodeResult, Verdict, decode, together

FINDING = Verdict(kind="straggler", cause="cpu_contention", ranks=[1], lost_s=2.0)
GOOD = NodeResult(
    job="j",
    node="n",
    outcome="measured",
    steps=60,
    blocks_s=[0.1] * 30,
    median_s=0.1,
    samples_per_s=Interval(80.0, 79.0, 81.0),
    batch_size=4,
    world_size=2,
    phases={"data": 0.4},
    findings=[FINDING],
)


def encoded(**changed):
    return msgspec.json.encode(msgspec.to_builtins(GOOD) | changed)


def test_what_a_node_wrote_is_read_again():
    """All of it."""
    assert decode(msgspec.json.encode(GOOD), "j") == GOOD


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"null",
        b"[" * 100_000,
        b'{"job":"j"}',
        b"\xff",
        encoded(layout=2),
        encoded(job="another"),
        encoded(outcome="excellent"),
        encoded(blocks_s=[0.1] * 41),
        encoded(blocks_s=[0.0] * 10),
        encoded(blocks_s=["fast"] * 10),
        encoded(steps=-1),
        encoded(steps=2**60),
        encoded(batch_size=1.5),
        encoded(phases={"data": 1.5}),
        encoded(said="x" * 9000),
        encoded(findings=[msgspec.to_builtins(FINDING)] * 4),
        encoded(reason="x" * MOST_BYTES),
    ],
)
def test_what_is_no_document_of_the_job_is_none(document):
    """Damaged, too large, another job's, out of bounds."""
    assert decode(document, "j") is None


def replaced(**changed):
    return msgspec.structs.replace(GOOD, **changed)


def test_the_slowest_node_speaks_for_all():
    """With the worst findings of all nodes, each once."""
    other = Verdict(kind="straggler", cause="link", ranks=[2], lost_s=5.0)
    slow = replaced(node="m", median_s=0.2, findings=[FINDING, other])

    found = together([GOOD, slow])
    assert (found.node, found.findings) == ("m", [other, FINDING])


def test_without_a_measurement_the_first_failure_speaks():
    """A measured one with too few blocks is none."""
    failed = replaced(outcome="hung", blocks_s=[])

    assert together([replaced(blocks_s=[0.1] * 3), failed]) == failed
    assert together([replaced(blocks_s=[0.1] * 3)]) is None
    assert together([]) is None
    assert together([failed, GOOD]).outcome == "measured"
