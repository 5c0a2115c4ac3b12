"""Tab completes what the parsers know: commands, sub-commands, options and choices; whatever is not known is a file."""

import argparse
import re
import subprocess

import pytest

from paceline import __main__ as command_line
from paceline.commands import completion
from paceline.commands.completion_scripts import MOST_CHOICES, SHELLS, Option, bash, fish, places, zsh

HOSTILE = "x'; touch /tmp/owned #"
#: Asks bash, each line of standard input a command line without its last word's rest, for what Tab offers.
ASK = r"""
eval "$1"
complete -p paceline
while IFS=$'\t' read -r -a COMP_WORDS; do
    if [ "${COMP_WORDS[-1]}" = EMPTY ]; then COMP_WORDS[-1]=''; fi
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _paceline
    echo "${COMPREPLY[*]}"
done
"""


def of_bash(script: str, *lines: list[str]) -> list[str]:
    """What bash offers after each of ``lines``; the last word is what has been typed of it."""
    typed = "".join("\t".join([*line[:-1], line[-1] or "EMPTY"]) + "\n" for line in lines)
    command = ["bash", "--norc", "--noprofile", "-u", "-c", ASK, "bash", script]
    done = subprocess.run(command, input=typed, capture_output=True, text=True, check=True)
    bound, *offered = done.stdout.splitlines()
    assert (done.stderr, bound) == ("", "complete -o bashdefault -o default -F _paceline paceline")
    return offered


def made() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="paceline x")
    parser.add_argument("what", choices=["one", "two"])
    parser.add_argument("-f", "--format", choices=["json", HOSTILE], default="json", help="how (%(default)s), 100%%")
    parser.add_argument("--at", type=int, help=HOSTILE)
    parser.add_argument("--port", type=int, choices=range(MOST_CHOICES + 1))
    parser.add_argument("--hidden", help=argparse.SUPPRESS)
    parser.add_argument("--quiet", action="store_true")
    below = parser.add_subparsers()
    below.add_parser("start", help="begin").add_argument("--all", action="store_true")
    below.add_parser(HOSTILE)
    return parser


def test_a_place_has_its_options_choices_and_sub_commands() -> None:
    """What is hidden is left out, and choices that are too many, and words that a shell would run."""
    first, start = places(("paceline", "x"), made())
    assert dict(first.names) == {"one": "", "two": "", "start": "begin"}
    assert first.options[1:] == (
        Option(("-f", "--format"), "how (json), 100%", True, ("json",)),
        Option(("--at",), HOSTILE, True, ()),
        Option(("--port",), "", True, ()),
        Option(("--quiet",), "", False, ()),
    )
    assert (start.text, [one.names for one in start.options[1:]]) == ("paceline x start", [("--all",)])


def test_no_text_of_a_parser_runs_in_a_shell() -> None:
    """In bash and zsh it is not there; in fish it is quoted."""
    held = list(places(("paceline", "x"), made()))
    assert "owned" not in bash(held) + zsh(held)
    assert [line for line in fish(held).splitlines() if "owned" in line] == [
        "complete -c paceline -n \"test (__paceline_place) = 'paceline x'\" -l at -r -F -d 'x\\'; touch /tmp/owned #'"
    ]


def test_what_is_not_installed_is_named_and_completes_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing extra, or a broken one, takes nothing from the others."""
    broken = {"streams": KeyError("not installed"), "ui": ModuleNotFoundError("no streamlit"), "top": OSError("disk")}

    def find(name: str) -> command_line.Main:
        if name in broken:
            raise broken[name]
        return lambda argv: made().parse_args(argv).at or 0

    monkeypatch.setattr(command_line, "find", find)
    missing: list[str] = []
    texts = [place.text for place in completion.every(missing)]
    assert sorted(missing) == sorted(broken)
    assert {"paceline", "paceline run", "paceline analyze start"} <= set(texts)
    assert "paceline ui" not in texts


def test_help_is_printed_again_afterwards(capsys: pytest.CaptureFixture[str]) -> None:
    with completion._asked_for_help() as asked, pytest.raises(SystemExit):
        made().parse_args(["--help"])
    assert (len(asked), capsys.readouterr().out) == (1, "")
    made().print_help()
    assert "usage: paceline x" in capsys.readouterr().out


@pytest.mark.slow
def test_bash_completes_every_command_for_real(capsys: pytest.CaptureFixture[str]) -> None:
    """By the real parsers, through bash's own ``complete``."""
    assert command_line.main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    wanted = {
        ("an",): "analyze annotate",
        ("completion", ""): " ".join(SHELLS),
        ("session", "st"): "start stop status stat",
        ("session", "--control", "start", "reco"): "recover",
        ("session", "export", "--format", "=", "pa"): "parquet",
        ("session", "export", "--format", "pa"): "parquet",
        ("session", "export", "--format", "="): "jsonl frames parquet csv",
        ("session", "export", "NAME", "--for"): "--format",
        ("simulate", "fleet", "--see"): "--seed",
        ("analyze", "x.jsonl", "--js"): "--json",
        ("run", "--", "--he"): "",
        ("nonsense", "--vers"): "--version",
        ("top", "--job", ""): "",
        ("analyze", "--panel", "--js"): "--json",
        ("session", "--control", "--js", "reco"): "recover",
    }
    assert of_bash(script, *(["paceline", *line] for line in wanted)) == list(wanted.values())


@pytest.mark.slow
def test_every_command_is_read_from_the_parser_of_its_name() -> None:
    """No command is left out, each has its help, and sub-commands that are handed on are those of their command."""
    missing: list[str] = []
    held = list(completion.every(missing))
    assert missing == []
    texts = [place.text for place in held]
    assert sorted(set(texts)) == sorted(texts)
    assert {f"paceline {name}" for name in command_line.COMMANDS | command_line.SERVICE_COMMANDS} <= set(texts)
    assert all("--help" in [name for one in place.options for name in one.names] for place in held)
    for name, below in completion.HANDED_ON.items():
        for word in below:
            found = completion._parser((name, word))
            assert found is not None
            assert found.prog == f"paceline {name} {word}"
    for shell in SHELLS.values():
        assert re.search(r"paceline simulate fleet", shell(held))
