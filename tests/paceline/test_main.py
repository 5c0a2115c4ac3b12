"""The table of commands: what a person is told where an extra is missing."""

import subprocess
import sys

import pytest

from paceline.__main__ import SERVICE_COMMANDS, main
from paceline.install import install

#: Hides the package named first, as if it were not installed, and runs ``paceline`` with the rest.
HIDE = """
import sys


class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == sys.argv[1]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=sys.argv[1])


sys.meta_path.insert(0, Hidden())
from paceline.__main__ import main

sys.exit(main(sys.argv[2:]))
"""


def without(package: str, *command: str) -> "subprocess.CompletedProcess[str]":
    line = [sys.executable, "-c", HIDE, package, *command]
    return subprocess.run(line, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize(("command", "extra"), [("import", "importers"), ("simulate", "simulator")])
def test_a_missing_package_is_named_with_the_extra_that_brings_it(command: str, extra: str) -> None:
    """One line says what is missing and what to install; no traceback. Help says what the command is for, too."""
    done = without("numpy", command, "x")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"paceline: {command} needs numpy; {install(extra)}\n"
    done = without("numpy", command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"paceline {command}: {SERVICE_COMMANDS[command].help}\n\n")
    assert done.stdout.endswith(f"extra [{extra}] is installed:\n{command} needs numpy; {install(extra)}\n")


def test_help_of_a_command_that_is_not_installed_names_its_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As where a service is no part of the installation."""
    monkeypatch.setattr("paceline.__main__.entry_points", lambda **_: ())
    assert main(["why", "--help"]) == 0
    assert "find why a job hung or died, from its logs, dumps and stacks" in capsys.readouterr().out
    assert main(["why", "logs/"]) == 2
    assert capsys.readouterr() == ("", f"paceline: why: not installed here; {install('postmortem')}\n")


@pytest.mark.slow
@pytest.mark.parametrize("command", ["run", "record", "topics"])
def test_own_commands_need_no_extra(command: str) -> None:
    """What ``paceline`` itself offers works with no numpy at all."""
    done = without("numpy", command, "--help")
    assert done.returncode == 0
    assert f"paceline {command}" in done.stdout


@pytest.mark.parametrize(
    ("typed", "meant"), [("analyse", "analyze"), ("serssion", "session"), ("tops", "top"), ("colect", "collect")]
)
def test_a_command_that_is_mistyped_is_said_with_the_one_that_is_meant(
    typed: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is run: what was meant is the user's to say."""
    assert main([typed]) == 2
    said = f"paceline: no command '{typed}'; did you mean '{meant}'? paceline --help lists them\n"
    assert capsys.readouterr() == ("", said)


@pytest.mark.parametrize("typed", ["x", "", "zzzzzzzz", "x" * 1000])
def test_what_resembles_no_command_is_said_with_where_they_are_listed(
    typed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """No guess, and no line without an end."""
    assert main([typed]) == 2
    said = capsys.readouterr().err
    assert said == f"paceline: no command '{typed[:100]}'; paceline --help lists them\n"
