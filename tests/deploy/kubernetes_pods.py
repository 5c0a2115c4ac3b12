"""Pods as a cluster makes them of a manifest: what the operator adds, and what the kubelet puts into the environment.

Rule of this file: as far as the manifests here go, and by the operators' and the kubelet's documents. There is no
cluster in the tests: labels, annotations and variables of Kubeflow's training-operator 1.9 and Trainer 2.3 stand here.
"""

import copy
import re
from typing import Any

Pod = dict[str, Any]
_KEYED = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")
PORT = "29500"


def of_pytorchjob(manifest: dict[str, Any]) -> list[Pod]:
    """The master, then the workers: one pod each replica."""
    job, spec = manifest["metadata"], manifest["spec"]
    replicas = [
        (role.lower(), index, one)
        for role, one in sorted(spec["pytorchReplicaSpecs"].items())
        for index in range(one["replicas"])
    ]
    pods = []
    for rank, (role, index, one) in enumerate(replicas):
        name = f"{job['name']}-{role}-{index}"
        pod = _pod(name, job["namespace"], one["template"])
        pod["metadata"]["labels"] |= {
            "training.kubeflow.org/job-name": job["name"],
            "training.kubeflow.org/operator-name": "pytorchjob-controller",
            "training.kubeflow.org/replica-index": str(index),
            "training.kubeflow.org/replica-type": role,
        }
        peers = _torch(len(replicas), spec["nprocPerNode"], rank, f"{job['name']}-master-0")
        peers |= {"PYTHONUNBUFFERED": "1", "WORLD_SIZE": str(len(replicas)), "RANK": str(rank)}
        peers |= {"MASTER_ADDR": f"{job['name']}-master-0", "MASTER_PORT": PORT}
        _add(pod, peers)
        pods.append(pod)
    return pods


def of_trainjob(manifest: dict[str, Any], attempt: int = 0) -> list[Pod]:
    """The pods of the JobSet that Trainer makes with the runtime torch-distributed, at its restart ``attempt``."""
    job, trainer = manifest["metadata"], manifest["spec"]["trainer"]
    container = {
        "name": "node",
        "resources": trainer["resourcesPerNode"],
        **{key: trainer[key] for key in ("image", "command", "args", "env")},
    }
    pods = []
    for index in range(trainer["numNodes"]):
        name = f"{job['name']}-node-0-{index}"
        pod = _pod(f"{name}-x7k2p", job["namespace"], {"spec": {"containers": [container]}})
        told = {"jobset.sigs.k8s.io/jobset-name": job["name"], "jobset.sigs.k8s.io/restart-attempt": str(attempt)}
        told |= {
            "jobset.sigs.k8s.io/replicatedjob-name": "node",
            "batch.kubernetes.io/job-completion-index": str(index),
        }
        pod["metadata"]["annotations"] |= told
        pod["metadata"]["labels"] |= told | {"batch.kubernetes.io/job-name": f"{job['name']}-node-0"}
        _add(
            pod, _torch(trainer["numNodes"], trainer["numProcPerNode"], index, f"{job['name']}-node-0-0.{job['name']}")
        )
        _add(pod, {"JOB_COMPLETION_INDEX": str(index)})
        pods.append(pod)
    return pods


def _pod(name: str, namespace: str, template: dict[str, Any]) -> Pod:
    pod = copy.deepcopy(template)
    metadata = {"labels": {}, "annotations": {}} | pod.get("metadata", {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata | {"name": name, "namespace": namespace},
        "spec": pod["spec"],
    }


def _torch(nodes: int, processes: Any, rank: int, master: str) -> dict[str, str]:
    told = {"NNODES": nodes, "NPROC_PER_NODE": processes, "NODE_RANK": rank, "MASTER_ADDR": master, "MASTER_PORT": PORT}
    return {f"PET_{name}": str(value) for name, value in told.items()}


def _add(pod: Pod, variables: dict[str, str]) -> None:
    container = pod["spec"]["containers"][0]
    container["env"] = [*container.get("env", []), *({"name": name, "value": text} for name, text in variables.items())]


def environ(pod: Pod, node: str) -> dict[str, str]:
    """The environment of the pod's first container on ``node``: what the downward API names is filled in.

    A label or an annotation that is not there is empty, as the kubelet has it.
    """
    return {one["name"]: _value(one, pod, node) for one in pod["spec"]["containers"][0]["env"]}


def _value(variable: dict[str, Any], pod: Pod, node: str) -> str:
    if "valueFrom" not in variable:
        return str(variable.get("value", ""))
    path = variable["valueFrom"]["fieldRef"]["fieldPath"]
    keyed = _KEYED.fullmatch(path)
    if keyed is not None:
        return str(pod["metadata"].get(keyed[1], {}).get(keyed[2], ""))
    told = {"metadata.name": pod["metadata"]["name"], "metadata.namespace": pod["metadata"]["namespace"]}
    return str((told | {"spec.nodeName": node})[path])


def command(pod: Pod) -> list[str]:
    """What the first container runs."""
    container = pod["spec"]["containers"][0]
    return [*container["command"], *container.get("args", [])]
