"""Time lost by cause: no second counts twice, and suspicions cost nothing."""

import pytest

from paceline.events import Cost
from streams.reports.lost_time import counted_hours, lost_time
from tests.derived_events import finding


def costing(lost_s, first, last, **changes):
    cost = Cost(lost_s=lost_s, gpu_hours=lost_s / 100, throughput_lost_ratio=0.1)
    return finding(
        id=changes.pop("id", f"{first}-{last}-{lost_s}"), cost=cost, first_step=first, last_step=last, **changes
    )


def test_findings_one_after_the_other_add_up():
    """Each cause has all of its own."""
    lost = lost_time([costing(10.0, 0, 99), costing(5.0, 100, 199, cause="link")])
    assert [(one.cause, one.lost_s) for one in lost] == [("worker_compute", 10.0), ("link", 5.0)]


def test_where_findings_overlap_the_largest_counts():
    """A job that waits for two slow ranks waits for the slower one."""
    lost = lost_time([costing(10.0, 0, 99), costing(2.0, 50, 149, cause="link")])
    assert {one.cause: pytest.approx(one.lost_s) for one in lost} == {"worker_compute": 10.0, "link": 1.0}
    assert sum(one.device_hours for one in lost) == pytest.approx(0.11)


def test_a_finding_wholly_inside_a_worse_one_counts_nothing():
    """It is not even told as an episode of its cause."""
    assert [one.cause for one in lost_time([costing(10.0, 0, 99), costing(0.1, 10, 90, cause="link")])] == [
        "worker_compute"
    ]


@pytest.mark.parametrize("state", ["suspected", "a-state-of-tomorrow"])
def test_only_what_is_sure_costs(state):
    """Neither a suspicion nor a state that nobody knows here."""
    assert lost_time([costing(10.0, 0, 99, state=state)]) == []


def test_findings_without_steps_are_of_nodes():
    """They are told elsewhere."""
    assert lost_time([costing(10.0, -1, -1)]) == []


def test_steps_told_backwards_are_one_step():
    """A last step before the first one is no division by nothing."""
    (one,) = lost_time([costing(3.0, 50, 20)])
    assert one.lost_s == 3.0


def test_a_thousand_findings_of_equal_steps_are_one():
    """Many at once take no longer than their number, and count once."""
    many = [costing(10.0, 0, 99, id=str(number)) for number in range(1000)]
    assert sum(counted_hours(many).values()) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("state", "within", "steps"),
    [
        ("recovered", range(50, 300), 50),
        ("recovered", range(100, 300), 0),
        ("recovered", range(60), 100),
        ("confirmed", range(50, 130), 80),
        ("confirmed", range(150, 1000), 50),
        ("confirmed", range(200, 1000), 0),
    ],
)
def test_of_a_part_of_the_steps_only_those_count(state, within, steps):
    """A finding that lasts goes on as long as its job, to twice its length: it would have been told again then."""
    lost = lost_time([costing(10.0, 0, 99, state=state)], within)
    assert [one.lost_s for one in lost] == ([pytest.approx(steps / 10)] if steps else [])
    assert sum(one.device_hours for one in lost) == pytest.approx(steps / 1000)


def test_a_hang_comes_after_the_last_step_and_counts_whole():
    """The step that it stood in was not finished, and is one."""
    (one,) = lost_time([costing(90.0, 500, 500, kind="hang", state="confirmed")], range(100, 500))
    assert one.lost_s == 90.0
