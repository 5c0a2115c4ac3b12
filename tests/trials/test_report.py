"""What was found, as a table, a page and a document; ties are called ties."""

import msgspec
import pytest

from trials import report
from trials.candidates import expand
from trials.halving import Config, Halving
from trials.outcomes import run_of
from trials.result import Told, Verdict
from trials.spec import read

COMMAND = ("train.py", "--batch", "{batch_size}")
SPEC = read(
    "name: t\nseconds: 5\nplacements: {batch_size: [8, 9, 10], ranks: 1}\nreads: [ranks]\nexclude: [{batch_size: 10}]"
)
CANDIDATES = expand(SPEC, COMMAND, None)
COSTS = {one.number: one.cost for one in CANDIDATES.possible}
STRAGGLER = Verdict(kind="straggler", cause="cpu_contention", ranks=[3], summary="rank 3 is slow", lost_s=3.0)


def ran(step_s, **changed):
    """A trial of one rung and run a placement; ``step_s`` by placement, None: it crashes."""
    halving, runs = Halving(Config(COSTS, 1, 2.0, 1, 1, 0)), []
    while (place := halving.next()) is not None:
        seconds = step_s[place.placement]
        told = Told(
            rung=0,
            repeat=0,
            placement=place.placement,
            attempt=place.attempt,
            outcome="crashed" if seconds is None else "measured",
            reason="status 1 with 0 steps after the warm-up" if seconds is None else "",
            said="Traceback\nKeyError: \x1b[2J|3" if seconds is None else "",
            blocks_s=[] if seconds is None else [seconds * (1 + 0.01 * (at % 3)) for at in range(12)],
            samples=8.0,
            steps=60,
        )
        runs.append(msgspec.structs.replace(told, **changed))
        halving.update(run_of(runs[-1]))
    return report.document("t", CANDIDATES, halving, runs, COMMAND)


def test_the_winner_and_its_command():
    """Relative to the first placement."""
    found = ran({1: 0.2, 2: 0.1})

    assert (found["complete"], found["winners"], found["unit"], found["baseline"]) == (True, [2], "samples/s", 1)
    assert [row["relative"] for row in found["placements"]] == [pytest.approx(2.0, rel=0.01), 1.0]
    assert found["command"].endswith("train.py --batch 9")
    assert [row["out"] for row in found["placements"]] == [None, "slower"]
    text = report.table(found)
    assert "fastest: batch_size=9\n  PACELINE_TRIAL_RANKS=1" in text
    assert "out: slower" in text


def test_the_fastest_stands_first():
    """Also of those that are out; what was never measured stands last."""
    assert [row["number"] for row in ran({1: 0.2, 2: 0.1})["placements"]] == [2, 1]
    assert [row["number"] for row in ran({1: None, 2: 0.1})["placements"]] == [2, 1]


def test_a_tie_is_called_so():
    """The one that occupies least is told first."""
    found = ran({1: 0.1, 2: 0.1})

    assert found["winners"] == [1, 2]
    assert "no difference larger than the noise between batch_size=8 and batch_size=9" in report.table(found)


def test_what_crashed_is_told_with_its_last_lines():
    """And ran twice; the other has won."""
    found = ran({1: None, 2: 0.1})
    text = report.table(found)

    assert found["winners"] == [2]
    assert "crashed 2x, out" in text
    assert "batch_size=8: crashed: status 1 with 0 steps after the warm-up\n    Traceback\n    KeyError" in text
    assert [row["rate"] is None for row in found["placements"]] == [False, True]


def test_nothing_could_be_measured():
    """No winner, and no command."""
    found = ran({1: None, 2: None})

    assert (found["winners"], found["command"]) == ([], None)
    assert report.table(found).endswith("    KeyError: \x1b[2J|3\nno placement could be measured")


