"""Every command ends without a word when nobody reads its output any more, as in ``paceline rights | head -1``."""

import json
import os
import subprocess
import sys

import pytest

from paceline.__main__ import COMMANDS, SERVICE_COMMANDS

#: Runs the commands that are given as JSON, each into a pipe whose reader has left; tells their statuses on standard
#: error, behind whatever they said there.
RUN = """
import json, os, sys
from paceline.__main__ import main

reader, writer = os.pipe()
os.close(reader)
statuses = []
for command in json.loads(sys.argv[1]):
    os.dup2(writer, 1)
    statuses.append(main(command))
print(json.dumps(statuses), file=sys.stderr)
"""


def run(*commands: list[str]) -> tuple[list[str], list[int]]:
    """What was said, and the statuses."""
    line = [sys.executable, "-P", "-c", RUN, json.dumps(commands)]
    environ = {**os.environ, "PACELINE_BROKERS": "127.0.0.1:9", "PACELINE_CONTROL_URL": "http://127.0.0.1:9"}
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=environ)
    *said, statuses = done.stderr.splitlines()
    return said, json.loads(statuses)


@pytest.mark.slow
def test_the_help_of_every_command() -> None:
    """`run` has a net of its own, and its --help is argparse's as that of the others."""
    names = [name for name in (COMMANDS | SERVICE_COMMANDS) if name != "run"]
    said, statuses = run(["--help"], ["--version"], *([name, "--help"] for name in names))
    assert (said, set(statuses)) == ([], {0})


@pytest.mark.slow
def test_what_commands_print_without_a_broker() -> None:
    said, statuses = run(["rights"], ["rights", "--json"], ["thresholds", "--list"])
    assert (said, statuses) == ([], [0] * 3)


@pytest.mark.slow
def test_a_command_that_fails_still_fails() -> None:
    """And one whose output is longer than a pipe ends in the middle of it."""
    said, (wrong, doctor) = run(["nope"], ["doctor", "--json"])
    assert wrong == 2
    assert doctor == 0
    assert said == ["paceline: no command 'nope'; paceline --help lists them"]
