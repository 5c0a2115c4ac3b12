"""What Kubernetes is handed for a job: an Indexed Job, the Secret of its variables, and a Service for several nodes.

Rule of this file: pure. A pod is each node's part of the job. No shell reads the command, and Kubernetes, which fills
in ``$(NAME)`` itself, finds none that the command has not got from here. Pods keep to the level `restricted`.
"""

import hashlib
import json
import math
import re
from typing import Any

import msgspec

from .executor import ExecutorError, Job
from .kube_options import KubernetesOptions, Volume

Object = dict[str, Any]
#: Labels: of every pod of every trial; of this trial; of this job. And what the job was made of.
NAME, MARK, JOB_ID, TRIAL = (
    "app.kubernetes.io/name",
    "paceline.dev/trial-mark",
    "paceline.dev/trial-job",
    "paceline.dev/trial",
)
OURS = "paceline-trial"
DIGEST = "paceline.dev/trial-digest"
CONTAINER = "trial"
#: Where ranks meet: each pod has ports of its own.
PORT = 29_500
#: From SIGTERM to SIGKILL: for the recording to end; what a Job lives longer than it waits and runs.
GRACE_S, SPARE_S = 60, 120
#: Nodes of a job, bytes of its command and of its variables.
MOST_NODES, MOST_COMMAND, MOST_ENVIRON = 512, 256 * 1024, 512 * 1024
LONGEST_NAME = 52
_RANK = "PACELINE_TRIAL_NODE_RANK"
_INDEX = "batch.kubernetes.io/job-completion-index"
_WORD = re.compile(r"\{(nodes|node_rank|master|port)\}")


