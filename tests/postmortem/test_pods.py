"""What Kubernetes says: pods killed at their memory limit, and pods that were ended from outside."""

import json

import pytest
import yaml

from postmortem.deciding.decide import decide
from postmortem.reading.files import read
from postmortem.reading.kubectl_yaml import documents


def described(index, state="Error", before=None, rank=True, devices=1, top="", events=""):
    """As ``kubectl describe pod`` prints it."""

    def end(title, reason):
        code = {"OOMKilled": 137, "Error": 1, "Completed": 0}.get(reason)
        if code is None:
            return f"    {title}:          {reason}\n      Started:      Fri, 20 Nov 2026 09:00:00 +0000\n"
        return f"    {title}:          Terminated\n      Reason:       {reason}\n      Exit Code:    {code}\n"

    return (
        f"Name:             llm-worker-{index}\nNamespace:        ml\nPriority:         0\n"
        f"Node:             gpu-{index}/10.0.0.{index}\nStatus:           Failed\n{top}"
        f"Containers:\n  pytorch:\n    Container ID:  containerd://ab\n{end('State', state)}"
        f"{end('Last State', before) if before else ''}    Restart Count:  0\n"
        f"    Limits:\n      memory:          64Gi\n      nvidia.com/gpu:  {devices}\n"
        f"    Environment:\n{f'      RANK:        {index}' if rank else '      PYTHONUNBUFFERED:  1'}\n"
        f"Conditions:\n  Type    Status\n  Ready   False\nEvents:\n"
        f"  Type     Reason     Age   From     Message\n  ----     ------     ----  ----     -------\n{events}\n"
    )


def pod(index, reason="Error", code=1, rank=True, devices="1", status=None, last=None):
    """As ``kubectl get pod -o json`` prints it."""
    ended = {"terminated": {"exitCode": code, "reason": reason}} if reason else {"running": {}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"llm-worker-{index}", "namespace": "ml"},
        "spec": {
            "nodeName": f"gpu-{index}",
            "containers": [
                {
                    "name": "pytorch",
                    "env": [{"name": "RANK", "value": str(index)}] if rank else [],
                    "resources": {"limits": {"memory": "64Gi", "nvidia.com/gpu": devices}},
                }
            ],
        },
        "status": {
            "phase": "Failed",
            "containerStatuses": [{"name": "pytorch", "state": ended, "lastState": last or {}}],
            **(status or {}),
        },
    }


def pods(*items):
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=4)


def victim(rank, stamp=""):
    return (
        f"[pod/llm-worker-{rank}/pytorch] {stamp}[rank{rank}]: RuntimeError: "
        "[/g/gloo/transport/tcp/pair.cc:561] Connection closed by peer [10.0.0.2]:1234.\n"
    )


def verdict(folder, **files):
    for name, text in files.items():
        (folder / f"{name}.txt").write_text(text)
    return decide(read([str(folder)], 1 << 30).statements)


def as_yaml(text):
    """What ``-o yaml`` prints in place of ``-o json``."""
    return yaml.dump(json.loads(text), default_flow_style=False, sort_keys=True)


OOM_KILLED = {
    "described": "".join(described(index, "OOMKilled" if index == 2 else "Error") for index in range(4)),
    "restarted": "".join(described(index, "Running", "OOMKilled" if index == 2 else None) for index in range(4)),
    "json": pods(*(pod(index, *(("OOMKilled", 137) if index == 2 else ())) for index in range(4))),
    "json of one": json.dumps(pod(2, "OOMKilled", 137), indent=4),
    "json, restarted": pods(pod(2, None, last={"terminated": {"exitCode": 137, "reason": "OOMKilled"}}), pod(1)),
    "yaml": as_yaml(pods(*(pod(index, *(("OOMKilled", 137) if index == 2 else ())) for index in range(4)))),
    "yaml of one": as_yaml(json.dumps(pod(2, "OOMKilled", 137))),
    "yaml, one after the other": "---\n".join(
        as_yaml(json.dumps(pod(index, *(("OOMKilled", 137) if index == 2 else ())))) for index in range(4)
    ),
    "yaml, restarted": as_yaml(pods(pod(2, None, last={"terminated": {"exitCode": 137, "reason": "OOMKilled"}}))),
    "yaml, windows": as_yaml(json.dumps(pod(2, "OOMKilled", 137))).replace("\n", "\r\n"),
    "windows": described(2, "OOMKilled").replace("\n", "\r\n"),
}


