"""The thresholds that may be changed while a job runs: each flat name reaches its fields alone, in its bounds."""

import dataclasses
import math

import pytest

from streams.jobs.config import CHANGEABLE, JobConfig, changed, default, refusal


def fields(config, path=""):
    """Every field of a config by its path, with its value."""
    flat = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        flat |= fields(value, f"{path}{field.name}.") if dataclasses.is_dataclass(value) else {path + field.name: value}
    return flat


def another(name):
    """A value in the bounds of a threshold that is not its default."""
    low, high, _ = CHANGEABLE[name]
    return low if default(name) != low else high


@pytest.mark.parametrize("name", CHANGEABLE)
def test_a_name_changes_its_fields_and_no_other(name):
    """Every field that the name stands for, to the value asked for, of the type that it has."""
    before, after = fields(JobConfig()), fields(changed({name: another(name)}))
    assert {path for path in before if before[path] != after[path]} == set(CHANGEABLE[name].fields)
    assert {type(value) for value in before.values()} == {type(value) for value in after.values()}
    assert all(type(after[path]) is type(before[path]) for path in before)
    assert [after[path] for path in CHANGEABLE[name].fields] == [another(name)] * len(CHANGEABLE[name].fields)


def test_no_field_has_two_names():
    """The last of two would win."""
    paths = [path for threshold in CHANGEABLE.values() for path in threshold.fields]
    assert len(paths) == len(set(paths))


@pytest.mark.parametrize("name", CHANGEABLE)
def test_a_default_lies_in_its_bounds(name):
    """What nobody changed could be asked for, and asking for it changes nothing."""
    assert refusal(name, default(name)) is None
    assert changed({name: default(name)}).tick_s == JobConfig().tick_s


@pytest.mark.parametrize("name", CHANGEABLE)
def test_bounds_belong_to_the_range_and_nothing_beyond_them_does(name):
    """Both ends are taken; what is beyond is refused in words and changes nothing."""
    low, high, _ = CHANGEABLE[name]
    assert refusal(name, low) is None
    assert refusal(name, high) is None
    for value in (low - 1e-6 * max(abs(low), 1), high * 1.001, -1.0, math.nan, math.inf, -math.inf):
        assert f"not between {low:g} and {high:g}" in str(refusal(name, value))
        assert changed({name: value}) == JobConfig()


def test_an_unknown_name_is_refused_with_those_there_are():
    """A typing error is told, not taken for a threshold."""
    assert "no threshold 'hang'; there are least_excess," in str(refusal("hang", 60.0))
    assert changed({"hang": 60.0}) == JobConfig()


def test_several_at_once_in_any_order():
    """One that is refused holds back none of the others."""
    values = {"sigmas": 4.0, "least_spread": 0.2, "hang_s": -5.0, "recover_ticks": 12.0}
    config = changed(values)
    assert config == changed(dict(reversed(values.items())))
    assert (config.straggler.sigmas, config.structure.data.least_spread) == (4.0, 0.2)
    assert (config.hang, config.straggler.recover_ticks) == (JobConfig().hang, 12)


def test_zero_is_a_value():
    """0.0 where it is allowed is no "not given"."""
    assert changed({"sigmas": 0.0}).straggler.sigmas == 0.0
