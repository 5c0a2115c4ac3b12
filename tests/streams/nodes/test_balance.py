"""GPUs of one job that are not equally busy."""

import random

import pytest


def imbalance(findings):
    return [one for one in findings if one.kind == "load_imbalance"]


def test_gpus_more_than_five_percent_apart_are_told_and_nobody_is_accused(make_node, judge):
    """The least and the most busy are named as devices; hardware and ranks are cleared."""
    found = imbalance(judge(make_node(200, gpus=4, utilization_ratio=lambda s, g: 0.7 if g == 2 else 0.9 + 0.01 * g)))

    assert [one.state for one in found] == ["suspected", "confirmed"]
    assert found[0].devices == ["GPU-2", "GPU-3"]
    assert (found[0].ranks, len(found[0].exonerated)) == ([], 1)
    assert found[-1].cost.gpu_hours > 0


@pytest.mark.long
def test_within_five_percent_is_balanced(make_node, judge):
    """Four percent apart, for a quarter of an hour."""
    assert imbalance(judge(make_node(900, gpus=4, utilization_ratio=lambda s, g: 0.9 + 0.013 * g))) == []


@pytest.mark.slow
def test_noise_is_no_imbalance(make_node, judge):
    """Utilisation that jumps by tens of percent on every GPU alike."""
    dice = random.Random(7)
    values = [[dice.uniform(0.3, 1.0) for _ in range(8)] for _ in range(1800)]

    assert imbalance(judge(make_node(1800, gpus=8, utilization_ratio=lambda s, g: values[s][g]))) == []


def test_gpus_of_different_jobs_are_not_compared(make_node, judge):
    """Equal work is promised within a job alone."""
    import msgspec

    events = [
        msgspec.structs.replace(
            event,
            processes=[
                msgspec.structs.replace(process, job=f"job-{process.device}", rank=0) for process in event.processes
            ],
        )
        for event in make_node(300, utilization_ratio=lambda s, g: 0.4 + 0.5 * g)
    ]

    assert judge(events) == []


def test_a_job_that_does_nothing_is_not_uneven(make_node, judge):
    """0 and 6 % are two idle GPUs."""
    assert imbalance(judge(make_node(250, utilization_ratio=lambda s, g: 0.06 * g))) == []


def test_a_minute_apart_is_not_enough_to_confirm(make_node, judge):
    """An evaluation on one GPU of half a minute is not told."""
    found = judge(make_node(400, utilization_ratio=lambda s, g: 0.2 if g and 100 <= s < 115 else 0.9))

    assert [one for one in imbalance(found) if one.state == "confirmed"] == []
