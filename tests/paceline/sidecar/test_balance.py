"""Balancing on a node: a rank's words become events, and of the plans on the bus those go on that are its job's."""

from typing import Any

import msgspec
import pytest

from paceline import topics, wire
from paceline.events import BalancePlan as PlanEvent
from paceline.sidecar.balance import MOST_RUNS, Balance, Speaker
from paceline.sidecar.batch import Batcher, Origin, Outgoing
from paceline.sidecar.rank_messages import NotABalanceWordError, decode
from paceline.training.balance_messages import BALANCE, BalanceObserved, BalancePlan, BalanceWord, ProposedPlan, encode
from paceline.training.messages import Hello

NOW_S = 1_700_000_000.0
#: The number that the ranks drew.
RUN = 2**52
OBSERVED = BalanceObserved(
    version=3, batch=41, shares=[3, 5], ready_s=[0.25, None], source="kafka", mode="adaptive", global_batch=8
)
PLAN = BalancePlan(version=3, first_batch=40, shares=[3, 5], reason="rank 0 turned slow", predicted_s=0.5)
WORDS = {
    "observed": BalanceWord(observed=OBSERVED),
    "with caps": BalanceWord(observed=BalanceObserved(0, 0, [1], [None], "inband", "static", 8, 4, False, 0.01, [7])),
    "plan": BalanceWord(plan=PLAN),
    "waiting": BalanceWord(awaits=True),
}


@pytest.fixture
def batcher() -> Batcher:
    return Batcher(Origin("lab", "n1", "p"))


@pytest.fixture
def key(batcher: Batcher) -> tuple[str, int]:
    """A job of two ranks whose first is here."""
    said: dict[str, Any] = {
        "rank": 0, "world_size": 2, "local_rank": 0, "pid": 1, "device": "cpu", "backend": "gloo", "framework": "torch",
        "job": "j", "attempt": 2, "started_s": 5.0,
    }  # fmt: skip
    return batcher.join(Hello(**said))


@pytest.fixture
def balance(batcher: Batcher) -> Balance:
    return Balance(batcher, "lab")


def out(batcher: Batcher, topic: topics.Topic) -> list[Any]:
    """What goes out on ``topic``, through the wire."""
    told: list[Outgoing] = [one for one in batcher.tick(0.0) if one.topic is topic]
    return [wire.decode(topic, wire.encode(one.event)) for one in told]


@pytest.mark.parametrize("word", WORDS.values(), ids=WORDS.keys())
def test_a_word_is_read_as_it_was_written(word: BalanceWord) -> None:
    data = encode(word)
    assert data is not None
    assert decode(data) == word


@pytest.mark.parametrize(
    "text",
    [
        "", "null", "[]", '{"observed":{}}', '{"plan":{"version":-1,"first_batch":0,"shares":[1]}}',
        '{"plan":{"version":0,"first_batch":0,"shares":[0]}}', '{"plan":{"version":0,"first_batch":0,"shares":[]}}',
        '{"plan":{"version":0,"first_batch":0,"shares":[9999999999]}}', '{"awaits":1}', "[" * 100_000, "\xff",
        '{"plan":{"version":0,"first_batch":0,"shares":[1],"predicted_s":NaN}}',
        '{"plan":{"version":0,"first_batch":0,"shares":[1],"predicted_s":1e999}}',
        '{"plan":{"version":0,"first_batch":1e300,"shares":[1]}}',
    ],
    ids=range(14),
)  # fmt: skip
def test_what_no_balancer_says_is_refused(text: str) -> None:
    with pytest.raises(NotABalanceWordError):
        decode(BALANCE + text.encode("latin-1"))


def test_what_a_later_version_adds_is_passed_over() -> None:
    assert decode(BALANCE + b'{"awaits":true,"later":[1]}') == BalanceWord(awaits=True)


