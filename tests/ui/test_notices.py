import re
from dataclasses import replace

import pytest

from paceline.events import Evidence
from tests.ui.simulated_job import SimulatedJob
from ui.feed import Feed
from ui.notices import DOCTOR, RUN, STREAMS, UP, aimed, notice, of_connection, standing


def commands(found):
    return [command for command, _ in found.commands]


def test_a_lost_broker_comes_first_and_says_the_cause(played, snapshot_of):
    """No broker is the first thing to know, whatever is still on the screen."""
    found = notice(snapshot_of(played, state="lost", cause="connection refused"), None)
    assert found.tone == "lost"
    assert "127.0.0.1:9092" in found.title
    assert "connection refused" in found.text
    assert "paceline doctor" in commands(found)


def test_a_reader_that_failed_is_not_taken_for_a_lost_broker(played, snapshot_of):
    """The cause is the page's own, what came before stays, and nobody is sent to start a broker."""
    cause = "the page's reader of raw events failed (KeyError: 'op') and is started again"
    found = notice(snapshot_of(played, state="failed", cause=cause), None)
    assert found.tone == "lost"
    assert cause in found.text
    assert "is shown below" in found.text
    assert commands(found) == ["paceline doctor"]


def test_an_empty_bus_names_the_commands_that_fill_it(snapshot_of):
    """Connected, no data: run your job; the demo has a broker and a page of its own, so it would not show here."""
    found = notice(snapshot_of(Feed()), None)
    assert commands(found) == [RUN[0], DOCTOR[0]]


def typed(snapshot, brokers):
    """The commands that a page connected to ``brokers`` shows."""
    held = replace(snapshot, connection=replace(snapshot.connection, brokers=brokers))
    return commands(aimed(notice(held, None), brokers))


def test_commands_name_the_brokers_of_this_page(played, simulated_job, tell, snapshot_of):
    """What is typed as shown reaches what the page reads, whatever the notice."""
    unread = Feed()
    tell(unread, simulated_job.timings(900.0, 0, 10), 900.0)
    tell(unread, simulated_job.timings(940.0, 10, 10), 940.0)
    snapshots = [snapshot_of(Feed()), snapshot_of(unread, now_s=941.0), snapshot_of(played, now_s=1100.0)]
    snapshots += [snapshot_of(played, state=state, cause="x") for state in ("lost", "failed", "refused")]
    shown = [one for each in snapshots for one in typed(each, "kafka-1:9093,k2:9093")]
    assert {one.split()[1] for one in shown} == {"run", "doctor", "streams"}
    assert all(one.startswith("paceline " + one.split()[1] + " --brokers kafka-1:9093,k2:9093") for one in shown)


@pytest.mark.parametrize(
    ("brokers", "offered"),
    [
        ("127.0.0.1:9092", [UP[0]]),
        ("127.0.0.1:29092", [f"{UP[0]} --port 29092"]),
        ("kafka-1:9092", []),
        ("127.0.0.1:9092,127.0.0.1:9094", []),
    ],
)
def test_a_lost_broker_is_started_only_where_up_would_start_that_one(snapshot_of, brokers, offered):
    """``paceline up`` starts one on this machine: for brokers elsewhere it would be another one."""
    shown = typed(snapshot_of(Feed(), state="lost"), brokers)
    assert [one for one in shown if one.startswith("paceline up")] == offered


def test_what_has_been_read_is_not_shown_below_connecting(simulated_job, tell, snapshot_of):
    """One reader is there before the other: numbers are on the screen, whether a job is among them or not."""
    feed = Feed()
    assert "Connecting" in of_connection(snapshot_of(feed, state="connecting")).title
    feed.traffic["host"].last_s = 900.0
    snapshot = snapshot_of(feed, state="connecting")
    assert of_connection(snapshot) is None
    assert "Connect" not in notice(snapshot, None).title
    assert "is shown below" in of_connection(snapshot_of(feed, state="lost")).text
    tell(feed, simulated_job.described(900.0))
    assert notice(snapshot_of(feed, state="connecting", now_s=901.0), None) is None


