"""How every command reads its options: argparse, whose refusals name no login and suggest the option that was meant.

Rule of this file: every command's parser is made of this class, so that what is refused is worded here alone.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import NoReturn

from paceline.visible import visible, without_login, without_logins

#: Of a refusal, at most as many characters are shown.
_SHOWN = 600


class Parser(argparse.ArgumentParser):
    """An ``ArgumentParser`` whose refusals are safe to show."""

    _words: Sequence[str] = ()

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """As argparse does it; the words are kept, for a refusal quotes them."""
        self._words = list(sys.argv[1:] if args is None else args)
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Refuse the command line in one line, without logins."""
        _, unrecognized, words = message.partition("unrecognized arguments: ")
        for word in self._words:
            value = word.partition("=")[2] if word.startswith("-") and "=" in word else word
            if "@" in value:
                message = message.replace(value, without_login(value))
                message = message.replace(repr(value)[1:-1], without_login(value))
        shown = visible(without_logins(message))[:_SHOWN]
        super().error(shown + (self._meant(words) if unrecognized else ""))

    def _meant(self, words: str) -> str:
        """The options that ``words`` come near, as a question; empty where they come near none."""
        known = sorted(set(_options(self)))
        elsewhere = [name for name in known if name in (word.partition("=")[0] for word in words.split(" "))]
        if elsewhere:  # An action does not take what another one does.
            return f"; {', '.join(elsewhere)}: an option, but not of this action"
        misspelt = [word.partition("=")[0] for word in words.split(" ") if word.startswith("--")]
        meant = [near for word in misspelt for near in get_close_matches(word[:100], known, n=1, cutoff=0.7)]
        return f"; did you mean {', '.join(dict.fromkeys(meant))}?" if meant else ""


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    """The long options that ``parser`` and its sub-commands show."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for choice in action.choices.values():
                yield from _options(choice)
        elif action.help != argparse.SUPPRESS:
            yield from (name for name in action.option_strings if name.startswith("--"))