def test_what_rank_0_tells_goes_out_under_its_job(balance: Balance, batcher: Batcher, key: tuple[str, int]) -> None:
    """Both events, with job and attempt, and the observation numbered by its producer."""
    balance.take(Speaker(key, 0, 2), BalanceWord(observed=OBSERVED, plan=PLAN), NOW_S)
    (plan,), observed = out(batcher, topics.PLAN), None
    balance.take(Speaker(key, 0, 2), BalanceWord(observed=OBSERVED), NOW_S + 1)
    (observed,) = out(batcher, topics.BALANCE)
    assert (plan.cluster, plan.job, plan.attempt, plan.version, plan.first_batch) == ("lab", "j", 2, 3, 40)
    assert (plan.shares, plan.reason, plan.predicted_step_s, plan.made_by) == ([3, 5], PLAN.reason, 0.5, "inband")
    assert (observed.job, observed.attempt, observed.node, observed.sequence) == ("j", 2, "n1", 1)
    assert (observed.t0_s, observed.ready_s, observed.global_batch) == (NOW_S + 1, [0.25, None], 8)
    assert balance.told_refused(0) == ""


def test_observations_go_out_about_once_a_second(balance: Balance, batcher: Batcher, key: tuple[str, int]) -> None:
    """However many come; a clock that is set back stops none."""
    for tenth in range(100):
        balance.take(Speaker(key, 0, 2), BalanceWord(observed=OBSERVED), NOW_S + tenth / 100)
    assert len(out(batcher, topics.BALANCE)) == 2
    balance.take(Speaker(key, 0, 2), BalanceWord(observed=OBSERVED), NOW_S - 1000)
    assert len(out(batcher, topics.BALANCE)) == 1


def test_a_plan_goes_out_once_and_versions_only_rise(balance: Balance, batcher: Batcher, key: tuple[str, int]) -> None:
    """A link tells the newest again to the successor of a sidecar."""
    for version in (1, 1, 2, 1, 3):
        plan = msgspec.convert({**vars(PLAN), "version": version}, BalancePlan)
        balance.take(Speaker(key, 0, 2), BalanceWord(plan=plan), NOW_S)
    assert [plan.version for plan in out(batcher, topics.PLAN)] == [1, 2, 3]


@pytest.mark.parametrize(
    ("who", "word", "reason"),
    [
        ((1, 2), BalanceWord(plan=PLAN), "sent by another rank than 0"),
        ((0, 3), BalanceWord(plan=PLAN), "for another number of ranks"),
        ((0, 3), BalanceWord(observed=OBSERVED), "for another number of ranks"),
        (
            (0, 2),
            BalanceWord(observed=BalanceObserved(0, 0, [1, 1], [0.5], "kafka", "adaptive")),
            "for another number of ranks",
        ),
        (
            (0, 2),
            BalanceWord(observed=BalanceObserved(0, 0, [1, 1], [0.5, 0.5], "kafka", "adaptive", most=[3])),
            "for another number of ranks",
        ),
        (
            (0, 2),
            BalanceWord(observed=BalanceObserved(0, 0, [1, 1], [0.5, 0.5], "kafka", "adaptive", ran_out=[1, 0, 0])),
            "for another number of ranks",
        ),
    ],
)
def test_what_a_rank_cannot_know_is_refused_and_counted(
    balance: Balance, batcher: Batcher, key: tuple[str, int], who: tuple[int, int], word: BalanceWord, reason: str
) -> None:
    """Rank 0 alone tells, of as many ranks as there are."""
    balance.take(Speaker(key, *who), word, NOW_S)
    assert balance.told_refused(0) == f"1 {reason}"
    assert not out(batcher, topics.PLAN) + out(batcher, topics.BALANCE)


def proposal(**changed: Any) -> PlanEvent:
    """A plan of the stream processors for the job."""
    told: dict[str, Any] = {
        "cluster": "lab", "job": "j", "attempt": 2, "time_s": NOW_S, "version": 4, "shares": [2, 6],
        "made_by": "streams", "run": RUN,
    }  # fmt: skip
    return PlanEvent(**{**told, **changed})


