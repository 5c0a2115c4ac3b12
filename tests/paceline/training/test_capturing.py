"""A window of PyTorch's profiler in the training process: whole steps, one at a time, and never at training's cost."""

import gzip
import json
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from paceline.settings import CAPTURES
from paceline.training import capture_file, capturing
from paceline.training.capture_messages import NOTE, WHY, Capture, encode
from paceline.training.capture_plan import MOST_EVENTS
from paceline.training.capturing import Capturing
from paceline.training.links import TcpLinks
from paceline.training.probe import Probe
from paceline.training.session import Session
from paceline.training.shipping import Shipping

pytestmark = [pytest.mark.e2e, pytest.mark.training, pytest.mark.xdist_group("pytorch")]


@pytest.fixture
def torch() -> Any:
    import torch

    torch.set_num_threads(1)
    return torch


class Training:
    """A loop whose steps are told as the hooks tell them; ``layers`` make a step long."""

    def __init__(self, torch: Any, until: Callable[..., None], layers: int = 1) -> None:
        self.probe = Probe()
        self.capturing = Capturing(self.probe, on=True)
        self.torch, self._until = torch, until
        self.model = torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(layers)])
        self._optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def step(self, count: int = 1) -> None:
        for _ in range(count):
            self.model(self.torch.ones(4, 8)).sum().backward()
            self._optimizer.step()
            self._optimizer.zero_grad()
            self.probe.optimizer_stepped()

    def ask(self, path: Path, steps: int = 3) -> None:
        self.capturing.hear(encode(Capture(steps, str(path))))

    def step_until(self, condition: Callable[[], Any]) -> None:
        """Train until ``condition``."""

        def stepped() -> bool:
            self.step()
            return bool(condition())

        self._until(stepped)

    def evaluate_until(self, condition: Callable[[], Any]) -> None:
        """Forward passes alone, by Python of the main thread, and no step, until ``condition``."""

        def evaluated() -> bool:
            with self.torch.no_grad():
                for _ in range(50):
                    self.model(self.torch.ones(4, 8))
            return bool(condition())

        self._until(evaluated)

    def profiled(self) -> bool:
        """Whether a profiler is on, ours or the script's."""
        return bool(self.torch.autograd._profiler_enabled())

    def record(self) -> None:
        """Train until the look is over and the window is on."""
        self.step_until(lambda: self.profiled() and self.probe.capture._plan is not None)


@pytest.fixture
def training(torch: Any, until: Callable[..., None]) -> Training:
    return Training(torch, until)


@pytest.fixture
def long(torch: Any, until: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> Training:
    """Training of which a capture records so many steps that it is still on when the test goes on."""
    monkeypatch.setattr("paceline.training.capture_plan.MOST_EVENTS", 10 * MOST_EVENTS)
    return Training(torch, until, layers=20)


def shipping_of(probe: Probe, folder: Path) -> Shipping:
    """What ships for a rank that has nothing to say, to a sidecar that is gone."""
    nothing: Any = None
    return Shipping(probe, str(folder / "gone"), lambda: nothing, TcpLinks(set()))


def events(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path) as file:
        told: list[dict[str, Any]] = json.load(file)["traceEvents"]
    return told


def beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def why(path: Path) -> str:
    return str(json.loads(beside(path, WHY).read_text())["reason"])


def test_whole_steps_are_in_the_trace(training: Training, tmp_path: Path, until: Callable[..., None]) -> None:
    """As many as were asked for; nothing but the trace is left, and the profiler is off again."""
    path = tmp_path / "a.json.gz"
    training.step(2)
    training.ask(path)
    training.step_until(path.exists)
    steps = {one["name"] for one in events(path) if str(one.get("name", "")).startswith("ProfilerStep#")}
    assert steps == {f"ProfilerStep#{number}" for number in (1, 2, 3)}
    assert any(one.get("name") == "aten::linear" for one in events(path))
    until(lambda: [one.name for one in tmp_path.iterdir()] == ["a.json.gz"])
    assert training.probe.capture is None
    assert not training.profiled()


def test_one_capture_follows_another_but_none_runs_beside_it(training: Training, tmp_path: Path) -> None:
    first, second, third = (tmp_path / f"{name}.json.gz" for name in "abc")
    training.ask(first)
    training.step()
    training.ask(second)
    assert "another capture" in why(second)
    training.step_until(first.exists)
    training.ask(third, steps=1)
    training.step_until(third.exists)


def test_a_script_that_profiles_itself_is_left_alone(
    training: Training, torch: Any, tmp_path: Path, until: Callable[..., None]
) -> None:
    """Whether its profiler runs or only waits for its turn; what it measures is whole."""
    path = tmp_path / "a.json.gz"
    waiting = torch.profiler.schedule(wait=2, warmup=1, active=1)
    kinds = [torch.profiler.ProfilerActivity.CPU]
    for schedule in (None, waiting):
        with torch.profiler.profile(activities=kinds, schedule=schedule) as own:
            training.ask(path)
            for _ in range(4):
                training.step()
                own.step()
        until(beside(path, WHY).exists)
        assert "a profiler of its own" in why(path)
        beside(path, WHY).unlink()
    assert not path.exists()


def own_profile(torch: Any) -> Any:
    return torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])


