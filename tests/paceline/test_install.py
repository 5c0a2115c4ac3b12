"""The command that installs what is missing: from where this Paceline came, and nothing that a record smuggles in."""

import json
import re
import shlex
from pathlib import Path

import pytest

from paceline.install import MOST_CHARACTERS, command, install

ROOT = Path(__file__).parents[2]
PLAIN = "pip install 'paceline[up]'"
WHEEL = "file:///dist/paceline-0.1.0-py3-none-any.whl"


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ({"url": WHEEL, "archive_info": {}}, ["/dist/paceline-0.1.0-py3-none-any.whl[up]"]),
        ({"url": "file:///my%20files/p.whl", "archive_info": {}}, ["/my files/p.whl[up]"]),
        ({"url": "file:///it's/p.whl", "archive_info": {}}, ["/it's/p.whl[up]"]),
        ({"url": "file:///src", "dir_info": {"editable": True}}, ["-e", "/src[up]"]),
        ({"url": "file:///src", "dir_info": {}}, ["/src[up]"]),
        ({"url": "https://wheels.test/p.whl", "archive_info": {}}, ["paceline[up] @ https://wheels.test/p.whl"]),
        (
            {"url": "https://git.test/p.git", "vcs_info": {"vcs": "git", "commit_id": "0"}},
            ["paceline[up] @ git+https://git.test/p.git"],
        ),
    ],
)
def test_it_is_installed_from_where_it_came(record: dict[str, object], expected: list[str]) -> None:
    """A wheel, a checkout, an address; a shell reads it as it was meant."""
    assert shlex.split(command(json.dumps(record), ["up"])) == ["pip", "install", *expected]


@pytest.mark.parametrize(
    "record",
    [
        None,
        "",
        "no JSON",
        "[]",
        "{}",
        '{"url": 7}',
        '{"url": "file://relative"}',
        '{"url": "file:///a%0Ab.whl"}',
        '{"url": "http://["}',
        '{"url": "javascript:alert(1)"}',
        "[" * 100_000,
        json.dumps({"url": "file:///" + "x" * MOST_CHARACTERS}),
    ],
)
def test_of_no_use_is_no_place(record: str | None) -> None:
    """Whoever wrote the record: then the plain name is all that can be said."""
    assert command(record, ["up"]) == PLAIN


def test_a_login_in_an_address_is_not_shown() -> None:
    """Messages go to logs and to the page."""
    assert "secret" not in command('{"url": "https://me:secret@wheels.test/p.whl"}', ["up"])


def test_this_installation_is_named_with_every_extra_asked_for() -> None:
    """One command, however many."""
    assert re.search(r"pip install .*\[streams,top\]", install("streams", "top"))


def test_no_other_place_makes_such_a_command() -> None:
    """The plain name finds nothing in an index: neither code nor docs tell anybody to type it."""
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    packages = {path.parent for path in ROOT.glob("*/__init__.py") if path.parent.name not in ("tests", "experiments")}
    code = [path for package in packages for path in package.rglob("*.py") if path.name != "install.py"]
    assert len(code) > 300
    wrong = [
        str(path.relative_to(ROOT))
        for path in [*pages, *code]
        if path.name != "CHANGELOG.md" and "pip install 'paceline[" in path.read_text(encoding="utf-8")
    ]
    assert wrong == []