@pytest.mark.parametrize("form", OOM_KILLED)
@pytest.mark.parametrize("logged", [False, True])
def test_the_rank_of_a_pod_that_was_killed_for_memory_is_named(tmp_path, form, logged):
    log = "".join(victim(rank) for rank in (0, 1, 3)) if logged else ""
    found = verdict(tmp_path, pods=OOM_KILLED[form], job=log)
    assert (found.kind, found.ranks, found.nodes) == ("died", (2,), ("gpu-2",))
    assert found.victims == ((0, 1, 3) if logged else ())
    assert "llm-worker-2" in found.cause
    assert "memory limit" in found.cause


@pytest.mark.parametrize("form", [described(2, "OOMKilled", devices=8), pods(pod(2, "OOMKilled", 137, devices="8"))])
def test_the_rank_of_a_pod_with_several_devices_is_not_named(tmp_path, form):
    """A launcher inside it gives out ranks; RANK is then the number of the pod, or of nothing."""
    found = verdict(tmp_path, pods=form)
    assert (found.kind, found.ranks, found.nodes) == ("died", (), ("gpu-2",))
    assert "llm-worker-2" in found.cause


@pytest.mark.parametrize("rank", [True, False])
def test_the_log_says_which_rank_a_pod_has(tmp_path, rank):
    """And it is believed before the pod's own RANK."""
    log = victim(0) + "[pod/llm-worker-2/pytorch] [rank7]: step 4\n"
    assert verdict(tmp_path, pods=described(2, "OOMKilled", rank=rank), job=log).ranks == (7,)


def test_several_ranks_of_one_pod_in_the_log_accuse_none(tmp_path):
    log = victim(0) + "".join(f"[pod/llm-worker-2/pytorch] [rank{rank}]: step 4\n" for rank in (4, 5))
    found = verdict(tmp_path, pods=described(2, "OOMKilled"), job=log)
    assert (found.kind, found.ranks) == ("died", ())


def test_pods_that_were_all_killed_for_memory_accuse_none(tmp_path):
    found = verdict(tmp_path, pods="".join(described(index, "OOMKilled") for index in range(4)))
    assert (found.kind, found.ranks) == ("died", ())


def test_an_earlier_end_does_not_explain_a_later_one(tmp_path):
    assert verdict(tmp_path, pods=described(2, "Error", "OOMKilled")) is None


@pytest.mark.parametrize("stamp", ["", "2026-11-20T09:13:57.123456789Z "])
def test_stamps_behind_the_prefix_are_taken_off(tmp_path, stamp):
    """``kubectl logs --prefix --timestamps``."""
    said = (
        "Traceback (most recent call last):",
        '  File "/app/train.py", line 10, in step',
        "ValueError: bad label",
    )
    log = victim(0, stamp) + "".join(f"[pod/llm-worker-2/pytorch] {stamp}[rank2]: {line}\n" for line in said)
    log += victim(1, stamp)  # While rank 2's traceback may still go on.
    found = verdict(tmp_path, job=log)
    assert (found.ranks, found.victims, found.line) == ((2,), (0, 1), "/app/train.py:10 step")


#: As kubectl prints it, with what pods also hold: blocks of text, folded lines, quotes, empty parts, affinities.
KUBECTL = """\
apiVersion: v1
items:
- apiVersion: v1
  kind: Pod
  metadata:
    annotations:
      checksum/config: "012"
      note: |
        status:
          reason: Evicted
    creationTimestamp: "2026-11-20T09:00:00Z"
    name: llm-worker-2
    namespace: ml
  spec:
    affinity:
      nodeAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          nodeSelectorTerms:
          - matchExpressions:
            - key: gpu
              operator: In
              values:
              - h100
    containers:
    - args:
      - -c
      - 'torchrun train.py: --name ''x'''
      - |
        set -e
        reason: Evicted
      env:
      - name: RANK
        value: "2"
      - name: POD
        valueFrom:
          fieldRef:
            fieldPath: metadata.name
      image: registry.example/llm:1
      name: pytorch
      resources:
        limits:
          memory: 64Gi
          nvidia.com/gpu: "1"
      volumeMounts:
      - mountPath: /dev/shm
        name: shm
    nodeName: gpu-2
    securityContext: {}
  status:
    conditions:
    - lastProbeTime: null
      message: 'containers with unready status: [pytorch], which were ended because
        of their memory'
      status: "False"
      type: Ready
    containerStatuses:
    - image: registry.example/llm:1
      lastState: {}
      name: pytorch
      ready: false
      restartCount: 0
      state:
        terminated:
          exitCode: 137
          reason: OOMKilled
          startedAt: "2026-11-20T09:00:00Z"
    hostIP: 10.0.0.2
    phase: Failed
kind: List
metadata:
  resourceVersion: ""
"""