def checked(options: KubernetesOptions, job: Job) -> None:
    """Raises: ExecutorError: Kubernetes cannot run this job, or it cannot be written down."""
    if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?", job.id):
        raise ExecutorError(f"job {job.id!r}: its id may hold 63 letters, digits and hyphens")
    for what, wanted in (("gpus", job.gpus), ("cpus", job.cpus), ("numa", job.numa)):
        if wanted is not None:
            counts = "gpus_per_node" if what == "gpus" else "cpus_per_node"
            said = f"Kubernetes gives a pod so many devices, and chooses which: no {what} of a trial there"
            raise ExecutorError(f"job {job.id}: {said}; fix: executor.kubernetes.{counts}, a number")
    if bad := [node for node in job.on if not re.fullmatch(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", node)]:
        raise ExecutorError(f"job {job.id}: {bad[0]!r} is no node's name")
    if job.on and len(set(job.on)) != job.nodes:
        raise ExecutorError(f"job {job.id}: {job.nodes} nodes, and {len(set(job.on))} are named")
    if not (math.isfinite(job.limit_s) and 0 < job.limit_s <= 604_800 and 0 < job.nodes <= MOST_NODES):
        raise ExecutorError(f"job {job.id}: {job.nodes} nodes for {job.limit_s:g} s; allowed: a week, {MOST_NODES}")
    _check_words(job)


def _check_words(job: Job) -> None:
    if not job.command or any("\0" in word for word in job.command):
        raise ExecutorError(f"job {job.id}: no command that can be run")
    if sum(len(word.encode()) for word in job.command) > MOST_COMMAND:
        raise ExecutorError(f"job {job.id}: a command of more than {MOST_COMMAND} bytes")
    if bad := [name for name in job.environ if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,252}", name)]:
        raise ExecutorError(f"job {job.id}: {bad[0]!r} is no variable's name")
    if sum(len(name) + len(value.encode()) for name, value in job.environ.items()) > MOST_ENVIRON:
        raise ExecutorError(f"job {job.id}: variables of more than {MOST_ENVIRON} bytes")


def name_of(options: KubernetesOptions, mark: str, job: Job) -> str:
    """The name of the Job, its Secret and its Service; pods' host names are this and their index.

    >>> made = KubernetesOptions(name="Big_batch.", folder="/f", image="i")
    >>> name_of(made, "0123456789abcdef", Job("r0-n0-p1-t0", ("x",), "/f", 1, 1))
    'paceline-big-batch-r0-n0-p1-t0-01234567'
    """
    slug = re.sub(r"[^a-z0-9]+", "-", options.name.lower()).strip("-")[:16].strip("-") or "trial"
    told = f"paceline-{slug}-{job.id}-{mark[:8]}"
    if len(told) <= LONGEST_NAME and told == told.lower():
        return told
    return f"paceline-{slug}-{hashlib.sha256(job.id.encode()).hexdigest()[:12]}-{mark[:8]}"


def labels(options: KubernetesOptions, mark: str, job: Job) -> dict[str, str]:
    """What a trial knows its own by."""
    trial = re.sub(r"[^A-Za-z0-9_.-]+", "-", options.name)[:63].strip("-_.") or "trial"
    return {NAME: OURS, "app.kubernetes.io/managed-by": "paceline", TRIAL: trial, MARK: mark, JOB_ID: job.id}


def selector(mark: str, job_id: str = "") -> str:
    """All of a trial, or of one job of it."""
    return f"{MARK}={mark}" + (f",{JOB_ID}={job_id}" if job_id else "")


def command(job: Job, name: str) -> list[str]:
    """The words as a container has them: what a node knows filled in, and a dollar doubled, as Kubernetes wants it.

    >>> job = Job("a", ("sh", "-c", "echo $(id) {node_rank}/{nodes} {master}"), "/f", 1, 1, nodes=2)
    >>> command(job, "paceline-a")
    ['sh', '-c', 'echo $$(id) $(PACELINE_TRIAL_NODE_RANK)/2 paceline-a-0.paceline-a']
    """
    master = f"{name}-0.{name}" if job.nodes > 1 else "127.0.0.1"
    known = {"nodes": str(job.nodes), "node_rank": f"$({_RANK})", "master": master, "port": str(PORT)}
    return [_WORD.sub(lambda found: known[found[1]], word.replace("$", "$$")) for word in job.command]


def job_object(options: KubernetesOptions, mark: str, job: Job) -> Object:
    """The Job.

    Raises:
        ExecutorError: Kubernetes cannot run it.
    """
    checked(options, job)
    name, own = name_of(options, mark, job), labels(options, mark, job)
    metadata = {"labels": {**options.labels, **own}, "annotations": dict(options.annotations)}
    template = {
        "metadata": _without_empty(metadata),
        "spec": _pod(options, mark, job, name),
    }
    spec = {
        "completionMode": "Indexed",
        "completions": job.nodes,
        "parallelism": job.nodes,
        "backoffLimit": 0,
        "activeDeadlineSeconds": math.ceil(options.wait_s + job.limit_s) + SPARE_S,
        "ttlSecondsAfterFinished": math.ceil(options.keep_s),
        "template": template,
    }
    digest = hashlib.sha256(json.dumps([spec, dict(job.environ)], sort_keys=True).encode()).hexdigest()[:32]
    named = _metadata(options, name, {**options.labels, **own}, {**options.annotations, DIGEST: digest})
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": named, "spec": spec}


def _metadata(options: KubernetesOptions, name: str, labels: Object, annotations: Object | None = None) -> Object:
    made = {"name": name, "namespace": options.namespace, "labels": labels}
    return made | ({"annotations": annotations} if annotations else {})


def _pod(options: KubernetesOptions, mark: str, job: Job, name: str) -> Object:
    volumes, mounts = _volumes(options)
    container = {
        "name": CONTAINER,
        "image": options.image,
        "command": command(job, name),
        "env": _env(gpus=bool(options.gpus_per_node)),
        "envFrom": [{"secretRef": {"name": one}} for one in (*options.secrets, name)],
        "resources": _resources(options, job),
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": mounts,
        "imagePullPolicy": options.pull_policy,
    }
    pod = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": GRACE_S,
        "securityContext": _security(options),
        "containers": [_without_empty(container)],
        "volumes": volumes,
        "subdomain": name if job.nodes > 1 else None,
        "serviceAccountName": options.service_account,
        "priorityClassName": options.priority_class,
        "imagePullSecrets": [{"name": one} for one in options.pull_secrets],
        "nodeSelector": dict(options.node_selector),
        "tolerations": [msgspec.to_builtins(one) for one in options.tolerations],
        "affinity": _affinity(options, mark, job),
    }
    return _without_empty(pod)


def _without_empty(held: Object) -> Object:
    return {key: value for key, value in held.items() if value not in (None, {}, [])}


def _env(*, gpus: bool) -> list[Object]:
    """What the pod is told of itself; the rank of its node is the index that the Job has given it."""
    fields = {
        _RANK: f"metadata.annotations['{_INDEX}']",
        "POD_NAME": "metadata.name",
        "POD_NAMESPACE": "metadata.namespace",
        "NODE_NAME": "spec.nodeName",
    }
    own = [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()]
    # NVIDIA's runtime shows all GPUs to an image of theirs that asks for none.
    none = [] if gpus else [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]
    return [*own, {"name": "TMPDIR", "value": "/tmp"}, *none]  # noqa: S108 - the pod's own


def _security(options: KubernetesOptions) -> Object:
    made = {"runAsUser": options.run_as_user, "fsGroup": options.fs_group}
    return {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}} | _without_empty(made)


