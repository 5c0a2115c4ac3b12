"""The table of commands: what a person is told where an extra is missing."""

import subprocess
import sys

import pytest

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
    """One line says what is missing and what to install; no traceback."""
    done = without("numpy", command, "--help")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"paceline: {command} needs numpy; {install(extra)}\n"


@pytest.mark.slow
@pytest.mark.parametrize("command", ["run", "record", "topics"])
def test_own_commands_need_no_extra(command: str) -> None:
    """What ``paceline`` itself offers works with no numpy at all."""
    done = without("numpy", command, "--help")
    assert done.returncode == 0
    assert f"paceline {command}" in done.stdout
