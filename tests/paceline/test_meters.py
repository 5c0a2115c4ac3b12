"""Labels are bounded and tell names apart; what cannot be text is text all the same."""

import pytest

from paceline.exposition import family, histogram, text
from paceline.meters import MOST_LETTERS, Meter, label
from tests.derived_events import HOSTILE

MANY = (HOSTILE, 'a "b" \\ \n', "x" * 500, "x" * 501, "\ud800half", "\0", "", "é" * 200, "日本", "{}", "le", "#")


def test_labels_are_short_and_differ():
    """Of no two names the same label, and none longer than the bound."""
    told = [label(name) for name in MANY]
    assert len(set(told)) == len(MANY)
    assert max(map(len, told)) == MOST_LETTERS


def test_a_label_of_the_bound_is_not_cut():
    """And one that is cut cannot be mistaken for one that was called so."""
    assert label("x" * MOST_LETTERS) == "x" * MOST_LETTERS
    assert label(label("x" * 500)) == label("x" * 500)


@pytest.mark.slow
def test_prometheus_reads_what_anybody_calls_a_job(promtool):
    """Line ends, quotes, halves of characters: every name is one series."""
    meter = Meter("paceline_ranks", "gauge", "Ranks.", ("training_job",))
    steps = Meter("paceline_step_time_seconds", "histogram", "Steps.", ("training_job",))
    told = text(
        [
            family(meter, {(name,): 1.0 for name in MANY}),
            histogram(steps, (0.1, 1.0), {(name,): ([1, 2, 3], 9.0) for name in MANY}),
        ]
    )
    promtool(told)
    assert told.count("\npaceline_ranks{") == len(MANY)
    assert told.count('_bucket{le="+Inf"') == len(MANY)
    assert '_bucket{le="1.0",training_job="日本"} 3.0' in told


@pytest.mark.slow
def test_no_series_is_told_twice(promtool):
    """Though two names are sent as one, as a NUL and what stands for it."""
    steps = Meter("paceline_step_time_seconds", "histogram", "Steps.", ("training_job",))
    told = text([histogram(steps, (1.0,), {("\0",): ([1, 0], 1.0), (r"\0",): ([2, 0], 2.0)})])
    promtool(told)
    assert told.count("_count{") == 1


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("paceline_lost_seconds", "seconds"),
        ("paceline_device_pcie_rx_bytes_per_second", "bytes per second"),
        ("paceline_ranks", ""),
    ],
)
def test_units_are_in_names(name, unit):
    """The longest ending counts."""
    assert Meter(name, "gauge", "").unit == unit
