"""The findings and suggestions of one key that are open, so that ``/metrics`` tells of them after a restart, too.

Rule of this file: pure and bounded. An answer that is over is gone. Of each is kept what is counted by, and none of its
words and evidence: it is stored with the state of its key again and again.
"""

from collections.abc import Iterable

import msgspec

from paceline.decoders import msgpack_decoder
from paceline.events import OPEN_SUGGESTIONS, Event, Finding, Suggestion

from .episodes.lifecycle import FINAL

#: Open answers of one key that are kept, the newest.
MOST = 200
#: Ranks of a finding that are kept; of one with more, none.
MOST_FINDING_RANKS = 64


class _Kept(msgspec.Struct):
    """What is stored."""

    findings: list[Finding] = []
    suggestions: list[Suggestion] = []


class OpenAnswers:
    """By id, the newest last."""

    def __init__(self) -> None:
        self._findings: dict[str, Finding] = {}
        self._suggestions: dict[str, Suggestion] = {}

    def hear(self, answers: Iterable[Event]) -> None:
        """The decisions of the key have answered so."""
        for answer in answers:
            if isinstance(answer, Finding):
                _keep(self._findings, answer.id, None if answer.state in FINAL else _bare_finding(answer))
            elif isinstance(answer, Suggestion):
                still = answer.state in OPEN_SUGGESTIONS
                _keep(self._suggestions, answer.id, _bare_suggestion(answer) if still else None)

    def findings(self) -> list[Finding]:
        """Those findings that are open."""
        return list(self._findings.values())

    def all(self) -> list[Finding | Suggestion]:
        """Those that are open."""
        return [*self._findings.values(), *self._suggestions.values()]

    def snapshot(self) -> bytes:
        """The state."""
        return msgspec.msgpack.encode(_Kept(list(self._findings.values()), list(self._suggestions.values())))

    @classmethod
    def restore(cls, data: bytes) -> "OpenAnswers":
        """The state that ``snapshot`` described.

        Raises:
            ValueError: ``data`` is no such state.
        """
        try:
            kept = msgpack_decoder(_Kept).decode(data)
        except (msgspec.DecodeError, RecursionError) as error:
            raise ValueError(f"no open answers: {error}") from error
        made = cls()
        made.hear([*kept.findings, *kept.suggestions])
        return made


def _keep(held: dict[str, Finding] | dict[str, Suggestion], key: str, answer: Finding | Suggestion | None) -> None:
    held.pop(key, None)
    if answer is not None:
        held[key] = answer  # type: ignore[assignment]
    if len(held) > MOST:
        del held[next(iter(held))]


def _bare_finding(finding: Finding) -> Finding:
    ranks = finding.ranks if len(finding.ranks) <= MOST_FINDING_RANKS else []
    return msgspec.structs.replace(finding, ranks=ranks, devices=[], evidence=[], exonerated=[], summary="")


def _bare_suggestion(one: Suggestion) -> Suggestion:
    return Suggestion(
        id=one.id,
        revision=one.revision,
        cluster=one.cluster,
        action=one.action,
        target=one.target,
        state=one.state,
        severity=one.severity,
        job=one.job,
        attempt=one.attempt,
        title="",
        reason="",
        created_s=one.created_s,
        updated_s=one.updated_s,
        expires_s=one.expires_s,
    )
