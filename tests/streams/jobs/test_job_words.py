"""What is said of a trouble of the whole job that is over: the first sentence of before, as no longer so."""

import pytest

from paceline.events import Coverage
from streams.episodes.finding import JobKey, finding
from streams.episodes.tracker import Episode
from streams.jobs import data_bound, data_imbalance, pace, stage_imbalance, traffic
from streams.jobs.bus_speeds import BusSpeed

ALL = Coverage(ranks_expected=4, ranks_heard=4, events_missing=0)
SPEEDS = (BusSpeed("all_reduce", 20, 3.1e9),)
SLOWER = pace.PaceEvidence(pace_s=1.57, usual_s=1.2, grown_op="forward", grown_s=0.3)
TRANSFERS = traffic.TrafficEvidence(least_share=0.5, share=0.6, speeds=SPEEDS, rated_bytes_per_s=25e9, times=1)
STAGE = stage_imbalance.StageEvidence(took_s=1.57, mean_s=1.2, shortest_s=1.1)
UNEVEN = data_imbalance.DataEvidence(spread=0.2, alike=0.91, lost_ratio=0.1)
INPUT = data_bound.InputEvidence(share=0.5, least_share=0.4, fetched_s=1.57)


@pytest.mark.parametrize(
    ("kind", "words", "config", "evidence"),
    [
        ("slowdown", pace.said, pace.PaceConfig(), SLOWER),
        ("communication_bound", traffic.said, traffic.TrafficConfig(), TRANSFERS),
        ("stage_imbalance", stage_imbalance.said, stage_imbalance.StageConfig(), STAGE),
        ("data_imbalance", data_imbalance.said, data_imbalance.DataConfig(), UNEVEN),
        ("data_bound", data_bound.said, data_bound.InputConfig(), INPUT),
    ],
)
def test_what_is_over_keeps_its_first_sentence_to_the_end(kind, words, config, evidence):
    """A decimal point does not end it: no number is cut, and no bracket left open."""
    episode = Episode(subject=3, cause="unknown", first=60.0, last=90.0, state="recovered", evidence=evidence)
    before = words(episode, config)
    over = finding(episode, before, JobKey("default", "demo", 0), ALL)
    sentence, *after = over.summary.split(": no longer so at step 90.")
    assert (over.kind, after) == (kind, [""])
    assert before.summary.startswith(f"{sentence}. ")
    assert sentence.count("(") == sentence.count(")")
    assert ": 1: " not in over.summary
