"""The controller on made-up times: when it answers, when it does not, and that every rank would answer alike."""

import json
import math
import random
import re
from collections.abc import Sequence

import pytest

from paceline.balance.controller import Controller, ControllerConfig, Replan
from paceline.balance.plan import Plan, PlanError
from paceline.balance.split import SplitError
from tests.work_done import counted

SLOW = (1.0, 1.0, 0.5, 0.25)


def times(
    shares: Sequence[int], slow: Sequence[float], chance: random.Random | None = None, fixed: float = 0.0
) -> list:
    """Seconds a rank: its slowness for each sample and the fixed ones, with 3 % of noise if there is chance."""
    return [
        factor * (fixed + share) * (chance.gauss(1.0, 0.03) if chance else 1.0)
        for share, factor in zip(shares, slow, strict=True)
    ]


def follow(
    controller: Controller, slow: Sequence[float], steps: int, chance: random.Random | None = None
) -> list[Replan]:
    """Steps of a job that takes every answer at once; the answers."""
    answers = []
    for _ in range(steps):
        answer = controller.observe(controller.version, times(controller.shares, slow, chance, fixed=8.0))
        if answer:
            answers.append(answer)
            controller.adopt(Plan(controller.version + 1, 0, answer.shares))
    return answers


def four(**config: float) -> Controller:
    return Controller(ControllerConfig(total=256, **config), [64] * 4)  # type: ignore[arg-type]


def test_shares_become_those_of_the_speeds() -> None:
    """Also where a part of the step is fixed, which only changes of the shares can tell."""
    controller = four()
    answers = follow(controller, SLOW, 12)
    assert controller.shares == pytest.approx((28, 28, 64, 136), abs=3)
    assert len(answers) <= 2
    assert answers[0].reason == "speeds were measured"
    assert answers[0].predicted_s < answers[0].measured_s == pytest.approx(72.0)


def test_a_rank_that_fails_slow_is_relieved_after_two_steps_and_loaded_again_after_two() -> None:
    controller = four()
    follow(controller, SLOW, 30)
    before = controller.shares
    assert not follow(controller, (1.0, 1.0, 0.5, 0.75), 1)
    (answer,) = follow(controller, (1.0, 1.0, 0.5, 0.75), 1)
    assert answer.shares[3] < before[3] / 1.8
    assert re.match(r"rank 3 became (2\.9|3\.0). times slower", answer.reason)
    follow(controller, (1.0, 1.0, 0.5, 0.75), 28)
    assert not follow(controller, SLOW, 1)
    assert re.match(r"rank 3 became (2\.9|3\.0). times faster", follow(controller, SLOW, 1)[0].reason)


def test_one_slow_step_changes_nothing() -> None:
    controller = four()
    follow(controller, SLOW, 30)
    assert not follow(controller, (1.0, 1.0, 0.5, 1.0), 1)
    assert not follow(controller, SLOW, 30)


@pytest.mark.long
def test_equal_ranks_stay_equal_in_500_noisy_steps() -> None:
    for seed in range(5):
        assert not follow(four(), (1.0,) * 4, 500, random.Random(seed))


