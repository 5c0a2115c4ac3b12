"""The batch script of a trial's job: what the options ask for, and nothing that somebody else's words could add."""

import json
import shlex
import subprocess
from pathlib import Path

import pytest

from trials.executor import ExecutorError, Job
from trials.slurm_script import comment, environment, job_name, read, script, told

OPTIONS = {"name": "batch", "folder": "/shared/trial"}


def made(**more):
    """A job, with what differs."""
    usual = {"id": "r0-n0-p1-t0", "command": ("python", "a.py"), "folder": Path("/shared/trial/r0"), "expected_s": 30.0}
    return Job(**{**usual, "limit_s": 90.0, **more})


def directives(text):
    return [line.removeprefix("#SBATCH ") for line in text.splitlines() if line.startswith("#SBATCH")]


def test_the_options_are_what_sbatch_is_asked():
    """A limit is whole minutes there, with one to spare; a node each for one task, alone."""
    options = read(
        {**OPTIONS, "partition": "gpu", "account": "team", "gpus_per_node": 4, "cpus_per_node": 16, "memory": "64G"}
    )
    text = script(options, made(nodes=2, on=("n1", "n2"), gpus=(0, 3)), "/opt/python")
    asked = directives(text)
    assert {
        "--nodes=2", "--ntasks=2", "--ntasks-per-node=1", "--nodelist=n1,n2", "--time=3", "--partition=gpu",
        "--exclusive", "--account=team", "--gpus-per-node=4", "--cpus-per-task=16", "--mem=64G", "--no-requeue",
        "--job-name=paceline-batch-r0-n0-p1-t0",
    } <= set(asked)  # fmt: skip
    assert "srun --nodes=2 --ntasks=2" in text
    assert not [one for one in directives(script(read({**OPTIONS, "exclusive": False}), made(), "p")) if "excl" in one]


@pytest.mark.slow
def test_the_script_is_one_that_bash_reads_and_has_no_word_of_the_command():
    """Nor a value of the environment: whoever may ask Slurm may read a script."""
    job = made(command=("sh", "-c", "$(touch /tmp/x); 'secret'"), environ={"TOKEN": "hidden"}, folder=Path("/a b/%j"))
    text = script(read(OPTIONS), job, "/opt/a python")
    assert subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True, check=False).stderr == ""
    assert not any(word in text for word in ("secret", "touch", "hidden", "TOKEN"))
    assert shlex.quote("/opt/a python") in text
    assert '--output="/a b/%%j/slurm.log"' in directives(text)
    assert json.loads(told(job))["command"] == list(job.command)


@pytest.mark.parametrize("name", ["$(rm -rf /)", "a\nb", "#SBATCH --uid=0", "-" * 200, "ü", " "])
def test_a_trial_may_have_any_name(name):
    """In Slurm it is letters, digits and hyphens, and its jobs' comment tells it from all others."""
    options = read({**OPTIONS, "name": name})
    assert job_name(options, made()).replace("-", "").isalnum()
    assert len(directives(script(options, made(), "p"))) == len(directives(script(read(OPTIONS), made(), "p")))
    assert comment(options, made()) != comment(read({**OPTIONS, "name": "other"}), made())


@pytest.mark.parametrize(
    ("job", "said"),
    [
        ({"id": "a;b"}, "letters, digits and hyphens"),
        ({"on": ("n1;reboot",)}, "no node's name"),
        ({"on": ("n1", "n1"), "nodes": 2}, "1 are named"),
        ({"folder": Path("relative")}, "takes no such path"),
        ({"folder": Path('/a"b')}, "takes no such path"),
        ({"limit_s": float("nan")}, "allowed: a week"),
        ({"nodes": 0}, "allowed: a week"),
        ({"command": ()}, "no command"),
        ({"command": ("a\0b",)}, "no command"),
        ({"environ": {"A B": ""}}, "no variable's name"),
        ({"environ": {"SLURM_CONF": "x"}}, "Slurm's own"),
        ({"gpus": (0, 4)}, "gpus_per_node"),
    ],
)
def test_a_job_that_cannot_be_is_refused_with_its_reason(job, said):
    with pytest.raises(ExecutorError, match=said):
        script(read({**OPTIONS, "gpus_per_node": 4}), made(**job), "p")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"partition": "a b"}, "partition"),
        ({"partition": "x\n#SBATCH --uid=0"}, "partition"),
        ({"memory": "lots"}, "memory"),
        ({"gpus_per_node": -1}, "gpus_per_node"),
        ({"parallel": 1000}, "parallel"),
        ({"late_s": "nan"}, "late_s"),
        ({"unknown": 1}, "allowed: "),
        ({"options": ["-p x"]}, "allowed: --name"),
        ({"options": ["--reservation=a b"]}, "allowed: --name"),
        ({"options": ["--constraint=$(id)"]}, "allowed: --name"),
        ({"options": ["--wrap=true"]}, "set by paceline trial itself"),
    ],
)
def test_an_option_that_is_not_allowed_is_named(options, said):
    with pytest.raises(ExecutorError, match=said):
        read({**OPTIONS, **options})


def test_what_sites_need_besides_is_passed_on():
    options = read({**OPTIONS, "options": ["--reservation=night", "--constraint=a100&nvlink", "--licenses=x:2"]})
    assert directives(script(options, made(), "p"))[-3:] == options.options


def test_the_environment_is_the_caller_s_without_its_own_job():
    """A site's defaults stay where the options say nothing; secrets come by it, and not by the script."""
    environ = {
        "PATH": "/bin", "SLURM_JOB_ID": "7", "SLURM_CONF": "/etc/s", "SBATCH_PARTITION": "night", "SBATCH_ACCOUNT": "a",
        "SBATCH_REQUEUE": "1", "PACELINE_BROKERS": "b",
    }  # fmt: skip
    found = environment(read({**OPTIONS, "account": "team"}), {"TOKEN": "x"}, environ)
    assert found == {
        "PATH": "/bin", "SLURM_CONF": "/etc/s", "SBATCH_PARTITION": "night", "PACELINE_BROKERS": "b", "TOKEN": "x"
    }  # fmt: skip
