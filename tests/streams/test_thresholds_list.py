"""``paceline thresholds --list``: what each threshold is, and what may be written."""

import pytest

from streams import thresholds
from streams.jobs.config import CHANGEABLE, default, refusal


def test_each_threshold_has_its_default_its_limits_and_its_meaning(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(thresholds.MEANINGS) == list(CHANGEABLE)
    assert thresholds.main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split(maxsplit=2)[:2] == ["least_excess", "0.05"]
    assert lines[0].endswith("0.01 to 10     a rank is slow from this much over its peers on, as a share of the step")
    assert max(map(len, lines)) <= 120


def test_examples_set_what_may_be_set_and_is_not_the_default() -> None:
    words = [word for line in thresholds.EXAMPLES.splitlines() for word in line.split() if "=" in word]
    values = {name: float(raw) for name, _, raw in (word.partition("=") for word in words)}
    assert set(values) == {"least_excess", "hang_s", "sigmas"}
    assert [name for name, value in values.items() if refusal(name, value) or default(name) == value] == []