def test_the_first_read_says_how_much_is_left(played, snapshot_of):
    """What is not there yet may still come: no job is said to be missing, and no verdict."""
    assert "newest messages" in notice(snapshot_of(Feed(), state="reading"), None).text
    played.traffic["op"].lag, played.traffic["finding"].lag = 1200, 34
    found = notice(snapshot_of(played, state="reading"), "nobody")
    assert "1,234 messages" in found.text
    assert "Reading" in found.title
    assert commands(found) == ["paceline doctor"]


def test_connecting_says_so(snapshot_of):
    """The first second is no failure."""
    assert notice(snapshot_of(Feed(), state="connecting"), None).tone == "wait"


def test_a_link_to_an_unknown_job_says_so(played, snapshot_of):
    """A link to a job that never spoke is not silently another job."""
    assert "'nobody'" in notice(snapshot_of(played), "nobody").title


def test_a_running_job_needs_no_notice(played, snapshot_of):
    """All is well: nothing is said."""
    assert notice(snapshot_of(played), None) is None


def test_a_silent_job_is_named_silent(played, snapshot_of):
    """A job that stopped speaking without an end may hang."""
    snapshot = snapshot_of(played, now_s=1100.0)
    assert "100 s ago" in notice(snapshot, None).title
    assert standing(snapshot.job, 1100.0)[0] == "silent"


HANG = {"id": "hang", "kind": "hang", "cause": "unknown", "ranks": [2], "line": "train.py:45 evaluate"}


def test_a_job_that_hangs_is_not_called_running(played, simulated_job, tell, snapshot_of):
    """On the job's page and in the fleet's list: its step, rank and line; and so while its node says nothing more."""
    tell(played, [simulated_job.finding(1, 99, "confirmed", first_step=99, **HANG)])
    snapshot = snapshot_of(played)
    stuck = "stuck at step 99: rank 2, train.py:45 evaluate"
    assert standing(snapshot.job, 1001.0) == standing(snapshot.jobs[0], 1001.0) == (stuck, "lost")
    assert standing(snapshot.job, 1100.0) == standing(snapshot.jobs[0], 1100.0) == (f"silent, {stuck}", "lost")
    tell(played, [simulated_job.finding(2, 99, "recovered", first_step=99, **HANG)])
    assert standing(snapshot_of(played).job, 1001.0) == ("slow: rank 2", "wait")
    tell(played, simulated_job.described(900.0, ended_s=1000.0, exit_status=1))
    assert standing(snapshot_of(played).jobs[0], 1001.0) == ("ended, exit status 1", "lost")


TWICE = {
    "id": "twice",
    "kind": "configuration_mismatch",
    "cause": "configuration",
    "ranks": [],
    "evidence": [Evidence(name="other_ranks", value=4.0, unit="ranks", peers=None, rule="each rank may run once")],
}


def test_a_name_that_two_runs_have_says_so(played, simulated_job, tell, snapshot_of):
    """In the fleet's list, in the title and above the picture, and what the run that is judged does beside it."""
    tell(played, [simulated_job.finding(1, 99, "confirmed", first_step=-1, **TWICE)])
    snapshot = snapshot_of(played)
    said = ("slow: rank 2; two runs of this name", "wait")
    assert standing(snapshot.job, 1001.0) == standing(snapshot.jobs[0], 1001.0) == said
    found = notice(snapshot, None)
    assert (found.title, commands(found)[0][:22]) == (
        "Two runs of this name report at the same time",
        "paceline run --job NAM",
    )
    tell(played, [simulated_job.finding(1, 99, "confirmed", first_step=99, **HANG)])
    assert standing(snapshot_of(played).job, 1001.0)[1] == "lost"
    tell(played, [simulated_job.finding(2, 99, "recovered", first_step=-1, **TWICE)])
    assert "two runs" not in standing(snapshot_of(played).jobs[0], 1001.0)[0]


def test_of_two_runs_that_one_has_ended_ends_no_job(played, simulated_job, tell, snapshot_of):
    """Steps that begin well after the goodbye are of the other one."""
    tell(played, simulated_job.described(900.0, ended_s=990.0, exit_status=1))
    assert snapshot_of(played).jobs[0].ended_s == 990.0
    tell(played, simulated_job.timings(1015.0, 100, 5), 1015.0)
    assert (snapshot_of(played).jobs[0].ended_s, snapshot_of(played).job.ended_s) == (None, None)


