"""What a rank tells of streams, buckets and graphs on a GPU is what its stream that computes lived through.

The device is a fake one that keeps CUDA's rules, PyTorch is real, and the truth is known to the script that launches.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("pytorch")]
#: What a step may be off by, in milliseconds: the clock leaks 20 ppm on purpose.
CLOSE = {"abs": 0.01}


@pytest.fixture(scope="module")
def cases(python: Callable[..., Any], scripts: Path) -> dict[str, dict[str, Any]]:
    """Every case of the script, by name."""
    root = Path(__file__).parents[3]
    done = python(str(scripts / "streams_on_fake_cuda.py"), environ={"PYTHONPATH": str(root), "PACELINE_SOCKET": ""})
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert not any(case["off"] for case in told)
    return {case["case"]: case for case in told}


def phases(case: dict[str, Any], *names: str) -> list[list[float]]:
    """These phases of the steps after the first two, in which DDP and graphs warm up."""
    return [[step.get(name, 0.0) for name in names] for step in case["steps"][2:]]


def test_only_the_exposed_part_of_sharded_layers_is_communication(cases: dict[str, dict[str, Any]]) -> None:
    """Of 20 ms of all-gathers on a stream of their own, the 2 ms that computing stood for."""
    case = cases["sharded"]
    truth = [case["truth"][name] for name in ("communication", "forward", "backward")]
    assert truth[0] == pytest.approx(2.0)
    assert phases(case, "communication", "forward", "backward") == [pytest.approx(truth, **CLOSE)]


def test_an_exchange_on_its_own_stream_lasts_as_long_as_it_took_there(cases: dict[str, dict[str, Any]]) -> None:
    """Not until computing came to wait for it, by when it was long over."""
    case = cases["sharded"]
    overlapped = [row["duration"] * 1e3 for row in case["collectives"] if row["duration"] < 1.9e-3]
    assert overlapped == [pytest.approx(case["truth"]["duration"], **CLOSE)] * 33
    assert len(case["collectives"]) == 36


def test_waiting_for_a_stream_that_nobody_names_is_communication(cases: dict[str, dict[str, Any]]) -> None:
    """Events are recorded on the current stream and waited for on it; what computing had not covered is told."""
    assert phases(cases["reduced_beside"], "communication", "backward") == [pytest.approx([5.0, 30.0], **CLOSE)]


def test_waiting_for_a_copy_is_no_communication(cases: dict[str, dict[str, Any]]) -> None:
    """Only streams on which collectives were issued have other ranks behind them."""
    assert phases(cases["copies_beside"], "communication", "forward") == [pytest.approx([0.0, 12.0], **CLOSE)]


def test_a_bucket_that_is_waited_for_at_once_is_communication(cases: dict[str, dict[str, Any]]) -> None:
    """Also where every gradient has lost its hook but those that end a bucket; and each bucket has its own wait."""
    case = cases["bucketed"]
    assert case["truth"]["buckets"] == 2.0
    assert phases(case, "communication", "backward") == [pytest.approx([12.0, 8.0], **CLOSE)] * 6
    waits = [row["wait"] * 1e3 for row in case["collectives"] if row["operation"] == "all_reduce"]
    assert waits[-12:] == pytest.approx([6.0] * 12, **CLOSE)


def test_every_replay_of_a_whole_step_is_a_step(cases: dict[str, dict[str, Any]]) -> None:
    """With the time that the device took for it; the step that was run and the one that was captured come before."""
    case = cases["replayed"]
    assert phases(case, "backward") == [pytest.approx([3.0], **CLOSE)] * 200


def test_an_exchange_begins_when_the_device_gets_to_it(cases: dict[str, dict[str, Any]]) -> None:
    """The host was 20 ms ahead: that is neither bandwidth nor waiting."""
    case = cases["issued_ahead"]
    assert phases(case, "communication", "forward") == [pytest.approx([5.0, 20.0], **CLOSE)]
    assert [row["duration"] * 1e3 for row in case["collectives"]] == pytest.approx([5.0] * 3, **CLOSE)


def test_what_a_saver_exchanges_beside_a_backward_is_not_training(cases: dict[str, dict[str, Any]]) -> None:
    """Another thread's collectives are no communication of this step, and mute none."""
    case = cases["saved_beside"]
    assert phases(case, "communication", "backward") == [pytest.approx([0.0, 4.0], **CLOSE)]
    assert case["collectives"] == []
