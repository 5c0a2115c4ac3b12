"""Ranks that stall now and then: found where they cost the job time, by one finding, and nobody in a healthy job."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from streams.jobs.intermittent import TOGETHER, LongTicks
from streams.jobs.ticks import ARRAYS, PARTS, Tick
from tests.streams.job_lines import JobDiagnosis

#: So many steps a second, and ticks of 0.2 s: ten of them are 8 or more of these.
STEP_S = 0.03


def judge(batches: Iterable[Any]) -> list[Any]:
    diagnosis = JobDiagnosis()
    return [finding for batch in batches for finding in diagnosis.update(batch)] + diagnosis.conclude()


def every(steps: int, begin: int = 100, end: int = 10**9) -> Callable[[int], bool]:
    return lambda step: begin <= step < end and step % steps == 0


def last(findings: Iterable[Any]) -> dict[str, Any]:
    return {finding.id: finding for finding in findings}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("steps", "fault", "cause"),
    [
        (8, {"data": 0.4}, "input_pipeline"),
        (20, {"data": 0.4}, "input_pipeline"),
        (20, {"gc": 0.4}, "garbage_collection"),
        (12, {"backward": 0.4}, "worker_compute"),
        (20, {"optimizer": 1.0}, "worker_compute"),
    ],
)
@pytest.mark.parametrize("ranks", [2, 3, 16])
def test_a_rank_that_stalls_now_and_then_is_named(job: Any, ranks: int, steps: int, fault: Any, cause: str) -> None:
    """Once, with its cause, and no other; in none of ten ticks on end is it late, and half of the time is lost."""
    made = job(ranks=ranks, steps=1500, step_s=STEP_S, fault={1: fault}, when=every(steps))
    findings = judge(made.batches())
    (one,) = last(findings).values()
    assert (one.kind, one.state, one.ranks, one.cause) == ("straggler", "confirmed", [1], cause)
    assert one.summary.startswith("Rank 1 on node-0 stalls now and then: it works ")
    assert 60 <= one.first_step <= 140
    assert one.cost.lost_s == pytest.approx(1400 / steps * sum(fault.values()), rel=0.25)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_stalls_that_hit_all_ranks_alike_are_nobodys(job: Any, seed: int) -> None:
    """At random, one rank here and one there, as on shared cores: the next to stall is any."""
    dice = np.random.default_rng(seed)
    whose = dice.integers(0, 4, 2000)
    stalls = {rank: {"backward": 0.3} for rank in range(4)}
    made = job(ranks=4, steps=2000, step_s=STEP_S, seed=seed)
    seconds = made.seconds

    def dealt() -> np.ndarray:
        out: np.ndarray = seconds()
        for step in np.flatnonzero(dice.random(2000) < 0.1):
            out[step, 2, whose[step]] += stalls[int(whose[step])]["backward"]
        own = out[:, :4].sum(axis=1)
        out[:, -1] = own.max(axis=1, keepdims=True) + 0.05 * STEP_S
        out[:, -2] = out[:, -1] - own
        return out

    object.__setattr__(made, "seconds", dealt)
    assert [one for one in judge(made.batches()) if one.ranks] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("steps", "seconds"), [(100, 0.1), (500, 1.0)], ids=["too small to matter", "too seldom to be a habit"]
)
def test_what_costs_little_or_comes_seldom_is_not_named(job: Any, steps: int, seconds: float) -> None:
    made = job(ranks=4, steps=2000, step_s=STEP_S, fault={0: {"optimizer": seconds}}, when=every(steps))
    assert judge(made.batches()) == []


@pytest.mark.slow
def test_a_rank_that_is_slow_in_every_step_is_one_finding(job: Any) -> None:
    """While it lasts, and after it has recovered, when long ticks still hold what it cost."""
    made = job(steps=1500, step_s=STEP_S, fault={2: {"backward": 0.03}}, when=lambda step: 200 <= step < 700)
    findings = judge(made.batches())
    assert len(last(findings)) == 1
    assert findings[-1].state == "recovered"


@pytest.mark.slow
def test_stalls_that_end_are_over_and_others_are_another_finding(job: Any) -> None:
    made = job(
        steps=3000,
        step_s=STEP_S,
        fault={1: {"data": 0.3}},
        when=lambda step: step % 8 == 0 and (100 <= step < 900 or step >= 2000),
    )
    first, second = last(judge(made.batches())).values()
    assert (first.state, second.state) == ("recovered", "confirmed")
    assert first.summary.startswith("Rank 1 on node-0 is back among its peers at step ")
    assert 1900 <= second.first_step <= 2050


@pytest.mark.slow
def test_stalls_that_become_slowness_end_in_the_words_of_the_other_finding(job: Any) -> None:
    made = job(
        steps=2000,
        step_s=STEP_S,
        fault={1: {"data": 0.3}},
        when=lambda step: step >= 100 and (step % 8 == 0 or step > 900),
    )
    stalls, slow = last(judge(made.batches())).values()
    assert (stalls.state, slow.state) == ("recovered", "confirmed")
    assert stalls.summary.startswith("Rank 1 on node-0 is slow in most steps now, which another finding reports; ")
    assert stalls.replaced_by == slow.id
    assert slow.summary.startswith("Rank 1 on node-0 works ")


def tick(own: list[float], *, steps: int = 1, first: int = 0, each: float = 1.0) -> Tick:
    values = np.array(own)
    arrays = {name: values for name in ARRAYS if name not in ("parts", "seconds", "unshared")}
    return Tick(
        first_step=first,
        last_step=first + steps - 1,
        steps=steps,
        span_s=0.5,
        parts=np.tile(values, (len(PARTS), 1)),
        each=each,
        **arrays,
    )


def test_a_long_tick_is_the_mean_of_its_steps() -> None:
    """Weighed by steps, and as long as all of them; what is not known of a rank is not known of it."""
    long = LongTicks()
    for number in range(TOGETHER - 1):
        assert long.add(tick([1.0, 2.0], first=number)) is None
    made = long.add(tick([11.0, 12.0, 7.0], steps=TOGETHER - 1, first=TOGETHER - 1, each=3.0))
    assert made is not None
    assert (made.first_step, made.last_step, made.steps, made.span_s) == (0, 2 * TOGETHER - 3, 2 * TOGETHER - 2, 5.0)
    assert made.lasted_s == pytest.approx(0.5 * (TOGETHER - 1) + 1.5)
    assert made.own.tolist() == pytest.approx([6.0, 7.0, 7.0])
    assert made.parts[:, 1].tolist() == pytest.approx([7.0] * len(PARTS))
    assert made.unshared.size == 0


def test_a_rank_heard_in_less_than_half_of_the_steps_is_not_compared() -> None:
    """Nor one of which a peer is not known."""
    long, nan = LongTicks(), float("nan")
    for number in range(TOGETHER):
        made = long.add(tick([1.0, nan if number > 3 else 1.0, nan if number > 6 else 3.0]))
    assert made is not None
    assert made.own.tolist() == pytest.approx([1.0, nan, 3.0], nan_ok=True)
    assert long.add(tick([1.0])) is None
