"""The advice for one cluster, and what its people say to it: accepted, dismissed, or refused with the reason.

Rule of this file: pure. What is advised, and what a suggestion may become, is for ``advice/`` to say; whether a command
is obeyed at all, for ``command_rules``. The time of a command is when the worker that read it from its topic heard it,
so that a replay answers in the same words.
"""

from typing import NamedTuple

from paceline.command_rules import Action, Answered, CommandRules, Reader, RefusedError, suggestion_target
from paceline.events import ACCEPT, DISMISS, SUGGESTION_TARGET, Because, Command, Event, Suggestion

from .advice.advice import Advice
from .advice.config import AdviceConfig
from .advice.lifecycle import TRANSITIONS
from .cluster_events import Heard
from .stored import Kept, StoredDecision

SERVICE = "streams"
#: Suggestions whose state is remembered, to say why one cannot be accepted; those told of last.
MOST_STATES = 10_000


class AdviceSettings(NamedTuple):
    """Who advises: on which node, whether commands are obeyed, and by which thresholds."""

    node: str = "unnamed"
    obeys: bool = True
    config: AdviceConfig = AdviceConfig()


DEFAULTS = AdviceSettings()


class ClusterAdvice(StoredDecision):
    """Tells a cluster's advice what was heard, and answers who accepts or dismisses what it suggests."""

    layout = 2
    advice: Kept[Advice]
    states: Kept[dict[str, str]]
    answered: Kept[Answered | None]

    def __init__(self) -> None:
        self.advice = Advice()
        self.settings = DEFAULTS
        self.states = {}
        self.answered = None

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
            self.states.pop(suggestion.id, None)
            self.states[suggestion.id] = suggestion.state
            if len(self.states) > MOST_STATES:
                del self.states[next(iter(self.states))]
        return said

    def _judge(self, command: Command, heard_s: float) -> list[Event]:
        def obey(target: str, arguments: Because) -> str:
            return self._obey(command, said)

        said: list[Event] = []
        actions = {name: Action(Because, obey) for name in (ACCEPT, DISMISS)}
        reader = Reader(SERVICE, self.settings.node, command.cluster)
        rules = CommandRules(reader, actions, obeys=self.settings.obeys, since_s=0.0)
        if self.answered is not None:
            rules.remember(self.answered)
        entry = rules.judge(command, heard_s, {command.target})
        self.answered = rules.answered
        return said if entry is None else [*said, entry]

    def _obey(self, command: Command, said: list[Event]) -> str:
        suggestions = self._note(self.advice.update(command))
        said += suggestions
        for suggestion in suggestions:
            if suggestion_target(suggestion.id) == command.target:
                return f"{suggestion.id} is {suggestion.state}"
        state = self.states.get(command.target.removeprefix(SUGGESTION_TARGET))
        if state is None:
            raise RefusedError(f"no such suggestion in cluster {command.cluster}: never made, or long over")
        before = " or ".join(was for was, signal in TRANSITIONS if signal == command.action and was)
        raise RefusedError(f"it is {state.replace('_', ' ')}; {command.action} is for what is {before}")