def own_schedule(torch: Any) -> Any:
    schedule = torch.profiler.schedule(wait=0, warmup=1, active=3, repeat=1)
    return torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], schedule=schedule)


def own_autograd(torch: Any) -> Any:
    return torch.autograd.profiler.profile()


def own_legacy(torch: Any) -> Any:
    return torch.autograd.profiler_legacy.profile()


@pytest.mark.parametrize("profiler", [own_profile, own_schedule, own_autograd, own_legacy])
@pytest.mark.parametrize("looks", [True, False])
def test_a_profiler_that_the_script_begins_takes_its_place(
    long: Training, torch: Any, tmp_path: Path, until: Callable[..., None], profiler: Callable[[Any], Any], looks: bool
) -> None:
    """In the look and in the window: the script's has its events, ours is dropped with a reason."""
    path, after = tmp_path / "a.json.gz", tmp_path / "b.json.gz"
    long.ask(path, steps=20)
    if looks:
        long.step_until(long.profiled)
    else:
        long.record()
    with profiler(torch) as own:
        for _ in range(4):
            long.step()
            if hasattr(own, "step"):
                own.step()
    told = own.events() if hasattr(own, "events") else own.function_events
    assert any(one.name == "aten::linear" for one in told)
    until(beside(path, WHY).exists)
    assert why(path) == capturing.BEGAN_OWN
    long.ask(after, steps=1)
    long.step_until(after.exists)


def test_a_profiler_that_begins_on_another_thread_takes_its_place(
    long: Training, torch: Any, tmp_path: Path, until: Callable[..., None]
) -> None:
    path, told = tmp_path / "a.json.gz", list[str]()
    long.ask(path, steps=20)
    long.record()

    def profile() -> None:
        with own_profile(torch) as own:
            torch.ones(4).add(1)
        told.extend(one.name for one in own.events())

    other = threading.Thread(target=profile)
    other.start()
    until(lambda: not other.is_alive())
    assert "aten::add" in told
    until(beside(path, WHY).exists)
    assert why(path) == capturing.BEGAN_OWN


def test_a_profiler_that_is_gone_unseen_is_not_ended_again(
    long: Training, torch: Any, tmp_path: Path, until: Callable[..., None]
) -> None:
    """By whatever way ours was ended: to end it once more would end the process."""
    path = tmp_path / "a.json.gz"
    long.ask(path, steps=20)
    long.record()
    torch._C._autograd._disable_profiler()
    long.step(3)
    until(beside(path, WHY).exists)
    assert why(path) == capturing.BEGAN_OWN


def test_what_was_replaced_in_pytorch_is_put_back(long: Training, torch: Any, tmp_path: Path) -> None:
    module: Any = torch.autograd.profiler
    before = (module._prepare_profiler, module._enable_profiler, torch._C._autograd._enable_profiler)
    path = tmp_path / "a.json.gz"
    long.ask(path, steps=1)
    long.step_until(long.profiled)
    assert module._enable_profiler is not before[1]
    long.step_until(path.exists)
    assert (module._prepare_profiler, module._enable_profiler, torch._C._autograd._enable_profiler) == before


def test_no_capture_outlives_training(long: Training, tmp_path: Path, until: Callable[..., None]) -> None:
    path = tmp_path / "a.json.gz"
    long.ask(path, steps=20)
    long.record()
    long.capturing.end()
    assert not long.profiled()
    until(beside(path, WHY).exists)
    assert why(path) == capturing.ENDED


