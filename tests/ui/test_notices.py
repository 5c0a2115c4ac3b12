from ui.feed import Feed
from ui.notices import DEMO, DOCTOR, RUN, STREAMS, notice, standing


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
    assert "is kept below" in found.text
    assert commands(found) == ["paceline doctor"]


def test_an_empty_bus_names_the_commands_that_fill_it(snapshot_of):
    """Connected, no data: run your job, or see the demo."""
    found = notice(snapshot_of(Feed()), None)
    assert {RUN[0], DEMO[0]} <= set(commands(found))


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


def test_an_ended_job_keeps_its_picture(played, simulated_job, tell, snapshot_of):
    """The end is told; the steps are still there."""
    tell(played, simulated_job.described(900.0, ended_s=1000.0, exit_status=0))
    snapshot = snapshot_of(played)
    assert "ended" in notice(snapshot, None).title
    assert snapshot.job.steps.size == 100


def test_a_failed_job_says_its_exit_status(played, simulated_job, tell, snapshot_of):
    """A failure is told with its number."""
    tell(played, simulated_job.described(900.0, ended_s=1000.0, exit_status=137))
    found = notice(snapshot_of(played), None)
    assert (found.tone, "137" in found.title) == ("lost", True)


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
    assert found.title == "No verdict for this job"
    assert commands(found)[0] == DOCTOR[0]


def test_a_job_of_long_steps_is_not_without_a_worker(simulated_job, tell, snapshot_of):
    """One whole step after the window's end: the next window is not due before the step is over."""
    feed = Feed()
    tell(feed, simulated_job.timings(900.0, 0, 20), 900.0)
    tell(feed, [simulated_job.window(920.0, 19)], 920.0)
    tell(feed, simulated_job.timings(980.0, 20, 1), 980.0)
    assert notice(snapshot_of(feed, now_s=981.0), None) is None
