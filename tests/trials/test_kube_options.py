"""What a spec may say of Kubernetes, and how a mistake in it is told."""

from typing import Any

import pytest

from trials.executor import ExecutorError
from trials.kube_options import read

BASE = {"name": "a", "folder": "/f", "image": "training:1"}


def test_the_least_is_an_image() -> None:
    """All else has a value."""
    made = read(BASE)
    assert (made.namespace, made.gpus_per_node, made.exclusive, made.parallel) == ("default", 0, True, 1)


def test_an_image_must_be_named() -> None:
    """And the error names all there is."""
    with pytest.raises(ExecutorError, match=r"executor\.kubernetes: .*image.*allowed: image, namespace"):
        read({"name": "a", "folder": "/f"})


@pytest.mark.parametrize(
    "wrong",
    [
        {"image": ""}, {"image": "a b"}, {"image": "-x"}, {"imagge": "x"}, {"namespace": "Bad_"}, {"namespace": "a\n"},
        {"memory": "64 GB"}, {"memory": "-1Gi"}, {"shm": "1e99"}, {"gpus_per_node": -1}, {"gpus_per_node": "all"},
        {"gpus_per_node": 10_000}, {"cpus_per_node": 0}, {"node_selector": {"a b": "x"}}, {"labels": {"a": "x y"}},
        {"labels": {"paceline.dev/trial-mark": "x"}}, {"labels": {"job-name": "x"}},
        {"annotations": {"batch.kubernetes.io/job-completion-index": "7"}}, {"annotations": {"a": "x" * 5000}},
        {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}, {"volumes": [{"mount": "/data"}]},
        {"volumes": [{"mount": "data", "claim": "c"}]}, {"volumes": [{"mount": "/d", "claim": "c", "secret": "s"}]},
        {"volumes": [{"mount": "/d", "claim": "c"}, {"mount": "/d/", "claim": "e"}]},
        {"volumes": [{"mount": "/tmp", "claim": "c"}]}, {"volumes": [{"mount": "/", "claim": "c"}]},
        {"volumes": [{"mount": "/d", "host_path": "/"}]}, {"tolerations": [{"effect": "Sometimes"}]},
        {"run_as_user": 0}, {"parallel": 0}, {"parallel": 65}, {"wait_s": float("nan")}, {"wait_s": 1e9},
        {"patience_s": -1}, {"pull_policy": "Sometimes"}, {"secrets": ["A"]}, {"kubeconfig": ""},
    ],
    ids=str,
)  # fmt: skip
def test_what_is_not_allowed_is_refused(wrong: dict[str, Any]) -> None:
    """Each with a sentence that names the option."""
    with pytest.raises(ExecutorError, match=r"^executor\.kubernetes"):
        read({**BASE, **wrong})


def test_queues_may_be_named() -> None:
    """Kueue's label and the autoscaler's annotation are there to be written by a person."""
    told = {"labels": {"kueue.x-k8s.io/queue-name": "lab"}}
    told |= {"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}}
    assert read({**BASE, **told}).labels == {"kueue.x-k8s.io/queue-name": "lab"}
