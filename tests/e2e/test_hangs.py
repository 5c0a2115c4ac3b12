"""Real hangs of four gloo ranks, named with their line of code; and long work on one rank that is no hang.

One hang is started by torchrun, as users do. Of the others the ranks are forked: an import of PyTorch a rank is most of
what a case takes, and what a rank does while it hangs does not depend on its launcher.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments.forking import forking
from experiments.hangs.cases import BY_NAME, CASES, RANKS, hangs_of, judged

# Its ranks wait most of the time: it may run beside other tests that start PyTorch.
pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("pytorch-waits")]
BY_TORCHRUN = "lock"


@pytest.fixture
def hangs(tmp_path: Path, free_port: Callable[[], int]) -> Callable[[str], list[dict[str, Any]]]:
    """The findings on hangs of a run of the case of a name."""

    def run(name: str) -> list[dict[str, Any]]:
        if name == BY_TORCHRUN:
            return hangs_of(name, tmp_path)
        forked = forking(RANKS, tmp_path, free_port())
        return hangs_of(name, tmp_path, (sys.executable, *forked.command), forked.environ)

    return run


@pytest.mark.parametrize("name", [case.name for case in CASES if case.ranks is not None])
def test_a_hang_is_confirmed_with_who_where_why_and_what_next(hangs, name):
    """While it lasts, and nobody else is accused before: the kind of trouble, the rank, its line, who only waits."""
    case, found = BY_NAME[name], hangs(name)
    outcome = judged(case, found)
    assert (outcome.kind, outcome.ranks, outcome.line) == (True, True, True), found
    *_, lasting = (one for one in found if one["state"] == "confirmed" and "The job has ended." not in one["summary"])
    others = [rank for rank in range(RANKS) if rank not in case.ranks]
    # Of groups that wait for each other the finding is on one, and names those who wait in that.
    assert lasting["victims"] == (others if case.ranks else [rank for rank in others if rank in lasting["victims"]])
    assert lasting["victims"]
    assert (lasting.get("next") or "").startswith(case.next)
    # Some of the scripts end by themselves; their processes are gone then.
    assert not [one for one in found if "The job has ended." in one["summary"] and "--pid" in (one.get("next") or "")]
    if case.next:
        assert lasting["others_line"].endswith(" finish")
        assert (lasting.get("line") or "") in lasting["summary"]


@pytest.mark.parametrize("name", [case.name for case in CASES if case.ranks is None])
def test_long_work_on_one_rank_is_no_hang(hangs, name):
    """The others wait for longer than the threshold, and nothing is reported: it moves, or it is the first step."""
    assert hangs(name) == []
