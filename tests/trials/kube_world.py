"""A trial's executor on a cluster of the tests', with a clock that a test advances.

Rule of this file: nothing sleeps; what waits, advances the clock.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from tests.trials.kube_cluster import Cluster
from trials.executor import Ended, Job
from trials.kubernetes import KubernetesExecutor


class World:
    """``executor`` is the trial's; ``again`` is the same trial after it was killed."""

    def __init__(self, cluster: Cluster, folder: Path, token: str = "") -> None:
        self.cluster, self.folder, self.now_s = cluster, folder, 1000.0
        self.slept: list[float] = []
        self.asleep: Callable[[], None] = lambda: None
        path = folder / "kubeconfig"
        path.write_text(yaml.safe_dump(_kubeconfig(cluster.url, token)))
        self.options = {"name": "big batch", "folder": str(folder / "trial"), "image": "training:1", "namespace": "ml"}
        self.options |= {"kubeconfig": str(path)}
        self.executor = self.again()

    def again(self, **options: Any) -> KubernetesExecutor:
        return KubernetesExecutor({**self.options, **options}, clock=lambda: self.now_s, sleep=self._sleep)

    def use(self, **options: Any) -> None:
        """Other options, for the same trial."""
        self.options |= options
        self.executor = self.again()

    def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds
        self.asleep()

    def job(self, **changes: Any) -> Job:
        folder = self.folder / "trial" / "r0-n0-p1-t0"
        environ = {"PACELINE_TRIAL_RANKS": "2"}
        made = Job("r0-n0-p1-t0", ("train", "{node_rank}"), folder, 30.0, 100.0, environ=environ)
        return replace(made, **changes)

    def poll(self, job: Job, after_s: float = 1.0) -> Ended | None:
        self.now_s += after_s
        return self.executor.poll(job)


def _kubeconfig(url: str, token: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1", "kind": "Config", "current-context": "lab",
        "clusters": [{"name": "lab", "cluster": {"server": url}}],
        "users": [{"name": "me", "user": {"token": token} if token else {}}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "me"}}],
    }  # fmt: skip


def document(job: str = "r0-n0-p1-t0", **fields: Any) -> bytes:
    """What a node says of its run, as a line of its log."""
    told = {"job": job, "node": "n", "outcome": "measured", "blocks_s": [0.1] * 10, "median_s": 0.1, "steps": 100}
    return b"PACELINE-TRIAL " + json.dumps({**told, **fields}).encode() + b"\n"
