"""Cycles in signals: found where there is one, refused where there is none."""

from pathlib import Path

import numpy as np
import pytest

from forecaster.cycles import find_cycle, from_events, shuffling
from forecaster.cycles.autocorrelation import autocorrelation
from forecaster.cycles.chance import critical_sigmas
from forecaster.cycles.comb import comb
from forecaster.cycles.samples import flattened, on_grid
from forecaster.cycles.shuffling import ORDERS, shuffled
from forecaster.cycles.signals import LONGEST_SHUFFLED, strongest

DATA = Path(__file__).parent.parent / "data"


def dips(period, length, random, noise=0.1, width=0.2):
    """A signal at 1 that falls to 0 for a share ``width`` of each period."""
    return (np.arange(length) % period >= width * period) + noise * random.normal(size=length)


def column(name):
    return np.loadtxt(DATA / name, delimiter=",", skiprows=1)


@pytest.mark.parametrize("period", [4.3, 7.66, 12.5, 19.8, 61.7])
def test_a_period_need_not_be_a_whole_number_of_samples(period):
    """Within 2 % of the truth, whatever the fraction of a sample."""
    cycle = find_cycle(dips(period, 600, np.random.default_rng(1)), interval_s=2.0)
    assert cycle.period_s == pytest.approx(2 * period, rel=0.02)
    assert cycle.confidence > 0.7


def test_a_rare_short_dip_is_the_cycle():
    """One sample in sixty breaks the plateau, as an evaluation does; the amplitude is that of the noise times five."""
    cycle = find_cycle(dips(60, 900, np.random.default_rng(2), noise=0.2, width=1 / 60), interval_s=1.0)
    assert cycle.period_s == pytest.approx(60, rel=0.02)


def test_a_few_dips_in_a_long_record_are_the_cycle():
    """Four evaluations of one sample each in 900: rare as they are, they are no outliers."""
    record = 1 + 0.02 * np.random.default_rng(8).normal(size=900)
    record[[130, 353, 576, 799]] = 0.4
    assert find_cycle(record, interval_s=1.0).period_s == pytest.approx(223, rel=0.02)


def test_a_single_outlier_is_cut():
    """One absurd value, and a second, leave the cycle what it was."""
    record = dips(20.4, 600, np.random.default_rng(9))
    record[[100, 333]] = 1e6, -1e6
    assert find_cycle(record, interval_s=1.0).period_s == pytest.approx(20.4, rel=0.02)


def test_start_and_end_of_the_job_are_no_part_of_its_cycle():
    """Idle stretches and ramps around the work do not hide the cycle."""
    work = 7000 + 300 * dips(15.3, 300, np.random.default_rng(3))
    around = np.full(60, 2000.0)
    record = np.concatenate((around, np.linspace(2000, 7000, 8), work, np.linspace(7000, 2000, 8), around))
    assert find_cycle(record, interval_s=2.0).period_s == pytest.approx(30.6, rel=0.03)


def test_a_cycle_that_begins_late_is_found():
    """Evaluations start after the first half; the latest part of the record decides."""
    random = np.random.default_rng(4)
    early = 1 + 0.1 * random.normal(size=300)
    cycle = find_cycle(np.concatenate((early, dips(20.4, 300, random))), interval_s=1.0)
    assert cycle.period_s == pytest.approx(20.4, rel=0.02)


@pytest.mark.long
def test_what_a_later_part_shows_has_left_a_trace_in_the_whole_record():
    """The best of a part by chance is dropped where the whole record resembles itself as much half-way between."""
    later = 0
    for seed in range(40):
        noise = np.random.default_rng(seed).normal(size=300)
        look, tooth = strongest(on_grid(noise, 1.0, None))
        later += len(look.part) < 300
        (whole,) = comb(
            autocorrelation(flattened(on_grid(noise, 1.0, None), 450 / 3.5), np.ones(300, bool), 85),
            np.array([tooth.period]),
        )
        assert whole.sigmas > 0.5
    assert later > 5


@pytest.mark.long
@pytest.mark.parametrize(("samples", "noise", "orders"), [(900, 0.6, ORDERS), (LONGEST_SHUFFLED + 1, 0.8, 0)])
def test_only_a_record_of_some_length_is_tried_in_other_orders(samples, noise, orders, monkeypatch):
    """A long one would take as many times longer; faint dips are found in both."""
    tried = []
    monkeypatch.setattr(shuffling, "shuffled", lambda part, *_: tried.append(part) or shuffled(part, *_))
    record = dips(61, samples, np.random.default_rng(0), noise=noise, width=3 / 61)
    assert find_cycle(record, interval_s=1.0).period_s is not None
    assert len(tried) == orders


def test_gaps_are_gaps():
    """A fifth of the samples is missing, by time or as NaN; the period stays."""
    random = np.random.default_rng(5)
    values, times = dips(12.5, 600, random), np.arange(600) * 2.0
    kept = random.random(600) > 0.2
    assert find_cycle(values[kept], 2.0, times[kept]).period_s == pytest.approx(25, rel=0.02)
    assert find_cycle(np.where(kept, values, np.nan), 2.0).period_s == pytest.approx(25, rel=0.02)


def test_the_next_mark_is_due_where_the_cycle_says():
    """The dip comes again within a tenth of a period of the announced time."""
    record = np.where(np.arange(210) % 20 == 0, 0.0, 1.0)
    cycle = find_cycle(record, interval_s=3.0)
    assert cycle.period_s == pytest.approx(60, rel=0.02)
    assert cycle.next_s == pytest.approx(33, abs=6)


