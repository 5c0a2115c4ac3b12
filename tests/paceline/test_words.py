"""Numbers and findings as people say them, on the page, in a terminal and in alerts."""

import math
from typing import get_args

import msgspec
import pytest

from paceline import events, words
from paceline.events import CAUSE_WORDS, Cause, FindingKind
from tests.derived_events import finding


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "not measured"),
        (math.nan, "not measured"),
        (0.0, "0 s"),
        (2.5e-7, "0.25 µs"),
        (0.000813, "813 µs"),
        (0.0124, "12.4 ms"),
        (1.524, "1.52 s"),
        (200.0, "3 min 20 s"),
        (7500.0, "2 h 5 min"),
    ],
)
def test_durations_read_as_people_say_them(value, said):
    """Three digits and a unit; what was not measured is never 0."""
    assert words.seconds(value) == said


@pytest.mark.parametrize(
    ("then", "said"), [(None, "never"), (100.0, "just now"), (200.0, "just now"), (60.0, "40 s ago")]
)
def test_ages_are_never_negative(then, said):
    """A clock that runs ahead makes no age below zero."""
    assert words.age(100.0, then) == said


@pytest.mark.parametrize(
    ("numbers", "said"),
    [([], "no rank"), ([2], "rank 2"), ([3, 1], "ranks 1, 3"), (range(9), "ranks 0, 1, 2, 3, 4, 5 and 3 more")],
)
def test_many_ranks_are_counted(numbers, said):
    """A long list of ranks ends in a count."""
    assert words.ranks(numbers) == said


@pytest.mark.parametrize(
    ("value", "unit", "said"),
    [
        (0.0463, "s/step", "46.3 ms a step"),
        (-0.002, "s/step", "-2.00 ms a step"),
        (1.5, "s", "1.50 s"),
        (3 * 2**30, "bytes", "3.00 GiB"),
        (-3 * 2**20, "bytes", "-3.00 MiB"),
        (1023, "bytes", "1023 B"),
        (1024, "bytes", "1.00 KiB"),
        (8, "bytes", "8 B"),
        (0, "bytes", "0 B"),
        (12e9, "bytes/s", "12.0 GB/s"),
        (8.9e6, "bytes/s", "8.90 MB/s"),
        (0.25, "bytes/s", "0.25 B/s"),
        (3.2e13, "flop/s", "32.0 Tflop/s"),
        (5e10, "flop/s", "50.0 Gflop/s"),
        (79.0, "XID", "79"),
        (1.2, "ratio", "120 %"),
        (0.0, "", "0"),
        (1980.0, "MHz", "1,980 MHz"),
        (math.nan, "s/step", "-"),
        (None, "s", "-"),
    ],
)
def test_evidence_reads_as_people_say_it(value, unit, said):
    """Each unit as it is spoken; what was not measured is a dash."""
    assert words.quantity(value, unit) == said


def test_evidence_of_one_rank_says_which():
    """Its name without the unit that stands beside it."""
    mine = events.Evidence(name="power_w", value=1.0, unit="w", peers=None, rule="")
    assert words.evidence_name(mine) == "power"
    assert words.evidence_name(msgspec.structs.replace(mine, rank=3)) == "power of rank 3"


def test_every_kind_and_cause_has_words():
    """What the contract can say, the page can."""
    assert set(words.KINDS) == set(get_args(FindingKind))
    assert set(CAUSE_WORDS) == set(get_args(Cause))


def test_evidence_on_one_line_has_the_peers_beside_it():
    """In their unit."""
    mine = events.Evidence(name="own_s", value=0.9, unit="s", peers=0.5, rule="")
    assert words.measured(mine) == "own: 900 ms, peers 500 ms"
    assert words.measured(msgspec.structs.replace(mine, peers=None, rank=3)) == "own of rank 3: 900 ms"


def test_a_finding_on_a_node_or_switch_says_so_with_its_ranks():
    """One rank is a rank."""
    several = finding(ranks=[8, 9, 10, 12], nodes=["gpu-1"])
    assert words.verdict(several).startswith("Straggler: node gpu-1 (ranks 8-10, 12), ")
    assert words.subject(finding(ranks=[8, 9, 10, 12], nodes=["gpu-1", "gpu-2"], group="switch leaf-2")) == (
        "switch leaf-2 (ranks 8-10, 12)"
    )
    silent = finding(kind="node_silent", cause="unknown", ranks=[8], nodes=["gpu-1"])
    assert words.verdict(silent) == "Silent node: node gpu-1 (rank 8)"


