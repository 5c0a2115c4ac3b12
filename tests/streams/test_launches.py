"""A name that is started again, or twice at a time by mistake: one launch is judged, and never two together."""

from collections.abc import Iterable
from operator import attrgetter
from typing import Any

import msgspec
import pytest

from paceline import columns
from paceline.events import CollectiveCalls, Finding, Speakers, StepTimings
from paceline.events.silence import LAUNCH_SILENT_S
from simulator.fault import Fault
from simulator.job import Job
from simulator.spec import Spec
from streams import launches
from streams.keyed_state import KeyedState
from streams.launches import Launches, Turn
from streams.processor import Processor
from streams.routes import ROUTES
from tests.looked_at import LookedAt

BEGAN_S = 1_767_225_600.0
SLOW = (Fault("compute", (3,), 0.5, first=8),)


def run(began_s: float = BEGAN_S, sidecar: str = "", node: str = "", **changes: Any) -> list[Any]:
    """The messages of a simulated run of 36 s: four nodes with two ranks each. ``sidecar`` tells its producers apart,
    ``node`` its nodes."""
    spec: dict[str, Any] = {"ranks": 8, "steps": 72, "step_s": 0.5, "ranks_a_node": 2, "conditions": False}
    messages = Job(Spec(**(spec | {"began_s": began_s} | changes))).messages()
    return [message._replace(event=named(message.event, sidecar, node)) for message in messages]


def named(event: Any, sidecar: str, node: str) -> Any:
    """``event`` of another sidecar, on another node."""
    prefixes = {"producer": sidecar, "node": node}
    return msgspec.structs.replace(
        event, **{name: prefix + getattr(event, name) for name, prefix in prefixes.items() if hasattr(event, name)}
    )


def judged(messages: Iterable[Any], processor: Processor | None = None) -> list[Finding]:
    """What a worker finds in ``messages``, in their order of time."""
    processor = processor or Processor()
    found: list[Any] = []
    for message in sorted(messages, key=attrgetter("time_s")):
        if message.topic.name in ROUTES:
            found += [answer for _, answer in processor.update(message.topic, message.event)]
    found += [answer for _, answer in processor.finish()]
    return [answer for answer in found if isinstance(answer, Finding)]


def newest(found: Iterable[Finding]) -> list[Finding]:
    """What somebody sees who upserts by id and revision."""
    kept: dict[str, Finding] = {}
    for one in found:
        if one.id not in kept or one.revision > kept[one.id].revision:
            kept[one.id] = one
    return list(kept.values())


def steps(producer: str, sequence: int, *told: int, **changes: Any) -> StepTimings:
    """A message of ``producer`` with these steps of its ranks, one of four by default."""
    ranks = changes.pop("ranks", [0])
    fields: dict[str, Any] = {
        "cluster": "c", "job": "train", "attempt": 0, "node": "n0", "t0_s": 100.0 + sequence,
        "producer": producer, "sequence": sequence, "phases": {},
        "rank": columns.whole([ranks[0]] * len(told)), "step": columns.whole(list(told)),
        "start_s": columns.durations([0.0] * len(told)), "step_s": columns.durations([0.1] * len(told)),
        "speakers": speakers(ranks),
    }  # fmt: skip
    return StepTimings(**(fields | changes))


def speakers(ranks: list[int]) -> Any:
    whole = columns.whole
    none = [-1] * len(ranks)
    return Speakers(
        ranks=whole(ranks), world_sizes=whole([4] * len(ranks)), devices=["cpu"] * len(ranks),
        dp=whole(none), tp=whole(none), pp=whole(none),
    )  # fmt: skip


def turns(*events: StepTimings, at: Launches | None = None) -> list[Turn]:
    """What becomes of each."""
    held = at or Launches()
    return [held.update(event, 1000) for event in events]