def test_slowing_cycles_are_told_by_their_drift():
    """Cycles grow from 20 to 24 samples; the part of the record that was used shows at least a quarter of it."""
    edges = np.cumsum(np.linspace(20, 24, 30))
    phase = np.interp(np.arange(600), np.concatenate(([0], edges)), np.arange(31))
    cycle = find_cycle(np.sin(2 * np.pi * phase), interval_s=1.0)
    assert 0.05 < cycle.drift_ratio < 0.2


def test_what_chance_makes_depends_on_length_memory_and_how_many_cycles_there_are():
    """Between the table's numbers there are lines, beyond them the nearest: never nothing, never without bound."""
    assert critical_sigmas(400, 0.6, 20.0) > critical_sigmas(400, 0.0, 20.0) > 3.5
    assert critical_sigmas(400, 0.6, 20.0) > critical_sigmas(400, 0.6, 4.0) > 3.5
    assert critical_sigmas(1, -1.0, 20.0) == critical_sigmas(60, 0.0, 20.0)
    assert critical_sigmas(10**9, 5.0, 20.0) == critical_sigmas(3000, 0.99, 20.0)
    assert critical_sigmas(300, 0.7, 4.0) == pytest.approx(critical_sigmas(301, 0.701, 4.0), abs=0.01)


@pytest.mark.long
@pytest.mark.parametrize("name", ["white", "walk", "memory", "trend", "steps", "rare dips"])
def test_noise_of_any_colour_has_no_period(name):
    """At most one in twenty of 40 records without a cycle gets one; of rare dips, which are few, one in ten."""
    false = 0
    for seed in range(40):
        random = np.random.default_rng(seed)
        noise = random.normal(size=400)
        record = {
            "white": noise,
            "walk": np.cumsum(noise),
            "memory": np.convolve(noise, 0.8 ** np.arange(30))[:400],
            "trend": np.linspace(0, 20, 400) + noise,
            "rare dips": noise - 30 * (random.random(400) < 0.01),
            "steps": np.repeat(random.normal(size=8), 50) + 0.1 * noise,
        }[name]
        false += find_cycle(record, interval_s=1.0).period_s is not None
    assert false <= (4 if name == "rare dips" else 2)


@pytest.mark.parametrize(
    "record", [[], [1.0] * 100, [1.0, 2.0] * 5, [np.nan] * 50, [np.inf] * 50, [0.0] * 99 + [1.0], list(range(300))]
)
def test_nothing_to_find_is_said(record):
    """Short, constant, unmeasured and straight records have no period, and the note says why."""
    cycle = find_cycle(np.array(record, dtype=float), interval_s=1.0)
    assert (cycle.period_s, cycle.confidence, cycle.next_s) == (None, 0.0, None)
    assert cycle.note


def test_a_cycle_shorter_than_the_samples_can_show_is_refused():
    """A wave of 1.02 s sampled every 2 s looks like a wave of 51 s; at 2.3 samples a cycle nothing is claimed."""
    record = dips(2.3, 400, np.random.default_rng(6), width=0.5)
    period_s = find_cycle(record, interval_s=2.0).period_s
    assert period_s is None or period_s > 3.6 * 2.0


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"values": np.ones((3, 3)), "interval_s": 1.0}, "values"),
        ({"values": np.ones(30), "interval_s": 0.0}, "interval_s"),
        ({"values": np.ones(30), "interval_s": float("nan")}, "interval_s"),
        ({"values": np.ones(30), "interval_s": 1.0, "times_s": np.arange(29.0)}, "times_s"),
        ({"values": np.ones(30), "interval_s": 1.0, "times_s": np.full(30, np.inf)}, "times_s"),
        ({"values": np.ones(30), "interval_s": 1.0, "times_s": np.zeros(30)}, "times_s"),
    ],
)
def test_arguments_that_make_no_sense_are_named(arguments, named):
    """The error names the argument."""
    with pytest.raises(ValueError, match=f"^{named}:"):
        find_cycle(**arguments)


def test_times_ages_apart_cost_no_memory():
    """One sample from long ago is left out; it does not stretch the grid over the years between."""
    values = dips(12.5, 400, np.random.default_rng(7))
    times = np.arange(400) * 2.0
    times[0] = -1e15
    assert find_cycle(values, 2.0, times).period_s == pytest.approx(25, rel=0.02)


@pytest.mark.parametrize("scale", [1e-200, 1e-9, 1e90])
def test_the_unit_does_not_matter(scale):
    """The same signal in any unit has the same period."""
    values = dips(12.5, 400, np.random.default_rng(9))
    assert find_cycle(scale * values, 1.0).period_s == pytest.approx(12.5, rel=0.02)


def test_the_signal_is_not_changed():
    """The caller's array stays as it was."""
    values = dips(12.5, 400, np.random.default_rng(8))
    before = values.copy()
    find_cycle(values, 1.0)
    assert np.array_equal(values, before)


def test_evaluations_of_a_real_run_show_in_its_power():
    """A BERT run on H100: the cycle in node power is that of the evaluations, within 2 %; so say its events."""
    seconds, watts = column("h100_bert_power.csv").T
    truth = float(np.median(np.diff(column("h100_bert_evaluations.csv"))))
    assert find_cycle(watts, 2.0, seconds).period_s == pytest.approx(truth, rel=0.02)
    assert from_events(column("h100_bert_evaluations.csv").tolist()).period_s == pytest.approx(truth, rel=0.001)