def test_a_plan_goes_to_those_who_wait_for_it(balance: Balance, key: tuple[str, int]) -> None:
    """And to nobody else: who has not asked follows none."""
    balance.propose([proposal()])
    assert balance.proposed(key, RUN) is None
    assert balance.awaiting() == frozenset()
    balance.take(Speaker(key, 1, 2), BalanceWord(awaits=True, run=RUN), NOW_S)
    assert balance.awaiting() == {"j"}
    balance.propose([proposal(), proposal(version=6, shares=[1, 7])])
    assert balance.proposed(key, RUN) == ProposedPlan(6, (1, 7), RUN)
    assert balance.told_refused(0) == ""


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"shares": [8]}, "1 that do not fit the run"),
        ({"shares": [2, 3, 3]}, "1 that do not fit the run"),
        ({"run": 0}, "1 for another run"),
        ({"run": RUN - 1, "version": 5}, "1 for another run"),
        ({"attempt": 1}, "1 for another attempt"),
        ({"attempt": 3}, "1 for another attempt"),
        ({"version": 5, "job": "k"}, ""),
        ({"version": 5, "cluster": "another"}, ""),
        ({"version": 5, "made_by": "inband"}, ""),
        ({"version": 5, "made_by": "somebody"}, ""),
        ({"version": 5, "first_batch": 40}, ""),
    ],
    ids=str,
)
def test_a_plan_that_cannot_be_meant_for_these_ranks_is_refused(
    balance: Balance, key: tuple[str, int], changed: dict[str, Any], reason: str
) -> None:
    """Those of others are nobody's business here; the plan that is held stays."""
    balance.take(Speaker(key, 0, 2), BalanceWord(awaits=True, run=RUN), NOW_S)
    balance.propose([proposal(), proposal(**changed)])
    assert balance.proposed(key, RUN) == ProposedPlan(4, (2, 6), RUN)
    assert balance.told_refused(0) == reason


@pytest.mark.parametrize(
    "changed",
    [
        {"shares": [0, 8]}, {"shares": [-1, 9]}, {"shares": [2**40, 1]}, {"shares": []}, {"shares": [1.5, 6.5]},
        {"version": -1}, {"version": 2**60}, {"predicted_step_s": float("nan")}, {"measured_step_s": -1},
        {"first_batch": -3}, {"shares": [1] * 20_000}, {"reason": "x" * 501}, {"attempt": "2"},
    ],
    ids=lambda changed: str(changed)[:40],
)  # fmt: skip
def test_a_plan_of_impossible_numbers_is_none(changed: dict[str, Any]) -> None:
    """It does not decode, on the bus as anywhere."""
    text = msgspec.json.encode({**msgspec.to_builtins(proposal()), **changed})
    if changed.get("predicted_step_s") is not None:
        text = text.replace(b'"predicted_step_s":null', b'"predicted_step_s":NaN')
    with pytest.raises(wire.WireError):
        wire.decode(topics.PLAN, text)


def test_ranks_that_are_more_or_fewer_by_now_wait_for_other_plans(balance: Balance, key: tuple[str, int]) -> None:
    """An elastic job: what was made for the world before is forgotten."""
    balance.take(Speaker(key, 0, 2), BalanceWord(awaits=True, run=RUN), NOW_S)
    balance.propose([proposal(version=9)])
    balance.take(Speaker(key, 0, 3), BalanceWord(awaits=True, run=RUN), NOW_S)
    assert balance.proposed(key, RUN) is None
    balance.propose([proposal(version=2, shares=[2, 3, 3])])
    assert balance.proposed(key, RUN) == ProposedPlan(2, (2, 3, 3), RUN)