def test_before_the_end_there_is_no_winner():
    """What is known so far is in the table."""
    halving = Halving(Config(COSTS, 1, 2.0, 1, 1, 0))
    found = report.document("t", CANDIDATES, halving, [], COMMAND)

    assert (found["complete"], found["winners"]) == (False, [])
    assert "not complete: no winner yet" in report.table(found)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"phases": {"data": 0.412, "forward": 0.5}}, "data loading takes 41% of a step"),
        ({"phases": {"data": 0.1, "forward": 0.9}}, ""),
        ({"findings": [STRAGGLER]}, "rank 3 slow: CPU contention"),
        (
            {"findings": [STRAGGLER], "phases": {"communication": 0.3}},
            "CPU contention; communication takes 30% of a step",
        ),
        ({"findings": [Verdict(kind="hang", cause="unknown", ranks=[1, 2])]}, "2 ranks hang"),
        ({"findings": [Verdict(kind="hang", cause="unknown", ranks=[1, 2], rank_count=300)]}, "300 ranks hang"),
        ({"findings": [Verdict(kind="uniform_slowdown", cause="unknown")]}, "uniform slowdown"),
    ],
)
def test_what_paceline_says_of_it(changed, says):
    """The worst finding, and what takes of a step beside computing."""
    said = ran({1: 0.2, 2: 0.1}, **changed)["placements"][0]["says"]

    assert said.lower().endswith(says.lower())
    assert bool(said) == bool(says)


def test_a_batch_that_the_script_does_not_use_is_told():
    """The recording saw another one."""
    assert ran({1: 0.2, 2: 0.1}, batch_size=8)["notes"] == [
        "a batch_size of 9 was asked for, and the recording saw batches of 8: does the script use it?"
    ]


def test_versions_that_differ_are_told():
    """Between runs of one trial."""
    versions = iter([{"framework": "torch 1"}, {"framework": "torch 2"}])

    halving = Halving(Config(COSTS, 1, 2.0, 1, 1, 0))
    runs = []
    while (place := halving.next()) is not None:
        told = Told(
            rung=0, repeat=0, placement=place.placement, attempt=0, outcome="measured", blocks_s=[0.1] * 9, samples=8.0,
            versions=next(versions),
        )  # fmt: skip
        runs.append(told)
        halving.update(run_of(told))

    notes = report.document("t", CANDIDATES, halving, runs, COMMAND)["notes"]
    assert notes == ["runs had different versions: framework torch 1; framework torch 2"]


def test_the_page_shows_nothing_that_a_reader_would_obey():
    """Bars of a table and a terminal's escapes are words in it."""
    page = report.markdown(ran({1: None, 2: 0.1}))

    assert page.startswith("# Trial t\n\n| placement | samples/s |")
    assert "    KeyError: \\u001b[2J|3" in page.replace("        ", "    ")
    assert "\x1b" not in page


def test_impossible_placements_are_on_the_page():
    """With their reasons."""
    spec = read(
        "name: t\nseconds: 5\nplacements: {batch_size: [8], global_batch: [], nodes: [1, 2], ranks: 1}\nreads: [ranks]"
    )
    candidates = expand(spec, COMMAND, None)
    halving = Halving(Config({one.number: one.cost for one in candidates.possible}, 1, 2.0, 1, 1, 0))
    page = report.markdown(report.document("t", candidates, halving, [], COMMAND))

    assert "Impossible placements:\n\n- nodes=2: 2 nodes: the local executor has this one" in page


def test_a_command_for_several_nodes_says_what_each_fills_in():
    """It is for copying: a word in braces that nobody explains is taken as it is written."""
    found = ran({1: 0.2, 2: 0.1})
    command = "torchrun --node-rank '{node_rank}' --master-addr '{master}' train.py"

    said = report.conclusion(found | {"command": command})

    assert said[-2:] == ["run it on each node, with that node's values for {node_rank}, {master}:", f"  {command}"]
    assert not any("on each node" in line for line in report.conclusion(found))
