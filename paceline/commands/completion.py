"""``paceline completion``: a script that completes commands, options and their values in a shell.

Rule of this file: what is completed is read from the parsers that read the command line, of those commands that are
installed here; nothing is listed a second time.
"""

import argparse
import contextlib
from collections.abc import Iterator

from paceline import __main__ as command_line
from paceline.options import Parser
from paceline.terminal import say

from .completion_scripts import SHELLS, Option, Place, places

EPILOG = """examples:
  paceline completion bash > ~/.local/share/bash-completion/completions/paceline
  paceline completion zsh > ~/.zsh/_paceline       with `fpath=(~/.zsh $fpath)` before compinit in .zshrc
  paceline completion fish > ~/.config/fish/completions/paceline.fish

Run it again after an update, or when another extra is installed.
"""
#: Sub-commands whose command hands the rest of its line on, so that its own parser does not know them.
HANDED_ON = {"simulate": {"fleet": "a fleet of jobs"}, "forecaster": {"train": "train the network"}}
_HELP = Option(("-h", "--help"), "show the help", False, ())
_VERSION = Option(("-V", "--version"), "show the version", False, ())


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = Parser(
        prog="paceline completion",
        description="Print a script for Tab completion in a shell.\nNeeds nothing else.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("shell", choices=SHELLS, help="the shell that completes")
    return made


def main(argv: list[str]) -> int:
    """Print the script and return the exit status."""
    shell = parser().parse_args(argv).shell
    missing: list[str] = []
    print(SHELLS[shell](every(missing)), end="")
    if missing:
        say(f"not installed here, so completed without options: {', '.join(missing)}", "paceline completion")
    return 0


def every(missing: list[str]) -> Iterator[Place]:
    """All that may be typed; ``missing`` gets the commands of which something is not installed."""
    commands = command_line.COMMANDS | command_line.SERVICE_COMMANDS
    names = {name: one.help for name, one in commands.items()}
    yield Place(("paceline",), (_HELP, _VERSION), names)
    for name in names:
        found = _parser((name,))
        if found is None:
            missing.append(name)
            continue
        handed_on = HANDED_ON.get(name, {})
        first, *below = places(("paceline", name), found)
        yield first._replace(names={**first.names, **handed_on})
        yield from below
        for word in handed_on:
            if (under := _parser((name, word))) is not None:
                yield from places(("paceline", name, word), under)


def _parser(words: tuple[str, ...]) -> argparse.ArgumentParser | None:
    """The parser that ``paceline WORDS --help`` would print; None where the command cannot be loaded."""
    with _asked_for_help() as asked, contextlib.suppress(SystemExit, ImportError, KeyError, OSError):
        command_line.find(words[0])([*words[1:], "--help"])
    return asked[0] if asked else None


@contextlib.contextmanager
def _asked_for_help() -> Iterator[list[argparse.ArgumentParser]]:
    """The parsers whose help is asked for within; it is not printed."""
    asked: list[argparse.ArgumentParser] = []
    printing = argparse.ArgumentParser.print_help

    def note(self: argparse.ArgumentParser, file: object = None) -> None:
        asked.append(self)

    argparse.ArgumentParser.print_help = note  # type: ignore[method-assign]
    try:
        yield asked
    finally:
        argparse.ArgumentParser.print_help = printing  # type: ignore[method-assign]
