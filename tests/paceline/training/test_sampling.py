"""Steps left out by the probe's budget: when, which, and that the others are told whole."""

from itertools import pairwise
from types import SimpleNamespace

import pytest

from paceline import training
from paceline.training import alternation, marks
from paceline.training.marks import WARM_UP
from paceline.training.overhead_windows import OverheadWindows, windows
from paceline.training.probe import Probe
from paceline.training.sampling import LOOK_EVERY, Sampling, period_for
from paceline.training.session import Session
from tests.paceline.training.script import Script

MS = 1_000_000
#: A step's share of its marks that the tests allow: half a percent.
BUDGET = 0.005
LEAVE_BACKWARD, LEAVE_OPTIMIZER = marks.LEAVE + marks.BACKWARD, marks.LEAVE + marks.OPTIMIZER
#: The marks of a step without phases of its own.
PLAIN = [marks.BACKWARD, LEAVE_BACKWARD, marks.OPTIMIZER, LEAVE_OPTIMIZER]


class Timed:
    """A script whose steps and marks take as long as it is told, with so many phases a step."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, windows: bool = False) -> None:
        self.now_ns, self.phases, self.mark_ns = 0, 200, 2_000
        first = [OverheadWindows] if windows else []
        self.script = Script(
            monkeypatch,
            lambda probe: [*(one(probe, lambda: None) for one in first), Sampling(probe, BUDGET, self.now)],
            self.now,
        )
        self.probe: Probe = self.script.probe
        write = self.probe.mark

        def mark(*what: int) -> None:
            self.now_ns += self.mark_ns
            write(*what)

        self.probe.mark = mark
        self.step = 0
        #: What each step wrote down, by its number.
        self.told: dict[int, list[int]] = {}

    def now(self) -> int:
        return self.now_ns

    def steps(self, count: int, step_ms: float = 20.0, *, explicit: bool = False) -> None:
        for _ in range(count):
            self.now_ns += int(step_ms * MS)
            self.script.backward()
            for _ in range(self.phases):
                with training.phase("other"):
                    pass
            self.script.optimize()
            if explicit:
                training.step()
            self.told[self.step] = self.script.kinds()
            self.probe.taken += len(self.told[self.step])
            self.step += 1

    def whole(self) -> list[int]:
        """The steps that wrote all that they do."""
        return [step for step, kinds in self.told.items() if kinds.count(marks.OTHER) == self.phases]

    def silent(self) -> list[int]:
        """The steps that wrote nothing of themselves, though perhaps that one is over or the next begins."""
        switches = {marks.SAMPLE_OFF, marks.SAMPLE_ON, LEAVE_BACKWARD}
        return [step for step, kinds in self.told.items() if set(kinds) <= switches]


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> Timed:
    return Timed(monkeypatch)


#: By then the first look has been taken.
LOOKED = WARM_UP + LOOK_EVERY + 1


@pytest.mark.long
def test_a_job_within_its_budget_is_told_whole(timed: Timed) -> None:
    """400 marks of 2.3 us are 0.23 % of 400 ms."""
    timed.steps(500, step_ms=400)
    assert timed.whole() == list(range(500))
    assert not {marks.SAMPLE_OFF, marks.STEPPED} & {kind for kinds in timed.told.values() for kind in kinds}


def test_little_is_told_whatever_its_share(timed: Timed) -> None:
    """Ten marks are a twentieth of a millisecond: in steps of 1 ms, too."""
    timed.phases = 3
    timed.steps(500, step_ms=1)
    assert timed.whole() == list(range(500))


@pytest.mark.long
def test_beyond_the_budget_multiples_of_a_power_of_two_are_told(timed: Timed) -> None:
    """404 marks of 2.3 us in steps of 20 ms are 4.6 %: one step in 16 is told, whole, and no other writes a mark."""
    timed.steps(LOOKED + 16)
    begun = timed.step
    timed.steps(160)
    told = [step for step in timed.whole() if step >= begun]
    assert told == [step for step in range(begun, begun + 160) if step % 16 == 0]
    silent = [step for step in timed.silent() if step >= begun]
    assert sorted([*told, *silent]) == list(range(begun, begun + 160))


def test_the_marks_around_say_how_many_are_left_out(timed: Timed) -> None:
    """Right after a told step the next new work ends it; the optimizer that ends the last one left out begins the
    next."""
    payloads = []
    timed.steps(LOOKED + 16)
    for _ in range(32):
        timed.script.backward()
        timed.script.optimize()
        payloads += [(mark[1], mark[2]) for mark in timed.probe.ring if mark[1] in (marks.SAMPLE_OFF, marks.SAMPLE_ON)]
        timed.probe.ring.clear()
    assert payloads[:4] in (
        [(marks.SAMPLE_ON, 15), (marks.SAMPLE_OFF, 15), (marks.SAMPLE_ON, 15), (marks.SAMPLE_OFF, 15)],
        [(marks.SAMPLE_OFF, 15), (marks.SAMPLE_ON, 15), (marks.SAMPLE_OFF, 15), (marks.SAMPLE_ON, 15)],
    )


def test_several_optimizers_of_a_told_step_are_heard(timed: Timed) -> None:
    """And what is exchanged after them: the step ends where the next begins."""
    timed.steps(LOOKED + 16)
    while not timed.told[timed.step - 1] or timed.told[timed.step - 1][-1] != marks.SAMPLE_ON:
        timed.steps(1)
    timed.script.backward()
    timed.script.optimize()
    timed.script.optimize()
    timed.probe.mark(marks.COMMUNICATION)
    timed.probe.mark(marks.LEAVE + marks.COMMUNICATION)
    told = [*PLAIN, marks.OPTIMIZER, LEAVE_OPTIMIZER, marks.COMMUNICATION, marks.LEAVE + marks.COMMUNICATION]
    assert timed.script.kinds() == told
    with training.phase("data"):
        assert timed.probe.off
    assert timed.script.kinds() == [marks.SAMPLE_OFF]


def test_gradient_accumulation_is_one_step(timed: Timed) -> None:
    """However often backward is called, told or not."""
    timed.steps(LOOKED + 16)
    for _ in range(64):
        timed.script.backward()
        timed.steps(1)
    ended = [step for step, kinds in timed.told.items() if step > LOOKED + 16 and kinds[-1:] == [marks.SAMPLE_ON]]
    assert [after - before for before, after in pairwise(ended)] == [16, 16, 16]


@pytest.mark.long
def test_steps_that_the_script_ends_are_left_out_at_once(timed: Timed) -> None:
    """What turns the probe off comes right after the end of the told step."""
    timed.steps(LOOKED + 160, explicit=True)
    told = [step for step in timed.whole() if step > LOOKED + 16]
    assert [after - before for before, after in pairwise(told)] == [16] * (len(told) - 1)
    assert all(timed.told[step][-2:] == [marks.STEP, marks.SAMPLE_OFF] for step in told)


@pytest.mark.long
def test_a_step_that_grows_longer_needs_less_left_out(timed: Timed) -> None:
    """By halves, one look after the other."""
    timed.steps(LOOKED + 64)
    timed.steps(40 * LOOK_EVERY, step_ms=400)
    begun = timed.step
    timed.steps(200, step_ms=400)
    told = [step for step in timed.whole() if step >= begun]
    assert told == list(range(begun, begun + 200))


@pytest.mark.parametrize("cost_ms", [0.11, 1.0, 3.0, 40.0, 1e6])
def test_the_period_settles(cost_ms: float) -> None:
    """From wherever it starts it comes to one value and stays, within the budget or at its bound."""
    found = set()
    for start in (1, 4, 64):
        period, seen = start, []
        for _ in range(10):
            period = period_for(cost_ms * MS, 50 * MS, BUDGET, period)
            seen.append(period)
        assert len(set(seen[-3:])) == 1
        found.add(period)
        assert cost_ms <= max(0.1, 50 * BUDGET * period) or period == 64
    assert max(found) <= 2 * min(found)


def test_a_share_around_the_budget_does_not_swing() -> None:
    """Five percent more and less from look to look change nothing once it has been raised."""
    period = 1
    seen = []
    for look in range(40):
        period = period_for(MS * (0.95 if look % 2 else 1.05), 200 * MS, BUDGET, period)
        seen.append(period)
    assert seen == [2] * 40


@pytest.mark.slow
def test_while_the_cost_is_measured_nothing_is_left_out_and_then_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """One thing at a time has the switch."""
    timed = Timed(monkeypatch, windows=True)
    timed.phases = 200
    measured = WARM_UP + sum(steps for _, steps in windows())
    timed.steps(measured)
    assert marks.SAMPLE_OFF not in {kind for kinds in timed.told.values() for kind in kinds}
    begun = timed.step
    timed.steps(LOOKED + 64)
    assert marks.SAMPLE_OFF in {kind for step, kinds in timed.told.items() if step >= begun for kind in kinds}


def test_an_optimizer_that_is_compiled_meanwhile_turns_it_on_for_good(timed: Timed) -> None:
    """Nothing would end a step any more."""
    timed.steps(LOOKED + 20)
    assert timed.probe.off
    timed.script.tracing = True
    timed.script.optimize()
    timed.script.tracing = False
    assert not timed.probe.off
    assert timed.probe.alternation is None
    assert [kind for kind in timed.script.kinds() if kind != marks.COMPILED] == [marks.SAMPLE_ON]


def test_where_the_script_ends_steps_a_compiled_optimizer_changes_nothing(timed: Timed) -> None:
    timed.steps(LOOKED + 20, explicit=True)
    assert timed.probe.off
    timed.script.tracing = True
    timed.script.optimize()
    timed.script.tracing = False
    assert timed.probe.off
    timed.steps(16, explicit=True)
    assert len(timed.whole()) > 1


def test_a_job_that_stands_still_in_a_step_that_is_left_out_says_where(
    timed: Timed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And that it goes on again, though ends of steps are not written down."""
    timed.steps(LOOKED + 20)
    watched = timed.probe.alternation
    assert timed.probe.off
    assert watched is not None
    assert not watched.rests
    timed.script.stands = ("default", 4, 7, "collective", 0, marks.PYTHON)
    watched.look()
    assert timed.script.kinds() == []
    timed.now_ns += alternation.STILL_NS
    watched.look()
    watched.look()
    assert timed.script.kinds() == [marks.STANDING]
    timed.steps(2)
    assert [timed.told[timed.step - 2], timed.told[timed.step - 1]] == [[marks.STEPPED], []]


