"""Full rows are asked for while a job's finding is open and the job is heard of, once every minute and a half."""

from pathlib import Path

import msgspec
import pytest

from paceline import topics, wire
from paceline.events import Finding, FullRows, HostWindow, JobWindow
from paceline.events.silence import ROWS_SILENT_S
from streams.full_rows import AGAIN_S, FULL_ROWS_S, LONG_S, MOST_JOBS, FullRowsRequests

GOLDEN = Path(__file__).parents[1] / "paceline" / "golden" / "v1"
FINDING: Finding = wire.decode(topics.FINDING, (GOLDEN / "Finding.json").read_bytes())
WINDOW: JobWindow = wire.decode(topics.WINDOW, (GOLDEN / "JobWindow.json").read_bytes())
HOST: HostWindow = wire.decode(topics.WINDOW, (GOLDEN / "HostWindow.json").read_bytes())
UNIX_S = 1_763_720_000.0


def finding(job="a", state="suspected", number=1, **fields):
    return msgspec.structs.replace(FINDING, job=job, state=state, id=f"{job}/{number}", cluster="lab", **fields)


def window(job="a"):
    return msgspec.structs.replace(WINDOW, job=job, cluster="lab")


class Worker:
    """What a worker says second by second, and the targets that are asked meanwhile."""

    def __init__(self):
        self.requests = FullRowsRequests("streams-1")
        self.now_s = 1000.0
        self.asked = []

    def say(self, *events):
        for event in events:
            self.requests.update(event, self.now_s)

    def pass_time(self, seconds, *events):
        for _ in range(seconds):
            self.say(*events)
            self.asked += [(self.now_s - 1000.0, command.target) for command in self.tick()]
            self.now_s += 1.0

    def tick(self):
        return self.requests.tick(self.now_s, UNIX_S + self.now_s)


@pytest.fixture
def worker():
    return Worker()


@pytest.mark.parametrize("state", ["suspected", "confirmed"])
def test_an_open_finding_asks_at_once(worker, state):
    """A command that a sidecar takes: of this job, in force until it expires, by us."""
    worker.say(finding(state=state))
    (command,) = worker.tick()
    assert (command.target, command.action, command.issuer) == ("job:a", "full_rows", "paceline-streams")
    assert (command.cluster, command.id) == ("lab", "streams-1-1")
    assert msgspec.convert(command.arguments, FullRows) == FullRows(seconds=FULL_ROWS_S)
    assert command.expires_s == UNIX_S + 1000.0 + FULL_ROWS_S
    assert wire.decode(topics.COMMAND, wire.encode(command)) == command


def test_it_is_asked_again_before_it_runs_out_for_as_long_as_the_finding_is_open(worker):
    """Never twice within half a minute, however often the finding is revised."""
    worker.pass_time(200, finding(), finding(state="confirmed"), window())
    assert [at for at, _ in worker.asked] == [0.0, AGAIN_S, 2 * AGAIN_S]
    assert 30 <= AGAIN_S < FULL_ROWS_S


def test_a_recovered_job_is_left_alone(worker):
    """With the last of its findings, not before."""
    worker.say(finding(number=1), finding(number=2))
    worker.pass_time(100, window())
    worker.say(finding(number=1, state="recovered"))
    worker.pass_time(100, window())
    worker.say(finding(number=2, state="recovered"))
    worker.pass_time(300, window())
    assert len(worker.asked) == 3


def test_a_job_that_is_suspected_and_cleared_by_turns_is_asked_no_more_often(worker):
    """What was asked for a minute ago is still in force."""
    for _ in range(85):
        worker.pass_time(1, finding())
        worker.pass_time(1, finding(state="recovered"))
    assert [at for at, _ in worker.asked] == [0.0, AGAIN_S]


def test_a_job_that_is_silent_is_not_asked_until_it_speaks_again(worker):
    """It has ended, hangs, or is another worker's by now: there are no rows to be full."""
    worker.say(finding())
    worker.pass_time(500)
    assert len(worker.asked) == 1
    worker.pass_time(1, window())
    assert len(worker.asked) == 2
    assert ROWS_SILENT_S < AGAIN_S


def test_each_job_is_asked_by_itself(worker):
    """Jobs without a finding are asked nothing."""
    worker.pass_time(1, finding(job="a"), finding(job="b"), window("c"), HOST)
    assert worker.asked == [(0.0, "job:a"), (0.0, "job:b")]


def test_jobs_of_one_name_in_two_clusters_are_two(worker):
    """Each is asked in its own."""
    worker.say(finding(), msgspec.structs.replace(finding(), cluster="other"))
    assert [command.cluster for command in worker.tick()] == ["lab", "other"]


@pytest.mark.parametrize("job", ["", "x" * 201, "x" * 100_000], ids=["none", "long", "huge"])
def test_a_finding_of_no_job_or_of_one_that_no_target_can_name_asks_nothing(worker, job):
    """A node's finding has none."""
    worker.pass_time(1, finding(job=job))
    assert worker.asked == []


def test_a_state_of_a_newer_version_is_not_open(worker):
    """Nothing is asked for what is not understood."""
    worker.pass_time(1, finding(state="observed"))
    assert worker.asked == []


@pytest.mark.long
def test_what_is_kept_is_bounded(worker):
    """Of very many jobs the newest, of very many findings of one job as many as need be."""
    for number in range(2 * MOST_JOBS):
        worker.say(finding(job=f"job-{number}"))
    for number in range(10_000):
        worker.say(finding(job="last", number=number))
    commands = worker.tick()
    assert len(commands) == MOST_JOBS
    assert commands[-1].target == "job:last"
    assert worker.requests.tick(worker.now_s, UNIX_S) == []


def test_what_lasts_is_asked_for_ten_minutes_and_what_is_new_again(worker):
    """Work that is cut unevenly stays so for all of a job's life; another finding is a new reason, a revision none."""
    worker.say(finding())
    worker.pass_time(2000, window(), finding(state="confirmed"))
    asked_s = [at_s for at_s, _ in worker.asked]
    assert asked_s == [number * AGAIN_S for number in range(7)]
    assert asked_s[-1] < LONG_S <= asked_s[-1] + AGAIN_S
    worker.say(finding(number=2))
    assert len(worker.tick()) == 1
