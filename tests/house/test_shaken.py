"""The plugin that makes races likely: it finds one, repeats its pauses by the seed, and spares what has no race."""

import importlib.util
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
TESTS = """
import threading

import pytest

pytestmark = pytest.mark.parametrize("attempt", range(20))

def started(work):
    thread = threading.Thread(target=work)
    thread.start()
    return thread

def test_acts_before_the_other_side_is_ready(attempt):
    ready = []
    thread = started(lambda: ready.append(1))
    seen = list(ready)
    thread.join()
    assert seen

def test_judges_beside_the_condition_that_it_waited_for(attempt):
    done, counted = threading.Event(), []
    thread = started(lambda: (done.set(), counted.append(1)))
    done.wait()
    seen = list(counted)
    thread.join()
    assert seen

def test_waits_for_what_it_judges(attempt):
    done, counted = threading.Event(), []
    thread = started(lambda: (counted.append(1), done.set()))
    done.wait()
    assert counted
    thread.join()
"""


@pytest.fixture
def shaken() -> ModuleType:
    spec = importlib.util.spec_from_file_location("shaken", ROOT / "tests" / "plugins" / "shaken.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pauses(shaken: ModuleType, monkeypatch: pytest.MonkeyPatch, seed: str, threads: int) -> list[list[float]]:
    """What each of some threads, one after another, sleeps in a test shaken as ``seed`` says."""
    slept: list[list[float]] = []
    monkeypatch.setattr(shaken, "_sleep", lambda seconds: slept[-1].append(seconds))
    monkeypatch.setattr(shaken.threading, "active_count", lambda: threads)
    shaker = shaken.Shaker()
    shaker.test(shaken.Shaking.of(seed))
    try:
        for _ in range(3):
            slept.append([])
            one = threading.Thread(target=lambda: [shaker.pause() for _ in range(1000)])
            one.start()
            one.join()
    finally:
        shaker.test(None)
    return slept


@pytest.mark.long
def test_a_seed_repeats_the_pauses_of_every_thread(shaken: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    first, again, other = (pauses(shaken, monkeypatch, seed, threads=2) for seed in ("7 test", "7 test", "8 test"))
    assert first == again != other
    assert all(first)
    assert first[0] != first[1]


@pytest.mark.long
def test_pauses_are_bounded_and_one_thread_has_none(shaken: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(20):
        slept = pauses(shaken, monkeypatch, f"{seed} test", threads=2)
        assert max(sum(one) for one in slept) <= shaken.MOST_S + shaken.LONG_S
    assert pauses(shaken, monkeypatch, "7 test", threads=1) == [[], [], []]


def test_every_primitive_that_it_delays_exists(shaken: ModuleType) -> None:
    assert [
        f"{kind}.{name}" for kind, names in shaken.PRIMITIVES.items() for name in names if not hasattr(kind, name)
    ] == []


@pytest.mark.slow
def test_races_are_found_and_what_has_none_passes(tmp_path: Path) -> None:
    """Each of the twenty is shaken in a way of its own; in peace both races pass a hundred times."""
    (tmp_path / "test_races.py").write_text(TESTS)
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "tests" / "plugins")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "shaken", "--shaken-seed", "7", "test_races.py"]
    told = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False).stdout
    assert "FAILED test_races.py::test_acts_before_the_other_side_is_ready" in told
    assert "FAILED test_races.py::test_judges_beside_the_condition_that_it_waited_for" in told
    assert "FAILED test_races.py::test_waits_for_what_it_judges" not in told