def _resources(options: KubernetesOptions, job: Job) -> Object:
    """Asked for and no more: a neighbour that lends and takes back would be measured with it."""
    gpus = job.ranks_per_node if options.gpus_per_node == "ranks" else options.gpus_per_node
    wanted = {"cpu": options.cpus_per_node, "memory": options.memory, options.gpu_resource: gpus or None}
    told = {name: str(value) for name, value in wanted.items() if value is not None}
    return {"limits": told, "requests": dict(told)} if told else {}


def _volumes(options: KubernetesOptions) -> tuple[list[Object], list[Object]]:
    volumes: list[Object] = [
        {"name": "tmp", "emptyDir": {"sizeLimit": options.scratch}},
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": options.shm}},
    ]
    mounts: list[Object] = [{"name": "tmp", "mountPath": "/tmp"}, {"name": "shm", "mountPath": "/dev/shm"}]  # noqa: S108
    for at, one in enumerate(options.volumes):
        volumes.append({"name": f"v{at}", **_source(one)})
        mounts.append({"name": f"v{at}", "mountPath": one.mount, "readOnly": one.read_only})
    return volumes, mounts


def _source(volume: Volume) -> Object:
    if volume.claim:
        return {"persistentVolumeClaim": {"claimName": volume.claim, "readOnly": volume.read_only}}
    if volume.config_map:
        return {"configMap": {"name": volume.config_map}}
    return {"secret": {"secretName": volume.secret}}


def _affinity(options: KubernetesOptions, mark: str, job: Job) -> Object:
    """On the nodes that are named; beside no pod of a trial, whoever's it is, unless the options allow it."""
    made: Object = {}
    if job.on:
        terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [one]}]} for one in job.on]
        made["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    apart: Object = {"topologyKey": "kubernetes.io/hostname"}
    if options.exclusive:
        apart |= {"labelSelector": {"matchLabels": {NAME: OURS}}, "namespaceSelector": {}}
    elif job.on:
        apart |= {"labelSelector": {"matchLabels": {MARK: mark, JOB_ID: job.id}}}
    else:
        return made
    return made | {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}


def owned_objects(options: KubernetesOptions, mark: str, job: Job, uid: str = "") -> list[Object]:
    """What goes with the Job: the Secret of its variables, and where several nodes meet. ``uid`` is the Job's."""
    name, own = name_of(options, mark, job), labels(options, mark, job)
    metadata = _metadata(options, name, own)
    if uid:
        metadata["ownerReferences"] = [{"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid}]
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": dict(job.environ)}
    if job.nodes == 1:
        return [secret]
    spec = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {MARK: mark, JOB_ID: job.id},
        "ports": [{"name": "ranks", "port": PORT}],
    }
    return [secret, {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}]
