"""Whether a command is obeyed: who is meant, who may refuse, what is too late, what comes twice.

Rule of this file: pure; time is an argument. The actions are handed in by who has them; each changes its owner's own
state and nothing else, and is called from whatever thread calls ``judge``. Delivery is at least once: a command is
known by its id and obeyed once. However many commands come, a reader answers so many a second and no more.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import msgspec

from paceline.decoders import convert
from paceline.events import SUGGESTION_TARGET, AuditEntry, Command, Outcome

#: No command waits longer than this for a reader; and how far two clocks may be apart.
LONGEST_S, CLOCKS_APART_S = 3600.0, 300.0
#: Commands that a reader answers: so many a second in the long run, so many at once.
ANSWERS_PER_S, MOST_AT_ONCE = 10.0, 50.0
#: The newest ids that are remembered.
MOST_IDS = 10_000
_LONGEST_REASON = 500

#: The kinds of targets, and who is addressed by each.
TARGETS = {
    "job": "the sidecars of a job, on every node that it runs on",
    "node": "the collector of a node",
    "suggestion": "the worker that advises the cluster which a suggestion is about",
    "streams": "every worker of the stream processors",
}
STREAMS, SUGGESTION = "streams", "suggestion"


def job_target(job: str) -> str:
    """The target that addresses the sidecars of ``job``."""
    return f"job:{job}"


def node_target(node: str) -> str:
    """The target that addresses the collector of ``node``."""
    return f"node:{node}"


def suggestion_target(id_: str) -> str:
    """The target that addresses whoever holds the suggestion with that id."""
    return f"{SUGGESTION_TARGET}{id_}"


class Reader(NamedTuple):
    """Who reads commands: a service, on a node of a cluster."""

    service: str
    node: str
    cluster: str


class RefusedError(Exception):
    """What is asked for cannot be done as things stand; the text says why."""


class Action(NamedTuple):
    """Something that can be asked for: what its arguments must be, and who does it and says in words what was done.

    ``obey`` is given the command's target and the arguments; it may raise ``RefusedError``.
    """

    arguments: type[msgspec.Struct]
    obey: Callable[[str, Any], str]


class Answered(msgspec.Struct, array_like=True):
    """What rules remember: the newest ids, oldest first, and the room for answers as of ``counted_s``."""

    ids: list[str]
    answers: float
    counted_s: float
    unanswered: int


class CommandRules:
    """What ``reader`` makes of commands; it ``obeys`` them, or refuses them all.

    What had expired at ``since_s``, when it began to listen, was somebody else's to answer.

    >>> class Seconds(msgspec.Struct, forbid_unknown_fields=True):
    ...     seconds: float
    >>> actions = {"rest": Action(Seconds, lambda target, arguments: f"{target} rests {arguments.seconds:g} s")}
    >>> rules = CommandRules(Reader("sidecar", "n1", "c"), actions, obeys=True, since_s=0.0)
    >>> asked = Command(
    ...     id="1", cluster="c", target="job:a", action="rest", arguments={"seconds": 5}, expires_s=60.0, issuer="ada"
    ... )
    >>> entry = rules.judge(asked, 10.0, {"job:a"})
    >>> entry.outcome, entry.reason
    ('accepted', 'job:a rests 5 s')
    >>> rules.judge(asked, 11.0, {"job:a"})
    """

    def __init__(self, reader: Reader, actions: Mapping[str, Action], *, obeys: bool, since_s: float) -> None:
        self.reader = reader
        self._actions = actions
        self._obeys = obeys
        self._since_s = since_s
        self._ids: OrderedDict[str, None] = OrderedDict()
        self._answers = MOST_AT_ONCE
        self._counted_s = since_s
        self._unanswered = 0

    @property
    def answered(self) -> Answered:
        """What is remembered of the commands so far."""
        return Answered(list(self._ids), self._answers, self._counted_s, self._unanswered)

    def remember(self, answered: Answered) -> None:
        """Go on from what rules before these remembered."""
        self._ids = OrderedDict.fromkeys(answered.ids[-MOST_IDS:])
        self._answers, self._counted_s = answered.answers, answered.counted_s
        self._unanswered = answered.unanswered

    def judge(self, command: Command, now_s: float, targets: Collection[str]) -> AuditEntry | None:
        """Obey ``command`` or not, at ``now_s`` (Unix time); None where that is nobody's business.

        That is: it is not for one of ``targets``, had expired before this reader listened, has been answered, or there
        are more of them than a reader answers. The next entry counts the last.
        """
        if command.cluster != self.reader.cluster or command.target not in targets:
            return None
        if command.expires_s <= self._since_s or command.id in self._ids:
            return None
        if not self._may_answer(now_s):
            self._unanswered += 1
            return None
        self._ids[command.id] = None
        if len(self._ids) > MOST_IDS:
            self._ids.popitem(last=False)
        outcome, reason = self._outcome(command, now_s)
        unanswered, self._unanswered = self._unanswered, 0
        return AuditEntry(
            command_id=command.id,
            cluster=command.cluster,
            target=command.target,
            action=command.action,
            issuer=command.issuer,
            time_s=now_s,
            service=self.reader.service,
            node=self.reader.node,
            outcome=outcome,
            reason=reason[:_LONGEST_REASON],
            unanswered=unanswered,
        )

    def _may_answer(self, now_s: float) -> bool:
        """Whether one more answer fits in; a clock that goes back brings none."""
        passed_s = max(0.0, now_s - self._counted_s)
        self._counted_s = now_s
        self._answers = min(MOST_AT_ONCE, self._answers + passed_s * ANSWERS_PER_S)
        if self._answers < 1.0:
            return False
        self._answers -= 1.0
        return True

    def _outcome(self, command: Command, now_s: float) -> tuple[Outcome, str]:
        if not self._obeys:
            return "refused", "no commands are obeyed here (--no-commands)"
        left_s = command.expires_s - now_s
        if left_s <= 0:
            return "expired", f"it expired {-left_s:.1f} s ago"
        if left_s > LONGEST_S + CLOCKS_APART_S:
            return "refused", f"it expires in {left_s:.0f} s; no command may wait longer than {LONGEST_S:.0f} s"
        action = self._actions.get(command.action)
        if action is None:
            return "unknown_action", f"known here: {', '.join(sorted(self._actions)) or 'none'}"
        try:
            arguments = convert(command.arguments, action.arguments)
        except msgspec.ValidationError as error:
            return "refused", f"arguments: {error}"
        try:
            return "accepted", action.obey(command.target, arguments)
        except RefusedError as error:
            return "refused", str(error)
        except Exception as error:  # Whatever goes wrong with it, the reader goes on, and who asked hears of it.
            return "failed", f"{type(error).__name__}: {error}"
