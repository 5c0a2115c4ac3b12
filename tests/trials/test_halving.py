"""Successive halving: who stays, who is out, in which order; and the same after any interruption."""

from itertools import pairwise
from random import Random

import pytest

from trials.halving import Config, Halving, Place, Run


def config(costs, rungs=3, eta=2.0, keep=1, repeats=2, seed=7):
    return Config(costs, rungs, eta, keep, repeats, seed)


FOUR = config({number: (number,) for number in (1, 2, 3, 4)})


class Machine:
    """Runs take ``seconds[placement]`` a step, with noise; the first ``fails`` runs of a placement crash."""

    def __init__(self, seconds, noise=0.01, fails=None, samples=8.0):
        self.seconds, self.noise, self.fails, self.samples = seconds, noise, dict(fails or {}), samples

    def run(self, place):
        if self.fails.get(place.placement, 0) > 0:
            self.fails[place.placement] -= 1
            return Run(place, "crashed")
        noise = Random(str(place))
        mean = self.seconds[place.placement]
        return Run(place, "measured", tuple(mean * (1 + noise.gauss(0, self.noise)) for _ in range(20)), self.samples)


def finished(halving, machine):
    while (place := halving.next()) is not None:
        halving.update(machine.run(place))
    return halving


def test_the_fastest_is_found():
    """Half of them leave on each rung, the slowest first."""
    done = finished(Halving(FOUR), Machine({1: 0.4, 2: 0.3, 3: 0.2, 4: 0.1}))

    assert done.done
    assert done.winners() == [4]
    assert [done.out(number) for number in (1, 2, 3)] == ["slower"] * 3
    assert [done.reached(number) for number in (1, 2, 3, 4)] == [0, 0, 1, 1]
    assert done.estimate(4).value == pytest.approx(80, rel=0.02)


@pytest.mark.long
def test_equals_stay_and_the_one_that_costs_least_wins():
    """Nobody is dropped for noise: all run to the end, and are told as ties."""
    done = finished(Halving(FOUR), Machine(dict.fromkeys((1, 2, 3, 4), 0.1), noise=0.1))

    assert {done.reached(number) for number in (1, 2, 3, 4)} == {2}
    assert done.winners() == [1, 2, 3, 4]


def test_as_many_stay_as_are_to_be_kept():
    """``keep`` is the least."""
    kept = finished(Halving(config(FOUR.costs, keep=3)), Machine({1: 0.4, 2: 0.3, 3: 0.2, 4: 0.1}))

    assert kept.alive == [2, 3, 4]
    assert kept.rung == 0


def test_repeats_are_interleaved_in_an_order_of_their_own():
    """Every placement runs once before one runs a second time; another seed, another order."""
    queue, halving = [], Halving(FOUR)
    while (place := halving.next(queue)) is not None:
        queue.append(place)

    assert [place.repeat for place in queue] == [0] * 4 + [1] * 4
    orders = [tuple(place.placement for place in queue if place.repeat == repeat) for repeat in (0, 1)]
    assert {tuple(sorted(order)) for order in orders} == {(1, 2, 3, 4)}
    firsts = {Halving(config(FOUR.costs, seed=seed)).next().placement for seed in range(20)}
    assert firsts == {1, 2, 3, 4}


def test_a_drift_of_the_machine_meets_all_alike():
    """Though the machine halves its speed in the middle of the rung, the order stays right."""
    machine, halving = (
        Machine({1: 0.130, 2: 0.120, 3: 0.110, 4: 0.100}, noise=0.001),
        Halving(config(FOUR.costs, rungs=1)),
    )
    for told in range(8):
        run = machine.run(halving.next())
        halving.update(Run(run.place, "measured", tuple(one * (1 + (told >= 4)) for one in run.blocks_s), 8.0))

    assert [number for number, _ in halving.ranking()] == [4, 3, 2, 1]


def test_a_failure_is_tried_once_more():
    """At its place in the order, at once; it costs nothing else."""
    halving = Halving(FOUR)
    first = halving.next()
    halving.update(Run(first, "crashed"))

    assert halving.next() == Place(first.rung, first.repeat, first.placement, 1)
    assert finished(halving, Machine({1: 0.4, 2: 0.3, 3: 0.2, 4: 0.1})).winners() == [4]
    assert len(halving.failures(first.placement)) == 1