def test_a_job_whose_findings_have_recovered_runs(played, simulated_job, tell, snapshot_of):
    """Only what is open counts."""
    tell(played, [simulated_job.finding(3, 99, "recovered")])
    assert standing(snapshot_of(played).jobs[0], 1001.0) == ("running", "good")


def test_an_ended_job_keeps_its_picture(played, simulated_job, tell, snapshot_of):
    """The end is told; the steps are still there."""
    tell(played, simulated_job.described(900.0, ended_s=1000.0, exit_status=0))
    snapshot = snapshot_of(played)
    assert "ended" in notice(snapshot, None).title
    assert snapshot.job.steps.size == 100


def test_beside_an_ended_job_only_one_that_reports_is_said_to_run(played, simulated_job, tell, snapshot_of):
    """Another that was killed without a goodbye never ends, and runs no more."""
    tell(played, simulated_job.described(900.0, ended_s=1000.0, exit_status=0))
    tell(played, SimulatedJob(2, 1, 0, 0, "killed").described(0.0), 10.0)

    def shown():
        return notice(snapshot_of(played, job=played.view("default", "demo")), None).text

    assert "Another job runs" not in shown()
    tell(played, SimulatedJob(2, 1, 0, 0, "next").described(995.0), 1000.0)
    assert "Another job runs: next." in shown()


def test_a_failed_job_says_its_exit_status(played, simulated_job, tell, snapshot_of):
    """A failure is told with its number."""
    tell(played, simulated_job.described(900.0, ended_s=1000.0, exit_status=137))
    found = notice(snapshot_of(played), None)
    assert (found.tone, "137" in found.title) == ("lost", True)
    assert "See the job's own output for why it failed." in found.text
    died = {"kind": "died", "id": "died", "summary": "Died: rank 1: killed (SIGKILL)"}
    tell(played, [simulated_job.finding(1, 99, "confirmed", **died)])
    assert notice(snapshot_of(played), None).text == "The page keeps its last picture. Why it failed is under Findings."


def test_timings_without_windows_name_the_missing_processor(simulated_job, tell, snapshot_of):
    """Timings but no windows: nobody runs the processor."""
    feed = Feed()
    tell(feed, simulated_job.timings(900.0, 0, 10), 900.0)
    tell(feed, simulated_job.timings(940.0, 10, 10), 940.0)
    assert STREAMS[0] in commands(notice(snapshot_of(feed, now_s=941.0), None))


def test_a_job_whose_windows_stop_says_so(played, simulated_job, tell, snapshot_of):
    """The worker hung in the middle: what it said before is no verdict on what comes now."""
    for first in range(100, 160, 20):
        tell(played, simulated_job.timings(900.0 + first, first, 20), 900.0 + first)
    found = notice(snapshot_of(played, now_s=1060.0), None)
    assert re.fullmatch(r"The last [\d.]+ s of this job are not judged yet", found.title)
    assert "no stream worker" not in found.text
    assert commands(found)[0] == DOCTOR[0]


def test_steps_of_a_clock_that_was_ahead_wait_for_no_verdict(simulated_job, tell, snapshot_of):
    """They are dated after the newest step, for the clock was set back."""
    feed = Feed()
    for at_s, first in ((4_540.0, 0), (4_570.0, 20), (1_000.0, 40)):
        tell(feed, simulated_job.timings(at_s, first, 20), 1_000.0)
    tell(feed, [simulated_job.window(1_010.0, 59)])
    assert notice(snapshot_of(feed), None) is None


def test_a_job_of_long_steps_is_not_without_a_worker(simulated_job, tell, snapshot_of):
    """One whole step after the window's end: the next window is not due before the step is over."""
    feed = Feed()
    tell(feed, simulated_job.timings(900.0, 0, 20), 900.0)
    tell(feed, [simulated_job.window(920.0, 19)], 920.0)
    tell(feed, simulated_job.timings(980.0, 20, 1), 980.0)
    assert notice(snapshot_of(feed, now_s=981.0), None) is None