@pytest.mark.slow
@pytest.mark.parametrize(("sidecar", "node"), [("again-", ""), ("again-", "other-")])
@pytest.mark.parametrize("later_s", [60.0, 3590.0])
def test_a_run_of_the_same_name_is_judged_from_its_first_step(sidecar: str, node: str, later_s: float) -> None:
    """On the same nodes or others, a minute or nearly an hour later: as if the first had never been."""
    again = run(BEGAN_S + later_s, sidecar, node, faults=SLOW)
    found, alone = judged(run() + again), judged(again)
    assert [(one.revision, one.state, one.ranks, one.first_step, one.last_step) for one in found] == [
        (one.revision, one.state, one.ranks, one.first_step, one.last_step) for one in alone
    ]
    assert found[-1].ranks == [3]


@pytest.mark.slow
def test_what_was_found_of_the_run_before_is_closed_and_found_anew() -> None:
    """Both have a slow rank 3 from step 8 on: two findings, the first of which is over."""
    found = newest(judged(run(faults=SLOW) + run(BEGAN_S + 60.0, "again-", faults=SLOW)))
    assert [(one.kind, one.state, one.ranks) for one in found] == [
        ("straggler", "recovered", [3]),
        ("straggler", "confirmed", [3]),
    ]
    assert "has ended; another run of this name reports now" in found[0].summary


@pytest.mark.slow
def test_two_at_once_are_said_and_only_the_first_is_judged() -> None:
    """The second has a slow rank: the first is healthy, and nothing else is found while both report."""
    found = judged(run() + run(BEGAN_S + 3.0, "twice-", "other-", faults=SLOW))
    both = next(one for one in found if one.kind == "configuration_mismatch")
    assert both.state == "confirmed"
    assert both.ranks == []
    assert both.first_step == -1
    assert "Two runs named simulated report at the same time" in both.summary
    assert "node-0000" in both.summary
    assert "other-node-0000" in both.summary
    assert [one.state for one in newest(found) if one.kind == "configuration_mismatch"] == ["recovered"]
    stragglers = [one for one in found if one.kind == "straggler"]
    assert {node for one in stragglers for node in one.nodes} <= {"other-node-0001"}, "judged once the first has ended"
    assert all(one.first_step > 50 for one in stragglers)


@pytest.mark.slow
def test_a_run_that_was_killed_without_a_word_is_replaced_once_it_is_silent() -> None:
    """No goodbye: ``LAUNCH_SILENT_S`` of the new run are not judged, and the rest is."""
    killed = [message for message in run(steps=200) if message.time_s < BEGAN_S + 20.0]
    found = judged(killed + run(BEGAN_S + 25.0, "again-", steps=200, faults=SLOW))
    assert [one.ranks for one in found if one.kind == "straggler"][-1] == [3]
    assert all(one.kind == "straggler" for one in found), "one run at a time: nothing is said of two"


@pytest.mark.slow
def test_snapshots_between_any_two_messages_change_nothing() -> None:
    """A worker that is killed goes on with the launch that it judged."""
    messages = sorted(run() + run(BEGAN_S + 3.0, "twice-", "other-", faults=SLOW), key=attrgetter("time_s"))
    whole, cut = KeyedState(), KeyedState()
    for number, message in enumerate(messages):
        if message.topic.name not in ROUTES:
            continue
        told = whole.update(message.topic, message.event)
        assert cut.update(message.topic, message.event) == told
        if number % 25 == 0:
            cut = KeyedState.restore(cut.snapshot())


def test_a_sidecar_that_takes_over_from_one_that_died_goes_on() -> None:
    """The same processes, which count on; what stands in a hang tells no step at all."""
    assert all(
        turn == Turn(judged=True)
        for turn in turns(
            steps("a", 0, *range(40)), steps("b", 0, 38, 39, 40), steps("c", 0), steps("c", 1, 41), steps("d", 0, 42)
        )
    )


def test_a_sidecar_that_dies_in_the_first_steps_goes_on() -> None:
    """They may come again, from the first."""
    assert all(turn == Turn(judged=True) for turn in turns(steps("a", 0, 0, 1), steps("b", 0, 0, 1, 2)))


