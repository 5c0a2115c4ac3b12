"""docs/trials.md names every key of a spec, and its example is one."""

import re
import shlex
from pathlib import Path

import pytest

from trials.candidates import expand
from trials.spec import Dimensions, Spec, read

PAGE = (Path(__file__).parents[2] / "docs" / "trials.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("\n## Trial jobs\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize(("kind", "head"), [(Spec, "| key |"), (Dimensions, "| dimension |")])
def test_every_key_has_its_row(kind, head):
    """And none is there that a spec does not take."""
    table = SECTION.partition(head)[2].partition("\n\n")[0]
    named = [name for row in re.findall(r"^\| (`.*?) \|", table, re.M) for name in re.findall(r"`(\w+)`", row)]

    assert sorted(named) == sorted(kind.__struct_fields__)


def test_the_example_is_a_trial():
    """With the placements that the page shows."""
    spec = read(SECTION.partition("```yaml\n")[2].partition("```")[0])
    typed = shlex.split(SECTION.partition("```sh\n")[2].partition("```")[0])
    found = expand(spec, tuple(typed[typed.index("--") + 1 :]), None)

    assert typed[:3] == ["paceline", "trial", "trial.yaml"]
    for one in found.possible:
        assert f"{one.number}  {found.label(one)}\n" in SECTION
    for out in found.impossible:
        assert f"{found.label(out.placement)}: impossible: {out.reason}\n" in SECTION
