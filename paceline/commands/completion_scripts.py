"""What may be typed after ``paceline``, and the scripts by which a shell completes it.

Rule of this file: pure. A script runs in its reader's shell: only words of letters, digits and ``. _ , : / + -`` get
into one, and help texts are quoted.
"""

import argparse
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from paceline.visible import visible

_SAFE = re.compile(r"[\w-][\w.,:/+-]*", re.ASCII)
#: Choices that are offered of one option; characters of a help text.
MOST_CHOICES, LONGEST_HELP = 100, 80


class Option(NamedTuple):
    """An option: its names, what it does, whether a value follows, and which there are; none: any, or a file."""

    names: tuple[str, ...]
    help: str
    takes_value: bool
    choices: tuple[str, ...]


class Place(NamedTuple):
    """A command or sub-command by its ``words``: its options, and the names that may follow it, with their help."""

    words: tuple[str, ...]
    options: tuple[Option, ...]
    names: Mapping[str, str]

    @property
    def text(self) -> str:
        """Its words as they are typed."""
        return " ".join(self.words)


def places(words: tuple[str, ...], parser: argparse.ArgumentParser) -> Iterator[Place]:
    """The place of ``parser``, which reads what follows ``words``, and those of its sub-commands.

    >>> from paceline.options import Parser
    >>> parser = Parser()
    >>> _ = parser.add_argument("--format", choices=["json", "text"], help="how")
    >>> _ = parser.add_subparsers().add_parser("start", help="begin")
    >>> [(place.text, dict(place.names)) for place in places(("paceline", "x"), parser)]
    [('paceline x', {'start': 'begin'}), ('paceline x start', {})]
    """
    options: list[Option] = []
    names: dict[str, str] = {}
    below: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {one.dest: one.help or "" for one in action._choices_actions}
            below = {name: made for name, made in action.choices.items() if _SAFE.fullmatch(name)}
            names |= {name: _short(helps.get(name, "")) for name in below}
        elif action.option_strings and action.help != argparse.SUPPRESS:
            options.append(Option(_safe(action.option_strings), _help(parser, action), action.nargs != 0, _of(action)))
        elif not action.option_strings:
            names |= dict.fromkeys(_of(action), "")
    yield Place(words, tuple(options), names)
    for name, made in below.items():
        yield from places((*words, name), made)


def _of(action: argparse.Action) -> tuple[str, ...]:
    """The choices of ``action``, where it has some that can be listed."""
    held = [str(choice) for choice in islice(action.choices or (), MOST_CHOICES + 1)]
    return _safe(held) if len(held) <= MOST_CHOICES else ()


def _safe(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(word for word in words if _SAFE.fullmatch(word))


def _help(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    return _short(parser._get_formatter()._expand_help(action) if action.help else "")


def _short(text: str) -> str:
    return visible(" ".join(text.split()))[:LONGEST_HELP]


def bash(held: Iterable[Place]) -> str:
    """The script for bash."""
    return f"# Completion of paceline for bash.\n{_tables(list(held))}{_BASH}"


def zsh(held: Iterable[Place]) -> str:
    """The script for zsh: to be sourced, or a file ``_paceline`` in ``fpath``."""
    return f"#compdef paceline\n{_tables(list(held))}{_ZSH}"


def fish(held: Iterable[Place]) -> str:
    """The script for fish."""
    every = list(held)
    deeper = " ".join(f"'{place.text}'" for place in every[1:])
    lines = [_FISH.replace("PLACES", deeper)]
    for place in every:
        there = f"complete -c paceline -n \"test (__paceline_place) = '{place.text}'\""
        lines += [f"{there} -f -a {name}{_described(text)}" for name, text in place.names.items()]
        lines += [f"{there}{_fish_option(option)}" for option in place.options]
    return "\n".join(lines) + "\n"


def _fish_option(option: Option) -> str:
    names = [f" -l {name[2:]}" if name.startswith("--") else f" -s {name[1:]}" for name in option.names]
    value = f" -x -a '{' '.join(option.choices)}'" if option.choices else " -r -F" if option.takes_value else ""
    return "".join(names) + value + _described(option.help)


def _described(text: str) -> str:
    quoted = text.replace("\\", "\\\\").replace("'", "\\'")
    return f" -d '{quoted}'" if text else ""


def _tables(held: list[Place]) -> str:
    """What follows each place, and each option that takes a value, as functions that bash and zsh read alike."""
    here, valued = [], []
    for place in held:
        flags = " ".join(name for option in place.options for name in option.names)
        here.append(f"        '{place.text}') names='{' '.join(place.names)}' flags='{flags}' ;;")
        for option in place.options:
            if option.takes_value:
                typed = "|".join(f"'{place.text} {name}'" for name in option.names)
                valued.append(f"        {typed}) values='{' '.join(option.choices)}' ;;")
    return _SHARED.replace("PLACES", "\n".join(here)).replace("VALUES", "\n".join(valued))


_SHARED = """
_paceline_place() {
    case "$1" in
PLACES
        *) return 1 ;;
    esac
}

_paceline_values() {
    case "$1" in
VALUES
        *) return 1 ;;
    esac
}

# Sets `found` to what may follow the words given, of which $current is the first part; 1: a file name, a command.
_paceline_words() {
    local place=paceline taker='' word names='' flags='' values=''
    for word in "$@"; do
        case "$word" in
            '=') continue ;;
            '--') return 1 ;;
            -*) taker='' ;;
        esac
        if [ -n "$taker" ]; then
            taker=''
        elif _paceline_values "$place $word"; then
            taker="$place $word"
        elif _paceline_place "$place $word"; then
            place="$place $word"
        fi
    done
    case "$current" in
        -*) taker='' ;;
    esac
    if [ -n "$taker" ]; then
        _paceline_values "$taker"
        found="$values"
        return
    fi
    _paceline_place "$place"
    case "$current" in
        -*) found="$flags" ;;
        *) found="$names" ;;
    esac
}
"""
_BASH = r"""
_paceline() {
    local IFS=$' \t\n' current="${COMP_WORDS[COMP_CWORD]}" found=''
    COMPREPLY=()
    if [ "$current" = '=' ]; then current=''; fi
    if _paceline_words "${COMP_WORDS[@]:1:COMP_CWORD-1}"; then
        COMPREPLY=($(compgen -W "$found" -- "$current"))
    fi
}
complete -o bashdefault -o default -F _paceline paceline
"""
_ZSH = """
_paceline() {
    local current="$PREFIX" found=''
    if _paceline_words "${(@)words[2,CURRENT-1]}" && [ -n "$found" ]; then
        compadd -- ${=found}
    else
        _files
    fi
}
if [ "${funcstack[1]}" = _paceline ]; then
    _paceline "$@"
else
    compdef _paceline paceline
fi
"""
_FISH = """# Completion of paceline for fish.
function __paceline_place
    set -l place paceline
    for word in (commandline -opc)[2..-1]
        if test "$word" = --
            set place
            break
        end
        if contains -- "$place $word" PLACES
            set place "$place $word"
        end
    end
    echo "$place"
end
"""
#: Each shell's script.
SHELLS: Mapping[str, Callable[[Iterable[Place]], str]] = {"bash": bash, "zsh": zsh, "fish": fish}
