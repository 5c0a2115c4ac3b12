"""The real Ray's surroundings: what its daemons are started with."""

from experiments.ray_cluster.__main__ import environment
from experiments.ray_cluster.check import TRAIN
from paceline.kafka.settings import BrokerSettings


def test_daemons_are_started_with_nothing_of_our_own_job(monkeypatch, tmp_path):
    """Where the check itself runs in a job, or below another Ray, its cluster knows nothing of that."""
    for name in ("SLURM_JOB_ID", "PACELINE_JOB", "PACELINE_NODE", "RAY_ADDRESS", "RAY_JOB_ID"):
        monkeypatch.setenv(name, "7")
    environ = environment(BrokerSettings().with_brokers("127.0.0.1:1"), tmp_path)
    assert not {"SLURM_JOB_ID", "PACELINE_JOB", "PACELINE_NODE", "RAY_ADDRESS", "RAY_JOB_ID"} & set(environ)
    assert environ["PACELINE_BROKERS"] == "127.0.0.1:1"


def test_what_trains_is_the_script_of_the_frameworks_and_knows_nothing_of_paceline():
    assert "paceline" not in TRAIN.read_text().lower()
