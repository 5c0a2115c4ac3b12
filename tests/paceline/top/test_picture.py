"""What is shown: who is slow and why, worst first, and as text that does no terminal harm."""

import math

import msgspec
import pytest

from paceline.events import Cost
from paceline.top import plain
from paceline.top.model import Model
from paceline.top.picture import MOST_ROWS, Picture, picture
from paceline.top.tables import GAP, cut, finding_lines, fit, suggestion_lines, tables, wide
from tests.derived_events import HOSTILE, described, finding, job_window, rank_window, suggestion, two_runs

NOW_S = 1015.0


def text(shown: Picture, width: int | None, address: str = "127.0.0.1:9092", only: str | None = None) -> str:
    return plain.text(shown, width, address, only)


def model_of(*told: object, at_s: float = 1010.0) -> Model:
    held = Model()
    for event in told:
        held.update(event, at_s)
    return held


def usual() -> Model:
    """One slow rank of eight, its finding and what to do."""
    ranks = [rank_window(rank, 0.9 if rank == 3 else 0.5) for rank in range(8)]
    return model_of(described(), job_window(), *ranks, finding(), suggestion())


def test_a_job_in_a_line() -> None:
    (row,) = picture(usual(), NOW_S).jobs
    assert (row.state, row.ranks, row.step_s, row.worst_rank, row.lost_s) == ("slow", 8, 1.0, 3, 12.5)
    assert row.worst_ratio == pytest.approx(1.8)


@pytest.mark.parametrize(
    ("told", "state"),
    [
        ([described()], "running"),
        ([described(ended_s=1014.0, exit_status=0)], "ended"),
        ([described(ended_s=1014.0, exit_status=137)], "failed 137"),
        ([described(), finding(state="suspected")], "running"),
        ([described(), finding(state="recovered")], "running"),
        ([described(attempt=1), finding()], "running"),
        ([described(attempt=1), finding(first_step=-1)], "slow"),
        ([described(), finding(kind="hang", state="suspected")], "stuck"),
        ([described(), finding(kind="hang", state="recovered")], "running"),
        ([described(), finding(kind="insufficient_data", ranks=[])], "running"),
    ],
)
def test_the_state_of_a_job(told: list[object], state: str) -> None:
    assert [row.state for row in picture(model_of(*told), NOW_S).jobs] == [state]


def test_too_little_data_confirms_nothing() -> None:
    """Neither in the table, nor in full, nor in the number of a job's findings; over, it is over."""
    short = finding(kind="insufficient_data", ranks=[], cause="unknown")
    shown = picture(model_of(described(), short), NOW_S)
    assert shown.jobs[0].findings == 0
    assert "no verdict  train  Not enough data: the whole job" in text(shown, None)
    assert "confirmed" not in text(shown, None)
    assert finding_lines(short)[1].startswith("no verdict, ")
    assert finding_lines(finding(kind="insufficient_data", state="recovered"))[1].startswith("recovered, ")
    assert "confirmed" in text(picture(usual(), NOW_S), None)


def test_a_name_that_two_runs_have_says_so() -> None:
    """Beside what the run that is judged does; and one that has ended does not end the other."""
    told = [described(), job_window(start_s=1000.0), two_runs()]
    (row,) = picture(model_of(*told), NOW_S).jobs
    assert (row.state, row.twice) == ("running", True)
    assert "train (two runs)" in text(picture(model_of(*told), NOW_S), None)
    assert picture(model_of(*told, finding()), NOW_S).jobs[0].state == "slow"
    told += [described(started_s=950.0, ended_s=970.0)]
    assert picture(model_of(*told), NOW_S).jobs[0].state == "running"
    told += [described(ended_s=1012.0)]
    (row,) = picture(model_of(*told), NOW_S).jobs
    assert (row.state, row.twice) == ("ended", False)
    assert not picture(model_of(*told[:2], two_runs(state="recovered", revision=2)), NOW_S).jobs[0].twice


def test_a_job_that_says_nothing_is_silent_and_one_from_the_future_is_not() -> None:
    assert picture(model_of(described()), 1031.0).jobs[0].state == "silent"
    assert picture(model_of(described()), 0.0).jobs[0].state == "running"


