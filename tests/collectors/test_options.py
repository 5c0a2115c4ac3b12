import pytest

from collectors.options import parse
from paceline.settings import SettingError


def test_the_interval_comes_from_the_environment():
    """PACELINE_COLLECT_INTERVAL_S is the default, the option goes before it."""
    environ = {"PACELINE_COLLECT_INTERVAL_S": "5"}

    assert (parse([], environ).interval, parse(["--interval", "0.1"], environ).interval) == (5.0, 0.1)


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["--interval", "0"], "'0': out of range; allowed: 0.05 to 60"),
        (["--interval", "fast"], "'fast': not a number"),
        (["--interval", "nan"], "'nan'"),
        (["--seconds", "-1"], "'-1'"),
        (["--simulate", "0"], "allowed: 1 to 64"),
        (["--frequency", "1"], "--frequency"),
        (["--sec", "1"], "--sec"),
        (["--stdout", "--brokers", "kafka1:9092"], "not allowed with"),
        (["--once", "--seconds", "5"], "not allowed with"),
    ],
)
def test_a_wrong_option_is_one_line(argv, named, capsys):
    """A wrong option gives one line that names it and what is allowed, and status 2."""
    with pytest.raises(SystemExit) as ended:
        parse(argv, {})
    said = capsys.readouterr().err

    assert ended.value.code == 2
    assert named in said
    assert said.count("\n") == 1


def test_a_wrong_setting_names_the_variable():
    """A wrong value in the environment names the variable, the value and what is allowed."""
    with pytest.raises(SettingError, match=r"PACELINE_COLLECT_INTERVAL_S='often'.*allowed: 0.05 to 60"):
        parse([], {"PACELINE_COLLECT_INTERVAL_S": "often"})


def test_help_has_examples(capsys):
    """--help shows how it is used."""
    with pytest.raises(SystemExit) as ended:
        parse(["--help"], {})

    assert ended.value.code == 0
    assert "paceline collect --stdout --once" in capsys.readouterr().out
