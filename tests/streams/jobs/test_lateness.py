"""Is a rank late: over enough ticks, beyond its bar, in nearly all of them, and waited for."""

import numpy as np
import pytest

from streams.jobs.lateness import EXPLAINED, calm, late_ranks
from streams.jobs.lateness_bar import JUDGED
from streams.jobs.straggler_config import StragglerConfig
from streams.jobs.tick_history import KEPT_TICKS, TickHistory

RANKS = 8
CONFIG = StragglerConfig()


@pytest.fixture
def history(make_tick):
    """Ticks of a synchronous job in which rank 2 takes so many seconds more of an op; the others wait for it."""

    def made(more, op="forward", waits=True, noise=0.01):
        rng, kept = np.random.default_rng(0), TickHistory()
        for number, late_s in enumerate(more):
            phases = {"forward": 0.1 * (1 + noise * rng.standard_normal(RANKS)), "gc": np.zeros(RANKS)}
            phases[op][2] += late_s
            if op == "gc":
                phases["forward"][2] += late_s  # a collection lies inside a phase
            own = phases["forward"]
            phases["communication"] = own.max() - own + 0.005 if waits else np.full(RANKS, 0.05)
            kept.push(make_tick(number, **{name: values.tolist() for name, values in phases.items()}))
        return kept

    return made


def late(kept, ticks=10, **more):
    return np.flatnonzero(late_ranks(kept, ticks, CONFIG, **more).late).tolist()


def test_a_rank_that_is_a_quarter_slower_is_late(history):
    """It alone, by several times its bar, in its work as a whole."""
    seen = late_ranks(history([0.025] * 10), 10, CONFIG)
    assert np.flatnonzero(seen.late).tolist() == [2]
    assert seen.margin[2] > 2
    assert seen.part[2] == JUDGED.index("work")


@pytest.mark.parametrize("more", [[0.0] * 10, [0.003] * 10, [0.0] * 9 + [0.5], [0.06, 0.0] * 5])
def test_what_is_small_or_comes_and_goes_is_noise(history, more):
    """Under the least excess, one slow tick, or every other tick: nobody is late."""
    assert late(history(more)) == []


def test_a_rank_that_nobody_waits_for_holds_nobody_back(history):
    """Its peers must stand still for it."""
    assert late(history([0.025] * 10, waits=False)) == []


def test_too_few_ticks_are_no_look(history):
    """Nine ticks do not answer for ten."""
    assert late(history([0.025] * 9)) == []


def test_a_quiet_part_stands_out_where_the_whole_is_noisy(history):
    """Collections of 12 ms drown in noisy computing, and stand out on their own."""
    seen = late_ranks(history([0.012] * 10, op="gc", noise=0.04), 10, CONFIG)
    assert np.flatnonzero(seen.late).tolist() == [2]
    assert JUDGED[seen.part[2]] == "gc"


@pytest.mark.parametrize("seed", range(4))
def test_longer_computing_stands_out_where_waiting_for_processors_is_a_lottery(make_tick, seed):
    """On shared cores: twice the work of its peers, whose steps vary by more than that, and each rank waits in turn."""
    rng, kept = np.random.default_rng(seed), TickHistory()
    for number in range(10):
        served = 0.04 * (1 + 0.05 * rng.standard_normal(RANKS)) * np.where(np.arange(RANKS) == 2, 2, 1)
        waits = 0.02 * rng.gamma(2.0, 1.0, RANKS)
        own = served + waits
        phases = {"forward": own, "cpu_wait": waits, "communication": own.max() - own + 0.005}
        kept.push(make_tick(number, **{name: values.tolist() for name, values in phases.items()}))
    seen = late_ranks(kept, 10, CONFIG)
    assert np.flatnonzero(seen.late).tolist() == [2]
    assert JUDGED[seen.part[2]] == "served"


def test_a_rank_that_waits_less_for_its_processor_and_takes_as_long_is_not_late(make_tick):
    """Its work without the waiting is longer than its peers', but it holds nobody up."""
    kept = TickHistory()
    for number in range(10):
        waits = np.where(np.arange(RANKS) == 2, 0.0, 0.03)
        kept.push(make_tick(number, forward=[0.1] * RANKS, cpu_wait=waits.tolist(), communication=[0.01] * RANKS))
    assert late(kept) == []


def test_a_rank_whose_device_is_in_trouble_needs_no_such_bar(history):
    """What is known of it speaks for itself, and the times only have to agree."""
    kept = history([0.01] * 10, noise=0.04)
    assert late(kept) == []
    seen = late_ranks(kept, 10, CONFIG, lambda rank: rank == 2)
    assert np.flatnonzero(seen.late).tolist() == [2]
    assert seen.part[2] == EXPLAINED


def test_shares_beyond_single_precision_give_margins_that_are_numbers(history):
    """Steps of next to no time beside a clock that jumped: what is said of that rank can be written as JSON."""
    kept = history([0.025] * 10)
    state = kept.state()
    state["table"] = state["table"].copy()
    state["table"][:2, :, 2] = np.inf
    kept.load(state)
    for explained in (None, lambda rank: rank == 2):
        with np.errstate(invalid="ignore"):
            seen = late_ranks(kept, 10, CONFIG, explained)
        assert np.isfinite(seen.margin).all()
        assert set(np.flatnonzero(seen.late).tolist()) <= {2}


def test_the_onset_is_the_change_point(history):
    """One quiet tick in the middle does not end the run, and one odd tick before it does not lengthen it."""
    more = [0.0] * 10 + [0.025] * 12
    more[3], more[15] = 0.025, 0.0
    assert history(more).onset(2, 10, KEPT_TICKS) == 10


def test_calm_is_under_half_of_every_bar(history):
    """Back among its peers over the last ticks."""
    assert calm(history([0.025] * 10), 8, CONFIG, [0, 2]) == [True, False]
    assert calm(history([0.025] * 10 + [0.0] * 8), 8, CONFIG, [0, 2]) == [True, True]


def test_a_restored_history_answers_the_same(history):
    """State is data."""
    kept, again = history([0.025] * 12), TickHistory()
    again.load(kept.state())
    assert (late_ranks(again, 10, CONFIG).margin == late_ranks(kept, 10, CONFIG).margin).all()
    assert again.onset(2, 10, KEPT_TICKS) == kept.onset(2, 10, KEPT_TICKS)
