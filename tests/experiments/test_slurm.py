"""The real Slurm's surroundings: what jobs are submitted with, and whose rights the collector is tried with."""

from types import SimpleNamespace

from experiments.slurm.__main__ import CASES, environment
from experiments.slurm.collector import capabilities
from experiments.slurm.train import NAMES
from experiments.slurm.trials import Executing
from paceline.kafka.settings import BrokerSettings
from paceline.launchers import LAUNCHERS


def test_jobs_are_submitted_with_nothing_of_our_own_job(monkeypatch, tmp_path):
    """Where the check itself runs in a job, or with settings of its caller's, its jobs know nothing of that."""
    for name in ("SLURM_JOB_ID", "PACELINE_JOB", "PACELINE_CLUSTER", "OMPI_COMM_WORLD_RANK"):
        monkeypatch.setenv(name, "7")
    environ = environment(BrokerSettings().with_brokers("127.0.0.1:1"), tmp_path)
    own = {name for name in environ if name.startswith(("SLURM", "PACELINE_", "OMPI_"))}
    assert own == {"PACELINE_BROKERS", "PACELINE_SPOOL_DIR"}


def test_the_collector_is_tried_with_the_rights_of_its_unit():
    assert [capabilities(drop_in) for drop_in in (False, True)] == ["-all", "-all,+sys_ptrace,+dac_read_search"]


def test_the_training_script_knows_who_it_is_by_names_that_paceline_reads():
    ours = {name for launcher in LAUNCHERS for name in launcher}
    assert set(NAMES["RANK"]) <= ours


def test_cases_have_names_of_their_own():
    assert len(set(CASES)) == len(CASES)


def test_a_trial_counts_its_own_jobs_alone(tmp_path):
    """Of the case before, a job may still be ending, with whatever name."""
    rows = "user 14\npaceline-whole-a 21\na name of many words 22\npaceline-wholesale-a 23"
    slurm = SimpleNamespace(folder=tmp_path, environ={}, ask=lambda *_: rows)
    made = Executing(SimpleNamespace(slurm=slurm), "whole")
    assert made.queued() == {"paceline-whole-a": "21"}
