"""``paceline trial`` on Kubernetes from spec to table: pods are real processes, the cluster is the tests' own."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.trials.kube_cluster import Cluster
from tests.trials.kube_world import World
from tests.trials.kubelet import BIN, Kubelet, gone, running

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("pytorch")]
ROLE = Path(__file__).parents[2] / "deploy" / "kubernetes" / "trial-role.yaml"
TORCHRUN = (
    "torchrun", "--nnodes", "{nodes}", "--node-rank", "{node_rank}", "--nproc-per-node", "1", "--master-addr",
    "{master}", "--master-port", "{port}", "-m", "paceline.training.example", "--seconds", "600",
)  # fmt: skip


class Lab:
    """A cluster with a kubelet, and a folder with a spec."""

    def __init__(self, cluster: Cluster, kubelet: Kubelet, folder: Path) -> None:
        self.cluster, self.kubelet, self.folder = cluster, kubelet, folder
        self.started: list[subprocess.Popen[str]] = []
        self.kubeconfig = World(cluster, folder, "token").options["kubeconfig"]

    def trial(self, placements: dict, *command: str, **spec: object) -> "subprocess.Popen[str]":
        """``paceline trial --run`` with it."""
        kubernetes = {"image": "training:1", "namespace": "ml", "kubeconfig": self.kubeconfig}
        told = {"name": "lab", "placements": placements, "executor": {"kubernetes": kubernetes}, **spec}
        (self.folder / "trial.yaml").write_text(yaml.safe_dump({"rungs": 1, "repeats": 1, "warm_up": 2, **told}))
        words = [BIN / "paceline", "trial", "trial.yaml", "--run", "--json", "--folder", "trial", "--", *command]
        made = subprocess.Popen(words, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.started.append(made)
        return made


@pytest.fixture
def lab(free_port: Callable[[], int], tmp_path: Path) -> Iterator[Lab]:
    """It allows what the Role of the docs allows, and no more."""
    with Cluster(free_port(), {"token": next(yaml.safe_load_all(ROLE.read_text()))["rules"]}) as cluster:
        kubelet = Kubelet(cluster, tmp_path, free_port())
        made = Lab(cluster, kubelet, tmp_path)
        yield made
        for process in made.started:
            process.kill()
            process.communicate()
        kubelet.close()


def test_a_trial_measures_pods_that_train_together(lab: Lab) -> None:
    """torchrun in two pods, over the names that the executor gives; a table comes out, and nothing is left."""
    process = lab.trial({"nodes": [2]}, *TORCHRUN, seconds=1)
    told, said = process.communicate(timeout=240)
    assert process.returncode == 0, said
    (run,) = json.loads(told)["placements"]
    assert run["runs"] == 1, told
    assert run["rate"], told
    assert lab.cluster.left() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_trial_that_is_ended_leaves_nothing(lab: Lab, until: Callable, number: signal.Signals) -> None:
    """No Job, no pod, no process of the training."""
    mark = f"sleeps-{os.getpid()}-{number}"
    process = lab.trial(
        {"nodes": [1]}, "python", "-c", f"import time; time.sleep(600)  # {mark} {{node_rank}}", seconds=1
    )
    until(lambda: len(running(f"# {mark} 0")) >= 1 and process.poll() is None)
    process.send_signal(number)
    _, said = process.communicate(timeout=240)
    assert process.returncode == 130, said
    assert lab.cluster.left() == []
    assert gone(mark)


def test_a_trial_that_was_killed_goes_on_with_its_job(lab: Lab, until: Callable) -> None:
    """kill -9, and the same command: the Job that runs is found, and there is no second one."""
    script = lab.folder / "train.py"
    script.write_text(
        "import pathlib, sys, time\nwhile not pathlib.Path(sys.argv[1]).exists(): time.sleep(0.1)\nsys.exit(5)\n"
    )
    command = ("python", str(script), str(lab.folder / "end"), "{node_rank}")
    first = lab.trial({"nodes": [1]}, *command, seconds=1)
    until(lambda: running(f"{lab.folder}/end\0000"))
    first.kill()
    first.communicate()
    uid = lab.cluster.all("Job")[0]["metadata"]["uid"]
    second = lab.trial({"nodes": [1]}, *command, seconds=1)
    asked = len(lab.cluster.asked)
    until(lambda: any("/pods" in one.path for one in lab.cluster.asked[asked:]))
    assert [one["metadata"]["uid"] for one in lab.cluster.all("Job")] == [uid]
    (lab.folder / "end").touch()
    _, said = second.communicate(timeout=240)
    assert "crashed: status 5" in said
    assert lab.cluster.left() == []
