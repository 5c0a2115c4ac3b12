"""What Kubernetes says of a Job and its pods, and what that means for the trial.

Rule of this file: pure. A server's words are bounded, and made visible; a field that is missing is no error, an answer
that is no such object is one. What is not known to have ended has not.

It assumes of a log that the document of a node stands on a line of its own, near the end; lines may be cut, be no
UTF-8, or bear the mark somewhere inside. Of several documents for the job the last counts.
"""

from collections.abc import Sequence
from typing import Literal, TypeVar

import msgspec

from paceline.decoders import json_decoder

from .executor import RESULT_MARK
from .kube_objects import CONTAINER, DIGEST, MARK
from .result import decode as document

T = TypeVar("T")
LONGEST = 300
#: Why a container stands, where waiting seldom helps.
STUCK = (
    "ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError",
    "RegistryUnavailable", "SignatureValidationFailed", "CreateContainerConfigError", "CreateContainerError",
    "RunContainerError", "CreatePodSandboxError",
)  # fmt: skip
#: Why the kubelet ends a pod that has done nothing.
_LOST = ("Evicted", "Preempting", "NodeLost", "NodeShutdown", "Shutdown", "Terminated", "UnexpectedAdmissionError")


class UnreadableError(ValueError):
    """An answer that is no such object."""


class _Owner(msgspec.Struct):
    uid: str = ""


class _Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    deletion_timestamp: str | None = None
    owner_references: list[_Owner] | None = None


class _Condition(msgspec.Struct):
    type: str
    status: str = ""
    reason: str = ""
    message: str = ""


class _Waiting(msgspec.Struct):
    reason: str = ""
    message: str = ""


class _Terminated(msgspec.Struct, rename="camel"):
    exit_code: int = 0
    reason: str = ""
    message: str = ""


class _State(msgspec.Struct):
    waiting: _Waiting | None = None
    running: dict[str, object] | None = None
    terminated: _Terminated | None = None


class _Container(msgspec.Struct):
    name: str = ""
    state: _State = msgspec.field(default_factory=_State)


class _Status(msgspec.Struct, rename="camel"):
    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: list[_Condition] | None = None
    container_statuses: list[_Container] | None = None


class Held(msgspec.Struct):
    """A Job or a pod."""

    metadata: _Metadata
    status: _Status = msgspec.field(default_factory=_Status)

    @property
    def name(self) -> str:
        """Its name."""
        return self.metadata.name

    @property
    def mark(self) -> str:
        """Which trial's it is."""
        return (self.metadata.labels or {}).get(MARK, "")

    @property
    def digest(self) -> str:
        """What it was made of."""
        return (self.metadata.annotations or {}).get(DIGEST, "")

    @property
    def over(self) -> bool:
        """Of a pod: whether it has ended."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def state(self) -> _State:
        """Of a pod: its container's."""
        return next((one.state for one in self.status.container_statuses or () if one.name == CONTAINER), _State())

    def condition(self, kind: str) -> _Condition | None:
        """The condition of this kind, where it is true."""
        return next((one for one in self.status.conditions or () if (one.type, one.status) == (kind, "True")), None)


class _List(msgspec.Struct):
    items: list[Held] | None


class _Event(msgspec.Struct):
    reason: str = ""
    message: str = ""
    type: str = ""


class _Events(msgspec.Struct):
    items: list[_Event] | None


class Told(msgspec.Struct, frozen=True):
    """What a job does, and why: ``status`` as a shell counts, ``stuck`` where waiting seldom helps."""

    meaning: Literal["waits", "runs", "ended", "killed", "gone"]
    why: str = ""
    status: int | None = None
    stuck: bool = False


def one(answer: bytes) -> Held:
    """A Job or a pod.

    Raises:
        UnreadableError: it is none.
    """
    return _decoded(answer, Held)


def several(answer: bytes) -> list[Held]:
    """All of a list.

    Raises:
        UnreadableError: it is none.
    """
    return _decoded(answer, _List).items or []


def refusals(answer: bytes) -> str:
    """The last warning among events, "" where there is none."""
    warned = [event for event in _decoded(answer, _Events).items or [] if event.type == "Warning"]
    return _sentence(warned[-1].reason, warned[-1].message) if warned else ""


