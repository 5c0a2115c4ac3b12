"""Several pods of one job on one node each have a part of their own in what is said of the job."""

from paceline import topics, wire
from paceline.job_life import JobLife
from tests.derived_events import described


def part(pod: str, **changes):
    return described(labels={"kubernetes_pod": pod} if pod else {}, **changes)


def test_each_pod_has_a_key_of_its_own() -> None:
    """Compaction keeps one message a key; without a pod the key is what it was."""
    keys = {wire.key_of(topics.JOB, part(pod)) for pod in ("", "train-0", "train-1")}
    assert keys == {"train/node-1", "train/node-1/train-0", "train/node-1/train-1"}


def test_a_job_goes_on_until_its_last_pod_on_a_node_has_left() -> None:
    life = JobLife(0)
    for pod in ("train-0", "train-1"):
        life.update(part(pod))
    life.update(part("train-0", ended_s=10.0))
    assert life.ended_s is None
    life.update(part("train-1", ended_s=12.0))
    assert life.ended_s == 12.0