def test_the_end_of_a_ranks_timing_ends_its_capture(
    long: Training, torch: Any, tmp_path: Path, until: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Python exits, too: the profiler is off once the session has ended, though no sidecar is there any more."""
    monkeypatch.setenv(CAPTURES.name, "1")
    shipping = shipping_of(long.probe, tmp_path)
    long.capturing = shipping._capturing
    session, path = Session(long.probe, torch), tmp_path / "a.json.gz"
    session._shipping = shipping
    long.ask(path, steps=20)
    long.record()
    shipping.start()
    session.end()
    assert not long.profiled()
    until(beside(path, WHY).exists)
    assert why(path) == capturing.ENDED


def test_a_capture_ended_by_another_thread_ends_where_it_runs(
    long: Training, tmp_path: Path, until: Callable[..., None]
) -> None:
    path = tmp_path / "a.json.gz"
    long.ask(path, steps=20)
    long.record()
    other = threading.Thread(target=long.capturing.end)
    other.start()
    other.join()
    long.evaluate_until(lambda: not long.profiled())
    until(beside(path, WHY).exists)
    assert why(path) == capturing.ENDED


def test_a_look_ends_though_no_step_does(long: Training, tmp_path: Path) -> None:
    """And nothing is recorded until the next step."""
    path = tmp_path / "a.json.gz"
    long.ask(path, steps=1)
    long.step_until(long.profiled)
    long.evaluate_until(lambda: not long.profiled())
    assert not beside(path, WHY).exists()
    long.step_until(path.exists)


def test_a_window_ends_though_no_step_does(
    long: Training, tmp_path: Path, until: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paceline.training.capture_plan.MOST_S", 0.5)
    path = tmp_path / "a.json.gz"
    long.ask(path, steps=20)
    long.record()
    long.evaluate_until(lambda: not long.profiled())
    until(beside(path, WHY).exists)
    assert "no step ended" in why(path)


def test_no_look_ends_within_a_backward_pass(
    long: Training, torch: Any, tmp_path: Path, until: Callable[..., None]
) -> None:
    """PyTorch would restore the profiler after it, and what was stopped would record on without end."""
    path = tmp_path / "a.json.gz"
    long.ask(path, steps=1)
    long.step_until(long.profiled)
    x = torch.ones(4, 8, requires_grad=True)
    asked: list[bool] = []
    stop = long.capturing._one.stopped_midway  # type: ignore[union-attr]
    x.register_hook(lambda _: asked.append(bool(stop()) or long.profiled()))
    x.sum().backward()
    assert asked == [True]
    long.evaluate_until(lambda: not long.profiled())
    long.step_until(path.exists)


def test_a_process_that_grows_is_not_captured_on(
    long: Training, tmp_path: Path, until: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.json.gz"
    long.ask(path, steps=20)
    long.record()
    monkeypatch.setattr(capturing, "_resident_bytes", lambda: 2**60)
    long.evaluate_until(lambda: not long.profiled())
    until(beside(path, WHY).exists)
    assert "grew by" in why(path)


def test_more_steps_than_a_trace_takes_are_cut_and_that_is_noted(
    torch: Any, tmp_path: Path, until: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paceline.training.capture_plan.LOOK_S", 60.0)
    monkeypatch.setattr(capturing, "LOOK_S", 60.0)
    training = Training(torch, until, layers=300)
    path = tmp_path / "a.json.gz"
    training.ask(path, steps=20)
    training.step_until(path.exists)
    steps = {one["name"] for one in events(path) if str(one.get("name", "")).startswith("ProfilerStep#")}
    assert 1 <= len(steps) < 20
    assert f"{len(steps)} of 20 steps" in beside(path, NOTE).read_text()


class Counting:
    """In place of PyTorch's profiler: it counts a million events a second, of which a step takes ``step_s``."""

    def __init__(self, training: Training, monkeypatch: pytest.MonkeyPatch, step_s: float) -> None:
        self.training, self.step_s, self.now_s = training, step_s, 0.0
        #: When each window began, and the events of each that was ended.
        self.began_s, self.ended = list[float](), list[int]()
        training.capturing = Capturing(training.probe, on=True, clock=lambda: self.now_s)
        monkeypatch.setattr(capturing, "Window", self.begin)

    def begin(self, *_: Any) -> Any:
        self.began_s.append(self.now_s)
        return SimpleNamespace(on=True, mark=lambda step: None, end=self.end)

    def end(self, *, whole: bool) -> Any:
        self.ended.append(round((self.now_s - self.began_s[-1]) * 1e6))
        return SimpleNamespace(
            events=lambda count=self.ended[-1]: range(count),
            save=lambda path: Path(path).write_text('{"traceEvents": []}'),
        )

    def step_until(self, condition: Callable[[], Any]) -> None:
        """Train until ``condition``; time goes on while events are counted."""

        def stepped() -> bool:
            if len(self.began_s) > len(self.ended):
                self.now_s += self.step_s
            return bool(condition())

        self.training.step_until(stepped)


def test_one_step_of_more_events_than_a_trace_takes_is_refused_with_their_number(
    training: Training, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the look at it no profiler begins again, and training goes on."""
    counting = Counting(training, monkeypatch, step_s=0.1)
    path = tmp_path / "a.json.gz"
    training.ask(path, steps=1)
    counting.step_until(lambda: path.exists() or beside(path, WHY).exists())
    assert not path.exists()
    assert why(path) == f"one step has 100,000 profiler events, and a trace at most {MOST_EVENTS:,}"
    training.step(3)
    assert (counting.ended, training.probe.capture) == ([100_000], None)


@pytest.mark.parametrize("heavier", [1, 5])
def test_the_events_of_a_trace_are_bounded(
    training: Training, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, heavier: int
) -> None:
    """By the steps of which the look tells how many fit; where those that follow have more, by time: twice as many
    at most. The trace's note says that steps are missing."""
    counting = Counting(training, monkeypatch, step_s=0.004)
    path = tmp_path / "a.json.gz"
    training.ask(path, steps=20)
    counting.step_until(lambda: len(counting.began_s) == 2)
    counting.step_s *= heavier
    counting.step_until(lambda: path.exists() or beside(path, WHY).exists())
    look, trace = counting.ended
    assert look == 4_000
    assert 0 < trace <= (MOST_EVENTS if heavier == 1 else 2 * MOST_EVENTS)
    assert "of 20 steps: more would have too many profiler events" in beside(path, NOTE).read_text()


def test_an_interrupt_while_the_profiler_is_stopped_is_the_scripts(
    long: Training, tmp_path: Path, until: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a signal's handler raises meanwhile goes on into the script, as without us."""
    path = tmp_path / "a.json.gz"
    long.ask(path, steps=20)
    long.record()
    stop, signals = long.capturing._one.stopped_midway, [signal.SIGINT]  # type: ignore[union-attr]

    def interrupted() -> None:
        if signals:
            signal.raise_signal(signals.pop())
        stop()

    monkeypatch.setattr(long.capturing._one, "stopped_midway", interrupted)
    other = threading.Thread(target=long.capturing.end)

    def evaluate() -> None:
        other.start()
        long.evaluate_until(lambda: False)

    with pytest.raises(KeyboardInterrupt):
        evaluate()
    long.evaluate_until(lambda: not long.profiled())


def test_a_process_that_forks_has_no_profiler_of_ours(
    long: Training, torch: Any, tmp_path: Path, until: Callable[..., None]
) -> None:
    """Its child would die or hang of it when it ends."""
    path = tmp_path / "a.json.gz"
    long.ask(path, steps=20)
    long.record()
    session = Session(long.probe, torch)
    session._shipping = SimpleNamespace(  # type: ignore[assignment]
        forks=lambda: long.capturing.end(capturing.FORKS), leave_child=lambda: None, clock=None
    )
    child = os.fork()
    if child == 0:
        os._exit(3 if long.profiled() else 0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    until(beside(path, WHY).exists)
    assert why(path) == capturing.FORKS
    session._shipping = None


def test_training_on_another_thread_is_not_captured(training: Training, tmp_path: Path) -> None:
    """Nothing could end the profiler there while no step ends."""
    path = tmp_path / "a.json.gz"
    other = threading.Thread(target=training.probe.adopt_thread)
    other.start()
    other.join()
    training.ask(path)
    assert "main thread" in why(path)
    training.step(3)
    assert not training.profiled()


def test_training_that_moves_to_another_thread_loses_the_capture(
    long: Training, tmp_path: Path, until: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paceline.training.capture_plan.MOST_S", 0.5)
    path = tmp_path / "a.json.gz"
    long.ask(path, steps=20)
    long.record()
    other = threading.Thread(target=long.step, args=(5,))
    other.start()
    other.join()
    long.evaluate_until(lambda: not long.profiled())
    until(beside(path, WHY).exists)


def test_without_captures_nobody_is_profiled(torch: Any, until: Callable[..., None], tmp_path: Path) -> None:
    training = Training(torch, until)
    training.capturing = Capturing(training.probe, on=False)
    path = tmp_path / "a.json.gz"
    training.ask(path)
    training.step(3)
    assert not training.profiled()
    assert "--captures" in why(path)


@pytest.mark.parametrize("said", [None, "0", "perhaps"])
def test_a_rank_takes_captures_only_where_the_run_was_started_with_them(
    training: Training, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str | None
) -> None:
    """As a process of a plain ``paceline run`` finds its environment."""
    if said is not None:
        monkeypatch.setenv(CAPTURES.name, said)
    training.capturing = shipping_of(training.probe, tmp_path)._capturing
    path = tmp_path / "a.json.gz"
    training.ask(path)
    training.step(3)
    assert not training.profiled()
    assert "--captures" in why(path)


def test_a_folder_that_is_gone_costs_training_nothing(training: Training, tmp_path: Path) -> None:
    training.ask(tmp_path / "gone" / "a.json.gz")
    training.step_until(lambda: training.probe.capture is None)
    again = tmp_path / "b.json.gz"
    training.ask(again, steps=1)
    training.step_until(again.exists)


@pytest.mark.parametrize("free", [0, 100 * 2**20])
def test_a_disk_with_little_room_is_not_filled(
    training: Training, tmp_path: Path, until: Callable[..., None], monkeypatch: pytest.MonkeyPatch, free: int
) -> None:
    disk = SimpleNamespace(f_bavail=free, f_frsize=1)
    monkeypatch.setattr(capture_file, "os", SimpleNamespace(**{**vars(os), "statvfs": lambda _: disk}))
    path = tmp_path / "a.json.gz"
    training.ask(path)
    training.step_until(beside(path, WHY).exists)
    assert "MiB of free space" in why(path)
    assert [one.name for one in tmp_path.iterdir()] == ["a.json.gz.why"]


class Torn:
    """In place of what the profiler recorded: a disk that was full, which PyTorch does not tell."""

    def save(self, path: str) -> None:
        Path(path).write_text('{"traceEvents": [{"ph": "X", "cat": "cpu_')


def test_a_disk_that_was_full_is_told_and_what_was_written_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = iter([2**40, 0])
    disk = lambda _: SimpleNamespace(f_bavail=next(room), f_frsize=1)  # noqa: E731
    monkeypatch.setattr(capture_file, "os", SimpleNamespace(**{**vars(os), "statvfs": disk}))
    path = tmp_path / "a.json.gz"
    capture_file.write(Torn(), Capture(3, str(path)), "1 of 3 steps")
    assert why(path) == "the trace could not be written: No space left on device"
    assert [one.name for one in tmp_path.iterdir()] == ["a.json.gz.why"]


def test_a_trace_that_pytorch_wrote_in_part_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimpleNamespace(f_bavail=2**40, f_frsize=1)
    monkeypatch.setattr(capture_file, "os", SimpleNamespace(**{**vars(os), "statvfs": lambda _: disk}))
    path = tmp_path / "a.json.gz"
    capture_file.write(Torn(), Capture(3, str(path)), "")
    assert "only a part" in why(path)
    assert [one.name for one in tmp_path.iterdir()] == ["a.json.gz.why"]


def test_what_goes_wrong_in_the_profiler_is_told_and_not_raised(
    training: Training, torch: Any, tmp_path: Path, until: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(**options: Any) -> None:
        raise RuntimeError("no profiler in this build")

    monkeypatch.setattr(torch.profiler, "_KinetoProfile", broken)
    path = tmp_path / "a.json.gz"
    training.ask(path)
    training.step(3)
    until(beside(path, WHY).exists)
    assert why(path) == "RuntimeError: no profiler in this build"
    assert training.probe.capture is None


def test_steps_that_never_come_are_not_waited_for_for_ever(
    torch: Any, until: Callable[..., None], tmp_path: Path
) -> None:
    now_s = [0.0]
    training = Training(torch, until)
    training.capturing = Capturing(training.probe, on=True, clock=lambda: now_s[0])
    path = tmp_path / "a.json.gz"
    training.ask(path)
    now_s[0] = capturing.PATIENCE_S + 1.0
    until(beside(path, WHY).exists)
    assert "no optimizer step" in why(path)
    assert training.probe.capture is None


def test_while_nobody_asks_nothing_is_held(training: Training) -> None:
    training.step(3)
    assert training.probe.capture is None
    threads = threading.active_count()
    for told in (b"", b"[", b"{}", b'{"capture":{"steps":99,"path":"/x"}}', b'{"capture":{"steps":1,"path":"x"}}'):
        training.capturing.hear(told)
    assert training.probe.capture is None
    assert threading.active_count() == threads
