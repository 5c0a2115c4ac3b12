"""What the cluster's words mean: of Jobs, of pods and of their logs."""

import json
from typing import Any

import pytest

from tests.trials.kube_world import document
from trials.kube_states import Held, UnreadableError, judged, one, output_in, plain, refusals, result_in, several

JOB = "r0-n0-p1-t0"


def pod(phase: str = "Pending", state: Any = None, **status: Any) -> Held:
    told = {"phase": phase, **status}
    if state is not None:
        told["containerStatuses"] = [{"name": "trial", "state": state}]
    return one(json.dumps({"metadata": {"name": "p-0"}, "status": told}).encode())


def job(*conditions: str, **metadata: Any) -> Held:
    told = [{"type": kind, "status": "True", "reason": "R", "message": "M"} for kind in conditions]
    return one(json.dumps({"metadata": {"name": "j", **metadata}, "status": {"conditions": told}}).encode())


RUNNING = {"running": {"startedAt": "2026-11-25T00:00:00Z"}}
WAITING = {"waiting": {"reason": "ContainerCreating"}}


@pytest.mark.parametrize(
    ("held", "pods", "meaning"),
    [
        (job(), [], "waits"),
        (job(), [pod()], "waits"),
        (job(), [pod(state=WAITING)], "waits"),
        (job(), [pod("Running", RUNNING)], "runs"),
        (job(), [pod("Unknown")], "waits"),
        (job("SuccessCriteriaMet"), [pod("Succeeded")], "runs"),
        (job("Complete"), [], "ended"),
        (job("FailureTarget"), [], "gone"),
        (job("Failed"), [pod("Failed", {"terminated": {"exitCode": 2}})], "ended"),
        (job("SomethingNew"), [pod("Running", RUNNING)], "runs"),
        (job(deletionTimestamp="2026-11-25T00:00:00Z"), [pod("Running", RUNNING)], "gone"),
    ],
)
def test_a_job_means(held: Held, pods: list[Held], meaning: str) -> None:
    """What is not known to have ended has not."""
    assert judged(held, pods, 1).meaning == meaning


def test_a_job_waits_until_all_its_nodes_run() -> None:
    """One of two is not yet the run; once one has ended it is over with waiting."""
    assert judged(job(), [pod("Running", RUNNING), pod()], 2).meaning == "waits"
    assert judged(job(), [pod("Running", RUNNING)], 2).meaning == "waits"
    assert judged(job(), [pod("Running", RUNNING), pod("Running", RUNNING)], 2).meaning == "runs"
    assert judged(job(), [pod("Succeeded"), pod()], 2).meaning == "runs"


def test_what_a_pod_stands_at_is_told_before_what_others_wait_for() -> None:
    """The image that is not there, not the pod that has not begun."""
    stands = pod(state={"waiting": {"reason": "ErrImagePull", "message": "not found\x1b[2J"}})
    told = judged(job(), [pod(), stands], 2)
    assert (told.stuck, told.why) == (True, "p-0: ErrImagePull: not found [2J")


def test_another_containers_end_is_not_ours() -> None:
    """A sidecar that runs or waits says nothing of the training."""
    status = {"containerStatuses": [{"name": "istio-proxy", "state": RUNNING}]}
    assert judged(job(), [pod(**status)], 1).meaning == "waits"


def test_a_program_that_is_not_in_the_image_is_told() -> None:
    """The runtime's sentence stands in the end."""
    end = {"terminated": {"exitCode": 128, "reason": "StartError", "message": 'exec: "paceline": not found'}}
    told = judged(job("Failed"), [pod("Failed", end)], 1)
    assert (told.meaning, told.status) == ("ended", 128)
    assert '"paceline": not found' in told.why


@pytest.mark.parametrize("answer", [b"", b"[]", b"{}", b'{"metadata": 7}', b"<html>", b"\xff", b"[" * 100_000, b"null"])
def test_an_answer_that_is_no_object_is_unreadable(answer: bytes) -> None:
    """And not an object without fields."""
    for read in (one, several, refusals):
        with pytest.raises(UnreadableError):
            read(answer)


def test_what_is_missing_or_null_is_no_error() -> None:
    """As Go writes what is empty."""
    assert several(b'{"items": null}') == []
    held = one(b'{"metadata": {"labels": null, "ownerReferences": null}, "status": {"conditions": null}, "spec": 3}')
    assert (held.mark, held.digest, held.over) == ("", "", False)
    assert refusals(b'{"items": [{"type": "Normal", "message": "m"}]}') == ""


@pytest.mark.parametrize(
    "before",
    [
        b"", b"epoch\n", b"\xff\xfe\n", b"x PACELINE-TRIAL {}\n", b"PACELINE-TRIAL {}\n", b"PACELINE-TRIAL \n",
        b'E-TRIAL {"job": "cut at its beginning"}\n', document("another"), document(node="earlier"),
        b"PACELINE-TRIAL " + b"[" * 100_000 + b"\n", b"PACELINE-TRIAL " + b"x" * 200_000 + b"\n",
    ],
)  # fmt: skip
@pytest.mark.parametrize("after", [b"", b"bye\n", b"PACELINE-TRIAL {cut", b"say PACELINE-TRIAL {}", document("other")])
def test_the_document_is_found_in_whatever_log(before: bytes, after: bytes) -> None:
    """The last line that is one of this job; no other text is taken for it."""
    found = result_in(before + document(node="mine") + after, JOB)
    assert found is not None
    assert json.loads(found)["node"] == "mine"


@pytest.mark.parametrize(
    "log", [b"", b"x " + document(), document()[:-40], document("other"), document()[5:], b"PACELINE-TRIAL \xff\n"]
)
def test_a_log_without_a_whole_document_has_none(log: bytes) -> None:
    """Cut, inside other text, of another job."""
    assert result_in(log, JOB) is None


def test_lines_may_end_as_on_windows() -> None:
    """A terminal's line ends are no part of the document."""
    assert result_in(document().replace(b"\n", b"\r\n"), JOB) is not None


def test_documents_are_no_output() -> None:
    """What is for the trial is not shown to a person."""
    assert output_in(b"a\n" + document() + b"b") == b"a\nb"


def test_others_words_are_bounded() -> None:
    """One line, no control characters."""
    assert plain("a\x1b[2J\n" + "b" * 1000) == ("a [2J " + "b" * 1000)[:300]