def without_breaks(data):
    """``data`` without indents and ends of blocks of text, in which this reader and YAML differ."""
    if isinstance(data, dict):
        return {key: without_breaks(value) for key, value in data.items()}
    if isinstance(data, list):
        return [without_breaks(one) for one in data]
    return " ".join(data.split())


def test_what_kubectl_prints_as_yaml_is_read_like_json(tmp_path):
    (read_,) = documents(KUBECTL)
    assert without_breaks(read_) == without_breaks(yaml.load(KUBECTL, yaml.BaseLoader))
    found = verdict(tmp_path, pods=KUBECTL)
    assert (found.kind, found.ranks, found.nodes) == ("died", (2,), ("gpu-2",))


@pytest.mark.parametrize("cut", range(0, len(KUBECTL), 97))
def test_yaml_that_is_cut_harms_nothing(tmp_path, cut):
    verdict(tmp_path, pods=KUBECTL[:cut])


@pytest.mark.parametrize(
    "hostile",
    [
        "- " * 100_000,
        "".join(f"{' ' * depth}a:\n" for depth in range(400)),
        "a: &x [*x, *x]\nb: *x\n",
        "a: !!python/object/apply:os.system ['true']\n",
        "items: 7\nkind: List\n",
        "kind: Pod\nstatus: []\nspec:\n- 7\nmetadata: x\n",
        '"' * 5000 + ":\n",
        "a" * 1_000_000,
    ],
)
def test_hostile_yaml_is_read_in_bounds_or_not_at_all(tmp_path, hostile):
    assert verdict(tmp_path, pods=f"apiVersion: v1\n{hostile}") is None


def test_other_yaml_in_a_folder_is_passed_over(tmp_path):
    (tmp_path / "config.yaml").write_text("model:\n  error: 'RuntimeError: CUDA out of memory. Tried to allocate'\n")
    assert read([str(tmp_path)], 1 << 30) == ([], 0, [])
    (tmp_path / "pods.yaml").write_text(KUBECTL)
    assert decide(read([str(tmp_path)], 1 << 30).statements).ranks == (2,)


EVENTS = "LAST SEEN   TYPE      REASON             OBJECT             MESSAGE\n"
OUTSIDE = {
    "evicted": (
        described(2, top="Reason:           Evicted\nMessage:          The node was low on resource: memory.\n")
    ),
    "evicted, json": pods(pod(2, status={"reason": "Evicted", "message": "The node was low on resource: memory."})),
    "evicted, events": EVENTS + "5m          Warning   Evicted   pod/llm-worker-2   The node was low on resource\n",
    "deadline": EVENTS + "5m   Warning   DeadlineExceeded   job/llm   Job was active longer than specified deadline\n",
    "preempted": described(2, events="  Warning  Preempted  5m   scheduler  Preempted by pod 1 on node gpu-2\n"),
    "shutdown": described(
        2,
        top="Reason:           Terminated\n"
        "Message:          Pod was terminated in response to imminent node shutdown.\n",
    ),
    "shutdown, json": pods(
        pod(
            2,
            status={
                "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}],
            },
        )
    ),
}


@pytest.mark.parametrize("form", OUTSIDE)
def test_what_was_ended_from_outside_accuses_no_rank(tmp_path, form):
    """Although the log of another rank names the pod's as the first that was gone."""
    log = "".join(victim(rank) for rank in (0, 1, 3)) + "[pod/llm-worker-2/pytorch] [rank2]: step 4\n"
    found = verdict(tmp_path, pods=OUTSIDE[form], job=log)
    assert (found.kind, found.ranks) == ("died", ())
    assert found.cause.startswith("ended from outside")


def raised(before):
    """An exception of rank 2, with what its log has ``before`` each line."""
    lines = ("Traceback (most recent call last):", '  File "/app/train.py", line 10, in step', "ValueError: bad label")
    return "".join(f"{before}[rank2]: {line}\n" for line in lines)