@pytest.mark.parametrize("outcome", ["crashed", "hung", "out_of_memory", "gone"])
def test_twice_is_out(outcome):
    """With what it failed by, and none of its further runs is asked for."""
    halving = Halving(FOUR)
    first = halving.next()
    halving.update(Run(first, outcome))
    halving.update(Run(halving.next(), outcome))

    assert halving.out(first.placement) == outcome
    done = finished(halving, Machine({1: 0.4, 2: 0.3, 3: 0.2, 4: 0.1}))
    assert sum(run.place.placement == first.placement for run in done.snapshot()) == 2


def test_all_fail():
    """It ends, and nobody has won."""
    done = finished(Halving(FOUR), Machine({}, fails=dict.fromkeys((1, 2, 3, 4), 9)))

    assert (done.done, done.winners(), done.ranking()) == (True, [], [])


def test_too_few_blocks_are_no_measurement():
    """A run that tells less than an interval needs is a crash."""
    halving = Halving(FOUR)
    first = halving.next()
    for _ in range(2):
        halving.update(Run(halving.next(), "measured", (0.1,) * 3, 8.0))

    assert halving.out(first.placement) == "crashed"


def test_one_alone_is_measured_once():
    """One rung, and it has won."""
    done = finished(Halving(config({5: (1,)})), Machine({5: 0.1}))

    assert (done.winners(), done.rung, len(done.snapshot())) == ([5], 0, 2)


def test_none_is_done():
    """Nothing to ask for."""
    assert (Halving(config({})).next(), Halving(config({})).done) == (None, True)


def test_a_run_that_was_not_asked_for_is_refused():
    """Told twice, of another rung, or of a placement that is not there."""
    halving = Halving(FOUR)
    run = Machine(dict.fromkeys((1, 2, 3, 4), 0.1)).run(halving.next())
    halving.update(run)

    for strange in (
        run,
        Run(Place(1, 0, 1), "crashed"),
        Run(Place(0, 0, 9), "crashed"),
        Run(Place(0, 0, 1, 1), "gone"),
    ):
        with pytest.raises(ValueError, match="was not asked for"):
            halving.update(strange)


def test_what_runs_beside_is_not_asked_for_again():
    """And what its placement went out from meanwhile is not wanted any more."""
    halving = Halving(config({1: (1,), 2: (1,)}))
    running = []
    while (place := halving.next(running)) is not None:
        running.append(place)
    mine = [place for place in running if place.placement == 1]
    halving.update(Run(mine[0], "hung"))
    halving.update(Run(halving.next([place for place in running if place.placement == 2] + mine[1:]), "hung"))

    assert not halving.asks(mine[1])
    assert all(halving.asks(place) for place in running if place.placement == 2)


def test_samples_of_all_or_steps():
    """Where one run does not tell its samples a step, all are counted in steps."""
    halving = Halving(config({1: (1,), 2: (1,)}, rungs=1, repeats=1))
    for _ in range(2):
        place = halving.next()
        halving.update(Run(place, "measured", (0.1,) * 10, 8.0 if place.placement == 1 else None))

    assert not halving.counts_samples
    assert {interval.value for _, interval in halving.ranking()} == {10.0}


def test_earlier_rungs_count():
    """A placement's estimate is of all of its runs."""
    machine = Machine({1: 0.4, 2: 0.3, 3: 0.2, 4: 0.1})
    halving, widths = Halving(config(FOUR.costs, keep=2, eta=1.5)), []
    for _ in range(8):
        halving.update(machine.run(halving.next()))
    widths = [halving.estimate(4)]
    finished(halving, machine)
    widths.append(halving.estimate(4))

    assert all(before != after for before, after in pairwise(widths))


@pytest.mark.slow
@pytest.mark.parametrize("fails", [{}, {2: 1, 3: 2}, {4: 1, 1: 2}])
def test_from_any_point_of_its_journal_it_goes_on_the_same(fails):
    """The runs that were told are its whole state."""
    machine = Machine({1: 0.14, 2: 0.13, 3: 0.12, 4: 0.11}, noise=0.1, fails=fails)
    whole = finished(Halving(FOUR), machine)
    runs = whole.snapshot()

    for cut in range(len(runs) + 1):
        restored = Halving.restore(FOUR, runs[:cut])
        for run in runs[cut:]:
            assert restored.next() == run.place
            restored.update(run)
        assert restored.next() is None
        assert (restored.winners(), restored.ranking()) == (whole.winners(), whole.ranking())
        assert [restored.out(number) for number in FOUR.costs] == [whole.out(number) for number in FOUR.costs]