@pytest.mark.parametrize(
    ("unit", "who"),
    [("ranks", "ranks 0, 1, 2, 3, 4, 5 and 294 more"), ("nodes", "300 nodes"), ("switches", "300 switches")],
)
def test_a_finding_for_many_counts_those_that_it_does_not_name(unit, who):
    """It names 256 of them at most."""
    count = events.Evidence(name="alike", value=300.0, unit=unit, peers=None, rule="")
    for_many = finding(ranks=list(range(256)), nodes=[], evidence=[count])
    assert words.subject(for_many) == who


OUT_OF_MEMORY = "rank 2: torch.OutOfMemoryError: CUDA out of memory at /app/train.py:88 step"


def test_a_cause_that_is_a_sentence_leaves_the_title_to_the_line():
    died = finding(kind="died", ranks=[2], cause=OUT_OF_MEMORY, line="/app/train.py:88 step")
    assert words.verdict(died) == "Died: rank 2, /app/train.py:88 step"
    assert words.label(died) == "Died, /app/train.py:88 step"
    assert words.verdict(finding(kind="died", ranks=[2], cause=OUT_OF_MEMORY)) == "Died: rank 2"
    assert words.verdict(finding(kind="died", ranks=[2], cause="of_a_newer_version")) == (
        "Died: rank 2, of a newer version"
    )


def test_a_network_fault_is_about_a_node_and_its_card():
    fault = {"kind": "network", "ranks": [], "cause": "unknown"}
    assert words.subject(finding(**fault, nodes=["node-3"], devices=["mlx5_0"])) == "node-3 (mlx5_0)"
    assert words.subject(finding(**fault, nodes=["node-3"], devices=[])) == "node-3"
    assert words.subject(finding(**fault, nodes=[], devices=["mlx5_0"])) == "mlx5_0"
    many = finding(**fault, nodes=["a", "b", "c", "d"], devices=["mlx5_0"])
    assert words.subject(many) == "a, b, c and 1 more (mlx5_0)"


def test_a_hang_of_ranks_without_numbers_is_about_their_nodes():
    """A communicator's name means nothing to people."""
    hang = {"kind": "hang", "ranks": [], "cause": "rank 3 of communicator 78db does not answer", "group": "78db921d"}
    assert words.verdict(finding(**hang, nodes=["10.0.0.3"])) == "Hang: 10.0.0.3"
    assert words.subject(finding(**hang, nodes=["a", "b", "c", "d"])) == "a, b, c and 1 more"
    assert words.subject(finding(**hang, nodes=[])) == "group 78db921d"
    assert words.subject(finding(**hang | {"ranks": [3]}, nodes=["10.0.0.3"])) == "rank 3"
    assert words.subject(finding(**hang | {"kind": "communication_bound"}, nodes=["n"])) == "group 78db921d"


@pytest.mark.parametrize(
    ("line", "worker", "shown"),
    [
        ("train.py:9 step", "data.py:54 read", "Hang: rank 3, train.py:9 step, loader worker at data.py:54 read"),
        (None, "data.py:54 read", "Hang: rank 3, loader worker at data.py:54 read"),
        ("train.py:9 step", None, "Hang: rank 3, train.py:9 step"),
        (msgspec.UNSET, msgspec.UNSET, "Hang: rank 3"),
    ],
)
def test_the_line_of_a_loaders_worker_stands_beside_the_line(line, worker, shown):
    """On the page, in top and in alerts, which all show this title."""
    hang = finding(kind="hang", ranks=[3], nodes=[], cause="unknown", line=line, worker_line=worker)
    assert words.verdict(hang) == shown


def test_lines_of_any_length_leave_room_for_each_other():
    """They are of other people's code."""
    hang = finding(kind="hang", ranks=[3], nodes=[], cause="unknown", line="l" * 5000, worker_line="w" * 5000)
    assert len(words.line_of(hang)) < 300
    assert "w" * 100 in words.line_of(hang)