def test_a_stuck_job_says_where_and_comes_first_and_is_not_silent() -> None:
    """No window comes while it hangs; the rank's label and the job's line name what is known."""
    hang = finding(kind="hang", cause="unknown", line="train.py:45 evaluate", first_step=44)
    held = model_of(described(), rank_window(3), hang, described(job="other"))
    shown = picture(held, 1200.0)
    assert [(row.job, row.state) for row in shown.jobs] == [("train", "stuck"), ("other", "silent")]
    assert shown.jobs[0].detail == "stuck at step 44: rank 3, train.py:45 evaluate"
    assert (shown.jobs[1].detail, shown.ranks[0].cause) == ("", "Hang, train.py:45 evaluate")
    assert "stuck at step 44: rank 3, train.py:45 evaluate  train" in text(shown, None)
    assert all(wide(line) <= 80 for line in text(shown, 80).splitlines())
    ended = model_of(described(ended_s=1014.0, exit_status=1), hang)
    assert [(row.state, row.detail) for row in picture(ended, NOW_S).jobs] == [("failed 1", "")]


def test_the_slowest_rank_comes_first_with_its_cause() -> None:
    rows = picture(usual(), NOW_S).ranks
    assert [row.rank for row in rows] == [3, 0, 1, 2, 4, 5, 6, 7]
    assert (rows[0].ratio, rows[0].cause) == (pytest.approx(1.8), "slow computation on the worker")
    assert {row.cause for row in rows[1:]} == {""}


def test_bursts_leave_no_rank_without_work_time() -> None:
    """Median steps are short where means are long: work is of the means alone."""
    phases = {"forward": 0.05, "communication": 0.4, "gc": 0.01}
    held = model_of(*(rank_window(rank, step_median_s=0.06, phase_mean_s=phases) for rank in range(3)))
    assert [(row.own_s, row.ratio) for row in picture(held, NOW_S).ranks] == [(0.05, 1.0)] * 3
    silent = model_of(rank_window(0, step_median_s=0.06, phase_mean_s={}))
    assert [(row.own_s, row.ratio) for row in picture(silent, NOW_S).ranks] == [(0.06, None)]


def test_a_rank_has_one_ratio_against_the_other() -> None:
    """In the jobs' table and in the ranks'; of two ranks the median of both would hold the slow one."""
    window = job_window(ranks=2, own_median_s=0.073, own_worst_s=0.094, worst_rank=1)
    for told in ([window], [window, rank_window(0, 0.052), rank_window(1, 0.094)]):
        shown = picture(model_of(*told), NOW_S)
        assert (shown.jobs[0].worst_rank, shown.jobs[0].worst_ratio) == (1, pytest.approx(0.094 / 0.052))
    assert [row.ratio for row in shown.ranks] == pytest.approx([0.094 / 0.052, 1.0])
    three = model_of(rank_window(0, 0.12), rank_window(1, 0.287), rank_window(2, 0.119))
    assert [round(row.ratio or 0.0, 2) for row in picture(three, NOW_S).ranks] == [2.4, 1.0, 1.0]


def test_of_a_large_job_the_median_is_the_jobs_own() -> None:
    """Only the slowest ranks have windows there: the median of those would hide how slow they are."""
    held = model_of(job_window(ranks=1000), *(rank_window(rank, 0.9) for rank in range(8)))
    assert picture(held, NOW_S).ranks[0].ratio == pytest.approx(1.8)


def test_ranks_that_have_fallen_silent_are_not_shown_as_if_they_ran() -> None:
    held = model_of(rank_window(0), rank_window(1, start_s=2000.0))
    assert [row.rank for row in picture(held, NOW_S).ranks] == [1]


def test_ranks_without_own_time_divide_nothing() -> None:
    held = model_of(job_window(own_median_s=0.0), rank_window(0, 0.0))
    shown = picture(held, NOW_S)
    assert (shown.ranks[0].ratio, shown.jobs[0].worst_ratio) == (None, None)


def test_running_jobs_that_lost_most_come_first() -> None:
    held = model_of(
        described(job="quiet"),
        described(job="over", ended_s=1000.0),
        *(event for job, lost in (("a", 1.0), ("b", 9.0)) for event in (described(job=job), lost_by(job, lost))),
    )
    assert [row.job for row in picture(held, NOW_S).jobs] == ["b", "a", "quiet", "over"]


