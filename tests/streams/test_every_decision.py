"""What every decision promises, whatever it decides. A new decision joins by one line in ``CASES``."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import pytest
import zstandard

from paceline import topics, wire
from paceline.events import Column, StepTimings
from streams.balance.job_balance import JobBalance
from streams.cluster_ratings import ClusterRatings
from streams.keyed_state import KeyedState
from streams.nodes.node_diagnosis import NodeDiagnosis
from streams.windows.node_windows import DeviceWindows, HostWindows
from tests.streams.job_lines import JobDiagnosis, JobWindows
from tests.timings import changed, listed

MESSY = {"ranks": 4, "seconds": 14, "slow": 1, "slow_from_s": 4, "skew_s": -7200.0}


class Case(NamedTuple):
    """A decision, the fixture that makes its events, and with which arguments. ``steady`` events never get stranger."""

    decision: type[Any]
    maker: str
    arguments: dict[str, Any]
    steady: dict[str, Any]


CASES = {
    "JobDiagnosis": Case(JobDiagnosis, "make_training", MESSY, {"ranks": 2, "step_s": 0.25}),
    "JobWindows": Case(JobWindows, "make_training", MESSY, {"ranks": 2, "step_s": 0.25}),
    "JobDiagnosis, facts": Case(JobDiagnosis, "make_facts", {"odd": 5}, {}),
    "DeviceWindows": Case(DeviceWindows, "make_device_samples", {"power_w": [0.0, None]}, {}),
    "DeviceWindows, energy": Case(DeviceWindows, "make_metered_samples", {}, {"reset_s": None}),
    "NodeDiagnosis": Case(NodeDiagnosis, "make_device_samples", {"throttle_reasons": [0x40, 0], "xid": [0, 79]}, {}),
    "JobBalance": Case(JobBalance, "make_observations", {}, {"slow_from_s": None}),
    "ClusterRatings": Case(ClusterRatings, "make_ratings", {"slow": 2}, {}),
    "HostWindows": Case(HostWindows, "make_host_samples", {"cpu_ratio": [0.5], "cpu_energy_j": [5.0]}, {}),
}


@pytest.fixture(params=CASES.values(), ids=CASES.keys())
def case(request):
    return request.param


@pytest.fixture(scope="module")
def once():
    """What was made and said for a case already, by its name and what it is: events are frozen."""
    return {}


@pytest.fixture
def events(case, once, request):
    made = (case.maker, str(case.arguments))
    if made not in once:
        once[made] = request.getfixturevalue(case.maker)(**case.arguments)
    return list(once[made])


@pytest.fixture
def expected(case, events, once):
    """What the decision says of the events, told in one go."""
    told = (case.decision, case.maker, str(case.arguments))
    if told not in once:
        once[told] = said(case.decision(), events)
    return list(once[told])


def said(decision, events):
    return [found for event in events for found in decision.update(event)]


@pytest.mark.long
def test_it_says_something(case, events):
    """The events of this suite do bring answers, so that the other tests compare something."""
    assert said(case.decision(), events)


@pytest.mark.long
def test_replay_gives_the_same(case, events):
    """The same events twice, to two machines, bring the same answers."""
    assert said(case.decision(), events) == said(case.decision(), events)


@pytest.mark.long
@pytest.mark.parametrize("part", [0.0, 0.1, 0.33, 0.5, 0.9, 1.0])
def test_restored_it_goes_on_as_if_nothing_had_happened(case, events, expected, part):
    """A machine snapshotted anywhere and restored says what an uninterrupted one says."""
    cut = int(part * len(events))
    first = case.decision()
    before = said(first, events[:cut])
    second = case.decision.restore(first.snapshot())
    assert before + said(second, events[cut:]) == expected


@pytest.mark.long
def test_restored_at_every_event(case, events, expected):
    """Restored again after every single event, it still says the same."""
    decision, found = case.decision(), []
    for event in events:
        found += decision.update(event)
        decision = case.decision.restore(decision.snapshot())
    assert found == expected


@pytest.mark.long
def test_a_snapshot_survives_itself(case, events):
    """Restoring and snapshotting again changes not a byte."""
    decision = case.decision()
    said(decision, events)
    data = decision.snapshot()
    assert case.decision.restore(data).snapshot() == data


@pytest.mark.long
def test_taking_a_snapshot_changes_nothing(case, events, expected):
    """A machine goes on the same after a snapshot as without."""
    decision, found = case.decision(), []
    for event in events:
        found += decision.update(event)
        decision.snapshot()
    assert found == expected


@pytest.mark.slow
def test_memory_reaches_a_plateau(case, request):
    """Three times the events make no larger state, but for the noise of its compression."""
    make = request.getfixturevalue(case.maker)
    sizes = []
    for seconds in (60, 180):
        decision = case.decision()
        said(decision, make(seconds=seconds, **case.steady))
        sizes.append(len(decision.snapshot()))
    assert sizes[1] < 1.3 * sizes[0] + 2000


@pytest.mark.long
def test_input_is_not_mutated(case, events):
    """An event is after it was judged what it was before."""
    before = [wire.encode(event) for event in events]
    said(case.decision(), events)
    assert [wire.encode(event) for event in events] == before


@pytest.mark.long
def test_a_message_that_comes_twice_counts_once(case, events, expected):
    """Redelivered messages change nothing."""
    decision = case.decision()
    twice = [found for event in events for _ in range(2) for found in decision.update(event)]
    assert twice == expected


@pytest.mark.long
def test_a_redelivered_stretch_counts_once(case, events, expected):
    """After a restart a whole stretch comes again, in its order; it changes nothing."""
    decision = case.decision()
    again = [*events[:20], *events[10:]]
    assert said(decision, again) == expected


@pytest.mark.parametrize("data", [b"", b"nonsense", b"\x28\xb5\x2f\xfd" + 20 * b"\x00"])
def test_what_is_no_snapshot_is_refused(case, data):
    """A damaged snapshot raises ValueError, which the worker can tell the log."""
    with pytest.raises(ValueError, match="snapshot"):
        case.decision.restore(data)


@pytest.mark.long
def test_a_cut_snapshot_is_refused(case, events):
    """A snapshot that lost its end is refused, never half read."""
    decision = case.decision()
    said(decision, events)
    data = decision.snapshot()
    with pytest.raises(ValueError, match="snapshot"):
        case.decision.restore(data[: len(data) // 2])


def places(value: Any, deepest: int) -> Iterator[tuple[Any, Any]]:
    """Every place in plain data, down to ``deepest`` levels: what holds it, and where."""
    for at in list(value) if isinstance(value, dict) else range(len(value)):
        yield value, at
        if deepest > 1 and isinstance(value[at], dict | list):
            yield from places(value[at], deepest - 1)


def restored(case: Case, state: Any) -> bool:
    """Whether ``state`` is a snapshot's content; another error than ``ValueError`` goes on to the caller."""
    try:
        case.decision.restore(zstandard.compress(msgspec.msgpack.encode(state)))
    except ValueError:
        return False
    return True


