"""The command line of the pipeline example: what it cannot do is refused before anything trains."""

import sys

import pytest

from paceline.balance import pipeline_example
from paceline.balance.pipeline_example import main, options_of

#: PyTorch is imported, which takes seconds of a processor.
pytestmark = [pytest.mark.long, pytest.mark.xdist_group("pytorch")]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--costs-ms", "6,x"], "numbers with commas"),
        (["--costs-ms", "6,nan"], "from 0 to 1000"),
        (["--factor", "0.5"], "from 1 to 100"),
        (["--steps", "-1"], "from 0 to 1000000"),
        (["--measure-at", "0"], "--measure-at is from 1"),
        (["--measure-at", "-3"], "--measure-at is from 1"),
        (["--slow-rank", "-2"], "or -1 for none"),
        (["--device", "cuda"], "--costs-ms 0,0,0"),
    ],
)
def test_what_it_cannot_do_is_one_line(words, said, capsys):
    """The option, and what is allowed."""
    with pytest.raises(SystemExit) as ended:
        options_of(words)

    assert ended.value.code == 2
    assert said in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "said"),
    [(["--slow-rank", "4"], "there are ranks 0 to 3"), (["--microbatches", "3"], "at least one a stage, 4")],
)
def test_what_the_number_of_ranks_forbids_is_said_before_they_meet(words, said, monkeypatch):
    """A slow rank that does not exist would be a run without one."""
    monkeypatch.setattr(sys, "argv", ["pipeline_example", *words])
    monkeypatch.setattr(pipeline_example.torch, "set_num_threads", lambda _: None)
    for name, value in {"RANK": "0", "WORLD_SIZE": "4"}.items():
        monkeypatch.setenv(name, value)

    with pytest.raises(SystemExit, match=said):
        main()


def test_the_usual_options():
    assert options_of([]).costs_ms == [6.0] * 3 + [2.0] * 9