@pytest.mark.slow
@pytest.mark.parametrize("slower", [1.6, 0.6])
def test_what_slows_all_ranks_alike_moves_no_work(slower: float) -> None:
    """As a machine that they share does, for a while and by a noise of its own: no rank is unlike the others."""
    for seed in range(20):
        controller, chance = four(), random.Random(seed)
        for step in range(300):
            common = (slower if step // 40 % 2 else 1.0) * chance.gauss(1.0, 0.15)
            seen = [common * time_s for time_s in times(controller.shares, (1.0,) * 4, chance)]
            assert controller.observe(0, seen) is None
    levels = [level for level in controller._measured.levels() if level is not None]
    assert 0.5 < min(levels) < max(levels) < 1.7


@pytest.mark.parametrize("world", [2, 3])
def test_of_few_ranks_the_one_that_fails_slow_is_told_from_the_rest(world: int) -> None:
    """Of two it is half of all, and what both have in common lies between them; with noise of 3 %."""
    controller, chance = Controller(ControllerConfig(total=64 * world), [64] * world), random.Random(2)
    follow(controller, (1.0,) * world, 40, chance)
    assert controller.shares == (64,) * world
    answers = follow(controller, (*(1.0,) * (world - 1), 3.0), 8, chance)
    total, fixed = 64 * world, 8.0
    least_s = (total + world * fixed) / (world - 1 + 1 / 3)
    slowest_s = max(times(controller.shares, (*(1.0,) * (world - 1), 3.0), fixed=fixed))
    assert slowest_s < 1.15 * least_s
    assert 0.5 * slowest_s < answers[-1].predicted_s < 2 * slowest_s


def test_two_quick_steps_by_chance_load_nobody() -> None:
    """With noise of a tenth of a step; a rank that stays quick is loaded."""
    controller, chance = four(), random.Random(5)
    noisy = [[factor * chance.gauss(1.0, 0.1) for factor in times((64,) * 4, (1.0,) * 4)] for _ in range(60)]
    for seen in noisy[:50]:
        assert controller.observe(0, seen) is None
    for seen in noisy[50:53]:
        assert controller.observe(0, [0.6 * seen[0], *seen[1:]]) is None
    answers = [controller.observe(0, [0.3 * seen[0], *seen[1:]]) for seen in noisy[53:]]
    assert any(answers)


def test_a_rank_that_drifts_is_followed() -> None:
    """Half a percent a step, which no two steps tell apart from noise."""
    controller, chance = four(), random.Random(1)
    for step in range(120):
        follow(controller, (1.0 + 0.005 * step, 1.0, 1.0, 1.0), 1, chance)
    assert controller.shares[0] < 50


def test_first_steps_of_a_plan_do_not_count() -> None:
    """They are ten times as long here, on one rank."""
    controller = four(settle=2)
    for _ in range(2):
        assert controller.observe(0, [640.0, 64.0, 64.0, 64.0]) is None
    assert not follow(controller, (1.0,) * 4, 20)


def test_without_a_change_worth_it_nothing_is_answered() -> None:
    """A gain of 3 % is asked for at least."""
    controller = four()
    assert not follow(controller, (1.0, 1.0, 1.0, 1.02), 100)
    assert four(least_gain=10.0).observe(0, [1.0, 1.0, 1.0, 3.0]) is None


def test_observations_of_unknown_plans_are_passed_over() -> None:
    controller = four()
    state = controller.snapshot()
    for version in (1, -1, 99):
        assert controller.observe(version, [1.0, 9.0, 9.0, 9.0]) is None
    assert controller.observe(0, [1.0, 9.0]) is None
    assert controller.snapshot() == state


def test_batches_handed_out_before_a_plan_count_at_their_own_shares() -> None:
    """Eight more steps under the old plan, as with prefetching, bring no other plan than the one that was made."""
    controller = four(settle=0)
    slow = (1.0, 1.0, 2.0, 2.0)
    answer = controller.observe(0, times([64] * 4, slow))
    assert answer is not None
    controller.adopt(Plan(1, 9, answer.shares))
    for _ in range(8):
        assert controller.observe(0, times([64] * 4, slow)) is None
    assert controller.observe(1, times(answer.shares, slow)) is None


def test_an_answer_is_given_until_a_plan_is_adopted() -> None:
    controller = four(settle=0)
    answers = [controller.observe(0, times([64] * 4, SLOW)) for _ in range(3)]
    assert None not in answers
    controller.adopt(Plan(5, 3, (28, 28, 64, 136)))
    assert (controller.version, controller.shares) == (5, (28, 28, 64, 136))
    assert controller.observe(5, times(controller.shares, SLOW, fixed=8.0)) is None


@pytest.mark.parametrize("nothing", [None, math.nan, 0.0, -1.0, math.inf, 1e300, -math.inf])
def test_what_is_no_time_is_not_measured(nothing: float | None) -> None:
    """The others are balanced around the rank, which keeps its share."""
    controller = four(settle=0)
    answer = controller.observe(0, [*times([64] * 3, (1.0, 1.0, 3.0)), nothing])
    assert answer is not None
    assert answer.shares[3] == 64
    assert sum(answer.shares) == 256
    assert answer.shares[2] < 40
    assert four(settle=0).observe(0, [nothing] * 4) is None


def test_the_smallest_time_is_a_time() -> None:
    answer = four(settle=0).observe(0, [5e-324, 1.0, 1.0, 1.0])
    assert answer is not None
    assert answer.shares == (226, 10, 10, 10)


def test_a_rank_that_vanishes_keeps_its_share_and_comes_back() -> None:
    """Its speed is believed for 20 observations more; then nothing is known of it, until it is heard again."""
    controller = four()
    follow(controller, (1.0,) * 4, 10)
    for _ in range(21):
        assert controller.observe(0, [72.0, 72.0, 72.0, None]) is None
    answer = None
    for _ in range(3):
        answer = controller.observe(0, [72.0, 72.0, 216.0, None]) or answer
    assert answer is not None
    assert answer.shares[3] == 64
    answer = controller.observe(0, [72.0, 72.0, 216.0, 72.0])
    assert answer is not None
    assert answer.shares[3] > 64


def test_a_share_changes_by_the_reach_at_most() -> None:
    answer = four(settle=0, reach=2).observe(0, [1.0, 100.0, 100.0, 100.0])
    assert answer is not None
    assert answer.shares[0] == 128


def test_a_rank_that_ran_out_of_memory_is_relieved_at_once() -> None:
    """Before anything is measured, too; and its cap holds from then on."""
    controller = four()
    answer = controller.cap(1, 40)
    assert answer is not None
    assert (answer.shares, answer.reason) == ((72, 40, 72, 72), "rank 1 can hold 40 samples")
    assert controller.observe(0, [1.0] * 4) == answer
    controller.adopt(Plan(1, 4, answer.shares))
    follow(controller, (1.0, 0.1, 1.0, 1.0), 30)
    assert controller.shares[1] == 40
    assert controller.cap(1, 50) is None
    assert controller.cap(0, 1000) is None


def test_a_batch_that_fits_nowhere_is_refused_and_nothing_has_changed() -> None:
    controller = Controller(ControllerConfig(total=256), [64] * 4, [64, 64, 64, 64])
    state = controller.snapshot()
    with pytest.raises(SplitError, match="can take at most 252 samples and the global batch is 256"):
        controller.cap(2, 60)
    for most in (0, -5):
        with pytest.raises(SplitError, match="must take 1 and can take"):
            controller.cap(2, most)
    assert controller.snapshot() == state
    assert controller.observe(0, [1.0] * 4) is None


def test_limits_of_all_ranks_at_once_hold_as_those_of_one_after_the_other() -> None:
    """The answer is the last one's; what says nothing of a rank leaves its limit as it was."""
    one_by_one, at_once = four(), four()
    answers = [one_by_one.cap(rank, most) for rank, most in ((1, 40), (3, 50))]
    assert at_once.hold([None, 40, None, 50]) == answers[-1] is not None
    assert at_once.snapshot() == one_by_one.snapshot()
    assert at_once.hold([None, 60, None, None]) == answers[-1]
    assert at_once.snapshot() == one_by_one.snapshot()


@pytest.mark.parametrize("count", [0, 3, 5])
def test_limits_that_are_not_one_a_rank_are_refused(count: int) -> None:
    """They come from outside."""
    controller = four()
    state = controller.snapshot()
    with pytest.raises(SplitError, match=f"{count} limits for 4 ranks"):
        controller.hold([8] * count)
    assert controller.snapshot() == state


@pytest.mark.slow
def test_limits_and_speeds_of_thousands_of_ranks_take_work_by_the_rank() -> None:
    """One of them does not fit, and each looks faster or slower than the others."""
    ranks = 4096
    controller = Controller(ControllerConfig(total=8 * ranks, settle=0), [8] * ranks)
    with counted(200 * ranks):
        assert controller.hold([7, *[9] * (ranks - 1)]) is not None
    fresh = Controller(ControllerConfig(total=8 * ranks, settle=0), [8] * ranks)
    for _ in range(4):
        with counted(200 * ranks):
            answer = fresh.observe(0, [1.0 + (rank % 7 == 0) for rank in range(ranks)])
    assert answer is not None


def test_a_batch_that_may_shrink_shrinks_to_what_fits() -> None:
    controller = Controller(ControllerConfig(total=256, conserve=False, flex=0.02), [64] * 4, [64, 64, 64, 64])
    answer = controller.cap(2, 60)
    assert answer is not None
    assert answer.shares == (64, 64, 60, 64)
    controller.adopt(Plan(1, 0, answer.shares))
    assert not follow(controller, (1.0,) * 4, 20)


def test_shares_stay_in_tiles() -> None:
    controller = four(tile=8)
    follow(controller, SLOW, 20)
    assert all(share % 8 == 0 for share in controller.shares)
    assert sum(controller.shares) == 256


def test_a_world_of_one_has_nothing_to_change() -> None:
    controller = Controller(ControllerConfig(total=8), [8])
    assert [controller.observe(0, [value]) for value in (1.0, 3.0, 9.0, 0.1, None)] == [None] * 5


def test_a_plan_of_another_run_is_refused() -> None:
    controller = four()
    for shares in ((128, 128), (64, 64, 64, 65), (0, 64, 64, 128)):
        with pytest.raises(PlanError):
            controller.adopt(Plan(1, 0, shares))
    assert controller.version == 0


def test_an_older_plan_changes_nothing() -> None:
    controller = four()
    controller.adopt(Plan(2, 0, (32, 96, 64, 64)))
    controller.adopt(Plan(1, 0, (64, 64, 64, 64)))
    assert (controller.version, controller.shares) == (2, (32, 96, 64, 64))


def test_first_shares_that_are_none_are_refused() -> None:
    for shares in ([64] * 3, [0, 64, 64, 128], []):
        with pytest.raises(PlanError):
            Controller(ControllerConfig(total=256), shares)
    with pytest.raises(SplitError, match="2 limits for 4 ranks"):
        Controller(ControllerConfig(total=256), [64] * 4, [None, None])


def test_a_batch_that_is_no_multiple_of_the_tile_is_refused_at_once() -> None:
    """Also where so many may be left out that shares in tiles exist."""
    with pytest.raises(SplitError, match="250 is no multiple of the tile 8"):
        Controller(ControllerConfig(total=250, tile=8, conserve=False, flex=0.05), [64, 64, 64, 56])


def test_continued_from_a_snapshot_it_answers_as_if_never_stopped() -> None:
    """At every step of a run with a fail-slow, a cap and missing times, through JSON."""

    def restarted(controller: Controller) -> Controller:
        other = four()
        other.restore(json.loads(json.dumps(controller.snapshot())))
        return other

    def run(again: bool) -> list[object]:
        chance, controller, heard = random.Random(7), four(), []
        for step in range(80):
            slow = (1.0, 1.0, 0.5, 0.75 if 30 <= step < 50 else 0.25)
            seen: list[float | None] = list(times(controller.shares, slow, chance, fixed=8.0))
            if step % 7 == 0:
                seen[1] = None
            answer = controller.observe(controller.version, seen) if step != 60 else controller.cap(2, 50)
            heard.append(answer)
            if answer:
                controller.adopt(Plan(controller.version + 1, step + 1, answer.shares))
            if again:
                controller = restarted(controller)
        return [*heard, controller.snapshot()]

    assert run(again=True) == run(again=False)


def test_the_snapshot_stops_growing() -> None:
    controller, chance = four(), random.Random(3)
    sizes = []
    for round_ in range(40):
        follow(controller, [chance.choice([0.5, 1.0, 2.0]) for _ in range(4)], 8, chance)
        sizes.append(len(json.dumps(controller.snapshot())))
        assert round_ < 20 or sizes[-1] < 1.2 * max(sizes[:20])


def test_ranks_in_another_order_get_the_same_shares_in_that_order() -> None:
    chance = random.Random(11)
    slow = [chance.uniform(0.5, 2.0) for _ in range(24)]
    order = chance.sample(range(24), 24)
    straight = Controller(ControllerConfig(total=24 * 64), [64] * 24)
    turned = Controller(ControllerConfig(total=24 * 64), [64] * 24)
    for step in range(60):
        if step == 30:
            slow[5] *= 3
        seen = times(straight.shares, slow, chance, fixed=6.0)
        answer = straight.observe(straight.version, seen)
        other = turned.observe(turned.version, [seen[place] for place in order])
        assert (answer is None) == (other is None)
        if answer and other:
            assert list(other.shares) == [answer.shares[place] for place in order]
            assert (other.predicted_s, other.measured_s) == (answer.predicted_s, answer.measured_s)
            straight.adopt(Plan(straight.version + 1, 0, answer.shares))
            turned.adopt(Plan(turned.version + 1, 0, other.shares))
    assert straight.version >= 2


def test_no_function_is_used_whose_last_bit_differs_between_machines() -> None:
    """Ranks run on unlike processors; sums, quotients and square roots are the same on all."""
    import ast
    from pathlib import Path

    import paceline.balance.controller

    folder = Path(paceline.balance.controller.__file__).parent
    for name in ("controller", "replan", "measured", "speeds", "fixed_cost", "split", "worker", "plan"):
        tree = ast.parse((folder / f"{name}.py").read_text(encoding="utf-8"))
        used = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and ast.unparse(n.value) == "math"}
        assert used <= {"fsum", "sqrt", "inf"}, name
        powers = [n for n in ast.walk(tree) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Pow)]
        assert all(isinstance(n.left, ast.Constant) and isinstance(n.right, ast.Constant) for n in powers), name