def _decoded(answer: bytes, kind: type[T]) -> T:
    try:
        return json_decoder(kind).decode(answer)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise UnreadableError(plain(str(error))) from None


def own(pods: Sequence[Held], uid: str) -> list[Held]:
    """Those that this very Job has made, by name."""
    found = [pod for pod in pods if any(owner.uid == uid for owner in pod.metadata.owner_references or ())]
    return sorted(found, key=lambda pod: pod.name)


def judged(job: Held, pods: Sequence[Held], nodes: int) -> Told:
    """What ``job`` does. ``pods`` are its own."""
    if job.condition("Complete"):
        return Told("ended", status=0)
    if failed := job.condition("FailureTarget") or job.condition("Failed"):
        return _failed(failed, pods)
    if job.metadata.deletion_timestamp:
        return Told("gone", f"somebody deletes its Job {job.name}")
    if held := job.condition("Suspended"):
        return Told("waits", f"suspended: {_sentence(held.reason, held.message)}")
    running = [pod for pod in pods if pod.over or pod.state.running is not None or pod.state.terminated]
    if len(running) >= nodes or any(pod.over for pod in pods):
        return Told("runs")
    waiting = [told for pod in pods if pod not in running for told in [_waits(pod)]]
    worst = next((told for told in waiting if told.stuck), None) or (waiting[0] if waiting else None)
    return worst or Told("waits", "it has no pod yet")


def _waits(pod: Held) -> Told:
    waiting = pod.state.waiting
    if waiting and waiting.reason not in ("", "ContainerCreating", "PodInitializing"):
        return Told("waits", f"{pod.name}: {_sentence(waiting.reason, waiting.message)}", stuck=waiting.reason in STUCK)
    for kept in pod.status.conditions or ():
        if kept.type == "PodScheduled" and kept.status == "False":
            return Told("waits", f"{pod.name}: {_sentence(kept.reason, kept.message)}")
    return Told("waits", f"{pod.name}: {waiting.reason if waiting and waiting.reason else 'not begun yet'}")


def _failed(failed: _Condition, pods: Sequence[Held]) -> Told:
    """How a Job failed: by its time, by what befell a pod from outside, or by a pod's own end."""
    if failed.reason == "DeadlineExceeded":
        return Told("killed", _sentence(failed.reason, failed.message))
    for pod in pods:
        taken = pod.condition("DisruptionTarget")
        if taken:
            return Told("gone", f"{pod.name}: {_sentence(taken.reason, taken.message)}")
        if pod.status.reason in _LOST:
            return Told("gone", f"{pod.name}: {_sentence(pod.status.reason, pod.status.message)}")
    ends = [(pod, pod.state.terminated) for pod in pods if pod.state.terminated and pod.state.terminated.exit_code]
    for pod, end in ends:
        if end is not None and end.reason == "OOMKilled":
            return Told("ended", f"{pod.name}: out of memory (OOMKilled), by executor.kubernetes.memory", 137)
    for pod, end in ends:
        if end is not None:
            reason = "" if end.reason == "Error" else f": {_sentence(end.reason, end.message)}"
            return Told("ended", f"{pod.name}: status {end.exit_code}{reason}", end.exit_code)
    return Told("gone", _sentence(failed.reason, failed.message))


def _sentence(reason: str, message: str) -> str:
    return plain(f"{reason}: {message}" if reason and message else reason or message or "no reason is given")


def plain(text: str) -> str:
    """Someone else's words on one line, bounded, with nothing in them that moves a terminal's cursor."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return line[:LONGEST]


def result_in(log: bytes, job_id: str) -> bytes | None:
    """The document of a node in its log: the last line that is one of this job.

    >>> result_in(b"PACELINE-TRIAL {}", "a") is None
    True
    """
    mark = RESULT_MARK.encode()
    for line in reversed(log.split(b"\n")):
        if line.startswith(mark):
            found = line[len(mark) :].strip()
            if document(found, job_id) is not None:
                return found
    return None


def output_in(log: bytes) -> bytes:
    """The log without what is for the trial alone."""
    return b"\n".join(line for line in log.split(b"\n") if not line.startswith(RESULT_MARK.encode()))