def test_what_is_stopped_stays_stopped(timed: Timed, capsys: pytest.CaptureFixture[str]) -> None:
    """Timing that failed in a step that is left out stays off, with its one line."""
    timed.steps(LOOKED + 20)
    timed.probe.fail(ValueError("odd"))
    timed.steps(100)
    assert timed.probe.off
    assert list(timed.probe.ring) == []
    assert "timing stopped: ValueError: odd" in capsys.readouterr().err


def test_marks_that_the_device_times_from_now_on_are_not_taken_back(timed: Timed) -> None:
    """The first backward on a GPU puts another function in the place of the one that times or ends a step."""
    timed.steps(LOOKED + 16)
    while not timed.told[timed.step - 1] or timed.told[timed.step - 1][-1] != marks.SAMPLE_ON:
        timed.steps(1)
    timed.script.steps(1)
    written: list[object] = []
    timed.probe.mark = mine = lambda *what: written.append(what)
    timed.script.steps(1)
    assert len(written) == len(PLAIN)
    timed.script.backward()
    assert timed.probe.off
    assert timed.probe.mark is mine


def test_a_wrong_budget_ends_the_timing_with_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is no reason to end the training."""
    monkeypatch.setenv("PACELINE_SOCKET", "/nowhere")
    monkeypatch.setenv("PACELINE_PROBE_BUDGET", "half")
    session = Session(Probe())
    session.begin()
    assert session.probe.stopped
    assert "PACELINE_PROBE_BUDGET='half': not a number; allowed: 0 to 100" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("budget", "hooked", "samples"),
    [(0.005, None, True), (0.0, None, False), (0.005, True, True), (0.005, False, False)],
)
def test_nothing_is_left_out_without_a_budget_or_a_count(budget: float, hooked: bool | None, samples: bool) -> None:
    """Collectives of a step that is left out are counted by PyTorch's own hook alone."""
    session = Session(Probe())
    session.groups = None if hooked is None else SimpleNamespace(hooked=hooked)
    plans = session._plans(SimpleNamespace(wake=None), budget)  # type: ignore[arg-type]
    assert [type(plan) for plan in plans] == [Sampling] * samples
