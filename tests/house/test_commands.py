"""`paceline --help` lists every command, and what pages show of a command is what the command offers."""

import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from paceline import __main__ as command
from tests.e2e import test_secrets as secrets

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
OFFERED = PROJECT["project"]["entry-points"][command.GROUP]
EVERY = sorted({*command.COMMANDS, *OFFERED})
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def shown() -> Iterator[tuple[str, str, str]]:
    """Each call of ``paceline`` that a page shows in code: page, command, the rest of the line."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        code = [*re.findall(r"^```\w*\n(.*?)^```", text, re.M | re.S), *re.findall(r"`(paceline [^`\n]+)`", text)]
        for line in "\n".join(code).replace("\\\n", " ").splitlines():
            for name, rest in re.findall(r"^(?:[A-Z_]+=\S+ )*paceline ([a-z]+)\b(?!:)(.*)", line.strip()):
                yield str(page.relative_to(ROOT)), name, rest.partition(" -- ")[0]


def options(text: str) -> set[str]:
    """The long options in a line of a shell."""
    words = shlex.split(text, comments=True) if text.count("'") % 2 == 0 else text.split()
    return {word.partition("=")[0] for word in words if re.match(r"--[a-z]", word)}


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """One line each, with a few words, and none that is not there."""
    assert command.main(["--help"]) == 0
    listed = dict(re.findall(r"^  ([a-z]+) +(\S.*)$", capsys.readouterr().out.partition("examples:")[0], re.M))
    assert sorted(listed) == EVERY
    assert set(command.SERVICE_COMMANDS) == set(OFFERED)


def test_every_service_command_names_an_extra_that_exists() -> None:
    """Who lacks a service is told how to install it."""
    extras = PROJECT["project"]["optional-dependencies"]
    assert {each.target for each in command.SERVICE_COMMANDS.values()} <= set(extras)


@pytest.mark.long
@pytest.mark.parametrize("name", EVERY)
def test_a_command_has_the_options_that_pages_show(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Every command explains itself, and a page shows no option that it does not have."""
    with pytest.raises(SystemExit) as ended:
        command.main([name, "--help"])
    said = capsys.readouterr().out
    assert ended.value.code == 0
    assert f"paceline {name}" in said
    wanted = {option: page for page, called, rest in shown() if called == name for option in options(rest)}
    assert {option: page for option, page in wanted.items() if not re.search(rf"{option}\b", said)} == {}


def test_pages_show_only_commands_that_exist() -> None:
    """No page tells of a command of another name."""
    assert {(page, name) for page, name, _ in shown() if name not in EVERY} == set()
    assert {name for _, name, _ in shown()} >= {"run", "analyze", "import", "thresholds"}


def test_every_command_that_may_have_a_secret_is_searched_for_it() -> None:
    """A new one is tried by tests/e2e/test_secrets.py, or named there as one that reads none."""
    tried = {words[0] for words in (*secrets.ENDING.values(), *(words for words, _ in secrets.SERVING.values()))}
    assert tried | secrets.WITHOUT_SECRETS == set(EVERY)
    assert not tried & secrets.WITHOUT_SECRETS
