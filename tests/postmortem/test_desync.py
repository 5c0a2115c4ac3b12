"""The desync report of PyTorch (TORCH_NCCL_DESYNC_DEBUG=1), as its watchdog prints it."""

import pytest

from postmortem.deciding.decide import decide
from postmortem.reading.files import read


def verdict(folder, text):
    (folder / "job.log").write_text(text)
    return decide(read([str(folder)], 1 << 30).statements)


def report(rank, lagging, within=None):
    within = rank if within is None else within
    return (
        f"[rank{rank}]:[E515 18:36:47.343377708 ProcessGroupNCCL.cpp:1937] Rank {within}\n"
        f"\t - [{within}] Timeout at collective: ALLREDUCE, #315\n"
        "\t - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:\n"
        f"{lagging}"
        "\t - Snapshot of ranks' latest states:\n\t   #182 finished ranks:\n\t     [7] finished ALLREDUCE\n"
        "\t   #315 started ranks:\n\t     [0, 1, 2] started ALLREDUCE\n"
        "\t   #317 started ranks:\n\t     [3, 4, 5, 6] started _ALLGATHER_BASE\n"
    )


def watchdog(rank, group="0(default_pg)", within=None):
    within = rank if within is None else within
    return (
        f"[rank{rank}]:[E515 18:36:47.343391940 ProcessGroupNCCL.cpp:2268] [PG ID 0 PG GUID {group} Rank {within}]  "
        "failure detected by watchdog at work sequence id: 241 PG status: last enqueued work: 315, last completed "
        "work: 183\n"
    )


BEHIND = "\t   - [7] finished collective #182, but didn't join collective #183 (count from 1)\n"
#: As older versions have written it.
PLAIN = BEHIND.replace("- [7]", "[7]")


@pytest.mark.parametrize("lagging", [BEHIND, PLAIN])
@pytest.mark.parametrize("ranks", [[0], range(7)], ids=["one report", "one of each"])
def test_the_rank_that_did_not_join_is_named(tmp_path, lagging, ranks):
    found = verdict(tmp_path, "".join(report(rank, lagging) + watchdog(rank) for rank in ranks))
    assert (found.kind, found.ranks, found.victims) == ("hang", (7,), tuple(ranks))
    assert "collective 182 is the last that it finished" in found.cause
    assert verdict(tmp_path, report(0, lagging)).ranks == (7,)


def test_reports_that_disagree_accuse_nobody(tmp_path):
    other = BEHIND.replace("[7]", "[3]")
    found = verdict(tmp_path, report(0, BEHIND) + watchdog(0) + report(1, other) + watchdog(1))
    assert found.ranks == ()


def test_ranks_of_another_group_are_not_taken_for_those_of_the_job(tmp_path):
    found = verdict(tmp_path, report(9, BEHIND, 1) + watchdog(9, "3(tensor)", 1))
    assert (found.kind, found.ranks, found.group) == ("hang", (), "tensor")
    assert "rank 7 of group tensor did not come" in found.cause


def test_the_default_groups_timeout_at_others_does_not_make_it_the_default_groups_report(tmp_path):
    """They wait for those that stand in the other group."""
    found = verdict(tmp_path, report(9, BEHIND, 1) + watchdog(9, "3(tensor)", 1) + watchdog(0) + watchdog(1))
    assert (found.ranks, found.group) == ((), "tensor")


@pytest.mark.long
def test_it_is_the_same_far_down_a_log(tmp_path):
    """Where lines without a word are passed over."""
    found = verdict(
        tmp_path, "[rank0]: step 1\n" * 400_000 + report(9, BEHIND, 1) + watchdog(9, "3(tensor)", 1) + watchdog(0)
    )
    assert (found.ranks, found.group) == ((), "tensor")


def test_a_collective_that_all_have_joined_is_nobodys(tmp_path):
    joined = "\t   - [0, 1, 2, 3] joined but didn't finish collective #730 (count from 1)\n"
    text = "".join(report(rank, joined).replace("[7] finished", "[0] started") for rank in range(4))
    found = verdict(tmp_path, text)
    assert (found.kind, found.ranks, found.seq) == ("hang", (), 730)
    assert "all 4 ranks have joined collective 730 and none has ended it" in found.cause
    some = "\t   - [0, 1] joined but didn't finish collective #730 (count from 1)\n"
    found = verdict(tmp_path, "".join(report(rank, some) + watchdog(rank) for rank in range(4)))
    assert found.ranks == ()
    assert "none has ended it" not in found.cause
