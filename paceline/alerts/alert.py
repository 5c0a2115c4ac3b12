"""What a finding or a suggestion is to those who are alerted: one alert, with the words that they read.

Rule of this file: pure. Every word in an alert is on one line, of bounded length and without control characters.
"""

from typing import Any, Literal

import msgspec

from paceline.events import SEVERITIES, Finding, Severity, Suggestion
from paceline.events.findings import is_of_nodes
from paceline.visible import visible
from paceline.words import cost, digits, measured, verdict

#: Whether an event of that state is something to tell. A state of a newer version is one to look at, if of a finding.
FINDING_FIRES = {"suspected": False, "confirmed": True, "recovered": False}
SUGGESTION_FIRES = {"new": True}
#: Characters of a name, a title, a text and a line; lines of an alert, ranks and names that it lists.
LONGEST_NAME, LONGEST_TITLE, LONGEST_TEXT, LONGEST_LINE = 200, 300, 1_500, 400
MOST_LINES, MOST_NAMES = 12, 64

Lasts = Literal["run", "attempt", "on"]
#: How a finding ends whose trouble goes on, as one of many or under another finding.
_REPLACED = "another finding reports it"
#: Verdicts on a running job that count no steps.
_WHILE_IT_RUNS = frozenset(("configuration_mismatch", "balanced_straggler"))


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """One alert. ``id`` is ``finding:ID`` or ``suggestion:ID``; ``revision`` is the event's.

    ``fires`` says whether its event holds now, ``ending`` in a word why not. ``starts_s`` is when it was first told,
    ``heard_s`` when its newest event was; of a suggestion ``expires_s`` ends it, None never. ``of_node`` is for
    findings of a node, whichever job runs there. ``lasts`` says what ends it beside its event: the end of the job's
    run, the next attempt (of what ended a run), or neither (of a node's, and of what comes from a job's logs).
    """

    id: str
    revision: int
    kind: str
    severity: Severity
    cluster: str
    job: str
    attempt: int = 0
    nodes: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    title: str
    text: str = ""
    lines: tuple[str, ...] = ()
    fires: bool
    ending: str = ""
    of_node: bool = False
    lasts: Lasts = "run"
    starts_s: float
    heard_s: float
    expires_s: float | None = None

    @property
    def source(self) -> str:
        """``finding`` or ``suggestion``."""
        return self.id.partition(":")[0]

    @property
    def group(self) -> tuple[str, str]:
        """The cluster and the job that it belongs to; of no job: the first node's name."""
        return self.cluster, self.job or (self.nodes[0] if self.nodes else "")


def severity_of(word: str) -> Severity:
    """A severity that we know; one of a newer version counts as a warning, so that it is not lost in silence."""
    return word if word in SEVERITIES else "warning"


def at_least(severity: Severity, least: Severity) -> bool:
    """Whether ``severity`` is ``least`` or worse.

    >>> at_least("critical", "warning"), at_least("info", "warning")
    (True, False)
    """
    return SEVERITIES.index(severity) >= SEVERITIES.index(least)


def of_finding(finding: Finding, at_s: float) -> Alert:
    """The alert of ``finding``, which was reported at ``at_s``."""
    fires = FINDING_FIRES.get(finding.state, True)
    return Alert(
        id=f"finding:{_line(finding.id, LONGEST_NAME)}",
        revision=finding.revision,
        kind=_line(finding.kind, LONGEST_NAME),
        severity=severity_of(finding.severity),
        **_where(finding),
        ranks=tuple(finding.ranks[:MOST_NAMES]),
        title=_line(verdict(finding), LONGEST_TITLE),
        text=_line(finding.summary, LONGEST_TEXT),
        lines=_lines([cost(finding), *(f"{measured(item)} ({item.rule})" for item in finding.evidence)]),
        fires=fires,
        ending="" if fires else _line(_REPLACED if finding.replaced_by else finding.state, LONGEST_NAME),
        of_node=is_of_nodes(finding),
        lasts=_lasts(finding),
        starts_s=at_s,
        heard_s=at_s,
    )


def _lasts(finding: Finding) -> Lasts:
    if finding.kind == "died" and finding.first_step >= 0:
        return "attempt"
    return "on" if finding.first_step < 0 and finding.kind not in _WHILE_IT_RUNS else "run"


def of_suggestion(suggestion: Suggestion, at_s: float) -> Alert:
    """The alert of ``suggestion``, which was reported at ``at_s``."""
    fires = SUGGESTION_FIRES.get(suggestion.state, False)
    steps = [f"do: {step}" for step in suggestion.steps] + [f"$ {command}" for command in suggestion.apply]
    return Alert(
        id=f"suggestion:{_line(suggestion.id, LONGEST_NAME)}",
        revision=suggestion.revision,
        kind=_line(suggestion.action, LONGEST_NAME),
        severity=severity_of(suggestion.severity),
        **_where(suggestion),
        ranks=tuple(suggestion.ranks[:MOST_NAMES]),
        title=_line(suggestion.title, LONGEST_TITLE),
        text=_line(suggestion.reason, LONGEST_TEXT),
        lines=_lines([*_gain(suggestion), *steps]),
        fires=fires,
        ending="" if fires else _line(suggestion.state.replace("_", " "), LONGEST_NAME),
        starts_s=suggestion.created_s,
        heard_s=at_s,
        expires_s=suggestion.expires_s,
    )


def _where(event: Finding | Suggestion) -> dict[str, Any]:
    return {
        "cluster": _line(event.cluster, LONGEST_NAME),
        "job": _line(event.job, LONGEST_NAME),
        "attempt": event.attempt,
        "nodes": tuple(_line(name, LONGEST_NAME) for name in event.nodes[:MOST_NAMES]),
        "devices": tuple(_line(name, LONGEST_NAME) for name in event.devices[:MOST_NAMES]),
    }


def _gain(suggestion: Suggestion) -> list[str]:
    gain = suggestion.gain
    if gain.gpu_hours_per_day is None:
        return []
    low, high = gain.gpu_hours_low, gain.gpu_hours_high
    interval = f" ({digits(low)} to {digits(high)})" if low is not None and high is not None else ""
    return [f"expected gain: {digits(gain.gpu_hours_per_day)} device-hours a day{interval}"]


def _lines(lines: list[str]) -> tuple[str, ...]:
    return tuple(_line(line, LONGEST_LINE) for line in lines[:MOST_LINES])


def _line(text: str, longest: int) -> str:
    """``text`` on one line, at most so long."""
    shown = visible(text[: longest + 1])
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"