@pytest.mark.long
def test_a_snapshot_that_lacks_a_part_is_refused(case, events):
    """Whatever part it is: by ``ValueError``, so that one decision restarts, and not what is stored beside it."""
    decision = case.decision()
    said(decision, events[:20])
    state = msgspec.msgpack.decode(zstandard.decompress(decision.snapshot()))
    assert restored(case, state)
    for part in state:
        assert not restored(case, {name: value for name, value in state.items() if name != part}), part


@pytest.mark.slow
@pytest.mark.parametrize("odd", [None, "text", -1, 2**63, 0.5, [], {}, [[1]]], ids=repr)
def test_a_part_of_another_kind_is_refused_or_read(case, events, odd):
    """Another error than ``ValueError`` would cost the windows of a job whose diagnosis alone is damaged."""
    decision = case.decision()
    said(decision, events[:20])
    state = msgspec.msgpack.decode(zstandard.decompress(decision.snapshot()))
    for holder, at in places(state, 3):
        kept, holder[at] = holder[at], odd
        restored(case, state)
        holder[at] = kept


@pytest.mark.long
def test_an_empty_batch_is_no_news(case, events):
    """A message without rows is taken and brings nothing."""
    empty = {
        name: [] if isinstance(value, list) else Column("u1", b"")
        for name, value in msgspec.structs.asdict(events[0]).items()
        if isinstance(value, list | Column) and name not in ("ops", "uuids")
    }
    if "step_s" in empty:
        empty["phases"] = {}
    decision = case.decision()
    assert said(decision, [msgspec.structs.replace(events[0], producer="other", **empty)]) == []
    assert said(decision, events)