def lost_by(job: str, lost_s: float) -> object:
    cost = type(finding().cost)(lost_s=lost_s, gpu_hours=0.0, throughput_lost_ratio=0.0)
    return finding(id=job, job=job, cost=cost)


def test_a_job_is_chosen_by_cluster_and_name_and_one_that_is_gone_is_the_first() -> None:
    held = model_of(job_window(), job_window(cluster="d"), rank_window(0), rank_window(1, cluster="d"))
    assert [row.rank for row in picture(held, NOW_S, ("d", "train")).ranks] == [1]
    assert picture(held, NOW_S, ("e", "gone")).cluster == "c"


def test_one_job_alone() -> None:
    held = usual()
    held.update(described(job="other"), 1010.0)
    held.update(finding(id="f2", job="other"), 1010.0)
    shown = picture(held, NOW_S, only="other")
    assert ([row.job for row in shown.jobs], len(shown.findings), shown.suggestions) == (["other"], 1, [])
    assert picture(held, NOW_S, only="unknown").jobs == []


def test_suggestions_that_nobody_needs_are_not_shown() -> None:
    states = ("new", "accepted", "dismissed", "applied", "verified", "did_not_help", "expired", "withdrawn", "of 2030")
    held = model_of(*(suggestion(id=state, state=state) for state in states), suggestion(id="old", expires_s=1000.0))
    shown = [row.suggestion.state for row in picture(held, NOW_S).suggestions]
    assert shown == ["new", "accepted", "of 2030", "applied", "did_not_help", "verified"]


def test_plain_text_says_it_all() -> None:
    said = " ".join(text(picture(usual(), NOW_S), None).split())
    assert "slow train 8 1.00 s rank 3 1.80x" in said
    assert "3 node-0 900 ms 1.80x 1.00 s slow computation on the worker" in said
    assert "confirmed train Straggler: rank 3, slow computation on the worker 12.5 s" in said
    assert "new train Cordon node-1 24.0 device-h/day" in said


def test_samples_that_no_worker_reads_are_told_above_all_else() -> None:
    """A worker that is away, or hangs: what is shown is old, and nothing new is judged."""
    held = usual()
    for at_s in range(1000, 1036):
        held.sampled(float(at_s))
    assert picture(held, 1035.0).trouble is None
    held.sampled(1036.0)
    shown = picture(held, 1036.0)
    assert shown.unread_s == 26.0
    assert text(shown, None).startswith(
        "no stream worker has read for 26.0 s, so there are no verdicts; run paceline doctor\n\nJobs"
    )
    assert max(map(len, text(shown, 30).splitlines())) <= 30
    held.update(job_window(), 1036.0)
    assert "no stream worker" not in text(picture(held, 1036.0), None)


@pytest.mark.parametrize(
    "times", [[], [0.0], [0.0, 25.0], [0.0, 100.0], [100.0, 0.0], [0.0, 20.0, 90.0, 110.0]], ids=str
)
def test_samples_that_began_lately_or_paused_are_not_taken_for_unread(times: list[float]) -> None:
    """Collectors that were away for the night, one sample, and partitions that are read in any order."""
    held = Model()
    for at_s in times:
        held.sampled(at_s)
    assert held.unread_s is None


def test_an_empty_bus_is_one_sentence_with_the_command_that_fills_it() -> None:
    """For the brokers that are read, and whole in a narrow terminal; a job that alone is wanted is named."""
    empty = picture(Model(), NOW_S)
    assert text(empty, 80) == "no job has reported yet; start one: paceline run -- torchrun train.py\n"
    assert "paceline run --brokers kafka-1:9092 -- torchrun train.py\n" in text(empty, 40, "kafka-1:9092")
    other = picture(usual(), NOW_S, only="other")
    wanted = "job 'other' has not reported yet; all jobs: paceline top --brokers k:9 --once\n"
    assert text(other, None, "k:9", "other") == wanted
    assert text(picture(Model(), NOW_S, only=HOSTILE), None, only=HOSTILE).rstrip("\n").isprintable()


def test_without_a_job_no_worker_is_blamed_for_missing_ranks() -> None:
    """A node's finding alone: its table, and no command that would not help."""
    shown = text(picture(model_of(finding(job="", first_step=-1)), NOW_S), None)
    assert "Findings" in shown
    assert "start a worker" not in shown
    assert "start a worker: paceline streams" in text(picture(model_of(described()), NOW_S), None)