def test_a_process_that_trains_twice_is_two_launches() -> None:
    """Its sidecar stays: goodbye, and steps from 0."""
    done = [steps("a", 0, *range(30)), steps("a", 1, ended=True)]
    assert turns(*done, steps("a", 2, 0, 1), steps("a", 3, 2))[2:] == [
        Turn(judged=True, begins=True),
        Turn(judged=True),
    ]
    assert turns(*done, steps("a", 2, 30))[-1] == Turn(judged=True), "it had only paused"


def test_what_is_delivered_twice_begins_nothing() -> None:
    """At least once: the first message again, in the middle and after the goodbye."""
    told = [steps("a", 0, *range(10)), steps("a", 1, *range(10, 40)), steps("a", 2, ended=True)]
    assert all(turn == Turn(judged=True) for turn in turns(*told[:2], told[0], told[2], told[0]))


def test_a_late_node_of_a_run_that_is_over_is_of_that_run() -> None:
    """Its spool is emptied after the others have left: its times say when it was measured."""
    first = [steps("a", 0, *range(30)), steps("a", 30, 30, ended=True)]
    late = steps("b", 0, 0, 1, ranks=[1], node="n1", t0_s=101.0)
    assert turns(*first, late)[-1] == Turn(judged=True)


def test_what_a_dead_run_sent_late_does_not_say_that_two_report() -> None:
    """Its spool is emptied while the next runs: it was measured before."""
    held = Launches()
    turns(steps("a", 0, *range(30)), steps("b", 0, 0, node="n1", t0_s=200.0), at=held)
    for number in range(1, 100):
        late = steps("a", number, 29 + number, t0_s=101.0)
        assert turns(late, steps("b", number, number, node="n1", t0_s=200.0 + number), at=held)[0].found == ()


def test_clocks_that_are_seconds_apart_make_no_two_runs_at_once() -> None:
    """The last words of the first come with times behind the first of the second."""
    held = Launches()
    told = turns(
        steps("a", 0, *range(30)),
        steps("b", 0, 0, node="n1", t0_s=150.0),
        steps("a", 1, 31, t0_s=150.0 + launches.BESIDE_S - 1.0),
        steps("a", 2, ended=True, t0_s=175.0),
        steps("b", 1, 1, node="n1", t0_s=151.0),
        at=held,
    )
    assert not any(turn.found for turn in told)
    assert told[-1].begins


def test_three_at_once_are_never_mixed() -> None:
    """The second is judged after the first, the third waits on."""
    held = Launches()
    turns(
        steps("a", 0, *range(30)), steps("b", 0, 0, node="n1"), steps("c", 0, 0, node="n2"),
        steps("a", 1, ended=True, t0_s=100.0), at=held,
    )  # fmt: skip
    assert [turn.judged for turn in turns(steps("b", 1, 1, node="n1"), steps("c", 1, 1, node="n2"), at=held)] == [
        True,
        False,
    ]


def test_nodes_of_a_larger_second_run_do_not_join_the_first() -> None:
    """Ranks 0 of both, and a rank 1 that only the second has."""
    held = Launches()
    turns(steps("a", 0, *range(30)), steps("b", 0, 0, node="n1"), at=held)
    assert not turns(steps("b2", 0, 0, ranks=[1], node="n2"), at=held)[0].judged


def test_collectives_that_overtake_their_steps_are_of_no_other_run() -> None:
    """Two topics have no order: those of a launch that is not judged are left out, too."""
    held = Launches()
    turns(steps("a", 0, *range(30)), at=held)
    assert [held.update(calls(name, ranks), 1000).judged for name, ranks in [("a", [0]), ("b", [1]), ("c", [0])]] == [
        True,
        True,
        False,
    ]


def calls(producer: str, ranks: list[int]) -> CollectiveCalls:
    none, times = columns.whole([]), columns.durations([])
    return CollectiveCalls(
        cluster="c", job="train", attempt=0, node="n0", t0_s=100.0, producer=producer, sequence=0,
        speakers=speakers(ranks), groups=[], group_sizes=none, operations=[], rank=none, step=none, seq=none,
        group=none, operation=none, bytes=none, start_s=times, duration_s=times, wait_s=times,
    )  # fmt: skip


