"""Suggestions by id, the newest revision of each, and what came of the commands that were given about them.

Rule of this file: pure and bounded. Texts are of other processes and may be of any length: what is too long is cut
where it comes in, and marked.
"""

from collections import OrderedDict
from collections.abc import Iterable

import msgspec

from paceline.events import (
    CLOSED_SUGGESTIONS,
    OPEN_SUGGESTIONS,
    SUGGESTION_TARGET,
    AuditEntry,
    Evidence,
    Suggestion,
)
from paceline.visible import visible

SUGGESTIONS, ANSWERS = 1_000, 500
#: Rows of each list, and characters of a line, of a paragraph and of a manifest, that are kept.
ROWS, LINE, PARAGRAPH, MANIFEST = 40, 300, 2_000, 20_000
CUT = " …"
#: All states, in the order of a card's life.
STATES = (*OPEN_SUGGESTIONS, *CLOSED_SUGGESTIONS)


class SuggestionBook:
    """The newest revision of each suggestion."""

    def __init__(self, most: int = SUGGESTIONS) -> None:
        self._most = most
        self._held: dict[str, Suggestion] = {}

    def upsert(self, suggestion: Suggestion) -> None:
        """Take ``suggestion``; a revision that is not newer than what is held changes nothing."""
        held = self._held.get(suggestion.id)
        if held is not None and suggestion.revision <= held.revision:
            return
        self._held[suggestion.id] = _bounded(suggestion)
        if len(self._held) > self._most + self._most // 8:
            kept = sorted(self._held.values(), key=lambda one: (one.state in CLOSED_SUGGESTIONS, -one.updated_s))
            self._held = {one.id: one for one in kept[: self._most]}

    def all(self) -> tuple[Suggestion, ...]:
        """Every suggestion that is held."""
        return tuple(self._held.values())


class AnswerBook:
    """What readers made of commands about suggestions, the newest by the command's id."""

    def __init__(self, most: int = ANSWERS) -> None:
        self._most = most
        self._held: OrderedDict[str, AuditEntry] = OrderedDict()

    def take(self, entry: AuditEntry) -> None:
        """Keep ``entry`` where it answers such a command. Who obeys is heard before who refuses."""
        if not entry.target.startswith(SUGGESTION_TARGET):
            return
        held = self._held.get(entry.command_id)
        if held is None or held.outcome != "accepted":
            self._held[entry.command_id] = entry
        while len(self._held) > self._most:
            self._held.popitem(last=False)

    def all(self) -> dict[str, AuditEntry]:
        """Every answer that is held, by its command's id; a copy."""
        return dict(self._held)


def _bounded(suggestion: Suggestion) -> Suggestion:
    return msgspec.structs.replace(
        suggestion,
        cluster=_cut(suggestion.cluster, LINE),
        target=_cut(suggestion.target, LINE),
        job=suggestion.job[:LINE],
        title=_cut(suggestion.title, LINE),
        reason=_cut(suggestion.reason, PARAGRAPH),
        risk_reason=_cut(suggestion.risk_reason, PARAGRAPH),
        by=_cut(suggestion.by, LINE),
        because=_cut(suggestion.because, PARAGRAPH),
        manifest=_cut(suggestion.manifest, MANIFEST),
        nodes=_lines(suggestion.nodes, LINE),
        devices=_lines(suggestion.devices, LINE),
        ranks=suggestion.ranks[:ROWS],
        findings=_lines(suggestion.findings, LINE),
        steps=_lines(suggestion.steps, PARAGRAPH),
        apply=_commands(suggestion.apply),
        evidence=[_short(one) for one in suggestion.evidence[:ROWS]],
        gain=msgspec.structs.replace(
            suggestion.gain, basis=_cut(suggestion.gain.basis, PARAGRAPH), currency=suggestion.gain.currency[:8]
        ),
    )


def _short(evidence: Evidence) -> Evidence:
    return msgspec.structs.replace(
        evidence, name=_cut(evidence.name, LINE), unit=evidence.unit[:20], rule=_cut(evidence.rule, LINE)
    )


def _lines(texts: Iterable[str], length: int) -> list[str]:
    return [_cut(text, length) for text in list(texts)[:ROWS]]


def _commands(lines: list[str]) -> list[str]:
    """Commands to copy: whole or not at all, one a line, and nothing in them that a terminal would not show."""
    kept = [visible(line) for line in lines[:ROWS] if len(line) <= PARAGRAPH]
    left_out = len(lines) - len(kept)
    return kept if not left_out else [*kept, f"# {left_out} left out: too long for this page"]


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - len(CUT)] + CUT