def test_the_trouble_stays_above_the_sentence() -> None:
    held = Model()
    for at_s in (0.0, 20.0, 40.0):
        held.sampled(at_s)
    assert text(picture(held, 41.0), None).startswith("no stream worker has read for 40.0 s")


@pytest.mark.parametrize("width", [20, 40, 80, 200, None])
def test_no_line_is_wider_than_the_terminal_and_none_holds_a_control_code(width: int | None) -> None:
    wide_name = "\u6f22" * 50
    held = usual()
    for name in (HOSTILE, wide_name, "x" * 3000, ""):
        for event in (described(job=name), job_window(job=name), rank_window(0, job=name, node=name)):
            held.update(event, 1010.0)
        held.update(finding(id=name or "-", job=name, nodes=[name], kind=name, state=name), 1010.0)
        held.update(suggestion(id=name[:60] or "-", job=name, title=name, state=name), 1010.0)
    for chosen in held.jobs:
        said = text(picture(held, NOW_S, chosen), width)
        assert all(line.isprintable() for line in said.splitlines())
        if width is not None:
            assert max(map(wide, said.splitlines())) <= width
    lines = finding_lines(finding(job=HOSTILE, summary=HOSTILE)) + suggestion_lines(suggestion(title=HOSTILE))
    assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize(("host", "line"), [("node-0", "$ free -m"), ("login", "$ ssh node-0 'free -m'")])
def test_a_command_for_the_machine_that_it_is_read_on_needs_no_ssh(host: str, line: str) -> None:
    assert line in suggestion_lines(suggestion(apply=["ssh node-0 'free -m'"]), host)


def test_a_filter_keeps_rows_whatever_their_case() -> None:
    held = usual()
    held.update(described(job="Other"), 1010.0)
    shown = picture(held, NOW_S)
    assert tables(shown, "oTHER")[0].keys == [repr(("c", "Other"))]
    findings = tables(shown, "no such words")[2]
    assert (findings.rows, findings.empty) == ([], "none of 1 matches the filter")


def test_numbers_that_are_none_are_shown_as_such() -> None:
    held = model_of(job_window(step_median_s=math.nan, wait_ratio=None), finding(cost=lost_by("x", 0.0).cost))  # type: ignore[attr-defined]
    assert "not measured" in text(picture(held, NOW_S), None)


def test_columns_fit_and_say_where_they_are_cut() -> None:
    jobs = tables(picture(usual(), NOW_S))[0]
    widths = fit(jobs, 60)
    assert sum(widths) + GAP * (len(widths) - 1) <= 80
    assert cut("\u6f22\u6f22\u6f22", 4) == "\u6f22…"
    assert cut("abc", 0) == ""


def test_a_picture_is_bounded() -> None:
    held = model_of(*(finding(id=f"f{number}") for number in range(MOST_ROWS + 10)))
    shown = picture(held, NOW_S)
    assert len(shown.findings) == MOST_ROWS
    assert f"and {MOST_ROWS - 40} more" in text(shown, 80)


def test_no_second_is_lost_twice() -> None:
    """Of findings on the same steps the largest counts, as in reports; a suspicion costs nothing."""
    cost = finding().cost
    more = finding(id="f2", kind="slowdown", ranks=[], cost=msgspec.structs.replace(cost, lost_s=cost.lost_s / 2))
    held = model_of(described(), finding(), more, finding(id="f3", state="suspected", first_step=900, last_step=950))
    assert picture(held, NOW_S).jobs[0].lost_s == cost.lost_s


def test_what_is_said_of_a_job_after_its_end_counts() -> None:
    """The last revision, with the whole cost, may follow the goodbye."""
    whole = Cost(lost_s=58.2, gpu_hours=0.1, throughput_lost_ratio=0.2)
    ended = described(ended_s=1014.0, exit_status=0)
    held = picture(model_of(described(), finding(), ended, finding(revision=2, cost=whole, last_step=780)), NOW_S)
    assert [(row.state, row.lost_s) for row in held.jobs] == [("ended", 58.2)]
    assert held.findings[0].finding.last_step == 780
