"""Free GPUs over HTTP: what cannot be known is refused, and an answer says what it rests on."""

from collections.abc import Callable

import httpx
import numpy as np
import pytest

from forecaster.free_gpus import probability, too_old
from forecaster.history import SeriesSubject
from forecaster.memory import Memory

Kept = Callable[[str, int, float], None]


@pytest.fixture
def kept(memory: Memory) -> Kept:
    """Keeps so many minutes of a cluster of eight GPUs, of which so many are free."""

    def put(cluster: str, minutes: int, free: float) -> None:
        subject = SeriesSubject(f"{cluster}/cluster/free_gpus", "GPUs", 60.0, cluster, high=8.0)
        memory.put(subject, [60.0 * at for at in range(minutes)], [free] * minutes)

    return put


@pytest.mark.parametrize(
    ("minutes", "route", "words"),
    [
        (1, "free", "1 of the 12 minutes that a forecast takes are known; ask again in 11 minutes"),
        (11, "free", "11 of the 12 minutes that a forecast takes are known; ask again in 1 minute"),
        (14, "hours", "0 of the 12 quarter hours that a forecast takes are known; ask again in 180 minutes"),
        (45, "hours", "3 of the 12 quarter hours that a forecast takes are known; ask again in 135 minutes"),
    ],
)
def test_too_little_is_known(client: httpx.Client, kept: Kept, minutes: int, route: str, words: str) -> None:
    """409, with how much is known and when to ask again: one sample is no forecast of a day."""
    kept(f"young{minutes}", minutes, 0.0)
    refused = client.get(f"/v1/clusters/young{minutes}/{route}", params={"gpus": 8})
    assert refused.status_code == 409
    assert refused.json()["detail"][0]["reason"].endswith(words)


@pytest.mark.long
@pytest.mark.parametrize(("route", "minutes"), [("free", 12), ("hours", 180)])
@pytest.mark.parametrize("free", [0.0, 8.0])
def test_the_least_history_is_no_certainty(
    client: httpx.Client, kept: Kept, route: str, minutes: int, free: float
) -> None:
    """What was always so is not so for certain, and the answer says what it rests on."""
    kept(f"new{minutes}{free:.0f}", minutes, free)
    answer = client.get(f"/v1/clusters/new{minutes}{free:.0f}/{route}", params={"gpus": 8}).json()
    chances = [hour["probability"] for hour in answer["hours"]] if route == "hours" else [answer["free"]["probability"]]
    assert set(chances) == {probability(free / 8.0, 12)}
    assert answer["history"] == 12
    assert answer["model"] == "pool"
    assert answer["backtest"]["coverage_80"] is None
    assert answer["notes"][-1] == "too little history (12 samples) for a back-test"
    assert "nothing is known of how the series varies" in answer["notes"][0]


@pytest.mark.long
def test_an_answer_has_its_back_test_and_six_digits(client: httpx.Client, memory: Memory) -> None:
    """As forecasts have; more GPUs than the cluster has are noted."""
    free = 4.0 + np.random.default_rng(1).random(10 * 1440)
    subject = SeriesSubject("tested/cluster/free_gpus", "GPUs", 60.0, "tested", high=8.0)
    memory.put(subject, [60.0 * at for at in range(len(free))], free.tolist())
    for route in ("free", "hours"):
        answer = client.get(f"/v1/clusters/tested/{route}", params={"gpus": 9}).json()
        assert answer["backtest"]["own"] > 0.0
        assert 0.0 < answer["backtest"]["coverage_80"] <= 1.0
        assert answer["history"] > 900
        assert "9 GPUs are more than the 8 of the cluster" in answer["notes"]
    numbers = [hour[name] for hour in answer["hours"] for name in ("low", "median", "high", "probability")]
    assert all(number == float(f"{number:.6g}") for number in numbers)
    assert {0.0, 1.0}.isdisjoint(hour["probability"] for hour in answer["hours"])


@pytest.mark.parametrize(
    ("interval_s", "age_s", "words"),
    [
        (60.0, 250.0, []),
        (60.0, 2520.0, ["42 min ago"]),
        (900.0, 2500.0, []),
        (900.0, 3 * 3600.0, ["3 h 0 min ago"]),
        (60.0, -3600.0, []),
    ],
)
def test_an_answer_from_old_samples_says_so(memory: Memory, interval_s: float, age_s: float, words: list[str]) -> None:
    """Its first hour is that after the newest sample, and long over where nothing has come since."""
    subject = SeriesSubject(f"old{interval_s:.0f}/cluster/free_gpus", "GPUs", interval_s, "old", high=8.0)
    memory.put(subject, [1.8e9 + interval_s * at for at in range(20)], [4.0] * 20)
    held = memory.find(subject.key)
    assert held is not None
    notes = too_old(held, held.time_s + age_s)
    assert [word for word in words if word in notes[0]] == words
    assert len(notes) == len(words)


@pytest.mark.parametrize("route", ["free", "hours"])
def test_a_cluster_that_is_unknown_is_not_one_without_values(
    client: httpx.Client, memory: Memory, kept: Kept, route: str
) -> None:
    """404 names the clusters that have GPUs and no internal key; 409 is of one of which nothing was measured yet."""
    kept("some", 1, 1.0)
    memory.put(SeriesSubject("blank/cluster/free_gpus", "GPUs", 60.0, "blank"), [60.0], [float("nan")])
    refused = client.get(f"/v1/clusters/nowhere/{route}")
    (problem,) = refused.json()["detail"]
    assert (refused.status_code, problem["field"]) == (404, "cluster")
    assert problem["reason"].startswith("no GPU of cluster 'nowhere' has reported; clusters whose GPUs have: ")
    assert "free_gpus" not in problem["reason"]
    refused = client.get(f"/v1/clusters/blank/{route}")
    assert refused.status_code == 409
    assert "0 of the 12" in refused.json()["detail"][0]["reason"]
    refused = client.get("/v1/series/blank/cluster/free_gpus/forecast")
    assert refused.json()["detail"][0]["reason"].endswith("is measured yet; ask again in 60 s")


def test_free_gpus_that_were_posted_have_no_quarter_hours(client: httpx.Client, memory: Memory) -> None:
    """However long a client waits: the answer names the series to post."""
    memory.put(SeriesSubject("lab/cluster/free_gpus", "GPUs", 60.0, "posted"), [0.0], [1.0])
    refused = client.get("/v1/clusters/lab/hours")
    assert refused.status_code == 404
    assert refused.json()["detail"][0]["reason"].endswith("/v1/series/lab/cluster/free_gpus_15min")
