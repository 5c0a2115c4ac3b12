"""The advice for one cluster, and what its people say to it: accepted, dismissed, or refused with the reason.

Rule of this file: pure. What is advised, and what a suggestion may become, is for ``advice/`` to say; whether a command
is obeyed at all, for ``command_rules``. The time of a command is when the worker that read it from its topic heard it,
so that a replay answers in the same words.
"""

from typing import Any, NamedTuple, Self

import msgspec

from paceline.command_rules import Action, Answered, CommandRules, Reader, RefusedError, suggestion_target
from paceline.events import ACCEPT, DISMISS, SUGGESTION_TARGET, Because, Command, Event, Suggestion

from .advice.advice import Advice
from .advice.config import AdviceConfig
from .advice.lifecycle import TRANSITIONS
from .cluster_events import Heard
from .snapshots import described, pack, unpack

LAYOUT = 1
SERVICE = "streams"
#: Suggestions whose state is remembered, to say why one cannot be accepted; those told of last.
MOST_STATES = 10_000


class AdviceSettings(NamedTuple):
    """Who advises: on which node, whether commands are obeyed, and by which thresholds."""

    node: str = "unnamed"
    obeys: bool = True
    config: AdviceConfig = AdviceConfig()


DEFAULTS = AdviceSettings()


class ClusterAdvice:
    """Tells a cluster's advice what was heard, and answers who accepts or dismisses what it suggests."""

    def __init__(self) -> None:
        self.advice: Advice = Advice()
        self.settings = DEFAULTS
        self._states: dict[str, str] = {}
        self._answered: Answered | None = None

    def advise_by(self, settings: AdviceSettings) -> None:
        """Advise, and answer commands, by ``settings`` from now on."""
        if settings.config != self.settings.config:
            self.advice = Advice.restore(self.advice.snapshot(), settings.config)
        self.settings = settings

    def update(self, event: Heard) -> list[Event]:
        """Take in what was heard; the suggestions that are new or another revision, and the answer to a command."""
        if isinstance(event.event, Command):
            return self._judge(event.event, event.heard_s)
        return [*self._note(self.advice.update(event.event))]

    def conclude(self) -> list[Event]:
        """What is suggested at the end of all events."""
        return [*self._note(self.advice.conclude())]

    def expire(self) -> list[Event]:
        """Nothing: a cluster is never forgotten for being idle."""
        return []

    def _note(self, said: list[Suggestion]) -> list[Suggestion]:
        for suggestion in said:
            self._states.pop(suggestion.id, None)
            self._states[suggestion.id] = suggestion.state
            if len(self._states) > MOST_STATES:
                del self._states[next(iter(self._states))]
        return said

    def _judge(self, command: Command, heard_s: float) -> list[Event]:
        def obey(target: str, arguments: Because) -> str:
            return self._obey(command, said)

        said: list[Event] = []
        actions = {name: Action(Because, obey) for name in (ACCEPT, DISMISS)}
        reader = Reader(SERVICE, self.settings.node, command.cluster)
        rules = CommandRules(reader, actions, obeys=self.settings.obeys, since_s=0.0)
        if self._answered is not None:
            rules.remember(self._answered)
        entry = rules.judge(command, heard_s, {command.target})
        self._answered = rules.answered
        return said if entry is None else [*said, entry]

    def _obey(self, command: Command, said: list[Event]) -> str:
        suggestions = self._note(self.advice.update(command))
        said += suggestions
        for suggestion in suggestions:
            if suggestion_target(suggestion.id) == command.target:
                return f"{suggestion.id} is {suggestion.state}"
        state = self._states.get(command.target.removeprefix(SUGGESTION_TARGET))
        if state is None:
            raise RefusedError(f"no such suggestion in cluster {command.cluster}: never made, or long over")
        before = " or ".join(was for was, signal in TRANSITIONS if signal == command.action and was)
        raise RefusedError(f"it is {state.replace('_', ' ')}; {command.action} is for what is {before}")

    def snapshot(self) -> bytes:
        """Advice, what became of suggestions, and which commands were answered."""
        answered = None if self._answered is None else msgspec.to_builtins(self._answered)
        return pack(LAYOUT, {"advice": self.advice.snapshot(), "states": self._states, "answered": answered})

    @classmethod
    def restore(cls, data: bytes) -> Self:
        """The decision that ``snapshot`` described.

        Raises:
            ValueError: ``data`` is no snapshot of this version.
        """
        made, state = cls(), unpack(LAYOUT, data)
        with described():
            made.advice = Advice.restore(state["advice"])
            made._states = {str(id_): str(was) for id_, was in state["states"].items()}
            made._answered = _answered(state["answered"])
        return made


def _answered(value: Any) -> Answered | None:
    try:
        return msgspec.convert(value, Answered | None)
    except msgspec.ValidationError as error:
        raise ValueError(f"not a snapshot: {error}") from error