def event_of(kind, name, reason):
    """As ``kubectl get events -o json`` prints it."""
    of = {"kind": kind, "name": name}
    return json.dumps({"apiVersion": "v1", "kind": "Event", "involvedObject": of, "reason": reason}, indent=1)


ANOTHERS = {
    "evicted, events": EVENTS + "5m   Warning   Evicted   pod/other-0   The node was low on resource: memory\n",
    "evicted": event_of("Pod", "web-7d9f", "Evicted"),
    "deadline, events": EVENTS + "5m   Warning   DeadlineExceeded   job/nightly-28912   Job was active longer than\n",
    "deadline": event_of("Job", "nightly-28912", "DeadlineExceeded"),
    "killed": pods(*(pod(index) for index in range(3)), pod("x7f2k", "OOMKilled", 137, rank=False)),
}


@pytest.mark.parametrize("of", ANOTHERS)
@pytest.mark.parametrize("before", ["[pod/llm-worker-2/pytorch] ", ""])
def test_what_happened_to_another_job_explains_no_exception(tmp_path, of, before):
    """What Kubernetes says is of the whole namespace, whether the job's own pods are known or not."""
    found = verdict(tmp_path, pods=ANOTHERS[of], job=raised(before))
    assert (found.kind, found.ranks) == ("died", (2,))
    assert "ValueError: bad label" in found.cause


def test_another_jobs_rank_that_was_killed_explains_no_exception(tmp_path):
    """Its pod has a RANK, but none of the names that are in the log."""
    killed = pod(1, "OOMKilled", 137) | {"metadata": {"name": "other-master-0"}}
    found = verdict(tmp_path, pods=pods(killed), job=raised("[pod/llm-worker-2/pytorch] "))
    assert (found.kind, found.ranks) == ("died", (2,))


@pytest.mark.parametrize("of", ANOTHERS)
def test_what_happened_to_a_job_that_may_be_this_one_is_likely(tmp_path, of):
    """Where no line says in which pods the ranks ran, and no rank failed by itself."""
    peer = "RuntimeError: [/g/gloo/transport/tcp/pair.cc:561] Connection closed by peer [10.0.0.2]:1234."
    found = verdict(tmp_path, pods=ANOTHERS[of], job=f"[rank1]: {peer}\n")
    assert (found.kind, found.ranks, found.sure) == ("died", (), "likely")


@pytest.mark.parametrize("name", ["llm-worker-2", "llm-worker-2-x7f2k"])
def test_a_pod_of_the_same_set_as_those_that_wrote_is_the_jobs(tmp_path, name):
    """Its own log is not there; a Job's pods have letters of their own behind their numbers."""
    killed = pod(2, "OOMKilled", 137, rank=False) | {"metadata": {"name": name}}
    log = victim(0).replace("llm-worker-0", name.replace("2", "0", 1).replace("x7f2k", "b9q4z"))
    found = verdict(tmp_path, pods=pods(killed), job=log)
    assert (found.kind, found.sure, name in found.cause) == ("died", "certain", True)


@pytest.mark.parametrize(
    "data",
    [
        {"apiVersion": 1, "kind": "Pod"},
        {"apiVersion": "v1", "kind": "List", "items": [1]},
        {"apiVersion": "v1", "kind": "List", "items": {"a": 1}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": [], "spec": {"containers": [{"env": {}}, 3]}, "status": 4},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "status": {"containerStatuses": {"a": 1}}},
        {"apiVersion": "v1", "kind": "Event", "involvedObject": None, "reason": ["Evicted"]},
    ],
)
def test_what_is_no_pod_says_nothing(tmp_path, data):
    assert verdict(tmp_path, pods=json.dumps(data, indent=1)) is None


@pytest.mark.long
def test_a_description_that_is_cut_is_read_as_far_as_it_goes(tmp_path):
    text = described(2, "OOMKilled")
    for end in range(0, len(text), 7):
        found = verdict(tmp_path, pods=text[:end])
        assert found is None or found.ranks in ((), (2,))


def test_a_thousand_pods_are_read(tmp_path):
    items = [pod(n, *(("OOMKilled", 137) if n == 1000 else ())) for n in range(1024)]
    found = verdict(tmp_path, pods=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    assert found.ranks == (1000,)