HOSTILE_ROWS = {
    "a rank that the batch does not speak for": {"rank": [99]},
    "a phase of no name": {"phases": {"tea": [0.1]}},
    "an unknown step": {"step": [-1]},
    "a step far ahead": {"step": [10**9]},
    "a step beyond all bounds": {"step": [2**62]},
    "a negative step": {"step_s": [-5.0]},
    "a step of a century": {"step_s": [3e9]},
    "a negative phase": {"phases": {"forward": [-5.0]}},
    "a phase of a century": {"phases": {"forward": [3e9]}},
    "a start in another century": {"start_s": [-3e9]},
    "a producer that counts backwards": {"sequence": -5},
}


@pytest.mark.slow
@pytest.mark.parametrize("fields", HOSTILE_ROWS.values(), ids=HOSTILE_ROWS.keys())
@pytest.mark.parametrize("decision", [JobDiagnosis, JobWindows])
def test_odd_rows_stop_nothing(decision, fields, make_training):
    """One odd row among good ones neither raises nor silences what the good ones say."""
    events = make_training(seconds=14, slow=1, slow_from_s=4)
    odd = {"rank": [0], "step": [5], "start_s": [0.0], "step_s": [0.1], "phases": {}}
    row = changed(events[0], producer="odd", **{**odd, **fields})
    kept = said(decision(), [*events[:4], row, *events[4:]])
    assert kept


@pytest.mark.slow
def test_sliced_batches_say_the_same(make_training):
    """Windows and findings do not depend on how rows were put into messages."""
    events = make_training(seconds=14, slow=2, slow_from_s=4)
    for decision in (JobWindows, JobDiagnosis):
        assert said(decision(), sliced(events, 7)) == said(decision(), events)


def sliced(events: list[StepTimings], parts: int) -> list[StepTimings]:
    """The same rows in order, each message cut into ``parts``."""
    found = []
    for event in events:
        rows = {name: listed(getattr(event, name)) for name in ("rank", "step", "start_s", "step_s")}
        phases = {word: listed(column) for word, column in event.phases.items()}
        size = -(-len(rows["rank"]) // parts)
        for part in range(parts):
            cut = slice(part * size, (part + 1) * size)
            mine = {word: column[cut] for word, column in phases.items()}
            own = {name: column[cut] for name, column in rows.items()}
            found.append(changed(event, sequence=event.sequence * parts + part, phases=mine, **own))
    return found


@pytest.mark.slow
def test_a_keyed_state_keeps_the_same_promises(make_training):
    """All decisions of a job together, restored in the middle, go on as if nothing had happened."""
    events = make_training(seconds=14, slow=1, slow_from_s=4)
    whole = KeyedState()
    expected = [found for event in events for found in whole.update(topics.OP, event)]
    first = KeyedState()
    found = [one for event in events[:25] for one in first.update(topics.OP, event)]
    second = KeyedState.restore(first.snapshot())
    assert found + [one for event in events[25:] for one in second.update(topics.OP, event)] == expected
