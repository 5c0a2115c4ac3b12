"""Another cut for a pipeline: in whole layers where the job tells of them, in shares where not; gain and break-even."""

import msgspec
import pytest

from paceline.events import Evidence
from streams.advice.stage_cut import layers_of, stage_cut


@pytest.fixture
def uneven(make_finding):
    """A finding of stages that take so many seconds a step."""

    def make(*took_s, microbatches=8, confidence=0.9):
        told = [(f"stage_{index}_compute", own_s) for index, own_s in enumerate(took_s)]
        told += [("microbatches", microbatches)] if microbatches else []
        evidence = [Evidence(name=name, value=value, unit="s", peers=None, rule="") for name, value in told]
        made = make_finding("stage_imbalance", "pipeline_stage", stage=0, ranks=[], confidence=confidence)
        return msgspec.structs.replace(made, evidence=evidence)

    return make


def cut(finding, labels=None, step_s=1.0, restart_s=300.0):
    return stage_cut(finding, labels or {}, step_s, restart_s, 0.5)


def test_whole_layers_where_the_job_tells_them(uneven):
    """Four layers of 0.1 s and twelve of 0.05 s: no cut of them in this order is better than 0.3 s for the longest.

    A micro-batch is an eighth: a step takes seven eighths of the longest stage and an eighth of all, 1 s.
    """
    made = cut(uneven(0.4, 0.2, 0.2, 0.2), {"layers": "4,4,4,4"})
    assert made.words[0].startswith("Cut it into 2, 4, 5, 5 layers a stage in place of 4, 4, 4, 4;")
    assert made.ratio == pytest.approx((0.4 * 7 / 8 + 1 / 8) / (0.3 * 7 / 8 + 1 / 8) - 1)
    assert made.low < made.ratio < made.high


def test_shares_where_nobody_tells_layers(uneven):
    """Of 0.4, 0.2 and 0.3 s each should have 0.3: a quarter of stage 0 goes on, and nothing over the second border."""
    made = cut(uneven(0.4, 0.2, 0.3))
    assert "Move about 25% of stage 0's layers to stage 1:" in made.words[0]
    assert "stage 2" not in made.words[0]
    assert made.ratio == pytest.approx((0.4 * 7 / 8 + 0.9 / 8) / (0.3 * 10 / 8) - 1)
    assert made.low == pytest.approx(made.ratio * 0.9 * 0.5)


def test_what_goes_back_is_said_of_the_stage_that_gives(uneven):
    """The last stage is the longest: it gives a third, and the one before hands a part of it on."""
    words = cut(uneven(0.2, 0.2, 0.5)).words[0]
    assert "about 50% of stage 1's layers to stage 0; about 40% of stage 2's layers to stage 1" in words


def test_without_microbatches_the_interval_is_wider(uneven):
    """At worst as few as stages, at best endlessly many."""
    known, unknown = cut(uneven(0.4, 0.2, 0.3)), cut(uneven(0.4, 0.2, 0.3, microbatches=0))
    assert unknown.ratio < known.ratio < unknown.high == pytest.approx(1 / 3)
    assert "endlessly many at best" in unknown.basis


def test_a_restart_pays_after_what_it_costs_over_what_a_step_saves(uneven):
    """Steps of 1 s become a fifth faster: each saves a sixth of a second, so 300 s take 1800 steps."""
    made = cut(uneven(0.4, 0.2, 0.3))
    saved_s = made.ratio / (1 + made.ratio)
    assert f"has paid after {300 / saved_s:.0f} steps, {300 / made.ratio / 3600:.1f} h" in made.words[1]
    assert "restart of 300 s, which is an assumption" in made.words[1]
    assert "has paid after 0 steps" in cut(uneven(0.4, 0.2, 0.3), restart_s=0.0).words[1]
    assert "has paid after" in cut(uneven(0.4, 0.2, 0.3), step_s=0.0).words[1]


def test_the_cut_that_is_there_is_not_suggested(uneven):
    """One large layer cannot be divided."""
    assert cut(uneven(0.4, 0.2), {"layers": "1,1"}) is None
    assert cut(uneven(0.3, 0.3)) is None


@pytest.mark.parametrize(
    "took_s", [(), (0.4,), (0.4, 0.0), (0.4, -1.0), (0.4, float("nan")), (0.4, float("inf")), (1e9, 0.2)]
)
def test_stages_that_are_none_get_no_cut(uneven, took_s):
    assert cut(uneven(*took_s)) is None


@pytest.mark.parametrize("microbatches", [float("nan"), -3, 1, 1e12])
def test_a_number_of_microbatches_that_cannot_be_is_none_told(uneven, microbatches):
    assert cut(uneven(0.4, 0.2, microbatches=microbatches)) == cut(uneven(0.4, 0.2, microbatches=0))


@pytest.mark.parametrize(
    "told", ["", "4", "4,4,4", "4,0", "4,-1", "4,4.0", "4,x", "4,9999", "\uff14,4", "4," + "4" * 50]
)
def test_layers_that_cannot_be_are_not_believed(told):
    assert layers_of({"layers": told}, 2) == []


@pytest.mark.long
def test_the_suggestion_has_it(events_of, told):
    """Of a simulated pipeline whose last stage is a third longer: shares, gain and break-even, before all else."""
    heard = told()
    for event in events_of(pp=4, microbatches=8, ranks=8, steps=90, stage_skew={3: 1.3}):
        heard.tell(event)
    one, *later = [one for one in heard.said if one.action == "rebalance" and one.state == "new"]
    assert {each.id for each in later} <= {one.id}
    assert "of stage 3's layers to stage 2" in one.steps[0]
    assert "has paid after" in one.steps[1]
    assert one.gain.throughput_low < one.gain.throughput_ratio <= one.gain.throughput_high
    assert 0.05 < one.gain.throughput_ratio < 0.3
    assert "1F1B of 4 stages and 8 micro-batches" in one.gain.basis
    assert one.gain.gpu_hours_per_day > 0