def test_what_is_known_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Producers without end, and ranks beyond the bound."""
    monkeypatch.setattr(launches, "MOST_PRODUCERS", 20)
    held = Launches()
    for number in range(200):
        held.update(steps(f"a{number}", 0, 50, ranks=[number % 3]), 2)
        held.update(steps(f"b{number}", 0, 0, node=f"n{number}", t0_s=200.0 + number), 2)
    assert max(len(held.judged), len(held.waiting), len(held.past)) <= 20
    assert set(held.holder) <= {0, 1}


def test_whoever_waits_and_leaves_is_forgotten() -> None:
    """The mistake was seen, and ended: the first goes on, and the finding is over."""
    held = Launches()
    told = turns(
        steps("a", 0, *range(30)),
        steps("b", 0, 0, node="n1", t0_s=200.0),
        steps("a", 1, 31, t0_s=200.0 + launches.BESIDE_S),
        steps("b", 1, 1, node="n1", ended=True, t0_s=201.0),
        steps("a", 2, 32, t0_s=215.0),
        at=held,
    )
    assert [[one.state for one in turn.found] for turn in told] == [[], [], ["confirmed"], ["recovered"], []]
    assert held.waiting == {}


def test_one_that_waits_takes_over_after_a_silence_and_not_before() -> None:
    """By the clock of the one that waits."""
    held = Launches()
    turns(steps("a", 0, *range(30)), steps("b", 0, 0, node="n1", t0_s=200.0), at=held)
    early = turns(steps("b", 1, 1, node="n1", t0_s=200.0 + LAUNCH_SILENT_S - 1.0), at=held)
    assert not early[0].judged
    assert turns(steps("b", 2, 2, node="n1", t0_s=200.0 + LAUNCH_SILENT_S), at=held)[0].begins


def test_a_recording_keeps_the_attempts_that_it_was_given() -> None:
    """Its launches are told apart before, by all that it holds."""
    assert KeyedState(recorded=True).launches is None


def test_what_is_no_state_is_refused() -> None:
    """... and a worker begins to tell launches apart from there on."""
    with pytest.raises(ValueError, match="snapshot"):
        Launches.restore(b"nonsense")


def test_a_node_that_joins_a_large_job_costs_no_look_at_the_others():
    """Thousands join in the same second: with a look at each they would keep the worker busy for minutes."""
    made, nodes = Launches(), 500
    made.judged = LookedAt()
    for node in range(nodes):
        assert made.update(steps(f"sidecar-{node}", 0, 0, ranks=[node]), 10**6).judged
    assert made.judged.looks < 3 * nodes


def test_while_another_launch_waits_whoever_begins_is_of_that_once_the_judged_one_is_past_its_first_steps():
    """Until then it may be a node of the judged one that is late."""
    made = Launches()
    assert made.update(steps("first", 0, 0), 8).judged
    assert not made.update(steps("other", 0, 0, node="n9"), 8).judged
    assert made.update(steps("late", 0, 0, ranks=[1], node="n1"), 8).judged
    assert made.update(steps("first", 1, 500), 8).judged
    assert not made.update(steps("others", 0, 0, ranks=[2], node="n8"), 8).judged


def test_a_rank_that_two_spoke_for_is_still_held_when_one_of_them_has_left():
    """A sidecar that says a rank of another's is its own: what comes for that rank from elsewhere is no successor."""
    heard = Launches()

    def told(producer: str, sequence: int, step: int, ranks: list[int], node: str) -> bool:
        return heard.update(steps(producer, sequence, step, ranks=ranks, node=node), 64).judged

    assert told("honest", 0, 0, [0, 1], "n0")
    assert told("other", 0, 0, [2], "n1")
    assert told("other", 1, 20, [1, 2], "n1")
    assert told("successor of other", 0, 21, [2], "n1")
    assert told("honest", 1, 21, [0, 1], "n0")
    assert not told("stranger", 0, 22, [1], "n2")
