"""Every target reads its real inputs, and refuses as documented what was a finding of ``make fuzz`` once.

A finding becomes a file in ``corpus/TARGET``, named by what it was.
"""

import time
import warnings
from random import Random

import pytest

with warnings.catch_warnings():
    # The Kafka client reads its schemas by a function that Python has deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from experiments.fuzzing import target as bounds
    from experiments.fuzzing.mutation import mutated
    from experiments.fuzzing.target import CORPUS, BoundError, Target, place_of
    from experiments.fuzzing.targets import AREAS, every, of

TARGETS = every()
FOUND = {f"{target.name}/{path.name}": (target, path) for target in TARGETS.values() for path in target.corpus()}


@pytest.mark.parametrize("area", AREAS)
def test_a_target_is_in_the_file_that_its_name_begins_with(area: str) -> None:
    """The process that fuzzes it imports that one alone."""
    assert {name.partition(".")[0] for name in of(area)} == {area}


@pytest.mark.long
@pytest.mark.parametrize("name", TARGETS)
def test_real_inputs_are_read(name: str) -> None:
    """What the target is for: were all of them refused, nothing behind its first check would be tried."""
    seeds = list(TARGETS[name].seeds())
    assert sum(TARGETS[name].check(data) for data in seeds)
    assert max(map(len, seeds)) <= TARGETS[name].longest


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found_is_mended(name: str) -> None:
    """Read or refused; neither another error nor too much time or memory."""
    target, path = FOUND[name]
    target.check(path.read_bytes())


def test_every_stored_input_belongs_to_a_target() -> None:
    """None is left over from a target that has another name now, and all together are small."""
    assert {path.name for path in CORPUS.iterdir() if path.is_dir()} <= set(TARGETS)
    assert sum(path.stat().st_size for path in CORPUS.rglob("*") if path.is_file()) < 200_000


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name, target in TARGETS.items() if target.form != "bytes"])
def test_changed_values_reach_what_is_behind_the_decoder(name: str) -> None:
    """Of changed real inputs some are read: the changes keep the form, and change something."""
    target, rng = TARGETS[name], Random(3)
    seeds = list(target.seeds())
    made = [mutated(target.form, rng.choice(seeds), rng) for _ in range(300)]
    changed = [data for data in made if data is not None and data not in seeds]
    assert len(changed) > 100
    assert any(_read(target, data) for data in changed)


def _read(target: Target, data: bytes) -> bool:
    try:
        return target.check(data)
    except Exception:  # Whether it is a finding is not asked here.
        return False


# --- what is a finding -----------------------------------------------------------------------------------------------


def _target(feed) -> Target:
    return Target("any", feed, list, (ValueError,))


def test_a_documented_refusal_is_none() -> None:
    """Its subclasses included."""

    def refuse(data: bytes) -> None:
        raise UnicodeError("no")

    assert not _target(refuse).check(b"")
    assert _target(len).check(b"")


def test_any_other_error_is_one_and_is_known_by_its_place() -> None:
    """Two errors of one line are the same finding."""

    def fail(data: bytes) -> None:
        raise KeyError(data)

    places = set()
    for data in (b"a", b"b"):
        with pytest.raises(KeyError) as caught:
            _target(fail).check(data)
        places.add(place_of(caught.value))
    (place,) = places
    assert place.startswith("KeyError at tests/fuzz/test_corpus.py:")


def test_time_and_memory_beyond_the_bound_are_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    """One input may not hold up all others, nor fill the machine."""

    def spin(data: bytes) -> None:
        end = time.process_time() + 0.02
        while time.process_time() < end:
            pass

    monkeypatch.setattr(bounds, "MOST_S", 0.01)
    with pytest.raises(BoundError, match="s of processor"):
        _target(spin).check(b"")
    monkeypatch.setattr(bounds, "MOST_S", 10.0)
    peaks = iter((0, 3 * 2**30))
    monkeypatch.setattr(bounds, "_peak_bytes", lambda: next(peaks))
    with pytest.raises(BoundError, match="3072 MiB of memory"):
        _target(len).check(b"")
