"""Uneven stages, uneven sequences and slow input: windows of ticks to verdicts that accuse nobody."""

import numpy as np
import pytest

from streams.jobs import data_bound, data_imbalance, stage_imbalance
from streams.jobs.cohorts import Cohorts
from streams.jobs.structure import Structure, StructureConfig

#: Windows are of ten ticks: suspected in the second, confirmed in the third, over two windows after the last.
TOLD = [(19, "suspected"), (29, "confirmed")]
CONFIG = StructureConfig()


@pytest.fixture
def run(make_step, make_tick):
    """Judge steps of 0.1 s; (kind, step, state) of what is told, and the last episode of each kind."""

    def judge(phases_of, steps=40, cohorts=None, accused=frozenset(), structure=None, start=0):
        cohorts = cohorts or Cohorts()
        structure = structure or Structure(CONFIG, cohorts)
        told, last = [], {}
        for number in range(start, start + steps):
            phases = {name: list(values) for name, values in phases_of(number).items()}
            structure.add(*structure.sums_of([make_step(number, **phases)]))
            episodes = structure.update(make_tick(number, cohorts, **phases), set(accused), has_loader=True)
            for kind, found in zip(("stage", "data", "input"), episodes or ([], None, None), strict=True):
                for episode in found if isinstance(found, list) else [found] if found else []:
                    told.append((kind, number, episode.state))
                    last[kind] = episode
        return told, last

    return judge


def stages():
    cohorts = Cohorts()
    cohorts.place([0, 1, 2, 3], [0, 0, 1, 1], [0, 1, 0, 1])
    return cohorts


def even(number):
    return {"forward": [0.03] * 4, "backward": [0.06] * 4, "data": [0.005] * 4}


def longer_stage(number):
    return {"forward": [0.03, 0.03, 0.05, 0.05], "backward": [0.06] * 4}


def uneven_sequences(number):
    scale = 1 + 0.4 * np.random.default_rng(number).uniform(-1, 1, 4)
    return {"forward": 0.03 * scale, "backward": 0.06 * scale}


def slow_input(number):
    return {"forward": [0.03] * 4, "backward": [0.03] * 4, "data": [0.06, 0.07, 0.06, 0.07]}


def test_an_even_job_is_no_news(run):
    """Nothing is told of equal stages, equal batches and quick input."""
    assert run(even, cohorts=stages())[0] == []


def test_a_longer_stage_is_told_with_its_size(run):
    """Two stages of 110 and 90 ms: ten percent over the mean."""
    told, last = run(longer_stage, cohorts=stages())
    assert [one[1:] for one in told if one[0] == "stage"] == TOLD
    words = stage_imbalance.said(last["stage"], CONFIG.stages)
    assert (words.subject.stage, words.subject.ranks) == (1, ())
    assert "Stage 1 computes 110 ms a step where the stages' mean is 100 ms (+10%)" in words.summary


def test_a_stage_with_only_accused_ranks_says_nothing(run):
    """All that is known of it is that its ranks are slow by themselves."""
    assert run(longer_stage, cohorts=stages(), accused={2, 3})[0] == []


def test_sequences_of_unequal_length_are_told_with_their_spread(run):
    """Forward and backward vary together within every rank."""
    told, last = run(uneven_sequences)
    assert [one[1:] for one in told if one[0] == "data"] == TOLD
    assert last["data"].measured.alike > 0.99
    assert "their sequences differ in length" in data_imbalance.said(last["data"], CONFIG.data).summary


def test_noise_of_the_two_passes_is_no_matter_of_the_data(run):
    """What varies in one pass and not in the other is no length."""

    def noisy(number):
        rng = np.random.default_rng(number)
        return {"forward": 0.03 * (1 + 0.3 * rng.random(4)), "backward": 0.06 * (1 + 0.3 * rng.random(4))}

    assert run(noisy)[0] == []


def test_input_that_every_rank_waits_for_is_told(run):
    """The rank that spends least on its input decides."""
    told, last = run(slow_input)
    assert [one[1:] for one in told if one[0] == "input"] == TOLD
    assert last["input"].measured.least_share == pytest.approx(0.5)
    assert "Every rank spends 50% or more of its step on input" in data_bound.said(last["input"], CONFIG.input).summary


def test_one_rank_with_quick_input_clears_the_job(run):
    """The others may be waiting for it."""

    def one_quick(number):
        return slow_input(number) | {"data": [0.01, 0.07, 0.06, 0.07]}

    assert run(one_quick)[0] == []


def test_it_is_over_two_windows_after_the_last(run):
    """Recovery takes windows on end, too."""
    structure = Structure(CONFIG, Cohorts())
    run(slow_input, structure=structure)
    assert run(even, structure=structure, start=40, steps=20)[0] == [("input", 59, "recovered")]


def test_restored_in_a_window_it_goes_on(run):
    """State is data, also of the window that is being summed."""
    structure, again = Structure(CONFIG, Cohorts()), Structure(CONFIG, Cohorts())
    run(slow_input, structure=structure, steps=25)
    again.load(structure.state())
    told = run(slow_input, structure=again, start=25, steps=15)[0]
    assert told == [("input", 29, "confirmed")] == run(slow_input, structure=structure, start=25, steps=15)[0]
