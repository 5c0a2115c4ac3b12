"""What one source asks for: a finding, the hour of a job, a forecast.

Rule of this file: data. Several proposals of one action on one target are one suggestion.
"""

from typing import NamedTuple

import msgspec

from paceline.events import Evidence, Severity
from paceline.events.suggestions import Action, Gain, Risk


class Case(NamedTuple):
    """What a suggestion is about: there is never more than one of them that lasts."""

    action: str
    target: str


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """One source's case for an action. ``source`` is unique; ``began`` is the same in every replay.

    ``finding`` is the id of the finding that it rests on, "" for none. ``lost_ratio`` is the share of a job's time that
    is lost now; ``wrong`` says what to look for to see that it was done.
    """

    action: Action
    target: str
    source: str
    #: The source that took the place of this one: while that lasts, so does what this one asks for.
    replaced_by: str = ""
    began: str
    finding: str = ""
    severity: Severity = "warning"
    job: str = ""
    attempt: int = 0
    #: It concerns that attempt of the job alone, not a node or GPU that the next one may have, too.
    of_attempt: bool = False
    #: That attempt has ended: what is advised of it is for the job's next run.
    ended: bool = False
    nodes: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    title: str
    reason: str
    evidence: tuple[Evidence, ...] = ()
    gain: Gain = Gain()
    #: What several sources should bring adds up: each speaks of other GPUs.
    adds: bool = False
    lost_ratio: float = 0.0
    risk: Risk = "low"
    risk_reason: str = ""
    steps: tuple[str, ...] = ()
    apply: tuple[str, ...] = ()
    #: Once it has ended, in place of its steps and of lines to apply; (): the same.
    afterwards: tuple[str, ...] = ()
    manifest: str = ""
    #: Seconds after which nobody can follow it any more; None: as the config says.
    lasts_s: float | None = None

    @property
    def case(self) -> Case:
        """What it is about."""
        return Case(self.action, self.target)
