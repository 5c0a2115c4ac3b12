"""What Slurm's own words mean for a trial: outputs as Slurm 22.05 printed them, and some that nobody has seen."""

import pytest

from trials.slurm_states import MEANINGS, away, no_such, own, plain, submitted, told

PENDING = (
    "JobId=2 JobName=paceline-a-r0 UserId=root(0) GroupId=root(0) MCS_label=N/A Priority=4294901758 Nice=0 "
    "Account=(null) QOS=(null) JobState=PENDING Reason=Resources Dependency=(null) Requeue=1 Restarts=0 BatchFlag=1 "
    "Reboot=0 ExitCode=0:0 RunTime=00:00:00 TimeLimit=UNLIMITED TimeMin=N/A SubmitTime=2026-11-25T13:30:18 "
    "StartTime=Unknown EndTime=Unknown Partition=all ReqNodeList=n1 ExcNodeList=(null) NodeList= NumNodes=1 "
    "Command=/tmp/a/run.sh WorkDir=/work Comment=paceline-trial:ab:r0  StdErr=/tmp/a/x.out StdIn=/dev/null Power=\n"
)


def said(state: str, reason: str = "None", code: str = "0:0", ran: str = "00:00:00") -> str:
    """The same job, further on."""
    text = PENDING.replace("JobState=PENDING Reason=Resources", f"JobState={state} Reason={reason}")
    return text.replace("ExitCode=0:0 RunTime=00:00:00", f"ExitCode={code} RunTime={ran}")


def test_a_job_that_waits_says_why():
    """Slurm's own word; nothing where it has not thought of one yet."""
    found = told(PENDING)
    assert found is not None
    assert (found.number, found.comment, found.meaning, found.waits) == (
        "2", "paceline-trial:ab:r0", "waits", "PENDING: Resources",
    )  # fmt: skip
    none_yet = told(said("PENDING"))
    assert none_yet is not None
    assert none_yet.waits == ""


@pytest.mark.parametrize(
    ("text", "meaning", "status"),
    [
        (said("RUNNING", ran="1-02:03:04"), "runs", 0),
        (said("COMPLETING", "NonZeroExitCode", "3:0"), "runs", 3),
        (said("COMPLETED"), "ended", 0),
        (said("FAILED", "NonZeroExitCode", "3:0"), "ended", 3),
        (said("FAILED", "JobLaunchFailure", "0:9"), "ended", 137),
        (said("OUT_OF_MEMORY", "OutOfMemory", "0:125"), "ended", 253),
        (said("TIMEOUT", "TimeLimit", "0:15"), "killed", 143),
        (said("CANCELLED", "None", "0:15"), "gone", 143),
        (said("NODE_FAIL", "NodeDown", "1:0"), "gone", 1),
        (said("PREEMPTED", "None", "0:15"), "gone", 143),
        (said("A_NEW_STATE"), "runs", 0),
    ],
)
def test_each_state_has_one_meaning(text, meaning, status):
    """A job whose state nobody knows has not ended, and what a signal ended has the status that shells give."""
    found = told(text)
    assert found is not None
    assert (found.meaning, found.status) == (meaning, status)


def test_an_unknown_state_is_told():
    found = told(said("A_NEW_STATE"))
    assert found is not None
    assert "no state known" in found.waits
    assert "A_NEW_STATE" not in MEANINGS


@pytest.mark.parametrize("text", ["", "\n", "No jobs in the system\n", "JobId=x JobState=RUNNING", "JobId=7 JobName=a"])
def test_what_is_no_job_is_none(text):
    assert told(text) is None


def test_only_the_first_job_counts_and_nothing_moves_a_cursor():
    """Reasons come from administrators' plugins."""
    found = told(said("PENDING", "\x1b[2J" + "x" * 500) + said("COMPLETED"))
    assert found is not None
    assert found.waits.startswith("PENDING: [2J")
    assert len(found.waits) < 250


def test_jobs_of_ours_are_found_by_their_comment():
    """Of those that have not ended; a name with bars in it is nobody's of ours."""
    text = (
        "5|CANCELLED|paceline-trial:ab:r0\n6|RUNNING|paceline-trial:ab:r0\n7|RUNNING|paceline-trial:ab:r0-more\nx|y\n"
    )
    assert own(text, "paceline-trial:ab:r0") == ["6"]
    assert own("12_3|RUNNING|c\n|RUNNING|c\n", "c") == []


@pytest.mark.parametrize(
    ("text", "number"),
    [("7\n", "7"), ("7;cluster\n", "7"), ("sbatch: a plugin's word\n12\n", "12"), ("Submitted\n", ""), ("7 8\n", "")],
)
def test_a_job_s_number_is_read_from_what_sbatch_prints(text, number):
    """Site plugins like to say something before it."""
    assert submitted(text) == number


def test_words_of_slurm_s_clients():
    """As they print them: whom nobody answers asks again, and whom nobody knows does not."""
    assert away("slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n")
    assert away("scontrol: slurm_load_jobs error: Socket timed out on send/recv operation\n")
    assert not away("sbatch: error: Batch job submission failed: Invalid node name specified\n")
    assert no_such("slurm_load_jobs error: Invalid job id specified\n")
    assert plain("a\r\n\x1b]0;b\x07") == "a ]0;b"
