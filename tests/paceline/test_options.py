"""What a command says of a command line that it refuses: no login, and the option that was meant."""

import sys
from pathlib import Path

import pytest

import paceline
from paceline.__main__ import find
from paceline.options import Parser


def refusal(capsys: pytest.CaptureFixture[str], made: Parser, *words: str) -> str:
    with pytest.raises(SystemExit) as ended:
        made.parse_args(words)
    assert ended.value.code == 2
    return capsys.readouterr().err


def parser() -> Parser:
    made = Parser(prog="x")
    made.add_argument("--brokers")
    made.add_argument("--port", type=int)
    made.add_argument("--secret-door", help="==SUPPRESS==")
    actions = made.add_subparsers()
    actions.add_parser("stop").add_argument("--of-another")
    below = actions.add_parser("list")
    below.add_argument("--severity", choices=("low", "high"))
    return made


@pytest.mark.parametrize(
    "words",
    [
        ("list", "kafka://ada:s3cret@host"),
        ("list", "ada:s3cret@host:9092,ada:s3cret@other"),
        ("list", "kafka://ada:s3cret and more s3cret@host"),
        ("--port", "kafka://ada:s3cret@host"),
        ("--port", "ada:s3cret@host"),
        ("--port=ada:s3cret'@host",),
        ("--broker-list=ada:s3cret@host", "list"),
        ("list", "--severity", "ada:s3cret@host"),
        ("ada:s3cret@host",),
        ("--port", "http://ada:s3cret\n@host"),
    ],
)
def test_no_refusal_shows_a_login(capsys, words):
    shown = refusal(capsys, parser(), *words)
    assert "s3cret" not in shown
    assert "(login)" in shown


def test_words_of_the_process_are_kept_too(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["x", "list", "ada:s3cret@host"])
    with pytest.raises(SystemExit):
        parser().parse_args()
    assert "s3cret" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("word", "meant"),
    [("--brokres", "--brokers"), ("--brokerz=a:1", "--brokers"), ("--severty", "--severity")],
)
def test_a_misspelt_option_names_the_one_that_was_meant(capsys, word, meant):
    assert f"did you mean {meant}?" in refusal(capsys, parser(), "list", word)


def test_an_option_of_another_action_is_not_suggested_again(capsys):
    """What was typed is spelt right."""
    said = refusal(capsys, parser(), "list", "--of-another")
    assert "did you mean" not in said
    assert said.rstrip().endswith(
        "unrecognized arguments: --of-another; --of-another: an option, but not of this action"
    )


@pytest.mark.parametrize("word", ["--zzz", "brokers", "--secret-dor"])
def test_what_comes_near_no_shown_option_gets_no_suggestion(capsys, word):
    assert "did you mean" not in refusal(capsys, parser(), "list", word)


@pytest.mark.parametrize("command", ["up", "topics", "tail", "record", "doctor"])
def test_a_command_shows_no_login_that_it_refuses(capsys, command):
    with pytest.raises(SystemExit):
        find(command)(["orders", "kafka://ada:s3cret@host", "--brokres=ada:s3cret@host"])
    shown = capsys.readouterr().err
    assert "s3cret" not in shown
    assert "unrecognized arguments" not in shown or "did you mean --brokers?" in shown


@pytest.mark.long
def test_every_command_reads_its_options_so():
    root = Path(paceline.__file__).parents[1]
    # These run where Paceline may not be: beside the user's own script, or as one.
    alone = (
        "paceline/training/",
        "paceline/balance/",
        "trials/example.py",
        "tests/",
        "deploy/",
        "experiments/",
        "docs/",
    )
    sources = [path for top in root.iterdir() if (top / "__init__.py").exists() for path in top.rglob("*.py")]
    made = [path.relative_to(root).as_posix() for path in sources if "argparse.ArgumentParser(" in path.read_text()]
    assert [name for name in made if not name.startswith(alone) and name != "paceline/options.py"] == []
    assert len(sources) > 100