@pytest.mark.parametrize("version", [2**53, 2**20 + 5, 5])
def test_a_bad_version_does_not_keep_out_the_plans_after_it(
    balance: Balance, key: tuple[str, int], version: int
) -> None:
    """Which version is too high only the ranks know; a sidecar hands on what came last."""
    balance.take(Speaker(key, 0, 2), BalanceWord(awaits=True, run=RUN), NOW_S)
    balance.propose([proposal(version=version, shares=[7, 1])])
    assert balance.proposed(key, RUN) == ProposedPlan(version, (7, 1), RUN)
    balance.propose([proposal(version=1)])
    assert balance.proposed(key, RUN) == ProposedPlan(1, (2, 6), RUN)


def test_a_plan_of_the_run_before_goes_to_no_rank_of_the_next(balance: Balance, key: tuple[str, int]) -> None:
    """The same job and attempt, started again by hand: plans of before are still on the bus, of higher versions."""
    again = RUN + 1
    balance.take(Speaker(key, 0, 2), BalanceWord(awaits=True, run=RUN), NOW_S)
    balance.propose([proposal(version=37)])
    balance.take(Speaker(key, 0, 2), BalanceWord(awaits=True, run=again), NOW_S)
    balance.propose([proposal(version=38)])
    assert balance.proposed(key, again) is None
    balance.propose([proposal(version=1, run=again), proposal(version=39)])
    assert balance.proposed(key, again) == ProposedPlan(1, (2, 6), again)


def test_a_run_before_that_speaks_late_keeps_no_plan_from_the_next(balance: Balance, key: tuple[str, int]) -> None:
    balance.take(Speaker(key, 0, 2), BalanceWord(awaits=True, run=RUN), NOW_S)
    balance.propose([proposal(version=1)])
    for late in (RUN - 1, 0):
        balance.take(Speaker(key, 1, 2), BalanceWord(awaits=True, run=late), NOW_S)
    assert balance.proposed(key, RUN) == ProposedPlan(1, (2, 6), RUN)


def test_a_rank_that_names_ever_other_runs_fills_no_memory(balance: Balance, key: tuple[str, int]) -> None:
    for run in range(1000):
        balance.take(Speaker(key, 1, 2), BalanceWord(awaits=True, run=run), NOW_S)
    assert len(balance._jobs[key]) == MOST_RUNS


def test_plans_of_the_next_run_go_out_though_versions_begin_again(
    balance: Balance, batcher: Batcher, key: tuple[str, int]
) -> None:
    for run, version in ((RUN, 2**53), (RUN + 1, 1)):
        plan = msgspec.convert({**vars(PLAN), "version": version}, BalancePlan)
        balance.take(Speaker(key, 0, 2), BalanceWord(plan=plan, run=run), NOW_S)
    assert [(plan.run, plan.version) for plan in out(batcher, topics.PLAN)] == [(RUN, 2**53), (RUN + 1, 1)]


def test_a_plan_of_others_is_told_with_their_reason(balance: Balance, batcher: Batcher, key: tuple[str, int]) -> None:
    """The ranks that follow it know the shares alone; a plan of their own keeps its words."""
    balance.take(Speaker(key, 0, 2), BalanceWord(awaits=True, run=RUN), NOW_S)
    balance.propose([proposal(reason="rank 1 became faster", predicted_step_s=0.25, measured_step_s=0.5)])
    for plan in (BalancePlan(4, 80, [2, 6], made_by="streams"), BalancePlan(5, 90, [2, 6], "rank 0 ran out of memory")):
        balance.take(Speaker(key, 0, 2), BalanceWord(plan=plan, run=RUN), NOW_S)
    followed, own = out(batcher, topics.PLAN)
    assert (followed.reason, followed.predicted_step_s, followed.measured_step_s, followed.first_batch) == (
        "rank 1 became faster", 0.25, 0.5, 80,
    )  # fmt: skip
    assert (own.reason, own.predicted_step_s) == ("rank 0 ran out of memory", None)
